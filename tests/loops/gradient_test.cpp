// Derivatives of loops: against those of the same loop unrolled by hand, first and second, compiled and eager.
#include <ctime>

#include "tests/loops/support.hpp"
#include "weft/memory.hpp"

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

TEST_CASE("eagerly the forward loop of a differentiated scan runs once, also of a loop in a loop") {
  // Nearly all of the time is that of products that the backward loop does not need.
  const Tensor a = noise({160, 160}, 1) * 0.01, xs = noise({12, 160, 160}, 2), s = full({}, 0.5, {DType::f64}).eval();
  const auto step = [&](const Tensor& h, const Tensor& x, const Tensor& s) {
    Tensor product = stop_gradient(x);
    for (int i = 0; i < 6; ++i) product = matmul(product, a);
    const Tensor next = tanh(h * s + mean(product));
    return std::pair{next, next * 2};
  };
  const auto flat = [&](const Tensor& s) {
    const auto [last, ys] = scan([&](const Tensor& h, const Tensor& x) { return step(h, x, s); }, s, xs);
    return sum(square(ys)) + last;
  };
  const auto nested = [&](const Tensor& s) {
    const auto inner = [&](const Tensor& h, const Tensor& x) { return step(h, x, s); };
    const auto outer = [&](const Tensor& h, const Tensor& x) { return scan(inner, h, x); };
    const auto [last, ys] = scan(outer, s, reshape(xs, {3, 4, 160, 160}));
    return sum(square(ys)) + last;
  };
  // Of the processor, which others that use the machine change less than those of a clock.
  const auto seconds = [](auto call) {
    const std::clock_t start = std::clock();
    call();
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  };
  const double by = 1e-5, expected = (flat(s + by).item() - flat(s - by).item()) / (2 * by);
  const auto check = [&](const auto& f, bool loss_first) {
    CAPTURE(loss_first);
    double forward = 1e9, both = 1e9;
    // Of a loop that runs twice no number of rounds makes it less.
    for (int i = 0; i < 40 && (i < 3 || both >= 1.5 * forward); ++i) {
      forward = std::min(forward, seconds([&] { f(s).item(); }));
      both = std::min(both, seconds([&] {
                        const auto [value, slope] = value_and_grad(f, s);
                        if (loss_first) value.eval();
                        CHECK(slope.item() == doctest::Approx(expected).epsilon(1e-6));
                        value.eval();
                      }));
    }
    CHECK(both < 1.5 * forward);
  };
  for (const bool loss_first : {false, true}) {
    check(flat, loss_first);
    check(nested, loss_first);
  }
}

TEST_CASE("a scan whose value is read while its level is open, and one whose gradient nobody reads") {
  const Tensor xs = noise({5, 3}, 1), s = full({3}, 0.5, {DType::f64});
  const auto loss = [&](const Tensor& s) {
    return sum(square(scan([&](const Tensor& h, const Tensor& x) { return sin(h * s + x); }, s, xs)));
  };
  const auto read_inside = [&](const Tensor& s) {
    const Tensor value = loss(s);
    CHECK(std::isfinite(value.item()));
    return value;
  };
  check_close(grad(read_inside, s), grad(loss, s));
  Tensor value;
  value = value_and_grad(loss, s).value;
  check_close(value, loss(s));
}

TEST_CASE("the backward loop reads one sum of a slice and a product, and neither of the two is kept for it") {
  constexpr std::int64_t steps = 48, rows = 16, width = 32, stack = steps * rows * width * 8;
  const auto f = [](const Tensor& w, const Tensor& xs) {
    return grad(
        [&](const Tensor& w) {
          const auto step = [&](const Tensor& h, const Tensor& x) {
            const Tensor next = tanh(x + matmul(h, w));
            return std::pair{next, next};
          };
          const auto [last, ys] = scan(step, zeros({rows, width}, {DType::f64}), matmul(xs, w));
          // The most is in memory after the first loop.
          const Tensor wide = expand(unsqueeze(ys, 0), {8, steps, rows, width});
          return sum(matmul(exp(wide), w)) + sum(last);
        },
        w);
  };
  const Tensor w = noise({width, width}, 1) * 0.1, xs = noise({steps, rows, width}, 2);
  const auto most = [&](auto& call) {
    call(w, xs).eval();
    const MemoryMeter meter;
    call(w, xs).eval();
    return meter.peak();
  };
  auto compiled = compile(f, {.check = Check::never}),
       eager = compile(f, {.check = Check::never, .backend = Backend::eager});
  const std::int64_t planned = explain(compiled, w, xs).memory.taken, measured = most(eager);
  const std::string found = std::to_string(static_cast<double>(planned) / stack) + " stacks planned, eagerly " +
                            std::to_string(static_cast<double>(measured) / stack);
  CAPTURE(found);
  CHECK(static_cast<double>(planned) < 38.2 * stack);
  CHECK(static_cast<double>(measured) < 38.2 * stack);
  check_close(compiled(w, xs), eager(w, xs));
}
