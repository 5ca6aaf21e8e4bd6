#include "nn/attention.hpp"

#include <algorithm>
#include <cmath>

#include "base/fail.hpp"
#include "record/attention_mods.hpp"
#include "record/autocast.hpp"
#include "record/composite.hpp"
#include "record/products.hpp"
#include "record/random.hpp"
#include "weft/nn/initial.hpp"

namespace weft::nn {
namespace {

Shape shape_of(const Tensor& value) { return type_of(value).shape; }
Dim size_of(const Tensor& value, int axis) { return type_of(value).shape[type_of(value).shape.rank() + axis]; }

// [..., H, L, E] as [..., G, H/G * L, E]: heads that share keys are rows of one product.
Tensor grouped(const Tensor& value, const Tensor& keys) {
  Shape shape = shape_of(value);
  const int rank = shape.rank();
  const Dim groups = size_of(keys, -3);
  if (rank < 3 || shape[rank - 3].same(groups)) return value;
  shape[rank - 2] = shape[rank - 3] / groups * shape[rank - 2];
  shape[rank - 3] = groups;
  return reshape(value, shape);
}
// And back, the last axis being another one.
Tensor ungrouped(const Tensor& value, const Tensor& like) {
  Shape shape = shape_of(like);
  shape[shape.rank() - 1] = size_of(value, -1);
  return reshape(value, shape);
}

Tensor wide(const Tensor& value) { return cast(value, computed_in(type_of(value).dtype)); }

// What a call has besides queries, keys and values.
struct BesideKeys {
  Tensor mask;                       // undefined where there is none
  std::span<const Tensor> captured;  // by the mods
  Draw draw = {};                    // undefined where nothing is dropped
};
// Of the operands of a call after query, key and value.
BesideKeys beside_keys(const AttentionCall& how, std::span<const Tensor> more) {
  BesideKeys all;
  if (how.dropout > 0) {
    all.draw = {more[more.size() - 2], more[more.size() - 1]};
    more = more.first(more.size() - 2);
  }
  if (how.has_mods())
    all.captured = more;
  else if (!more.empty())
    all.mask = more[0];
  return all;
}

// query [..., H, L, E] and key [..., G, S, E] to [..., H, L, S]: the weights of the values, in f32 at least. A query
// that sees nothing has none. `stats`, if wanted: of each row the logarithm of the sum of exp(score), [..., H, L].
Tensor attention_weights(const AttentionCall& how, const Tensor& query, const Tensor& key, const BesideKeys& beside,
                         Tensor* stats = nullptr) {
  const Tensor& mask = beside.mask;
  const auto normalized = [stats](const Tensor& scores) {
    if (stats) *stats = logsumexp(scores, -1);
    return softmax(scores, -1);
  };
  Tensor scores = ungrouped(accumulated_matmul(grouped(query, key), transpose(key), {}), query) * how.scale;
  if (size_of(scores, -1) == Dim(0)) {  // of no keys there are no weights, and their sum is 0
    if (stats) *stats = logsumexp(scores, -1);
    return scores;
  }
  Tensor is_seen;
  if (how.is_causal) {
    const Device device = type_of(scores).device;
    const Shape pairs = Shape::of(size_of(scores, -2), size_of(scores, -1));
    const Tensor sees = positions(1, pairs, device, {}) <= positions(0, pairs, device, {});
    if (!how.has_mods()) scores = where(sees, scores, -INFINITY);
    is_seen = sees;
  }
  if (how.has_mods()) {
    const PairValues changed = apply_mods(how.mods, scores, beside.captured, is_seen);
    scores = changed.sees.defined() ? where(changed.sees, changed.scores, -INFINITY) : changed.scores;
    const Tensor sees = amax(scores, -1, true) != -INFINITY;  // what is NaN stays
    const Tensor weights = where(sees, normalized(where(sees, scores, 0)), 0);
    if (stats) *stats = where(squeeze(sees, -1), *stats, -INFINITY);
    return weights;
  }
  if (!mask.defined()) return normalized(scores);
  if (type_of(mask).dtype == DType::boolean) {
    const Tensor sees = any(mask, -1, true);
    return where(sees, normalized(where(mask, scores, where(sees, -INFINITY, 0.0))), 0);
  }
  const Tensor added = wide(mask), sees = amax(added, -1, true) > -INFINITY;
  return where(sees, normalized(scores + where(sees, added, 0)), 0);
}

// Weights or their gradient, after the dropout.
Tensor after_dropout(const AttentionCall& how, const Tensor& weights, const BesideKeys& beside) {
  return how.dropout > 0 ? dropped(weights, how.dropout, beside.draw, {}) : weights;
}

Tensor attend(const AttentionCall& how, const Tensor& query, const Tensor& key, const Tensor& value,
              const BesideKeys& beside, Tensor* stats) {
  const Tensor all = attention_weights(how, query, key, beside, stats);
  const Tensor weights = cast(after_dropout(how, all, beside), type_of(value).dtype);
  return ungrouped(matmul(grouped(weights, value), value), query);
}

constexpr const char* attention_name = "scaled_dot_product_attention";

// The weights are those of the forward pass, or are computed again; their gradient is never kept. Where the call may be
// done whole, it gives the stats of its rows too, and its derivative reads these and the output:
// (query, key, value, [mask]) -> (output, stats) and
// (query, key, value, [mask], output, stats, gradient) -> (of query, of key, of value). Where nobody takes them, both
// are their bodies, which read neither.
void differentiate_attention(const CallValues& call, std::span<Tensor> gradients) {
  const Tensor &query = call.operands[0], &key = call.operands[1], &value = call.operands[2];
  const auto& how = call.called.as<AttentionCall>();
  const BesideKeys beside = beside_keys(how, std::span<const Tensor>(call.operands).subspan(3));
  const Tensor& mask = beside.mask;
  const DType dtype = type_of(query).dtype;
  call.is_whole = attention_may_be_whole(call);
  const Tensor weights = attention_weights(how, query, key, beside);
  const Tensor given = grouped(call.gradients[0], value);
  gradients[2] = matmul(transpose(grouped(cast(after_dropout(how, weights, beside), dtype), value)), given);
  const Tensor of_weights =
      after_dropout(how, ungrouped(accumulated_matmul(given, transpose(value), {}), weights), beside);
  const Tensor weighted = weights * of_weights;
  const Tensor of_scores = weighted - weights * sum(weighted, -1, true);
  if (mask.defined() && is_floating(type_of(mask).dtype)) gradients[3] = cast(of_scores, type_of(mask).dtype);
  const Tensor of_products = grouped(cast(of_scores * how.scale, dtype), key);
  gradients[0] = ungrouped(matmul(of_products, key), query);
  gradients[1] = matmul(transpose(of_products), grouped(query, key));
}

// The types of a call, for an error.
struct CallTypes {
  const Type &query, &key, &value;
  std::string text() const { return concat_text(to_string(query), " x ", to_string(key), " x ", to_string(value)); }
};
// Of heads that share keys.
void check_groups(Dim query, Dim key, Dim value, const CallTypes& types, Loc loc) {
  if (!(key == value))
    fail(attention_name, loc, "the keys have ", dims::to_string(key), " heads and the values ", dims::to_string(value),
         ": ", types.text());
  if (key.same(Dim(0)) || !(query % key == Dim(0)))
    fail(attention_name, loc, "the query has ", dims::to_string(query), " heads, which is no multiple of the keys' ",
         dims::to_string(key), ": ", types.text());
}
// Of heads that each have keys of their own. Symbols are left to broadcasting.
void check_own_heads(Dim query, Dim key, Dim value, const CallTypes& types, Loc loc) {
  if (!query.is_constant() || !key.is_constant() || !value.is_constant()) return;
  const std::int64_t h = query.constant(), k = key.constant(), v = value.constant();
  const auto fits = [](std::int64_t a, std::int64_t b) { return a == b || a == 1 || b == 1; };
  if (!fits(k, v)) fail(attention_name, loc, "the keys have ", k, " heads and the values ", v, ": ", types.text());
  if (!fits(h, k) || !fits(h, v))
    fail(attention_name, loc, "the query has ", h, " heads and the keys and values ", fits(h, k) ? v : k,
         k == v && k > 0 && h % k == 0 ? ", which heads share where .enable_gqa is true: " : ": ", types.text());
}

void check_attention(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionOptions& options,
                     Loc loc) {
  const Type q = type_of(query), k = type_of(key), v = type_of(value);
  const int rank = q.shape.rank();
  bool fits = rank >= 2 && k.shape.rank() >= 2 && v.shape.rank() >= 2 && size_of(query, -1) == size_of(key, -1) &&
              size_of(key, -2) == size_of(value, -2) && is_floating(q.dtype) && q.dtype == k.dtype &&
              q.dtype == v.dtype;
  const bool has_heads = rank >= 3 && k.shape.rank() >= 3 && v.shape.rank() >= 3;
  const CallTypes types{q, k, v};
  if (!fits || (options.enable_gqa && !has_heads))
    fail(attention_name, loc,
         "takes a query [..., heads, L, E], keys [..., heads, S, E] and values [..., heads, S, F] of one "
         "floating dtype: ",
         types.text());
  if (options.enable_gqa)
    check_groups(size_of(query, -3), size_of(key, -3), size_of(value, -3), types, loc);
  else if (has_heads && rank > 3)
    check_own_heads(size_of(query, -3), size_of(key, -3), size_of(value, -3), types, loc);
  if (options.is_causal && options.attn_mask.defined())
    fail(attention_name, loc, "takes a mask or is_causal, not both");
  if (options.attn_mask.defined() && (options.score_mod.defined() || options.mask_mod.defined()))
    fail(attention_name, loc, "takes attn_mask, or score_mod and mask_mod: a mod may capture the mask and read it");
  if (!(options.dropout_p >= 0 && options.dropout_p < 1))
    fail(attention_name, loc, "the probability of dropout must be in [0, 1), it is ", options.dropout_p);
  if (options.attn_mask.defined() && !is_floating(type_of(options.attn_mask).dtype) &&
      type_of(options.attn_mask).dtype != DType::boolean)
    fail(attention_name, loc, "a mask must be bool or floating, it is ", to_string(type_of(options.attn_mask)));
}

}  // namespace

// All scores of no features are 0, which no infinity must meet.
double usual_scale(std::int64_t depth) { return 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(depth, 1))); }

