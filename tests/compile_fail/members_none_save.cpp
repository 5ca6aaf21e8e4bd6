// expect: a class that needs WEFT_MEMBERS
#include <weft/weft.hpp>

class Model {
 public:
  explicit Model(int features) : layer_(features, 2) {}
  weft::Tensor operator()(const weft::Tensor& x) const { return layer_(x); }

 private:
  weft::nn::Linear layer_;
};
void save(const Model& model) { weft::io::save("model.safetensors", model); }
