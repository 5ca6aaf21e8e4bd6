// vmap as its user sees it: axes, structs, nesting, gradients, loops, ensembles, and what is refused.
#include "tests/batching/support.hpp"

using namespace weft;
using namespace vmap_test;

namespace {

constexpr double products = 1e-12;  // of f64: another order of the sums of a product

struct Mlp {
  nn::Linear in{6, 5}, out{5, 3};
  Tensor operator()(const Tensor& x) const { return out(relu(in(x))); }
};

Tensor endless(const Tensor& x) { return vmap(endless)(unsqueeze(x, 0)); }

Tensor loss_of(const Mlp& m, const Tensor& x, const Tensor& y) { return nn::cross_entropy(m(x), y); }

}  // namespace

TEST_CASE("elementwise functions, sums and products are those of each example") {
  const Tensor x = noise({4, 6}, 1), y = noise({4, 6}, 2), w = noise({6, 5}, 3);
  check_rows([](const Tensor& a, const Tensor& b) { return a * b + exp(a) - 1; }, {}, 0, x, y);
  check_rows([](const Tensor& a, const Tensor& b) { return sum(a * b); }, {}, 0, x, y);
  check_rows([](const Tensor& a, const Tensor& b) { return matmul(a, b); }, {{0, std::nullopt}}, products, x, w);
  check_rows([](const Tensor& a, const Tensor& b) { return matmul(b, a); }, {{1, std::nullopt}}, products,
             noise({5, 3}, 1), w);
  check_rows([](const Tensor& a, const Tensor& b) { return matmul(a, b); }, {}, products, noise({4, 2, 6}, 3),
             noise({4, 6, 3}, 4));
}

TEST_CASE("a vector times a matrix is one product of matrices") {
  const Tensor w = noise({6, 5}, 3);
  const auto f = compile(
      [](const Tensor& x, const Tensor& w) { return vmap([&](const Tensor& row) { return matmul(row, w); })(x); });
  const std::string graph = explain(f, noise({4, 6}, 1), w).graph;
  CHECK(graph.find("f64[4,5] = matmul") != std::string::npos);
}

TEST_CASE("examples lie along any axis, and so do results") {
  const Tensor x = noise({4, 5, 6}, 1), y = noise({5, 4, 6}, 2);
  const auto f = [](const Tensor& a, const Tensor& b) { return a * 2 + cumsum(b, 1); };
  check_rows(f, {{0, 1}}, 0, x, y);
  check_rows(f, {{-3, 1}, 1}, 0, x, y);
  check_rows(f, {{0, -2}, -1}, 0, x, y);
  check_rows(f, {{std::nullopt, -1}, 2}, 0, noise({5, 4}, 3), y);
  check_rows(f, {1}, 0, y, y);
}

TEST_CASE("structs, numbers, and results in which examples do not differ") {
  const Tensor x = noise({4, 6}, 1), c = noise({2}, 2);
  const auto result = vmap([&](const std::pair<Tensor, double>& p, double factor) {
    return std::tuple{p.first * p.second * factor, c, std::vector<Tensor>{sum(p.first)}, 3};
  })(std::pair{x, 2.0}, 3.0);
  check_same(std::get<0>(result), x * 2.0 * 3.0);
  check_same(std::get<1>(result), expand(c, {4, 2}));
  check_same(std::get<2>(result)[0], sum(x, 1));
  CHECK(std::get<3>(result) == 3);
}

TEST_CASE("vmap inside vmap") {
  const Tensor x = noise({4, 6}, 1), y = noise({3, 6}, 2);
  const auto table = vmap([&](const Tensor& a) { return vmap([&](const Tensor& b) { return sum(a * b); })(y); });
  check_same(table(x), sum(unsqueeze(x, 1) * unsqueeze(y, 0), -1));
  check_rows(
      [](const Tensor& a) {
        return vmap([](const Tensor& b) { return softmax(b, 0); }, {1, -1})(a);
      },
      {1}, 0, noise({3, 4, 5}, 3));
}

TEST_CASE("the gradient of each sample") {
  Mlp model;
  const Tensor x = noise({4, 6}, 1, DType::f32), y = arange(4) % 3;
  const auto of_one = [&](const Tensor& a, const Tensor& b) {
    return grad([&](const Mlp& m) { return loss_of(m, a, b); }, model);
  };
  const Mlp all = vmap(of_one)(x, y);
  const auto compiled = compile([](const Mlp& m, const Tensor& x, const Tensor& y) {
    return vmap([&](const Tensor& a, const Tensor& b) {
      return grad([&](const Mlp& own) { return loss_of(own, a, b); }, m);
    })(x, y);
  });
  const Mlp replayed = compiled(model, x, y);
  for (int i = 0; i < 4; ++i) {
    const Mlp one = of_one(x[i], y[i]);
    for (const Mlp* many : {&all, &replayed})
      tree::for_each(*many, one, [&](const Param& a, const Param& b) { check_same(select(a, 0, i), b, 1e-5); });
  }
  // Their sum is the gradient of the summed loss.
  const Mlp total = grad(
      [&](const Mlp& m) { return sum(vmap([&](const Tensor& a, const Tensor& b) { return loss_of(m, a, b); })(x, y)); },
      model);
  tree::for_each(all, total, [&](const Param& a, const Param& b) { check_same(sum(a, 0), b, 1e-5); });
}

