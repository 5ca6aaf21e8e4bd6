// Losses against PyTorch's: values and gradients, compiled and eager.
#include "tests/nn/golden_list.hpp"
#include "tests/record/refused.hpp"

using namespace weft;
using namespace weft::nn;
using golden_test::wave;
using weft::test::refused;

namespace {

const std::vector<double> golden[] = {
#include "tests/nn/losses_golden.inc"
};
std::size_t next = 0;  // the golden file's lines are in the order of the cases below

constexpr Reduction reductions[] = {Reduction::mean, Reduction::sum, Reduction::none};
const Sizes pairs = {3, 4};

// A loss of its inputs, and of more that has no gradient.
template <class F>
void check(const std::vector<Tensor>& inputs, F f, const std::vector<Tensor>& more = {}, double tolerance = 1e-9) {
  struct Loss {
    F f;
    std::vector<Tensor> more;
    std::vector<Tensor> operator()(const std::vector<Tensor>& inputs) const { return {f(inputs, more)}; }
  };
  CAPTURE(next);
  golden_test::check(golden[next++], inputs, Loss{f, more}, tolerance);
}
using List = const std::vector<Tensor>&;

Tensor signs(const Sizes& sizes) {
  std::int64_t count = 1;
  for (const Dim size : sizes.shape()) count *= static_cast<std::int64_t>(size);
  return reshape(where(remainder(arange(count), 3) == 0, full({}, -1, {DType::f64}), 1), sizes);
}
Tensor integers(std::initializer_list<std::int64_t> values) { return from_list(values); }
std::vector<Tensor> waves(std::initializer_list<Sizes> shapes) {
  std::vector<Tensor> all;
  for (const Sizes& shape : shapes) all.push_back(wave(shape, 30 + static_cast<int>(all.size())));
  return all;
}

}  // namespace

