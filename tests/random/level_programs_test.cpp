// Random programs as compiled functions inside a differentiation level: values, gradients and second derivatives are
// those of the plain function. By the eager executor on both sides, which leaves no difference but that of the order in
// which gradients are added up; a few by kernels.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "random/program.hpp"
#include "weft/compile.hpp"
#include "weft/explain.hpp"
#include "weft/grad.hpp"

using namespace weft;
using namespace weft::testing;

namespace {

const Program* program = nullptr;  // that the compiled function is

using List = std::vector<Tensor>;
// `first` are the floating inputs of the program.
List run_program(const List& first, const List& others) {
  List inputs;
  std::size_t a = 0, b = 0;
  for (const ProgramInput& input : program->inputs)
    inputs.push_back(is_floating(input.dtype) ? first[a++] : others[b++]);
  return replay(*program, inputs);
}

Tensor random_tensor(const ProgramInput& input, std::mt19937_64& random) {
  std::int64_t count = 1;
  for (const std::int64_t size : input.sizes) count *= size;
  std::vector<double> values;
  std::normal_distribution<double> normal(0, 1.5);
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(is_floating(input.dtype)        ? normal(random)
                     : input.dtype == DType::boolean ? static_cast<double>(random() % 2)
                                                     : static_cast<double>(random() % 6));
  Shape shape;
  for (const std::int64_t size : input.sizes) shape.push_back(size);
  Tensor value = cast(reshape(from_span<double>(values, {count}), shape), input.dtype);
  value.eval();
  return value;
}

Tensor loss_of(const List& results) {
  Tensor loss = zeros({});
  for (const Tensor& result : results)
    if (is_floating(result.dtype()) && result.element_count().constant() > 0)
      loss = loss + mean(cast(result, DType::f32));
  return loss;
}

// Value, gradients, and gradients of the sum of the squares of the gradients; of a program without a derivative its
// error.
template <class F>
List derivatives(const F& f, const List& first, const List& others) try {
  List all;
  const auto [value, gradients] = value_and_grad([&](const List& x) { return loss_of(f(x, others)); }, first);
  all.push_back(value);
  all.insert(all.end(), gradients.begin(), gradients.end());
  const auto second = grad(
      [&](const List& x) {
        Tensor sum_of_squares = zeros({});
        for (const Tensor& each : grad([&](const List& x) { return loss_of(f(x, others)); }, x))
          sum_of_squares = sum_of_squares + sum(square(cast(each, DType::f32)));
        return sum_of_squares;
      },
      first);
  all.insert(all.end(), second.begin(), second.end());
  for (Tensor& each : all) each = cast(each, DType::f64), each.eval();
  return all;
} catch (const Error&) {
  return {};
}

// The greatest difference relative to the largest element; elements that are not finite in both ways are left out.
double difference(const Tensor& a, const Tensor& b) {
  const auto x = a.data<double>(), y = b.data<double>();
  double greatest = 0, scale = 1e-3;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(x[i]) && !std::isfinite(y[i])) continue;
    scale = std::max(scale, std::abs(x[i]));
    greatest = std::max(greatest, std::isfinite(x[i]) && std::isfinite(y[i]) ? std::abs(x[i] - y[i]) : INFINITY);
  }
  return greatest / scale;
}

// How many programs were compared.
int compare(std::uint64_t seed, int count, const char* backend, double bound) {
  int compared = 0;
  for (int i = 0; i < count; ++i, ++seed) {
    const Program made = make_program(seed, 4 + static_cast<int>(seed % 20));
    program = &made;
    std::mt19937_64 random(seed);
    List first, others;
    for (const ProgramInput& input : made.inputs)
      (is_floating(input.dtype) ? first : others).push_back(random_tensor(input, random));
    if (first.empty()) continue;
    const auto f = compile([](const List& first, const List& others) { return run_program(first, others); },
                           {.check = Check::never, .backend = backend});
    const List plain = derivatives(run_program, first, others), found = derivatives(f, first, others);
    INFO(to_text(made));
    // Where nothing depends on the inputs the plain function throws; of a call it is seen for all of its results at
    // once.
    if (plain.empty()) continue;
    REQUIRE(plain.size() == found.size());
    CHECK(specialization_count(f) == 1);
    ++compared;
    for (std::size_t k = 0; k < plain.size(); ++k) {
      CAPTURE(k);
      CHECK(difference(plain[k], found[k]) <= bound);
    }
  }
  program = nullptr;
  return compared;
}

}  // namespace

TEST_CASE("random programs inside a level, by the eager executor") { CHECK(compare(5001, 150, "eager", 1e-5) > 60); }

TEST_CASE("random programs inside a level, by kernels") { CHECK(compare(7001, 4, "cpu", 1e-3) > 0); }
