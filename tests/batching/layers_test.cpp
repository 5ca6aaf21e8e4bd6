// vmap of layers, losses, normalizations, attention, convolutions, pools and lookups, for examples in any operand; of
// dtypes and sizes; and of random numbers.
#include "tests/batching/support.hpp"

using namespace weft;
using namespace vmap_test;

namespace {

constexpr double products = 1e-12;  // of f64: another order of the sums of a product
const InAxes first = {0, std::nullopt}, second = {std::nullopt, 0};

Tensor f32(const Tensor& x) { return cast(x, DType::f32); }

}  // namespace

TEST_CASE("attention") {
  const Tensor q = noise({3, 2, 5, 4}, 1), k = noise({3, 2, 6, 4}, 2), v = noise({3, 2, 6, 4}, 3);
  const auto attend = [](const Tensor& q, const Tensor& k, const Tensor& v) {
    return nn::scaled_dot_product_attention(q, k, v);
  };
  check_rows(attend, {}, products, q, k, v);
  check_rows(attend, {{0, std::nullopt, std::nullopt}}, products, q, k[0], v[0]);
  check_rows(attend, {{std::nullopt, 0, 0}}, products, q[0], k, v);
  const auto slope = [](const Tensor& q, const Tensor& k, const Tensor& v) {
    return grad(
        [&](const Tensor& q) { return sum(square(nn::scaled_dot_product_attention(q, k, v, {.is_causal = true}))); },
        q);
  };
  check_rows(slope, {}, products, q, slice(k, 2, 0, 5), slice(v, 2, 0, 5));
  const auto call = compile([](const Tensor& q, const Tensor& k, const Tensor& v) {
    return vmap([](const Tensor& q, const Tensor& k, const Tensor& v) {
      return nn::scaled_dot_product_attention(q, k, v);
    })(q, k, v);
  });
  CHECK(explain(call, q, k, v).graph.find(" scaled_dot_product_attention") != std::string::npos);
}

TEST_CASE("convolutions, of more images and of a weight for each example") {
  const Tensor x = noise({3, 2, 4, 6, 5}, 1), w = noise({3, 8, 2, 3, 3}, 2);
  const auto convolve = [](const Tensor& x, const Tensor& w) { return conv2d(x, w, {.padding = 1, .groups = 2}); };
  check_rows(convolve, {}, products, x, w);
  check_rows(convolve, {first}, products, x, w[0]);
  check_rows(convolve, {second}, products, x[0], w);
  const auto slope = [](const Tensor& x, const Tensor& w) {
    return grad([&](const Tensor& w) { return sum(square(conv2d(x, w, {.stride = 2, .groups = 2}))); }, w);
  };
  check_rows(slope, {}, products, x, w);
  check_rows(slope, {first}, products, x, w[0]);
  check_rows(slope, {second}, products, x[0], w);
}

