// Functions of windows, of sampled images, and losses over chunks against PyTorch's: results and gradients, eagerly,
// compiled, and over symbolic sizes; and what golden values do not show.
#include <atomic>
#include <limits>

#include "base/storage.hpp"
#include "tests/nn/golden_list.hpp"
#include "tests/record/refused.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace weft::nn;
using golden_test::wave;
using weft::test::refused;

namespace {

const std::vector<double> golden[] = {
#include "tests/nn/windows_golden.inc"
};
std::size_t next = 0;  // the golden file's lines are in the order of the cases below

using List = std::vector<Tensor>;
template <class F>
void check_list(const List& inputs, F f) {
  CAPTURE(next);
  golden_test::check(golden[next++], inputs, f);
}
// f(x) of one wave, a tensor; f without captures.
template <class F>
void check(const Sizes& sizes, F) {
  check_list({wave(sizes, 30)}, [](const List& x) { return List{F()(x[0])}; });
}
template <class F>
void check_indices(const Sizes& sizes, F) {
  check_list({wave(sizes, 30)}, [](const List& x) {
    const auto [values, indices] = F()(x[0]);
    return List{values, cast(indices, DType::f64)};
  });
}

Tensor names() { return constant(std::vector<std::int64_t>{3, 0, 4, 1, 2, 2, 1}, {7}); }

}  // namespace

