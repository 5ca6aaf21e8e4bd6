// jvp, vjp, linearize, hvp, jacobians and functions with a derivative of their own: what they return for which
// arguments, how they nest, and what they refuse.
#include "weft/transforms.hpp"

#include <doctest/doctest.h>

#include <array>

#include "tests/autograd/support.hpp"
#include "tests/message_of.hpp"
#include "weft/checkpoint.hpp"
#include "weft/compile.hpp"
#include "weft/effects.hpp"
#include "weft/linalg.hpp"
#include "weft/loops.hpp"
#include "weft/nn.hpp"
#include "weft/vmap.hpp"

namespace weft::test {
namespace {

std::vector<double> values(const Tensor& tensor) {
  View<const double> view = tensor.data<double>();
  return {view.begin(), view.end()};
}
void check_close(const Tensor& found, const Tensor& wanted, double bound = 1e-10) {
  REQUIRE(found.shape() == wanted.shape());
  const std::vector<double> a = values(found), b = values(wanted);
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) <= bound * (1 + std::abs(b[i])));
}
bool contains(const std::string& text, const std::string& part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) MESSAGE(text);
  return found;
}

struct Mlp {
  Param first, bias, second;
  Tensor operator()(const Tensor& x) const { return matmul(tanh(matmul(x, first) + bias), second); }
};
Tensor data(std::initializer_list<std::int64_t> sizes, unsigned seed) {
  Shape shape;
  for (const std::int64_t size : sizes) shape.push_back(size);
  const std::vector<double> all = numbers(shape.element_count().constant(), -1, 1, seed);
  return from_span(std::span<const double>(all), shape);
}
Mlp make_mlp(unsigned seed) {
  return {Param{data({3, 5}, seed)}, Param{data({5}, seed + 1)}, Param{data({5, 2}, seed + 2)}};
}
Mlp moved(const Mlp& m, const Mlp& by, double step) {
  return {Param{m.first + by.first * step}, Param{m.bias + by.bias * step}, Param{m.second + by.second * step}};
}

TEST_CASE("jvp of a model: value and tangent are of the type that f returns") {
  const Mlp model = make_mlp(1), along = make_mlp(11);
  const Tensor x = data({4, 3}, 5);
  const auto f = [&](const Mlp& m) {
    const Tensor y = m(x);
    return std::tuple{y, std::vector<Tensor>{sum(y), argmax(y, 1)}, 3};
  };
  const auto [value, tangent] = jvp(f, model, along);
  check_close(std::get<0>(value), model(x));
  const Tensor quotient = (moved(model, along, 1e-5)(x) - moved(model, along, -1e-5)(x)) / 2e-5;
  check_close(std::get<0>(tangent), quotient, 1e-8);
  check_close(std::get<1>(tangent)[0], sum(quotient), 1e-8);
  CHECK(!std::get<1>(tangent)[1].defined());  // integers have none
  CHECK(std::get<2>(tangent) == 3);
}

TEST_CASE("what does not depend has the tangent and the cotangent zero, and so has what is undefined") {
  const Tensor x = data({3}, 1), t = data({3}, 2);
  check_close(jvp([](const Tensor& a) { return zeros({2}, {DType::f64}) + a.rank(); }, x, t).tangent,
              zeros({2}, {DType::f64}));
  check_close(jvp([](const Tensor& a) { return stop_gradient(a) * 2; }, x, t).tangent, x * 0);
  const auto [value, pullback] = vjp([](const Tensor&) { return zeros({2}, {DType::f64}); }, x);
  check_close(pullback(value), x * 0);
  using Two = std::pair<Tensor, Tensor>;
  const auto product = [](const Two& p) { return p.first * p.second; };
  check_close(jvp(product, Two{x, t}, Two{Tensor(), x}).tangent, x * x);
  check_close(vjp(
                  [](const Two& p) {
                    return Two{p.first * p.second, p.first};
                  },
                  Two{x, t})
                  .pullback({x, {}})
                  .second,
              x * x);
}

