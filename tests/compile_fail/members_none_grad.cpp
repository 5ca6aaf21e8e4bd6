// expect: a class that needs WEFT_MEMBERS
#include <weft/weft.hpp>

class Model {
 public:
  explicit Model(int features) : layer_(features, 2) {}
  weft::Tensor operator()(const weft::Tensor& x) const { return layer_(x); }

 private:
  weft::nn::Linear layer_;
};
weft::Tensor step(Model& model, const weft::Tensor& x) {
  auto [loss, gradient] = weft::value_and_grad([&](const Model& m) { return weft::sum(m(x)); }, model);
  return loss;
}