TEST_CASE("windows and samples give PyTorch's values and gradients") {
  next = 0;
  check({2, 3, 5, 6}, [](const Tensor& x) { return nn::unfold(x, 3); });
  check({3, 5, 6}, [](const Tensor& x) {
    return nn::unfold(x, {2, 3}, {.dilation = {2, 1}, .padding = {1, 2}, .stride = {2, 1}});
  });
  check({2, 12, 20}, [](const Tensor& x) { return fold(x, {5, 6}, 2); });
  check({12, 16}, [](const Tensor& x) {
    return fold(x, {4, 7}, {3, 2}, {.dilation = {1, 3}, .padding = {1, 2}, .stride = {2, 1}});
  });

  check_indices({2, 3, 9}, [](const Tensor& x) { return max_pool1d_with_indices(x, 3); });
  check_indices({2, 2, 7, 6}, [](const Tensor& x) {
    return max_pool2d_with_indices(x, {3, 2}, {.stride = {2, 1}, .padding = 1, .dilation = {2, 1}});
  });
  check_indices({2, 7, 6},
                [](const Tensor& x) { return max_pool2d_with_indices(x, 3, {.stride = 2, .ceil_mode = true}); });
  check_indices({1, 2, 4, 5, 6}, [](const Tensor& x) {
    return max_pool3d_with_indices(x, 2, {.stride = {2, 1, 2}, .padding = {1, 0, 1}});
  });
  check_indices({2, 3, 7}, [](const Tensor& x) { return adaptive_max_pool1d_with_indices(x, 3); });
  check_indices({2, 2, 7, 6}, [](const Tensor& x) { return adaptive_max_pool2d_with_indices(x, {3, 2}); });
  check_indices({2, 4, 5, 6}, [](const Tensor& x) { return adaptive_max_pool3d_with_indices(x, {2, 3, 4}); });

  check({2, 3, 9}, [](const Tensor& x) {
    const auto [values, indices] = max_pool1d_with_indices(x, 3);
    return MaxUnpool1d(3)(values * values, indices);
  });
  check({2, 2, 6, 9}, [](const Tensor& x) {
    const auto [values, indices] = max_pool2d_with_indices(x, {2, 3});
    return max_unpool2d(values * values, indices, {2, 3});
  });
  check({2, 7, 6}, [](const Tensor& x) {
    const auto [values, indices] = max_pool2d_with_indices(x, 3, {.stride = 2, .padding = 1});
    return MaxUnpool2d(3, {.stride = 2, .padding = 1})(values * values, indices, {7, 6});
  });
  check({1, 2, 4, 5, 6}, [](const Tensor& x) {
    const auto [values, indices] = max_pool3d_with_indices(x, 2);
    return MaxUnpool3d(2)(values * values, indices, {4, 5, 6});
  });

  check_indices({2, 2, 9, 8}, [](const Tensor& x) {
    const Tensor samples = constant(std::vector<double>{0.1, 0.9, 0.5, 0.3, 0.77, 0.2, 0.0, 0.62}, {2, 2, 2});
    return fractional_max_pool2d_with_indices(x, 2, {.output_size = {4, 5}, .random_samples = samples});
  });
  check_indices({2, 9, 8}, [](const Tensor& x) {
    const Tensor samples = constant(std::vector<double>{0.1, 0.9, 0.5, 0.3}, {1, 2, 2});
    return fractional_max_pool2d_with_indices(x, {3, 2}, {.output_ratio = {0.5, 0.7}, .random_samples = samples});
  });
  check_indices({2, 5, 6, 9}, [](const Tensor& x) {
    const Tensor samples = constant(std::vector<double>{0.1, 0.9, 0.1, 0.5, 0.3, 0.5}, {1, 2, 3});
    return fractional_max_pool3d_with_indices(x, 2, {.output_size = {3, 1, 4}, .random_samples = samples});
  });

  const auto sample = [](const Sizes& sizes, const Sizes& grid, const GridSampleOptions& options) {
    struct Sample {
      GridSampleOptions options;
      List operator()(const List& x) const { return {grid_sample(x[0], x[1], options)}; }
    };
    check_list({wave(sizes, 30), wave(grid, 31) * 3.5}, Sample{options});
  };
  sample({2, 2, 3, 4, 5}, {2, 2, 3, 2, 3}, {});
  sample({1, 2, 3, 2, 4}, {1, 3, 2, 2, 3}, {.padding_mode = SamplePadding::border, .align_corners = true});
  sample({1, 2, 2, 4, 5}, {1, 2, 3, 3, 3}, {.padding_mode = SamplePadding::reflection});
  sample({2, 2, 3, 4, 2}, {2, 2, 2, 2, 3}, {.mode = SampleMode::nearest, .align_corners = true});
  sample({1, 2, 1, 4, 3}, {1, 2, 2, 3, 3},
         {.mode = SampleMode::nearest, .padding_mode = SamplePadding::reflection, .align_corners = true});

  struct Resize {
    Interpolation mode;
    std::vector<std::int64_t> size;
    std::vector<double> scale;
    bool align_corners;
    List operator()(const List& x) const {
      return {interpolate(x[0], {.size = Sizes(size),
                                 .scale_factor = scale,
                                 .mode = mode,
                                 .align_corners = align_corners,
                                 .antialias = true})};
    }
  };
  for (const Interpolation mode : {Interpolation::bilinear, Interpolation::bicubic}) {
    check_list({wave({2, 2, 9, 7}, 30)}, Resize{mode, {4, 3}, {}, false});
    check_list({wave({1, 2, 5, 11}, 30)}, Resize{mode, {8, 4}, {}, false});
    check_list({wave({1, 2, 9, 11}, 30)}, Resize{mode, {}, {0.4, 0.6}, false});
    check_list({wave({1, 2, 9, 7}, 30)}, Resize{mode, {4, 3}, {}, true});
  }

  struct Labels {
    Reduction reduction;
    List operator()(const List& x) const {
      const Tensor labels =
          constant(std::vector<std::int64_t>{3, 0, -1, 1, 2, 4, 2, 1, 0, 3, -1, 2, 2, 2, 2, 1, 1, -1, 0, 0}, {4, 5});
      return {multilabel_margin_loss(x[0], x[0].rank() == 1 ? labels[0] : labels, reduction)};
    }
  };
  for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none})
    check_list({wave({4, 5}, 30)}, Labels{reduction});
  check_list({wave({5}, 30)}, Labels{Reduction::mean});

  // The numbers do not depend on the length of a chunk, be it one row, one that leaves rows over, or more than there
  // are.
  struct Linear {
    Reduction reduction;
    std::optional<std::int64_t> ignore_index;
    std::int64_t chunk;
    bool apart;
    List operator()(const List& x) const {
      return {
          linear_cross_entropy(x[0], x[1], apart ? unsqueeze(names(), 1) : names(),
                               {.bias = x[2], .ignore_index = ignore_index, .chunk = chunk, .reduction = reduction})};
    }
    WEFT_MEMBERS(reduction, ignore_index, chunk, apart)
  };
  const auto linear = [](const Sizes& sizes, const Linear& f) {
    const List inputs{wave(sizes, 30), wave({5, 6}, 31), wave({5}, 32)};
    for (const std::int64_t chunk : {1, 3, 7, 512}) {
      Linear own = f;
      own.chunk = chunk;
      CAPTURE(chunk);
      CAPTURE(next);
      golden_test::check(golden[next], inputs, own);
    }
    ++next;
  };
  linear({7, 6}, {Reduction::mean, {}, 0, false});
  linear({7, 6}, {Reduction::sum, {}, 0, false});
  linear({7, 6}, {Reduction::mean, 2, 0, false});
  linear({7, 1, 6}, {Reduction::none, 1, 0, true});

  struct Distances {
    double p;
    // A count has no derivative, which grad refuses.
    List operator()(const List& x) const { return {p == 0 ? pdist(x[0], p) + x[0][0][0] * 0 : pdist(x[0], p)}; }
  };
  for (const double p : {0.0, 1.0, 2.0, 3.0, std::numeric_limits<double>::infinity()})
    check_list({wave({6, 3}, 30)}, Distances{p});
  CHECK(next == std::size(golden));
}

