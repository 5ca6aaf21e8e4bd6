// Attention with score_mod and mask_mod against softmax(mod(q k^T * scale)) v composed by hand: values and all
// gradients, eager, compiled and of symbolic sizes; captured tensors, masked rows, vmap, second derivatives; what is
// refused.
#include <cmath>
#include <limits>

#include "tests/loops/support.hpp"
#include "tests/message_of.hpp"
#include "tests/record/refused.hpp"

using namespace weft;
using loops_test::check_close;
using loops_test::noise;
using weft::test::refused;

namespace {

constexpr double negative_infinity = -std::numeric_limits<double>::infinity();

using Tensors = std::vector<Tensor>;

// The scores that the composed form has: [..., H, L, S], and the places beside them.
struct Scores {
  Tensor value, b, h, q, k;
};
Scores scores_of(const Tensor& query, const Tensor& key, double scale = 0) {
  const auto size = [](const Tensor& x, int axis) { return x.shape()[x.rank() + axis]; };
  const Tensor keys = query.rank() > 2 && !(size(query, -3) == size(key, -3))
                          ? repeat_interleave(key, static_cast<std::int64_t>(size(query, -3) / size(key, -3)), -3)
                          : key;
  const double depth = static_cast<double>(static_cast<std::int64_t>(size(query, -1)));
  Scores all{matmul(query, transpose(keys)) * (scale != 0 ? scale : 1 / std::sqrt(depth)), {}, {}, {}, {}};
  all.q = unsqueeze(arange(size(query, -2)), 1), all.k = arange(size(key, -2));
  all.h = query.rank() > 2 ? reshape(arange(size(query, -3)), {size(query, -3), 1, 1}) : arange(1);
  all.b = query.rank() > 3 ? reshape(arange(size(query, -4)), {size(query, -4), 1, 1, 1}) : arange(1);
  return all;
}
Tensor weighed(const Tensor& scores, const Tensor& value) {
  const auto heads = [](const Tensor& x) { return x.shape()[x.rank() - 3]; };
  const bool grouped = scores.rank() > 2 && !(heads(scores) == heads(value));
  return matmul(
      softmax(scores, -1),
      grouped ? repeat_interleave(value, static_cast<std::int64_t>(heads(scores) / heads(value)), -3) : value);
}
Tensor hidden(const Tensor& sees, const Tensor& scores) { return where(sees, scores, negative_infinity); }

// f(inputs), and the gradients of all floating inputs by one loss.
template <class F>
Tensors both(const Tensors& inputs, const F& f) {
  Tensors all{f(inputs)};
  const Tensors slopes = grad(
      [&](const Tensors& at) {
        const Tensor made = f(at);
        return sum(made * reshape(cos(cast(arange(made.element_count()), made.dtype())), made.shape()));
      },
      inputs);
  all.insert(all.end(), slopes.begin(), slopes.end());
  return all;
}
void check_lists(const Tensors& found, const Tensors& expected, double tolerance = 1e-11) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    check_close(found[i], expected[i], tolerance);
  }
}
// `own` is attention by mods, `composed` the same by hand.
template <class Own, class Composed>
void check_eager(const Tensors& inputs, Own own, Composed composed) {
  check_lists(both(inputs, own), both(inputs, composed));
}
template <class Own, class Composed>
void check_same(const Tensors& inputs, Own own, Composed composed) {
  check_eager(inputs, own, composed);
  const Tensors expected = both(inputs, composed);
  for (const bool dynamic : {false, true}) {
    CAPTURE(dynamic);
    CompileOptions options{.on_compile_error = OnFailure::raise};
    if (dynamic) options.dynamic = true;
    check_lists(compile([](const Tensors& at, const Own& f) { return both(at, f); }, options)(inputs, own), expected);
  }
}

Tensors qkv(Sizes q, Sizes kv) { return {noise(q, 1), noise(kv, 2), noise(kv, 3)}; }

struct SoftCap {
  Tensor operator()(const Tensors& x) const {
    return nn::scaled_dot_product_attention(
        x[0], x[1], x[2], {.score_mod = [](auto score, auto, auto, auto, auto) { return 2 * tanh(score / 2); }});
  }
};
struct RelativeBias {  // x[3]: [H, 2 n - 1]
  Tensor operator()(const Tensors& x) const {
    const Tensor bias = x[3];
    const std::int64_t n = static_cast<std::int64_t>(x[0].shape()[2]);
    return nn::scaled_dot_product_attention(
        x[0], x[1], x[2],
        {.score_mod = [&](auto score, auto, auto h, auto q, auto k) { return score + bias[h][q - k + (n - 1)]; }});
  }
};

}  // namespace

