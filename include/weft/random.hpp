// Random tensors. A Generator's state is a value of the graph, so a compiled function that takes one by reference draws
// other numbers on each call. Bits come from Philox (weft/detail/lanes_random.inc): a pure function of seed, offset and
// position, the same on every device. A draw takes its offset when it is recorded: in program order, used or not.
#pragma once
#include <vector>

#include "weft/members.hpp"
#include "weft/tensor.hpp"

namespace weft {

class Generator {  // a source of random numbers: a seed and an offset
 public:
  explicit Generator(std::uint64_t seed, Loc loc = Loc::current());  // equal seeds give equal numbers
  Generator(Generator&&) noexcept = default;                         // the other must not be drawn from then
  Generator& operator=(Generator&&) noexcept = default;              // the same

  // Another generator, whose numbers have nothing to do with this one's from here on.
  Generator fork(Loc loc = Loc::current());
  // The same for a name: it does not depend on how many draws or other names came before.
  Generator named(const char* name, Loc loc = Loc::current()) const;

  // The next `sizes` words of 32 bits, as i32: one draw.
  Tensor bits(Sizes sizes, Device device = {}, Loc loc = Loc::current());

 private:
  friend struct DefaultGenerator;
  struct FromState {};
  Generator(FromState, Tensor state) : state_(std::move(state)) {}
  Tensor& state(Loc loc);

