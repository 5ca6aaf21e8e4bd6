// What attention is told of positions: rotations, tables, biases, and the cache of a text that grows.
#include <cmath>
#include <numbers>

#include "base/fail.hpp"
#include "record/indexing.hpp"
#include "record/record.hpp"
#include "weft/nn/attention.hpp"

namespace weft::nn {
namespace {

// [1, pairs]: radians a position, base^(-pair / pairs).
Tensor turns(std::int64_t pairs, double base, DType dtype, Device device) {
  const Tensor pair = cast(weft::positions(1, Shape::of(Dim(1), Dim(pairs)), device, {}), dtype);
  return exp(pair * (-std::log(base) / static_cast<double>(pairs)));
}
// The same of a pair that turns once in so many positions or more, slower.
Tensor scaled(const Tensor& turns, const RotaryScaling& by) {
  const double once = 2 * std::numbers::pi / static_cast<double>(by.context);  // in `context` positions
  const Tensor kept = clamp((turns * (1 / once) - by.low) * (1 / (by.high - by.low)), 0, 1);
  return turns * (kept + (1 - kept) * (1 / by.factor));
}
// [length, pairs], `turns` being [1, pairs].
Tensor angles(const Tensor& positions, const Tensor& turns) { return cast(positions, turns.dtype()) * turns; }
Tensor column(Dim length, Device device) { return weft::positions(0, Shape::of(length, Dim(1)), device, {}); }

// The slopes of 2^-8/n, 2^-16/n, ... of n heads; of another count n those of the power of two below it, and every
// second one of twice as many.
std::vector<float> slopes(std::int64_t heads) {
  std::int64_t power = 1;
  while (power * 2 <= heads) power *= 2;
  std::vector<float> all;
  const auto add = [&](std::int64_t of, std::int64_t number) {
    all.push_back(static_cast<float>(std::exp2(-8.0 * static_cast<double>(number) / static_cast<double>(of))));
  };
  for (std::int64_t i = 1; i <= power; ++i) add(power, i);
  for (std::int64_t i = 0; i < heads - power; ++i) add(2 * power, 2 * i + 1);
  return all;
}

}  // namespace

RotaryEmbedding::RotaryEmbedding(std::int64_t dim_, const RotaryOptions& options, Loc loc)
    : dim(dim_), base(options.base), interleaved(options.interleaved), scaling(options.scaling) {
  Operation call("rotary_embedding", loc);
  if (dim < 2 || dim % 2 != 0) fail("rotary_embedding", call.loc(), "the width must be even, it is ", dim);
  if (!(base > 0)) fail("rotary_embedding", call.loc(), "the base must be positive, it is ", base);
  if (!(scaling.factor > 0)) fail("rotary_embedding", call.loc(), "factor must be positive, it is ", scaling.factor);
  if (!(scaling.low > 0 && scaling.low < scaling.high))
    fail("rotary_embedding", call.loc(), "low must be positive and below high: ", scaling.low, ", ", scaling.high);
  if (scaling.context < 1) fail("rotary_embedding", call.loc(), "context must be positive, it is ", scaling.context);
}

Tensor RotaryEmbedding::operator()(At given, At offset) const {
  LooseComposite call("rotary_embedding", given.loc);
  const Tensor x = resolve(given, "rotary_embedding");
  const Type type = type_of(x);
  const int rank = type.shape.rank();
  if (rank < 2 || !(type.shape[rank - 1] == Dim(dim)) || !is_floating(type.dtype))
    fail("rotary_embedding", call.loc(), "takes a floating tensor [..., L, ", dim, "], it is ", to_string(type));
  const DType wide = computed_in(type.dtype);
  Tensor turn = turns(dim / 2, base, wide, type.device);
  if (scaling.factor != 1) turn = scaled(turn, scaling);
  const Tensor angle = angles(column(type.shape[rank - 2], type.device) + offset, turn);
  const Tensor c = cos(angle), s = sin(angle), value = cast(x, wide);
  Shape pairs = type.shape;
  pairs[rank - 1] = dim / 2;
  pairs.push_back(2);
  const int across = interleaved ? -1 : -2;  // the axis of a pair's two elements
  if (!interleaved) std::swap(pairs[rank - 1], pairs[rank]);
  const Tensor both = reshape(value, pairs), first = select(both, across, 0), second = select(both, across, 1);
  const Tensor turned = stack({first * c - second * s, first * s + second * c}, across);
  return cast(reshape(turned, type.shape), type.dtype);
}

Tensor sinusoidal_positions(Dim length, std::int64_t dim, double base, Device device, Loc loc) {
  LooseComposite call("sinusoidal_positions", loc);
  if (dim < 2 || dim % 2 != 0) fail("sinusoidal_positions", call.loc(), "the width must be even, it is ", dim);
  const Tensor angle = angles(column(length, device), turns(dim / 2, base, DType::f32, device));
  return reshape(stack({sin(angle), cos(angle)}, -1), {length, dim});
}

Tensor alibi_slopes(std::int64_t heads, Device device, Loc loc) {
  LooseComposite call("alibi_slopes", loc);
  if (heads < 1) fail("alibi_slopes", call.loc(), "there must be a head, there are ", heads);
  return to(constant(slopes(heads), {heads}, call.loc()), device);
}

Tensor alibi_bias(std::int64_t heads, Dim queries, Dim keys, Device device, Loc loc) {
  LooseComposite call("alibi_bias", loc);
  if (heads < 1) fail("alibi_bias", call.loc(), "there must be a head, there are ", heads);
  const Tensor of_heads = reshape(alibi_slopes(heads, device), {heads, 1, 1});
  const Shape pairs = Shape::of(queries, keys);
  const Tensor distance = weft::positions(1, pairs, device, call.loc()) -
                          (weft::positions(0, pairs, device, call.loc()) + dim_value(keys - queries, call.loc()));
  return of_heads * -cast(abs(distance), DType::f32);
}

RelativePositionBias::RelativePositionBias(std::int64_t heads, bool bidirectional_, std::int64_t num_buckets,
                                           std::int64_t max_distance_, Options options, Loc loc)
    : bidirectional(bidirectional_), max_distance(max_distance_) {
  LooseComposite call("relative_position_bias", loc);
  const std::int64_t exact = num_buckets / (bidirectional ? 4 : 2);
  if (heads < 1 || exact < 1 || max_distance <= exact)
    fail("relative_position_bias", call.loc(),
         "needs a head, buckets for near distances and a greatest distance beyond them: ", heads, ", ", num_buckets,
         ", ", max_distance);
  weight = normal({num_buckets, heads}, 0, 1, default_generator(), options);
}

void RelativePositionBias::initialize(Generator& generator) {
  const Type type = type_of(weight.tensor());
  weight.tensor() = normal(type.shape, 0, 1, generator, {type.dtype, type.device});
}

Tensor RelativePositionBias::operator()(Dim queries, Dim keys, At offset) const {
  LooseComposite call("relative_position_bias", offset.loc);
  const Type type = type_of(weight.tensor());
  const Shape pairs = Shape::of(queries, keys);
  const Tensor relative = weft::positions(1, pairs, type.device, call.loc()) -
                          (weft::positions(0, pairs, type.device, call.loc()) + offset);
  std::int64_t buckets = static_cast<std::int64_t>(type.shape[0]);
  Tensor first = 0 * relative, distance;
  if (bidirectional) {
    buckets /= 2;
    first = where(relative > 0, buckets, 0);
    distance = abs(relative);
  } else {
    distance = maximum(-relative, 0);
  }
  const std::int64_t exact = buckets / 2;
  const double ratio =
      static_cast<double>(buckets - exact) / std::log(static_cast<double>(max_distance) / static_cast<double>(exact));
  const Tensor far =
      cast(log(cast(maximum(distance, 1), DType::f32) / static_cast<double>(exact)) * ratio, DType::i64) + exact;
  const Tensor bucket = first + where(distance < exact, distance, minimum(far, buckets - 1));
  return permute(gather(weight, bucket), {2, 0, 1});
}

KeyValueCache::KeyValueCache(std::int64_t batch, std::int64_t heads, std::int64_t capacity, std::int64_t depth,
                             Options options, Loc loc)
    : keys(zeros({batch, heads, capacity, depth}, options, loc)),
      values(zeros({batch, heads, capacity, depth}, options, loc)) {}

void KeyValueCache::update(At key, At value, const Index& position) {
  constexpr const char* name = "key_value_cache";
  LooseComposite call(name, key.loc);
  const auto written = [&](const Buffer& into, const At& given) {
    const Tensor part = resolve(given, name), whole = resolve(At(into.tensor(), call.loc()), name);
    const Shape own = type_of(part).shape, all = type_of(whole).shape;
    const int axis = normalize_axis(name, -2, all.rank(), call.loc());
    std::string what;
    if (own.rank() == all.rank())
      what = concat_text("for ", dims::to_string(own[axis]), own[axis].same(Dim(1)) ? " place" : " places",
                         " in a cache of ", dims::to_string(all[axis]));
    return write_slice(whole, part, axis, At(position, call.loc()), what, call.loc());
  };
  const Tensor new_keys = written(keys, key), new_values = written(values, value);
  keys = new_keys, values = new_values;
}

Tensor KeyValueCache::mask(Dim length, const Index& position, Loc loc) const {
  LooseComposite call("key_value_cache", loc);
  const Type type = type_of(keys.tensor());
  const Shape pairs = Shape::of(length, type.shape[2]);
  // A compiled step has its check in update(), which it makes with the same position.
  if (!recorder().trace() && position.item() < 0)
    fail("key_value_cache", call.loc(), "the position must not be negative, it is ", position.item());
  return weft::positions(1, pairs, type.device, call.loc()) <=
         weft::positions(0, pairs, type.device, call.loc()) + position;
}

}  // namespace weft::nn