TEST_CASE("attention with a soft cap, of 2 to 5 axes and of grouped heads") {
  for (const auto& [q, kv] : {std::pair<Sizes, Sizes>{{5, 4}, {7, 4}},
                              {{3, 5, 4}, {3, 6, 4}},
                              {{2, 3, 5, 4}, {2, 3, 5, 4}},
                              {{2, 1, 2, 3, 4}, {2, 1, 2, 4, 4}}}) {
    CAPTURE(q.shape().rank());
    check_eager(qkv(q, kv), SoftCap(),
                [](const Tensors& x) { return weighed(2 * tanh(scores_of(x[0], x[1]).value / 2), x[2]); });
    check_eager(
        qkv(q, kv),
        [](const Tensors& x) {
          return nn::scaled_dot_product_attention(x[0], x[1], x[2], {.score_mod = nn::soft_cap(0.5)});
        },
        [](const Tensors& x) { return weighed(tanh(scores_of(x[0], x[1]).value * 2) / 2, x[2]); });
  }
  check_eager(
      {noise({2, 6, 5, 4}, 1), noise({2, 3, 4, 4}, 2), noise({2, 3, 4, 3}, 3)},
      [](const Tensors& x) {
        return nn::scaled_dot_product_attention(
            x[0], x[1], x[2],
            {.scale = 0.3, .enable_gqa = true, .score_mod = [](auto score, auto b, auto h, auto q, auto k) {
               return score * (b + 1) - h * (q + 2 * k) * 0.1;
             }});
      },
      [](const Tensors& x) {
        const Scores s = scores_of(x[0], x[1], 0.3);
        return weighed(s.value * (s.b + 1) - s.h * (s.q + 2 * s.k) * 0.1, x[2]);
      });
}

TEST_CASE("attention within documents, windows, and both, by a lambda and by names") {
  const Tensor document = from_list<std::int32_t>({0, 0, 1, 1, 1, 2, 2});
  const auto by_lambda = [](const Tensors& x) {
    const Tensor ids = floor_divide(arange(7), 3);
    return nn::scaled_dot_product_attention(
        x[0], x[1], x[2], {.mask_mod = [&](auto, auto, auto q, auto k) { return (q >= k) & (ids[q] == ids[k]); }});
  };
  const auto by_names = [](const Tensors& x) {
    const Tensor ids = floor_divide(arange(7), 3);
    return nn::scaled_dot_product_attention(x[0], x[1], x[2], {.mask_mod = nn::causal() & nn::document_mask(ids)});
  };
  const auto with_causal = [](const Tensors& x) {
    const Tensor ids = floor_divide(arange(7), 3);
    return nn::scaled_dot_product_attention(x[0], x[1], x[2], {.is_causal = true, .mask_mod = nn::document_mask(ids)});
  };
  const auto composed = [](const Tensors& x) {
    const Scores s = scores_of(x[0], x[1]);
    const Tensor ids = floor_divide(arange(7), 3);
    return weighed(hidden((s.q >= s.k) & (unsqueeze(ids, 1) == ids), s.value), x[2]);
  };
  const Tensors inputs = qkv({2, 3, 7, 4}, {2, 3, 7, 4});
  check_same(inputs, by_lambda, composed);
  check_eager(inputs, by_names, composed);
  check_eager(inputs, with_causal, composed);
  check_eager(
      inputs,
      [](const Tensors& x) {
        const Tensor ids = floor_divide(reshape(arange(14), {2, 7}) * 2, 5);
        return nn::scaled_dot_product_attention(x[0], x[1], x[2], {.mask_mod = nn::document_mask(ids)});
      },
      [](const Tensors& x) {
        const Tensor ids = floor_divide(reshape(arange(14), {2, 7}) * 2, 5);
        return weighed(hidden(reshape(ids, {2, 1, 7, 1}) == reshape(ids, {2, 1, 1, 7}), scores_of(x[0], x[1]).value),
                       x[2]);
      });
  check_eager(
      inputs,
      [](const Tensors& x) {
        return nn::scaled_dot_product_attention(
            x[0], x[1], x[2],
            {.mask_mod = (nn::causal() & nn::sliding_window(3)) | [](auto, auto, auto, auto k) { return k == 0; }});
      },
      [](const Tensors& x) {
        const Scores s = scores_of(x[0], x[1]);
        return weighed(hidden(((s.q >= s.k) & (s.q - s.k < 3)) | (s.k == 0), s.value), x[2]);
      });
  check_eager(
      inputs,
      [](const Tensors& x) {
        return nn::scaled_dot_product_attention(x[0], x[1], x[2], {.mask_mod = ~nn::sliding_window(1)});
      },
      [](const Tensors& x) {
        const Scores s = scores_of(x[0], x[1]);
        return weighed(hidden(s.q != s.k, s.value), x[2]);
      });
}