TEST_CASE("windows: layers, other dtypes, what is not finite, and what is refused") {
  const Tensor x = wave({1, 2, 4, 6}, 1), line = wave({2, 3, 8}, 2);
  const auto apply = [](const Tensor& x, const Unfold& apart, const Fold& together) { return together(apart(x)); };
  const Unfold apart(2, {.stride = 2});
  const Fold together({4, 6}, 2, {.stride = 2});
  loops_test::check_close(compile(apply, {.on_compile_error = OnFailure::raise})(x, apart, together), x, 0);
  CHECK(nn::unfold(cast(x, DType::i32), 2).dtype() == DType::i32);
  // Where windows overlap, fold counts them.
  loops_test::check_close(fold(nn::unfold(ones({1, 1, 3, 3}), 2), {3, 3}, 2),
                          reshape(from_list<float>({1, 2, 1, 2, 4, 2, 1, 2, 1}), {1, 1, 3, 3}), 0);
  refused([&] { nn::unfold(line[0], 2); }, "[unfold] takes an image [N,C,H,W] or [C,H,W]: f64[3,8]");
  refused([&] { nn::unfold(x, 5); }, "a window of 5 does not fit into 4 elements and padding");
  refused([&] { nn::unfold(x, 2, {.stride = 0}); }, "kernel, stride and dilation must be positive");
  refused([&] { fold(line, {4, 4}, 2); }, "[fold] needs columns of a multiple of 4 elements for 3 x 3 windows");
  refused([&] { fold(line, {4}, 2); }, "output_size needs 2 positive sizes: [4]");

  // NaN is the greatest; of equal elements the first one counts; padding never does.
  const Tensor special = reshape(from_list<float>({1, 1, 0, NAN, -INFINITY, -INFINITY}), {1, 1, 6});
  for (const bool compiled : {false, true}) {
    const auto f = [](const Tensor& x) { return max_pool1d_with_indices(x, 2, {.padding = 1}); };
    const auto [values, indices] = compiled ? compile(f)(special) : f(special);
    CHECK(values[0][0][0].item() == 1);
    CHECK(std::isnan(values[0][0][2].item()));
    CHECK(values[0][0][3].item() == -INFINITY);
    loops_test::check_close(indices, reshape(from_list<std::int64_t>({0, 1, 3, 5}), {1, 1, 4}), 0);
  }
  loops_test::check_close(adaptive_max_pool1d_with_indices(special, 3).indices,
                          reshape(from_list<std::int64_t>({0, 3, 4}), {1, 1, 3}), 0);
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const auto [values, indices] = max_pool2d_with_indices(cast(x, dtype), 2);
    CHECK(values.dtype() == dtype);
    CHECK(max_unpool2d(values, indices, 2).dtype() == dtype);
    loops_test::check_close(max_pool2d(cast(x, dtype), 2), values, 0);
    CHECK(interpolate(cast(x, dtype), {.size = {2, 3}, .mode = Interpolation::bicubic, .antialias = true}).dtype() ==
          dtype);
  }
  const Tensor values = ones({1, 4}), repeated = reshape(from_list<std::int64_t>({2, 2, 0, 7}), {1, 4});
  const auto unpooled = [&](const Tensor& v) { return sum(max_unpool1d(v, repeated, 2) * 3); };
  loops_test::check_close(grad(unpooled, values), full({1, 4}, 3), 0);  // PyTorch gives it to all that meet
  refused([&] { max_unpool1d(values, repeated + 1, 2).eval(); }, "[max_unpool1d]");
  refused([&] { max_unpool1d(values, values, 2); }, "needs an index for each element: f32[1,4] and f32[1,4]");
  refused([&] { max_unpool1d(values, repeated, 2, {.output_size = {8, 2}}); }, "output_size needs 1 size, it has 2");

  // Drawn windows lie inside, each is as great as its element, and draws differ.
  Generator rng(3);
  const Tensor image = wave({3, 4, 20, 17}, 3);
  const auto [one, places] = fractional_max_pool2d_with_indices(image, 2, {.output_size = {9, 8}}, rng);
  loops_test::check_close(gather(reshape(image, {3, 4, 340}), 2, reshape(places, {3, 4, 72})), reshape(one, {3, 4, 72}),
                          0);
  const Tensor other = fractional_max_pool2d(image, 2, {.output_size = {9, 8}}, rng);
  CHECK(sum(abs(one - other)).item() > 0);
  refused([&] { fractional_max_pool2d(image, 2, {}); }, "[fractional_max_pool2d] needs one of output_size and output");
  refused([&] { fractional_max_pool2d(image, 2, {.output_size = {20, 3}}); }, "20 windows of 2 do not fit into 20");
  refused([&] { fractional_max_pool2d(image, 2, {.output_ratio = {1.5}}); }, "output_ratio is between 0 and 1");
  refused([&] { fractional_max_pool2d(image, 0, {.output_size = 3}); }, "kernel must be positive, it is 0");
  refused([] { MaxUnpool1d(0); }, "[MaxUnpool1d] kernel must be positive, it is 0");
  refused([] { MaxUnpool2d(2, {.stride = -1}); }, "[MaxUnpool2d] stride must not be negative, it is -1");
  refused([] { MaxUnpool3d(2, {.padding = 2}); }, "[MaxUnpool3d] padding must be at most half of the kernel's 2");
  refused([] { FractionalMaxPool2d(2, {}); }, "[FractionalMaxPool2d] needs one of output_size and output_ratio");
  refused([] { FractionalMaxPool2d(2, {.output_size = 3, .output_ratio = {0.5}}); }, "needs one of output_size");
  refused([] { FractionalMaxPool2d(2, {.output_size = {3, -1}}); }, "output_size must be positive, it is -1");
  const std::vector<double> two{0.5, 0.5};
  refused([&] { FractionalMaxPool3d(2, {.output_ratio = two}); }, "output_ratio needs a number for each of 3 axes");
  refused([] { FractionalMaxPool3d(2, {.output_ratio = {0.0}}); },
          "[FractionalMaxPool3d] output_ratio is between 0 and 1");

  refused([&] { grid_sample(x, wave({1, 2, 2, 2, 3}, 1)); }, "[grid_sample] takes a floating image [N,C,D,H,W]");
  refused([&] { grid_sample(x, wave({1, 2, 2, 3}, 1)); }, "takes a grid [N,H',W',2]");
  refused([&] { interpolate(x, {.size = {2}, .antialias = true}); }, "antialias is for bilinear and bicubic");
  refused([&] { pdist(line); }, "[pdist] takes floating rows [n, k]: f64[2,3,8]");
  refused([&] { pdist(line[0], -1); }, "p must not be negative");
  CHECK(pdist(ones({1, 3})).shape() == Shape::of(0));
  // Every pair, in order, of many rows.
  const Tensor many = wave({150, 2}, 5), pairs = pdist(many), square_of = cdist(many, many);
  std::int64_t k = 0;
  const auto found = pairs.data<double>();
  const auto all = square_of.data<double>();
  double worst = 0;
  for (std::size_t i = 0; i < 150; ++i)
    for (std::size_t j = i + 1; j < 150; ++j)
      worst = std::max(worst, std::abs(found[static_cast<std::size_t>(k++)] - all[i * 150 + j]));
  CHECK(k == static_cast<std::int64_t>(found.size()));
  CHECK(worst < 1e-12);
}

