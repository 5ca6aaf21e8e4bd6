// Operators that are layers of networks: convolutions, pools, normalizations, attention.
#include <algorithm>
#include <cmath>
#include <limits>

#include "onnx/call.hpp"
#include "weft/convolution.hpp"
#include "weft/nn/attention.hpp"
#include "weft/nn/normalization.hpp"
#include "weft/random.hpp"

namespace weft::onnx {
namespace {

using Integers = std::vector<std::int64_t>;

// What convolutions and pools say of the axes after [N, C].
struct Windows {
  int count = 0;
  Integers kernel, strides, dilations;
  std::vector<Dim> before, after;  // elements around each axis
  std::vector<Dim> results;        // sizes
  std::vector<Dim> beyond;         // elements after the padding that the last window reaches, under ceil_mode
};
Windows windows_of(NodeCall& c, const Tensor& x, Integers kernel, bool ceil_mode = false) {
  Windows w;
  w.count = x.rank() - 2;
  if (w.count < 1 || w.count > 6) c.refuse("wants an input of batch, channels and sizes, and gets ", x.rank(), " axes");
  const auto n = static_cast<std::size_t>(w.count);
  w.kernel = std::move(kernel);
  w.strides = c.integers(std::string_view("strides"), Integers(n, 1));
  w.dilations = c.integers(std::string_view("dilations"), Integers(n, 1));
  const Integers pads = c.integers(std::string_view("pads"), Integers(2 * n, 0));
  const std::string automatic = c.text("auto_pad", "NOTSET");
  if (w.kernel.size() != n || w.strides.size() != n || w.dilations.size() != n || pads.size() != 2 * n)
    c.refuse("kernel_shape, strides, dilations and pads must be for ", n, " axes");
  for (std::size_t i = 0; i < n; ++i) {
    if (w.kernel[i] < 1 || w.strides[i] < 1 || w.dilations[i] < 1)
      c.refuse("a kernel, stride or dilation is not positive");
    const Dim size = x.size(static_cast<int>(i) + 2), reach = Dim(w.dilations[i] * (w.kernel[i] - 1) + 1);
    const Dim stride = w.strides[i];
    Dim before = pads[i], after = pads[i + n];
    if (automatic == "VALID") before = after = 0;
    if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      const Dim result = (size + stride - Dim(1)) / stride;
      Dim all = (result - Dim(1)) * stride + reach - size;
      if (all.is_constant() && all.constant() < 0) all = 0;
      before = automatic == "SAME_UPPER" ? all / Dim(2) : (all + Dim(1)) / Dim(2);
      after = all - before;
    }
    const Dim room = size + before + after - reach;
    Dim result = room / stride + Dim(1);
    if (ceil_mode) {
      result = (room + stride - Dim(1)) / stride + Dim(1);
      // A window that begins after the elements and the padding before them does not count.
      if (result.is_constant() && size.is_constant() && before.is_constant() &&
          (result.constant() - 1) * w.strides[i] >= (size + before).constant())
        result = result - Dim(1);
    }
    w.before.push_back(before);
    w.after.push_back(after);
    w.results.push_back(result);
    Dim beyond = (result - Dim(1)) * stride + reach - (size + before + after);
    if (beyond.is_constant() && beyond.constant() < 0) beyond = 0;
    w.beyond.push_back(ceil_mode ? beyond : Dim(0));
  }
  return w;
}
bool constant_and_equal(const Windows& w) {
  for (std::size_t i = 0; i < w.before.size(); ++i)
    if (!w.before[i].is_constant() || !w.before[i].same(w.after[i]) || !w.beyond[i].same(Dim(0))) return false;
  return true;
}
// x with these elements around its axes after the channels.
Tensor padded(const Tensor& x, const Windows& w, At fill, bool beyond = true) {
  std::vector<Dim> widths;
  bool none = true;
  for (std::size_t i = w.before.size(); i-- > 0;) {
    widths.push_back(w.before[i]);
    widths.push_back(beyond ? w.after[i] + w.beyond[i] : w.after[i]);
    none = none && widths[widths.size() - 2].same(Dim(0)) && widths.back().same(Dim(0));
  }
  return none ? x : pad(x, widths, Pads::constant, fill);
}
const char* const convolutions[] = {"conv1d", "conv2d", "conv3d"};
const char* const transposed[] = {"conv_transpose1d", "conv_transpose2d", "conv_transpose3d"};
Integers sizes_of(const Tensor& x, int first) {
  Integers sizes;
  for (int axis = first; axis < x.rank(); ++axis) sizes.push_back(static_cast<std::int64_t>(x.size(axis)));
  return sizes;
}

Tensor convolved(NodeCall& c, Tensor x, const Tensor& weight, const Tensor& bias) {
  const Windows w = windows_of(c, x, c.integers(std::string_view("kernel_shape"), sizes_of(weight, 2)));
  if (w.count > 3) c.refuse("has ", w.count, " axes after the channels, and at most 3 are done");
  Integers padding(w.kernel.size(), 0);
  if (constant_and_equal(w))
    for (std::size_t i = 0; i < padding.size(); ++i) padding[i] = w.before[i].constant();
  else
    x = padded(x, w, 0);
  const weft::detail::Convolve how{w.count, w.strides.data(),      padding.data(), w.dilations.data(),
                                   nullptr, c.integer("group", 1), false};
  const char* const name = convolutions[w.count - 1];
  if (!bias.defined()) return weft::detail::convolve(name, x, weight, nullptr, how);
  const At added = bias;
  return weft::detail::convolve(name, x, weight, &added, how);
}
void convolution(NodeCall& c) { c.give(convolved(c, c.tensor(0), c.tensor(1), c.optional(2))); }

void convolution_transpose(NodeCall& c) {
  const Tensor x = c.tensor(0), weight = c.tensor(1);
  const int count = x.rank() - 2;
  if (count < 1 || count > 3) c.refuse("has ", count, " axes after the channels, and 1 to 3 are done");
  const auto n = static_cast<std::size_t>(count);
  const Integers kernel = c.integers(std::string_view("kernel_shape"), sizes_of(weight, 2));
  const Integers strides = c.integers(std::string_view("strides"), Integers(n, 1));
  const Integers dilations = c.integers(std::string_view("dilations"), Integers(n, 1));
  const Integers more = c.integers(std::string_view("output_padding"), Integers(n, 0));
  Integers pads = c.integers(std::string_view("pads"), Integers(2 * n, 0));
  const Integers wanted = c.integers(std::string_view("output_shape"));
  const std::string automatic = c.text("auto_pad", "NOTSET");
  const Integers none(n, 0);
  if (kernel.size() != n || strides.size() != n || dilations.size() != n || more.size() != n || pads.size() != 2 * n ||
      (!wanted.empty() && wanted.size() < n))
    c.refuse("kernel_shape, strides, dilations, output_padding and pads must be for ", n, " axes");
  const weft::detail::Convolve how{count,       strides.data(),        none.data(), dilations.data(),
                                   none.data(), c.integer("group", 1), false};
  Tensor y = weft::detail::convolve_transposed(transposed[count - 1], x, weight, nullptr, how);
  std::vector<Dim> widths;
  for (std::size_t i = n; i-- > 0;) {
    if (!wanted.empty() || automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      const Dim size = x.size(static_cast<int>(i) + 2);
      const Dim result = wanted.empty() ? size * Dim(strides[i]) : Dim(wanted[wanted.size() - n + i]);
      const auto all = static_cast<std::int64_t>(y.size(static_cast<int>(i) + 2) + Dim(more[i]) - result);
      pads[i] = automatic == "SAME_UPPER" ? all / 2 : all - all / 2;
      if (automatic == "NOTSET") pads[i] = all / 2;
      pads[i + n] = all - pads[i];
    }
    widths.push_back(-pads[i]);
    widths.push_back(more[i] - pads[i + n]);
  }
  if (std::ranges::any_of(widths, [](Dim each) { return !each.same(Dim(0)); })) y = pad(y, widths);
  if (c.has(std::size_t{2})) {
    std::vector<Dim> sizes(n + 1, Dim(1));
    sizes[0] = -1;
    y = y + reshape(c.tensor(2), sizes);
  }
  c.give(y);
}

// ---- pools ----------------------------------------------------------------------------------------------------------

// Windows of a padded x, added up or reduced axis by axis.
template <class F>
Tensor over_windows(Tensor x, const Windows& w, F f) {
  for (int i = 0; i < w.count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const Dim reach = (w.results[at] - Dim(1)) * Dim(w.strides[at]) + Dim(1);
    Tensor sums;
    for (std::int64_t k = 0; k < w.kernel[at]; ++k) {
      const Dim start = k * w.dilations[at];
      const Tensor part = slice(x, i + 2, start, start + reach, w.strides[at]);
      sums = k == 0 ? part : f(sums, part);
    }
    x = sums;
  }
  return x;
}
double least_of(DType dtype) {
  if (is_floating(dtype)) return -std::numeric_limits<double>::infinity();
  return dtype == DType::i8 ? -128 : dtype == DType::i16 ? -32768 : dtype == DType::i32 ? -2147483648.0 : 0;
}
void max_pool_of(NodeCall& c) {
  const Tensor x = c.tensor();
  const Windows w = windows_of(c, x, c.integers(std::string_view("kernel_shape")), c.integer("ceil_mode", 0));
  bool plain = constant_and_equal(w) && w.count <= 3 && is_floating(x.dtype());
  Integers padding;
  for (std::size_t i = 0; i < w.before.size() && plain; ++i) {
    padding.push_back(w.before[i].constant());
    plain = padding.back() * 2 <= w.kernel[i];
  }
  const char* const names[] = {"max_pool1d", "max_pool2d", "max_pool3d"};
  if (!c.wants(1)) {
    if (plain)
      return c.give(weft::detail::max_pool(
          names[w.count - 1], x,
          {w.count, w.kernel.data(), w.strides.data(), padding.data(), w.dilations.data(), false, true, 0}));
    const double least = least_of(x.dtype());
    const Tensor around = is_floating(x.dtype()) ? padded(x, w, least) : padded(x, w, static_cast<std::int64_t>(least));
    return c.give(over_windows(around, w, [](const Tensor& a, const Tensor& b) { return maximum(a, b); }));
  }
  // The number of each element among all of them, with that of the greatest.
  if (w.count > 3 || !is_floating(x.dtype())) c.refuse("gives places of floats along at most 3 axes");
  const Tensor around = padded(x, w, least_of(x.dtype()));
  const Integers none(w.kernel.size(), 0);
  const ValuesAndIndices found = weft::detail::max_pool_with_indices(
      names[w.count - 1], around,
      {w.count, w.kernel.data(), w.strides.data(), none.data(), w.dilations.data(), false, true, 0});
  Tensor rest = found.indices, place;
  Dim step = 1;
  std::vector<Tensor> at(static_cast<std::size_t>(w.count));
  for (int i = w.count; i-- > 0;) {
    const Dim size = around.size(i + 2);
    at[static_cast<std::size_t>(i)] = remainder(rest, At(size)) - At(w.before[static_cast<std::size_t>(i)]);
    rest = floor_divide(rest, At(size));
  }
  const bool columns = c.integer("storage_order", 0);
  for (int k = w.count; k-- > 0;) {
    const int i = columns ? w.count - 1 - k : k;
    const Tensor part = at[static_cast<std::size_t>(i)] * At(step);
    place = place.defined() ? place + part : part;
    step = step * x.size(i + 2);
  }
  std::vector<Dim> sizes(static_cast<std::size_t>(w.count) + 2, Dim(1));
  sizes[0] = x.size(0), sizes[1] = x.size(1);
  const Tensor planes = reshape(arange(x.size(0) * x.size(1), {DType::i64, x.device()}), sizes);
  c.give(found.values);
  c.give(place + planes * At(step));
}
void average_pool_of(NodeCall& c) {
  const Tensor x = c.tensor();
  const bool all = c.integer("count_include_pad", 0);
  const Windows w = windows_of(c, x, c.integers(std::string_view("kernel_shape")), c.integer("ceil_mode", 0));
  bool plain = constant_and_equal(w) && w.count <= 3;
  Integers padding;
  for (std::size_t i = 0; i < w.before.size() && plain; ++i) {
    padding.push_back(w.before[i].constant());
    plain = padding.back() * 2 <= w.kernel[i] && w.dilations[i] == 1;
  }
  const char* const names[] = {"avg_pool1d", "avg_pool2d", "avg_pool3d"};
  if (plain)
    return c.give(weft::detail::avg_pool(
        names[w.count - 1], x, {w.count, w.kernel.data(), w.strides.data(), padding.data(), nullptr, false, all, 0}));
  const auto plus = [](const Tensor& a, const Tensor& b) { return a + b; };
  std::vector<Dim> sizes{1, 1};
  for (int axis = 2; axis < x.rank(); ++axis) sizes.push_back(x.size(axis));
  Tensor counted = ones(sizes, {x.dtype(), x.device()});
  if (all) {  // the padding counts, and what is beyond it does not
    counted = padded(counted, w, 1, false);
    Windows beyond = w;
    for (std::size_t i = 0; i < w.before.size(); ++i) beyond.before[i] = beyond.after[i] = 0;
    counted = padded(counted, beyond, 0);
  } else {
    counted = padded(counted, w, 0);
  }
  c.give(over_windows(padded(x, w, 0), w, plus) / over_windows(counted, w, plus));
}
void lp_pool(NodeCall& c) {
  const Tensor x = c.tensor();
  const double p = static_cast<double>(c.integer("p", 2));
  const Windows w = windows_of(c, x, c.integers(std::string_view("kernel_shape")), c.integer("ceil_mode", 0));
  const Tensor sums =
      over_windows(padded(pow(abs(x), p), w, 0), w, [](const Tensor& a, const Tensor& b) { return a + b; });
  c.give(pow(sums, 1 / p));
}
std::vector<int> spatial_axes(const Tensor& x) {
  std::vector<int> axes;
  for (int axis = 2; axis < x.rank(); ++axis) axes.push_back(axis);
  return axes;
}
void global_average(NodeCall& c) {
  const Tensor x = c.tensor();
  c.give(x.rank() > 2 ? mean(x, spatial_axes(x), true) : x);
}
void global_max(NodeCall& c) {
  const Tensor x = c.tensor();
  c.give(x.rank() > 2 ? amax(x, spatial_axes(x), true) : x);
}
void global_lp(NodeCall& c) {
  const Tensor x = c.tensor();
  const double p = static_cast<double>(c.integer("p", 2));
  c.give(pow(sum(pow(abs(x), p), spatial_axes(x), true), 1 / p));
}

// ---- normalizations -------------------------------------------------------------------------------------------------

// A vector of channels beside [N, C, ...].
Tensor beside_channels(const Tensor& vector, int rank) {
  std::vector<Dim> sizes(static_cast<std::size_t>(std::max(rank - 1, 1)), Dim(1));
  sizes[0] = -1;
  return reshape(vector, sizes);
}
void batch_normalization(NodeCall& c) {
  const Tensor x = c.tensor();
  const double eps = c.number("epsilon", 1e-5);
  if (!c.integer("training_mode", 0)) {
    Tensor mean = c.tensor(3), var = c.tensor(4);
    return c.give(nn::batch_norm(x, mean, var, c.tensor(1), c.tensor(2), false, 0.1, eps));
  }
  std::vector<int> axes{0};
  for (int axis = 2; axis < x.rank(); ++axis) axes.push_back(axis);
  const double momentum = c.number("momentum", 0.9);
  const Tensor average = mean(x, axes), variance = var(x, axes, 0.0);
  const auto beside = [&](const Tensor& v) { return beside_channels(v, x.rank()); };
  c.give((x - beside(average)) / sqrt(beside(variance) + eps) * beside(c.tensor(1)) + beside(c.tensor(2)));
  c.give(c.tensor(3) * momentum + average * (1 - momentum));
  c.give(c.tensor(4) * momentum + variance * (1 - momentum));
}
void instance_normalization(NodeCall& c) {
  c.give(nn::instance_norm(c.tensor(0), c.tensor(1), c.tensor(2), c.number("epsilon", 1e-5)));
}
void group_normalization(NodeCall& c) {
  const Tensor x = c.tensor();
  const std::int64_t groups = c.positive("num_groups", 1);
  Tensor scale = c.tensor(1), bias = c.tensor(2);
  if (c.version() < 21) {  // one number for a group
    scale = repeat_interleave(scale, x.size(1) / Dim(groups), 0);
    bias = repeat_interleave(bias, x.size(1) / Dim(groups), 0);
  }
  c.give(nn::group_norm(x, groups, scale, bias, c.number("epsilon", 1e-5)));
}
void layer_normalization(NodeCall& c) {
  const Tensor x = c.tensor(), scale = c.tensor(1), bias = c.optional(2);
  const int rank = x.rank(), axis = c.axis("axis", -1, rank);
  const double eps = c.number("epsilon", 1e-5);
  bool plain =
      !c.wants(1) && !c.wants(2) && scale.rank() == rank - axis && (!bias.defined() || bias.rank() == rank - axis);
  for (int i = axis; plain && i < rank; ++i)
    plain = scale.size(i - axis).same(x.size(i)) && (!bias.defined() || bias.size(i - axis).same(x.size(i)));
  if (plain) return c.give(nn::layer_norm(x, scale.shape(), scale, bias, eps));
  std::vector<int> axes;
  for (int i = axis; i < rank; ++i) axes.push_back(i);
  const Tensor wide = cast(x, x.dtype() == DType::f64 ? DType::f64 : DType::f32);
  const Tensor average = mean(wide, axes, true), centred = wide - average;
  const Tensor inverse = rsqrt(mean(centred * centred, axes, true) + eps);
  Tensor y = cast(centred * inverse, x.dtype()) * scale;
  if (bias.defined()) y = y + bias;
  c.give(y);
  c.give(average);
  c.give(inverse);
}
void rms_normalization(NodeCall& c) {
  const Tensor x = c.tensor(), scale = c.tensor(1);
  const int rank = x.rank(), axis = c.axis("axis", -1, rank);
  std::vector<int> axes;
  for (int i = axis; i < rank; ++i) axes.push_back(i);
  bool plain = scale.rank() == rank - axis;
  for (int i = axis; plain && i < rank; ++i) plain = scale.size(i - axis).same(x.size(i));
  const double eps = c.number("epsilon", 1e-5);
  if (plain) return c.give(nn::rms_norm(x, scale.shape(), scale, eps));
  const Tensor wide = cast(x, x.dtype() == DType::f64 ? DType::f64 : DType::f32);
  c.give(cast(wide * rsqrt(mean(wide * wide, axes, true) + eps), x.dtype()) * scale);
}
void lrn(NodeCall& c) {
  c.give(nn::local_response_norm(c.tensor(), c.integer("size", 1), c.number("alpha", 1e-4), c.number("beta", 0.75),
                                 c.number("bias", 1)));
}
void lp_normalization(NodeCall& c) {
  const Tensor x = c.tensor();
  const int axis = c.axis("axis", -1, x.rank());
  const Tensor length = c.integer("p", 2) == 1 ? sum(abs(x), axis, true) : sqrt(sum(x * x, axis, true));
  c.give(where(length == 0, zeros_like(x), x / length));
}
void mean_variance(NodeCall& c) {
  const Tensor x = c.tensor();
  const Integers axes = c.integers(std::string_view("axes"), {0, 2, 3});
  const Tensor centred = x - mean(x, axes, true);
  c.give(centred / (sqrt(mean(centred * centred, axes, true)) + 1e-9));
}
void dropout_of(NodeCall& c) {
  const Tensor x = c.tensor();
  const bool training = c.version() >= 12 && c.has(std::size_t{2}) && c.integer_at(2);
  const double ratio = c.version() < 12 ? c.number("ratio", 0.5) : c.has(std::size_t{1}) ? c.number_at(1) : 0.5;
  if (!training || ratio == 0) {
    c.give(x);
    c.give(ones_like(x) != 0);
    return;
  }
  const Tensor stays = bernoulli(x.shape(), 1 - ratio);
  c.give(where(stays, x / (1 - ratio), zeros_like(x)));
  c.give(stays);
}

// ---- attention ------------------------------------------------------------------------------------------------------

Tensor heads_of(const Tensor& x, std::int64_t heads) {
  return transpose(reshape(x, {x.size(0), x.size(1), heads, x.size(2) / Dim(heads)}), 1, 2);
}
void attention(NodeCall& c) {
  Tensor q = c.tensor(0), k = c.tensor(1), v = c.tensor(2), mask = c.optional(3);
  const bool flat = q.rank() == 3;
  if (flat) {
    const std::int64_t heads = c.integer("q_num_heads", 0), shared = c.integer("kv_num_heads", 0);
    if (heads < 1 || shared < 1) c.refuse("wants q_num_heads and kv_num_heads for inputs of 3 axes");
    q = heads_of(q, heads), k = heads_of(k, shared), v = heads_of(v, shared);
  }
  if (c.has(std::size_t{4})) k = concat({c.tensor(4), k}, 2);
  if (c.has(std::size_t{5})) v = concat({c.tensor(5), v}, 2);
  const Tensor present_k = k, present_v = v;
  const bool causal = c.integer("is_causal", 0);
  const double softcap = c.number("softcap", 0), scale = c.number("scale", 0);
  const auto finished = [&](Tensor y) {
    if (flat) y = reshape(transpose(y, 1, 2), {y.size(0), y.size(2), y.size(1) * y.size(3)});
    c.give(y);
    c.give(present_k);
    c.give(present_v);
  };
  // A mask that is shorter than the keys hides the rest.
  if (mask.defined() && !mask.size(-1).same(k.size(2)) && !(mask.size(-1) == Dim(1))) {
    const Dim rest = k.size(2) - mask.size(-1);
    if (mask.dtype() == DType::boolean)
      mask = cast(pad(cast(mask, DType::u8), mask.rank() - 1, 0, rest), DType::boolean);
    else
      mask = pad(mask, {0, rest}, Pads::constant, -std::numeric_limits<double>::infinity());
  }
  if (c.has(std::size_t{6})) {  // how many keys of each batch there are
    const Tensor there = arange(k.size(2), {DType::i64, q.device()}) < reshape(c.tensor(6), {-1, 1, 1, 1});
    if (!mask.defined())
      mask = there;
    else if (mask.dtype() == DType::boolean)
      mask = mask & there;
    else
      mask = where(there, mask, -std::numeric_limits<double>::infinity());
  }
  if (!c.wants(3) && softcap == 0 && !(causal && (mask.defined() || c.has(std::size_t{4}))) && is_floating(q.dtype())) {
    nn::AttentionOptions options;
    options.attn_mask = mask;
    options.is_causal = causal;
    options.scale = scale;
    options.enable_gqa = true;
    if (!mask.defined() || mask.dtype() == DType::boolean || mask.dtype() == q.dtype())
      return finished(nn::scaled_dot_product_attention(q, k, v, options));
  }
  const Dim groups = q.size(1) / k.size(1);
  if (!groups.same(Dim(1))) k = repeat_interleave(k, groups, 1), v = repeat_interleave(v, groups, 1);
  const double factor = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(static_cast<std::int64_t>(q.size(3))));
  const double root = std::sqrt(factor);
  const DType dtype = q.dtype();
  // What qk_matmul_output_mode chooses from: products, under the cap, with the masks, the weights. The cap comes before
  // the masks, as in the package's text from 1.20 on: after it hidden keys would be seen again.
  std::vector<Tensor> scores{matmul(q * root, transpose(k * root, 2, 3))};
  Tensor biased = softcap != 0 ? tanh(scores[0] / softcap) * softcap : scores[0];
  const Tensor capped = biased;
  const Tensor hidden = cast(full({}, -std::numeric_limits<double>::infinity(), {DType::f32, q.device()}), dtype);
  if (causal) {
    const Tensor rows = reshape(arange(q.size(2), {DType::i64, q.device()}), {-1, 1});
    const Tensor columns = arange(k.size(2), {DType::i64, q.device()});
    biased = where(columns <= (c.has(std::size_t{4}) ? rows + At(c.tensor(4).size(2)) : rows), biased, hidden);
  }
  if (mask.defined())
    biased = mask.dtype() == DType::boolean ? where(mask, biased, hidden) : biased + cast(mask, dtype);
  scores.push_back(softcap != 0 ? capped : biased);
  scores.push_back(biased);
  const DType wide = dtype == DType::f64 ? DType::f64 : DType::f32;
  scores.push_back(cast(softmax(cast(scores[2], wide), -1), dtype));
  finished(matmul(scores[3], v));
  const std::int64_t mode = c.integer("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3) c.refuse("qk_matmul_output_mode is ", mode, ", and goes from 0 to 3");
  c.give(scores[static_cast<std::size_t>(mode)]);
}
void rotary_embedding(NodeCall& c) {
  Tensor x = c.tensor();
  const bool flat = x.rank() == 3, interleaved = c.integer("interleaved", 0);
  if (flat) x = heads_of(x, c.positive("num_heads", 1));
  const Dim depth = x.size(3);
  const std::int64_t given = c.integer("rotary_embedding_dim", 0);
  const Dim turned = given ? Dim(given) : depth;
  const Tensor part = slice(x, 3, 0, turned), rest = slice(x, 3, turned);
  Tensor cosine = c.tensor(1), sine = c.tensor(2);
  if (c.has(std::size_t{3})) cosine = gather(cosine, c.tensor(3)), sine = gather(sine, c.tensor(3));
  const Dim half = turned / Dim(2);
  cosine = unsqueeze(slice(cosine, 2, 0, half), 1), sine = unsqueeze(slice(sine, 2, 0, half), 1);
  const Tensor a = interleaved ? slice(part, 3, 0, slice_end, 2) : slice(part, 3, 0, half);
  const Tensor b = interleaved ? slice(part, 3, 1, slice_end, 2) : slice(part, 3, half);
  const Tensor real = a * cosine - b * sine, imaginary = a * sine + b * cosine;
  Tensor y = interleaved ? reshape(stack({real, imaginary}, 4), part.shape()) : concat({real, imaginary}, 3);
  if (given && !(turned == depth)) y = concat({y, rest}, 3);
  if (flat) y = reshape(transpose(y, 1, 2), {y.size(0), y.size(2), y.size(1) * y.size(3)});
  c.give(y);
}

constexpr OperatorRow rows[] = {
    {"Attention", 23, latest, attention},
    {"AveragePool", 7, latest, average_pool_of},
    {"BatchNormalization", 9, latest, batch_normalization, 0, 0b11000},
    {"Conv", 1, latest, convolution},
    {"ConvTranspose", 1, latest, convolution_transpose},
    {"Dropout", 7, latest, dropout_of, 0b110, 0, not_folded},
    {"GlobalAveragePool", 1, latest, global_average},
    {"GlobalLpPool", 2, latest, global_lp},
    {"GlobalMaxPool", 1, latest, global_max},
    {"GroupNormalization", 18, latest, group_normalization},
    {"InstanceNormalization", 6, latest, instance_normalization},
    {"LRN", 1, latest, lrn},
    {"LayerNormalization", 17, latest, layer_normalization},
    {"LpNormalization", 1, latest, lp_normalization},
    {"LpPool", 2, latest, lp_pool},
    {"MaxPool", 1, latest, max_pool_of},
    {"MeanVarianceNormalization", 9, latest, mean_variance},
    {"RMSNormalization", 23, latest, rms_normalization},
    {"RotaryEmbedding", 23, latest, rotary_embedding},
};

}  // namespace

std::span<const OperatorRow> layer_operators() { return rows; }

}  // namespace weft::onnx
