// The 8-bit floats f8e4m3 and f8e5m2: conversions from and to every dtype, to nearest, ties to even, plainly and
// compiled by each backend, against an oracle that counts codes; what moves and compares them; and the sentences that
// refuse to compute with them.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <sstream>

#include "tests/record/refused.hpp"
#include "tests/trace/support.hpp"
#include "weft/checkpoint.hpp"
#include "weft/grad.hpp"
#include "weft/random.hpp"
#include "weft/vmap.hpp"

using namespace weft;
using namespace trace_test;
using test::refused;

namespace {

using Exact = long double;  // holds every f64 and i64

// The numbers of codes 0, 1, 2 ... in order, as the formats say; the first code that is none, and what overflow gives.
struct Format {
  DType dtype;
  int fraction_bits, bias, first_without_number, overflow;
};
constexpr Format e4m3{DType::f8e4m3, 3, 7, 0x7f, 0x7f}, e5m2{DType::f8e5m2, 2, 15, 0x7c, 0x7c};

double number_of(const Format& format, int code) {  // also of what would be the next number after the last
  const int exponent = code >> format.fraction_bits, fraction = code & ((1 << format.fraction_bits) - 1);
  const int leading = exponent > 0 ? 1 << format.fraction_bits : 0;
  return std::ldexp(leading + fraction, std::max(exponent, 1) - format.bias - format.fraction_bits);
}
// NaN is 0x7f, or 0xff: code 0x7f with the sign.
int nearest(const Format& format, Exact x) {
  const int sign = std::signbit(x) ? 0x80 : 0;
  if (x != x) return sign | 0x7f;
  const Exact size = std::fabs(x);
  int code = 0;
  while (code < format.first_without_number) {
    const Exact here = number_of(format, code), next = number_of(format, code + 1), middle = (here + next) / 2;
    if (size < middle || (size == middle && code % 2 == 0)) break;
    ++code;
  }
  return sign | (code < format.first_without_number ? code : format.overflow);
}
double value_of(const Format& format, int code) {
  const int size = code & 0x7f;
  const double value = size < format.first_without_number                                     ? number_of(format, size)
                       : size == format.first_without_number && format.dtype == DType::f8e5m2 ? INFINITY
                                                                                              : NAN;
  return code & 0x80 ? -value : value;
}

std::vector<std::uint8_t> codes_of(const Tensor& value) {
  const Tensor bytes = bitcast(value, DType::u8);
  View<const std::uint8_t> view = bytes.data<std::uint8_t>();
  return {view.begin(), view.end()};
}

// From a tensor of any dtype, whose numbers are given too.
void check_from(const Tensor& x, const std::vector<Exact>& numbers) {
  const auto results = every_way(
      [](const Tensor& x) {
        return std::vector<Tensor>{cast(x, DType::f8e4m3), cast(x, DType::f8e5m2)};
      },
      x);
  for (std::size_t way = 0; way < results.size(); ++way)
    for (const Format& format : {e4m3, e5m2}) {
      const std::vector<std::uint8_t> codes = codes_of(results[way][format.dtype == DType::f8e5m2]);
      int wrong = 0;
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        const int expected = nearest(format, numbers[i]);
        if (codes[i] == expected || ++wrong > 3) continue;
        CAPTURE(way);  // plainly, compiled, eager, reference
        CAPTURE(info(x.dtype()).name);
        CAPTURE(static_cast<double>(numbers[i]));
        CHECK(static_cast<int>(codes[i]) == expected);
      }
      CHECK(wrong == 0);
    }
}
template <class T>
void check_from(const std::vector<T>& numbers) {
  check_from(from_span(numbers, {static_cast<std::int64_t>(numbers.size())}), {numbers.begin(), numbers.end()});
}

// Every code's number, the middles between neighbours, and what is next to each, with both signs.
std::vector<double> near_codes() {
  std::vector<double> list{0, INFINITY, NAN, 1e300, 1e-300, std::numeric_limits<double>::denorm_min(), 1e39, 1e-46};
  for (const Format& format : {e4m3, e5m2})
    for (int code = 0; code <= format.first_without_number; ++code) {
      const double here = number_of(format, code), middle = (here + number_of(format, code + 1)) / 2;
      for (double x : {here, middle})
        list.insert(list.end(),
                    {x, std::nextafter(x, 0.0), std::nextafter(x, INFINITY), x * (1 - 0x1p-24), x * (1 + 0x1p-23)});
    }
  const std::size_t positive = list.size();
  for (std::size_t i = 0; i < positive; ++i) list.push_back(-list[i]);
  return list;
}

