// Normalizations and distances against PyTorch's; training and evaluation; what is refused.
#include <cmath>
#include <string>

#include "tests/nn/golden.hpp"

using namespace weft;
using namespace nn_test;
using weft::test::refused;

namespace {

constexpr Options f64{DType::f64};
constexpr auto layer = [](auto& model, const Values& x) { return Values{model(x[0])}; };
constexpr auto tracked = [](auto& model, const Values& x) {
  const Tensor first = model(x[0]), second = model(x[0] * 2 + 1);
  nn::eval(model);
  const Tensor third = model(x[0]);
  return Values{first, second, model.running_mean, model.running_var, third};
};

}  // namespace

TEST_CASE("LayerNorm, RMSNorm and GroupNorm give PyTorch's results and gradients") {
  check_golden("layer_norm 1", {{2, 3, 4}}, layer, nn::LayerNorm(4, {.options = f64}), 1);
  check_golden("layer_norm 2", {{2, 3, 4}}, layer, nn::LayerNorm({3, 4}, {.eps = 1e-3, .options = f64}));
  check_golden("layer_norm 3", {{2, 5}}, layer, nn::LayerNorm(5, {.elementwise_affine = false}));
  check_golden("layer_norm 4", {{2, 5}}, layer, nn::LayerNorm(5, {.bias = false, .options = f64}));
  check_golden("rms_norm 1", {{2, 3, 4}}, layer, nn::RMSNorm(4, {.options = f64}), 1);
  check_golden("rms_norm 2", {{2, 3, 4}}, layer, nn::RMSNorm({3, 4}, {.eps = 1e-3, .options = f64}));
  check_golden("rms_norm 3", {{3, 4}}, layer, nn::RMSNorm(4, {.elementwise_affine = false}));
  check_golden("group_norm 1", {{2, 6, 3}}, layer, nn::GroupNorm(2, 6, {.options = f64}), 2);
  check_golden("group_norm 2", {{2, 4}}, layer, nn::GroupNorm(2, 4, {.affine = false}));
  check_golden("group_norm 3", {{3, 4, 2, 2}}, layer, nn::GroupNorm(4, 4, {.eps = 1e-3, .options = f64}), 3);
}

TEST_CASE("BatchNorm and InstanceNorm give PyTorch's results, gradients and running statistics") {
  check_golden("batch_norm 1", {{4, 3}}, tracked, nn::BatchNorm1d(3, {.options = f64}));
  check_golden("batch_norm 2", {{3, 2, 4}}, tracked, nn::BatchNorm1d(2, {.momentum = -1, .options = f64}), 2);
  check_golden("batch_norm 3", {{2, 3, 2, 2}}, tracked,
               nn::BatchNorm2d(3, {.eps = 1e-3, .momentum = 0.3, .affine = false, .options = f64}), 2);
  check_golden("batch_norm 4", {{2, 2, 2, 1, 3}}, tracked, nn::BatchNorm3d(2, {.options = f64}), 4);
  nn::BatchNorm2d untracked(3, {.track_running_stats = false, .options = f64});
  nn::eval(untracked);
  check_golden("batch_norm 5", {{2, 3, 2, 2}}, layer, untracked);
  check_golden("instance_norm 1", {{2, 3, 4}}, layer, nn::InstanceNorm1d(3), 2);
  check_golden("instance_norm 2", {{2, 3, 2, 3}}, tracked,
               nn::InstanceNorm2d(3, {.affine = true, .track_running_stats = true, .options = f64}));
  check_golden("instance_norm 3", {{3, 2, 2, 2}}, layer, nn::InstanceNorm3d(3, {.affine = true, .options = f64}), -1);
}

