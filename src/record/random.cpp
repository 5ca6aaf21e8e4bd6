#include "weft/random.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "base/fail.hpp"
#include "base/fork.hpp"
#include "base/held_locks.hpp"
#include "base/lazy.hpp"
#include "base/storage.hpp"
#include "interpret/reference.hpp"
#include "record/default_device.hpp"
#include "record/evaluate.hpp"
#include "record/held_generator.hpp"
#include "record/indexing.hpp"
#include "record/random.hpp"
#include "record/record.hpp"

namespace weft {

// What default_generator() returns. Outside traces one thread at a time draws from it.
struct DefaultGenerator {
  ProcessMutex& mutex = process_mutex(LockOrder::generator);
  Generator generator;

  static DefaultGenerator& instance();
  static bool is(const Generator& generator) { return &generator == &instance().generator; }
  Tensor& state() { return generator.state_.tensor(); }
  static Tensor& state(Generator& of, Loc loc) { return of.state(loc); }
};

namespace {

Type state_type() { return {DType::i64, false, {}, Shape::of(2)}; }

// A state of the host's memory: belongs to no trace.
Tensor computed_state(std::uint64_t seed, Loc loc) {
  Storage* storage = allocate(Device::cpu(), 2 * sizeof(std::int64_t));
  const std::uint64_t words[] = {seed, 0};
  std::memcpy(storage->data, words, sizeof words);
  return make_data(storage, state_type(), loc);
}
Tensor integer(std::uint64_t value, Loc loc) {
  return record(Op::constant, {}, Constant::integer(static_cast<std::int64_t>(value)), Type{DType::i64, false, {}, {}},
                loc);
}
Tensor state_of(const Tensor& seed, const Tensor& offset) {
  Tensor parts[] = {seed, offset};
  return stack(parts);
}
Tensor word(const Tensor& state, int index) { return select(state, 0, index); }
// 64 bits of two words of 32.
Tensor wide(const Tensor& words) {
  Tensor halves = cast(words, DType::i64);
  return word(halves, 0) * (std::int64_t{1} << 32) + (word(halves, 1) & 0xffffffff);
}

std::unique_lock<ProcessMutex> lock_if_shared(const Generator& generator, Loc loc) {
  if (recorder().trace() || !DefaultGenerator::is(generator)) return {};
  refuse_held_generator(loc);
  return std::unique_lock(DefaultGenerator::instance().mutex);
}

constexpr std::uint64_t hash_of(const char* text) {  // FNV-1a
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (; *text; ++text) hash = (hash ^ static_cast<unsigned char>(*text)) * 0x100000001b3u;
  return hash;
}

void check_probability(const char* operation, double probability, Loc loc) {
  if (!(probability >= 0 && probability <= 1)) fail(operation, loc, "the probability is ", probability);
}

// A number of the distribution itself, which the dtype must be able to hold.
void check_finite(const char* operation, const char* what, double value, DType dtype, Loc loc) {
  if (!std::isfinite(round_to(dtype, value))) fail(operation, loc, what, " is ", value, ", in ", info(dtype).name);
}

void check_positive(const char* operation, const char* what, double value, DType dtype, Loc loc) {
  check_finite(operation, what, value, dtype, loc);
  if (!(value > 0)) fail(operation, loc, what, " must be positive, it is ", value);
}

Tensor bits_of(const Draw& draw, const Shape& sizes, Device device, Loc loc) {
  return record(Op::random_bits, {draw.seed, draw.offset}, {}, Type{DType::i32, false, device, sizes}, loc);
}
// Numbers of so many bits, in [0, 1), as f32.
Tensor unit_interval(const Tensor& words, int bits) {
  return cast(words & ((1 << bits) - 1), DType::f32) * std::ldexp(1.0, -bits);
}
// Uniform in [0, 1) in the dtype in which it is computed.
Tensor unit_interval(const Shape& sizes, DType dtype, Generator& generator, Device device, Loc loc) {
  if (dtype == DType::f64) {
    Tensor high = cast(generator.bits(sizes, device, loc) & 0x3ffffff, DType::f64);
    Tensor low = cast(generator.bits(sizes, device, loc) & 0x7ffffff, DType::f64);
    return (high * 0x1p27 + low) * 0x1p-53;
  }
  int bits = dtype == DType::f16 ? 11 : dtype == DType::bf16 ? 8 : 24;
  return unit_interval(generator.bits(sizes, device, loc), bits);
}
Type type_of_like(const Tensor& like, const char* operation, Loc loc) {
  if (!like.defined()) fail(operation, loc, "of an undefined tensor");
  return type_of(like);
}
DType drawn_in(DType dtype, const char* operation, Loc loc) {
  if (!is_floating(dtype)) fail(operation, loc, "needs a floating dtype, it is ", info(dtype).name);
  if (only_holds(dtype)) fail(operation, loc, "is not drawn in ", info(dtype).name, ": cast what is drawn in f32");
  return computed_in(dtype);
}

}  // namespace

DefaultGenerator& DefaultGenerator::instance() {
  static constinit Lazy<DefaultGenerator> instance;
  return instance.get([] { return DefaultGenerator{.generator = {Generator::FromState(), computed_state(0, {})}}; });
}
void refuse_held_generator(Loc loc) {
  if (thread_holds(LockOrder::generator))
    fail("random", loc,
         "the function that calls this code draws from the default generator itself: give one of the two a Generator "
         "of its own");
}
HeldGenerator hold_default_generator() {
  DefaultGenerator& held = DefaultGenerator::instance();
  return {std::unique_lock(held.mutex), &held.state()};
}
const Tensor* default_generator_state() { return &DefaultGenerator::instance().state(); }
Generator& default_generator() { return DefaultGenerator::instance().generator; }

void seed(std::uint64_t value, Loc loc) {
  if (recorder().trace()) fail("seed", loc, "the default generator can't be seeded inside a compiled function");
  refuse_held_generator(loc);
  *hold_default_generator().state = computed_state(value, loc);
}

Generator::Generator(std::uint64_t seed, Loc loc) {
  Operation call("Generator", loc);
  state_ = recorder().trace() ? state_of(integer(seed, loc), integer(0, loc)) : computed_state(seed, call.loc());
}

// In the body of a loop the state of a generator from outside is an input of the body, which the loop carries; so of
// the loops around it.
static void carry_into_loop(Tensor& state, std::size_t depth) {
  Trace* const trace = depth > 0 ? recorder().traces[depth - 1] : nullptr;
  if (!trace || !trace->is_loop || state.node()->trace == trace->id) return;
  carry_into_loop(state, depth - 1);
  const Tensor before = state;
  state = Builder({}, 0, trace->id).input(0, type_of(before));
  trace->generators.push_back({&state, before, state});
}

Tensor& traced_generator_state(Loc loc) {
  Trace& trace = *recorder().trace();
  if (!trace.generator_input.defined()) {
    trace.generator_input = record(Op::input, {}, Parameter{0}, state_type(), loc);
    trace.generator_value = trace.generator_input;
  }
  return trace.generator_value;
}

Tensor& Generator::state(Loc loc) {
  Trace* trace = recorder().trace();
  if (trace && DefaultGenerator::is(*this)) return traced_generator_state(loc);
  if (!state_.tensor().defined()) fail("Generator", loc, "draws from a generator that was moved from");
  if (trace) carry_into_loop(state_.tensor(), recorder().traces.size());
  return state_.tensor();
}

Tensor Generator::bits(Sizes sizes, Device device, Loc loc) {
  LooseComposite call("random", loc);
  return bits_of(next_draw(*this, call.loc()), sizes.shape(), placed(device), call.loc());
}

Draw next_draw(Generator& generator, Loc loc) {
  auto lock = lock_if_shared(generator, loc);
  Tensor& current = DefaultGenerator::state(generator, loc);
  Draw draw{word(current, 0), word(current, 1)};
  current = current + positions(0, Shape::of(2), Device::cpu(), loc);  // seed + 0, offset + 1
  return draw;
}

Generator Generator::fork(Loc loc) {
  LooseComposite call("random", loc);
  return Generator(FromState(),
                   state_of(wide(bits_of(next_draw(*this, call.loc()), Shape::of(2), Device::cpu(), call.loc())),
                            integer(0, call.loc())));
}

Generator Generator::named(const char* name, Loc loc) const {
  LooseComposite call("random", loc);
  auto lock = lock_if_shared(*this, call.loc());
  Tensor own = const_cast<Generator*>(this)->state(call.loc());
  // The offsets of a draw count from 0: the name's bits, with the top one set, are no draw's.
  Tensor place = integer(hash_of(name) | 1ull << 63, call.loc());
  Tensor words =
      record(Op::random_bits, {word(own, 0), place}, {}, Type{DType::i32, false, {}, Shape::of(2)}, call.loc());
  return Generator(FromState(), state_of(wide(words), integer(0, call.loc())));
}

Tensor uniform(Sizes sizes, double low, double high, Generator& generator, Options options, Loc loc) {
  LooseComposite call("uniform", loc);
  DType computed = drawn_in(options.dtype, "uniform", call.loc());
  check_finite("uniform", "the low end", low, options.dtype, call.loc());
  check_finite("uniform", "the high end", high, options.dtype, call.loc());
  if (!(low <= high)) fail("uniform", call.loc(), "the interval [", low, ", ", high, ") is empty");
  Tensor unit = unit_interval(sizes.shape(), options.dtype, generator, options.device, call.loc());
  if (low == 0 && high == 1) return cast(unit, options.dtype);
  const bool wide = !std::isfinite(round_to(computed, high - low));
  Tensor result = cast(wide ? unit * high + (1 - unit) * low : unit * (high - low) + low, options.dtype);
  // Rounding may reach `high`, which is outside.
  Tensor end = cast(full({}, high, {computed}), options.dtype);
  return low == high ? result : where(result == end, low, result);
}

Tensor uniform_like(const Tensor& like, double low, double high, Generator& generator, Loc loc) {
  LooseComposite call("uniform_like", loc);
  const Type type = type_of_like(like, "uniform_like", call.loc());
  return uniform(type.shape, low, high, generator, {type.dtype, type.device}, call.loc());
}
Tensor normal_like(const Tensor& like, double mean, double deviation, Generator& generator, Loc loc) {
  LooseComposite call("normal_like", loc);
  const Type type = type_of_like(like, "normal_like", call.loc());
  return normal(type.shape, mean, deviation, generator, {type.dtype, type.device}, call.loc());
}

Tensor normal(Sizes sizes, double mean, double deviation, Generator& generator, Options options, Loc loc) {
  LooseComposite call("normal", loc);
  DType computed = drawn_in(options.dtype, "normal", call.loc());
  check_finite("normal", "the mean", mean, options.dtype, call.loc());
  check_finite("normal", "the deviation", deviation, options.dtype, call.loc());
  if (deviation < 0) fail("normal", call.loc(), "the deviation is ", deviation);
  Tensor u = unit_interval(sizes.shape(), computed, generator, options.device, call.loc());
  Tensor v = unit_interval(sizes.shape(), computed, generator, options.device, call.loc());
  Tensor unit = sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v);
  return cast(unit * deviation + mean, options.dtype);
}