TEST_CASE("a pullback is called several times, after values were read, inside and outside of its level") {
  const Mlp model = make_mlp(1);
  const Tensor x = data({4, 3}, 5);
  const auto [value, pullback] = vjp([&](const Mlp& m) { return m(x); }, model);
  values(value);
  for (unsigned seed : {1u, 2u}) {
    const Tensor c = data({4, 2}, seed);
    const Mlp wanted = grad([&](const Mlp&m) { return sum(m(x) * c); }, model), found = pullback(c);
    check_close(found.first, wanted.first);
    check_close(found.bias, wanted.bias);
    check_close(found.second, wanted.second);
  }
  // What it keeps depends on the variables of a level around it.
  const auto outer = [&](const Tensor& a) {
    const auto [y, back] = vjp([&](const Tensor& b) { return sin(b) * a; }, a * 2);
    return sum(back(a) * y);
  };
  const auto plain = [&](const Tensor& a) { return sum(cos(a * 2) * a * a * sin(a * 2) * a); };
  check_close(grad(outer, x), grad(plain, x));
  check_close(jvp(outer, x, x).tangent, sum(grad(plain, x) * x));
}

TEST_CASE("linearize gives what jvp gives, any number of times") {
  const Mlp model = make_mlp(1);
  const Tensor x = data({4, 3}, 5);
  const auto f = [&](const Mlp& m) { return m(x); };
  const auto [value, push] = linearize(f, model);
  values(value);
  for (unsigned seed : {11u, 21u}) check_close(push(make_mlp(seed)), jvp(f, model, make_mlp(seed)).tangent);
}

TEST_CASE("jacobians have the output's shape followed by the input's; the Hessian is theirs of the gradient") {
  const Tensor x = data({2, 3}, 3);
  const auto f = [](const Tensor& a) { return std::pair{sin(a) * a[0], sum(a * a, 1)}; };
  const auto forward = jacfwd(f, x), reverse = jacrev(f, x);
  CHECK(forward.first.shape() == Shape::of(2, 3, 2, 3));
  CHECK(forward.second.shape() == Shape::of(2, 2, 3));
  check_close(forward.first, reverse.first);
  check_close(forward.second, reverse.second);
  for (int i = 0; i < 2; ++i) check_close(forward.second[i], grad([&](const Tensor& a) { return f(a).second[i]; }, x));
  const auto number = [](const Tensor& a) { return sum(exp(a) * a[1]) + prod(a); };
  const Tensor h = hessian(number, x), v = data({2, 3}, 4);
  CHECK(h.shape() == Shape::of(2, 3, 2, 3));
  check_close(sum(h * v, {2, 3}), hvp(number, x, v));
  check_close(jacrev([&](const Tensor& a) { return grad(number, a); }, x), h);
  check_close(jacfwd([&](const Tensor& a) { return jacrev(number, a); }, x), h);
  check_close(jacrev([&](const Tensor& a) { return jacfwd(number, a); }, x), h);
  check_close(jacrev([&](const Tensor& a) { return jacrev(number, a); }, x), h);
  CHECK(jacfwd([](const Tensor& a) { return a * 2; }, zeros({0}, {DType::f64})).shape() == Shape::of(0, 0));
}

TEST_CASE("jacobians take so many directions at once as chunk_size says, or one where a rule is missing") {
  const Tensor x = data({7}, 3);
  const auto f = [](const Tensor& a) { return std::pair{matmul(sin(a), data({7, 5}, 4)) * sum(a), prod(a)}; };
  const auto number = [](const Tensor& a) { return sum(exp(a) * a[1]) + prod(a); };
  const auto all = jacfwd(f, x);
  const Tensor h = hessian(number, x);
  for (const std::int64_t chunk : {1, 2, 3, 6, 7, 100}) {
    CAPTURE(chunk);
    const JacobianOptions options{.chunk_size = chunk};
    const auto forward = jacfwd(f, x, options), reverse = jacrev(f, x, options);
    check_close(forward.first, all.first);
    check_close(forward.second, all.second);
    check_close(reverse.first, all.first);
    check_close(reverse.second, all.second);
    check_close(hessian(number, x, options), h);
  }
  const auto compiled = compile([](const Tensor& a) {
    return std::vector{jacfwd([](const Tensor& b) { return sin(b) * sum(b); }, a, {.chunk_size = 3}),
                       jacfwd([](const Tensor& b) { return sin(b) * sum(b); }, a)};
  });
  for (const std::int64_t size : {7, 5, 6, 1}) {
    const std::vector<Tensor> found = compiled(data({size}, 3));
    check_close(found[0], found[1]);
  }
  const auto square = HostFunction([](const Tensor& a) {
                        return a * a;
                      }).with_derivative([](const Tensor& a, const Tensor&, const Tensor& g) { return a * g * 2; });
  const auto hosted = [&](const Tensor& a) { return host_call(like(a), square, sin(a)); };
  const auto plain = [](const Tensor& a) { return sin(a) * sin(a); };
  check_close(jacrev(hosted, x), jacrev(plain, x));
  check_close(jacfwd(hosted, x), jacrev(plain, x));
  const Tensor deep = data({2, 1, 1, 1, 1, 1, 1, 2}, 5);
  check_close(jacrev([](const Tensor& a) { return sum(a * a); }, deep), deep * 2);
  check_close(jacfwd([](const Tensor& a) { return sum(a * a); }, deep), deep * 2);
  CHECK(contains(message_of([&] { jacfwd(plain, x, {.chunk_size = -1}); }),
                 "[jacfwd] chunk_size is -1: it must be 0 or more, at transforms_test.cpp:"));
}

