// Scales and shifts of channels go into the weights before them where all of it is constant; and what the graph means
// is kept within roundings.
#include "passes/fold_batch_norm.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "interpret/reference.hpp"
#include "ir/table.hpp"
#include "passes/regions.hpp"
#include "tests/ir/support.hpp"
#include "weft/nn.hpp"

using namespace weft;
using namespace graph_test;

namespace {

// An image, weights, and numbers of the four channels of the result; inputs from 1 on are constants.
struct Parts {
  Recording r;
  Tensor x = r.input(DType::f32, Shape::of(2, 3, 5, 4)), w = r.input(DType::f32, Shape::of(4, 3, 3, 3)),
         s = r.input(DType::f32, Shape::of(4)), t = r.input(DType::f32, Shape::of(4)),
         mean = r.input(DType::f32, Shape::of(4)), variance = r.input(DType::f32, Shape::of(4));
  std::vector<int> constant = {1, 2, 3, 4, 5};
  Tensor convolved() { return conv2d(x, w, {.padding = 1}); }
  static Tensor channels(const Tensor& each) { return reshape(each, {4, 1, 1}); }
};

int count(const Graph& graph, Op op, int rank) {
  return static_cast<int>(std::ranges::count_if(graph.nodes, [&](const Tensor& value) {
    return value.node()->op == op && type_of(value).shape.rank() == rank && type_of(value).shape[0].same(Dim(2));
  }));
}
// How many operations on the result of the product are left, each over all of its elements.
struct Left {
  int scales, shifts;
  bool operator==(const Left&) const = default;
};

Left left_of(Parts& parts, const Tensor& result, const std::vector<Tensor>& more = {}) {
  std::vector<Tensor> outputs{result};
  outputs.insert(outputs.end(), more.begin(), more.end());
  const Graph graph = inline_calls(parts.r.graph(outputs));
  PassContext context;
  context.constant_inputs = parts.constant;
  const Graph folded = fold_batch_norm(graph, context);
  verify(folded);
  std::mt19937 random(1);
  std::vector<Literal> values;
  for (const Tensor& input : graph.inputs) {
    Literal& value = values.emplace_back(Literal{type_of(input)});
    for (std::int64_t i = 0; i < type_of(input).shape.element_count().constant(); ++i) {
      const double number = std::normal_distribution<double>()(random);
      value.reals.push_back(static_cast<float>(input.same(parts.variance) ? std::exp(number) : number));
    }
  }
  const std::vector<Literal> expected = interpret(graph, values, {}), found = interpret(folded, values, {});
  for (std::size_t i = 0; i < expected.size(); ++i) {
    double most = 0;
    for (const double each : expected[i].reals) most = std::max(most, std::fabs(each));
    for (std::size_t j = 0; j < expected[i].reals.size(); ++j)
      CHECK(std::fabs(found[i].reals[j] - expected[i].reals[j]) <= 4e-6 * most);
  }
  const int rank = type_of(result).shape.rank();
  return {count(folded, Op::mul, rank) + count(folded, Op::div, rank),
          count(folded, Op::add, rank) + count(folded, Op::sub, rank)};
}

}  // namespace

TEST_CASE("a batch norm of running statistics leaves one addition") {
  Parts p;
  Tensor mean = p.mean, variance = p.variance;
  const Tensor norm = nn::batch_norm(p.convolved(), mean, variance, p.s, p.t, false);
  CHECK(left_of(p, norm) == Left{0, 1});
}

TEST_CASE("any multiplications and additions of channels") {
  Parts p;
  const Tensor s = Parts::channels(p.s), t = Parts::channels(p.t), m = Parts::channels(p.mean),
               v = Parts::channels(p.variance);
  CHECK(left_of(p, p.convolved() * s) == Left{0, 0});
  CHECK(left_of(p, s * p.convolved() + t) == Left{0, 1});
  CHECK(left_of(p, (t + p.convolved()) / v - m) == Left{0, 1});
  CHECK(left_of(p, (p.convolved() - m) * 2.0 * s + 1.0) == Left{0, 1});
  CHECK(left_of(p, relu(p.convolved() * s + t) * v) == Left{1, 1});  // up to what is no scale
  CHECK(left_of(p, p.convolved() / v) == Left{0, 0});
}

