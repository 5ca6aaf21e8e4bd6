// Layers, losses and initial values: short functions over tensors.
#include "weft/nn.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/fail.hpp"
#include "base/nearest_names.hpp"
#include "record/products.hpp"
#include "weft/distributed.hpp"

namespace weft::nn {
namespace {

struct Fans {
  double in = 1, out = 1;
};
Fans fans(const char* operation, const Shape& sizes, Loc loc) {
  if (sizes.rank() < 2) fail(operation, loc, "needs sizes [out, in, ...], it is given ", sizes.rank(), " of them");
  Fans result;
  for (int i = 0; i < sizes.rank(); ++i) {
    auto size = static_cast<double>(static_cast<std::int64_t>(sizes[i]));
    if (i != 0) result.in *= size;
    if (i != 1) result.out *= size;
  }
  result.in = std::max(result.in, 1.0);  // of no elements any scale will do
  result.out = std::max(result.out, 1.0);
  return result;
}

// Uniform numbers of this deviation.
Tensor uniform_of(Sizes sizes, double deviation, Generator& generator, Options options, Loc loc) {
  double bound = std::sqrt(3.0) * deviation;
  return uniform(sizes, -bound, bound, generator, options, loc);
}

}  // namespace

std::string detail::summary(const std::vector<SummaryRow>& rows) {
  std::vector<std::string> types;
  std::size_t path_width = 0, type_width = 0;
  std::int64_t numbers = 0, frozen = 0;
  bool counted = true;
  for (const SummaryRow& row : rows) {
    const Type& type = type_of(*row.value);
    types.push_back(to_string(type));
    path_width = std::max(path_width, std::strlen(row.path));
    type_width = std::max(type_width, types.back().size());
    const Dim count = type.shape.element_count();
    const std::string_view note = row.note;
    if (note == "buffer") continue;
    if (!count.is_constant())
      counted = false;
    else
      (note == "frozen" ? frozen : numbers) += count.constant();
  }
  std::string text;
  const auto padded = [](std::string word, std::size_t width) { return word.append(width - word.size() + 2, ' '); };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::string line = padded(rows[i].path, path_width);
    line += *rows[i].note ? padded(types[i], type_width) + rows[i].note : types[i];
    text += line + "\n";
  }
  if (counted) {
    text += std::to_string(numbers + frozen) + " numbers in parameters";
    if (frozen) text += ", " + std::to_string(frozen) + " of them frozen";
    text += "\n";
  }
  return text;
}

Tensor kaiming_uniform(Sizes sizes, Generator& generator, double gain, Options options, Loc loc) {
  LooseComposite call("kaiming_uniform", loc);
  return uniform_of(sizes, gain / std::sqrt(fans("kaiming_uniform", sizes.shape(), call.loc()).in), generator, options,
                    loc);
}
Tensor kaiming_normal(Sizes sizes, Generator& generator, double gain, Options options, Loc loc) {
  LooseComposite call("kaiming_normal", loc);
  return normal(sizes, 0, gain / std::sqrt(fans("kaiming_normal", sizes.shape(), call.loc()).in), generator, options,
                loc);
}
Tensor xavier_uniform(Sizes sizes, Generator& generator, double gain, Options options, Loc loc) {
  LooseComposite call("xavier_uniform", loc);
  Fans f = fans("xavier_uniform", sizes.shape(), call.loc());
  return uniform_of(sizes, gain * std::sqrt(2 / (f.in + f.out)), generator, options, loc);
}
Tensor xavier_normal(Sizes sizes, Generator& generator, double gain, Options options, Loc loc) {
  LooseComposite call("xavier_normal", loc);
  Fans f = fans("xavier_normal", sizes.shape(), call.loc());
  return normal(sizes, 0, gain * std::sqrt(2 / (f.in + f.out)), generator, options, loc);
}

Linear::Linear(std::int64_t in, std::int64_t out, LinearOptions how, Loc loc) {
  LooseComposite call("linear", loc);
  if (in < 1 || out < 1) fail("linear", call.loc(), "sizes must be positive: ", in, " in, ", out, " out");
  double bound = 1 / std::sqrt(static_cast<double>(in));
  weight = uniform({out, in}, -bound, bound, default_generator(), how.options, loc);
  if (how.bias)
    bias = uniform({out}, -bound, bound, default_generator(), how.options, loc);
  else
    bias.frozen = true;
}
void Linear::initialize(Generator& generator) {
  const Type type = type_of(weight.tensor());
  double bound = 1 / std::sqrt(static_cast<double>(static_cast<std::int64_t>(type.shape[1])));
  Options options{type.dtype, type.device};
  weight.tensor() = uniform(type.shape, -bound, bound, generator, options);
  if (bias.tensor().defined()) bias.tensor() = uniform({type.shape[0]}, -bound, bound, generator, options);
}

Tensor Linear::operator()(At x) const { return linear(x, weight, bias); }