Tensor all_codes(DType dtype) { return bitcast(cast(arange(256), DType::u8), dtype); }

}  // namespace

TEST_CASE("8-bit floats: the C++ types are made of a number, and are one") {
  for (double x : near_codes()) {
    CAPTURE(x);
    CHECK(float8_e4m3fn(x).bits == nearest(e4m3, x));
    CHECK(float8_e5m2(x).bits == nearest(e5m2, x));
  }
  for (int code = 0; code < 256; ++code) {
    const double a = static_cast<float>(float8_e4m3fn::from_bits(static_cast<std::uint8_t>(code))),
                 b = static_cast<float>(float8_e5m2::from_bits(static_cast<std::uint8_t>(code)));
    const auto same = [](double x, double y) {
      return (std::isnan(x) && std::isnan(y)) || (x == y && std::signbit(x) == std::signbit(y));
    };
    CAPTURE(code);
    CHECK(same(a, value_of(e4m3, code)));
    CHECK(same(b, value_of(e5m2, code)));
  }
  static_assert(float8_e4m3fn(448).bits == 0x7e && float8_e4m3fn(-1e9).bits == 0xff && float8_e5m2(1e9).bits == 0x7c);
  static_assert(std::is_trivial_v<float8_e4m3fn> && sizeof(float8_e4m3fn) == 1 && sizeof(float8_e5m2) == 1);
  static_assert(!std::is_convertible_v<float, float8_e5m2> && !std::is_convertible_v<float8_e5m2, float>);
  const Tensor listed = from_list({float8_e4m3fn(1.0), float8_e4m3fn(-0.3)});
  CHECK(listed.dtype() == DType::f8e4m3);
  CHECK(text_of(listed) == "1 -0.3125");
  CHECK(listed[1].item<float8_e4m3fn>().bits == float8_e4m3fn(-0.3).bits);
  CHECK(listed[1].item() == -0.3125);
}

TEST_CASE("8-bit floats: every f16 and bf16 is rounded to the nearest") {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor x = bitcast(cast(arange(65536), DType::u16), dtype).eval();
    std::vector<Exact> numbers;
    for (int bits = 0; bits < 65536; ++bits) {
      const auto word = static_cast<std::uint16_t>(bits);
      const float number = dtype == DType::f16 ? static_cast<float>(float16::from_bits(word))
                                               : static_cast<float>(bfloat16::from_bits(word));
      numbers.push_back(std::isnan(number) ? std::copysign(Exact{NAN}, word & 0x8000 ? -1 : 1) : Exact{number});
    }
    check_from(x, numbers);
  }
}

TEST_CASE("8-bit floats: f64, f32 and integers are rounded once") {
  const std::vector<double> wide = near_codes();
  check_from(wide);
  check_from(std::vector<float>(wide.begin(), wide.end()));
  std::vector<std::int64_t> whole{0, INT64_MAX, INT64_MIN, INT64_MIN + 1, 463, 464, 465, 61439, 61440, 61441};
  for (std::int64_t x = -500; x <= 500; ++x) whole.push_back(x);
  for (int bit = 0; bit < 63; ++bit)
    for (std::int64_t more : {-1, 0, 1}) whole.push_back((std::int64_t{1} << bit) + more);
  check_from(whole);
  check_from(std::vector<std::int32_t>(whole.begin(), whole.end()));
  check_from(std::vector<std::uint8_t>(whole.begin(), whole.end()));
  check_from(std::vector<std::int8_t>(whole.begin(), whole.end()));
  check_from(std::vector<std::uint32_t>(whole.begin(), whole.end()));
  check_every_way(
      [](const Tensor& x) {
        return Answers{{cast(x, DType::f8e4m3), "1 0 1"}, {cast(x, DType::f8e5m2), "1 0 1"}};
      },
      from_list<bool>({true, false, true}));
}

