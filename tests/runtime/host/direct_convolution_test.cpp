// Convolutions of our own against a naive one in double: sizes, strides, borders, dilations and batches of all kinds,
// images with gaps between their rows, NaN and infinities; and the same bits whatever the number of threads, with
// weights that were packed before and without.
#include "runtime/host/direct_convolution.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>

#include "base/options.hpp"
#include "tests/runtime/support.hpp"

using namespace weft;
using runtime::ConvolutionSizes;
using runtime::Convolved;
using runtime::DirectConvolution;

namespace {

using Int = std::int64_t;
using Numbers = std::vector<float>;

constexpr float untouched = -77;

// Rows and planes with so many elements between them.
void lay(ConvolutionSizes& s, Int gap) {
  for (const Convolved value : {Convolved::input, Convolved::weight, Convolved::output}) {
    const auto shape = s.shape_of(value);
    Int step = 1;
    for (std::size_t axis = static_cast<std::size_t>(s.axes) + 2; axis-- > 0;) {
      s.strides_of(value)[axis] = step;
      step = step * std::max<Int>(shape[axis], 1) + (value != Convolved::weight || axis == 1 ? gap : 0);
    }
  }
}
std::size_t elements_of(const ConvolutionSizes& s, Convolved value) {
  return static_cast<std::size_t>(std::max<Int>(s.shape_of(value)[0], 1) * s.strides_of(value)[0]) + 8;
}

Numbers random_values(std::size_t count, std::mt19937& random) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  Numbers values(count);
  for (float& value : values) value = uniform(random);
  return values;
}

// f(item, output, place in the result, the sum, the sum of magnitudes) for each element.
template <class F>
void for_each_sum(const ConvolutionSizes& s, const Numbers& input, const Numbers& weights, F f) {
  const bool flat = s.axes == 1;
  const std::size_t x = flat ? 0 : 1;
  const auto at = [](const std::array<Int, 5>& strides, Int a, Int b, Int c, Int d, bool flat) {
    return static_cast<std::size_t>(a * strides[0] + b * strides[1] +
                                    (flat ? d * strides[2] : c * strides[2] + d * strides[3]));
  };
  for (Int n = 0; n < s.batch; ++n)
    for (Int o = 0; o < s.outputs; ++o)
      for (Int row = 0; row < (flat ? 1 : s.positions[0]); ++row)
        for (Int column = 0; column < s.positions[x]; ++column) {
          double sum = 0, magnitudes = 0;
          for (Int c = 0; c < s.inputs; ++c)
            for (Int v = 0; v < (flat ? 1 : s.kernel[0]); ++v)
              for (Int u = 0; u < s.kernel[x]; ++u) {
                const Int i = flat ? 0 : row * s.strides[0] + v * s.dilation[0] - s.low[0],
                          j = column * s.strides[x] + u * s.dilation[x] - s.low[x];
                if (i < 0 || j < 0 || (!flat && i >= s.size[0]) || j >= s.size[x]) continue;
                const double product = static_cast<double>(input[at(s.input_strides, n, c, i, j, flat)]) *
                                       static_cast<double>(weights[at(s.weight_strides, o, c, v, u, flat)]);
                sum += product, magnitudes += std::fabs(product);
              }
          f(at(s.output_strides, n, o, row, column, flat), sum, magnitudes);
        }
}

Numbers run(const ConvolutionSizes& s, const Numbers& input, const Numbers& weights, bool packs) {
  const DirectConvolution convolution(s);
  Numbers output(elements_of(s, Convolved::output), untouched);
  const auto bytes = [](std::size_t count) { return std::vector<std::byte>(count + 64); };
  const auto aligned = [](std::vector<std::byte>& of) {
    return of.data() + (64 - reinterpret_cast<std::uintptr_t>(of.data()) % 64) % 64;
  };
  auto workspace = bytes(convolution.workspace()), packed = bytes(convolution.packed_bytes());
  if (packs) convolution.pack(weights.data(), aligned(packed));
  convolution.run(input.data(), weights.data(), output.data(), {aligned(workspace), workspace.size() - 64},
                  packs ? aligned(packed) : nullptr);
  return output;
}

// Empty where all is right.
std::string wrong(const ConvolutionSizes& s, const Numbers& input, const Numbers& weights) {
  const Numbers found = run(s, input, weights, false);
  std::string text;
  std::size_t written = 0;
  for_each_sum(s, input, weights, [&](std::size_t place, double sum, double magnitudes) {
    const auto value = static_cast<double>(found[place]);
    const bool same = std::isnan(sum)   ? std::isnan(value)
                      : std::isinf(sum) ? value == sum
                                        : std::fabs(value - sum) <= 0x1p-20 * magnitudes;
    if (!same && text.empty()) text = std::to_string(value) + ", not " + std::to_string(sum);
    ++written;
  });
  for (const float value : found) written += value == untouched;
  if (written != found.size()) text += " something beside the result is written";
  const test::KeepOptions keep;
  for (const int threads : {1, 2, 3, 8})
    for (const bool packs : {false, true}) {
      options().num_threads = threads;
      const Numbers other = run(s, input, weights, packs);
      if (std::memcmp(other.data(), found.data(), found.size() * sizeof(float)) != 0)
        text += " other bits on " + std::to_string(threads) + " threads" + (packs ? ", packed" : "");
    }
  return text;
}

