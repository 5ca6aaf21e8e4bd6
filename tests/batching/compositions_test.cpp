// Random programs of primitives inside random nestings of two or three transforms: derivatives of every kind, vmap,
// loops, choices, functions with a derivative of their own, compiled functions. Each is held, in f64, against a loop
// over examples or against central differences of the function inside, which is one of the compositions itself; eagerly
// and compiled.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <random>

#include "tests/needs_compiler.hpp"
#include "weft/checkpoint.hpp"
#include "weft/fft.hpp"
#include "weft/linalg.hpp"
#include "weft/transforms.hpp"
#include "weft/vmap.hpp"
#include "weft/weft.hpp"

using namespace weft;

namespace {

constexpr std::int64_t size = 3, examples = 2;
// From f64[size] and a parameter f64[size] to f64[size].
using Map = std::function<Tensor(const Tensor& x, const Tensor& w)>;
using Random = std::mt19937;

struct Named {
  std::string name;
  Map f;
};

Tensor vector(std::vector<double> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return constant(values, {count});
}
Tensor places(std::vector<std::int64_t> values) { return constant(values, {size}); }
// Weights that tell elements apart.
Tensor weights() { return vector({1.3, -0.7, 0.4}); }

// ---- random programs ------------------------------------------------------------------------------------------------

const auto own_softplus = custom_vjp([](const Tensor& x, const Tensor& w) { return log(1 + exp(x)) * w; },
                                     [](const Tensor& x, const Tensor& w) {
                                       return std::pair{log(1 + exp(x)) * w, std::array{x, w}};
                                     },
                                     [](const std::array<Tensor, 2>& kept, const Tensor& g) {
                                       return std::tuple{g * kept[1] * sigmoid(kept[0]), g * log(1 + exp(kept[0]))};
                                     });
const auto own_product = custom_jvp([](const Tensor& x, const Tensor& w) { return sin(x) * sum(w); },
                                    [](const Tensor& x, const Tensor& w, const Tensor& dx, const Tensor& dw) {
                                      return cos(x) * dx * sum(w) + sin(x) * sum(dw);
                                    });

// Reads at positions that depend on values, in a loop and in a function with a derivative of its own.
Tensor read_at_places(const Tensor& v, const Tensor& w) {
  const auto at = [](const Tensor& x) { return remainder(cast(floor(x * 5 + 0.37), DType::i64), size); };
  const Tensor last = scan(
      [&](const Tensor& s, const Tensor& e) { return tanh(gather(s, at(stop_gradient(v))) + gather(w, at(e)) * e); }, v,
      outer(w, v));
  return own_softplus(last, gather(v, at(w)));
}

struct Step {
  const char* name;
  Tensor (*apply)(const Tensor& v, const Tensor& x, const Tensor& w);
};
#define STEP(expression)                                                               \
  {                                                                                    \
#expression, [](const Tensor& v, [[maybe_unused]] const Tensor& x,                 \
                    [[maybe_unused]] const Tensor& w) -> Tensor { return expression; } \
  }