TEST_CASE("8-bit floats: every code converts to every dtype, and back") {
  for (const Format& format : {e4m3, e5m2}) {
    std::string texts;
    for (int code = 0; code < 256; ++code) {
      char number[40];
      const double value = value_of(format, code);
      std::snprintf(number, sizeof number, "%s%.9g", code ? " " : "", value);
      texts += std::isnan(value) ? " nan" : number;
    }
    const Tensor codes = all_codes(format.dtype).eval();
    CHECK(text_of(codes) == texts);
    const auto wide = every_way(
        [](const Tensor& x) {
          return std::vector<Tensor>{cast(x, DType::f64), cast(x, DType::f32), cast(x, DType::bf16),
                                     cast(x, DType::f16)};
        },
        codes);
    for (const auto& results : wide)
      for (const Tensor& result : results) CHECK(text_of(result) == texts);
    const auto back = every_way(
        [](const Tensor& x) {
          return std::vector<Tensor>{
              cast(cast(x, DType::f32), x.dtype()),     cast(cast(x, DType::bf16), x.dtype()),
              cast(cast(x, DType::f16), x.dtype()),     cast(cast(x, DType::f64), x.dtype()),
              cast(cast(x, DType::f8e4m3), DType::f32), cast(cast(x, DType::f8e5m2), DType::f32)};
        },
        codes);
    for (const auto& results : back) {
      for (int i = 0; i < 4; ++i) CHECK(text_of(results[static_cast<std::size_t>(i)]) == texts);
      for (const Format& other : {e4m3, e5m2}) {
        const std::vector<float> numbers = numbers_of(results[other.dtype == DType::f8e4m3 ? 4 : 5]);
        for (int code = 0; code < 256; ++code) {
          const double expected = value_of(other, nearest(other, Exact{value_of(format, code)}));
          CAPTURE(code);
          const float found = numbers[static_cast<std::size_t>(code)];
          CHECK((std::isnan(expected) ? std::isnan(found) : found == expected));
        }
      }
    }
    const Tensor some = cast(vector_of({-3, 0.5, 0, 24, NAN}), format.dtype).eval();
    check_every_way(
        [](const Tensor& x) {
          return Answers{{cast(x, DType::i32), "-3 0 0 24 0"},
                         {cast(x, DType::u8), "0 0 0 24 0"},
                         {cast(x, DType::boolean), "1 1 0 1 1"},
                         {bitcast(bitcast(x, DType::i8), x.dtype()), "-3 0.5 0 24 nan"}};
        },
        some);
  }
}

TEST_CASE("8-bit floats: a clamp before the cast saturates, in one kernel") {
  check_every_size(
      [](const Tensor& x) {
        return Answers{{cast(x, DType::f8e4m3), "nan 448 nan -448 nan"},
                       {cast(clamp(x, -448, 448), DType::f8e4m3), "448 448 448 -448 nan"},
                       {cast(x, DType::f8e5m2), "512 448 inf -448 nan"},
                       {cast(clamp(x, -57344, 57344), DType::f8e5m2), "512 448 57344 -448 nan"}};
      },
      vector_of({500, 448, 1e30F, -460, NAN}));
}

TEST_CASE("8-bit floats: moved, put together, chosen and compared") {
  for (const DType dtype : {DType::f8e4m3, DType::f8e5m2}) {
    const Tensor x = cast(from_list<float>({{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 10, 12, 14}}), dtype).eval(),
                 y = cast(full({2, 4}, -1.5), dtype).eval();
    check_every_size(
        [](const Tensor& x, const Tensor& y) {
          return Answers{{transpose(x), "0 4 8 1 5 10 2 6 12 3 7 14"},
                         {slice(x, 1, 3, slice_end, -2), "3 1 7 5 14 10"},
                         {concat({x, y}, 0), "0 1 2 3 4 5 6 7 8 10 12 14 -1.5 -1.5 -1.5 -1.5 -1.5 -1.5 -1.5 -1.5"},
                         {pad(slice(x, 0, 0, 1), {1, 1}), "0 0 1 2 3 0"},
                         {gather(x, constant({2, 0})), "8 10 12 14 0 1 2 3"},
                         {flip(x, 0), "8 10 12 14 4 5 6 7 0 1 2 3"},
                         {where(x < 5, x, cast(0.25, x.dtype())), "0 1 2 3 4 0.25 0.25 0.25 0.25 0.25 0.25 0.25"},
                         {x == 6, "0 0 0 0 0 0 1 0 0 0 0 0"},
                         {x >= slice(y, 0, 0, 1), "1 1 1 1 1 1 1 1 1 1 1 1"},
                         {isnan(y), "0 0 0 0 0 0 0 0"},
                         {isfinite(y), "1 1 1 1 1 1 1 1"},
                         {zeros({2}, {x.dtype()}), "0 0"},
                         {full({2}, 0.3, {x.dtype()}), "0.3125 0.3125"}};
        },
        x, y);
    Tensor state = x;
    state = set_rows(state, from_list<std::int64_t>({1}), slice(y, 0, 0, 1));
    CHECK(text_of(state) == "0 1 2 3 -1.5 -1.5 -1.5 -1.5 8 10 12 14");
  }
}