TEST_CASE("rrelu: slopes lie in their bounds while training, and are their mean else") {
  const Tensor x = wave({64, 64}, 1);
  loops_test::check_close(rrelu(x), leaky_relu(x, (1.0 / 8 + 1.0 / 3) / 2), 0);
  Generator rng(1);
  const Tensor y = rrelu(x, 0.2, 0.4, true, rng), slope = y / x;
  CHECK(amin(where(x < 0, slope, 0.3)).item() >= 0.2);
  CHECK(amax(where(x < 0, slope, 0.3)).item() <= 0.4);
  CHECK(std::abs(mean(masked_select(slope, x < 0)).item() - 0.3) < 0.01);
  loops_test::check_close(where(x < 0, 0, y), relu(x), 0);
  RReLU layer;
  CHECK(sum(abs(layer(x) - layer(x))).item() > 0);
  nn::eval(layer);
  loops_test::check_close(layer(x), rrelu(x), 0);
  CHECK(rrelu(cast(x, DType::f16), 0.1, 0.2, true, rng).dtype() == DType::f16);
  refused([&] { rrelu(x, 0.5, 0.25); }, "[rrelu] lower is at most upper, they are 0.5 and 0.25");
}

TEST_CASE("the second derivative of linear_cross_entropy is that of the product and the loss") {
  const Tensor x = normal({40, 6}), weight = normal({9, 6}), labels = randint({40}, 0, 9);
  const auto twice = [](const auto& loss, const Tensor& w) {
    return grad([&](const Tensor& w) { return sum(square(grad(loss, w))); }, w);
  };
  const auto in_chunks = [&](const Tensor& w) { return linear_cross_entropy(x, w, labels, {.chunk = 16}); };
  const auto at_once = [&](const Tensor& w) { return cross_entropy(matmul(x, transpose(w)), labels); };
  loops_test::check_close(twice(in_chunks, weight), twice(at_once, weight), 1e-5);
}