TEST_CASE("what is not folded") {
  const auto is_kept = [](auto make, Left expected) {
    Parts p;
    CHECK(left_of(p, make(p)) == expected);
  };
  using P = Parts&;
  is_kept([](P p) { return p.convolved() + Parts::channels(p.t); }, {0, 1});  // nothing to scale
  is_kept([](P p) { return p.convolved() * 2.0 + 1.0; }, {1, 1});             // one number for all
  is_kept([](P p) { return Parts::channels(p.t) - p.convolved(); }, {0, 1});
  is_kept([](P p) { return Parts::channels(p.t) / p.convolved(); }, {1, 0});
  is_kept([](P p) { return p.convolved() * reshape(p.s, {1, 1, 4}); }, {1, 0});  // of positions
  is_kept([](P p) { return p.convolved() * p.convolved(); }, {1, 0});
  is_kept(
      [](P p) {
        p.constant = {1};  // other factors in each call
        return p.convolved() * Parts::channels(p.s);
      },
      {1, 0});
  is_kept(
      [](P p) {
        p.constant = {2, 3, 4, 5};  // weights that are trained
        return p.convolved() * Parts::channels(p.s);
      },
      {1, 0});
  is_kept(
      [](P p) {
        const Tensor y = p.convolved();  // another reader
        return y * Parts::channels(p.s) + relu(y);
      },
      {1, 1});
  Parts p;
  const Tensor y = p.convolved();
  CHECK(left_of(p, y * Parts::channels(p.s), {y}) == Left{1, 0});  // a result
}

TEST_CASE("a batch norm after a product of matrices") {
  Parts p;
  const Tensor rows = p.r.input(DType::f32, Shape::of(2, 3)), w = p.r.input(DType::f32, Shape::of(4, 3));
  p.constant.push_back(7);
  Tensor mean = p.mean, variance = p.variance;
  CHECK(left_of(p, nn::batch_norm(nn::linear(rows, w, p.t), mean, variance, p.s, p.t, false)) == Left{0, 1});
}

TEST_CASE("weights of 16-bit floats are scaled in f32; on a device as on the host") {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    Parts p;
    Tensor mean = p.mean, variance = p.variance;
    const Tensor low = conv2d(cast(p.x, dtype), cast(p.w, dtype), {.padding = 1});
    const Tensor norm = nn::batch_norm(low, mean, variance, p.s, p.t, false);
    const Graph graph = inline_calls(p.r.graph({norm}));
    PassContext context{.device = Device::cuda()};
    context.constant_inputs = p.constant;
    const Graph folded = fold_batch_norm(graph, context);
    verify(folded);
    const auto with = [&](Op op, int rank, DType of) {
      return std::ranges::count_if(folded.nodes, [&](const Tensor& value) {
        return value.node()->op == op && type_of(value).shape.rank() == rank && type_of(value).dtype == of &&
               type_of(value).shape[0].same(Dim(rank == 4 && op != Op::mul ? 2 : 4));
      });
    };
    CHECK(with(Op::mul, 4, DType::f32) == 1);  // of the weights
    CHECK(with(Op::mul, 4, dtype) == 0);
    CHECK(with(Op::add, 4, DType::f32) == 1);  // the shift, before the only rounding
    std::mt19937 random(1);
    std::vector<Literal> values;
    for (const Tensor& input : graph.inputs) {
      Literal& value = values.emplace_back(Literal{type_of(input)});
      for (std::int64_t i = 0; i < type_of(input).shape.element_count().constant(); ++i) {
        const double number = std::normal_distribution<double>()(random);
        value.reals.push_back(static_cast<float>(input.same(p.variance) ? std::exp(number) : number));
      }
    }
    const std::vector<Literal> expected = interpret(graph, values, {}), found = interpret(folded, values, {});
    double most = 0, worst = 0;
    for (std::size_t i = 0; i < expected[0].reals.size(); ++i) {
      most = std::max(most, std::fabs(expected[0].reals[i]));
      worst = std::max(worst, std::fabs(found[0].reals[i] - expected[0].reals[i]));
    }
    CHECK(worst > 0);  // it does round differently
    CHECK(worst <= (dtype == DType::bf16 ? 0x1p-7 : 0x1p-10) * most);
  }
}

TEST_CASE("without constants a graph stays as it is") {
  Parts p;
  const Graph graph = p.r.graph({p.convolved() * Parts::channels(p.s)});
  CHECK(fold_batch_norm(graph, {}).nodes.size() == graph.nodes.size());
}
