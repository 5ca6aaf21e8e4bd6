// Reductions have one tree: which elements are added in which order depends on the shape that is reduced and on nothing
// else. So the bits are those of eager whatever is fused before the reduction, however loops walk it, and with symbolic
// sizes. What adds by other means (gradients of scalar expressions, products of 16-bit floats) is held here too.
#include <cstring>
#include <utility>

#include "base/options.hpp"
#include "tests/trace/support.hpp"
#include "weft/random.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace trace_test;

namespace {

using Tensors = std::vector<Tensor>;

// Each result of `f` to the last bit, where any NaN is as good as another.
template <class F>
void check_same_bits(F f, const Tensors& arguments) {
  const int optimization = std::exchange(options().kernel_optimization, 1);  // many kernels, each run once
  const Tensors eager = f(arguments);
  for (bool dynamic : {false, true}) {
    const Tensors compiled = compile(f, {.dynamic = dynamic, .on_compile_error = OnFailure::raise})(arguments);
    REQUIRE(compiled.size() == eager.size());
    for (std::size_t i = 0; i < eager.size(); ++i) {
      CAPTURE(dynamic);
      CAPTURE(i);
      CHECK(compiled[i].dtype() == eager[i].dtype());
      const Tensor wide = cast(eager[i], DType::f64), other = cast(compiled[i], DType::f64);
      const View<const double> x = wide.data<double>(), y = other.data<double>();
      REQUIRE(x.size() == y.size());
      std::size_t differing = 0;
      for (std::size_t at = 0; at < x.size(); ++at)
        differing += std::memcmp(&x[at], &y[at], sizeof(double)) != 0 && (x[at] == x[at] || y[at] == y[at]);
      CHECK(differing == 0);
    }
  }
  options().kernel_optimization = optimization;
}

Tensor numbers(Sizes sizes, DType dtype = DType::f32) {
  static Generator rng(17);
  return cast(normal(sizes, 0.3, 1, rng), dtype);
}

}  // namespace

TEST_CASE("bit for bit: sums and products over any axes, of what does not lie in one run of memory") {
  check_same_bits(
      [](const Tensors& in) {
        const Tensor &x = in[0], &row = in[1], &column = in[2];
        Tensors results;
        for (const Tensor& y : {x, x * row, x * column + row, transpose(x, 0, 2) * 1.5f, flip(x, 2) - row}) {
          for (const Axes& axes : {Axes({0, 2}), Axes({1, 2}), Axes({0, 1}), Axes(), Axes(1)}) {
            results.push_back(sum(y, axes));
            results.push_back(prod(y * 0.1f + 1.0f, axes));
            results.push_back(y / sum(exp(y), axes, true));
          }
        }
        return results;
      },
      {numbers({6, 20, 7}), numbers({7}), numbers({20, 1})});
}

TEST_CASE("bit for bit: rows of several runs, longer than a chunk") {
  const auto f = [](const Tensors& in) {
    return Tensors{sum(in[0] * in[1]), sum(in[0] * in[1], {0, 2}), mean(square(in[0] - in[1])), amax(in[0] + in[1])};
  };
  check_same_bits(f, {numbers({30, 2, 331}), numbers({331})});
  check_same_bits(f, {numbers({30, 2, 32}), numbers({32})});
  check_same_bits(f, {numbers({5, 3, 1000}, DType::f64), numbers({1000}, DType::f64)});
  check_same_bits(f, {numbers({40, 9, 13}, DType::bf16), numbers({13}, DType::bf16)});
}

TEST_CASE("bit for bit: per-channel statistics of images") {
  check_same_bits(
      [](const Tensors& in) {
        const Tensor &x = in[0], average = mean(x, {0, 2, 3}, true), spread = var(x, {0, 2, 3}, 0, true);
        return Tensors{average, spread, (x - average) * rsqrt(spread + 1e-5f) * in[1], sum(square(x), {0, 2, 3})};
      },
      {numbers({3, 4, 5, 7}), numbers({4, 1, 1})});
}

TEST_CASE("bit for bit: a sum of one element starts from 0 as every sum does") {
  check_same_bits(
      [](const Tensors& in) {
        const Tensor total = sum(in[0], 1);
        return Tensors{total, sum(in[1]), prod(in[0], 1), mean(in[0], 1), concat({total, total}, 0), total * -1.0f};
      },
      {full({3, 1}, -0.0), full({1}, -0.0)});
}

TEST_CASE("bit for bit: gradients through scalar expressions, added to other gradients") {
  check_same_bits(
      [](const Tensors& in) {
        const auto first = [](const Tensor& x) {
          return sum(gelu(x) * x + tanh(x) * gelu(x, Gelu::tanh)) + sum(gelu(x) * softmax(x, 1)) + mean(exp(gelu(x)));
        };
        const auto second = [&](const Tensor& x) { return sum(square(grad(first, x))); };
        return Tensors{first(in[0]), grad(first, in[0]), grad(second, in[0])};
      },
      {numbers({10, 37})});
}

TEST_CASE("bit for bit: products of 16-bit floats and of integers, of one number, of as many axes as there can be") {
  check_same_bits(
      [](const Tensors& in) {
        return Tensors{matmul(in[0], in[1]), matmul(in[2], in[3]), matmul(in[4], in[5]), matmul(in[6], in[7]),
                       matmul(full({3, 8}, 2, {DType::f16}), in[8])};
      },
      {cast(reshape(vector_of({-0.0f, 0, -1, 2}), {4, 1}), DType::bf16),
       cast(reshape(vector_of({1, -0.0f, 3, -2, 0}), {1, 5}), DType::bf16), numbers({7, 300}, DType::bf16),
       numbers({300, 9}, DType::bf16), numbers({1, 2, 1, 2, 1, 2, 3, 4}, DType::f16),
       numbers({3, 2, 1, 2, 1, 2, 4, 3}, DType::f16), cast(numbers({2, 2, 1, 2, 1, 2, 3, 4}) * 5, DType::i32),
       cast(numbers({2, 2, 1, 2, 1, 2, 4, 3}) * 5, DType::i32), numbers({8, 5}, DType::f16)});
}

TEST_CASE("a value that varies over some of the reduced axes only is kept for the second walk") {
  check_same_bits(
      [](const Tensors& in) {
        const Tensor repeated = expand(in[0], {9, 2}) / 0.1f,
                     stepped = exp(expand(slice(in[1], 1, 0, slice_end, 2), {5, 28, 2}));
        const Tensor stored = tanh(expand(in[2], {2, 9, 3}));  // a result too, whose loops are more
        const Tensor centered = stored - mean(stored, {0, 2}, true);
        return Tensors{maximum(repeated, sum(repeated)), stepped / sum(stepped), stored,
                       sum(centered * centered, {0, 2})};
      },
      {numbers({9, 1}), numbers({5, 56, 1}), numbers({2, 9, 1})});
}

TEST_CASE("bit for bit: gradients of a value that is also read through views which change nothing") {
  check_same_bits(
      [](const Tensors& in) {
        const Dim rows = in[0].size(0);
        const auto loss = [&](const Tensor& b) {
          Tensor total = sum(b * 0.37f) + sum(sin(b) * 0.11f);
          for (const Tensor& v :
               {reshape(b, {7, -1}), expand(b, {7, 40}), slice(b, 0, rows - 7), pad(b, 0, rows - 7, 0)})
            total = total + sum(v * v * 1.3f) + sum(exp(v) * 0.37f);
          return total + sum(sin(b) * 0.11f);
        };
        return Tensors{grad(loss, in[0])};
      },
      {numbers({7, 40})});
}