ConvolutionSizes random_sizes(std::mt19937& random) {
  const auto pick = [&](Int low, Int high) {
    return low + static_cast<Int>(random() % static_cast<unsigned>(high - low + 1));
  };
  ConvolutionSizes s;
  s.axes = static_cast<int>(pick(1, 2));
  s.batch = pick(0, 9) == 0 ? 0 : pick(1, 3);
  s.inputs = pick(0, 3) == 0 ? pick(30, 150) : pick(1, 9), s.outputs = pick(0, 3) == 0 ? pick(40, 150) : pick(1, 40);
  const bool square = pick(0, 3) == 0, bare = pick(0, 2) == 0;
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(s.axes); ++axis) {
    s.kernel[axis] = square ? 1 : pick(1, 5), s.dilation[axis] = pick(0, 2) == 0 ? pick(2, 3) : 1;
    s.strides[axis] = pick(0, 1) == 0 ? pick(2, 3) : 1;
    s.low[axis] = bare ? 0 : pick(-1, 4), s.high[axis] = bare ? 0 : pick(-1, 4);
    const Int reach = (s.kernel[axis] - 1) * s.dilation[axis] + 1;
    s.size[axis] = std::max<Int>(1, reach - s.low[axis] - s.high[axis]) + pick(0, s.axes == 1 ? 400 : 17);
    s.positions[axis] = (s.size[axis] + s.low[axis] + s.high[axis] - reach) / s.strides[axis] + 1;
  }
  return s;
}

}  // namespace

TEST_CASE("150 random convolutions are the sums of a naive one, on any number of threads") {
  std::mt19937 random(7);
  for (int i = 0; i < 150; ++i) {
    ConvolutionSizes s = random_sizes(random);
    lay(s, i % 3 == 0 ? 3 : 0);
    REQUIRE(s.is_sound());
    REQUIRE(DirectConvolution::takes(s));
    REQUIRE(DirectConvolution::lies_well(s));
    const Numbers input = random_values(elements_of(s, Convolved::input), random),
                  weights = random_values(elements_of(s, Convolved::weight), random);
    CAPTURE(i);
    CHECK(wrong(s, input, weights) == "");
  }
}

TEST_CASE("NaN and infinities of an image are in the positions that read them, and in no other") {
  std::mt19937 random(8);
  for (int i = 0; i < 60; ++i) {
    ConvolutionSizes s = random_sizes(random);
    if (s.batch == 0) continue;
    lay(s, 0);
    Numbers input = random_values(elements_of(s, Convolved::input), random);
    const Numbers weights = random_values(elements_of(s, Convolved::weight), random);
    for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                              -std::numeric_limits<float>::infinity()})
      input[random() % (input.size() - 8)] = value;
    CAPTURE(i);
    CHECK(wrong(s, input, weights) == "");
  }
}

TEST_CASE("what can't be counted or is no forward convolution of one group is not taken") {
  ConvolutionSizes s;
  s.axes = 2, s.batch = 1, s.inputs = 4, s.outputs = 8;
  s.size = {9, 9}, s.kernel = {3, 3}, s.positions = {7, 7}, s.strides = {1, 1}, s.dilation = {1, 1};
  lay(s, 0);
  const auto takes = [&](auto change) {
    ConvolutionSizes other = s;
    change(other);
    return DirectConvolution::takes(other);
  };
  CHECK(takes([](auto&) {}));
  CHECK_FALSE(takes([](auto& s) { s.groups = 2; }));
  CHECK_FALSE(takes([](auto& s) { s.axes = 3; }));
  CHECK_FALSE(takes([](auto& s) { s.dtype = DType::f64; }));
  CHECK_FALSE(takes([](auto& s) { s.result = Convolved::input; }));
  CHECK_FALSE(takes([](auto& s) { s.has_bias = true; }));
  CHECK_FALSE(takes([](auto& s) { s.inputs = 0; }));
  CHECK_FALSE(takes([](auto& s) { s.dilation[0] = Int{1} << 30; }));
  CHECK_FALSE(takes([](auto& s) { s.strides = {Int{1} << 20, Int{1} << 20}; }));
  CHECK_FALSE(takes([](auto& s) { s.inputs = Int{1} << 30; }));
  s.input_strides[3] = 2;
  CHECK_FALSE(DirectConvolution::lies_well(s));
  lay(s, 0);
  s.weight_strides[1] = 10;
  CHECK_FALSE(DirectConvolution::lies_well(s));
}
