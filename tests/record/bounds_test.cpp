// Numbers and enumeration values that functions refuse: counts of what is recorded each by itself, ranges, choices that
// are none; and what is computed at the edges of these.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/record/refused.hpp"
#include "weft/nn.hpp"
#include "weft/optim.hpp"
#include "weft/weft.hpp"

using namespace weft;
using test::refused;

TEST_CASE("a graph is not as long as a number says") {
  CHECK(diff(ones({3}), 100000000).shape() == Shape::of(0));
  CHECK(diff(ones({2, 3}), 4, 0).shape() == Shape::of(0, 3));
  CHECK(diff(cast(from_list<float>({1, 4, 9, 16}), DType::i64), 3).item<int>() == 0);
  refused([] { diff(ones({100000}), 70000); }, "[diff] n is at most 65535, it is 70000");
  refused([] { mvlgamma(ones({3}), 100000000); }, "[mvlgamma] p is at most 65535, it is 100000000");
  refused([] { linalg::svd_lowrank(ones({3, 3}), 2, 100000000); }, "niter is at most 65535");
  auto compiled = compile([](const Tensor& x) { return diff(x, 5); }, {.dynamic = true, .backend = Backend::eager});
  for (const int size : {3, 5, 6, 9}) CHECK(compiled(ones({size})).size(0) == Dim(std::max(0, size - 5)));
}

TEST_CASE("combinations are counted before they are made") {
  refused([] { combinations(arange(40), 20); }, "[combinations] of 20 of 40 elements are too many");
  refused([] { combinations(arange(2), std::int64_t{1} << 28, true); }, "are too many");
  refused([] { combinations(arange(70000), 2); }, "are too many");
  for (int size = 0; size < 7; ++size)
    for (int r = 1; r < 6; ++r)
      for (const bool again : {false, true}) {
        double choices = 1;  // of n of which r are taken
        const int n = again ? size + r - 1 : size;
        for (int i = 0; i < r; ++i) choices = choices * (n - i) / (i + 1);
        if (size == 0 || n < r) choices = 0;
        CHECK(combinations(arange(size), r, again).size(0) == Dim(static_cast<std::int64_t>(choices)));
      }
  CHECK(combinations(arange(300), 300).size(0) == Dim(1));
}

TEST_CASE("ranges that a dtype does not hold") {
  const Tensor x = cast(from_list<float>({-1, 0, 1}), DType::f64);
  refused([&] { histc(x, 2, -1.7e308, 1.7e308); }, "[histc] f64 does not hold what divides the range from -1.7e+308");
  refused([&] { histc(cast(x, DType::f32), 2, -1e300, 1e300); }, "[histc] f32 does not hold what divides");
  refused([&] { histc(cast(x, DType::f32), 2, 0, 1e-300); }, "into 2 bins");
  refused([&] { histogram(x, 2, -1.7e308, 1.7e308); }, "[histogram] the range from -1.7e+308 to 1.7e+308 is wider");
  CHECK(sum(histc(x, 2, -1e308, 0.5e308)).item<double>() == 3);
}

TEST_CASE("an order that is a null pointer") {
  refused([] { linalg::cond(ones({2, 2}), nullptr); }, "the order is \"fro\", \"nuc\" or a number");
  refused([] { linalg::matrix_norm(ones({2, 2}), nullptr); }, "the order is \"fro\", \"nuc\" or a number");
}

TEST_CASE("a length that overflows divides to 0, and a variance that does stays") {
  const Tensor large = full({1, 4}, 1e30);
  CHECK(nn::cosine_similarity(large, large).item<float>() == 0);
  CHECK(nn::cosine_similarity(ones({1, 4}), ones({1, 4})).item<float>() == 1);
  const Tensor endless = full({4}, std::numeric_limits<double>::infinity());
  CHECK(nn::gaussian_nll_loss(ones({4}), zeros({4}), endless).item<float>() == std::numeric_limits<float>::infinity());
}

TEST_CASE("values that are refused, not cut") {
  const Tensor whole = arange(4);
  refused([&] { pad(whole, {1, 1}, Pads::constant, 0.5); }, "[pad] the number 0.5 does not fit");
  CHECK(sum(pad(whole, {1, 1}, Pads::constant, 2.0)).item<int>() == 10);
  CHECK(sum(pad(cast(whole, DType::f32), {1, 1}, Pads::constant, 0.5)).item<float>() == 7);
  const Tensor two = ones({2}), variance = from_list<float>({1, -1});
  refused([&] { nn::gaussian_nll_loss(two, two, variance); }, "[gaussian_nll_loss] a variance is negative: f32[2]");
  const Tensor image = ones({1, 1, 6, 6});
  const auto pooled = [&](double sample, Loc loc) {
    return fractional_max_pool2d(At(image, loc), 2, {.output_size = {3, 3}, .random_samples = full({1, 1, 2}, sample)});
  };
  CHECK(sum(pooled(0, {})).item<float>() == 9);
  for (const double wrong : {-0.5, 1.0, std::nan("")})
    refused([&] { pooled(wrong, Loc::current()); }, "[fractional_max_pool2d] random samples must be in [0, 1)");
}

TEST_CASE("numbers that are no value of an enumeration") {
  const Tensor x = ones({2, 3}), index = zeros({2, 3}, {DType::i64});
  refused([&] { pad(x, {1, 1}, static_cast<Pads>(9)); }, "[pad] Pads has no value 9");
  refused([&] { scatter_reduce(x, 0, index, x, static_cast<ScatterReduction>(77)); },
          "ScatterReduction has no value 77");
  refused([&] { index_reduce(x, 0, arange(2), x, static_cast<ScatterReduction>(77)); }, "[index_reduce] ScatterRed");
  refused([&] { gelu(x, static_cast<Gelu>(5)); }, "[gelu] Gelu has no value 5");
  refused([&] { meshgrid({arange(2), arange(3)}, static_cast<Indexing>(5)); }, "Indexing has no value 5");
  refused([&] { fft::fft(x, {.norm = static_cast<fft::Norm>(5)}); }, "Norm has no value 5");
  refused([&] { nn::mse_loss(x, x, static_cast<nn::Reduction>(9)); }, "[mse_loss] Reduction has no value 9");
  const nn::InterpolateOptions resize{.size = {2}, .mode = static_cast<nn::Interpolation>(30)};
  refused([&] { nn::interpolate(ones({1, 1, 4}), resize); }, "Interpolation has no value 30");
  const Tensor image = ones({1, 1, 4, 4}), grid = zeros({1, 2, 2, 2});
  const nn::GridSampleOptions sample{.mode = static_cast<nn::SampleMode>(9)};
  refused([&] { nn::grid_sample(image, grid, sample); }, "[grid_sample] SampleMode has no value 9");
  refused([&] { nn::embedding_bag(index, x, {.mode = static_cast<nn::BagMode>(9)}); }, "BagMode has no value 9");
  refused([&] { nn::RNN(2, 3, static_cast<nn::RNN::Nonlinearity>(9)); }, "Nonlinearity has no value 9");
}