TEST_CASE("the product with the Hessian of a model's loss against differences of its gradient") {
  const Mlp model = make_mlp(1), along = make_mlp(11);
  const Tensor x = data({4, 3}, 5), target = data({4, 2}, 6);
  const auto loss = [&](const Mlp& m) { return nn::mse_loss(m(x), target); };
  const Mlp found = hvp(loss, model, along), above = grad(loss, moved(model, along, 1e-5)),
            below = grad(loss, moved(model, along, -1e-5));
  check_close(found.first, (above.first - below.first) / 2e-5, 1e-8);
  check_close(found.bias, (above.bias - below.bias) / 2e-5, 1e-8);
  check_close(found.second, (above.second - below.second) / 2e-5, 1e-8);
}

TEST_CASE("layers and losses, forwards and over a gradient") {
  const Tensor x = data({2, 4, 6}, 1), t = data({2, 4, 6}, 2), w = data({6}, 3);
  const Tensor labels = constant(std::vector<std::int64_t>{1, 0}, {2});
  using F = Tensor (*)(const Tensor&, const Tensor&, const Tensor&);
  const F all[] = {
      [](const Tensor& a, const Tensor& b, const Tensor&) { return nn::layer_norm(a, b, b); },
      [](const Tensor& a, const Tensor&, const Tensor&) { return nn::softmax(a, 1) * log_softmax(a, 2); },
      [](const Tensor& a, const Tensor&, const Tensor&) { return nn::gelu(a) + nn::silu(a) + nn::softplus(a); },
      [](const Tensor& a, const Tensor&, const Tensor& l) { return nn::cross_entropy(sum(a, 1), l); },
      [](const Tensor& a, const Tensor& b, const Tensor&) { return nn::huber_loss(a, expand(b, a.shape())); },
      [](const Tensor& a, const Tensor& b, const Tensor&) {
        return nn::scaled_dot_product_attention(unsqueeze(a, 1), unsqueeze(a * b, 1), unsqueeze(sin(a), 1));
      },
      [](const Tensor& a, const Tensor&, const Tensor&) { return linalg::det(matmul(a, transpose(a))); },
  };
  int at = 0;
  for (const F f : all) {
    CAPTURE(at++);
    const auto of = [&](const Tensor& a) { return f(a, w, labels); };
    check_close(jvp(of, x, t).tangent, (of(x + t * 1e-5) - of(x - t * 1e-5)) / 2e-5, 1e-7);
    const auto slope = [&](const Tensor& a) { return grad([&](const Tensor& b) { return sum(square(of(b))); }, a); };
    check_close(jvp(slope, x, t).tangent, (slope(x + t * 1e-5) - slope(x - t * 1e-5)) / 2e-5, 1e-6);
  }
}

