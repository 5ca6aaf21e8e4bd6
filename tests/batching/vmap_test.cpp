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

TEST_CASE("axes by position are in_axes, then out_axis") {
  const Tensor x = noise({4, 6}, 1), y = noise({6, 4}, 2), row = noise({6}, 3);
  const auto add = [](const Tensor& a, const Tensor& b) { return a + b; };
  const Tensor rows = x + transpose(y);
  check_same(vmap(add, {0, 1})(x, y), rows);
  check_same(vmap(add, {0, std::nullopt})(x, row), x + row);
  check_same(vmap(add, 0)(x, transpose(y)), rows);
  check_same(vmap(add, -1)(transpose(x), y), rows);
  check_same(vmap(add, 0, 1)(x, transpose(y)), transpose(rows));
  check_same(vmap(add, {0, 1}, -1)(x, y), transpose(rows));
  check_same(vmap(add, std::vector<std::optional<int>>{0, 1})(x, y), rows);
  check_same(vmap(add, {})(x, transpose(y)), rows);
  // By name each is itself.
  const VmapOptions options{.out_axis = 1};
  check_same(vmap(add, options)(x, transpose(y)), transpose(rows));
  check_same(vmap(add, {.out_axis = 1})(x, transpose(y)), transpose(rows));
  check_same(vmap(add, {.in_axes = 0, .out_axis = 1})(x, transpose(y)), transpose(rows));
  check_same(vmap(add, {.in_axes = {0, 1}})(x, y), rows);
  check_same(vmap(add, {.in_axes = {0, 1}, .out_axis = 1})(x, y), transpose(rows));
  CHECK(refused([&] { vmap(add, {0})(x, x); }).find("in_axes has 1 axis, there are 2 arguments") != std::string::npos);
}

TEST_CASE("a decision on what is the same for all examples is one, and on what differs is refused") {
  const Tensor x = noise({4, 6}, 1), w = ones({6}), none = zeros({6});
  const auto f = [](const Tensor& x, const Tensor& w) {
    return vmap([&](const Tensor& row) {
      const Tensor twice = w * 2;
      if (sum(twice) > 1) return row * twice;
      return row - sum(twice).item<float>() - static_cast<double>(cast(sum(twice), DType::i64).item<std::int64_t>());
    })(x);
  };
  check_same(f(x, w), x * 2);
  check_same(f(x, none), x);
  const auto compiled = compile(f);
  for (int i = 0; i < 2; ++i) {
    check_same(compiled(x, w), x * 2);
    check_same(compiled(x, none), x);
  }
  // Around it and inside it, of a value that is differentiated, and through vmap in vmap.
  const auto loss = [&](const Tensor& w) { return sum(f(x, w)); };
  check_same(grad(loss, cast(w, DType::f64)), sum(x, 0) * 2, 1e-14);
  check_same(vmap([&](const Tensor& row) {
               return grad([&](const Tensor& a) { return sum(w) > 1 ? sum(a * a) : sum(a); }, row);
             })(x),
             x * 2);
  check_same(vmap([&](const Tensor& row) {
               return vmap([&](const Tensor& one) { return sum(w * 2) > 1 ? one : -one; })(row);
             })(x),
             x);
  // Among the examples of the outer one the inner one's do not differ, but those do.
  CHECK(refused([&] {
          vmap([&](const Tensor& row) {
            return vmap([&](const Tensor& one) { return sum(row) > 0 ? one : -one; })(row);
          })(x);
        }).find("of one example is not known inside vmap") != std::string::npos);
  static int calls;
  calls = 0;
  CHECK(refused([&] {
          vmap([&](const Tensor& row) {
            const Tensor given = host_call(
                like(w), [](const Tensor& a) { return ++calls, a; }, w);
            return sum(given) > 0 ? row : -row;
          })(x);
        }).find("not known inside vmap") != std::string::npos);
  CHECK(calls == 0);
  // What all examples draw alike is not known either.
  CHECK(refused([&] {
          vmap([&](const Tensor& row) { return sum(uniform({2})) > 1 ? row : -row; },
               {.randomness = Randomness::same})(x);
        }).find("not known inside vmap, where it is computed from an example, from random numbers or by the host") !=
        std::string::npos);
}