Tensor attention_by(const Draw* given, At query, At key, At value, const AttentionOptions& options, Tensor* stats) {
  LooseComposite call(attention_name, query.loc);
  Tensor q = resolve(query, attention_name), k = resolve(key, attention_name), v = resolve(value, attention_name);
  check_attention(q, k, v, options, call.loc());
  // Leading axes alike: but the heads, where they are grouped.
  const int inner = options.enable_gqa ? 3 : 2;
  const auto leading = [&](const Tensor& value) {
    Shape batch;
    for (int axis = 0; axis + inner < shape_of(value).rank(); ++axis) batch.push_back(shape_of(value)[axis]);
    return expand(constant_like(0, {DType::f32, false, type_of(value).device, Shape()}, call.loc()), batch);
  };
  const Tensor batches[] = {leading(q), leading(k), leading(v)};
  const Shape batch = broadcast(attention_name, batches, call.loc());
  const auto widen = [&](Tensor& value) {
    Shape shape = batch;
    const Shape own = shape_of(value);
    for (int axis = own.rank() - inner; axis < own.rank(); ++axis) shape.push_back(own[axis]);
    if (!shape.same(own)) value = expand(value, shape);
  };
  widen(q), widen(k), widen(v);
  const double scale = options.scale != 0 ? options.scale : usual_scale(static_cast<std::int64_t>(size_of(q, -1)));
  RecordedMods mods;
  if (options.score_mod.defined() || options.mask_mod.defined())
    mods = record_mods(options.score_mod.function(), options.mask_mod.function(), pair_sizes(type_of(q), type_of(k)),
                       call.loc());
  const AttentionCall how{called(attention_name), scale, options.is_causal, mods.text, options.dropout_p};
  Tensor mask;
  if (options.attn_mask.defined()) {
    Shape pairs = shape_of(q);
    pairs[pairs.rank() - 1] = size_of(k, -2);
    mask = resolve(options.attn_mask, attention_name);
    if (attention_may_be_whole(type_of(q)) && type_of(mask).dtype == DType::boolean)  // fused kernels add a mask
      mask = cast(where(mask, 0.0, -INFINITY), type_of(q).dtype);
    mask = expand(mask, pairs);
  }
  Draw draw;
  if (options.dropout_p > 0)
    draw = given ? *given : next_draw(options.generator ? *options.generator : default_generator(), call.loc());
  if (options.dropout_p > 0 && !attention_may_be_whole(type_of(q)))
    return attend(how, q, k, v, {mask, mods.captured, draw}, nullptr);
  std::vector<Tensor> operands = {std::move(q), std::move(k), std::move(v)};
  if (mask.defined()) operands.push_back(std::move(mask));
  operands.insert(operands.end(), mods.captured.begin(), mods.captured.end());
  if (options.dropout_p > 0) operands.insert(operands.end(), {draw.seed, draw.offset});
  std::vector<Tensor> results(attention_may_be_whole(type_of(operands[0])) ? 2 : 1);
  composite(
      how, operands, results, call.loc(),
      [&](std::span<const Tensor> inputs, std::span<Tensor> made) {
        const BesideKeys beside = beside_keys(how, inputs.subspan(3));
        made[0] = attend(how, inputs[0], inputs[1], inputs[2], beside, made.size() > 1 ? &made[1] : nullptr);
      },
      how.has_mods() ? nullptr : differentiate_attention);
  if (stats) *stats = results.at(1);
  return results[0];
}

