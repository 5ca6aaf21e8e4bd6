// expect: a class that needs WEFT_MEMBERS
#include <weft/weft.hpp>

class Model {
 public:
  explicit Model(int features) : layer_(features, 2) {}
  weft::Tensor operator()(const weft::Tensor& x) const { return layer_(x); }

 private:
  weft::nn::Linear layer_;
};
void move(Model& model) { weft::nn::to(model, weft::Device::cuda()); }