TEST_CASE("loops and choices, a while loop too; inside loops, and compiled") {
  static constexpr auto f = [](const Tensor& a) {
    const Tensor grown =
        while_loop([](const Tensor& s) { return sum(s) < 100; }, [&](Tensor s) { return s * s * 0.5 + a + 1; }, a * 2);
    const auto [last, all] = scan(
        [&](Tensor s, const Tensor& e) {
          const Tensor next = sin(s) * e + a;
          return std::pair{next, next * s};
        },
        a * 2, a);
    const Tensor chosen = cond(
        sum(a) > 0, [&](const Tensor& b) { return b * a; }, [](const Tensor& b) { return b + 1; }, last);
    return log(grown) + chosen + sum(all, 0);
  };
  const Tensor x = from_list<double>({0.5, 0.25, 1.5}), t = from_list<double>({1, -2, 0.5});
  const Tensor quotient = (f(x + t * 1e-5) - f(x - t * 1e-5)) / 2e-5;
  check_close(jvp(f, x, t).tangent, quotient, 1e-7);
  const auto compiled = compile([](const Tensor& a, const Tensor& b) { return jvp(f, a, b).tangent; });
  check_close(compiled(x, t), quotient, 1e-7);
  // jvp of jvp through a while loop, where no gradient passes
  const auto slope = [&](const Tensor& a) { return jvp(f, a, t).tangent; };
  check_close(jvp(slope, x, t).tangent, (slope(x + t * 1e-5) - slope(x - t * 1e-5)) / 2e-5, 1e-6);
  // Newton's method: derivatives inside of a loop
  const auto root = [](const Tensor& start) {
    return fori(
        0, 20,
        [](Index, Tensor s) {
          const auto [value, slope] = jvp([](const Tensor& a) { return a * a * a - 2; }, s, ones_like(s));
          return s - value / slope;
        },
        start);
  };
  check_close(root(x), ones_like(x) * std::cbrt(2.0));
}

TEST_CASE("transforms inside of a loop that is differentiated, eagerly and compiled") {
  static constexpr auto f = [](const Tensor& x) {
    const Tensor last = scan(
        [&](Tensor s, const Tensor& e) {
          const auto inner = [&](const Tensor& a) { return sin(a) * e + a * x; };
          const auto [value, pullback] = vjp(inner, s);
          const auto [same, push] = linearize(inner, value);
          return tanh(pullback(value) + push(s) + jvp(inner, s, x).tangent);
        },
        x * 0.5, x);
    return sum(square(last));
  };
  const Tensor x = from_list<double>({0.5, 0.25, 0.75}), t = from_list<double>({1, -2, 0.5});
  static constexpr auto all = [](const Tensor& a, const Tensor& b) {
    return std::vector{grad(f, a), jvp(f, a, b).tangent, hvp(f, a, b)};
  };
  const Tensor slope = (f(x + t * 1e-5) - f(x - t * 1e-5)) / 2e-5;
  const Tensor curve = (grad(f, x + t * 1e-5) - grad(f, x - t * 1e-5)) / 2e-5;
  const auto compiled = compile(all);
  for (const std::vector<Tensor>& found : {all(x, t), compiled(x, t)}) {
    check_close(sum(found[0] * t), slope, 1e-7);
    check_close(found[1], slope, 1e-7);
    check_close(found[2], curve, 1e-6);
  }
}

TEST_CASE("transforms of a function that decides, and inside of one, in a compiled function") {
  static constexpr auto wave = [](const Tensor& a) { return sin(a) * a; };
  static constexpr auto cube = [](const Tensor& a) { return a * a * a; };
  static constexpr auto either = [](const Tensor& x) { return sum(x) > 0 ? wave(x) : cube(x); };
  const auto check = [](const char* name, auto f, auto on_one_side, auto on_other_side) {
    CAPTURE(name);
    const auto compiled = compile(f);
    for (const double sign : {1.0, -1.0, 1.0, -1.0}) {
      const Tensor x = from_list<double>({0.3, -0.1, 0.7}) * sign,
                   wanted = sign > 0 ? on_one_side(x) : on_other_side(x);
      check_close(f(x), wanted);
      check_close(compiled(x), wanted);
    }
  };
  // `transform(f, x)`, of the function that decides and of both of its sides; and where it is decided outside of it.
  const auto check_both = [&]<class Transform>(const char* name, Transform) {
    const auto of_wave = [](const Tensor& x) { return Transform()(wave, x); };
    const auto of_cube = [](const Tensor& x) { return Transform()(cube, x); };
    check(
        name, [](const Tensor& x) { return Transform()(either, x); }, of_wave, of_cube);
    check(
        name, [](const Tensor& x) { return sum(x) > 0 ? Transform()(wave, x) : Transform()(cube, x); }, of_wave,
        of_cube);
  };
  check_both("jvp", [](auto f, const Tensor& x) { return jvp(f, x, x * 2).tangent; });
  check_both("vjp", [](auto f, const Tensor& x) { return vjp(f, x).pullback(x); });
  check_both("linearize", [](auto f, const Tensor& x) {
    const auto linear = linearize(f, x);
    return linear.push(x) + linear.push(cos(x));
  });
  check_both("jacrev", [](auto f, const Tensor& x) { return jacrev(f, x); });
  check_both("jacfwd", [](auto f, const Tensor& x) { return jacfwd(f, x); });
  check_both("hvp", [](auto f, const Tensor& x) { return hvp([&](const Tensor& a) { return sum(f(a)); }, x, x * 2); });
  check_both("hessian", [](auto f, const Tensor& x) { return hessian([&](const Tensor& a) { return sum(f(a)); }, x); });
  check_both("checkpoint", [](auto f, const Tensor& x) {
    return grad([&](const Tensor& a) { return sum(f(a) * checkpoint([](const Tensor& b) { return wave(b); })(a)); }, x);
  });
  // vmap can't decide for each example: it is decided around it.
  const auto of_wave = [](const Tensor& x) {
    return vmap([](const Tensor& a) { return grad([](const Tensor& b) { return wave(b); }, a); })(x);
  };
  const auto of_cube = [](const Tensor& x) {
    return vmap([](const Tensor& a) { return grad([](const Tensor& b) { return cube(b); }, a); })(x);
  };
  check(
      "vmap",
      [](const Tensor& x) {
        const bool is_wave = (sum(x) > 0).item<bool>();
        return vmap(
            [&](const Tensor& a) { return grad([&](const Tensor& b) { return is_wave ? wave(b) : cube(b); }, a); })(x);
      },
      of_wave, of_cube);
}