TEST_CASE("linear_cross_entropy holds the logits of one chunk alone, forward and backward") {
  const std::int64_t rows = 1024, classes = 4096;
  const Tensor x = normal({rows, 16}), weight = normal({classes, 16}), labels = randint({rows}, 0, classes);
  const auto in_chunks = [](const Tensor& x, const Tensor& w, const Tensor& labels) {
    return grad([&](const Tensor& w) { return linear_cross_entropy(x, w, labels, {.chunk = 8}); }, w);
  };
  const auto at_once = [](const Tensor& x, const Tensor& w, const Tensor& labels) {
    return grad([&](const Tensor& w) { return linear_cross_entropy(x, w, labels, {.chunk = 1024}); }, w);
  };
  const std::int64_t whole_bytes = rows * classes * 4;
  const auto most = [&](auto f) {
    return explain(compile(f, {.on_compile_error = OnFailure::raise}), x, weight, labels).memory.taken;
  };
  CHECK(most(in_chunks) < whole_bytes / 8);
  CHECK(most(at_once) >= whole_bytes);
  loops_test::check_close(compile(in_chunks)(x, weight, labels), compile(at_once)(x, weight, labels), 1e-5);
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const Tensor a = cast(x, dtype), w = cast(weight, dtype);
    const Tensor loss = linear_cross_entropy(a, w, labels);
    CHECK(loss.dtype() == dtype);
    const Tensor whole =
        cross_entropy(cast(matmul(cast(a, DType::f32), transpose(cast(w, DType::f32))), DType::f32), labels);
    CHECK(std::abs(loss.item() - whole.item()) < (dtype == DType::f32 ? 1e-5 : dtype == DType::f16 ? 0.01 : 0.1));
  }
  CHECK(std::isnan(linear_cross_entropy(zeros({0, 16}), weight, zeros({0}, {DType::i64})).item()));
  refused([&] { linear_cross_entropy(x, x, cast(x, DType::i64)); },
          "[linear_cross_entropy] takes input [..., n], weight [classes, n] and integer labels [...]");
  refused([&] { linear_cross_entropy(x, weight, labels, {.chunk = 0}); }, "chunk must be positive, it is 0");
  refused([&] { linear_cross_entropy(x, weight, labels, {.bias = ones({3})}); }, "takes a bias of 4096 classes");
  refused([&] { linear_cross_entropy(x, weight, labels + classes).eval(); }, "[linear_cross_entropy]");
  refused([&] { multilabel_margin_loss(x, labels); }, "[multilabel_margin_loss] takes floating scores [N, C] or [C]");
  const Tensor beyond = from_list<std::int64_t>({2, 0});
  refused([&] { multilabel_margin_loss(zeros({2}), beyond).eval(); }, "[multilabel_margin_loss] an index is out");
}

