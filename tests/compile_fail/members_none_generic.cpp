// expect: This type is none of them
#include <weft/weft.hpp>

class Model {
 public:
  explicit Model(int features) : layer_(features, 2) {}
  weft::Tensor operator()(const weft::Tensor& x) const { return layer_(x); }

 private:
  weft::nn::Linear layer_;
};
weft::Tensor step(Model& model, const weft::Tensor& x) {
  auto f = weft::compile([](auto& m, const auto& x) { return m(x); });
  return f(model, x) * 2;
}
