// Derivatives of loops: against those of the same loop unrolled by hand, first and second, compiled and eager.
#include "tests/loops/support.hpp"

using namespace weft;
using namespace loops_test;

namespace {

struct Cell {
  Tensor h, c;
};
struct Inputs {
  Tensor h, c, xs, w, b, s, t;
};

// Products of both kinds, a bias that is summed, a scale that is not, a row of a table, a reduction.
std::pair<Cell, Tensor> step(const Cell& s, const Tensor& x, const Tensor& at, const Inputs& in) {
  const Tensor z = matmul(s.h, in.w) + matmul(x, transpose(in.w)) + in.b + gather(in.t, at);
  const Tensor c = sigmoid(z) * s.c + tanh(z) * in.s;
  const Tensor h = tanh(c) * softmax(x + s.h, 1);
  return {{h, c}, concat(std::vector{h, sum(square(c), 1, true)}, 1)};
}

Tensor loss_of(const Cell& last, const Tensor& ys) {
  const Tensor weights = cast(arange(ys.element_count()), DType::f64) * 0.01;
  return sum(sin(reshape(ys, {-1}) + weights) * 1.5) + sum(last.h * last.c) + sum(exp(last.c));
}

Tensor loss(const Inputs& in, const Tensor& at, bool reverse) {
  auto [last, ys] =
      scan([&](const Cell& s, const std::pair<Tensor, Tensor>& x) { return step(s, x.first, x.second, in); },
           Cell{in.h, in.c}, std::pair{in.xs, at}, {.reverse = reverse});
  return loss_of(last, ys);
}

Tensor unrolled(const Inputs& in, const Tensor& at, bool reverse) {
  const auto length = static_cast<std::int64_t>(in.xs.size(0));
  Cell s{in.h, in.c};
  std::vector<Tensor> ys(static_cast<std::size_t>(length));
  for (std::int64_t i = 0; i < length; ++i) {
    const std::int64_t t = reverse ? length - 1 - i : i;
    auto [next, y] = step(s, in.xs[t], at[t], in);
    s = next;
    ys[static_cast<std::size_t>(t)] = y;
  }
  return loss_of(s, length == 0 ? zeros({0, 3, 5}, {DType::f64}) : stack(ys));
}

Inputs inputs(std::int64_t length) {
  return {noise({3, 4}, 1), noise({3, 4}, 2), noise({length, 3, 4}, 3), noise({4, 4}, 4),
          noise({4}, 5),    noise({3, 4}, 6), noise({7, 4}, 7)};
}
Tensor rows(std::int64_t length) { return (arange(length * 3) * 5 + 1) % 7; }

void check_all(const Inputs& given, const Inputs& expected, double tolerance) {
  const Tensor Inputs::*members[] = {&Inputs::h, &Inputs::c, &Inputs::xs, &Inputs::w,
                                     &Inputs::b, &Inputs::s, &Inputs::t};
  for (std::size_t i = 0; i < std::size(members); ++i) {
    CAPTURE(i);
    check_close(given.*members[i], expected.*members[i], tolerance);
  }
}

// A number of the gradients, whose own gradient is the second derivative in a direction.
Tensor mixed(const Inputs& g) {
  const auto each = [](const Tensor& t) {
    return sum(t * reshape(cos(cast(arange(t.element_count()), DType::f64)), Sizes(t.shape())));
  };
  return each(g.h) + each(g.c) + each(g.xs) + each(g.w) + each(g.b) + each(g.s) + each(g.t);
}

using Loss = Tensor (*)(const Inputs&, const Tensor&, bool);
template <Loss f>
Inputs first(const Inputs& in, const Tensor& at, bool reverse) {
  return grad([&](const Inputs& v) { return f(v, at, reverse); }, in);
}
template <Loss f>
Inputs second(const Inputs& in, const Tensor& at, bool reverse) {
  return grad([&](const Inputs& v) { return mixed(first<f>(v, at, reverse)); }, in);
}

}  // namespace

TEST_CASE("the derivative of a scan is that of the loop unrolled, for any length, in both directions") {
  for (const bool dynamic : {false, true}) {
    for (const bool reverse : {false, true}) {
      auto compiled = compile(first<loss>, {.dynamic = dynamic});
      for (const std::int64_t length : {0, 1, 2, 5, 30}) {
        CAPTURE(length);
        CAPTURE(reverse);
        CAPTURE(dynamic);
        const Inputs in = inputs(length);
        const Tensor at = reshape(rows(length), {length, 3});
        const Inputs expected = first<unrolled>(in, at, reverse);
        check_all(first<loss>(in, at, reverse), expected, 1e-11);
        check_all(compiled(in, at, reverse), expected, 1e-11);
      }
    }
  }
}

TEST_CASE("the second derivative of a scan is that of the loop unrolled") {
  for (const bool reverse : {false, true}) {
    auto compiled = compile(second<loss>);
    for (const std::int64_t length : {1, 4}) {
      CAPTURE(length);
      CAPTURE(reverse);
      const Inputs in = inputs(length);
      const Tensor at = reshape(rows(length), {length, 3});
      const Inputs expected = second<unrolled>(in, at, reverse);
      check_all(second<loss>(in, at, reverse), expected, 1e-10);
      check_all(compiled(in, at, reverse), expected, 1e-10);
    }
  }
}

TEST_CASE("the derivative of a scan agrees with finite differences") {
  const Inputs in = inputs(4);
  const Tensor at = reshape(rows(4), {4, 3});
  const Inputs g = first<loss>(in, at, false);
  const auto along = [&](double by) {
    Inputs moved = in;
    moved.w = in.w + by * noise({4, 4}, 20);
    moved.h = in.h + by * noise({3, 4}, 21);
    moved.xs = in.xs + by * noise({4, 3, 4}, 22);
    moved.t = in.t + by * noise({7, 4}, 23);
    return loss(moved, at, false).item();
  };
  const double step = 1e-4, slope = (along(step) - along(-step)) / (2 * step);
  const double expected = sum(g.w * noise({4, 4}, 20)).item() + sum(g.h * noise({3, 4}, 21)).item() +
                          sum(g.xs * noise({4, 3, 4}, 22)).item() + sum(g.t * noise({7, 4}, 23)).item();
  CHECK(slope == doctest::Approx(expected).epsilon(1e-6));
}

TEST_CASE("the derivative of a scan whose body calls the program for something that nobody reads") {
  static int calls = 0;
  calls = 0;
  const Tensor x = noise({3, 2}, 1), y = noise({2}, 2);
  const auto last = [&](const Tensor& a, bool called) {
    return sum(scan(
        [&](const Tensor& state, const Tensor& each) {
          if (called)
            host_call(
                {each.shape(), each.dtype()}, [](const Tensor& b) { return ++calls, b * 2; }, each);
          return tanh(state * each);
        },
        a, x));
  };
  const auto slope = [&](bool called) { return grad([&](const Tensor& a) { return last(a, called); }, y); };
  check_close(slope(true), slope(false));
  CHECK(calls == 3);
}