namespace {

// The gradient of sum(pool(x) * g) is each g at its window's element, added up.
template <class F, class G>
void check_pool_gradient(const Tensor& x, F pool, G indices) {
  const auto [values, index] = indices(x);
  const Tensor g = cast(wave(Sizes(values.shape()), 9), x.dtype());
  const Dim planes = x.size(0) * x.size(1), elements = x.shape().element_count() / planes;
  const Dim windows = values.shape().element_count() / planes;
  const Tensor expected = scatter_add(zeros({planes, elements}, {x.dtype()}), 1, reshape(index, {planes, windows}),
                                      reshape(g, {planes, windows}));
  const auto slope = [&](const Tensor& v) { return grad([&](const Tensor& v) { return sum(pool(v) * g); }, v); };
  const Tensor same = all(slope(x) == reshape(expected, Sizes(x.shape())));
  CHECK(same.template item<bool>());
}

}  // namespace

TEST_CASE("the gradient of a pool goes to the first greatest element, whatever windows overlap or leave out") {
  Generator generator(5);
  for (const std::int64_t kernel : {1, 2, 3, 5})
    for (const std::int64_t stride : {1, 2, 3, 6})
      for (const std::int64_t dilation : {1, 2})
        for (const bool ceil_mode : {false, true}) {
          CAPTURE(kernel);
          CAPTURE(stride);
          CAPTURE(dilation);
          CAPTURE(ceil_mode);
          // Of small whole numbers: many are alike, and their sums are exact. Some are NaN.
          Tensor x = cast(randint({2, 3, 14, 13}, -3, 3, generator), DType::f32);
          x = where(randint({2, 3, 14, 13}, 0, 40, generator) == 0, std::nanf(""), x);
          check_pool_gradient(
              x,
              [&](const Tensor& v) {
                return max_pool2d(v, {kernel, 3},
                                  {.stride = {stride, 2},
                                   .padding = {kernel / 2, 1},
                                   .dilation = {dilation, 1},
                                   .ceil_mode = ceil_mode});
              },
              [&](const Tensor& v) {
                return max_pool2d_with_indices(v, {kernel, 3},
                                               {.stride = {stride, 2},
                                                .padding = {kernel / 2, 1},
                                                .dilation = {dilation, 1},
                                                .ceil_mode = ceil_mode});
              });
          check_pool_gradient(
              x,
              [&](const Tensor& v) {
                return max_pool1d(reshape(v, {2, 3, 14 * 13}), kernel, {.stride = stride});
              },
              [&](const Tensor& v) {
                return max_pool1d_with_indices(reshape(v, {2, 3, 14 * 13}), kernel, {.stride = stride});
              });
        }
}