// Whether the dtype holds all integers between these two.
static bool holds_all(DType dtype, std::int64_t least, std::int64_t greatest) {
  if (dtype == DType::boolean) return least >= 0 && greatest <= 1;
  if (is_integer(dtype)) {
    const auto [low, high] = integer_range(dtype);
    return low <= least && greatest <= high;
  }
  constexpr std::int64_t most = std::int64_t{1} << 53;
  if (least < -most || greatest > most) return false;
  const double size = static_cast<double>(std::max(std::abs(least), std::abs(greatest)));
  return round_to(dtype, size) == size && round_to(dtype, size - 1) == size - 1;  // so there is no gap below it
}

Tensor randint(Sizes sizes, std::int64_t low, std::int64_t high, Generator& generator, RangeOptions options, Loc loc) {
  LooseComposite call("randint", loc);
  constexpr std::int64_t limit = std::int64_t{1} << 31;
  if (low >= high || static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low) > limit)
    fail("randint", call.loc(), "[", low, ", ", high, ") must hold 1 to 2^31 integers");
  if (!holds_all(options.dtype, low, high - 1))
    fail("randint", call.loc(), info(options.dtype).name, " does not hold all integers of [", low, ", ", high, ")");
  Tensor words = cast(generator.bits(sizes, options.device, call.loc()), DType::i64) & 0xffffffff;
  return cast(floor_divide(words * (high - low), std::int64_t{1} << 32) + low, options.dtype);
}