TEST_CASE("8-bit floats: what would compute is refused with a sentence") {
  const Tensor x = cast(ones({2, 2}), DType::f8e4m3), y = cast(ones({2, 2}), DType::f8e5m2);
  refused([&] { x + x; }, "[add] is not defined on f8e4m3, which holds numbers and computes nothing, cast first");
  refused([&] { y * 2; }, "[mul] is not defined on f8e5m2");
  refused([&] { y * 0.3; }, "[mul] is not defined on f8e5m2");
  refused([&] { -x; }, "[neg] is not defined on f8e4m3");
  refused([&] { exp(x); }, "is not defined on f8e4m3");
  refused([&] { relu(x); }, "is not defined on f8e4m3");
  refused([&] { sum(x); }, "is not defined on f8e4m3");
  refused([&] { amax(x); }, "is not defined on f8e4m3");
  refused([&] { cumsum(x, 0); }, "is not defined on f8e4m3");
  refused([&] { sort(x); }, "is not defined on f8e4m3");
  refused([&] { matmul(x, x); }, "[matmul] is not defined on f8e4m3");
  // What would be computed in f32 and rounded once, were it of 16 bits.
  refused([&] { softmax(x, 1); }, "[softmax] is not defined on f8e4m3");
  refused([&] { mean(x); }, "[mean] is not defined on f8e4m3");
  refused([&] { gelu(x); }, "[gelu] is not defined on f8e4m3");
  refused([&] { clamp(x, -1, 1); }, "is not defined on f8e4m3");
  refused([&] { x + y; }, "[add] f8e4m3 does not meet f8e5m2: a float of 8 bits is cast first");
  refused([&] { where(x < 1, ones({2, 2}), x); }, "[where] f32 does not meet f8e4m3: a float of 8 bits is cast first");
  CHECK_THROWS_WITH_AS(concat({x, ones({2, 2})}, 0), doctest::Contains("f8e4m3"), Error);
  refused([&] { uniform({2}, {DType::f8e5m2}); }, "is not drawn in f8e5m2: cast what is drawn in f32");
}

TEST_CASE("8-bit floats: what a program casts is cast, in every scope that runs its code") {
  const Tensor x = cast(vector_of({1, 2, 3}), DType::f8e4m3).eval();
  const auto twice = [](const Tensor& v) { return cast(v, DType::f32) * 2; };
  CHECK(text_of(vmap(twice)(x)) == "2 4 6");
  CHECK(text_of(checkpoint(twice)(x)) == "2 4 6");
  CHECK(text_of(compile(twice)(x)) == "2 4 6");
  std::ostringstream out;
  out << x;
  CHECK(out.str().find("f8e4m3[3]") != std::string::npos);
  CHECK(out.str() == "[1, 2, 3] f8e4m3[3]");
}

TEST_CASE("8-bit floats: a cast has the derivative of a cast, rounded to the dtype") {
  check_every_way(
      [](const Tensor& x) {
        return Answers{{grad(
                            [](const Tensor& v) {
                              const Tensor rounded = cast(cast(clamp(v, -448, 448), DType::f8e4m3), DType::f32);
                              return sum(rounded * constant({1.0F, 1.05F, 3.0F}));
                            },
                            x),
                        "1 1 0"}};
      },
      vector_of({0.3F, 5, 600}));
}
