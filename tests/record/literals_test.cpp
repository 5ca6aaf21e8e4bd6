// A number that enters as a literal fits into the dtype that it is taken in, or is refused with the user's line. The
// same for what item() gives.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "refused.hpp"
#include "weft/compile.hpp"
#include "weft/expr.hpp"
#include "weft/grad.hpp"
#include "weft/ops.hpp"

using namespace weft;
using weft::test::refused;

namespace {

constexpr Options u8{DType::u8}, i32{DType::i32}, i64{DType::i64}, boolean{DType::boolean};

std::vector<std::int64_t> integers(const Tensor& tensor) {
  const Tensor wide = cast(tensor, DType::i64);
  View<const std::int64_t> data = wide.data<std::int64_t>();
  return {data.begin(), data.end()};
}
using Integers = std::vector<std::int64_t>;

struct Operands {
  Tensor u = from_list<std::uint8_t>({0, 44, 255});
  Tensor i = from_list<std::int32_t>({0, 1, 2});
  Tensor l = from_list<std::int64_t>({0, 1, 2});
};

// Halfway between two floats and 1: rounded to a double first, it would go down.
constexpr std::int64_t above_half = (1ll << 62) + (1ll << 38) + 1;
constexpr float rounded_up = 0x1.000002p62f;

}  // namespace

TEST_CASE("a literal that its dtype does not hold is refused") {
  Operands o;
  refused([&] { return o.u < 300; }, "[less] 300 does not fit into u8, which holds 0 to 255");
  refused([&] { return o.u == -1; }, "[equal] -1 does not fit into u8");
  refused([&] { return minimum(o.u, 300); }, "[minimum] 300 does not fit into u8");
  refused([&] { return o.u + 256; }, "[add] 256 does not fit into u8");
  refused([&] { return 256 - o.u; }, "[sub] 256 does not fit into u8");
  refused([&] { return o.u & ~15; }, "[bitwise_and] -16 does not fit into u8");
  refused([&] { return where(o.u < 3, o.u, 256); }, "[where] 256 does not fit into u8");
  refused([&] { return clamp(o.u, 0, 256); }, "[clamp] 256 does not fit into u8");
  refused([&] { return o.u += 256; }, "[add] 256 does not fit into u8");
  refused([&] { return o.i < (1ll << 40); }, "[less] 1099511627776 does not fit into i32, which holds -2147483648 to");
  refused([&] { return o.i + 3000000000L; }, "[add] 3000000000 does not fit into i32");
  refused([&] { return o.u + Index(300); }, "[add] 300 does not fit into u8");
  refused([&] { return elementwise([](auto x) { return x + 300; })(o.u); }, "[elementwise] 300 does not fit into u8");
  refused([&] { return elementwise([](auto x) { return pack(x, Sym(300)); })(o.u); },
          "[elementwise] 300 does not fit into u8");
}

