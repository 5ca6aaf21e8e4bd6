// What docs/numerics.md promises to the last bit: pointwise chains and reductions of contiguous rows are the same
// numbers eagerly, compiled for one shape, and compiled for all.
#include <cstring>
#include <random>

#include "base/options.hpp"
#include "ir/table.hpp"
#include "record/record.hpp"
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
      concat({softmax(x * 2, 1), tanh(x) * exp(-x * x), sum(x, 1, true)}, 1),  // written in place
  };
}

template <class T>
void check_bits(std::initializer_list<std::int64_t> lengths, std::initializer_list<std::int64_t> counts = {3}) {
  CompileOptions options{.on_compile_error = OnFailure::raise, .recompile_limit = 100};
  auto fixed = compile(rows, options);
  options.dynamic = true;
  auto symbolic = compile(rows, options);
  Generator rng(11);
  for (std::int64_t count : counts)
    for (std::int64_t length : lengths) {
      Tensor x = normal({count, length}, 0.3, 1, rng, {.dtype = dtype_of<T>});
      std::vector<Tensor> eager = rows(x), one = fixed(x), any = symbolic(x);
      for (std::size_t i = 0; i < eager.size(); ++i) {
        INFO("result ", i, " of ", count, " rows of ", length);
        CHECK(same_bits<T>(eager[i], one[i]));
        CHECK(same_bits<T>(eager[i], any[i]));
      }
    }
}

std::vector<Tensor> of_windows(const Tensor& x) { return {sum(x, {1, 3}), mean(exp(x), {1, 3}), var(x, {1, 3}, 0)}; }

}  // namespace

TEST_CASE("bit for bit: reductions of rows, what is fused around them, and chains, in f32") {
  check_bits<float>({1, 17, 64, 4097, 9000});
}

TEST_CASE("bit for bit: the same in f64") { check_bits<double>({15, 1000, 4097}); }

TEST_CASE("bit for bit: short rows, over which lanes run where there are enough of them") {
  check_bits<float>({2, 3, 8, 9}, {7, 8, 100});
  check_bits<double>({5, 8}, {40});
  Generator rng(12);
  for (const Sizes& sizes : {Sizes{20, 2, 30, 2}, Sizes{9, 2, 10, 4}, Sizes{20, 3, 30, 2}, Sizes{20, 3, 30, 3}}) {
    const Tensor x = normal(sizes, 0.3, 1, rng);
    const std::vector<Tensor> eager = of_windows(x),
                              compiled = compile(of_windows, {.on_compile_error = OnFailure::raise})(x);
    for (std::size_t i = 0; i < eager.size(); ++i) {
      INFO("result ", i, " of ", to_string(x.shape()));
      CHECK(same_bits<float>(eager[i], compiled[i]));
    }
  }
}

TEST_CASE("bit for bit: comparisons of f64, whose masks are of two registers with AVX-512") {
  const auto f = [](const Tensor& x) {
    const Tensor s = square(x);
    return std::vector<Tensor>{sum(elu(1 / x), -1), quantile(s, 1.0), cast(s > addcdiv(x, x, s, -1.0), DType::f64)};
  };
  Generator rng(13);
  for (const std::int64_t length : {2, 6, 17}) {
    const Tensor x = normal({4, length}, 0.3, 1, rng, {.dtype = DType::f64}), row = select(x, 0, 0);
    for (const Tensor& in : {x, row}) {
      const std::vector<Tensor> eager = f(in), compiled = compile(f, {.on_compile_error = OnFailure::raise})(in);
      for (std::size_t i = 0; i < eager.size(); ++i) {
        INFO("result ", i, " of rows of ", length);
        CHECK(same_bits<double>(eager[i], compiled[i]));
      }
    }
  }
}

