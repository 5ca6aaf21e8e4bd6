// What docs/numerics.md promises to the last bit: pointwise chains and reductions of contiguous rows are the same
// numbers eagerly, compiled for one shape, and compiled for all.
#include <cstring>

#include "tests/trace/support.hpp"
#include "weft/random.hpp"

using namespace weft;
using namespace trace_test;

namespace {

template <class T>
bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.dtype() != dtype_of<T> || b.dtype() != dtype_of<T>) return false;
  View<const T> x = a.data<T>(), y = b.data<T>();
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(T)) == 0;
}

std::vector<Tensor> rows(const Tensor& x) {
  return {
      sum(x, 1),
      prod(x * 0.1 + 1, 1),
      amax(x, 1) - amin(x, 1),
      mean(x, 1),
      var(x, 1, 0),
      sum(x * x + 1, 1, true) * x,
      softmax(x, 1),
      exp(tanh(x * 0.7 + 0.1)) / (1 + sigmoid(x)) - log(abs(x) + 0.01),
  };
}

template <class T>
void check_bits(std::initializer_list<std::int64_t> lengths) {
  CompileOptions options{.on_compile_error = OnFailure::raise, .recompile_limit = 100};
  auto fixed = compile(rows, options);
  options.dynamic = true;
  auto symbolic = compile(rows, options);
  Generator rng(11);
  for (std::int64_t length : lengths) {
    Tensor x = normal({3, length}, 0.3, 1, rng, {.dtype = dtype_of<T>});
    std::vector<Tensor> eager = rows(x), one = fixed(x), any = symbolic(x);
    for (std::size_t i = 0; i < eager.size(); ++i) {
      INFO("result ", i, " of rows of ", length);
      CHECK(same_bits<T>(eager[i], one[i]));
      CHECK(same_bits<T>(eager[i], any[i]));
    }
  }
}

}  // namespace

TEST_CASE("bit for bit: reductions of rows, what is fused around them, and chains, in f32") {
  check_bits<float>({1, 17, 64, 4097, 9000});
}

TEST_CASE("bit for bit: the same in f64") { check_bits<double>({15, 1000, 4097}); }