  Buffer state_;  // i64[2]: seed, offset
  WEFT_MEMBERS(state_)
};

// The process's own generator: what draws use that are given none. Inside a compiled function its state is a hidden
// argument, and it is refused as a written one. Shared by all threads.
Generator& default_generator();
// Starts the default generator again. Not inside a compiled function.
void seed(std::uint64_t value, Loc loc = Loc::current());

// Options choose the dtype, floating but for randint and bernoulli, and where the numbers are drawn: from the same bits
// on every device. They may be in the place of the generator: uniform({3}, 0, 1, {.device = d}); of uniform and normal
// after the sizes, too. All throw Error on a negative size.
// Uniform in [low, high): 24 bits of f32, 53 of f64, as many as the significand has of f16 and bf16. Throws where the
// dtype holds low or high as no finite number, and where low > high.
Tensor uniform(Sizes sizes, double low = 0, double high = 1, Generator& generator = default_generator(),
               Options options = {}, Loc loc = Loc::current());
// Of the shape, the dtype and the device of another tensor, which throws where that is undefined: torch.rand_like.
Tensor uniform_like(const Tensor& like, double low = 0, double high = 1, Generator& generator = default_generator(),
                    Loc loc = Loc::current());
// Normal, by Box and Muller: two draws. Throws where the dtype holds mean or deviation as no finite number, and where
// the deviation is negative.
Tensor normal(Sizes sizes, double mean = 0, double deviation = 1, Generator& generator = default_generator(),
              Options options = {}, Loc loc = Loc::current());
// Likewise: torch.randn_like.
Tensor normal_like(const Tensor& like, double mean = 0, double deviation = 1,
                   Generator& generator = default_generator(), Loc loc = Loc::current());
// Integers, uniform in [low, high); high - low at most 2^31. Throws where the dtype does not hold all of them exactly.
Tensor randint(Sizes sizes, std::int64_t low, std::int64_t high, Generator& generator = default_generator(),
               RangeOptions options = {}, Loc loc = Loc::current());
// The same between bounds that are tensors and broadcast to the sizes, as i64 on their device; one of them may be a
// number. Throws, or stops the call, where high - low is not 1 to 2^31.
Tensor randint(Sizes sizes, At low, At high, Generator& generator = default_generator());
// Of density sigma / (pi ((x - median)^2 + sigma^2)). Throws where sigma is not positive.
Tensor cauchy(Sizes sizes, double median = 0, double sigma = 1, Generator& generator = default_generator(),
              Options options = {}, Loc loc = Loc::current());
// Of density rate exp(-rate x); never 0. Throws where the rate is not positive.
Tensor exponential(Sizes sizes, double rate = 1, Generator& generator = default_generator(), Options options = {},
                   Loc loc = Loc::current());
// The number of trials, each a success with this probability, up to the first success: 1, 2, ... Throws where the
// probability is not between 0 and 1.
Tensor geometric(Sizes sizes, double probability, Generator& generator = default_generator(), Options options = {},
                 Loc loc = Loc::current());
// exp of a normal number of this mean and deviation. Throws where the deviation is not positive.
Tensor log_normal(Sizes sizes, double mean = 1, double deviation = 2, Generator& generator = default_generator(),
                  Options options = {}, Loc loc = Loc::current());
struct BernoulliOptions {        // of bernoulli
  DType dtype = DType::boolean;  // of the elements
  Device device = {};            // where they lie; default: the host
};
// True, or 1 in another dtype, with this probability.
Tensor bernoulli(Sizes sizes, double probability, Generator& generator = default_generator(),
                 BernoulliOptions options = {}, Loc loc = Loc::current());
// i64 [..., count]: draws from 0 ... n - 1 with chances in proportion to probabilities [..., n], which need no sum of
// 1; without replacement each comes once at most.
Tensor multinomial(At probabilities, std::int64_t count, bool replacement = false,
                   Generator& generator = default_generator());
// Sets elements to zero with this probability and scales the others, so that the expectation stays. Integers
// become f32 first.
Tensor dropout(At x, double probability, Generator& generator = default_generator());
// 0 ... count-1 in random order, on the host (not inside a compiled function). Throws where the count is not 0 to
// 2^31 - 1.
std::vector<std::int64_t> permutation(std::int64_t count, Generator& generator = default_generator(),
                                      Loc loc = Loc::current());
// The same as a tensor [count], on any device and in a compiled function too. It is the order of the generator's next
// words, argsort(generator.bits({count}, device)): another order than the vector's, and the same on all devices. Throws
// also where the dtype does not hold all of the numbers.
Tensor permutation(std::int64_t count, Generator& generator, RangeOptions options, Loc loc = Loc::current());

// Draws from the default generator, with options.
inline Tensor uniform(Sizes sizes, Options options, Loc loc = Loc::current()) {
  return uniform(sizes, 0, 1, default_generator(), options, loc);
}
inline Tensor uniform(Sizes sizes, double low, double high, Options options, Loc loc = Loc::current()) {
  return uniform(sizes, low, high, default_generator(), options, loc);
}
inline Tensor normal(Sizes sizes, Options options, Loc loc = Loc::current()) {
  return normal(sizes, 0, 1, default_generator(), options, loc);
}
inline Tensor normal(Sizes sizes, double mean, double deviation, Options options, Loc loc = Loc::current()) {
  return normal(sizes, mean, deviation, default_generator(), options, loc);
}
inline Tensor randint(Sizes sizes, std::int64_t low, std::int64_t high, RangeOptions options,
                      Loc loc = Loc::current()) {
  return randint(sizes, low, high, default_generator(), options, loc);
}
inline Tensor permutation(std::int64_t count, RangeOptions options, Loc loc = Loc::current()) {
  return permutation(count, default_generator(), options, loc);
}
inline Tensor cauchy(Sizes sizes, double median, double sigma, Options options, Loc loc = Loc::current()) {
  return cauchy(sizes, median, sigma, default_generator(), options, loc);
}
inline Tensor exponential(Sizes sizes, double rate, Options options, Loc loc = Loc::current()) {
  return exponential(sizes, rate, default_generator(), options, loc);
}
inline Tensor geometric(Sizes sizes, double probability, Options options, Loc loc = Loc::current()) {
  return geometric(sizes, probability, default_generator(), options, loc);
}
inline Tensor log_normal(Sizes sizes, double mean, double deviation, Options options, Loc loc = Loc::current()) {
  return log_normal(sizes, mean, deviation, default_generator(), options, loc);
}
inline Tensor bernoulli(Sizes sizes, double probability, BernoulliOptions options, Loc loc = Loc::current()) {
  return bernoulli(sizes, probability, default_generator(), options, loc);
}
// A device alone is refused. The comment is a part of what the compiler says.
template <std::same_as<Device> T>
Tensor uniform(const Sizes&, T) = delete;  // weft: a device is an option: uniform({3}, {.device = Device::cuda()})
template <std::same_as<Device> T>
Tensor normal(const Sizes&, T) = delete;  // weft: a device is an option: normal({3}, {.device = Device::cuda()})

}  // namespace weft