TEST_CASE("sizes that are symbols") {
  static constexpr auto f = [](const Tensor& a) { return sum(softmax(a, 0) * exp(a)) + sum(cumsum(a, 0) * a); };
  static constexpr auto all = [](const Tensor& a, const Tensor& b) {
    const auto [value, pullback] = vjp([](const Tensor& c) { return sin(c) * c; }, a);
    return std::vector{jvp(f, a, b).tangent, hvp(f, a, b), hessian(f, a), pullback(b),
                       jacrev(
                           [](const Tensor& c) {
                             return concat({c * c, sum(c, 0, true)});
                           },
                           a)};
  };
  const auto compiled = compile(all);
  for (const std::int64_t size : {3, 5, 4, 1, 7}) {
    CAPTURE(size);
    const Tensor x = data({size}, 1), t = data({size}, 2);
    const std::vector<Tensor> found = compiled(x, t), wanted = all(x, t);
    for (std::size_t i = 0; i < found.size(); ++i) check_close(found[i], wanted[i]);
  }
}

TEST_CASE("compiled functions: transforms of them, and of functions that call them") {
  static constexpr auto number = [](const Tensor& a) { return sum(sin(a) * a) + prod(a); };
  const Tensor x = data({4}, 1), t = data({4}, 2);
  const auto plain = compile(number);
  const auto calls = [&](const Tensor& a) { return plain(a * 2); };
  const auto inlined = [](const Tensor& a) { return number(a * 2); };
  check_close(jvp(calls, x, t).tangent, jvp(inlined, x, t).tangent);
  check_close(hvp(calls, x, t), hvp(inlined, x, t));
  check_close(vjp(calls, x).pullback(plain(x)), vjp(inlined, x).pullback(number(x)));
  check_close(hessian(calls, x), hessian(inlined, x));
  const auto all = compile([](const Tensor& a, const Tensor& b) {
    const auto [value, pullback] = vjp([](const Tensor& c) { return sin(c) * c; }, a);
    return std::vector{hvp(number, a, b), hessian(number, a), pullback(b), pullback(value)};
  });
  const std::vector<Tensor> found = all(x, t);
  check_close(found[0], hvp(number, x, t));
  check_close(found[1], hessian(number, x));
  check_close(found[2], (cos(x) * x + sin(x)) * t);
  check_close(found[3], (cos(x) * x + sin(x)) * sin(x) * x);
}

