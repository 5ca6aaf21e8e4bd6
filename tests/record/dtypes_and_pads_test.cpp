// Reductions and cumulative functions in a dtype that is asked for, and pads that cut: the numbers that PyTorch gives,
// in every way that there is to run them.
#include <cmath>

#include "tests/record/refused.hpp"
#include "tests/trace/support.hpp"
#include "weft/grad.hpp"
#include "weft/ops.hpp"

using namespace weft;
using namespace trace_test;
using test::refused;

TEST_CASE("sums, products and means in a dtype that is asked for") {
  check_every_size(
      [](const Tensor& x, const Tensor& h, const Tensor& f) {
        return Answers{{sum(x, 1, false, DType::u8), "203 153"},
                       {sum(x, {}, true, DType::f64), "356"},
                       {prod(x, 0, false, DType::i8), "3 -56 16"},
                       {sum(f, {}, false, DType::i32), "2"},
                       {sum(h, {}, false, DType::f32), "4100"},
                       {mean(x, 1, false, DType::f32), "67.6666641 51"},
                       {mean(h, {}, false, DType::f64), "1025"},
                       {cumsum(x, 1, DType::u8), "1 3 203 3 103 153"},
                       {cumprod(x, 1, DType::f64), "1 2 400 3 300 15000"},
                       {cumsum(f, 0, DType::i64), "1 -1 2"},
                       {cumprod(f, 0, DType::f16), "1.5 -4.046875 -12.1484375"},
                       {sum(x > 2, 1, false, DType::i16), "1 3"},
                       {grad([&](const Tensor& v) { return sum(square(sum(v, {}, false, DType::f64))); }, f),
                        "3.5999999 3.5999999 3.5999999"},
                       {grad([&](const Tensor& v) { return sum(square(cumsum(v, 0, DType::f64))); }, f),
                        "4.19999981 1.19999981 3.5999999"}};
      },
      from_list<std::uint8_t>({{1, 2, 200}, {3, 100, 50}}), cast(vector_of({1, 2, 4096, 1}), DType::f16),
      vector_of({1.5, -2.7, 3}));
  const Tensor x = ones({2}, {DType::i32});
  CHECK(sum(x, {}, false, DType::u8).dtype() == DType::u8);
  CHECK(sum(x, {}, false, DType::boolean).dtype() == DType::boolean);
  CHECK(mean(x, {}, false, DType::f64).dtype() == DType::f64);
  CHECK(prod(x, 0, true, DType::f16).dtype() == DType::f16);
  CHECK(cumsum(x, 0, DType::i8).dtype() == DType::i8);
  CHECK(cumprod(x, 0, DType::bf16).dtype() == DType::bf16);
  refused([&] { mean(x, {}, false, DType::i32); }, "[mean] needs a floating dtype");
}

TEST_CASE("a negative width cuts") {
  check_every_size(
      [](const Tensor& x) {
        return Answers{{pad(x, {-1, 2}, Pads::constant), "1 2 3 0 0 5 6 7 0 0 9 10 11 0 0"},
                       {pad(x, {2, -1}, Pads::constant), "0 0 0 1 2 0 0 4 5 6 0 0 8 9 10"},
                       {pad(x, {-2, 3}, Pads::constant), "2 3 0 0 0 6 7 0 0 0 10 11 0 0 0"},
                       {pad(x, {-1, -2}, Pads::constant), "1 5 9"},
                       {pad(x, {1, 0, -1, 1}, Pads::constant), "0 4 5 6 7 0 8 9 10 11 0 0 0 0 0"},
                       {pad(x, {-1, -1, 1, -1}, Pads::constant), "0 0 1 2 5 6"},
                       {pad(x, {-1, 2}, Pads::reflect), "1 2 3 2 1 5 6 7 6 5 9 10 11 10 9"},
                       {pad(x, {2, -1}, Pads::reflect), "2 1 0 1 2 6 5 4 5 6 10 9 8 9 10"},
                       {pad(x, {-2, 3}, Pads::reflect), "2 3 2 1 0 6 7 6 5 4 10 11 10 9 8"},
                       {pad(x, {-1, -2}, Pads::reflect), "1 5 9"},
                       {pad(x, {1, 0, -1, 1}, Pads::reflect), "5 4 5 6 7 9 8 9 10 11 5 4 5 6 7"},
                       {pad(x, {-1, -1, 1, -1}, Pads::reflect), "5 6 1 2 5 6"},
                       {pad(x, {-1, 2}, Pads::replicate), "1 2 3 3 3 5 6 7 7 7 9 10 11 11 11"},
                       {pad(x, {2, -1}, Pads::replicate), "0 0 0 1 2 4 4 4 5 6 8 8 8 9 10"},
                       {pad(x, {-2, 3}, Pads::replicate), "2 3 3 3 3 6 7 7 7 7 10 11 11 11 11"},
                       {pad(x, {-1, -2}, Pads::replicate), "1 5 9"},
                       {pad(x, {1, 0, -1, 1}, Pads::replicate), "4 4 5 6 7 8 8 9 10 11 8 8 9 10 11"},
                       {pad(x, {-1, -1, 1, -1}, Pads::replicate), "1 2 1 2 5 6"},
                       {pad(x, {-1, 2}, Pads::circular), "1 2 3 1 2 5 6 7 5 6 9 10 11 9 10"},
                       {pad(x, {2, -1}, Pads::circular), "1 2 0 1 2 5 6 4 5 6 9 10 8 9 10"},
                       {pad(x, {-1, -2}, Pads::circular), "1 5 9"},
                       {pad(x, {1, 0, -1, 1}, Pads::circular), "7 4 5 6 7 11 8 9 10 11 7 4 5 6 7"},
                       {pad(x, {-1, -1, 1, -1}, Pads::circular), "5 6 1 2 5 6"},
                       {pad(x, {-1, 1}, Pads::constant, 9), "1 2 3 9 5 6 7 9 9 10 11 9"},
                       {pad(x, {-4, 1}), "0 0 0"},
                       {pad(x, {-2, -2}), ""},
                       {grad(
                            [&](const Tensor& v) {
                              return sum(square(pad(v, {-1, 2}, Pads::reflect)));
                            },
                            x),
                        "0 4 8 6 0 20 24 14 0 36 40 22"},
                       {grad(
                            [&](const Tensor& v) {
                              return sum(square(pad(v, {-2, 1})));
                            },
                            x),
                        "0 0 4 6 0 0 12 14 0 0 20 22"}};
      },
      reshape(arange(12, {DType::f32}), {1, 3, 4}));
  const Tensor x = ones({1, 4});
  refused([&] { pad(x, {-5, 3}); }, "[pad] axis 1 of f32[1,4] is too short to be cut by 5 and 0 elements");
  refused([&] { pad(x, {-3, -2}, Pads::circular); }, "too short to be cut by 3 and 2");
  refused([&] { pad(x, {-3, -2}, Pads::reflect); }, "too short to be cut by 3 and 2");
  refused([&] { pad(x, {-2, 3}, Pads::circular); }, "too short to be padded by 0 and 3 of its own elements");
  CHECK(text_of(pad(cumsum(x, 1), {-5, 3}, Pads::reflect)) == "2 1");
}
