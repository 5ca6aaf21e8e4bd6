// Integrals and derivatives of sampled functions: the numbers that PyTorch gives, in every way that there is to run
// them.
#include <cmath>

#include "tests/record/refused.hpp"
#include "tests/trace/support.hpp"
#include "weft/grad.hpp"
#include "weft/statistics.hpp"

using namespace weft;
using namespace trace_test;
using test::refused;

TEST_CASE("integrals and derivatives at places that are equally far apart, and at others") {
  check_every_size(
      [](const Tensor& y, const Tensor& at) {
        return Answers{{trapezoid(y, at), "32"},
                       {trapezoid(reshape(y, {2, 3}), slice(at, 0, 0, 2), 0), "4 4 7"},
                       {trapezoid(reshape(y, {2, 3}), reshape(at, {2, 3})), "8.5 19"},
                       {trapezoid(cast(y, DType::i32), cast(at, DType::i64)), "32"},
                       {cumulative_trapezoid(y), "2.5 5.5 10 15.5 23.5"},
                       {cumulative_trapezoid(reshape(y, {2, 3}), 0.5, 0), "2 2 3.5"},
                       {cumulative_trapezoid(y, at), "2.5 8.5 13 24 32"},
                       {cumulative_trapezoid(reshape(y, {2, 3}), slice(at, 0, 0, 3), 1), "2.5 8.5 5.5 21.5"},
                       {cumulative_trapezoid(slice(y, 0, 0, 1)), ""},
                       {gradient(y)[0], "3 0.5 1.5 1 2.5 8"},
                       {gradient(y, 0.5, {}, 2)[0], "11 1 3 2 5 27"},
                       {gradient(y, {at})[0], "3 1.66666663 3.00000024 2.83333325 4.83333302 8"},
                       {gradient(y, {at}, 0, 2)[0], "4.33333302 1.66666663 3.00000024 2.83333325 4.83333302 11.166667"},
                       {gradient(cast(y, DType::i32))[0], "3 0.5 1.5 1 2.5 8"},
                       {gradient(reshape(y, {2, 3}), {2, 0.5})[0], "3 0 5 3 0 5"},
                       {gradient(reshape(y, {2, 3}), {2, 0.5})[1], "6 1 -4 -6 5 16"},
                       {gradient(reshape(y, {2, 3}), 1, -1, 2)[0], "5.5 0.5 -4.5 -8.5 2.5 13.5"},
                       {gradient(reshape(y, {2, 3}), {slice(at, 0, 1, 3), slice(at, 0, 0, 3)})[1],
                        "3 1.66666663 -1 -3 -0.666666985 4"},
                       {grad([](const Tensor& v) { return sum(square(cumulative_trapezoid(v, 2))); }, y),
                        "228 446 414 352 250 94"},
                       {grad([](const Tensor& v) { return sum(square(gradient(v, 0.5, {}, 2)[0])); }, y),
                        "-68 82 -24 50 -212 172"},
                       {grad([](const Tensor& p) { return sum(square(trapezoid(square(p), p))); }, at),
                        "-117.5 -352.5 352.5 -352.5 352.5 11632.5"}};
      },
      vector_of({1, 4, 2, 7, 4, 12}), vector_of({0, 1, 3, 4, 6, 7}));
}

TEST_CASE("16-bit integrals and derivatives are computed in f32 and rounded once") {
  const Tensor y = cast(vector_of({1, 2048, 3, 2}), DType::f16);
  CHECK(text_of(trapezoid(y)) == "2052");
  CHECK(trapezoid(y, cast(arange(4), DType::f16)).dtype() == DType::f16);
  CHECK(gradient(y)[0].dtype() == DType::f16);
  CHECK(text_of(cumulative_trapezoid(y, 0.5)) == "512 1025 1026");
}

TEST_CASE("samples that do not fit") {
  const Tensor m = ones({2, 3});
  refused([&] { trapezoid(m, ones({2})); },
          "[trapezoid] needs a place for each value along axis -1: f32[2,3] at f32[2]");
  refused([&] { cumulative_trapezoid(m, ones({1, 2, 3})); }, "[cumulative_trapezoid] needs a place for each value");
  refused([&] { gradient(m, 1, 0, 2); }, "[gradient] needs more than 2 elements along axis 0 of f32[2,3]");
  refused([&] { gradient(m, 1, 0, 3); }, "edge_order must be 1 or 2, it is 3");
  refused([&] { gradient(m, {1, 2, 3}); }, "3 spacings for 2 axes");
  refused([&] { gradient(m, 1, {0, 0}); }, "axis 0 is named twice");
  refused([&] { gradient(m, 0.0); }, "the spacing is 0");
  refused([&] { gradient(m, {ones({3}), ones({3})}); }, "the coordinates along axis 0 of f32[2,3] are f32[3]");
}
