// expect: a class that needs WEFT_MEMBERS
#include <weft/weft.hpp>

class Model {
 public:
  explicit Model(int features) : layer_(features, 2) {}
  weft::Tensor operator()(const weft::Tensor& x) const { return layer_(x); }

 private:
  weft::nn::Linear layer_;
};
std::int64_t count(const Model& model) {
  return weft::nn::num_parameters(model) + static_cast<std::int64_t>(weft::nn::parameters(model).size());
}
