// compile_scaling chain|wide|unrolled|rows|quotients OPERATIONS: seconds of a function's first call, from its trace to
// its result, and without the C++ compiler: a line of JSON. A chain is one operation after another; wide is a tree over
// as many leaves as it has inner operations; unrolled is a recurrence of so many steps of a product and a tanh; rows is
// the sum of each pointwise row of weft/ops.def so many times; quotients are a sum of so many calls of floor_divide.
// Constants differ, so that no stretch of either is the same kernel as another.
#include <cstdlib>
#include <cstring>

#include "ir/table.hpp"
#include "runtime/host/jit.hpp"
#include "support.hpp"

using namespace weft;

namespace {

int operations = 1000;

Tensor chain(const Tensor& x, const Tensor& y) {
  Tensor z = x;
  for (int i = 0; i < operations; ++i) {
    switch (i % 4) {
      case 0: z = z * y; break;
      case 1: z = z + x; break;
      case 2: z = maximum(z, y); break;
      default: z = z - (0.5 + i); break;
    }
  }
  return z;
}

Tensor wide(const Tensor& x, const Tensor& y) {
  std::vector<Tensor> values;
  for (int i = 0; i < operations / 2; ++i) values.push_back((i % 2 ? x : y) * (1.0 + i));
  while (values.size() > 1) {
    std::size_t half = 0;
    for (std::size_t i = 0; i + 1 < values.size(); i += 2) values[half++] = values[i] + values[i + 1];
    if (values.size() % 2) values[half++] = values.back();
    values.resize(half);
  }
  return values.front();
}

// [32] and [32,32]
Tensor unrolled(const Tensor& x, const Tensor& y) {
  const Tensor weight = reshape(y, {32, 32}), input = slice(x, 0, 0, 32);
  Tensor state = input;
  for (int i = 0; i < operations; ++i) state = tanh(matmul(state, weight) * 0.1 + input * (1.0 + i));
  return state;
}

Tensor rows(const Tensor& x, const Tensor& y) {
  Tensor sum = x;
  for (int i = 0; i < operations; ++i) {
    const Tensor first = x * (1.0 + i), second = y + (0.5 + i), condition = x > 0.01 * i;
    const auto add = [&](const char* name, bool integers, const auto& f) {
      if (!std::strcmp(name, "polygamma")) return;  // its order is a number
      const Tensor a = integers ? cast(first, DType::i32) : first, b = integers ? cast(second, DType::i32) : second;
      sum = sum + cast(f(a, b), DType::f32);
    };
#define WEFT_CALL_1(name) weft::name(a)
#define WEFT_CALL_2(name) weft::name(a, b)
#define WEFT_CALL_3(name) weft::name(condition, a, b)
#define WEFT_POINTWISE(name, arity, dtypes, ...)                                                   \
  add(#name, DTypeClass::dtypes == DTypeClass::bits || DTypeClass::dtypes == DTypeClass::integers, \
      [&](const Tensor& a, [[maybe_unused]] const Tensor& b) { return WEFT_CALL_##arity(name); });
#include "weft/ops.def"
#undef WEFT_CALL_1
#undef WEFT_CALL_2
#undef WEFT_CALL_3
  }
  return sum;
}

Tensor quotients(const Tensor& x, const Tensor& y) {
  Tensor sum = x;
  for (int i = 0; i < operations; ++i) sum = sum + floor_divide(x + (0.5 + i), y);
  return sum;
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 2) operations = std::atoi(arguments[2]);
  const auto is = [&](const char* name) { return count > 1 && !std::strcmp(arguments[1], name); };
  Tensor x = bench::random_normal({1024}, 1), y = bench::random_normal({1024}, 2);
  const auto chosen = is("wide")        ? &wide
                      : is("unrolled")  ? &unrolled
                      : is("rows")      ? &rows
                      : is("quotients") ? &quotients
                                        : &chain;
  auto f = weft::compile(chosen, {.check = weft::Check::never});
  auto start = bench::Clock::now();
  f(x, y).eval();
  double total = bench::seconds_since(start), compiler = weft::jit_counts().compile_seconds;
  std::printf("{\"total\":%.6f,\"graph\":%.6f}\n", total, total - compiler);
}
