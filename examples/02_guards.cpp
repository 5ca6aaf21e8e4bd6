// Watch a compiled function specialize: what a trace relied on is guarded, and each new specialization says why.
#include <iostream>

#include <weft/weft.hpp>

using namespace weft;

int main() {
  auto scale = compile([](const Tensor& x, float by, Scalar offset) { return x * by + offset; });
  auto report = [&](const char* what) {
    std::cout << what << ": " << specialization_count(scale) << " specialization(s)";
    if (std::string reason = last_recompile_reason(scale); !reason.empty()) std::cout << "; last because " << reason;
    std::cout << "\n";
  };

  Tensor x = ones({64, 10});
  scale(x, 2.0f, 1.0);
  report("first call        ");
  scale(x * 3, 2.0f, 1.0);
  report("other values      ");
  scale(x, 2.0f, 7.5);
  report("other Scalar      ");
  scale(ones({32, 10}), 2.0f, 1.0);
  report("other batch size  ");
  scale(x, 3.0f, 1.0);
  report("other plain float ");

  scale(ones({17, 10}), 3.0f, 1.0);
  scale(ones({5, 10}), 3.0f, 1.0);
  report("two more batches  ");

  // A size that differs becomes a symbol: one more specialization serves all of them. Asked for up front, all sizes
  // are.
  auto any_size = compile([](const Tensor& x) { return softmax(x * 2); }, {.dynamic = true});
  for (int rows : {3, 64, 17, 1000}) any_size(ones({rows, 10}));
  std::cout << "dynamic, four batch sizes: " << specialization_count(any_size) << " specialization(s)\n";
  std::cout << "its guards:\n";
  for (const std::string& guard : explain(any_size, ones({5, 10})).guards) std::cout << "  " << guard << "\n";
}
