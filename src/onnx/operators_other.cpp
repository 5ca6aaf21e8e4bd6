// Operators of quantized models, losses, signals, and what draws numbers.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "onnx/call.hpp"
#include "weft/convolution.hpp"
#include "weft/fft.hpp"
#include "weft/random.hpp"
#include "weft/signal.hpp"

namespace weft::onnx {
namespace {

using Integers = std::vector<std::int64_t>;

// ---- quantized ------------------------------------------------------------------------------------------------------

// A scale or a zero point beside x: of one number, of an axis, or of blocks along it.
Tensor beside(const NodeCall& c, const Tensor& of, const Tensor& x) {
  if (of.rank() == 0 || of.element_count().same(Dim(1))) return reshape(of, std::vector<Dim>());
  const int axis = c.axis("axis", 1, x.rank());
  if (const std::int64_t block = c.integer("block_size", 0); block > 0 && of.rank() == x.rank())
    return slice(repeat_interleave(of, block, axis), axis, 0, x.size(axis));
  if (of.rank() != 1) return of;
  std::vector<Dim> sizes(static_cast<std::size_t>(x.rank()), Dim(1));
  sizes[static_cast<std::size_t>(axis)] = of.size(0);
  return reshape(of, sizes);
}
Tensor saturated(const Tensor& x, DType to) {
  struct Bounds {
    DType dtype;
    double least, greatest;
  };
  for (const Bounds& each :
       {Bounds{DType::u8, 0, 255}, {DType::i8, -128, 127}, {DType::u16, 0, 65535}, {DType::i16, -32768, 32767}})
    if (each.dtype == to) return cast(clamp(x, each.least, each.greatest), to);
  return cast(x, to);
}
Tensor quantized(const Tensor& x, const Tensor& scale, const Tensor& zero, DType to) {
  const Tensor steps = round(cast(x, DType::f32) / cast(scale, DType::f32));
  return saturated(zero.defined() ? steps + cast(zero, DType::f32) : steps, to);
}
void quantize(NodeCall& c) {
  const Tensor x = c.tensor(0), scale = beside(c, c.tensor(1), x);
  Tensor zero;
  auto to = static_cast<int>(c.integer("output_dtype", 2));
  if (c.has(std::size_t{2})) {
    zero = beside(c, c.tensor(2), x);
    to = element_type(zero.dtype());
  }
  if (!has_dtype(to)) c.refuse("quantizes to ", element_name(to), ", which is no dtype");
  c.give(quantized(x, scale, zero, dtype_of_element(to)));
}
Tensor dequantized(const Tensor& x, const Tensor& scale, const Tensor& zero) {
  const Tensor steps = zero.defined() ? cast(x, DType::f32) - cast(zero, DType::f32) : cast(x, DType::f32);
  return cast(steps * cast(scale, DType::f32), scale.dtype());
}
void dequantize(NodeCall& c) {
  const Tensor x = c.tensor(0);
  Tensor zero;
  if (c.has(std::size_t{2})) zero = beside(c, c.tensor(2), x);
  c.give(dequantized(x, beside(c, c.tensor(1), x), zero));
}
void dynamic_quantize(NodeCall& c) {
  const Tensor x = c.tensor();
  const Tensor least = minimum(amin(x), 0), greatest = maximum(amax(x), 0);
  const Tensor scale = (greatest - least) / 255;
  const Tensor zero = saturated(round(clamp(0 - least / scale, 0, 255)), DType::u8);
  c.give(quantized(x, scale, zero, DType::u8));
  c.give(scale);
  c.give(zero);
}
// Integers as f64, which holds the sums exactly. `axis`: along which x has a zero point of its own each.
Tensor exact(NodeCall& c, const Tensor& x, const Tensor& zero, int axis) {
  const Tensor wide = cast(x, DType::f64);
  if (!zero.defined()) return wide;
  const Tensor from = cast(zero, DType::f64);
  if (zero.rank() == 0 || zero.element_count().same(Dim(1))) return wide - reshape(from, std::vector<Dim>());
  if (zero.rank() > 1) return wide - from;
  if (axis < 0 || axis >= x.rank()) c.refuse("has several zero points for an operand of ", x.rank(), " axes");
  std::vector<Dim> sizes(static_cast<std::size_t>(x.rank()), Dim(1));
  sizes[static_cast<std::size_t>(axis)] = zero.size(0);
  return wide - reshape(from, sizes);
}
void matmul_integer(NodeCall& c) {
  const Tensor a = c.tensor(0), b = c.tensor(1);
  c.give(cast(matmul(exact(c, a, c.optional(2), a.rank() - 2), exact(c, b, c.optional(3), b.rank() - 1)), DType::i32));
}
void quantized_matmul(NodeCall& c) {
  const Tensor a = c.tensor(0), b = c.tensor(3);
  const Tensor product = matmul(exact(c, a, c.tensor(2), a.rank() - 2), exact(c, b, c.tensor(5), b.rank() - 1));
  const Tensor y =
      product * cast(c.tensor(1), DType::f64) * cast(c.tensor(4), DType::f64) / cast(c.tensor(6), DType::f64);
  c.give(saturated(round(y) + cast(c.tensor(7), DType::f64), c.value(7).dtype()));
}
Tensor integer_convolution(NodeCall& c, Tensor x, const Tensor& weight) {
  const int count = x.rank() - 2;
  if (count < 1 || count > 3) c.refuse("has ", count, " axes after the channels, and 1 to 3 are done");
  const auto n = static_cast<std::size_t>(count);
  const Integers strides = c.integers(std::string_view("strides"), Integers(n, 1));
  const Integers dilations = c.integers(std::string_view("dilations"), Integers(n, 1));
  const Integers pads = c.integers(std::string_view("pads"), Integers(2 * n, 0)), none(n, 0);
  if (c.text("auto_pad", "NOTSET") != "NOTSET") c.refuse("auto_pad is not read here");
  if (strides.size() != n || dilations.size() != n || pads.size() != 2 * n)
    c.refuse("strides, dilations and pads must be for ", n, " axes");
  std::vector<Dim> widths;
  for (std::size_t i = n; i-- > 0;) widths.push_back(pads[i]), widths.push_back(pads[i + n]);
  x = pad(x, widths);
  const char* const names[] = {"conv1d", "conv2d", "conv3d"};
  return weft::detail::convolve(
      names[count - 1], x, weight, nullptr,
      {count, strides.data(), none.data(), dilations.data(), nullptr, c.integer("group", 1), false});
}
void convolution_integer(NodeCall& c) {
  c.give(cast(integer_convolution(c, exact(c, c.tensor(0), c.optional(2), 1), exact(c, c.tensor(1), c.optional(3), 0)),
              DType::i32));
}
void quantized_convolution(NodeCall& c) {
  const Tensor w = c.tensor(3);
  Tensor y = integer_convolution(c, exact(c, c.tensor(0), c.tensor(2), 1), exact(c, w, c.tensor(5), 0));
  std::vector<Dim> sizes(static_cast<std::size_t>(y.rank()), Dim(1));
  sizes[1] = -1;
  if (c.has(std::size_t{8})) y = y + reshape(cast(c.tensor(8), DType::f64), sizes);
  const Tensor scale = cast(c.tensor(4), DType::f64);
  y = y * cast(c.tensor(1), DType::f64) * (scale.rank() == 1 ? reshape(scale, sizes) : scale) /
      cast(c.tensor(6), DType::f64);
  c.give(saturated(round(y) + cast(c.tensor(7), DType::f64), c.value(7).dtype()));
}

// ---- losses ---------------------------------------------------------------------------------------------------------

// Of log probabilities [N, C, ...] and classes [N, ...].
Tensor class_loss(const NodeCall& c, const Tensor& x, const Tensor& target, const Tensor& weight) {
  const Tensor classes = cast(target, DType::i64);
  const bool ignores = c.has("ignore_index");
  const Tensor ignored = classes == c.integer("ignore_index", 0);
  const Tensor places = ignores ? where(ignored, 0, classes) : classes;
  Tensor loss = -squeeze(gather(x, 1, unsqueeze(places, 1)), 1);
  Tensor share = weight.defined() ? gather(weight, places) : ones_like(loss);
  if (ignores) share = where(ignored, zeros_like(share), share);
  loss = loss * share;
  const std::string reduction = c.text("reduction", "mean");
  return reduction == "none" ? loss : reduction == "sum" ? sum(loss) : sum(loss) / sum(share);
}
void negative_log_likelihood(NodeCall& c) { c.give(class_loss(c, c.tensor(0), c.tensor(1), c.optional(2))); }
void cross_entropy(NodeCall& c) {
  const Tensor logs = log_softmax(c.tensor(0), 1);
  c.give(class_loss(c, logs, c.tensor(1), c.optional(2)));
  c.give(logs);
}

// ---- signals --------------------------------------------------------------------------------------------------------

void cosine_window(NodeCall& c, double a, double b, double d) {
  const std::int64_t size = c.integer_at(0);
  const auto type = static_cast<int>(c.integer("output_datatype", 1));
  if (!has_dtype(type)) c.refuse("is of ", element_name(type), ", which is no dtype");
  const double steps = static_cast<double>(c.integer("periodic", 1) ? size : size - 1);
  const Tensor angle = cast(arange(Dim(size), {DType::i64, c.device()}), DType::f64) * (2 * std::numbers::pi / steps);
  c.give(cast(a - b * cos(angle) + d * cos(2 * angle), dtype_of_element(type)));
}
void mel_weights(NodeCall& c) {
  const std::int64_t bands = c.integer_at(0), points = c.integer_at(1), rate = c.integer_at(2);
  const double low = c.number_at(3), high = c.number_at(4);
  if (bands < 1 || points < 1 || rate < 1 || bands > 1 << 20 || points > 1 << 26 || bands * (points / 2 + 1) > 1 << 26)
    c.refuse(
        "wants a number of bands, of points and a rate that are positive and of which a matrix can be made, and has ",
        bands, ", ", points, " and ", rate);
  const std::int64_t bins = points / 2 + 1;
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double first = mel(low), step = (mel(high) - first) / static_cast<double>(bands + 2);
  std::vector<std::int64_t> edges;
  for (std::int64_t i = 0; i < bands + 2; ++i) {
    const double hertz = 700 * (std::pow(10, (first + step * static_cast<double>(i)) / 2595) - 1);
    const double edge = std::floor(static_cast<double>(points + 1) * hertz / static_cast<double>(rate));
    // What is no number counts as 0.
    edges.push_back(edge > 0 ? static_cast<std::int64_t>(std::min(edge, static_cast<double>(bins))) : 0);
  }
  const auto type = static_cast<int>(c.integer("output_datatype", 1));
  if (!has_dtype(type)) c.refuse("is of ", element_name(type), ", which is no dtype");
  KnownElements made{DType::f32, {bins, bands}};
  made.numbers.assign(static_cast<std::size_t>(bins * bands), 0);
  for (std::int64_t band = 0; band < bands; ++band) {
    const auto at = static_cast<std::size_t>(band);
    const std::int64_t begin = edges[at], middle = edges[at + 1], end = edges[at + 2];
    const auto set = [&](std::int64_t bin, double value) {
      if (bin >= 0 && bin < bins) made.numbers[static_cast<std::size_t>(bin * bands + band)] = value;
    };
    if (middle == begin)
      set(middle, 1);
    else
      for (std::int64_t i = begin; i <= middle; ++i)
        set(i, static_cast<double>(i - begin) / static_cast<double>(middle - begin));
    for (std::int64_t i = middle; i < end; ++i)
      set(i, static_cast<double>(end - i) / static_cast<double>(end - middle));
  }
  c.give(cast(Value(std::move(made)).tensor(c.device(), c.loc()), dtype_of_element(type)));
}
// The last axis of x is the real part, or the real and the imaginary one.
fft::Complex complex_of(const Tensor& x) {
  const Tensor real = select(x, -1, 0);
  return {real, x.size(-1) == Dim(2) ? select(x, -1, 1) : zeros_like(real)};
}
Tensor parts_of(const fft::Complex& x) { return stack({x.real, x.imag}, x.real.rank()); }
void dft(NodeCall& c) {
  const Tensor x = c.tensor();
  const std::int64_t given = c.version() < 20 ? c.integer("axis", 1) : c.has(std::size_t{2}) ? c.integer_at(2) : -2;
  const int axis = c.checked_axis(given, x.rank());
  fft::Options options{.axis = axis};
  if (c.has(std::size_t{1})) options.n = c.sizes(1).at(0);
  const bool inverse = c.integer("inverse", 0), one_sided = c.integer("onesided", 0);
  if (inverse && one_sided) {  // half of a spectrum, whose points are real
    c.give(unsqueeze(fft::irfft(complex_of(x), options), -1));
    return;
  }
  const fft::Complex y = inverse ? fft::ifft(complex_of(x), options) : fft::fft(complex_of(x), options);
  if (!one_sided) return c.give(parts_of(y));
  const Dim half = y.real.size(axis) / Dim(2) + Dim(1);
  c.give(parts_of({slice(y.real, axis, 0, half), slice(y.imag, axis, 0, half)}));
}
void stft(NodeCall& c) {
  Tensor x = c.tensor();
  const std::int64_t step = c.integer_at(1);
  const Tensor window = c.optional(2);
  const std::int64_t length = c.has(std::size_t{3}) ? c.integer_at(3) : static_cast<std::int64_t>(window.size(0));
  if (x.rank() == 2) x = unsqueeze(x, 2);
  const auto frames = [&](Tensor part) {
    part = unfold(part, 1, length, step);
    return window.defined() ? part * window : part;
  };
  const fft::Complex signal = complex_of(x);
  const fft::Complex y = fft::fft(fft::Complex{frames(signal.real), frames(signal.imag)});
  if (!c.integer("onesided", 1)) return c.give(parts_of(y));
  c.give(parts_of({slice(y.real, 2, 0, length / 2 + 1), slice(y.imag, 2, 0, length / 2 + 1)}));
}

// ---- n-grams --------------------------------------------------------------------------------------------------------

void count_ngrams(NodeCall& c) {
  const Tensor x = c.tensor();
  if (c.has("pool_strings")) c.refuse("of strings is not read");
  const bool vector = x.rank() == 1;
  const Tensor rows = cast(vector ? unsqueeze(x, 0) : x, DType::i64);
  const Integers counts = c.integers(std::string_view("ngram_counts")),
                 places = c.integers(std::string_view("ngram_indexes")),
                 pool = c.integers(std::string_view("pool_int64s"));
  const std::int64_t least = c.integer("min_gram_length", 1), most = c.integer("max_gram_length", 1),
                     skips = c.integer("max_skip_count", 0);
  const std::vector<double> weights = c.numbers(std::string_view("weights"));
  const std::string mode = c.text("mode", "TF");
  const auto length = static_cast<std::int64_t>(rows.size(1));
  const std::int64_t greatest = places.empty() ? -1 : *std::ranges::max_element(places);
  const auto in_pool = [&](std::int64_t at) { return at >= 0 && at <= static_cast<std::int64_t>(pool.size()); };
  if (x.rank() > 2 || greatest >= 1 << 20 || !std::ranges::all_of(counts, in_pool) || skips > length ||
      std::ranges::any_of(places, [](std::int64_t each) { return each < 0; }))
    c.refuse("its counts or places are not those of its pool");
  const std::int64_t columns = greatest + 1;
  std::vector<Tensor> found(static_cast<std::size_t>(columns), zeros({rows.size(0)}, {DType::f32, x.device()}));
  std::size_t gram = 0;
  for (std::size_t n = 1; n <= counts.size(); ++n) {
    const auto begin = static_cast<std::size_t>(counts[n - 1]);
    const auto end = n < counts.size() ? static_cast<std::size_t>(counts[n]) : pool.size();
    for (std::size_t at = begin; at + n <= end; at += n, ++gram) {
      const auto size = static_cast<std::int64_t>(n);
      if (size < least || size > most) continue;
      Tensor& column = found.at(static_cast<std::size_t>(places.at(gram)));
      for (std::int64_t skip = 0; skip <= (n == 1 ? 0 : skips); ++skip) {
        const std::int64_t starts = length - (size - 1) * (skip + 1);
        if (starts <= 0) break;
        Tensor same;
        for (std::int64_t j = 0; j < size; ++j) {
          const Tensor equal =
              slice(rows, 1, j * (skip + 1), j * (skip + 1) + starts) == pool[at + static_cast<std::size_t>(j)];
          same = j == 0 ? equal : same & equal;
        }
        column = column + cast(sum(same, 1), DType::f32);
      }
      if (mode == "IDF") column = cast(column > 0, DType::f32);
      if (mode != "TF" && gram < weights.size()) column = column * weights[gram];
    }
  }
  const Tensor all = columns ? stack(found, 1) : zeros({rows.size(0), 0}, {DType::f32, x.device()});
  c.give(vector ? select(all, 0, 0) : all);
}

// ---- what draws numbers, of the default generator -------------------------------------------------------------------

DType drawn_dtype(const NodeCall& c, int otherwise) {
  const auto type = static_cast<int>(c.integer("dtype", otherwise));
  if (!has_dtype(type)) c.refuse("draws ", element_name(type), ", which is no dtype");
  return dtype_of_element(type);
}
template <bool normal_ones, bool like>
void draw(NodeCall& c) {
  const DType dtype = drawn_dtype(c, like ? element_type(c.value(0).dtype()) : 1);
  const Sizes sizes = like ? Sizes(c.value(0).shape()) : Sizes(c.integers(std::string_view("shape")));
  const Options options{dtype, c.device()};
  if (normal_ones)
    return c.give(normal(sizes, c.number("mean", 0), c.number("scale", 1), default_generator(), options));
  c.give(uniform(sizes, c.number("low", 0), c.number("high", 1), default_generator(), options));
}
void draw_bernoulli(NodeCall& c) {
  const Tensor x = c.tensor();
  const DType wide = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  c.give(cast(uniform(x.shape(), 0, 1, default_generator(), {wide, x.device()}) < cast(x, wide),
              drawn_dtype(c, element_type(x.dtype()))));
}
void draw_classes(NodeCall& c) {
  c.give(cast(multinomial(softmax(cast(c.tensor(), DType::f32), -1), c.integer("sample_size", 1), true),
              drawn_dtype(c, 6)));
}

constexpr OperatorRow rows[] = {
    {"Bernoulli", 15, latest, draw_bernoulli, 0, 0, not_folded},
    {"BlackmanWindow", 17, latest, [](NodeCall& c) { cosine_window(c, 0.42, 0.5, 0.08); }, 1},
    {"ConvInteger", 10, latest, convolution_integer},
    {"DFT", 17, latest, dft, 0b110},
    {"DequantizeLinear", 10, latest, dequantize},
    {"DynamicQuantizeLinear", 11, latest, dynamic_quantize},
    {"HammingWindow", 17, latest, [](NodeCall& c) { cosine_window(c, 25.0 / 46, 21.0 / 46, 0); }, 1},
    {"HannWindow", 17, latest, [](NodeCall& c) { cosine_window(c, 0.5, 0.5, 0); }, 1},
    {"MatMulInteger", 10, latest, matmul_integer},
    {"MelWeightMatrix", 17, latest, mel_weights, 0b11111},
    {"Multinomial", 7, latest, draw_classes, 0, 0, not_folded},
    {"NegativeLogLikelihoodLoss", 12, latest, negative_log_likelihood},
    {"OptionalGetElement", 15, latest, [](NodeCall& c) { c.give(c.value(0)); }},
    {"OptionalHasElement", 15, latest,
     [](NodeCall& c) {
       c.give(KnownElements{DType::boolean, {}, {Dim(int{c.has(std::size_t{0})})}});
     }},
    {"QLinearConv", 10, latest, quantized_convolution},
    {"QLinearMatMul", 10, latest, quantized_matmul},
    {"QuantizeLinear", 10, latest, quantize},
    {"RandomNormal", 1, latest, draw<true, false>, 0, 0, not_folded},
    {"RandomNormalLike", 1, latest, draw<true, true>, 0, 0, not_folded},
    {"RandomUniform", 1, latest, draw<false, false>, 0, 0, not_folded},
    {"RandomUniformLike", 1, latest, draw<false, true>, 0, 0, not_folded},
    {"STFT", 17, latest, stft, 0b1010},
    {"SoftmaxCrossEntropyLoss", 12, latest, cross_entropy},
    {"TfIdfVectorizer", 9, latest, count_ngrams},
};

}  // namespace

std::span<const OperatorRow> other_operators() { return rows; }

}  // namespace weft::onnx