TEST_CASE("what the function leaves in something that it captures is refused at the call, and named") {
  const Tensor x = noise({4, 6, 2}, 1, DType::f32);
  Tensor kept;
  const std::string message = refused([&] { vmap([&](const Tensor& a) { return kept = a * 2; })(x); });
  CAPTURE(message);
  CHECK(message.starts_with("[vmap] the function leaves a tensor (f32[6,2], made at vmap_test.cpp:"));
  CHECK(message.find("in something that it captures, as a layer keeps its statistics: ") != std::string::npos);
  CHECK(message.find("the same for all examples, compute it before vmap, at vmap_test.cpp:") != std::string::npos);
  kept = Tensor();
  nn::BatchNorm1d read(2);
  read.training = false;
  check_same(vmap([&](const Tensor& a) { return read(a); })(x), reshape(read(reshape(x, {24, 2})), {4, 6, 2}), 1e-6);
}

TEST_CASE("a layer that keeps statistics of all examples is refused in training, and is as before") {
  const Tensor x = noise({4, 6, 2}, 1, DType::f32);
  nn::BatchNorm1d layer(2), averages(2, {.momentum = -1});
  Tensor running_mean = zeros({2}), running_var = ones({2});
  const auto refuses = [&](const auto& f, const char* name) {
    const std::string message = refused([&] { vmap(f)(x); });
    CAPTURE(message);
    CHECK(message.starts_with(name));
    CHECK(message.find("its running statistics (f32[2]) are one for all examples of vmap") != std::string::npos);
    CHECK(message.find("by stack_module_state, at vmap_test.cpp:") != std::string::npos);
  };
  refuses([&](const Tensor& a) { return layer(a); }, "[BatchNorm]");
  refuses([&](const Tensor& a) { return averages(a); }, "[BatchNorm]");
  refuses([&](const Tensor& a) { return nn::batch_norm(a, running_mean, running_var, {}, {}, true); }, "[batch_norm]");
  refuses(
      [&](const Tensor& a) {
        return scan([&](const Tensor& s, const Tensor& row) { return std::pair(s + layer(row), row); }, a,
                    stack({a, a}))
            .first;
      },
      "[BatchNorm]");
  for (nn::BatchNorm1d* each : {&layer, &averages}) {
    check_same(each->running_mean, zeros({2}));
    check_same(each->running_var, ones({2}));
    CHECK(each->num_batches_tracked->item() == 0);
    check_same((*each)(reshape(x, {24, 2})), nn::BatchNorm1d(2)(reshape(x, {24, 2})));
  }
  check_same(running_mean, zeros({2}));
  // One for each example, and one that is made inside.
  const nn::BatchNorm1d own = vmap([](nn::BatchNorm1d m, const Tensor& a) { return m(a), m; })(
      stack_module_state(std::vector<nn::BatchNorm1d>(4, nn::BatchNorm1d(2))), x);
  check_same(own.running_mean, 0.1 * mean(x, 1), 1e-6);
  check_same(vmap([](const Tensor& a) {
               nn::BatchNorm1d inside(2);
               return inside(a), inside.running_mean.tensor();
             })(x),
             own.running_mean, 1e-6);
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
  check_rows([](const Tensor& a) { return vmap([](const Tensor& b) { return softmax(b, 0); }, 1, -1)(a); }, {1}, 0,
             noise({3, 4, 5}, 3));
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

TEST_CASE("a function with a derivative of its own keeps it, for operands that differ and that do not") {
  const Tensor x = noise({4, 6}, 1), w = noise({6}, 2);
  // Three times the derivative, so that nothing else can give it.
  const auto own = custom_vjp([](const Tensor& a, const Tensor& b) { return sin(a) * b; },
                              [](const Tensor& a, const Tensor& b) {
                                return std::pair{sin(a) * b, std::pair{a, b}};
                              },
                              [](const std::pair<Tensor, Tensor>& kept, const Tensor& g) {
                                return std::pair{g * cos(kept.first) * kept.second * 3, g * sin(kept.first) * 3};
                              });
  const auto forward = custom_jvp([](const Tensor& a, const Tensor& b) { return sin(a) * b; },
                                  [](const Tensor& a, const Tensor& b, const Tensor& da, const Tensor& db) {
                                    return (cos(a) * da * b + sin(a) * db) * 3;
                                  });
  const auto check = [&](const auto& f) {
    const auto rows = [&](const Tensor& a, const Tensor& b) {
      return vmap([&](const Tensor& row) { return f(row, b); })(a);
    };
    check_same(rows(x, w), sin(x) * w);
    check_same(grad([&](const Tensor& a) { return sum(rows(a, w)); }, x), cos(x) * w * 3, 1e-14);
    check_same(grad([&](const Tensor& b) { return sum(rows(x, b)); }, w), sum(sin(x) * 3, 0), 1e-14);
    check_same(jvp([&](const Tensor& a) { return rows(a, w); }, x, x).tangent, cos(x) * x * w * 3, 1e-14);
    check_same(jvp([&](const Tensor& b) { return rows(x, b); }, w, w).tangent, sin(x) * w * 3, 1e-14);
    check_same(hvp([&](const Tensor& a) { return sum(rows(a, w)); }, x, x), -sin(x) * w * x * 3, 1e-14);
    check_same(vmap([&](const Tensor& row) { return grad([&](const Tensor& a) { return sum(f(a, w)); }, row); })(x),
               cos(x) * w * 3, 1e-14);
    // In a branch that not all examples take.
    const auto chosen = [&](const Tensor& a) {
      return sum(vmap([&](const Tensor& row) {
        return cond(
            sum(row) > 0, [&](const Tensor& b) { return f(b, w)[0]; }, [](const Tensor& b) { return b[0] * 2; }, row);
      })(a));
    };
    const Tensor first = cast(arange(6) == 0, DType::f64);
    check_same(grad(chosen, x), first * where(sum(x, 1, true) > 0, cos(x) * w * 3, 2), 1e-14);
  };
  check(own);
  check(forward);
}

int host_calls = 0;

TEST_CASE("a host_call of what is the same for all examples is one call, of each of its results") {
  const Tensor x = noise({4, 6}, 1), c = noise({6}, 2);
  const auto both = [](const Tensor& a) {
    ++host_calls;
    return std::vector<Tensor>{a * 2, a + 1};
  };
  host_calls = 0;
  const Tensor found = vmap([&](const Tensor& row) {
    const std::vector<Tensor> given = host_call(std::vector{like(c), like(c)}, both, c);
    return row * given[0] + given[1];
  })(x);
  check_same(found, x * (c * 2) + (c + 1));
  CHECK(host_calls == 1);
}

TEST_CASE("dropout draws for each example or for all, and its gradient has the mask of its value") {
  const Tensor x = noise({64, 32}, 1, DType::f32) + 3;
  for (const bool same : {false, true}) {
    CAPTURE(same);
    const VmapOptions options{.randomness = same ? Randomness::same : Randomness::different};
    seed(3);
    const auto [values, slopes] = vmap(
        [](const Tensor& row) {
          const auto [value, slope] = value_and_grad(
              [](const Tensor& a) {
                const Tensor kept = dropout(a, 0.5);
                return std::pair{sum(kept), kept};
              },
              row);
          return std::pair{value.second, slope};
        },
        options)(x);
    check_same(values, slopes * x, 1e-6);
    const Tensor kept = values != 0;
    CHECK(all(kept == unsqueeze(kept[0], 0)).item<bool>() == same);
    CHECK(std::abs(mean(cast(kept, DType::f32)).item<float>() - 0.5f) < 0.2f);
  }
}

TEST_CASE("compiled functions: inside vmap, of vmap, and around both") {
  const Tensor x = noise({4, 6}, 1), w = noise({6}, 2);
  const auto one = compile([](const Tensor& a, const Tensor& b) { return tanh(a) * sum(b); });
  const auto many = compile(
      [](const Tensor& a, const Tensor& b) { return vmap([&](const Tensor& row) { return tanh(row) * sum(b); })(a); });
  const Tensor expected = tanh(x) * sum(w);
  check_same(vmap(one, {{0, std::nullopt}})(x, w), expected, products);
  check_same(many(x, w), expected, products);
  check_same(vmap([&](const Tensor& a) { return many(a, w); })(reshape(x, {2, 2, 6})), reshape(expected, {2, 2, 6}),
             products);
  const Tensor slope = (1 - square(tanh(x))) * sum(w);
  check_same(grad([&](const Tensor& a) { return sum(many(a, w)); }, x), slope, products);
  check_same(grad([&](const Tensor& a) { return sum(vmap(one, {{0, std::nullopt}})(a, w)); }, x), slope, products);
  check_same(jvp([&](const Tensor& a) { return many(a, w); }, x, x).tangent, slope * x, products);
  check_same(vmap([&](const Tensor& row) { return grad([&](const Tensor& a) { return sum(one(a, w)); }, row); })(x),
             slope, products);
}

TEST_CASE("an ensemble trains as one model") {
  std::vector<Mlp> models(3);
  const Tensor x = noise({7, 6}, 1, DType::f32), y = arange(7) % 3;
  const Mlp together = grad(
      [&](const Mlp& m) {
        return sum(vmap([](const Mlp& m, const Tensor& x, const Tensor& y) { return loss_of(m, x, y); },
                        {{0, std::nullopt, std::nullopt}})(m, x, y));
      },
      stack_module_state(models));
  for (int i = 0; i < 3; ++i)
    tree::for_each(together, grad([&](const Mlp& m) { return loss_of(m, x, y); }, models[static_cast<std::size_t>(i)]),
                   [&](const Param& a, const Param& b) { check_same(select(a, 0, i), b, 1e-5); });
}

TEST_CASE("loops and choices around vmap and inside it, with a derivative around") {
  const Tensor x = noise({4, 6}, 1), w = noise({6}, 2);
  const auto inner = [&](const Tensor& s) {
    return vmap([&](const Tensor& row) { return sin(row * w) * sum(row); })(s);
  };
  const auto plain = [&](const Tensor& s) { return sin(s * w) * sum(s, 1, true); };
  const auto check = [&](const auto& f, const auto& g) {
    check_same(f(x), g(x), 1e-13);
    check_same(grad([&](const Tensor& a) { return sum(f(a)); }, x), grad([&](const Tensor& a) { return sum(g(a)); }, x),
               1e-12);
    check_same(jvp(f, x, x).tangent, jvp(g, x, x).tangent, 1e-12);
  };
  check(
      [&](const Tensor& a) {
        return fori(
            0, 3, [&](const Index&, const Tensor& s) { return inner(s); }, a);
      },
      [&](const Tensor& a) { return plain(plain(plain(a))); });
  check(
      [&](const Tensor& a) {
        return cond(
            sum(a) > 100, [&](const Tensor& s) { return s; }, inner, a);
      },
      plain);
  // Newton's iteration for each example, as many rounds as it needs.
  const auto root = [](const Tensor& a) {
    const auto next = [&](const Tensor& s) { return (s + a / s) / 2; };
    return while_loop([&](const Tensor& s) { return abs(next(s) - s) > 1e-12; }, next, a);
  };
  const Tensor positive = square(noise({5}, 3)) * 50 + 0.5;
  check_same(vmap(root)(positive), sqrt(positive), 1e-12);
  check_same(jvp([&](const Tensor& a) { return vmap(root)(a); }, positive, positive).tangent, sqrt(positive) / 2,
             1e-12);
  check_same(vmap([&](const Tensor& a) { return jvp(root, a, a).tangent; })(positive), sqrt(positive) / 2, 1e-12);
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
      "the numbers of examples differ: 4 along axis 0 of argument 0, f64[4,6], and 5");
  has(refused([&] { vmap(add, {{std::nullopt, std::nullopt}})(x, y); }), "no argument holds examples");
  has(refused([&] { vmap(add, {{0, 2}})(x, x); }), "argument 1 is f64[4,6], which has no axis 2");
  has(refused([&] { vmap(add, {{0}})(x, x); }), "in_axes has 1 axis, there are 2 arguments");
  has(refused([&] { vmap(add, {.out_axis = 2})(x, x); }), "axis 2 for the examples");
  has(refused([&] { vmap([](const Tensor& a) { return sum(a).item() > 0 ? a : -a; })(x); }), "one example");
  has(refused([&] { vmap([](const Tensor& a) { return sum(a) > 0 ? a : -a; })(x); }), "choose with where");
  has(refused([&] { vmap([](const Tensor& a) { return dropout(a, 0.5); })(x); }), "Randomness::same");
  has(refused([&] {
        vmap([](const Tensor& a) {
          print("{}", a);
          return a;
        })(x);
      }),
      "print is called once for all examples");
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