TEST_CASE("losses give PyTorch's values and gradients") {
  next = 0;
  struct Pair {
    Reduction reduction;
    bool square;
    Tensor operator()(List x, List) const {
      return square ? mse_loss(x[0], x[1], reduction) : l1_loss(x[0], x[1], reduction);
    }
  };
  for (const Reduction reduction : reductions)
    for (const bool square : {false, true}) check(waves({pairs, pairs}), Pair{reduction, square});
  check(waves({pairs, pairs}), [](List x, List) { return smooth_l1_loss(x[0], x[1]); });
  check(waves({pairs, pairs}),
        [](List x, List) { return smooth_l1_loss(x[0], x[1], {.beta = 0.3, .reduction = Reduction::sum}); });
  check(waves({pairs, pairs}),
        [](List x, List) { return smooth_l1_loss(x[0], x[1], {.beta = 0, .reduction = Reduction::none}); });
  check(waves({pairs, pairs}), [](List x, List) { return huber_loss(x[0], x[1]); });
  check(waves({pairs, pairs}),
        [](List x, List) { return huber_loss(x[0], x[1], {.delta = 0.3, .reduction = Reduction::sum}); });
  check(waves({pairs, pairs}),
        [](List x, List) { return huber_loss(x[0], x[1], {.delta = 0.5, .reduction = Reduction::none}); });
  struct Soft {
    Reduction reduction;
    Tensor operator()(List x, List more) const { return soft_margin_loss(x[0], more[0], reduction); }
  };
  for (const Reduction reduction : reductions) check(waves({pairs}), Soft{reduction}, {signs(pairs)});

  const Tensor weight = wave(pairs, 8) + 1, chances = wave(pairs, 9) * 0.8 + 0.5, inside = wave(pairs, 30) * 0.8 + 0.5;
  check({inside}, [](List x, List more) { return binary_cross_entropy(x[0], more[0]); }, {chances});
  check({inside}, [](List x, List more) { return binary_cross_entropy(x[0], more[0], {.weight = more[1]}); },
        {chances, weight});
  check({inside}, [](List x, List more) { return binary_cross_entropy(x[0], more[0], {.reduction = Reduction::none}); },
        {chances});
  check(
      {from_list({0.0, 1.0, 0.0, 1.0})},
      [](List x, List more) { return binary_cross_entropy(x[0], more[0], {.reduction = Reduction::sum}); },
      {from_list({0.0, 1.0, 1.0, 0.0})}, 1e-8);  // the least denominator is 1e-12, which PyTorch rounds to f32
  const Tensor logits = wave(pairs, 30) * 40;
  check({logits}, [](List x, List more) { return binary_cross_entropy_with_logits(x[0], more[0]); }, {chances});
  check({logits},
        [](List x, List more) {
          return binary_cross_entropy_with_logits(x[0], more[0], {.weight = more[1], .pos_weight = more[2]});
        },
        {chances, weight, wave({4}, 3) + 1});
  check(
      {logits},
      [](List x, List more) { return binary_cross_entropy_with_logits(x[0], more[0], {.reduction = Reduction::sum}); },
      {chances});

  const Tensor shares = softmax(wave(pairs, 31), -1);
  check(waves({pairs}), [](List x, List more) { return kl_div(x[0], more[0], {.batchmean = true}); },
        {where(reshape(arange(3), {3, 1}) == 1, 0, shares)});
  check(waves({pairs}),
        [](List x, List more) { return kl_div(x[0], more[0], {.log_target = true, .reduction = Reduction::sum}); },
        {log_softmax(wave(pairs, 31), -1)});
  check(waves({pairs}), [](List x, List more) { return kl_div(x[0], more[0]); }, {shares});

  const Sizes rows = {4, 5};
  const Tensor labels = integers({1, 4, 0, 2}), of_classes = wave({5}, 5) + 1;
  check(waves({rows}), [](List x, List more) { return cross_entropy(x[0], more[0]); }, {labels});
  check(waves({rows}), [](List x, List more) { return cross_entropy(x[0], more[0], {.weight = more[1]}); },
        {labels, of_classes});
  check(waves({rows}), [](List x, List more) { return cross_entropy(x[0], more[0], {.ignore_index = -100}); },
        {integers({1, -100, 0, 3})});
  check(waves({rows}),
        [](List x, List more) {
          return cross_entropy(x[0], more[0], {.weight = more[1], .ignore_index = 7, .label_smoothing = 0.2});
        },
        {integers({1, 7, 0, 3}), of_classes});
  check(waves({rows}),
        [](List x, List more) {
          return cross_entropy(x[0], more[0],
                               {.ignore_index = 7, .label_smoothing = 0.1, .reduction = Reduction::none});
        },
        {integers({1, 7, 0, 3})});
  check(waves({rows}), [](List x, List more) { return cross_entropy(x[0], more[0], {.reduction = Reduction::sum}); },
        {labels});
  const Tensor chosen = softmax(wave(rows, 6), -1);
  check(waves({rows}), [](List x, List more) { return cross_entropy(x[0], more[0], {}); }, {chosen});
  check(waves({rows}),
        [](List x, List more) { return cross_entropy(x[0], more[0], {.weight = more[1], .label_smoothing = 0.3}); },
        {chosen, of_classes});
  const Tensor grid = reshape(integers({0, 1, 4, 2, 2, 3}), {2, 3});
  check(waves({{2, 5, 3}}),
        [](List x, List more) { return cross_entropy(x[0], more[0], {.weight = more[1], .axis = 1}); },
        {grid, of_classes});
  check(waves({rows}), [](List x, List more) { return nll_loss(x[0], more[0]); }, {labels});
  check(waves({rows}),
        [](List x, List more) { return nll_loss(x[0], more[0], {.weight = more[1], .ignore_index = -5}); },
        {integers({1, -5, 0, 3}), of_classes});
  check(waves({{2, 5, 3}}),
        [](List x, List more) { return nll_loss(x[0], more[0], {.axis = 1, .reduction = Reduction::none}); }, {grid});
  check(waves({rows}), [](List x, List more) { return multi_margin_loss(x[0], more[0]); }, {labels});
  check(waves({rows}),
        [](List x, List more) { return multi_margin_loss(x[0], more[0], {.margin = 0.6, .p = 2, .weight = more[1]}); },
        {labels, of_classes});
  check(
      waves({rows}),
      [](List x, List more) { return multi_margin_loss(x[0], more[0], {.margin = 0.4, .reduction = Reduction::none}); },
      {labels});
  const Tensor marks = reshape(cast(remainder(arange(12), 3) == 0, DType::f64), pairs);
  check(waves({pairs}), [](List x, List more) { return multilabel_soft_margin_loss(x[0], more[0]); }, {marks});
  check(waves({pairs}),
        [](List x, List more) { return multilabel_soft_margin_loss(x[0], more[0], more[1], Reduction::sum); },
        {marks, wave({4}, 3) + 1});
  check(waves({pairs}),
        [](List x, List more) { return multilabel_soft_margin_loss(x[0], more[0], {}, Reduction::none); }, {marks});

  const std::vector<Tensor> sign{signs(pairs)}, of_rows{signs({3})};
  check(
      waves({pairs, pairs}), [](List x, List y) { return margin_ranking_loss(x[0], x[1], y[0]); }, sign);
  check(
      waves({pairs, pairs}),
      [](List x, List y) {
        return margin_ranking_loss(x[0], x[1], y[0], {0.4, Reduction::sum});
      },
      sign);
  check(
      waves({pairs, pairs}),
      [](List x, List y) {
        return margin_ranking_loss(x[0], x[1], y[0], {0.4, Reduction::none});
      },
      sign);
  check(
      waves({pairs}), [](List x, List y) { return hinge_embedding_loss(x[0], y[0]); }, sign);
  check(
      waves({pairs}),
      [](List x, List y) {
        return hinge_embedding_loss(x[0], y[0], {0.2, Reduction::sum});
      },
      sign);
  check(
      waves({pairs}),
      [](List x, List y) {
        return hinge_embedding_loss(x[0], y[0], {1, Reduction::none});
      },
      sign);
  check(
      waves({pairs, pairs}), [](List x, List y) { return cosine_embedding_loss(x[0], x[1], y[0]); }, of_rows);
  check(
      waves({pairs, pairs}),
      [](List x, List y) {
        return cosine_embedding_loss(x[0], x[1], y[0], {0.3, Reduction::sum});
      },
      of_rows);
  check(
      waves({pairs, pairs}),
      [](List x, List y) {
        return cosine_embedding_loss(x[0], x[1], y[0], {-0.2, Reduction::none});
      },
      of_rows);
  check(waves({pairs, pairs, pairs}), [](List x, List) { return triplet_margin_loss(x[0], x[1], x[2]); });
  check(waves({pairs, pairs, pairs}), [](List x, List) {
    return triplet_margin_loss(x[0], x[1], x[2], {.margin = 2, .p = 1, .swap = true, .reduction = Reduction::sum});
  });
  check(waves({pairs, pairs, pairs}),
        [](List x, List) { return triplet_margin_loss(x[0], x[1], x[2], {.p = 3, .reduction = Reduction::none}); });

  const Tensor counts = reshape(cast(remainder(arange(12), 4), DType::f64), pairs);
  check(waves({pairs}), [](List x, List t) { return poisson_nll_loss(x[0], t[0]); }, {counts});
  check(waves({pairs}),
        [](List x, List t) { return poisson_nll_loss(x[0], t[0], {.full = true, .reduction = Reduction::sum}); },
        {counts});
  check({wave(pairs, 30) + 0.9},
        [](List x, List t) { return poisson_nll_loss(x[0], t[0], {.log_input = false, .reduction = Reduction::none}); },
        {counts});
  const std::vector<Tensor> spread{wave(pairs, 30), wave(pairs, 31), wave(pairs, 32) + 0.8};
  check(spread, [](List x, List) { return gaussian_nll_loss(x[0], x[1], x[2]); });
  check(spread,
        [](List x, List) { return gaussian_nll_loss(x[0], x[1], x[2], {.full = true, .reduction = Reduction::sum}); });
  check(spread,
        [](List x, List) { return gaussian_nll_loss(x[0], x[1], x[2], {.eps = 0.5, .reduction = Reduction::none}); });

  const Tensor texts = from_list<std::int64_t>({{1, 2, 3}, {2, 2, 1}, {3, 0, 0}, {4, 4, 4}});
  const std::vector<Tensor> spoken{texts, integers({7, 6, 3, 7}), integers({3, 3, 1, 0})};
  const Sizes sound = {7, 4, 5};
  struct Ctc {
    Reduction reduction;
    std::int64_t blank;
    bool zero_infinity;
    Tensor operator()(List x, List more) const {
      return ctc_loss(log_softmax(x[0], -1), more[0], more[1], more[2],
                      {.blank = blank, .zero_infinity = zero_infinity, .reduction = reduction});
    }
  };
  for (const Reduction reduction : reductions) check(waves({sound}), Ctc{reduction, 0, false}, spoken);
  check(waves({sound}), Ctc{Reduction::mean, 0, true}, {texts, integers({7, 3, 3, 7}), spoken[2]});
  check(waves({sound}), Ctc{Reduction::mean, 4, false},
        {from_list<std::int64_t>({{0, 1, 2}, {1, 1, 0}, {3, 0, 0}, {2, 2, 2}}), spoken[1], spoken[2]});
  CHECK(next == std::size(golden));
}