TEST_CASE("local_response_norm, normalize and distances give PyTorch's results and gradients") {
  const auto lrn = [](const char* name, const Sizes& sizes, auto f) { check_golden(name, {sizes}, f); };
  lrn("local_response_norm 1", {2, 5, 3},
      [](auto&, const Values& x) { return Values{nn::local_response_norm(x[0], 2)}; });
  lrn("local_response_norm 2", {2, 5},
      [](auto&, const Values& x) { return Values{nn::local_response_norm(x[0], 3, 0.5, 0.6, 0.9)}; });
  lrn("local_response_norm 3", {2, 4, 2, 2},
      [](auto&, const Values& x) { return Values{nn::local_response_norm(x[0], 5, 0.1)}; });
  lrn("normalize 1", {3, 4}, [](auto&, const Values& x) { return Values{nn::normalize(x[0])}; });
  lrn("normalize 2", {2, 3, 2}, [](auto&, const Values& x) { return Values{nn::normalize(x[0], 3, -1)}; });
  lrn("normalize 3", {3, 4}, [](auto&, const Values& x) { return Values{nn::normalize(x[0], 1, 0)}; });
  const auto two = [](const char* name, const Sizes& a, const Sizes& b, auto f) {
    check_golden(name, {a, b}, f, NoModel(), a.shape().same(b.shape()) ? 0 : -1);
  };
  two("cosine_similarity 1", {3, 4}, {3, 4},
      [](auto&, const Values& x) { return Values{nn::cosine_similarity(x[0], x[1])}; });
  two("cosine_similarity 2", {2, 3, 4}, {3, 4},
      [](auto&, const Values& x) { return Values{nn::cosine_similarity(x[0], x[1], -1)}; });
  two("cosine_similarity 3", {4}, {4},
      [](auto&, const Values& x) { return Values{nn::cosine_similarity(x[0], x[1], 0, 2)}; });
  two("pairwise_distance 1", {3, 4}, {3, 4},
      [](auto&, const Values& x) { return Values{nn::pairwise_distance(x[0], x[1])}; });
  two("pairwise_distance 2", {3, 4}, {4},
      [](auto&, const Values& x) { return Values{nn::pairwise_distance(x[0], x[1], 1, 1e-6, true)}; });
  two("pairwise_distance 3", {2, 3, 4}, {2, 3, 4},
      [](auto&, const Values& x) { return Values{nn::pairwise_distance(x[0], x[1], 3, 1e-3)}; });
}

namespace {

struct Own {
  bool training = true;
  std::int64_t seen = 0;
};
struct Model {
  nn::BatchNorm1d norm{3};
  std::vector<Own> own = std::vector<Own>(2);
  WEFT_MEMBERS(norm, own)
};
Tensor step(Model& model, const Tensor& x) {
  const Tensor y = model.norm(x);
  return model.own[1].training ? y + 100 : y;
}

}  // namespace

TEST_CASE("train and eval: every part with `bool training`, a compilation for each mode") {
  Model model;
  auto run = compile(step);
  const Tensor x = cast(wave({4, 3}, 1), DType::f32);
  for (int i = 0; i < 3; ++i) CHECK(min(run(model, x)).item() > 50);
  CHECK(model.norm.num_batches_tracked->item<int>() == 3);
  CHECK(specialization_count(run) == 1);
  nn::eval(model);
  CHECK(!model.norm.training);
  CHECK(!model.own[0].training);
  const Tensor mean = model.norm.running_mean;
  for (int i = 0; i < 3; ++i) CHECK(max(run(model, x)).item() < 50);
  CHECK(specialization_count(run) == 2);
  CHECK(model.norm.num_batches_tracked->item<int>() == 3);
  CHECK(all(mean == model.norm.running_mean).item<bool>());
  nn::train(model);
  CHECK(min(run(model, x)).item() > 50);
  CHECK(specialization_count(run) == 2);
}