TEST_CASE("normalizations, pools, losses and lookups") {
  const Tensor x = noise({3, 2, 4, 6}, 1), weight = noise({3, 6}, 2);
  check_rows([](const Tensor& x, const Tensor& w) { return nn::layer_norm(x, w, w * 2); }, {}, products, x, weight);
  check_rows([](const Tensor& x, const Tensor& w) { return nn::rms_norm(x, w); }, {first}, products, x, weight[0]);
  check_rows([](const Tensor& x) { return nn::group_norm(x, 2); }, {}, products, x);
  check_rows([](const Tensor& x) { return max_pool2d(x, 2); }, {}, 0, noise({3, 2, 2, 4, 6}, 1));
  check_rows([](const Tensor& x) { return avg_pool2d(x, 2); }, {}, products, noise({3, 2, 2, 4, 6}, 1));
  check_rows([](const Tensor& x, const Tensor& y) { return nn::mse_loss(x, y) + nn::smooth_l1_loss(x, y); }, {},
             products, x, x * 2);
  check_rows([](const Tensor& x, const Tensor& y) { return nn::binary_cross_entropy(sigmoid(x), y); }, {}, products, x,
             sigmoid(x));
  check_rows(
      [](const Tensor& x) { return softmax(x, 0) + log_softmax(x, 1) + mean(x, 2, true) + weft::std(x, 0, true); }, {},
      products, x);
  const Tensor table = noise({3, 7, 4}, 5), at = arange(6) % 7;
  check_rows([](const Tensor& t, const Tensor& i) { return gather(t, i); }, {first}, 0, table, at);
  check_rows([](const Tensor& t, const Tensor& i) { return gather(t, i); }, {}, 0, table, reshape(at, {3, 2}));
  check_rows([](const Tensor& t, const Tensor& i) { return gather(t, i); }, {second}, 0, table[0], reshape(at, {3, 2}));
  check_rows(
      [](const Tensor& t, const Tensor& i) {
        return t[i[0]] + update_slice(t, zeros({2, 4}, {DType::f64}), 0, Index(i[1]));
      },
      {}, 0, table, reshape(at, {3, 2}));
  nn::Embedding embedding(7, 4, {.sparse = true});
  check_rows([&](const Tensor& i) { return embedding(i); }, {}, 0, reshape(at, {3, 2}));
  const auto slope = [&](const Tensor& i) {
    return grad([&](const nn::Embedding& e) { return sum(square(e(i))); }, embedding).weight.tensor();
  };
  check_rows(slope, {}, 1e-6, reshape(at, {3, 2}));
}

TEST_CASE("layers with state of their own, for sequences and images") {
  const Tensor x = f32(noise({3, 5, 2, 8}, 1));
  nn::LSTM lstm(8, 6);
  check_rows([&](const Tensor& x) { return lstm(x).output; }, {}, 1e-6, x);
  nn::TransformerEncoderLayer layer(8, 2, {.dim_feedforward = 16, .dropout = 0});
  check_rows([&](const Tensor& x) { return layer(x); }, {}, 1e-5, x);
  nn::BatchNorm2d norm(2);
  nn::eval(norm);
  check_rows([&](const Tensor& x) { return norm(x); }, {}, 1e-6, f32(noise({3, 5, 2, 4, 4}, 1)));
}

TEST_CASE("special functions with a derivative of their own") {
  const Tensor x = noise({3, 4}, 1) + 2.5, y = noise({3, 4}, 2) + 3.0;
  const auto f = [](const Tensor& x, const Tensor& y) { return i0(x) + igamma(y, x) + entr(x); };
  const auto slope = [](const Tensor& x, const Tensor& y) {
    return grad([&](const Tensor& x) { return sum(igamma(y, x) * i1(x)); }, x);
  };
  check_rows(f, {}, 1e-12, x, y);
  check_rows(slope, {}, 1e-12, x, y);
  // The gradient of all examples, in which they share one operand.
  const Tensor shared =
      grad([&](const Tensor& own) { return sum(vmap([&](const Tensor& b) { return igamma(b, own); })(y)); }, x[0]);
  const Tensor expected =
      grad([&](const Tensor& own) { return sum(igamma(y[0], own) + igamma(y[1], own) + igamma(y[2], own)); }, x[0]);
  check_same(shared, expected, 1e-12);
}

TEST_CASE("dtypes, and no or one example") {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i32, DType::i64, DType::u8}) {
    CAPTURE(static_cast<int>(dtype));
    const Tensor x = cast(noise({3, 4, 5}, 1) * 50 + 60, dtype), y = cast(noise({3, 5}, 2) * 9 + 10, dtype);
    check_rows([](const Tensor& a, const Tensor& b) { return a + b * a; }, {}, 0, x, y);
    check_rows([](const Tensor& a, const Tensor& b) { return sum(a, 0) + cumsum(b, 0); }, {}, 0, x, y);
    check_rows([](const Tensor& a, const Tensor& b) { return maximum(amax(a, 0), b); }, {}, 0, x, y);
  }
  const auto f = [](const Tensor& a) { return softmax(matmul(a, transpose(a)), 0) + sum(a); };
  check_same(vmap(f)(zeros({0, 3, 4})), zeros({0, 3, 3}));
  check_rows(f, {}, products, noise({1, 3, 4}, 1));
  const auto compiled = compile([](const Tensor& x) {
    return vmap([](const Tensor& a) { return softmax(matmul(a, transpose(a)), 0) + sum(a); })(x);
  });
  check_same(compiled(zeros({0, 3, 4})), zeros({0, 3, 3}));
  check_same(vmap([](const Tensor& x, const Tensor& w) { return conv2d(x, w); })(zeros({0, 1, 2, 4, 4}),
                                                                                 zeros({0, 3, 2, 2, 2})),
             zeros({0, 1, 3, 3, 3}));
}

