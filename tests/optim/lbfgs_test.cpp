// L-BFGS against PyTorch (lbfgs_golden.py says what is computed).
#include <doctest/doctest.h>

#include <unistd.h>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>

#include "weft/compile.hpp"
#include "weft/grad.hpp"
#include "weft/io.hpp"
#include "weft/nn.hpp"
#include "weft/optim.hpp"

namespace weft {
namespace {

using optim::LineSearch;

struct Row {
  const char* problem;
  LineSearch search;
  int history, max_iter, steps;
  double lr;
  std::vector<double> losses;
  int evaluations;
  std::vector<double> numbers;
};
const std::vector<Row> rows = {
#include "lbfgs_golden.inc"
};

struct Point {
  Param x;
};
Tensor rosenbrock(const Point& p) {
  const Tensor x = p.x, head = slice(x, 0, 0, -1), tail = slice(x, 0, 1);
  return sum(square(tail - square(head)) * 100.0 + square(1.0 - head));
}
Point rosenbrock_start(DType dtype = DType::f64) { return {cast(from_list<double>({-1.2, 1.0, -0.5, 0.8}), dtype)}; }
struct Line {
  Param w, b;
};
Tensor regression(const Line& m) {
  const Tensor x = reshape(sin(cast(arange(18), DType::f64) + 1.0), {6, 3});
  const Tensor y = cos(cast(arange(6), DType::f64) * 2.0);
  return mean(square(matmul(x, m.w) + m.b - y));
}
Line regression_start() { return {zeros({3}, {DType::f64}), zeros({1}, {DType::f64})}; }

template <class M>
std::vector<double> values(const M& model) {
  std::vector<double> result;
  tree::for_each(model, [&](const Param& p) {
    const Tensor wide = cast(p, DType::f64);
    for (const double x : wide.template data<double>()) result.push_back(x);
  });
  return result;
}
void check_close(const std::vector<double>& found, const std::vector<double>& expected, double tolerance) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(found[i] - expected[i]) <= tolerance * std::max(1.0, std::abs(expected[i])));
  }
}
optim::LbfgsOptions options_of(const Row& row) {
  return {.lr = row.lr, .max_iter = row.max_iter, .history_size = row.history, .line_search_fn = row.search};
}
template <class M, class F>
void leads(const Row& row, M model, F closure) {
  optim::LBFGS opt(model, options_of(row));
  std::vector<double> losses;
  for (int i = 0; i < row.steps; ++i) losses.push_back(opt.step(model, closure).item());
  check_close(losses, row.losses, 1e-8);
  CHECK(opt.evaluations == row.evaluations);
  check_close(values(model), row.numbers, 1e-8);
}

TEST_CASE("where PyTorch's L-BFGS leads, with as many evaluations") {
  auto compiled = compile([](const Point& p) { return value_and_grad(rosenbrock, p); });
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CAPTURE(i);
    if (std::string(rows[i].problem) == "rosenbrock") {
      leads(rows[i], rosenbrock_start(), [](const Point& p) { return value_and_grad(rosenbrock, p); });
      leads(rows[i], rosenbrock_start(), compiled);
    } else {
      leads(rows[i], regression_start(), [](const Line& m) { return value_and_grad(regression, m); });
    }
  }
}

const auto closure = [](const Point& p) { return value_and_grad(rosenbrock, p); };

TEST_CASE("it goes on from what was saved") {
  const std::string path =
      std::filesystem::temp_directory_path() / ("weft_lbfgs_" + std::to_string(getpid()) + ".safetensors");
  const optim::LbfgsOptions options = {.max_iter = 8, .history_size = 4, .line_search_fn = LineSearch::strong_wolfe};
  Point a = rosenbrock_start(), b = rosenbrock_start();
  optim::LBFGS first(a, options), second(b, options);
  for (int i = 0; i < 2; ++i) first.step(a, closure);
  io::save(path.c_str(), {{"model", a}, {"optimizer", first}});
  io::load(path.c_str(), {{"model", b}, {"optimizer", second}});
  std::remove(path.c_str());
  for (int i = 0; i < 2; ++i) {
    first.step(a, closure);
    second.step(b, closure);
  }
  CHECK(second.iterations == first.iterations);
  CHECK(second.evaluations == first.evaluations);
  CHECK(values(a) == values(b));
  CHECK(rosenbrock(a).item() < rosenbrock(rosenbrock_start()).item() / 10);
}

TEST_CASE("parameters of 32 and 16 bits keep their dtype; frozen ones stay") {
  const optim::LbfgsOptions options = {.line_search_fn = LineSearch::strong_wolfe};
  Point narrow = rosenbrock_start(DType::f32);
  optim::LBFGS opt(narrow, options);
  for (int i = 0; i < 3; ++i) opt.step(narrow, closure);
  CHECK(narrow.x->dtype() == DType::f32);
  check_close(values(narrow), {1, 1, 1, 1}, 1e-2);
  Point half = rosenbrock_start(DType::bf16);
  optim::LBFGS other(half, options);
  const double before = rosenbrock(half).item();
  other.step(half, closure);
  CHECK(half.x->dtype() == DType::bf16);
  CHECK(rosenbrock(half).item() < before / 10);

  Line line = regression_start();
  line.b.frozen = true;
  optim::LBFGS partly(line, options);
  partly.step(line, [](const Line& m) { return value_and_grad(regression, m); });
  CHECK(values(line).back() == 0);
  const Line gradients = grad(regression, line);
  CHECK(amax(abs(gradients.w)).item() < 1e-6);
}

TEST_CASE("what is refused") {
  Point p = rosenbrock_start(), longer = {zeros({5}, {DType::f64})};
  CHECK_THROWS_WITH_AS(optim::LBFGS(p, {.max_iter = 0}), doctest::Contains("must be positive"), Error);
  CHECK_THROWS_WITH_AS(optim::LBFGS(p, {.lr = -1}), doctest::Contains("must not be negative"), Error);
  optim::LBFGS opt(p);
  CHECK_THROWS_WITH_AS(opt.step(longer, closure), doctest::Contains("made for a model of 4 numbers, this one has 5"),
                       Error);
  auto compiled = compile([](Point& p, optim::LBFGS& opt) { opt.step(p, closure); });
  CHECK_THROWS_WITH_AS(compiled(p, opt), doctest::Contains("compile the closure"), Error);
}

}  // namespace
}  // namespace weft