TEST_CASE("a batch of nothing leaves running statistics as they are") {
  const auto run_norm = [](nn::BatchNorm1d& norm, const Tensor& x) { return norm(x); };
  for (const Backend backend : {Backend::eager, Backend::compiled}) {
    nn::BatchNorm1d norm(3);
    auto run = compile(run_norm, {.backend = backend});
    CHECK(run(norm, zeros({0, 3})).shape() == Shape::of(0, 3));
    CHECK(all(norm.running_mean.tensor() == 0).item<bool>());
    CHECK(all(norm.running_var.tensor() == 1).item<bool>());
  }
}

TEST_CASE("of a batch of nothing the weights of a batch norm have gradients of 0") {
  const auto loss = [](const std::vector<Tensor>& p) {
    Tensor mean = zeros({3}), variance = ones({3});
    return sum(nn::batch_norm(p[0], mean, variance, p[1], p[2], true));
  };
  for (const Tensor& each : grad(loss, std::vector{zeros({0, 3, 2}), ones({3}), zeros({3})}))
    CHECK(all(each == 0).item<bool>());
}

TEST_CASE("normalizations of 16 bits are computed in f32 and rounded once") {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Tensor x = cast(wave({3, 4, 2}, 2), dtype), w = cast(wave({4}, 3), dtype);
    const auto wide = [](const Tensor& t) { return cast(t, DType::f32); };
    CHECK(all(nn::group_norm(x, 2, w, w) == cast(nn::group_norm(wide(x), 2, wide(w), wide(w)), dtype)).item<bool>());
    const Tensor y = transpose(x, 1, 2);
    CHECK(all(nn::rms_norm(y, w) == cast(nn::rms_norm(wide(y), wide(w)), dtype)).item<bool>());
    nn::BatchNorm1d norm(4, {.options = {dtype}});
    CHECK(norm(x).dtype() == dtype);
    CHECK(norm.running_mean->dtype() == dtype);
  }
}

TEST_CASE("norms of zeros have PyTorch's derivatives, whatever p is") {
  const Tensor zero = zeros({1, 3}, f64), one = ones({1, 3}, f64);
  for (const double p : {1.0, 1.5, 2.0, 3.0, 4.0, HUGE_VAL}) {
    CAPTURE(p);
    const Tensor unit = grad([p](const Tensor& x) { return sum(nn::normalize(x, p, -1)); }, zero);
    CHECK(all(abs(unit * 1e-12 - 1) < 1e-12).item<bool>());
    const Tensor apart = grad([&](const Tensor& x) { return sum(nn::pairwise_distance(x, one, p, 0)); }, one);
    CHECK(all(apart == 0).item<bool>());
    const nn::TripletOptions how{.p = p, .eps = 0};
    const Tensor triple = grad([&](const Tensor& x) { return nn::triplet_margin_loss(x, one, one, how); }, one);
    CHECK(all(triple == 0).item<bool>());
  }
}