static Tensor bound_of(const At& given, Loc loc) {
  const Tensor bound = resolve(given, "randint");
  if (!is_integer(type_of(bound).dtype))
    fail("randint", loc, "a bound must be an integer, it is ", to_string(type_of(bound)));
  return cast(bound, DType::i64);
}
Tensor randint(Sizes sizes, At low, At high, Generator& generator) {
  LooseComposite call("randint", low.loc);
  const Tensor from = bound_of(low, call.loc()), to = bound_of(high, call.loc());
  const Device device = type_of(high.tensor ? to : from).device;
  const Tensor span = to - from;
  require(all((from < to) & (span > 0) & (span <= std::int64_t{1} << 31)), "randint", call.loc(),
          "[low, high) must hold 1 to 2^31 integers");
  const Tensor bits = bits_of(next_draw(generator, call.loc()), sizes.shape(), device, call.loc());
  const Tensor words = cast(bits, DType::i64) & 0xffffffff;
  const Tensor lows = expand(from, sizes), spans = expand(span, sizes);
  return bitwise_right_shift(words * spans, 32) + lows;
}

Tensor cauchy(Sizes sizes, double median, double sigma, Generator& generator, Options options, Loc loc) {
  LooseComposite call("cauchy", loc);
  const DType computed = drawn_in(options.dtype, "cauchy", call.loc());
  check_finite("cauchy", "the median", median, options.dtype, call.loc());
  check_positive("cauchy", "sigma", sigma, options.dtype, call.loc());
  const Tensor unit = unit_interval(sizes.shape(), computed, generator, options.device, call.loc());
  return cast(tan((unit - 0.5) * 3.141592653589793) * sigma + median, options.dtype);
}