TEST_CASE("ALiBi, and a learned relative bias whose table gets a gradient") {
  Tensors inputs = qkv({2, 3, 5, 4}, {2, 3, 5, 4});
  inputs.push_back(noise({3}, 4));
  check_eager(
      inputs,
      [](const Tensors& x) {
        return nn::scaled_dot_product_attention(x[0], x[1], x[2], {.is_causal = true, .score_mod = nn::alibi(x[3])});
      },
      [](const Tensors& x) {
        const Scores s = scores_of(x[0], x[1]);
        return weighed(hidden(s.q >= s.k, s.value - reshape(x[3], {3, 1, 1}) * abs(s.q - s.k)), x[2]);
      });
  check_close(nn::alibi_slopes(8, inputs[0].device()), exp2(-cast(arange(8) + 1, DType::f32)), 1e-6);
  inputs[3] = noise({3, 9}, 5);
  check_same(inputs, RelativeBias(), [](const Tensors& x) {
    const Scores s = scores_of(x[0], x[1]);
    return weighed(
        s.value + reshape(index_select(reshape(x[3], {27}), 0, flatten(s.h * 9 + (s.q - s.k + 4))), {3, 5, 5}), x[2]);
  });
  // Of two arrangements of the same table, computed outside of the pairs; and a number that is captured.
  inputs[3] = noise({9, 3}, 6);
  inputs.push_back(noise({}, 7));
  check_eager(
      inputs,
      [](const Tensors& x) {
        const Tensor bias = x[3], factor = x[4];
        return nn::scaled_dot_product_attention(x[0], x[1], x[2],
                                                {.score_mod = [&](auto score, auto, auto h, auto q, auto k) {
                                                  return score * factor + index(exp(transpose(bias)), {h, q - k + 4});
                                                }});
      },
      [](const Tensors& x) {
        const Scores s = scores_of(x[0], x[1]);
        const Tensor table = flatten(exp(transpose(x[3])) + 0);
        return weighed(s.value * x[4] + reshape(index_select(table, 0, flatten(s.h * 9 + (s.q - s.k + 4))), {3, 5, 5}),
                       x[2]);
      });
}

TEST_CASE("a query that sees nothing gets zeros, and gives no gradient; a place out of range reads the nearest") {
  const Tensors inputs = qkv({2, 6, 4}, {2, 6, 4});
  const auto nothing = [](const Tensors& x) {
    return nn::scaled_dot_product_attention(
        x[0], x[1], x[2], {.mask_mod = [](auto, auto, auto q, auto k) { return (q % 2 == 1) & (k <= q); }});
  };
  const auto by_scores = [](const Tensors& x) {
    return nn::scaled_dot_product_attention(x[0], x[1], x[2], {.score_mod = [](auto score, auto, auto, auto q, auto k) {
                                              return where((q % 2 == 1) & (k <= q), score, negative_infinity);
                                            }});
  };
  const auto composed = [](const Tensors& x) {
    const Scores s = scores_of(x[0], x[1]);
    return where(s.q % 2 == 1, weighed(where((s.k <= s.q) | (s.q % 2 == 0), s.value, negative_infinity), x[2]), 0);
  };
  check_same(inputs, nothing, composed);
  check_eager(inputs, by_scores, composed);
  CHECK(max(abs(select(nothing(inputs), 1, 2))).item() == 0);
  const Tensor bias = from_list<double>({1, 2, 3});
  const auto nearest = [&](const Tensor& at) {
    return reshape(index_select(bias, 0, flatten(clamp(where(at < 0, at + 3, at), 0, 2))), at.shape());
  };
  const Tensor distance = unsqueeze(arange(6), 1) - arange(6) + 3;
  const auto reads = [&](auto score, auto, auto, auto q, auto k) { return score + bias[q - k + 3] + bias[k - 6]; };
  check_close(nn::scaled_dot_product_attention(inputs[0], inputs[1], inputs[2], {.score_mod = reads}),
              weighed(scores_of(inputs[0], inputs[1]).value + nearest(distance) + nearest(arange(6) - 6), inputs[2]));
}