TEST_CASE("a tensor filled with a literal holds it") {
  refused([&] { return full({}, 300, u8); }, "[full] 300 does not fit into u8");
  refused([&] { return full({}, -1, u8); }, "[full] -1 does not fit into u8");
  refused([&] { return full({2}, 3000000000L, i32); }, "[full] 3000000000 does not fit into i32");
  refused([&] { return full({1}, NAN, i64); }, "[full] nan does not fit into i64");
  refused([&] { return full({1}, 1e30, i64); }, "[full] 1e+30 does not fit into i64");
  refused([&] { return full({1}, 0x1p63, i64); }, "[full] 9.22337e+18 does not fit into i64");
  refused([&] { return full({}, 256.0, u8); }, "[full] 256 does not fit into u8");
  refused([&] { return full({}, Index(300), u8); }, "[full] 300 does not fit into u8");
  refused([&] { return full_like(Operands().u, 256); }, "[full_like] 256 does not fit into u8");
  CHECK(full({}, 255, u8).item<int>() == 255);
  CHECK(full({}, 255.9, u8).item<int>() == 255);
  CHECK(full({}, -0.5, u8).item<int>() == 0);
  CHECK(full({}, 2.7, i64).item<int>() == 2);
  CHECK(full({}, -2.7, i32).item<int>() == -2);
  CHECK(full({}, INT64_MIN, i64).item<std::int64_t>() == INT64_MIN);
  CHECK(full({}, INT64_MAX, i64).item<std::int64_t>() == INT64_MAX);
  CHECK(full({}, -0x1p63, i64).item<std::int64_t>() == INT64_MIN);
  CHECK(integers(full({2}, 200, u8) + full({2}, 100, u8)) == Integers{44, 44});
  CHECK(sum(full({3}, 255, u8)).item<int>() == 765);
  for (double x : {0.5, -1.0, 1e30, 1e-300, static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    CAPTURE(x);
    CHECK(integers(full({1}, x, boolean)) == Integers{1});
  }
  CHECK(integers(full({1}, -0.0, boolean)) == Integers{0});
  CHECK(integers(full({1}, 256, boolean)) == Integers{1});
}

TEST_CASE("a literal is rounded once") {
  CHECK(full({}, above_half).item<float>() == rounded_up);
  Tensor zero = zeros({1});
  CHECK((zero + above_half).item<float>() == rounded_up);
  CHECK(elementwise([](auto x) { return x + above_half; })(zero).item<float>() == rounded_up);
  auto sums = compile([](const Tensor& x) {
    return std::vector<Tensor>{x + above_half, elementwise([](auto y) { return y + above_half; })(x)};
  });
  for (const Tensor& sum : sums(zero)) CHECK(sum.item<float>() == rounded_up);
  CHECK((zero + Index(above_half)).item<float>() == rounded_up);
}

TEST_CASE("a tensor filled with a literal is rounded before it is cast") {
  CHECK(full({}, 0.1).item() == 0.1f);
  CHECK((full({}, 0.1) + zeros({1}, {DType::f64})).item() == 0.1f);
  CHECK(full({}, 0.1, {DType::f64}).item() == 0.1);
}

TEST_CASE("a tensor without axes is cast, as in PyTorch, and so is what cast() is given") {
  Operands o;
  CHECK(integers(o.u + full({}, 300, i64)) == Integers{44, 88, 43});
  CHECK(integers(o.u + full({}, 300, i64).eval()) == Integers{44, 88, 43});
  CHECK(integers(o.i + full({}, 1ll << 32, i64)) == Integers{0, 1, 2});
  CHECK(cast(300, DType::u8).item<int>() == 44);
  CHECK(cast(1e30, DType::i64).item<std::int64_t>() == INT64_MAX);
  CHECK(cast(NAN, DType::i64).item<std::int64_t>() == 0);
}

TEST_CASE("the same inside a compiled function") {
  Operands o;
  const auto line = static_cast<std::uint32_t>(__LINE__);
  auto below = compile([](const Tensor& u) { return u < 300; });
  auto filled = compile([](const Tensor& u) { return u + full({}, 300, {DType::u8}); });
  auto inverse = compile([](const Tensor& u) { return pow(u, -1); });
  refused([&] { return below(o.u); }, "[less] 300 does not fit into u8", {"literals_test.cpp", line + 1});
  refused([&] { return filled(o.u); }, "[full] 300 does not fit into u8", {"literals_test.cpp", line + 2});
  refused([&] { return inverse(o.l); }, "[pow] integers to a negative power", {"literals_test.cpp", line + 3});
  auto cast_first = compile([](const Tensor& u) { return cast(u, DType::i32) < 300; });
  CHECK(integers(cast_first(o.u)) == Integers{1, 1, 1});
  // A size is a number too: where it is symbolic, a guard holds that it fits.
  auto plus_size = compile([](const Tensor& u, const Tensor& x) { return u + x.size(0); }, {.dynamic = true});
  CHECK(integers(plus_size(o.u, zeros({5}))) == Integers{5, 49, 4});
  CHECK(integers(plus_size(o.u, zeros({7}))) == Integers{7, 51, 6});
  CHECK_THROWS_WITH_AS(plus_size(o.u, zeros({300})), doctest::Contains("does not fit into u8"), Error);
}

TEST_CASE("integers to a negative power: a literal is refused, values give 1, -1 or 0") {
  Operands o;
  refused([&] { return pow(o.l, -1); }, "[pow] integers to a negative power");
  refused([&] { return pow(o.l, Index(-2)); }, "[pow] integers to a negative power");
  refused([&] { return elementwise([](auto x) { return pow(x, -1); })(o.l); },
          "[elementwise] integers to a negative power");
  CHECK(integers(pow(o.l - 1, from_list<std::int64_t>({-1, -1, -1}))) == Integers{-1, 0, 1});
  CHECK(integers(pow(o.l - 1, full({}, -1, i64))) == Integers{-1, 0, 1});
  CHECK(pow(full({}, 2.0), -1).item() == 0.5);
  CHECK(amin(pow(o.l, -1.0)).item() == 0.5);
}

TEST_CASE("item gives an integer that holds the value, or refuses") {
  const char* const words = "does not fit into the integer that is asked for";
  refused([&] { return full({}, 1e30).item<int>(); }, words);
  refused([&] { return full({}, NAN).item<std::int64_t>(); }, words);
  refused([&] { return (full({1}, 1) * 1e10).item<int>(); }, words);
  refused([&] { return full({}, 300, i32).item<std::uint8_t>(); }, words);
  refused([&] { return full({}, -1, i32).item<unsigned>(); }, words);
  refused([&] { return full({}, -1.0).item<std::uint64_t>(); }, words);
  refused([&] { return full({}, INT64_MAX, i64).item<int>(); }, words);
  refused([&] { return full({}, 0x1p63).item<std::int64_t>(); }, words);
  CHECK(full({}, 2.9).item<int>() == 2);
  CHECK(full({}, -0.5).item<unsigned>() == 0);
  CHECK(full({}, 0x1p63).item<std::uint64_t>() == 1ull << 63);
  CHECK(full({}, INT64_MIN, i64).item<std::int64_t>() == INT64_MIN);
  CHECK(full({}, INT64_MAX, i64).item<std::uint64_t>() == INT64_MAX);
}

// What f computes of x as f32, with its numbers as they are, rounded to the dtype of x.
template <class F>
void check_rounded_once(F f) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor x = cast(arange(1, 257), dtype);
    const Tensor wanted = cast(f(cast(x, DType::f32), Scalar(1e-7)), dtype), found = f(x, Scalar(1e-7));
    CHECK(found.dtype() == dtype);
    CHECK(all(found == wanted).template item<bool>());
    for (const Backend backend : {Backend::compiled, Backend::eager, Backend::reference})
      CHECK(all(compile(f, {.backend = backend})(x, Scalar(1e-7)) == wanted).template item<bool>());
  }
}