Tensor scaled_dot_product_attention(At query, At key, At value, const AttentionOptions& options) {
  return attention_by(nullptr, query, key, value, options);
}

// ---- multi-head attention -------------------------------------------------------------------------------------------

namespace {

constexpr const char* multihead = "multihead_attention";

// A mask as what is added to scores, or as a bool that says who sees whom.
Tensor seen(const Tensor& mask) { return type_of(mask).dtype == DType::boolean ? ~mask : mask; }
Tensor joined(const Tensor& a, const Tensor& b) {
  if (!a.defined()) return b;
  if (!b.defined()) return a;
  const bool bools = type_of(a).dtype == DType::boolean && type_of(b).dtype == DType::boolean;
  if (bools) return a & b;
  const auto added = [](const Tensor& mask) {
    return type_of(mask).dtype == DType::boolean ? where(mask, 0.0, -INFINITY) : mask;
  };
  return added(a) + added(b);
}

}  // namespace

MultiheadAttention::MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads_,
                                       MultiheadAttentionOptions options, Loc loc)
    : out_proj(embed_dim, embed_dim, {options.bias, options.options}, loc),
      num_heads(num_heads_),
      dropout(options.dropout),
      batch_first(options.batch_first) {
  LooseComposite call(multihead, loc);
  const std::int64_t kdim = options.kdim > 0 ? options.kdim : embed_dim,
                     vdim = options.vdim > 0 ? options.vdim : embed_dim;
  if (num_heads < 1 || embed_dim % num_heads != 0)
    fail(multihead, call.loc(), embed_dim, " features do not divide into ", num_heads, " heads");
  if (!(dropout >= 0 && dropout < 1))
    fail(multihead, call.loc(), "the probability of dropout must be in [0, 1), it is ", dropout);
  const bool together = kdim == embed_dim && vdim == embed_dim;
  const auto put = [&](Param& place, bool wanted, Sizes sizes) {
    if (wanted)
      place = zeros(sizes, options.options);
    else
      place.frozen = true;
  };
  put(in_proj_weight, together, {3 * embed_dim, embed_dim});
  put(q_proj_weight, !together, {embed_dim, embed_dim});
  put(k_proj_weight, !together, {embed_dim, kdim});
  put(v_proj_weight, !together, {embed_dim, vdim});
  put(in_proj_bias, options.bias, {3 * embed_dim});
  initialize(default_generator());
}