TEST_CASE("hidden pairs, at which a score_mod is not finite, give no gradient to scores and to what it captures") {
  Tensors inputs = qkv({2, 3, 5, 4}, {2, 3, 5, 4});
  inputs.push_back(noise({}, 4)), inputs.push_back(noise({3}, 5));
  struct Own {
    bool is_causal;
    Tensor operator()(const Tensors& x) const {
      const Tensor w = x[3], table = x[4];
      return nn::scaled_dot_product_attention(
          x[0], x[1], x[2],
          {.is_causal = is_causal,
           .score_mod =
               [&](auto s, auto, auto h, auto q, auto k) {
                 const Tensor distance = log(q - k + 1);
                 return s * sqrt(q - k) - w * distance + table[h] * distance;
               },
           .mask_mod = is_causal ? nn::sliding_window(3) : nn::causal() & nn::sliding_window(3)});
    }
  };
  const auto composed = [](const Tensors& x) {
    const Scores s = scores_of(x[0], x[1]);
    const Tensor sees = (s.q >= s.k) & (s.q - s.k < 3), distance = where(sees, s.q - s.k, 0);
    const Tensor root = where(distance == 0, 0, sqrt(where(distance == 0, 1, distance)));
    return weighed(hidden(sees, s.value * root + (reshape(x[4], {3, 1, 1}) - x[3]) * log(distance + 1)), x[2]);
  };
  check_same(inputs, Own{false}, composed);
  check_eager(inputs, Own{true}, composed);
  const auto along = [&](const auto& f) { return jvp(f, inputs, inputs).tangent; };
  check_close(along(Own{true}), along(composed), 1e-10);
}

namespace {

Tensor by_several_functions(const Tensor& s, const Tensor& q, const Tensor& k) {
  return clamp(s, -0.5, 0.25 * k) + hypot(s, 0.5 * q) + copysign(s, q - k - 0.5) + hardsigmoid(4 * s) +
         stop_gradient(s) * s;
}

}  // namespace

TEST_CASE("a score_mod by clamp, hypot, copysign, hardsigmoid and stop_gradient; parts of rows of a table") {
  Tensors inputs = qkv({2, 5, 4}, {2, 5, 4});
  inputs.push_back(noise({5, 3, 2}, 4));
  check_same(
      inputs,
      [](const Tensors& x) {
        return nn::scaled_dot_product_attention(
            x[0], x[1], x[2],
            {.score_mod = [&](auto s, auto, auto, auto q, auto k) { return by_several_functions(s, q, k); }});
      },
      [](const Tensors& x) {
        const Scores s = scores_of(x[0], x[1]);
        return weighed(by_several_functions(s.value, s.q, s.k), x[2]);
      });
  check_same(
      inputs,
      [](const Tensors& x) {
        const Tensor b = x[3];
        return nn::scaled_dot_product_attention(
            x[0], x[1], x[2], {.score_mod = [&](auto s, auto, auto, auto q, auto k) {
              return s + b[q][0][1] + select(select(b[q], 1, -1), 0, 2) + select(b[k], 0, 1)[q % 2] * 3 +
                     slice(b[q], 0, 2, slice_end)[0][k % 2] * slice(b[k], 0, slice_end, slice_end, -1)[q % 3][0] +
                     unsqueeze(b[q], 1)[1][0][0];
            }});
      },
      [](const Tensors& x) {
        const Scores s = scores_of(x[0], x[1]);
        const Tensor b = x[3], row = flatten(s.q * 2);
        const auto at = [&](const Tensor& i, const Tensor& j, const Tensor& k) {
          const Tensor place = i * 6 + j * 2 + k + 0 * (s.q + s.k);
          return reshape(index_select(flatten(b), 0, flatten(place)), place.shape());
        };
        const Tensor zero = zeros({}, {DType::i64}), one = zero + 1, two = zero + 2;
        return weighed(s.value + at(s.q, zero, one) + at(s.q, two, one) + at(s.k, one, s.q % 2) * 3 +
                           at(s.q, two, s.k % 2) * at(s.k, 2 - s.q % 3, zero) + at(s.q, one, zero),
                       x[2]);
      });
}