Tensor exponential(Sizes sizes, double rate, Generator& generator, Options options, Loc loc) {
  LooseComposite call("exponential", loc);
  const DType computed = drawn_in(options.dtype, "exponential", call.loc());
  check_positive("exponential", "the rate", rate, options.dtype, call.loc());
  const Tensor unit = unit_interval(sizes.shape(), computed, generator, options.device, call.loc());
  // Half of the step between two numbers of the interval in the place of 0.
  const double least = computed == DType::f64 ? 0x1p-54 : 0x1p-25;
  return cast(-log1p(-maximum(unit, least)) / rate, options.dtype);
}

Tensor geometric(Sizes sizes, double probability, Generator& generator, Options options, Loc loc) {
  LooseComposite call("geometric", loc);
  const DType computed = drawn_in(options.dtype, "geometric", call.loc());
  if (!(probability > 0 && probability < 1))
    fail("geometric", call.loc(), "the probability must be between 0 and 1, it is ", probability);
  const Tensor unit = unit_interval(sizes.shape(), computed, generator, options.device, call.loc());
  return cast(maximum(ceil(log1p(-unit) / std::log1p(-probability)), 1), options.dtype);
}

Tensor log_normal(Sizes sizes, double mean, double deviation, Generator& generator, Options options, Loc loc) {
  LooseComposite call("log_normal", loc);
  const DType computed = drawn_in(options.dtype, "log_normal", call.loc());
  check_positive("log_normal", "the deviation", deviation, options.dtype, call.loc());
  return cast(exp(normal(sizes, mean, deviation, generator, {computed, options.device}, call.loc())), options.dtype);
}