TEST_CASE("a function with a gradient of its own") {
  // log(1 + exp(x)), whose gradient is written without an overflow
  const auto softplus = custom_vjp([](const Tensor& a) { return log(1 + exp(a)); },
                                   [](const Tensor& a) {
                                     return std::pair{log(1 + exp(a)), a};
                                   },
                                   [](const Tensor& a, const Tensor& g) { return g * sigmoid(a) * 3; });
  const Tensor x = data({5}, 1), t = data({5}, 2);
  check_close(softplus(x), log(1 + exp(x)));
  const auto number = [&](const Tensor& a) { return sum(softplus(a) * t); };
  check_close(grad(number, x), sigmoid(x) * t * 3);
  check_close(jvp(softplus, x, t).tangent, sigmoid(x) * t * 3);
  const Tensor second = sigmoid(x) * (1 - sigmoid(x)) * t * 3;  // of the rule, not of the function
  check_close(hvp(number, x, t), second * t);
  check_close(grad([&](const Tensor& a) { return sum(grad(number, a) * t); }, x), second * t);
  const auto through = [&](const Tensor& a) {
    return sum(scan([&](Tensor s, const Tensor& e) { return s + softplus(e); }, a[0], a));
  };
  check_close(grad(through, x) * 1, sigmoid(x) * 3 + from_list<double>({1, 0, 0, 0, 0}));
  check_close(jvp(through, x, t).tangent, sum(sigmoid(x) * 3 * t) + t[0]);

  using Two = std::tuple<Tensor, Tensor>;
  const auto product = custom_vjp([](const Tensor& a, const Tensor& b) { return a * b; },
                                  [](const Tensor& a, const Tensor& b) {
                                    return std::pair{a * b, std::array{a, b}};
                                  },
                                  [](const std::array<Tensor, 2>& kept, const Tensor& g) {
                                    return Two{g * kept[1], Tensor()};
                                  });
  const Two found = grad([&](const Two& p) { return sum(product(std::get<0>(p), std::get<1>(p))); }, Two{x, t});
  struct Scaled {  // a parameter and a buffer are operands as they are
    Param scale;
    Buffer shift;
  };
  const auto scaled = [&](const Scaled& m) { return sum(product(m.scale, m.shift) * product(m.scale, t)); };
  check_close(grad(scaled, Scaled{x, t}).scale, 2 * x * t * t);
  check_close(std::get<0>(found), t);
  check_close(std::get<1>(found), t * 0);
  const auto compiled = compile([](const Tensor& a) {
    const auto f = custom_vjp([](const Tensor& b) { return round(b); },
                              [](const Tensor& b) {
                                return std::pair{round(b), 0};
                              },
                              [](int, const Tensor& g) { return g; });
    return grad([&](const Tensor& b) { return sum(f(b * 2) * b); }, a);
  });
  check_close(compiled(x), round(x * 2) + 2 * x);
}

TEST_CASE("a function with a tangent of its own") {
  const auto scaled = custom_jvp(
      [](const Tensor& a, const Tensor& b) { return a * exp(b); },
      [](const Tensor& a, const Tensor& b, const Tensor& da, const Tensor& db) { return (da + a * db) * exp(b) * 2; });
  const Tensor x = data({5}, 1), t = data({5}, 2);
  const auto f = [&](const Tensor& a) { return scaled(a, a); };
  check_close(jvp(f, x, t).tangent, (1 + x) * exp(x) * 2 * t);
  check_close(grad([&](const Tensor& a) { return sum(f(a) * t); }, x), (1 + x) * exp(x) * 2 * t);
  check_close(hvp([&](const Tensor& a) { return sum(f(a)); }, x, t),
              grad([&](const Tensor& a) { return sum(jvp(f, a, t).tangent); }, x));
}

TEST_CASE("around the program's own code") {
  const auto f = custom_vjp(
      [](const Tensor& a) {
        return host_call(
            like(a), [](const Tensor& b) { return b * b; }, a);
      },
      [](const Tensor& a) {
        return std::pair{host_call(
                             like(a), [](const Tensor& b) { return b * b; }, a),
                         a};
      },
      [](const Tensor& a, const Tensor& g) { return g * a * 2; });
  const Tensor x = data({3}, 1);
  check_close(f(x), x * x);
  check_close(grad([&](const Tensor& a) { return sum(f(a)); }, x), x * 2);
  check_close(jvp(f, x, x).tangent, x * x * 2);
}