TEST_CASE("attention with mods inside vmap, its second derivative, and along a tangent") {
  const Tensor q = noise({3, 2, 5, 4}, 1), k = noise({3, 2, 5, 4}, 2), v = noise({3, 2, 5, 4}, 3),
               bias = noise({3, 2, 9}, 4);
  const auto one = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias) {
    return nn::scaled_dot_product_attention(
        q, k, v,
        {.score_mod = [&](auto score, auto, auto h, auto q, auto k) { return 3 * tanh(score + bias[h][q - k + 4]); },
         .mask_mod = nn::causal()});
  };
  const auto all = [&] { return vmap(one)(q, k, v, bias); };
  Tensors each, slopes;
  const auto loss = [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& b) {
    return sum(square(one(q, k, v, b)));
  };
  for (int i = 0; i < 3; ++i) {
    each.push_back(one(select(q, 0, i), select(k, 0, i), select(v, 0, i), select(bias, 0, i)));
    slopes.push_back(grad([&](const Tensor& b) { return loss(select(q, 0, i), select(k, 0, i), select(v, 0, i), b); },
                          select(bias, 0, i)));
  }
  check_close(all(), stack(each));
  check_close(vmap([&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias) {
                return grad([&](const Tensor& b) { return loss(q, k, v, b); }, bias);
              })(q, k, v, bias),
              stack(slopes));
  const auto composed = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias) {
    const Scores s = scores_of(q, k);
    const Tensor read = reshape(index_select(flatten(bias), 0, flatten(s.h * 9 + (s.q - s.k + 4))), {2, 5, 5});
    return weighed(hidden(s.q >= s.k, 3 * tanh(s.value + read)), v);
  };
  const Tensor q0 = select(q, 0, 0), k0 = select(k, 0, 0), v0 = select(v, 0, 0), b0 = select(bias, 0, 0);
  const auto twice = [&](const auto& f) {
    return grad(
        [&](const Tensors& at) {
          const Tensors first = grad([&](const Tensors& x) { return sum(square(f(x[0], x[1], v0, x[2]))); }, at);
          return sum(first[0] * q0) + sum(square(first[1])) + sum(first[2]);
        },
        Tensors{q0, k0, b0});
  };
  check_lists(twice(one), twice(composed), 1e-10);
  const auto along = [&](const auto& f) {
    return jvp([&](const Tensors& at) { return f(at[0], k0, v0, at[1]); }, Tensors{q0, b0}, Tensors{k0, b0 * 2})
        .tangent;
  };
  check_close(along(one), along(composed), 1e-10);
}

TEST_CASE("16-bit and 32-bit operands give their dtype, mods compute in f32; dropout draws") {
  const Tensors wide = qkv({2, 8, 4}, {2, 9, 4});
  const auto attend = [](const Tensors& x, double rate = 0, Generator* generator = nullptr) {
    return nn::scaled_dot_product_attention(
        x[0], x[1], x[2],
        {.dropout_p = rate, .generator = generator, .score_mod = [](auto score, auto, auto, auto, auto k) {
           CHECK((score.dtype() == DType::f32 || score.dtype() == DType::f64));
           CHECK(k.dtype() == DType::i32);
           return score + k * 0.25;
         }});
  };
  const Tensor expected = attend(wide);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    Tensors narrow;
    for (const Tensor& each : wide) narrow.push_back(cast(each, dtype));
    const Tensor found = attend(narrow);
    CHECK(found.dtype() == dtype);
    check_close(cast(found, DType::f64), expected, dtype == DType::f32 ? 1e-5 : 0.02);
  }
  Generator first(3), same(3);
  const Tensor dropped = attend(wide, 0.5, &first);
  check_close(attend(wide, 0.5, &same), dropped, 0);
  CHECK(max(abs(dropped - expected)).item() > 0.01);
}