TEST_CASE("the loops of a composite's derivative are differentiated again, several in one function") {
  static constexpr auto slopes = [](auto loss) {
    return [loss](const Tensor& x, const Tensor& w, const Tensor& labels) {
      const auto of = [&](const Tensor& w) {
        return sum(square(grad([&](const Tensor& v) { return loss(x, v, labels); }, w)));
      };
      return std::vector<Tensor>{grad(of, w), grad(of, w * 2)};
    };
  };
  static constexpr auto in_chunks = [](const Tensor& x, const Tensor& w, const Tensor& labels) {
    return slopes([](const Tensor& x, const Tensor& w, const Tensor& labels) {
      return linear_cross_entropy(x, w, labels, {.chunk = 5});
    })(x, w, labels);
  };
  static constexpr auto at_once = [](const Tensor& x, const Tensor& w, const Tensor& labels) {
    return slopes([](const Tensor& x, const Tensor& w, const Tensor& labels) {
      return cross_entropy(matmul(x, transpose(w)), labels);
    })(x, w, labels);
  };
  Generator generator(3);
  const Tensor x = normal({37, 8}, 0, 1, generator), w = normal({19, 8}, 0, 1, generator), labels = arange(37) % 19;
  const std::vector<Tensor> wanted = at_once(x, w, labels);
  for (const std::vector<Tensor>& found : {in_chunks(x, w, labels), compile(in_chunks)(x, w, labels)})
    for (std::size_t i = 0; i < wanted.size(); ++i) loops_test::check_close(found[i], wanted[i], 1e-6);
}

TEST_CASE("layers of fractional pooling are the functions, also within a compiled function") {
  const Tensor image = wave({2, 3, 9, 8}, 3), volume = wave({2, 3, 5, 6, 7}, 4);
  const Tensor samples = wave({2, 3, 2}, 5) * 0.25 + 0.5;
  const FractionalMaxPool2d plane(2, {.output_size = {4, 5}, .random_samples = samples});
  const Tensor expected = fractional_max_pool2d(image, 2, {.output_size = {4, 5}, .random_samples = samples});
  loops_test::check_close(plane(image), expected, 0);
  auto compiled = compile([](const FractionalMaxPool2d& layer, const Tensor& x) { return layer(x); });
  loops_test::check_close(compiled(plane, image), expected, 0);

  const FractionalMaxPool3d space({1, 2, 2}, {.output_ratio = {0.5, 0.5, 0.6}});
  Generator one(7), same(7);
  const Tensor drawn = fractional_max_pool3d(volume, {1, 2, 2}, {.output_ratio = {0.5, 0.5, 0.6}}, one);
  CHECK(drawn.shape() == Shape::of(2, 3, 2, 3, 4));
  loops_test::check_close(space(volume, same), drawn, 0);
  auto in_space = compile([](const FractionalMaxPool3d& layer, const Tensor& x) { return layer(x); });
  CHECK(in_space(space, volume).shape() == drawn.shape());

  auto back = compile(
      [](const MaxUnpool2d& layer, const Tensor& x) {
        const auto [values, indices] = max_pool2d_with_indices(x, {3, 2});
        return layer(values, indices, {9, 9});
      },
      {.dynamic = true});
  for (const std::int64_t batch : {2, 5, 3}) {
    const Tensor x = wave({batch, 3, 9, 8}, 3);
    const auto [values, indices] = max_pool2d_with_indices(x, {3, 2});
    loops_test::check_close(back(MaxUnpool2d({3, 2}), x),
                            max_unpool2d(values, indices, {3, 2}, {.output_size = {9, 9}}), 0);
  }
}
