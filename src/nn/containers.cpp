// Layers that change shapes, products of two inputs, and activations with parameters.
#include "weft/nn/containers.hpp"

#include <cmath>

#include "base/fail.hpp"
#include "base/number_checks.hpp"
#include "record/composite.hpp"
#include "record/products.hpp"
#include "record/record.hpp"
#include "weft/nn/activation.hpp"

namespace weft::nn {

Tensor detail::same(At x) { return resolve(x, "Identity"); }

Tensor rrelu(At given, double lower, double upper, bool training, Generator& generator) {
  LooseComposite call("rrelu", given.loc);
  check_numbers("rrelu", Bounds::finite, {{"lower", lower}, {"upper", upper}}, call.loc());
  if (lower > upper) fail("rrelu", call.loc(), "lower is at most upper, they are ", lower, " and ", upper);
  if (!training) return leaky_relu(given, (lower + upper) / 2);
  Tensor x = resolve(given, "rrelu");
  if (!is_floating(type_of(x).dtype)) x = cast(x, DType::f32);
  const Type type = type_of(x);
  const DType wide = computed_in(type.dtype);
  const Tensor slope = uniform(type.shape, lower, upper, generator, {wide, type.device}, call.loc());
  const Tensor value = cast(x, wide);
  return cast(where(value >= 0, value, value * slope), type.dtype);
}

Tensor glu(At x, int axis) {
  LooseComposite call("glu", x.loc);
  const Tensor value = resolve(x, "glu");
  const Type type = type_of(value);
  const int along = normalize_axis("glu", axis, type.shape.rank(), call.loc());
  const Dim size = type.shape[along];
  if (!(size % Dim(2) == Dim(0)))
    fail("glu", call.loc(), "axis ", axis, " does not have two halves: ", to_string(type));
  const auto gated = [&](const Tensor& whole) {
    return slice(whole, along, 0, size / Dim(2)) * sigmoid(slice(whole, along, size / Dim(2), size));
  };
  return is_floating(type.dtype) ? in_wide(value, gated) : gated(value);
}

PReLU::PReLU(std::int64_t num_parameters, double init, Options options, Loc loc) {
  if (num_parameters < 1) fail("PReLU", loc, "the number of parameters must be positive, it is ", num_parameters);
  weight = full({num_parameters}, At(init, loc), options);
}

SwiGLU::SwiGLU(std::int64_t features, std::int64_t hidden, LinearOptions options, Loc loc)
    : gate(features, hidden, options, loc), up(features, hidden, options, loc), down(hidden, features, options, loc) {}
Tensor SwiGLU::operator()(At x) const {
  LooseComposite call("SwiGLU", x.loc);
  return down(silu(gate(x)) * up(x));
}

Unflatten::Unflatten(int axis, Sizes given, Loc loc) : axis(axis) {
  for (const Dim size : given.shape()) sizes.push_back(static_cast<std::int64_t>(size));
  if (sizes.empty()) fail("Unflatten", loc, "needs sizes");
}
Tensor Unflatten::operator()(At x) const {
  LooseComposite call("Unflatten", x.loc);
  const Tensor value = resolve(x, "Unflatten");
  const Type type = type_of(value);
  const int along = normalize_axis("Unflatten", axis, type.shape.rank(), call.loc());
  if (type.shape.rank() - 1 + static_cast<int>(sizes.size()) > max_rank)
    fail("Unflatten", call.loc(), "gives too many axes: ", to_string(type));
  Dim known = 1;
  bool open = false;
  for (const std::int64_t size : sizes)
    if (size < 0 && !open)
      open = true;
    else
      known = known * Dim(size);
  const Dim whole = type.shape[along];
  if (!(known > Dim(0)) || !(open ? whole % known == Dim(0) : whole == known))
    fail("Unflatten", call.loc(), "axis ", axis, " is not of these sizes: ", to_string(type));
  Shape shape;
  for (int i = 0; i < type.shape.rank(); ++i) {
    if (i != along) shape.push_back(type.shape[i]);
    if (i == along)
      for (const std::int64_t size : sizes) shape.push_back(size < 0 ? whole / known : Dim(size));
  }
  return reshape(value, shape);
}

Tensor bilinear(At left, At right, const Tensor& weight, const Tensor& bias) {
  LooseComposite call("bilinear", left.loc);
  const Tensor a = resolve(left, "bilinear"), b = resolve(right, "bilinear");
  const Tensor w = resolve(At(weight, call.loc()), "bilinear");
  const Type ta = type_of(a), tb = type_of(b), tw = type_of(w);
  const int rank = ta.shape.rank();
  bool fits = rank > 0 && tb.shape.rank() == rank && tw.shape.rank() == 3 && ta.shape[rank - 1] == tw.shape[1] &&
              tb.shape[rank - 1] == tw.shape[2];
  for (int axis = 0; fits && axis + 1 < rank; ++axis) fits = ta.shape[axis] == tb.shape[axis];
  if (!fits)
    fail("bilinear", call.loc(), "takes [..., in1], [..., in2] and a weight [out, in1, in2]: ", to_string(ta), " x ",
         to_string(tb), " x ", to_string(tw));
  // Products of the first with the weight are one matrix product; those of the second are summed up.
  const Tensor rows = rank == 1 ? unsqueeze(a, 0) : flatten(a, 0, -2),
               others = rank == 1 ? unsqueeze(b, 0) : flatten(b, 0, -2);
  const Tensor products = accumulated_matmul(rows, flatten(permute(w, {1, 0, 2}), 1, 2), call.loc());
  const Shape parts = Shape::of(type_of(rows).shape[0], tw.shape[0], tw.shape[2]);
  const auto dtype_beside = [](DType dtype, const Tensor& other) {
    const Type& type = type_of(other);
    return promote({dtype, false, false}, {type.dtype, false, type.weak});
  };
  DType dtype = dtype_beside(dtype_beside(ta.dtype, w), b);
  Tensor y = sum(reshape(products, parts) * cast(unsqueeze(others, 1), dtype_of_sums(dtype)), -1);
  if (bias.defined()) {
    y = y + bias;
    dtype = dtype_beside(dtype, bias);
  }
  y = cast(y, dtype);  // sums of integers alone are i64
  Shape shape = ta.shape;
  shape[rank - 1] = tw.shape[0];
  return reshape(y, shape);
}
Bilinear::Bilinear(std::int64_t in1, std::int64_t in2, std::int64_t out, LinearOptions how, Loc loc) {
  LooseComposite call("Bilinear", loc);
  if (in1 < 1 || in2 < 1 || out < 1)
    fail("Bilinear", call.loc(), "sizes must be positive: ", in1, " and ", in2, " in, ", out, " out");
  weight = zeros({out, in1, in2}, how.options, call.loc());
  if (how.bias)
    bias = zeros({out}, how.options, call.loc());
  else
    bias.frozen = true;
  initialize(default_generator());
}
void Bilinear::initialize(Generator& generator) {
  const Type type = type_of(weight.tensor());
  const double bound = 1 / std::sqrt(static_cast<double>(static_cast<std::int64_t>(type.shape[1])));
  const Options options{type.dtype, type.device};
  weight.tensor() = uniform(type.shape, -bound, bound, generator, options);
  if (bias.tensor().defined()) bias.tensor() = uniform({type.shape[0]}, -bound, bound, generator, options);
}

}  // namespace weft::nn