TEST_CASE("beside f16 and bf16 a number is not rounded to these first, as in PyTorch") {
  check_rounded_once([](const Tensor& x, const Scalar&) { return x * 0.9; });
  check_rounded_once([](const Tensor& x, const Scalar&) { return x / 1e5; });
  check_rounded_once([](const Tensor& x, const Scalar&) { return 1e-8 * x; });
  check_rounded_once([](const Tensor& x, const Scalar&) { return 0.3 - x; });
  check_rounded_once([](const Tensor& x, const Scalar&) { return x + 0.1; });
  check_rounded_once([](const Tensor& x, const Scalar&) { return x * 257; });
  check_rounded_once([](const Tensor& x, const Scalar&) { return pow(x, 0.3); });
  check_rounded_once([](const Tensor& x, const Scalar& s) { return x * s; });
  check_rounded_once([](const Tensor& x, const Scalar& s) { return s / x; });
  check_rounded_once([](const Tensor& x, const Scalar&) { return lerp(x, x / 2, 0.1); });
  const Tensor x = cast(arange(1, 257), DType::bf16);
  CHECK((x * 0.5).dtype() == DType::bf16);
  // The derivative's factor is not rounded either.
  const Tensor gradient = grad([](const Tensor& x) { return sum(cast(x * 0.9, DType::f32)); }, x);
  CHECK(all(gradient == cast(full({256}, 0.9f), DType::bf16)).item<bool>());
  const Tensor by_expression = elementwise([](auto x) { return x * 0.9; })(x);
  CHECK(all(by_expression == x * 0.9).item<bool>());
}