Tensor linear(At x, const Tensor& weight, const Tensor& bias) {
  LooseComposite call("linear", x.loc);
  Tensor value = resolve(x, "linear");
  const Tensor matrix = resolve(At(weight, call.loc()), "linear");
  const Type type = type_of(value), weights = type_of(matrix);
  if (weights.shape.rank() != 2) fail("linear", call.loc(), "takes a weight [out, in], it is ", to_string(weights));
  if (type.shape.rank() < 1 || !(type.shape[type.shape.rank() - 1] == weights.shape[1]))
    fail("linear", call.loc(), "takes ", dims::to_string(weights.shape[1]), " features, the input is ",
         to_string(type));
  if (type.device != weights.device)
    fail("linear", call.loc(), "input and weight live on different devices, move one by to(): ", to_string(type), " x ",
         to_string(weights));
  // All leading axes are rows of one product: so are those of the gradients.
  bool batched = type.shape.rank() > 2;
  const bool single = type.shape.rank() == 1;
  const Tensor rows = batched ? flatten(value, 0, -2) : single ? unsqueeze(value, 0) : value;
  const Tensor y =
      linear_product(rows, matrix, bias.defined() ? resolve(At(bias, call.loc()), "linear") : bias, call.loc());
  if (single) return squeeze(y, 0);
  if (!batched) return y;
  Shape shape = type.shape;
  shape[shape.rank() - 1] = weights.shape[0];
  return reshape(y, shape);
}

// ---- whole models --------------------------------------------------------------------------------------------------

namespace detail {
namespace {

using weft::detail::Leaf;

template <class F>
void each_floating(const LeafList& leaves, F f) {
  for (const Leaf& leaf : leaves.leaves)
    if (holds_tensor(leaf.kind) && leaf.tensor().defined() && is_floating(type_of(leaf.tensor()).dtype)) f(leaf);
}
Tensor wide(const Tensor& value) { return type_of(value).dtype == DType::f64 ? value : cast(value, DType::f32); }

// A negative limit would turn every gradient around. The value of a Tensor or Scalar is not known when it is recorded.
void check_limit(const char* name, const char* option, const At& limit, Loc loc) {
  if (limit.tensor || limit.symbolic) return;
  const double value = limit.kind == DTypeKind::floating ? limit.number : static_cast<double>(limit.integer);
  if (!(value >= 0)) fail(name, loc, option, " must be 0 or more, it is ", value);
}

}  // namespace

void refuse_pattern(const char* pattern, const std::vector<std::string>& paths, Loc loc) {
  if (paths.empty()) fail("freeze", loc, "no parameter is named ", pattern, ": the model has no parameters");
  fail("freeze", loc, "no parameter is named ", pattern, ": they are ", nearest_names(pattern, paths));
}

Tensor clip_grad_norm(const LeafList& gradients, At max_norm, double norm_type) {
  LooseComposite call("clip_grad_norm", max_norm.loc);
  check_limit("clip_grad_norm", "max_norm", max_norm, call.loc());
  if (!(norm_type > 0)) fail("clip_grad_norm", call.loc(), "the norm's type must be positive, it is ", norm_type);
  const bool greatest = std::isinf(norm_type);
  const auto joined = [&](const Tensor& a, const Tensor& b) { return greatest ? maximum(a, b) : a + b; };
  Tensor total, of_parts;  // of_parts: of what this process holds a part of
  each_floating(gradients, [&](const Leaf& leaf) {
    if (type_of(leaf.tensor()).shape.element_count() == 0) return;
    const Tensor value = wide(leaf.tensor());
    const Tensor part = greatest         ? amax(abs(value))
                        : norm_type == 2 ? sum(square(value))
                                         : sum(pow(abs(value), norm_type));
    Tensor& so_far = leaf.shard() ? of_parts : total;
    so_far = so_far.defined() ? joined(so_far, part) : part;
  });
  if (of_parts.defined()) {
    const Tensor all =
        greatest ? amax(distributed::all_gather(unsqueeze(of_parts, 0))) : distributed::all_reduce(of_parts);
    total = total.defined() ? joined(total, all) : all;
  }
  if (!total.defined()) return zeros({}, {}, call.loc());
  if (!greatest) total = norm_type == 2 ? sqrt(total) : pow(total, 1 / norm_type);
  const Tensor scale = minimum(max_norm / (total + 1e-6), 1.0);
  each_floating(gradients, [&](const Leaf& leaf) {
    const DType dtype = type_of(leaf.tensor()).dtype;
    leaf.tensor() = cast(wide(leaf.tensor()) * scale, dtype);
  });
  return total;
}

void clip_grad_value(const LeafList& gradients, At clip_value) {
  LooseComposite call("clip_grad_value", clip_value.loc);
  check_limit("clip_grad_value", "clip_value", clip_value, call.loc());
  each_floating(gradients,
                [&](const Leaf& leaf) { leaf.tensor() = minimum(maximum(leaf.tensor(), -clip_value), clip_value); });
}

void move(const LeafList& leaves, Device device, Loc loc) {
  for (const Leaf& leaf : leaves.leaves)
    if (holds_tensor(leaf.kind) && leaf.tensor().defined() && leaf.tensor().rank(loc) > 0)
      leaf.tensor() = weft::to(leaf.tensor(), device, loc);
}

void convert(const LeafList& leaves, DType dtype, Loc loc) {
  LooseComposite call("to", loc);
  if (!is_floating(dtype)) fail("to", call.loc(), "a model's dtype must be floating, it is ", info(dtype).name);
  each_floating(leaves, [&](const Leaf& leaf) {
    if (leaf.kind <= LeafKind::buffer) leaf.tensor() = cast(leaf.tensor(), dtype);
  });
}

void lerp_into(Tensor& average, const Tensor& value, At weight) {
  LooseComposite call("lerp_into", weight.loc);
  average =
      is_floating(type_of(value).dtype) ? cast(average + (value - average) * weight, type_of(average).dtype) : value;
}

}  // namespace detail
}  // namespace weft::nn
