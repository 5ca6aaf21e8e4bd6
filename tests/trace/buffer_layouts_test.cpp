// What a plan writes in another order than row by row: parts of a concatenation where they lie in it, a product's
// operand as the product reads it. The numbers are those that eager gives, for one shape, for all shapes, and in
// gradients.
#include "tests/trace/support.hpp"
#include "weft/grad.hpp"
#include "weft/nn.hpp"
#include "weft/random.hpp"

using namespace weft;
using namespace trace_test;

namespace {

// Of functions of x [rows, columns] and w [columns, 5].
template <class F>
void check_against_eager(F f) {
  auto fixed = compile(f, {.on_compile_error = OnFailure::raise});
  auto symbolic = compile(f, {.dynamic = true, .on_compile_error = OnFailure::raise});
  auto reference = compile(f, {.backend = Backend::reference});
  Generator rng(3);
  for (const auto& extent : {std::pair(6, 19), {3, 64}, {33, 2}}) {
    const int rows = extent.first, columns = extent.second;
    Tensor x = normal({rows, columns}, 0, 1, rng), w = normal({columns, 5}, 0, 1, rng);
    const std::vector<Tensor> expected = f(x, w);
    for (const std::vector<Tensor>& found : std::vector{fixed(x, w), symbolic(x, w), reference(x, w)}) {
      REQUIRE(found.size() == expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i) {
        INFO("result ", i, " of ", rows, " rows of ", columns);
        REQUIRE(found[i].shape().same(expected[i].shape()));
        CHECK(amax(abs(found[i] - expected[i])).item() <= 1e-5 * amax(abs(expected[i])).item());
      }
    }
  }
  CHECK(specialization_count(symbolic) == 1);
}

}  // namespace

TEST_CASE("parts of a concatenation that are written in place: products, row kernels, chains and joined parts") {
  check_against_eager([](const Tensor& x, const Tensor& w) {
    const Tensor across = concat({matmul(x, w), softmax(x), x, tanh(x) * exp(-x * x) + sin(x)}, 1);
    const Tensor down = concat({softmax(x), x * 2, concat({gelu(x), softmax(-x)}, 0)}, 0);
    const Tensor nested = concat({concat({softmax(x), gelu(x)}, 1), concat({x, softmax(x * 2)}, 1)}, 0);
    const Tensor stacked = stack({matmul(x, w), matmul(x * x, w)}, 1);
    const Tensor batched = concat({matmul(expand(x, {2, x.size(0), x.size(1)}), expand(w, {2, w.size(0), 5})),
                                   expand(reshape(sum(x, 1), {1, -1, 1}), {2, x.size(0), 3})},
                                  2);
    return std::vector{across, down, nested, stacked, batched, sum(across * across, 1)};
  });
}

TEST_CASE("parts of a concatenation that others read too") {
  check_against_eager([](const Tensor& x, const Tensor& w) {
    const Tensor y = softmax(x), z = matmul(x, w);
    return std::vector{concat({y, z, y}, 1), y, z + 1};
  });
}

TEST_CASE("an operand of a product that is written in the product's order") {
  check_against_eager([](const Tensor& x, const Tensor& w) {
    const Tensor cube = reshape(x, {x.size(0), x.size(1), 1}) * reshape(w, {1, x.size(1), 5});  // [rows, columns, 5]
    const Tensor left = permute(softmax(cube), {2, 0, 1}), right = permute(softmax(-cube), {2, 1, 0});
    return std::vector{matmul(left, right), matmul(permute(gelu(cube), {2, 0, 1}), expand(w, {5, w.size(0), 5}))};
  });
}

TEST_CASE("gradients through both") {
  check_against_eager([](const Tensor& x, const Tensor& w) {
    const auto loss = [](const std::vector<Tensor>& v) {
      const Tensor &x = v[0], &w = v[1], joined = concat({matmul(x, w), softmax(x)}, 1);
      const Tensor cube = reshape(x, {x.size(0), x.size(1), 1}) * reshape(w, {1, x.size(1), 5});
      return sum(joined * joined) + sum(matmul(permute(softmax(cube), {2, 0, 1}), expand(w, {5, w.size(0), 5})));
    };
    return grad(loss, std::vector{x, w});
  });
}

// Views of views as results, and products of these: what each step reads has been written before it.
TEST_CASE("a product of views that are results too") {
  const auto f = [](const Tensor& x) {
    const Tensor a = slice(x, 0, 0, 3), t = transpose(a), flipped = transpose(flip(a, 0)),
                 wide = transpose(expand(unsqueeze(slice(x, 0, 1, 2)[0], 0), {3, 3}));
    return std::vector{a, t, matmul(a, t), flipped, matmul(flipped, a), wide, matmul(wide, t), matmul(t, matmul(a, t))};
  };
  auto fixed = compile(f), any_size = compile(f, {.dynamic = true});
  const Tensor x = reshape(arange(1, 13, 1, {DType::f32}), {4, 3}).eval();
  std::vector<std::vector<Tensor>> kept;  // so that results are new memory
  for (const double scale : {1.0, 10.0, 1.0, 3.0}) {
    CAPTURE(scale);
    const Tensor scaled = (x * scale).eval();
    const std::vector<Tensor> expected = f(scaled);
    for (const bool dynamic : {false, true}) {
      kept.push_back(dynamic ? any_size(scaled) : fixed(scaled));
      for (std::size_t i = 0; i < expected.size(); ++i) {
        CAPTURE(i);
        CHECK(numbers_of(kept.back()[i]) == numbers_of(expected[i]));
      }
    }
  }
}