constexpr Step steps[] = {
    STEP(sin(v)),
    STEP(tanh(v) * w),
    STEP(exp(v * 0.3) - x),
    STEP(v / (1 + x * x)),
    STEP(sqrt(1 + v * v) + w),
    STEP(sigmoid(v) * v),
    STEP(pow(1.5 + sin(v), w)),
    STEP(softmax(v, 0)),
    STEP(logsumexp(v, 0) * w),
    STEP(v + mean(x * w)),
    STEP(v* norm(x + 2)),
    STEP(prod(1 + v * 0.2) * x),
    STEP(amax(v) * w + v),
    STEP(maximum(v, w * 0.5)),
    STEP(where(v > w, v * 0.5, sin(x))),
    STEP(cumsum(v, 0) * 0.5),
    STEP(cumprod(1 + v * 0.1, 0)),
    STEP(logcumsumexp(v, 0)),
    STEP(flip(v, 0) * x),
    STEP(roll(v, 1) - w),
    STEP(concat({slice(v, 0, 1, 3), slice(w, 0, 0, 1)})),
    STEP(pad(slice(v, 0, 0, 2), 0, 1, 0) + x),
    STEP(index_select(v, 0, places({2, 0, 2})) * w),
    STEP(index_add(x, 0, places({1, 1, 0}), v)),
    STEP(gather(v, argsort(x)) * x),
    STEP(update_slice(v, slice(x, 0, 0, 2) * w[0], 0, 1)),
    STEP(matmul(reshape(arange(9), {3, 3}) * 0.1 - 0.35, v)),
    STEP(matmul(outer(w, v), x) * 0.3),
    STEP(diagonal(matmul(outer(v, w), outer(x, v))) * 0.2),
    STEP(linalg::solve(eye(3, {DType::f64}) * 4 + outer(v, x) * 0.1, w)),
    STEP(diagonal(linalg::cholesky(eye(3, {DType::f64}) * 2 + outer(v, v) * 0.1))),
    STEP(nn::layer_norm(v, 1 + w * 0.1, x)),
    STEP(own_softplus(v, w)),
    STEP(own_product(v, x)),
    STEP(scan([](const Tensor& s, const Tensor& e) { return tanh(s + e * 0.5); }, v, outer(x, w))),
    STEP(fori(
        0, 3, [&](const Index&, const Tensor& s) { return sin(s) * w; }, v)),
    STEP(cond(
        sum(v) > 0.1, [](const Tensor& a) { return a * a; }, [](const Tensor& a) { return sin(a); }, v)),
    STEP(v* stop_gradient(w * 0 + 0.5) + x),
    STEP(copysign(v, w + x)),
    STEP(fft::irfft(fft::rfft(v), {.n = size}) * w),
    STEP(diagonal(linalg::matrix_exp(outer(v, w) * 0.3))),
    STEP(checkpoint(read_at_places)(v, w)),
};
#undef STEP

Named random_program(Random& random) {
  std::vector<const Step*> chosen;
  const int count = 1 + static_cast<int>(random() % 3);
  std::string name;
  for (int i = 0; i < count; ++i) {
    chosen.push_back(&steps[random() % std::size(steps)]);
    name += (i ? "; v = " : "v = ") + std::string(chosen.back()->name);
  }
  return {"[" + name + "]", [chosen](const Tensor& x, const Tensor& w) {
            Tensor v = x;
            for (const Step* const step : chosen) v = step->apply(v, x, w);
            return v;
          }};
}

// ---- transforms -----------------------------------------------------------------------------------------------------

Tensor slope(const Map& f, const Tensor& x, const Tensor& w, const Tensor& along, bool of_parameter = false) {
  const double h = 1e-5;
  return of_parameter ? (f(x, w + along * h) - f(x, w - along * h)) / (2 * h)
                      : (f(x + along * h, w) - f(x - along * h, w)) / (2 * h);
}
Tensor unit(std::int64_t i) { return cast(arange(size) == i, DType::f64); }
// The gradient of sum(f * c), by differences.
Tensor gradient(const Map& f, const Tensor& x, const Tensor& w, const Tensor& c, bool of_parameter = false) {
  std::vector<Tensor> all;
  for (std::int64_t i = 0; i < size; ++i) all.push_back(sum(slope(f, x, w, unit(i), of_parameter) * c));
  return stack(all);
}
Tensor sum_of(const Map& f, const Tensor& x, const Tensor& w) {
  return sum(f(x, w) * weights()) + 0 * (sum(x) + sum(w));
}
// Examples that differ, of one.
Tensor spread(const Tensor& x) { return stack({x, x * 0.6 - 0.2}); }