TEST_CASE("integers on the way have no tangent") {
  const Tensor x = from_list<double>({0.3, -0.7, 0.2}), y = from_list<double>({-1, 2, 3});
  check_close(jvp([&](const Tensor& a) { return copysign(a, y); }, x, x).tangent, x * from_list<double>({-1, -1, 1}));
  check_close(jvp([&](const Tensor& a) { return copysign(x, a); }, y, y).tangent, y * 0);
  check_close(jacfwd([](const Tensor& a) { return where(signbit(a), a * 3, a); }, x),
              diag(from_list<double>({1, 3, 1})));
  check_close(hessian([](const Tensor& a) { return sum(copysign(square(a), a)); }, x), diag(copysign(x * 0 + 2, x)));
  const auto ranks = [](const Tensor& a) {
    return a * host_call(
                   {a.shape(), DType::i64}, [](const Tensor& b) { return argsort(argsort(b)); }, a);
  };
  check_close(jvp(ranks, x, y).tangent, y * from_list<double>({2, 0, 1}));
}

TEST_CASE("jacobians of integers are undefined, and refused where there is nothing else") {
  const Tensor x = data({3}, 1);
  const auto f = [](const Tensor& a) { return std::tuple{a * a, argmax(a), a > 0}; };
  for (const auto& [slopes, at, above] : {jacfwd(f, x), jacrev(f, x)}) {
    check_close(slopes, diag(x * 2));
    CHECK(!at.defined());
    CHECK(!above.defined());
  }
  const auto integers = [](const Tensor& a) { return argsort(a); };
  CHECK(contains(message_of([&] { jacrev(integers, x); }), "[jacrev] what the function returns is i64[3]"));
  CHECK(contains(message_of([&] { jacfwd(integers, x); }), "only floating values have derivatives"));
}

TEST_CASE("a tangent is converted to the type of the point: a tensor to a parameter, and back") {
  const Param weight(data({3}, 1));
  const Tensor along = data({3}, 2);
  const auto f = [](const Tensor& a) { return sum(sin(a)); };
  check_close(jvp(f, weight, along).tangent, sum(cos(weight) * along));
  check_close(hvp(f, weight, along), -sin(weight) * along);
  check_close(jvp(f, along, weight).tangent, sum(cos(along) * weight));
}

TEST_CASE("the exponential of a matrix in every order of both modes") {
  const Tensor a = data({2, 3, 3}, 4) * from_list<double>({1, 4}, {2, 1, 1}), t = data({2, 3, 3}, 5);
  const auto f = [](const Tensor& x) { return sum(linalg::matrix_exp(x) * cos(reshape(arange(9), {3, 3}))); };
  const auto slope = [&](const Tensor& x) { return grad(f, x); };
  const Tensor first = sum(slope(a) * t), second = (slope(a + t * 1e-5) - slope(a - t * 1e-5)) / 2e-5;
  check_close(jvp(f, a, t).tangent, first);
  check_close(linearize(f, a).push(t), first);
  check_close(hvp(f, a, t), second, 1e-6);
  check_close(grad([&](const Tensor& x) { return sum(slope(x) * t); }, a), second, 1e-6);
  check_close(grad([&](const Tensor& x) { return jvp(f, x, t).tangent; }, a), second, 1e-6);
  const auto loop = [&](const Tensor& x) {
    return sum(sin(scan([](const Tensor& s, const Tensor& e) { return matmul(s, linalg::matrix_exp(e)); },
                        eye(3, {DType::f64}), x)));
  };
  const auto slope_of_loop = [&](const Tensor& x) { return grad(loop, x); };
  check_close(grad([&](const Tensor& x) { return sum(slope_of_loop(x) * t); }, a),
              (slope_of_loop(a + t * 1e-5) - slope_of_loop(a - t * 1e-5)) / 2e-5, 1e-6);
  const auto compiled = compile([](const Tensor& x, const Tensor& t) {
    const auto f = [](const Tensor& x) { return sum(linalg::matrix_exp(x) * cos(reshape(arange(9), {3, 3}))); };
    return grad([&](const Tensor& x) { return jvp(f, x, t).tangent; }, x);
  });
  check_close(compiled(a, t), second, 1e-6);
}