TEST_CASE("as many examples as a call brings") {
  const auto step = compile(
      [](const Tensor& x, const Tensor& w) {
        return vmap([&](const Tensor& row) { return tanh(matmul(row, w)) + sum(gather(w, argsort(row))); })(x);
      },
      {.dynamic = true});
  const Tensor w = noise({6, 6}, 3);
  for (const int count : {4, 9, 5}) {
    const Tensor x = noise({count, 6}, 1);
    check_same(step(x, w), tanh(matmul(x, w)) + expand(unsqueeze(sum(gather(w, argsort(x)), {1, 2}), 1), {count, 6}),
               1e-12);
  }
}

TEST_CASE("random numbers, the same and different ones") {
  const Tensor x = f32(ones({3, 8}));
  Generator a(7), b(7), c(7), d(7);
  const auto drawn = [](const Tensor& x, Generator& generator) { return x * uniform({8}, 0, 1, generator); };
  const Tensor same = vmap([&](const Tensor& x) { return drawn(x, a); }, {.randomness = Randomness::same})(x);
  check_same(same, expand(uniform({8}, 0, 1, b), {3, 8}));
  const Tensor different = vmap([&](const Tensor& x) { return drawn(x, c); }, {.randomness = Randomness::different})(x);
  check_same(different, uniform({3, 8}, 0, 1, d));
  check_same(uniform({4}, 0, 1, a), uniform({4}, 0, 1, b));  // the generators went on
  check_same(uniform({4}, 0, 1, c), uniform({4}, 0, 1, d));
  // A generator that itself differs: each example draws by itself.
  const Tensor forked = vmap(
      [&](const Tensor& x) {
        Generator own = c.fork();
        return x * uniform({8}, 0, 1, own);
      },
      {.randomness = Randomness::different})(x);
  CHECK(max(abs(forked[0] - forked[1])).item() > 0.01);
  const auto step = compile([](const Tensor& x) {
    return vmap([](const Tensor& x) { return dropout(x, 0.5); }, {.randomness = Randomness::different})(x);
  });
  seed(3);
  const Tensor first_call = step(ones({4, 256})), second_call = step(ones({4, 256}));
  CHECK(sum(abs(first_call - second_call)).item() > 0);
  CHECK(sum(abs(first_call[0] - first_call[1])).item() > 0);
  const Tensor looped = vmap(
      [&](const Tensor& x) {
        return scan([&](const Tensor& s, const Tensor& r) { return s + r * uniform({}, 0, 1, c); }, zeros({}), x);
      },
      {.randomness = Randomness::different})(x);
  CHECK(max(abs(looped[0] - looped[1])).item() > 1e-4);
}