TEST_CASE("normalizations: what is refused") {
  const Tensor x = ones({2, 6, 3});
  refused([&] { nn::layer_norm(x, Sizes{4}); },
          "takes a floating tensor [..., n], and a weight and a bias [n]: f32[2,6,3] with [4]");
  CHECK(nn::rms_norm(ones({4, 11}), {11}).size(1) == Dim(11));
  refused([&] { nn::rms_norm(x, ones({2})); }, "[rms_norm] takes a floating tensor");
  refused([&] { nn::group_norm(x, 4); }, "the channels don't come in 4 groups");
  refused([&] { nn::group_norm(ones({1, 0, 2}), 1); }, "[group_norm] of no elements along axis 1: f32[1,0,2]");
  refused([&] { nn::group_norm(ones({1, 0, 2}), 2); }, "[group_norm] of no elements along axis 1: f32[1,0,2]");
  refused([&] { nn::group_norm(ones({1, 2, 0}), 1); }, "[group_norm] of no elements along axis 2: f32[1,2,0]");
  refused([&] { nn::group_norm(ones({1, 2, 1}), 2); }, "[group_norm] needs more than 1 number a group: f32[1,2,1]");
  refused([&] { nn::GroupNorm(2, 2)(ones({1, 2})); }, "[GroupNorm] needs more than 1 number a group: f32[1,2]");
  CHECK(nn::group_norm(ones({0, 2, 3}), 2).shape() == Shape::of(0, 2, 3));
  CHECK(nn::group_norm(ones({1, 2, 1}), 1).shape() == Shape::of(1, 2, 1));
  for (const Shape& none : {Shape::of(1, 0, 2), Shape::of(1, 2, 0), Shape::of(0, 2, 3)})  // as in PyTorch
    CHECK(nn::instance_norm(ones(none)).shape() == none);
  refused([&] { nn::GroupNorm(4, 6); }, "6 channels don't come in 4 groups");
  refused([&] { nn::BatchNorm2d(6)(x); }, "takes 6 channels and 2 axes after them: f32[2,6,3]");
  refused([&] { nn::BatchNorm1d(5)(x); }, "takes 5 channels");
  refused([&] { nn::BatchNorm1d(3)(ones({1, 3})); }, "needs more than 1 number a channel in training");
  const nn::BatchNorm1d fixed(6);
  refused([&] { fixed(x); }, "is const, and its running statistics change in training");
  refused([&] { nn::InstanceNorm1d(3)(ones({2, 3, 1})); }, "needs more than 1 number a channel");
  refused([&] { nn::LayerNorm(0); }, "sizes must be positive");
  refused([&] { nn::normalize(x, 0); }, "p must be positive");
}