Tensor bernoulli(Sizes sizes, double probability, Generator& generator, BernoulliOptions options, Loc loc) {
  LooseComposite call("bernoulli", loc);
  check_probability("bernoulli", probability, call.loc());
  const Tensor unit = unit_interval(sizes.shape(), DType::f32, generator, options.device, call.loc());
  return cast(unit < probability, options.dtype);
}

Tensor multinomial(At probabilities, std::int64_t count, bool replacement, Generator& generator) {
  LooseComposite call("multinomial", probabilities.loc);
  const Tensor weights = resolve(probabilities, "multinomial");
  const Type type = type_of(weights);
  const int rank = type.shape.rank();
  if (!is_floating(type.dtype) || rank < 1 || count < 1)
    fail("multinomial", call.loc(), "takes floating probabilities [..., n] and a positive count: ", to_string(type),
         " and ", count);
  if (type.shape.element_count() == Dim(0)) fail("multinomial", call.loc(), "of no probabilities: ", to_string(type));
  const Tensor possible = weights > 0;
  require(all(isfinite(weights) & (weights >= 0)) & all(sum(possible, -1) >= (replacement ? 1 : count)), "multinomial",
          call.loc(),
          "probabilities must be finite and not negative, and as many of a row positive as are drawn without "
          "replacement, at least one");
  // The greatest of log(p) and Gumbel's noise is a draw, the greatest ones are draws without replacement.
  Shape shape = type.shape;
  if (replacement) shape.push_back(shape[rank - 1]), shape[rank - 1] = count;
  const Tensor u = unit_interval(shape, DType::f32, generator, type.device, call.loc());
  const Tensor noise = -log(-log(maximum(u, 1e-30)));
  const Tensor chances = log(cast(weights, DType::f32));
  if (replacement) return argmax(unsqueeze(chances, -2) + noise, -1);
  return topk(chances + noise, count).indices;
}

Tensor dropout(At x, double probability, Generator& generator) {
  LooseComposite call("dropout", x.loc);
  check_probability("dropout", probability, call.loc());
  Tensor value = resolve(x, "dropout");
  if (!is_floating(type_of(value).dtype)) value = cast(value, DType::f32);
  if (probability == 0) return value;
  return dropped(value, probability, next_draw(generator, call.loc()), call.loc());
}
Tensor dropped(const Tensor& value, double probability, const Draw& draw, Loc loc) {
  const Type type = type_of(value);
  const Tensor kept = unit_interval(bits_of(draw, type.shape, type.device, loc), 24) >= probability;
  return where(kept, probability == 1 ? value : value / (1 - probability), 0);
}

static void check_permuted(std::int64_t count, Loc loc) {
  if (count < 0 || count > INT32_MAX) fail("permutation", loc, "of ", count, " elements");
}
std::vector<std::int64_t> permutation(std::int64_t count, Generator& generator, Loc loc) {
  LooseComposite call("permutation", loc);
  if (recorder().trace())
    fail("permutation", call.loc(),
         "is made on the host: not inside a compiled function, where permutation(count, RangeOptions()) is a tensor");
  check_permuted(count, call.loc());
  Tensor words = bits_of(next_draw(generator, call.loc()), Shape::of(count), Device::cpu(), call.loc());
  View<const std::int32_t> random = words.data<std::int32_t>(call.loc());
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
  for (std::size_t left = order.size(); left > 1; --left) {  // Fisher and Yates
    std::size_t chosen = std::uint64_t{static_cast<std::uint32_t>(random[left - 1])} * left >> 32;
    std::swap(order[left - 1], order[chosen]);
  }
  return order;
}
Tensor permutation(std::int64_t count, Generator& generator, RangeOptions options, Loc loc) {
  LooseComposite call("permutation", loc);
  check_permuted(count, call.loc());
  if (count > 0 && !holds_all(options.dtype, 0, count - 1))
    fail("permutation", call.loc(), info(options.dtype).name, " does not hold all integers of [0, ", count, ")");
  return cast(argsort(generator.bits({count}, options.device, call.loc())), options.dtype);
}

}  // namespace weft