TEST_CASE("an ensemble is one model with stacked parameters") {
  std::vector<Mlp> models(5);
  const Tensor x = noise({7, 6}, 1, DType::f32);
  const Mlp stacked = stack_module_state(models);
  const Tensor shared = vmap([](const Mlp& m, const Tensor& x) { return m(x); }, {{0, std::nullopt}})(stacked, x);
  const Tensor own = vmap([](const Mlp& m, const Tensor& x) { return m(x); })(stacked, expand(x, {5, 7, 6}));
  for (std::size_t i = 0; i < models.size(); ++i) {
    check_same(shared[static_cast<int>(i)], models[i](x), 1e-6);
    check_same(own[static_cast<int>(i)], models[i](x), 1e-6);
  }
}

TEST_CASE("bodies of loops and choices, and vmap in them") {
  const Tensor x = noise({4, 6}, 1), rows = noise({4, 5, 6}, 2);
  check_rows(
      [](const Tensor& a, const Tensor& xs) {
        auto [last, all] = scan(
            [](const Tensor& s, const Tensor& r) {
              return std::pair{s * 0.5 + sin(r), s * r};
            },
            a, xs);
        return sum(all, 0) + last;
      },
      {}, 0, x, rows);
  check_rows(
      [](const Tensor& a) {
        return cond(
            sum(a) > 0, [](const Tensor& b) { return b * 2; }, [](const Tensor& b) { return b - 1; }, a);
      },
      {}, 0, x);
  check_rows(
      [](const Tensor& a) {
        return while_loop([](const Tensor& b) { return sum(b * b) < 30; }, [](const Tensor& b) { return b * 1.5; }, a);
      },
      {}, 0, x);
  check_rows(
      [](const Tensor& a) {
        return fori(
            0, 3, [](const Index& i, const Tensor& b) { return b * 1.5 + i; }, a);
      },
      {}, 0, x);
  const Tensor inside =
      scan([](const Tensor& s, const Tensor& r) { return s + vmap([](const Tensor& a) { return sum(a * a); })(r); },
           zeros({5}, {DType::f64}), rows);
  check_same(inside, sum(sum(rows * rows, -1), 0), 1e-14);
}

TEST_CASE("what is refused, in a sentence with the user's line") {
  const Tensor x = noise({4, 6}, 1), y = noise({5, 6}, 2);
  const auto add = [](const Tensor& a, const Tensor& b) { return a + b; };
  const auto has = [](const std::string& message, const char* words) {
    INFO(message);
    CHECK(message.find(words) != std::string::npos);
    CHECK(message.find("vmap_test.cpp:") != std::string::npos);
  };
  has(refused([&] { vmap(add)(x, y); }),
      "the numbers of examples differ: 4 along axis 0 of argument 1, f64[4,6], and 5");
  has(refused([&] { vmap(add, {{std::nullopt, std::nullopt}})(x, y); }), "no argument holds examples");
  has(refused([&] { vmap(add, {{0, 2}})(x, x); }), "argument 2 is f64[4,6], which has no axis 2");
  has(refused([&] { vmap(add, {{0}})(x, x); }), "in_axes has 1 axis, there are 2 arguments");
  has(refused([&] { vmap(add, {0, 2})(x, x); }), "axis 2 for the examples");
  has(refused([&] { vmap([](const Tensor& a) { return sum(a).item() > 0 ? a : -a; })(x); }), "one example");
  has(refused([&] { vmap([](const Tensor& a) { return sum(a) > 0 ? a : -a; })(x); }), "choose with where");
  has(refused([&] { vmap([](const Tensor& a) { return dropout(a, 0.5); })(x); }), "Randomness::same");
  has(refused([&] {
        vmap([](const Tensor& a) {
          print("{}", a);
          return a;
        })(x);
      }),
      "once for all examples");
  has(refused([&] { vmap([](const Tensor& a) { return a; })(sum(x)); }), "std::nullopt");
  const auto until = [](const Tensor& s) { return sum(s) < 3; };
  const auto step = [](const Tensor& s) { return s + uniform({6}, 0, 1, default_generator(), {DType::f64}); };
  has(refused([&] {
        vmap([&](const Tensor& a) { return while_loop(until, step, a); }, {.randomness = Randomness::different})(x);
      }),
      "draws random numbers");
  has(refused([&] { endless(x); }), "inside 64 loops");
  has(refused([&] { stack_module_state(std::vector<nn::Linear>()); }), "there is no model");
  has(refused([&] {
        stack_module_state(std::vector{nn::Linear(2, 3), nn::Linear(2, 4)});
      }),
      "the model's weight is f32[3,2] in the first one, and f32[4,2] in model 1");
  has(refused([&] { vmap([](const Tensor& a) { return reshape(a, {6, 1, 1, 1, 1, 1, 1, 1}); })(x); }), "8 axes");
}