TEST_CASE("what is refused, in one sentence with the user's line") {
  const Tensor x = data({3}, 1), i = constant(std::vector<std::int64_t>{1, 2}, {2});
  const auto same = [](const Tensor& a) { return a * 2; };
  CHECK(contains(message_of([&] { jvp(same, i, i); }), "only floating values have gradients, at transforms_test.cpp:"));
  CHECK(contains(message_of([&] { jvp(same, x, data({4}, 1)); }),
                 "[jvp] the tangent is f64[4], the value that it belongs to is f64[3], at transforms_test.cpp:"));
  CHECK(contains(message_of([&] { jvp(same, x, cast(x, DType::f32)); }), "[jvp] the tangent is f32[3]"));
  using List = std::vector<Tensor>;
  CHECK(contains(message_of([&] {
                   jvp([](const List& a) { return a[0]; }, List{x}, List{x, x});
                 }),
                 "[jvp] the tangent has other lengths"));
  CHECK(contains(message_of([&] {
                   jvp([](const List& a) { return a[0]; }, List{x, x}, List{x, x[0]});
                 }),
                 "[jvp] the tangent of 1 is f64[]"));
  const auto [value, pullback] = vjp(same, x);
  CHECK(contains(message_of([&] { pullback(x[0]); }),
                 "[vjp] the cotangent is f64[], the value that it belongs to is f64[3], at transforms_test.cpp:"));
  CHECK(contains(message_of([&] { hvp(same, x, x); }), "[hvp] the loss must be one number"));
  CHECK(contains(message_of([&] {
                   jacfwd([](const Tensor& a) { return reshape(a, {1, 1, 1, 1, 1, 1, 1, 3}); }, x);
                 }),
                 "would have 9 axes, a tensor has 8 at most, at transforms_test.cpp:"));
  CHECK(contains(message_of([&] {
                   jvp(
                       [](const Tensor& a) {
                         return host_call(
                             like(a), [](const Tensor& b) { return b * 2; }, a);
                       },
                       x, x);
                 }),
                 "the function has no derivative"));
  // Rows without a rule name themselves, in both directions.
  const auto bits = [](const Tensor& a) { return sum(bitcast(bitcast(a, DType::i64), DType::f64)); };
  const auto raw = [](const Tensor& a) { return sum(cast(bitcast(cast(a, DType::f16), DType::bf16), DType::f64)); };
  CHECK(contains(message_of([&] { grad(raw, x); }), "bitcast has no derivative: use stop_gradient or cast, at transf"));
  CHECK(
      contains(message_of([&] { jvp(raw, x, x); }), "bitcast has no derivative: use stop_gradient or cast, at transf"));
  CHECK(contains(message_of([&] { grad(bits, x); }), "the loss does not depend on what it is differentiated"));
  const auto until = [](const Tensor& a) {
    return while_loop([](const Tensor& s) { return sum(s * s) < 9; }, [](const Tensor& s) { return s * 2; }, a);
  };
  for (const auto& ask : {std::function<void()>([&] { grad([&](const Tensor& a) { return sum(until(a)); }, x); }),
                          std::function<void()>([&] { jacrev(until, x); })})
    CHECK(contains(message_of(ask), "a while_loop has no gradient, since how often it runs is known only then"));
  // A rule that calls the host has no second derivative.
  const auto hosted = custom_vjp([](const Tensor& a) { return a * a; },
                                 [](const Tensor& a) {
                                   return std::pair{a * a, a};
                                 },
                                 [](const Tensor& a, const Tensor& g) {
                                   return g * host_call(
                                                  like(a), [](const Tensor& b) { return b * 2; }, a);
                                 });
  const auto slope_of = [&](const Tensor& a) { return sum(grad([&](const Tensor& b) { return sum(hosted(b)); }, a)); };
  check_close(grad([&](const Tensor& a) { return sum(hosted(a)); }, x), x * 2);
  CHECK(contains(message_of([&] { grad(slope_of, x); }), "[host_call] the function has no derivative"));
  const auto captures = custom_vjp([&](const Tensor& a) { return a * 2; },
                                   [](const Tensor& a) {
                                     return std::pair{a * 2, a};
                                   },
                                   [](const Tensor& a, const Tensor& g) { return g[0] * a[0]; });
  CHECK(contains(message_of([&] { captures(x); }),
                 "[custom_vjp] backward gives f64[] for operand 0, which is f64[3], at transforms_test.cpp:"));
  const auto hidden = [](const Tensor& outer) {
    const auto f = custom_vjp([&](const Tensor& a) { return a * outer; },
                              [&](const Tensor& a) {
                                return std::pair{a * outer, 0};
                              },
                              [&](int, const Tensor& g) { return g * outer; });
    return sum(f(outer * 2));
  };
  CHECK(contains(message_of([&] { grad(hidden, x); }), "captures a value (f64[3]"));
}

}  // namespace
}  // namespace weft::test
