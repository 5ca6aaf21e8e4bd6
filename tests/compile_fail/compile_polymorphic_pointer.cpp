// expect: weft: a pointer to a class with virtual functions can be followed where the class derives from weft::Polymorphic
#include <memory>

#include "weft/compile.hpp"
#include "weft/nn.hpp"

struct Layer {
  virtual ~Layer() = default;
  virtual weft::Tensor operator()(const weft::Tensor& x) const = 0;
};
struct Scale final : Layer {
  weft::Param by;
  weft::Tensor operator()(const weft::Tensor& x) const override { return x * by; }
  WEFT_MEMBERS(by)
};
struct Model {
  std::unique_ptr<Layer> layer = std::make_unique<Scale>();
};
int main() {
  auto f = weft::compile([](const Model& m, const weft::Tensor& x) { return (*m.layer)(x); });
  f(Model(), weft::Tensor());
}