TEST_CASE("a call says what its mods are, and functions that say the same are one") {
  const Tensors inputs = qkv({2, 6, 4}, {2, 6, 4});
  const auto cap = compile([](const Tensors& x) {
    const Tensor first = nn::scaled_dot_product_attention(x[0], x[1], x[2], {.score_mod = nn::soft_cap(30)});
    return first + nn::scaled_dot_product_attention(
                       x[0], x[1], x[2],
                       {.score_mod = [](auto score, auto, auto, auto, auto) { return 30 * tanh(score / 30); }});
  });
  const auto two_caps = compile([](const Tensors& x) {
    const Tensor first = nn::scaled_dot_product_attention(x[0], x[1], x[2], {.score_mod = nn::soft_cap(30)});
    return first + nn::scaled_dot_product_attention(x[0], x[1], x[2], {.score_mod = nn::soft_cap(20)});
  });
  const auto caps = [&](const auto& f) {
    f(inputs);
    const Explanation said = explain(f, inputs);
    CHECK(said.graph.find("mods \"") != std::string::npos);
    CAPTURE(said.optimized);
    int count = 0;
    for (std::size_t at = 0; (at = said.optimized.find("= tanh(", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  CHECK(caps(cap) == 1);
  CHECK(caps(two_caps) == 2);
}

namespace {

using nn::MaskMod, nn::ScoreMod;
void attend(const Tensors& x, const ScoreMod& score, const MaskMod& mask = {}, Loc loc = Loc::current()) {
  nn::scaled_dot_product_attention(At(x[0], loc), x[1], x[2], {.score_mod = score, .mask_mod = mask});
}

}  // namespace

TEST_CASE("mods that give no number are refused in a sentence") {
  const Tensors x = qkv({2, 6, 4}, {2, 6, 4});
  const Tensor table = noise({6, 3}, 1), few = noise({4}, 1);
  const MaskMod distance = [](auto, auto, auto q, auto k) { return q - k; };
  refused([&] { attend(x, {}, distance); }, "the mask_mod must give a bool of no axes, it gives i32[]");
  const ScoreMod condition = [](auto s, auto, auto, auto q, auto k) { return (s > 0) & (q > k); };
  refused([&] { attend(x, condition); }, "the score_mod must give a number of no axes, it gives bool[]");
  const ScoreMod row = [&](auto s, auto, auto, auto q, auto) { return s + table[q]; };
  refused([&] { attend(x, row); }, "the score_mod must give a number of no axes, it gives f64[3]");
  const ScoreMod total = [&](auto s, auto, auto, auto q, auto) { return s + sum(table[q]); };
  refused([&] { attend(x, total); }, "sum has no meaning for the numbers that a score_mod or mask_mod gets");
  const ScoreMod short_one = [&](auto s, auto, auto, auto q, auto) { return s + few[q]; };
  refused([&] { attend(x, short_one); }, "a mod reads a tensor of 4 elements at each query, of which there are 6");
  const ScoreMod branch = [&](auto s, auto, auto, auto q, auto k) { return q > k ? s : s * 2; };
  refused([&] { attend(x, branch); }, "scaled_dot_product_attention");
  const auto reads_empty = [](const Tensors& at) {
    return nn::scaled_dot_product_attention(
        at[0], at[1], at[2], {.score_mod = [&](auto s, auto, auto, auto q, auto k) { return s + at[3][q - k]; }});
  };
  const auto reads_no_columns = [](const Tensors& at) {
    return nn::scaled_dot_product_attention(
        at[0], at[1], at[2], {.score_mod = [&](auto s, auto, auto, auto q, auto k) { return s + at[3][q][k % 2]; }});
  };
  const auto same_error = [&](const auto& f, Sizes sizes) {
    const Tensors all = {x[0], x[1], x[2], zeros(sizes, {DType::f64})};
    const std::string eager = weft::test::message_of([&] { f(all); });
    CHECK(eager.find("a mod reads an element of a tensor that has none, at ") != std::string::npos);
    CHECK(eager.find("attention_mods_test.cpp") != std::string::npos);
    CHECK(weft::test::message_of([&] { compile(f)(all); }) == eager);
  };
  same_error(reads_empty, {0});
  same_error(reads_no_columns, {6, 0});
  const ScoreMod turned = [&](auto s, auto, auto, auto q, auto) { return s + transpose(noise({6, 2, 2}, 1)[q])[0][0]; };
  refused([&] { attend(x, turned); }, "read elements of what it captures, as in bias[h][q - k + n]");
  const ScoreMod cap = nn::soft_cap(1);
  const Tensor mask = noise({6, 6}, 1);
  const auto with_mask = [&](Loc loc = Loc::current()) {
    nn::scaled_dot_product_attention(At(x[0], loc), x[1], x[2], {.attn_mask = mask, .score_mod = cap});
  };
  refused([&] { with_mask(); }, "takes attn_mask, or score_mod and mask_mod");
  refused([&] { nn::sliding_window(0); }, "the size must be positive, it is 0");
  refused([&] { nn::soft_cap(-1); }, "the cap must be positive, it is -1");
  refused([&] { nn::document_mask(few); }, "takes the documents' numbers, integers [L] or [B, L]: f64[4]");
  refused([&] { nn::alibi(table); }, "takes a slope for each head, floating [H]: f64[6,3]");
}