TEST_CASE("losses: 16-bit floats, no elements, what cannot be reached, and what is refused") {
  const Tensor x = wave({3, 4}, 1), y = wave({3, 4}, 2), labels = integers({1, 0, 3});
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Tensor loss = huber_loss(cast(x, dtype), cast(y, dtype));
    CHECK(loss.dtype() == dtype);
    CHECK(loss.item() == doctest::Approx(huber_loss(x, y).item()).epsilon(0.01));
  }
  CHECK(std::isnan(l1_loss(ones({0}), ones({0})).item()));
  for (const double beyond : {-0.5, 1.5})  // which PyTorch refuses
    for (const double target : {0.0, 1.0})
      CHECK(std::isnan(binary_cross_entropy(full({}, beyond), full({}, target)).item()));
  CHECK(l1_loss(ones({0}), ones({0}), Reduction::sum).item() == 0);
  CHECK(std::isnan(cross_entropy(x, integers({-100, -100, -100}), {.ignore_index = -100}).item()));
  const Tensor text = from_list<std::int64_t>({{1, 1}}), sound = log_softmax(wave({2, 1, 3}, 1), -1);
  CHECK(std::isinf(ctc_loss(sound, text, integers({2}), integers({2})).item()));
  CHECK(ctc_loss(sound, text, integers({2}), integers({2}), {.zero_infinity = true}).item() == 0);

  // Where a margin is met exactly the derivative is 0, as a ReLU's.
  const Tensor one = ones({1}, {DType::f64}),
               slope = grad([&](const Tensor&x) { return margin_ranking_loss(x, one, one); }, one);
  CHECK(slope.item() == 0);
  CHECK(grad([&](const Tensor& x) { return hinge_embedding_loss(x, -one); }, one).item() == 0);
  CHECK(triplet_margin_loss(x, x + y, x + 2, {.p = INFINITY}).item() ==
        doctest::Approx(mean(relu(amax(abs(y), -1) - 2 + 1)).item()).epsilon(1e-5));
  loops_test::check_close(cross_entropy(x, softmax(y, -1)), cross_entropy(x, softmax(y, -1), {}), 0);
  loops_test::check_close(gaussian_nll_loss(x, y, ones({3}) * 2, {.reduction = Reduction::none}),
                          gaussian_nll_loss(x, y, ones({3, 4}) * 2, {.reduction = Reduction::none}), 0);
  CHECK(mse_loss(cast(x, DType::f16), cast(y, DType::f32)).dtype() == DType::f32);
  refused([&] { gaussian_nll_loss(x, y, ones({4})); }, "takes a variance of the input's shape or one for each row");
  refused([&] { cross_entropy(x, softmax(y, -1), {.ignore_index = 1}); }, "takes no ignore_index");
  refused([&] { l1_loss(x, ones({4})); }, "[l1_loss] shapes differ: f64[3,4] x f32[4]");
  refused([&] { smooth_l1_loss(x, y, {.beta = -1}); }, "beta must not be negative");
  refused([&] { huber_loss(x, y, {.delta = 0}); }, "delta must be positive");
  refused([&] { smooth_l1_loss(x, y, {.beta = NAN}); }, "[smooth_l1_loss] beta must be finite, it is nan");
  refused([&] { huber_loss(x, y, {.delta = NAN}); }, "[huber_loss] delta must be finite, it is nan");
  refused([&] { triplet_margin_loss(x, y, y, {.margin = NAN}); }, "[triplet_margin_loss] margin must be finite");
  refused([&] { triplet_margin_loss(x, y, y, {.margin = -1}); }, "[triplet_margin_loss] margin must be positive");
  refused([&] { triplet_margin_loss(x, y, y, {.margin = 0}); },
          "[triplet_margin_loss] margin must be positive, it is 0");
  refused([&] { triplet_margin_loss(x, y, y, {.eps = NAN}); }, "[triplet_margin_loss] eps must be finite");
  refused([&] { margin_ranking_loss(x, y, y, {.margin = NAN}); }, "[margin_ranking_loss] margin must be finite");
  refused([&] { hinge_embedding_loss(x, y, {.margin = NAN}); }, "[hinge_embedding_loss] margin must be finite");
  refused([&] { cosine_embedding_loss(x, y, ones({3}), {.margin = NAN}); }, "margin must be finite");
  refused([&] { multi_margin_loss(x, labels, {.margin = NAN}); }, "[multi_margin_loss] margin must be finite");
  refused([&] { poisson_nll_loss(x, y, {.eps = NAN}); }, "[poisson_nll_loss] eps must be finite");
  refused([&] { gaussian_nll_loss(x, y, y, {.eps = NAN}); }, "[gaussian_nll_loss] eps must be finite");
  refused([&] { cross_entropy(x, integers({1, 0, -100}), {}).item(); }, "an index is out of range [0, 4)");
  refused([&] { cross_entropy(x, labels, {.weight = ones({3})}); }, "takes weights of 4 classes");
  refused([&] { cross_entropy(x, labels, {.label_smoothing = 2}); }, "label_smoothing must be from 0 to 1, it is 2");
  refused([&] { cross_entropy(x, ones({3}), {}); }, "probabilities of the logits' shape");
  refused([&] { nll_loss(x, integers({1, 2})); }, "takes floating rows of classes and integer labels");
  refused([&] { binary_cross_entropy(x, y, {.pos_weight = x}); }, "takes no pos_weight");
  refused([&] { multi_margin_loss(x, labels, {.p = 3}); }, "p must be 1 or 2");
  refused([&] { triplet_margin_loss(x, y, ones({3})); }, "shapes differ");
  refused([&] { cosine_embedding_loss(x, y, y); }, "takes vectors [..., n] and targets [...]");
  refused([&] { ctc_loss(sound, text, integers({3}), integers({2})).item(); }, "3");
  refused([&] { ctc_loss(sound, text, integers({2}), integers({2, 2})); }, "takes log-probabilities [T, N, C]");
  refused([&] { ctc_loss(sound, text, integers({2}), integers({2}), {.blank = 3}); }, "the blank is label 3 of 3");
}
