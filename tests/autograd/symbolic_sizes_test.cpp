// Derivatives of functions whose sizes are symbolic: they have the operands' sizes where a rule has made a number of
// one, and the bits of the plain function's where a size is 1.
#include <doctest/doctest.h>

#include "tests/autograd/support.hpp"
#include "tests/needs_compiler.hpp"
#include "tests/on_the_host.hpp"
#include "weft/checkpoint.hpp"
#include "weft/compile.hpp"
#include "weft/loops.hpp"
#include "weft/random.hpp"
#include "weft/transforms.hpp"
#include "weft/vmap.hpp"

namespace weft::test {
namespace {

Tensor drawn(Sizes sizes, std::uint64_t seed) {
  Generator rng(seed);
  return normal(sizes, 0, 1, rng).eval();
}

template <class F>
void check_symbolic(F f, const Tensor& x) {
  auto compiled = compile(f, {.dynamic = true, .backend = "aot_eager"});
  const Tensor wanted = f(x), found = compiled(x);
  CHECK(allclose(found, wanted).item<bool>());
}

// Its derivative makes a number of the axis. `body` is recorded before.
template <class F>
Tensor of_products(F body, const Tensor& x) {
  return hvp([&](const Tensor& y) { return sum(sin(cumprod(body(y), -1)) + cumprod(body(y), 0)); }, x, cos(x));
}

TEST_CASE("symbolic sizes: a gradient has the sizes of its operand, where a body or a derivative reads it") {
  const Tensor square = drawn({7, 7}, 1);
  SUBCASE("custom_vjp") {
    const auto f = [](const Tensor& x) {
      return of_products(custom_vjp([](const Tensor& a) { return sin(a); },
                                    [](const Tensor& a) {
                                      return std::pair{sin(a), a};
                                    },
                                    [](const Tensor& a, const Tensor& g) { return g * cos(a); }),
                         x);
    };
    check_symbolic(f, square);
  }
  SUBCASE("checkpoint") {
    check_symbolic([](const Tensor& x) { return of_products(checkpoint([](const Tensor& a) { return sin(a); }), x); },
                   square);
  }
  SUBCASE("loop") {
    const auto f = [](const Tensor& x) {
      return of_products(
          [](const Tensor& y) {
            return fori(
                0, 2, [](Index, Tensor s) { return sin(s); }, y);
          },
          x);
    };
    check_symbolic(f, square);
  }
  SUBCASE("in the body of a loop") {
    const auto f = [](const Tensor& x) {
      const auto next = [](Index, Tensor s) { return cumprod(sin(s), -1); };
      return hvp([&](const Tensor& y) { return sum(fori(0, 2, next, y)); }, x, cos(x));
    };
    check_symbolic(f, square);
  }
  SUBCASE("windows over which a loop runs") {
    const auto f = [](const Tensor& x) {
      const auto next = [](Tensor s, const Tensor& each) { return s * 0.5 + sin(each * s); };
      const auto loss = [&](const Tensor& y) {
        const Tensor windows = unfold(y, 1, 3, 2);
        return sum(scan(next, select(windows, 0, 0), windows));
      };
      return hvp(loss, x, cos(x));
    };
    check_symbolic(f, drawn({3, 3}, 2));
  }
}

// The shape says in which order the elements of a sum are added: there an axis of size 1 does not count. On a device
// the threads that add them are as many as suits the sizes that are known when the kernel is compiled, so that is one
// order for all sizes and another for these.
template <class F>
void check_bits_of_one(F f) {
  auto compiled = compile(f, {.level = Level::O1});
  for (const std::int64_t rows : {7, 33})
    for (const std::int64_t columns : {2, 1}) {
      CAPTURE(rows);
      CAPTURE(columns);
      bool same = true;
      for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const Tensor x = drawn({rows, columns}, seed), b = drawn({columns}, seed + 100);
        const Tensor wanted = f(x, b), found = compiled(x, b);
        const Tensor equal =
            on_the_host() ? all(wanted == found) : allclose(wanted, found, {.rtol = 1e-5, .atol = 1e-5});
        same = same && equal.item<bool>();
      }
      CHECK(same);
    }
}

TEST_CASE("symbolic sizes: a gradient that sums over what was repeated has the bits of the plain one at size 1" *
          needs(a_compiler)) {
  SUBCASE("of a bias") {
    check_bits_of_one(
        [](const Tensor& x, const Tensor& b) { return grad([&](const Tensor& c) { return sum(sin(x + c)); }, b); });
  }
  SUBCASE("of what all examples share") {
    check_bits_of_one([](const Tensor& x, const Tensor& b) {
      return grad([&](const Tensor& c) { return sum(vmap([&](const Tensor& y) { return sin(y * c); })(x)); }, b);
    });
  }
  SUBCASE("in the body of a loop") {
    check_bits_of_one([](const Tensor& x, const Tensor& b) {
      const auto next = [&](Tensor s, const Tensor& y) { return s * 0.5 + sin(y * sum(s * ones({9, 1}), 0)); };
      return grad([&](const Tensor& c) { return sum(scan(next, c, x)); }, b);
    });
  }
  SUBCASE("of what a checkpoint captures") {
    check_bits_of_one([](const Tensor& x, const Tensor& b) {
      const auto block = checkpoint([&](const Tensor& c) { return sin(x * c); });
      return grad([&](const Tensor& c) { return sum(block(c)); }, b);
    });
  }
}

// What is expanded to a size of 1 stays, so a gradient of -0 does, which the sum of one element would not be.
TEST_CASE("symbolic sizes: the gradient of what is expanded to a size of 1 is itself") {
  const auto f = [](const Tensor& x, const Tensor& w) {
    return signbit(grad([&](const Tensor& y) { return sum(expand(y, {7, w.size(1)}) * w); }, x));
  };
  auto compiled = compile(f, {.backend = "aot_eager"});
  for (const std::int64_t columns : {2, 1}) {
    const Tensor x = ones({7, 1}), w = full({7, columns}, -0.0);
    CHECK(all(f(x, w) == compiled(x, w)).item<bool>());
  }
}

// The shapes of two values may be equal by what was decided, and written in different ways.
TEST_CASE("symbolic sizes: states, branches, rules and tangents of equal sizes that are written differently") {
  SUBCASE("the state of a loop") {
    const auto f = [](const Tensor& x) {
      const auto next = [](Tensor s, const Tensor& each) {
        const Tensor raised = pow(s * s + 0.5, each * 0.3);
        return std::pair{raised, raised};
      };
      return hvp([&](const Tensor& y) { return sum(sin(scan(next, y, unfold(y, -1, 3, 2)).second)); }, x, cos(x));
    };
    check_symbolic(f, drawn({3, 3}, 3));
  }
  SUBCASE("the branches of a choice") {
    const auto f = [](const Tensor& x) {
      const auto same = [](const Tensor& a) { return sin(a); };
      const auto spread = [](const Tensor& a) { return a * ones({1, 3}); };
      return hvp([&](const Tensor& y) { return sum(sin(cond(sum(y) > 0, same, spread, y))); }, x, cos(x));
    };
    check_symbolic(f, drawn({3, 3}, 4));
  }
  SUBCASE("a rule and a tangent") {
    const auto f = [](const Tensor& x) {
      const auto scaled = custom_vjp([](const Tensor& a) { return sin(a); },
                                     [](const Tensor& a) {
                                       return std::pair{sin(a), a};
                                     },
                                     [](const Tensor& a, const Tensor& g) {
                                       return g * cos(a) * ones({3, 1});
                                     });
      return hvp([&](const Tensor& y) { return sum(sin(scaled(sin(y)))); }, x, x * ones({3, 3})) +
             vjp([&](const Tensor& y) { return sin(cos(y)); }, x).pullback(x * ones({3, 1}));
    };
    check_symbolic(f, drawn({3, 3}, 5));
  }
}

}  // namespace
}  // namespace weft::test
