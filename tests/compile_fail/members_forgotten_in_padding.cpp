// expect: weft: WEFT_MEMBERS must list every data member, in the order of declaration
#include "weft/compile.hpp"

class Linear {
 public:
  weft::Tensor operator()(const weft::Tensor& x) const { return training_ && count_ ? x : weight_.tensor(); }

 private:
  weft::Param weight_;
  int count_ = 0;
  bool training_ = false;  // where padding would be
  WEFT_MEMBERS(weight_, count_)
};
int main() {
  auto f = weft::compile([](const Linear& m, const weft::Tensor& x) { return m(x); });
  f(Linear(), weft::Tensor());
}