namespace {

// The same bits, where any NaN is as good as another.
template <class T>
void check_same_numbers(const Tensor& got, const Tensor& expected) {
  REQUIRE(got.dtype() == dtype_of<T>);
  REQUIRE(expected.dtype() == dtype_of<T>);
  View<const T> x = got.data<T>(), y = expected.data<T>();
  REQUIRE(x.size() == y.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    if (std::memcmp(&x[i], &y[i], sizeof(T)) != 0 && (x[i] == x[i] || y[i] == y[i]))
      FAIL_CHECK("element ", i, " is ", x[i], ", not ", y[i]);
}

// Every kind of bit pattern is as likely, and each special value is there.
template <class T, class Bits>
std::vector<T> numbers_of_all_sizes() {
  std::mt19937_64 random(5);
  using Limits = std::numeric_limits<T>;
  std::vector<T> numbers{
      0, 1, Limits::infinity(), Limits::quiet_NaN(), Limits::max(), Limits::min(), Limits::denorm_min()};
  for (std::size_t i = 0, count = numbers.size(); i < count; ++i) numbers.push_back(-numbers[i]);
  for (int i = 0; i < 20000; ++i) {
    numbers.push_back(std::bit_cast<T>(static_cast<Bits>(random())));
    numbers.push_back(static_cast<T>(std::normal_distribution<double>(0, 2)(random)));
  }
  return numbers;
}

std::vector<Tensor> powers(const Tensor& x) { return {pow(x, 1), pow(x, 2), pow(x, 0.5), pow(x, 3)}; }

template <class T, class Bits>
void check_powers() {
  const std::vector<T> numbers = numbers_of_all_sizes<T, Bits>();
  const Tensor x = from_span(std::span(numbers), {static_cast<std::int64_t>(numbers.size())});
  const std::vector<Tensor> eager = powers(x), compiled = compile(powers, {.on_compile_error = OnFailure::raise})(x);
  for (std::size_t i = 0; i < eager.size(); ++i) {
    INFO("power ", i);
    check_same_numbers<T>(compiled[i], eager[i]);
  }
  check_same_numbers<T>(eager[0], x);
  check_same_numbers<T>(eager[1], x * x);
}

// All pointwise primitives of numbers that are known at compile time.
template <class T>
std::vector<Tensor> functions_of_constants() {
  constexpr double numbers[] = {0.3, -1.7, 2, 5.9, 0, -0.0, 1e-3, -40};
  constexpr std::size_t count = std::size(numbers);
  std::vector<Tensor> results;
  for (int number = 0; number < op_count; ++number) {
    const OpInfo& row = info(static_cast<Op>(number));
    const bool bits = row.dtypes == DTypeClass::bits || row.dtypes == DTypeClass::integers,
               floats = row.dtypes == DTypeClass::floating || row.dtypes == DTypeClass::predicate;
    if (row.kind != OpKind::pointwise || (is_floating(dtype_of<T>) ? bits : floats)) continue;
    for (std::size_t first = 0; first < count; ++first) {
      std::vector<Tensor> operands;
      for (std::size_t i = 0; i < static_cast<std::size_t>(row.arity); ++i)
        operands.push_back(full({2}, static_cast<T>(numbers[(first + 3 * i) % count]), {.dtype = dtype_of<T>}));
      if (row.dtypes == DTypeClass::select) operands[0] = operands[0] < operands[1];
      results.push_back(record(static_cast<Op>(number), operands, {}, {}, {}));
    }
  }
  return results;
}

template <class T>
void check_constants() {
  const std::vector<Tensor> eager = functions_of_constants<T>(),
                            compiled = compile(functions_of_constants<T>, {.on_compile_error = OnFailure::raise})();
  REQUIRE(compiled.size() == eager.size());
  for (std::size_t i = 0; i < eager.size(); ++i) {
    INFO("result ", i);
    switch (eager[i].dtype()) {
      case DType::f32: check_same_numbers<float>(compiled[i], eager[i]); break;
      case DType::f64: check_same_numbers<double>(compiled[i], eager[i]); break;
      case DType::i64: check_same_numbers<std::int64_t>(compiled[i], eager[i]); break;
      default: check_same_numbers<bool>(compiled[i], eager[i]);
    }
  }
}

}  // namespace

TEST_CASE("bit for bit: powers, of which a compiled program makes x and x * x") {
  check_powers<float, std::uint32_t>();
  check_powers<double, std::uint64_t>();
}

TEST_CASE("bit for bit: functions of constants") {
  const int optimization = std::exchange(options().kernel_optimization, 1);  // many kernels, each run once
  check_constants<float>();
  check_constants<double>();
  check_constants<std::int64_t>();
  options().kernel_optimization = optimization;
}