void MultiheadAttention::initialize(Generator& generator) {
  for (Param* each : {&in_proj_weight, &q_proj_weight, &k_proj_weight, &v_proj_weight}) {
    if (!each->tensor().defined()) continue;
    const Type type = type_of(each->tensor());
    each->tensor() = xavier_uniform(type.shape, generator, 1, {type.dtype, type.device});
  }
  if (in_proj_bias.tensor().defined()) in_proj_bias.tensor() = zeros_like(in_proj_bias.tensor());
  out_proj.initialize(generator);
  if (out_proj.bias.tensor().defined()) out_proj.bias.tensor() = zeros_like(out_proj.bias.tensor());
}

MultiheadResult MultiheadAttention::operator()(At query, At key, At value, const AttentionMasks& masks) const {
  LooseComposite call(multihead, query.loc);
  Tensor given[] = {resolve(query, multihead), resolve(key, multihead), resolve(value, multihead)};
  const Dim width = type_of(out_proj.weight.tensor()).shape[0];
  const int rank = type_of(given[0]).shape.rank();
  if ((rank != 2 && rank != 3) || type_of(given[1]).shape.rank() != rank || type_of(given[2]).shape.rank() != rank)
    fail(multihead, call.loc(), "takes a query, keys and values of 2 or 3 axes: ", to_string(type_of(given[0])), " x ",
         to_string(type_of(given[1])), " x ", to_string(type_of(given[2])));
  const bool self = given[0].same(given[1]) && given[1].same(given[2]);
  for (Tensor& each : given) {  // [N, L, E]
    if (rank == 2) each = unsqueeze(each, 0);
    if (rank == 3 && !batch_first) each = transpose(each, 0, 1);
  }
  const std::int64_t features = static_cast<std::int64_t>(width);
  const Param* const separate[] = {&q_proj_weight, &k_proj_weight, &v_proj_weight};
  const bool together = in_proj_weight.tensor().defined();
  const auto product = [&](const Tensor& x, const Tensor& weight, const Tensor& bias) {
    if (!(size_of(x, -1) == shape_of(weight)[1]))
      fail(multihead, call.loc(), "takes ", dims::to_string(shape_of(weight)[1]), " features, the input is ",
           to_string(type_of(x)));
    Shape shape = shape_of(x);
    shape[2] = shape_of(weight)[0];
    const auto operand = [&](const Tensor& each) {
      return each.defined() ? resolve(At(each, call.loc()), "linear") : each;
    };
    return reshape(linear_product(operand(flatten(x, 0, -2)), operand(weight), operand(bias), call.loc()), shape);
  };
  const auto heads = [&](const Tensor& x) {  // [N, L, E] to [N, H, L, E/H]
    return permute(reshape(x, {size_of(x, -3), size_of(x, -2), num_heads, features / num_heads}), {0, 2, 1, 3});
  };
  Tensor parts[3];
  if (together && self) {
    const Tensor all = product(given[0], in_proj_weight, in_proj_bias);
    for (int i = 0; i < 3; ++i) parts[i] = heads(narrow(all, -1, i * features, features));
  } else {
    for (int i = 0; i < 3; ++i) {
      const Tensor bias = in_proj_bias.tensor().defined() ? narrow(in_proj_bias, 0, i * features, features) : Tensor();
      parts[i] = heads(product(
          given[i], together ? narrow(in_proj_weight, 0, i * features, features) : separate[i]->tensor(), bias));
    }
  }
  const Dim batch = size_of(parts[0], -4), length = size_of(parts[0], -2), keys = size_of(parts[1], -2);
  Tensor mask;
  if (masks.attn_mask.defined()) {
    mask = seen(masks.attn_mask);
    if (shape_of(mask).rank() == 3) mask = reshape(mask, {batch, num_heads, length, keys});
  }
  if (masks.key_padding_mask.defined()) {
    Tensor padding = seen(masks.key_padding_mask);
    if (shape_of(padding).rank() == 1) padding = unsqueeze(padding, 0);
    mask = joined(mask, reshape(padding, {batch, 1, 1, keys}));
  }
  bool is_causal = masks.is_causal;
  if (is_causal && mask.defined()) {
    const Shape pairs = Shape::of(length, keys);
    const Device device = type_of(parts[0]).device;
    mask = joined(mask, positions(1, pairs, device, call.loc()) <= positions(0, pairs, device, call.loc()));
    is_causal = false;
  }
  const double rate = training ? dropout : 0, scale = usual_scale(features / num_heads);
  Tensor wide_mask = mask;
  if (mask.defined()) wide_mask = expand(mask, {batch, num_heads, length, keys});
  MultiheadResult result;
  const AttentionCall how{called(attention_name), scale, is_causal, {}};
  result.weights = cast(attention_weights(how, parts[0], parts[1], {wide_mask, {}}),
                        autocast_dtype("softmax", type_of(parts[0]).dtype));
  Tensor mixed;
  if (rate > 0) {
    const Draw draw = next_draw(default_generator(), call.loc());
    result.weights = dropped(result.weights, rate, draw, call.loc());
    if (attention_may_be_whole(type_of(parts[0])) && !mask.defined())
      mixed = attention_by(&draw, parts[0], parts[1], parts[2], {.dropout_p = rate, .is_causal = is_causal});
    else
      mixed = matmul(result.weights, parts[2]);
  } else {
    mixed = scaled_dot_product_attention(parts[0], parts[1], parts[2], {.attn_mask = mask, .is_causal = is_causal});
  }
  result.output = out_proj(reshape(permute(mixed, {0, 2, 1, 3}), {batch, length, width}));
  if (rank == 2) {
    result.output = squeeze(result.output, 0);
    result.weights = squeeze(result.weights, 0);
  } else if (!batch_first) {
    result.output = transpose(result.output, 0, 1);
  }
  return result;
}

}  // namespace weft::nn