TEST_CASE("checks count for examples that take the branch, and so do positions") {
  const Tensor at = constant(std::vector<std::int64_t>{1, 5, 2}, {3}), table = noise({4}, 1);
  const auto outside = [](const Tensor& i) { return cast(i, DType::f64) * 2; };
  const auto guarded = [&](const Tensor& i) {
    return cond(
        i < 4, [&](const Tensor& i) { return gather(table, i) + gather(table * cast(i, DType::f64), i); }, outside, i);
  };
  const auto fails = [&](const Tensor& i) {
    return cond(
        i < 9, [&](const Tensor& i) { return gather(table, i); }, outside, i);
  };
  CHECK(refused([&] { vmap([&](const Tensor& i) { return gather(table, i); })(at).eval(); }).find("out of range") !=
        std::string::npos);
  CHECK(refused([&] { vmap(fails)(at).eval(); }).find("out of range") != std::string::npos);
  const Tensor beyond = full({}, 3, {.dtype = DType::i64}), part = ones({2});
  CHECK(refused([&] { vmap([&](const Tensor& x) { return update_slice(x, part, 0, beyond); })(ones({3, 4})); })
            .find("[update_slice] the position is out of range [0, 2]") != std::string::npos);
  CHECK(refused([&] { vmap([&](const Tensor& x) { return slice(x, 0, Index(beyond), 2); })(ones({3, 4})); })
            .find("[slice] the position is out of range [0, 2]") != std::string::npos);
  check_rows(guarded, {}, 0, at);
  // One position for all, of a branch that no example takes.
  const auto of_none = [&](const Tensor& i) {
    return cond(
        i > 9, [&](const Tensor& i) { return gather(table, at[1]) * cast(i, DType::f64); }, outside, i);
  };
  check_rows(of_none, {}, 0, at);
  const auto in_loop = [&](const Tensor& i) {
    const auto until = [](const Tensor& s) { return s < 4; };
    return while_loop(
        until, [&](const Tensor& s) { return s + cast(gather(table, s) < 9, DType::i64); }, i);
  };
  check_rows(in_loop, {}, 0, at);
}

TEST_CASE("loops and choices in a branch that only some examples take, of values that are the same for all") {
  const Tensor rows = reshape(cast(arange(6), DType::f64), {2, 3}) * 0.1, last = from_list<std::int64_t>({2, 0});
  const auto look = [&](const Tensor& row) { return sum(sin(gather(row, last))); };
  const auto loop = [&](const Tensor& x) {
    return x *
           scan([&](const Tensor& s, const Tensor& row) { return s * 0.5 + look(row); }, zeros({}, {DType::f64}), rows);
  };
  const auto stacked = [&](const Tensor& x) {
    return x * sum(scan(
                       [&](const Tensor& s, const Tensor& row) {
                         return std::pair{s + 1, look(row)};
                       },
                       zeros({}, {DType::f64}), rows)
                       .second);
  };
  const auto choice = [&](const Tensor& x) {
    return x * cond(
                   sum(rows) > 0, look, [](const Tensor& row) { return sum(row); }, rows[0]);
  };
  const auto until = [&](const Tensor& x) {
    return x * while_loop([](const Tensor& s) { return s < 1; }, [&](const Tensor& s) { return s + look(rows[1]); },
                          zeros({}, {DType::f64}));
  };
  const Tensor xs = from_list<double>({0.4, -1, 2});
  const auto both = [&](auto branch) {
    const auto f = [&](const Tensor& x) {
      return cond(
          x > 0, branch, [](const Tensor& a) { return a * a; }, x);
    };
    const Tensor expected = stack({f(xs[0]), f(xs[1]), f(xs[2])});
    CHECK(max(abs(vmap(f)(xs) - expected)).item() <= 1e-12);
  };
  both(loop);
  both(stacked);
  both(choice);
  both(until);
}

TEST_CASE("a compiled function inside is the plain one") {
  const auto f = compile([](const Tensor& x) { return sin(x) * sum(x); });
  const Tensor x = noise({3, 4}, 1);
  check_rows([&](const Tensor& row) { return f(row); }, {}, 1e-14, x);
}

TEST_CASE("vmap over a layer's weights is one product, in whose rows an example's rows lie whole") {
  const Tensor weights = noise({4, 3, 6}, 1), x = noise({5, 6}, 2);
  const auto forward = [](const Tensor& weight, const Tensor& x) { return matmul(x, transpose(weight)); };
  check_rows(forward, {first}, products, weights, x);
  const auto all = compile([](const Tensor& weights, const Tensor& x) {
    return vmap([&](const Tensor& weight) { return matmul(x, transpose(weight)); })(weights);
  });
  const std::string graph = explain(all, weights, x).optimized;
  CAPTURE(graph);
  CHECK(graph.find("f64[5,12] = matmul(") != std::string::npos);
  CHECK(graph.find("axes [1,0,2]") != std::string::npos);  // rows of an example stay rows
  CHECK(graph.find("axes [0,2,1]") == std::string::npos);
}