// By a compiled function of its own, which finds its function by a number.
Tensor call_compiled(const Map& f, const Tensor& x, const Tensor& w) {
  static std::vector<Map> functions;
  functions.push_back(f);
  const auto call = compile(
      [](const Tensor& a, const Tensor& b, int which) { return functions[static_cast<std::size_t>(which)](a, b); },
      {.backend = Backend::reference});
  return call(x, w, static_cast<int>(functions.size()) - 1);
}

struct Transform {
  const char* name;
  Map (*of)(const Map& f);        // by the library
  Map (*expected)(const Map& f);  // by loops and differences
};
#define MAP(...) \
  [](const Map& f) -> Map { return [f](const Tensor& x, [[maybe_unused]] const Tensor& w) -> Tensor { __VA_ARGS__; }; }
const Transform transforms[] = {
    {"grad", MAP(return grad([&](const Tensor& a) { return sum_of(f, a, w); }, x)),
     MAP(return gradient(f, x, w, weights()))},
    {"grad by w", MAP(return grad([&](const Tensor& a) { return sum_of(f, x, a); }, w)),
     MAP(return gradient(f, x, w, weights(), true))},
    {"jvp", MAP(return jvp([&](const Tensor& a) { return f(a, w); }, x, cos(w)).tangent),
     MAP(return slope(f, x, w, cos(w)))},
    {"jvp of both",
     MAP(using Two = std::pair<Tensor, Tensor>;
         return jvp([&](const Two& p) { return f(p.first, p.second); }, Two{x, w}, Two{w, x}).tangent),
     MAP(return slope(f, x, w, w) + slope(f, x, w, x, true))},
    {"vjp", MAP(return vjp([&](const Tensor& a) { return f(a, w); }, x).pullback(sin(w))),
     MAP(return gradient(f, x, w, sin(w)))},
    {"linearize", MAP(return linearize([&](const Tensor& a) { return f(a, w); }, x).push(cos(w))),
     MAP(return slope(f, x, w, cos(w)))},
    {"hvp", MAP(return hvp([&](const Tensor& a) { return sum_of(f, a, w); }, x, w)),
     MAP(const Map inner = [&](const Tensor& a,
                               const Tensor& b) { return grad([&](const Tensor& c) { return sum_of(f, c, b); }, a); };
         return slope(inner, x, w, w))},
    {"hessian", MAP(return matmul(hessian([&](const Tensor& a) { return sum_of(f, a, w); }, x), w)),
     MAP(const Map inner = [&](const Tensor& a,
                               const Tensor& b) { return grad([&](const Tensor& c) { return sum_of(f, c, b); }, a); };
         return slope(inner, x, w, w))},
    {"jacfwd", MAP(return matmul(jacfwd([&](const Tensor& a) { return f(a, w); }, x), w)),
     MAP(return slope(f, x, w, w))},
    {"jacrev", MAP(return matmul(jacrev([&](const Tensor& a) { return f(a, w); }, x, {.chunk_size = 2}), w)),
     MAP(return slope(f, x, w, w))},
    {"vmap", MAP(return sum(vmap([&](const Tensor& a, const Tensor& b) { return f(a, b); })(spread(x), spread(w)), 0)),
     MAP(Tensor total = zeros({size}, {DType::f64});
         for (int i = 0; i < examples; ++i) total = total + f(spread(x)[i], spread(w)[i]); return total)},
    {"vmap of x", MAP(return sum(vmap([&](const Tensor& a) { return f(a, w); }, -1, -1)(transpose(spread(x))), 1)),
     MAP(Tensor total = zeros({size}, {DType::f64});
         for (int i = 0; i < examples; ++i) total = total + f(spread(x)[i], w); return total)},
    {"vmap of w",
     MAP(return sum(vmap([&](const Tensor& a, const Tensor& b) { return f(a, b); }, {{std::nullopt, 0}})(x, spread(w)),
                    0)),
     MAP(Tensor total = zeros({size}, {DType::f64});
         for (int i = 0; i < examples; ++i) total = total + f(x, spread(w)[i]); return total)},
    {"scan", MAP(return scan([&](const Tensor& s, const Tensor& e) { return tanh(f(s, e)); }, x, spread(w))),
     MAP(Tensor s = x; for (int i = 0; i < examples; ++i) s = tanh(f(s, spread(w)[i])); return s)},
    {"cond",
     MAP(return cond(
         sum(x) > 0.2, [&](const Tensor& a) { return f(a, w); }, [&](const Tensor& a) { return f(a, w) * a; }, x)),
     MAP(return sum(x).item<double>() > 0.2 ? f(x, w) : f(x, w) * x)},
    {"custom_vjp",
     MAP(return custom_vjp([&](const Tensor& a, const Tensor& b) { return f(a, b); },
                           [&](const Tensor& a, const Tensor& b) {
                             return std::pair{f(a, b), std::pair{a, b}};
                           },
                           [&](const std::pair<Tensor, Tensor>& kept, const Tensor& g) {
                             const auto at = [&](const std::pair<Tensor, Tensor>& p) { return f(p.first, p.second); };
                             return vjp(at, kept).pullback(g);
                           })(x, w)),
     MAP(return f(x, w))},
    {"custom_jvp",
     MAP(return custom_jvp([&](const Tensor& a, const Tensor& b) { return f(a, b); },
                           [&](const Tensor& a, const Tensor& b, const Tensor& da, const Tensor& db) {
                             using Two = std::pair<Tensor, Tensor>;
                             const auto at = [&](const Two& p) { return f(p.first, p.second); };
                             return jvp(at, Two{a, b}, Two{da, db}).tangent;
                           })(x, w)),
     MAP(return f(x, w))},
    {"compile", MAP(return call_compiled(f, x, w)), MAP(return f(x, w))},
};
#undef MAP

