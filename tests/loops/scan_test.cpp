// scan: compiled, eager and interpreted against the same loop unrolled by hand.
#include "tests/loops/support.hpp"

using namespace weft;
using namespace loops_test;

namespace {

struct Cell {
  Tensor h, c;
};

Cell step(const Cell& s, const Tensor& x, const Tensor& w) {
  const Tensor z = matmul(s.h, w) + x;
  const Tensor c = sigmoid(z) * s.c + tanh(z);
  return {tanh(c) * sigmoid(x), c};
}

std::vector<Tensor> scanned(const Tensor& h, const Tensor& c, const Tensor& xs, const Tensor& w, bool reverse) {
  auto [last, ys] = scan(
      [&](Cell s, const Tensor& x) {
        s = step(s, x, w);
        return std::pair{s, std::vector<Tensor>{s.h, sum(s.c, 1)}};
      },
      Cell{h, c}, xs, {.reverse = reverse});
  return {last.h, last.c, ys[0], ys[1]};
}

std::vector<Tensor> unrolled(const Tensor& h, const Tensor& c, const Tensor& xs, const Tensor& w, bool reverse) {
  const auto length = static_cast<std::int64_t>(xs.size(0));
  Cell s{h, c};
  std::vector<Tensor> hs(static_cast<std::size_t>(length)), sums(hs.size());
  for (std::int64_t i = 0; i < length; ++i) {
    const std::int64_t t = reverse ? length - 1 - i : i;
    s = step(s, xs[t], w);
    hs[static_cast<std::size_t>(t)] = s.h;
    sums[static_cast<std::size_t>(t)] = sum(s.c, 1);
  }
  if (length == 0) return {s.h, s.c, zeros({0, 3, 4}, {DType::f64}), zeros({0, 3}, {DType::f64})};
  return {s.h, s.c, stack(hs), stack(sums)};
}

template <bool reverse>
std::vector<Tensor> traced(const Tensor& h, const Tensor& c, const Tensor& xs, const Tensor& w) {
  return scanned(h, c, xs, w, reverse);
}

template <bool reverse>
void check(bool dynamic) {
  CAPTURE(reverse);
  CAPTURE(dynamic);
  auto compiled = compile(traced<reverse>, {.dynamic = dynamic});
  for (const std::int64_t length : {0, 1, 2, 3, 200}) {
    CAPTURE(length);
    const Tensor h = noise({3, 4}, 1), c = noise({3, 4}, 2), xs = noise({length, 3, 4}, 3), w = noise({4, 4}, 4);
    const std::vector<Tensor> expected = unrolled(h, c, xs, w, reverse), eager = scanned(h, c, xs, w, reverse),
                              made = compiled(h, c, xs, w);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(i);
      check_close(eager[i], expected[i]);
      check_close(made[i], expected[i]);
    }
  }
  CHECK(specialization_count(compiled) == (dynamic ? 2 : 5));
}

}  // namespace

TEST_CASE("scan is the loop unrolled, for any length, in both directions, compiled and eager") {
  for (const bool dynamic : {false, true}) check<false>(dynamic), check<true>(dynamic);
}

// Outside a trace a view that has been computed does not know any more what it is a view of.
TEST_CASE("the gradient of a scan over a view that has been computed") {
  const Tensor rows = transpose(ones({3, 2})).eval();
  const auto loss = [&](const Tensor& w) {
    return sum(scan([](Tensor s, const Tensor& x) { return sin(s * x); }, w, rows));
  };
  const Tensor unrolled = grad([](const Tensor& w) { return sum(sin(sin(w))); }, ones({3}));
  CHECK(allclose(grad(loss, ones({3})), unrolled).item<bool>());
}