TEST_CASE("normalizations: numbers that are none they can have are refused when they are made, and by functions") {
  const Tensor x = ones({2, 4, 3}), w = ones({3});
  Tensor mean = zeros({4}), variance = ones({4});
  for (const double wrong : {static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    refused([&] { nn::LayerNorm(3, {.eps = wrong}); }, "[LayerNorm] eps must be finite, it is ");
    refused([&] { nn::RMSNorm(3, {.eps = wrong}); }, "[RMSNorm] eps must be finite, it is ");
    refused([&] { nn::GroupNorm(2, 4, {.eps = wrong}); }, "[GroupNorm] eps must be finite, it is ");
    refused([&] { nn::BatchNorm2d(4, {.eps = wrong}); }, "[BatchNorm] eps must be finite, it is ");
    refused([&] { nn::InstanceNorm2d(4, {.eps = wrong}); }, "[InstanceNorm] eps must be finite, it is ");
    refused([&] { nn::BatchNorm2d(4, {.momentum = wrong}); }, "[BatchNorm] momentum must be from 0 to 1, it is ");
    refused([&] { nn::InstanceNorm2d(4, {.momentum = wrong}); }, "[InstanceNorm] momentum must be from 0 to 1, it is ");
    refused([&] { nn::layer_norm(x, w, w, wrong); }, "[layer_norm] eps must be finite");
    refused([&] { nn::rms_norm(x, w, wrong); }, "[rms_norm] eps must be finite");
    refused([&] { nn::group_norm(x, 2, {}, {}, wrong); }, "[group_norm] eps must be finite");
    refused([&] { nn::instance_norm(x, {}, {}, wrong); }, "[instance_norm] eps must be finite");
    for (const bool training : {false, true})
      refused([&] { nn::batch_norm(x, mean, variance, {}, {}, training, 0.1, wrong); },
              "[batch_norm] eps must be finite");
    refused([&] { nn::batch_norm(x, mean, variance, {}, {}, true, wrong); },
            "[batch_norm] momentum must be from 0 to 1");
    refused([&] { nn::local_response_norm(x, 2, wrong); }, "[local_response_norm] alpha must be finite");
    refused([&] { nn::normalize(x, 2, 1, wrong); }, "[normalize] eps must be finite");
    refused([&] { nn::cosine_similarity(x, x, 1, wrong); }, "[cosine_similarity] eps must be finite");
    refused([&] { nn::pairwise_distance(x, x, 2, wrong); }, "[pairwise_distance] eps must be finite");
  }
  refused([] { nn::LayerNorm(3, {.eps = -1}); }, "[LayerNorm] eps must not be negative, it is -1");
  refused([] { nn::BatchNorm2d(3, {.momentum = 7}); }, "[BatchNorm] momentum must be from 0 to 1, it is 7");
  refused([&] { nn::batch_norm(x, mean, variance, {}, {}, true, -1); }, "[batch_norm] momentum must be from 0 to 1");
  refused([&] { nn::layer_norm(x, w, w, -1); }, "[layer_norm] eps must not be negative, it is -1");
  CHECK(nn::RMSNorm(3, {.eps = -1}).eps == -1);
  CHECK(nn::BatchNorm2d(3, {.momentum = -1}).momentum == -1);
}

TEST_CASE("of large values that are alike a normalization is its bias") {
  const auto check = [](const char* name, const Tensor& x, auto f) {
    CAPTURE(std::string(name));
    const auto compiled = compile(f), varied = compile(f, {.dynamic = true});
    for (const Tensor& y : {f(x), compiled(x), varied(x)}) {
      CHECK(all(y == 0.25).template item<bool>());
    }
    // Nor is the gradient NaN.
    const auto slope = [](const Tensor& x, const decltype(f)& f) {
      return grad([&](const Tensor& x) { return sum(f(x)); }, x);
    };
    for (const Tensor& g : {slope(x, f), compile(slope)(x, f)}) CHECK(all(isfinite(g)).template item<bool>());
  };
  static constexpr auto shift = [](const Tensor& x, std::int64_t size) { return full({size}, 0.25, {x.dtype()}); };
  const auto layer = [](const Tensor& x) { return nn::layer_norm(x, {768}, {}, shift(x, 768)); };
  const auto group = [](const Tensor& x) { return nn::group_norm(x, 2, {}, shift(x, 4)); };
  const auto instance = [](const Tensor& x) { return nn::instance_norm(x, {}, shift(x, 4)); };
  const auto batch = [](const Tensor& x) {
    Tensor none_mean, none_variance;
    return nn::batch_norm(x, none_mean, none_variance, {}, shift(x, 4), true);
  };
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    const double large = dtype == DType::f64 ? 1e308 : 8.5071e37;
    const Tensor rows = full({3, 768}, large, {dtype}), image = full({3, 4, 5, 13}, large, {dtype});
    check("layer_norm", rows, layer);
    check("group_norm", image, group);
    check("instance_norm", image, instance);
    check("batch_norm", image, batch);
  }
}

// docs/numerics.md, "Large values".
TEST_CASE("what squares without subtracting a mean overflows as PyTorch does") {
  const auto every = [](const Tensor& value, double expected) { return all(value == expected).item<bool>(); };
  const auto functions = [](const Tensor& x) {
    return std::vector{nn::rms_norm(x, {768}), norm(x, 1), nn::normalize(x, 2, 1), nn::cosine_similarity(x, x)};
  };
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    const Tensor x = full({3, 768}, dtype == DType::f64 ? 1e308 : 8.5071e37, {dtype});
    for (const std::vector<Tensor>& found : {functions(x), compile(functions)(x)}) {
      CHECK(every(found[0], 0));
      CHECK(every(found[1], INFINITY));
      CHECK(every(found[2], 0));
      CHECK(every(found[3], 0));
    }
  }
}

TEST_CASE("a normalization has the bits of a mean that is the sum divided by the count") {
  Generator generator(5);
  const Tensor x = normal({7, 300}, 3, 2, generator).eval();
  const Tensor mean = sum(x, 1, true) / 300, centered = x - mean;
  const Tensor wanted = centered * rsqrt(sum(centered * centered, 1, true) / 300 + 1e-5);
  CHECK(all(nn::layer_norm(x, {300}) == wanted).item<bool>());
}
