// Norms, softmax and losses with their gradients, of random numbers of rows, widths and dtypes: each can be launched,
// and gives what f64 gives. With WEFT_NVRTC_CHECK=1 each kernel is held against the limits of a launch without a GPU,
// with WEFT_TEST_DEVICE=cuda it is launched. Rows of 3,072 to 4,096 elements once asked for more shared memory than a
// block has.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "tests/cuda/device.hpp"
#include "weft/weft.hpp"

using namespace weft;

namespace {

struct Operands {
  Tensor x, y, weight;
  WEFT_MEMBERS(x, y, weight)
};
struct Results {
  Tensor output;
  Operands slopes;
  WEFT_MEMBERS(output, slopes)
};

enum class Family : std::uint8_t { rms_norm, layer_norm, softmax, log_softmax, cross_entropy };
constexpr std::size_t families = 5;

// Of a sum, which is a result too, as a residual is.
Tensor forward(Family family, const Operands& p, const Tensor& labels, Tensor& added) {
  added = p.x + p.y;
  switch (family) {
    case Family::rms_norm: return nn::rms_norm(added, p.weight);
    case Family::layer_norm: return nn::layer_norm(added, p.weight, p.weight);
    case Family::softmax: return softmax(added * p.weight, -1);
    case Family::log_softmax: return log_softmax(added * p.weight, -1);
    case Family::cross_entropy: return nn::cross_entropy(added * p.weight, labels);
  }
  return {};
}
Results both(Family family, const Operands& at, const Tensor& labels) {
  const auto [value, slopes] = value_and_grad(
      [&](const Operands& p) {
        Tensor added;
        const Tensor output = forward(family, p, labels, added), wide = cast(output, DType::f64);
        const Tensor given = cos(arange(p.weight.size(0), {.dtype = DType::f64, .device = p.weight.device()}));
        const Tensor loss = family == Family::cross_entropy ? wide : sum(wide * given);
        return std::pair(loss + sum(cast(added, DType::f64)) / 8, output);
      },
      at);
  return {value.second, slopes};
}

struct Drawn {
  Family family;
  DType dtype;
  std::int64_t rows, width;
};
// Few elements in all, so that f64 on the host takes no time; widths at and beside what packs, warps and blocks have.
Drawn drawn(std::uint64_t seed) {
  std::mt19937_64 random(seed * 0x9e3779b97f4a7c15ull + 1);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  constexpr DType dtypes[] = {DType::f32, DType::bf16, DType::f16};
  constexpr std::int64_t most = 1 << 18;
  Drawn shape{static_cast<Family>(seed % families), dtypes[below(3)], 0, 0};
  const std::int64_t power = std::int64_t{1} << below(17);
  switch (below(4)) {
    case 0: shape.width = power; break;
    case 1: shape.width = power + 1; break;
    case 2: shape.width = 1024 + 8 * below(2048); break;
    default: shape.width = 1 + below(6000); break;
  }
  const std::int64_t rows = below(3) == 0 ? 1 + below(40) : 1 + below(2100);
  shape.rows = std::max<std::int64_t>(std::min(rows, most / shape.width), 1);
  return shape;
}

// f64 on the host, from what was rounded to the dtype.
void check_close(const Tensor& found, const Tensor& wanted, double within) {
  const Tensor apart = abs(cast(to(found, Device::cpu()), DType::f64) - wanted);
  CHECK(amax(apart).item() <= within * (1 + amax(abs(wanted)).item()));
}

void check_shapes(std::uint64_t first, std::uint64_t count) {
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const Drawn shape = drawn(seed);
    CAPTURE(seed);
    CAPTURE(static_cast<int>(shape.family));
    CAPTURE(std::string(info(shape.dtype).name));
    CAPTURE(shape.rows);
    CAPTURE(shape.width);
    Generator generator(seed);
    const auto sample = [&](const Sizes& sizes) { return cast(normal(sizes, 0, 1, generator), shape.dtype).eval(); };
    const Operands at{sample({shape.rows, shape.width}), sample({shape.rows, shape.width}), sample({shape.width})};
    const Tensor labels = (arange(shape.rows) * 7919 % shape.width).eval();
    const auto map = [&](auto f) { return Operands{f(at.x), f(at.y), f(at.weight)}; };
    const Results wanted = both(shape.family, map([](const Tensor& x) { return cast(x, DType::f64); }), labels);
    const auto compiled = compile(both, {.on_compile_error = OnFailure::raise});
    const Results found = compiled(shape.family, map([](const Tensor& x) { return to(x, test::test_device()); }),
                                   to(labels, test::test_device()));
    const double within = shape.dtype == DType::f32 ? 2e-5 : shape.dtype == DType::f16 ? 5e-3 : 4e-2;
    check_close(found.output, wanted.output, within);
    check_close(found.slopes.x, wanted.slopes.x, within);
    check_close(found.slopes.y, wanted.slopes.y, within);
    check_close(found.slopes.weight, wanted.slopes.weight, within);
  }
}

}  // namespace

TEST_CASE("norms, softmax and losses of random shapes, both ways: rows of any length") { check_shapes(1, 20); }
TEST_CASE("norms, softmax and losses of random shapes, both ways: more of them") { check_shapes(101, 20); }
