// expect: This type is none of them
#include "weft/compile.hpp"

class Model {
 public:
  explicit Model(int count) : count_(count) {}
  int count() const { return count_; }

 private:
  int count_;
};
int main() {
  auto f = weft::compile([](Model& m, const weft::Tensor& x) { return m.count() ? x : x; });
  Model model(1);
  f(model, weft::Tensor());
}