// ---- comparison -----------------------------------------------------------------------------------------------------

std::vector<double> numbers(const Tensor& value) {
  std::vector<double> list(static_cast<std::size_t>(value.element_count().constant()));
  value.copy_to(list);
  return list;
}
void check_near(const char* what, const Tensor& found, const Tensor& expected, double bound) {
  REQUIRE(found.shape() == expected.shape());
  const std::vector<double> a = numbers(found), b = numbers(expected);
  double scale = 1;
  for (const double each : b) scale = std::max(scale, std::abs(each));
  for (std::size_t i = 0; i < a.size(); ++i) {
    CAPTURE(i);
    INFO(std::string(what), ": ", a[i], ", not ", b[i]);
    CHECK(std::abs(a[i] - b[i]) <= bound * scale);
  }
}

void check_composition(std::uint64_t seed, int depth) {
  Random random(static_cast<unsigned>(seed));
  Named inner = random_program(random);
  const Transform* last = nullptr;
  Map inside;
  for (int i = 0; i < depth; ++i) {
    last = &transforms[random() % std::size(transforms)];
    inside = inner.f;
    inner = {std::string(last->name) + " of " + inner.name, last->of(inside)};
  }
  INFO("seed ", seed, ": ", inner.name);
  const Tensor x = vector({0.3, -0.45, 0.8}), w = vector({0.93, 0.57, -0.36});
  try {
    const Tensor found = inner.f(x, w);
    check_near("eager", found, last->expected(inside)(x, w), 1e-6);
    check_near("compiled", call_compiled(inner.f, x, w), found, 1e-9);
  } catch (const Error& error) {
    INFO(std::string(error.what()));
    CHECK(false);
  }
}

}  // namespace

TEST_CASE("one transform of a random program") {
  for (std::uint64_t seed = 0; seed < 120; ++seed) check_composition(seed, 1);
}
TEST_CASE("two transforms of a random program") {
  for (std::uint64_t seed = 1000; seed < 1200; ++seed) check_composition(seed, 2);
}
TEST_CASE("three transforms of a random program") {
  for (std::uint64_t seed = 2000; seed < 2120; ++seed) check_composition(seed, 3);
}
