// One compiled function of symbolic sizes serves calls of many sizes: composites that decide on sizes give what they
// give eagerly, whichever sizes came first.
#include <cmath>

#include "tests/trace/support.hpp"
#include "weft/grad.hpp"
#include "weft/indexing.hpp"
#include "weft/shapes.hpp"
#include "weft/statistics.hpp"

using namespace weft;
using namespace trace_test;

namespace {

template <class F>
void check_sizes(F f) {
  auto compiled = compile(f, {.dynamic = true});
  for (const std::int64_t size : {7, 3, 16, 4, 5, 33, 2, 8}) {
    CAPTURE(size);
    const Tensor x = reshape(remainder(arange(2 * size, {DType::f32}) * 5, 7) - 3, {2, size});
    const Tensor at = remainder(arange(size) * 3, size);
    const std::vector<Tensor> plain = f(x, at), again = compiled(x, at);
    REQUIRE(plain.size() == again.size());
    for (std::size_t i = 0; i < plain.size(); ++i) {
      CAPTURE(i);
      CHECK(plain[i].shape() == again[i].shape());
      CHECK(text_of(plain[i]) == text_of(again[i]));
    }
  }
}

}  // namespace

TEST_CASE("order statistics of many sizes") {
  check_sizes([](const Tensor& x, const Tensor&) {
    const Tensor holes = where(x == 2, NAN, x);
    return std::vector{mode(x).values, mode(x).indices, nanmedian(holes, 1).values, nanquantile(holes, 0.25, 1),
                       mode(x, 0).values};
  });
}

TEST_CASE("counts of many sizes") {
  check_sizes([](const Tensor& x, const Tensor&) {
    return std::vector{isin(x, slice(x[0], 0, 0, 2)), histogram(x, 3).counts, histogram(x, 3).edges,
                       renorm(x, 1, 0, 4)};
  });
}

TEST_CASE("integrals and derivatives of many sizes") {
  check_sizes([](const Tensor& x, const Tensor&) {
    return std::vector{trapezoid(x, cumsum(square(x) + 1, 1)), cumulative_trapezoid(x, 0.5), gradient(x)[0],
                       gradient(x)[1]};
  });
}

TEST_CASE("arrangements of many sizes") {
  check_sizes([](const Tensor& x, const Tensor& at) {
    return std::vector{rot90(x),
                       diag_embed(x, 1),
                       diag_embed(x, -2, 0, 2),
                       block_diag({x, x[1]}),
                       cartesian_prod({x[0], x[1]}),
                       combinations(x[0]),
                       tensor_split(x, 2, 1)[0],
                       tensor_split(x, {1, -1}, 1)[1],
                       atleast_3d(x),
                       select_scatter(x, x[0], 0, 1),
                       select_scatter(x, x[0] * 2, 0, -1),
                       diagonal_scatter(x, x[0][0] + diagonal(x)),
                       diagonal_scatter(x, diagonal(x, 1) * 2, 1),
                       tril_indices(x.size(1), x.size(1), 1),
                       triu_indices(x.size(0), x.size(1)),
                       unravel_index(at, x.shape())[1],
                       pad(x, {-1, 1}, Pads::reflect),
                       pad(x, {1, -1}, Pads::circular),
                       pad(x, {-1, 2}),
                       pad(x, {-1, 1}, Pads::replicate)};
  });
}

TEST_CASE("reads and writes at positions of many sizes") {
  check_sizes([](const Tensor& x, const Tensor& at) {
    return std::vector{
        index(x, {{}, at}),
        index_put(x, {{}, at}, x * 2),
        put(x, at, x[0]),
        put(x, at, x[1], true),
        index_reduce(x, 1, at, x, ScatterReduction::prod),
        scatter_reduce(x, 1, expand(floor_divide(at, 2), x.shape()), x, ScatterReduction::prod, false),
        grad([&](const Tensor& v) { return sum(index_reduce(x, 1, at, v, ScatterReduction::prod)); }, x)};
  });
}
