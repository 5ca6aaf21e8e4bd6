// Normalizations as composites: statistics over axes, then a scale and a shift. In: an operand, optional weights. Out:
// one call, whose name, axes and eps say what it is.
#include "weft/nn/normalization.hpp"

#include <limits>
#include <numeric>

#include "base/fail.hpp"
#include "base/number_checks.hpp"
#include "nn/normalization.hpp"
#include "record/composite.hpp"
#include "record/loops.hpp"
#include "record/moments.hpp"

namespace weft::nn {
namespace {

// What a call of a normalization says of itself; all of them make it here.
NormalizedCall call_of(const std::string& name, AxisSet axes, double eps, Loc loc) {
  check_numbers(name.c_str(), Bounds::not_negative, {{"eps", eps}}, loc);
  return {called(name), axes, eps};
}

std::vector<int> list_of(AxisSet axes, int rank) {
  std::vector<int> list;
  for (int axis = 0; axis < rank; ++axis)
    if (axes[axis]) list.push_back(axis);
  return list;
}

enum class Center : bool { no, yes };
struct Statistics {
  Tensor value, centered;
  Tensor mean, variance, inverse;  // of the standard deviation; they keep reduced axes as size 1
};
// Mean 0, variance 1 over the axes, in x's dtype, which is wide.
Statistics standardized(const Tensor& x, const std::vector<int>& axes, double eps, Center center) {
  Statistics result;
  Dim count = 1;
  for (const int axis : axes) count = count * type_of(x).shape[axis];
  if (center == Center::yes) result.mean = mean_of_large(x, Axes(axes), true, count, {});
  result.centered = center == Center::yes ? x - result.mean : x;
  result.variance = mean(result.centered * result.centered, axes, true);
  result.inverse = rsqrt(result.variance + eps);
  result.value = result.centered * result.inverse;
  return result;
}

Tensor scaled(Tensor value, std::span<const Tensor> weight_and_bias) {
  const DType dtype = type_of(value).dtype;
  if (weight_and_bias.size() > 0) value = value * cast(weight_and_bias[0], dtype);
  if (weight_and_bias.size() > 1) value = value + cast(weight_and_bias[1], dtype);
  return value;
}

// Operands: x, the weight, the bias. A bias without a weight gets one of ones.
std::vector<Tensor> with_weights(const Tensor& x, const Tensor& weight, const Tensor& bias, Loc loc) {
  std::vector<Tensor> operands{x};
  if (weight.defined())
    operands.push_back(weight);
  else if (bias.defined())
    operands.push_back(constant_like(1, type_of(bias), loc));
  if (bias.defined()) operands.push_back(bias);
  return operands;
}

// Of layer_norm, whose weights have the sizes of its axes, the last ones. The means over a row are of what is known
// before its variance is. So a row has two sums to wait for, one after the other, where the derivative of each
// operation has three.
void differentiate_layer_norm(const CallValues& call, std::span<Tensor> gradients) {
  const auto& how = call.called.as<NormalizedCall>();
  const Type& type = type_of(call.operands[0]);
  const DType wide = computed_in(type.dtype);
  const std::vector<int> axes = list_of(how.axes, type.shape.rank());
  const Statistics of = standardized(cast(call.operands[0], wide), axes, how.eps, Center::yes);
  const Tensor upstream = cast(call.gradients[0], wide);
  const Tensor given = call.operands.size() > 1 ? upstream * cast(call.operands[1], wide) : upstream;
  const Tensor along = mean(given * of.centered, axes, true) * (of.inverse * of.inverse);
  gradients[0] = cast((given - of.centered * along - mean(given, axes, true)) * of.inverse, type.dtype);
  std::vector<int> others(type.shape.rank() - axes.size());
  std::iota(others.begin(), others.end(), 0);
  const auto over_others = [&](const Tensor& each, std::size_t operand) {
    gradients[operand] = cast(others.empty() ? each : sum(each, Axes(others)), type_of(call.operands[operand]).dtype);
  };
  if (call.operands.size() > 1) over_others(upstream * of.value, 1);
  if (call.operands.size() > 2) over_others(upstream, 2);
}

Tensor normalized(const char* name, AxisSet axes, double eps, Center center, const Tensor& x, const Tensor& weight,
                  const Tensor& bias, Loc loc, CallDerivative derivative = nullptr) {
  std::vector<Tensor> operands = with_weights(x, weight, bias, loc);
  const std::vector<int> list = list_of(axes, type_of(x).shape.rank());
  const auto record = [&](std::span<const Tensor> inputs, std::span<Tensor> results) {
    results[0] = in_wide(inputs[0], [&](const Tensor& value) {
      return scaled(standardized(value, list, eps, center).value, inputs.subspan(1));
    });
  };
  Tensor result;
  composite(call_of(name, axes, eps, loc), operands, std::span(&result, 1), loc, record, derivative);
  return result;
}

// Of batch_norm and instance_norm, whose weights have one number a channel [C, 1, ...], the same along the axes. The
// gradient of x is of the two sums that are the gradients of the weights, so that a channel's values are walked twice,
// where the derivative of each operation walks them three times. The mean and the variance may be results, which have
// gradients of their own.
void differentiate_by_channel(const CallValues& call, std::span<Tensor> gradients) {
  const auto& how = call.called.as<NormalizedCall>();
  const Type& type = type_of(call.operands[0]);
  const DType wide = computed_in(type.dtype);
  const std::vector<int> axes = list_of(how.axes, type.shape.rank());
  const Tensor x = cast(call.operands[0], wide);
  Statistics of;
  if (call.results.size() > 1) {
    of.centered = x - call.results[1];
    of.inverse = rsqrt(call.results[2] + how.eps);
  } else {
    of = standardized(x, axes, how.eps, Center::yes);
  }
  Dim count = 1;
  for (const int axis : axes) count = count * type.shape[axis];
  Tensor found;
  const auto add = [&](const Tensor& each) { found = found.defined() ? found + each : each; };
  if (call.gradients[0].defined()) {
    const Tensor upstream = cast(call.gradients[0], wide);
    const Tensor value = of.centered * of.inverse;  // in the sums, so that a batch of nothing has gradients of 0
    const Tensor along = sum(upstream * value, axes, true), all = sum(upstream, axes, true);
    const auto of_channels = [&](const Tensor& each, std::size_t operand) {
      const Type& weight = type_of(call.operands[operand]);
      gradients[operand] = cast(reshape(how.axes[0] ? each : sum(each, 0, true), weight.shape), weight.dtype);
    };
    if (call.operands.size() > 1) of_channels(along, 1);
    if (call.operands.size() > 2) of_channels(all, 2);
    const Tensor scale = call.operands.size() > 1 ? of.inverse * cast(call.operands[1], wide) : of.inverse;
    add((upstream - all / At(count, {}) - value * (along / At(count, {}))) * scale);
  }
  if (call.gradients.size() > 1 && call.gradients[1].defined()) add(call.gradients[1] / At(count, {}));
  if (call.gradients.size() > 2 && call.gradients[2].defined())
    add(of.centered * (call.gradients[2] * 2 / At(count, {})));
  if (found.defined()) gradients[0] = cast(expand(found, type.shape), type.dtype);
}

Tensor given(const char* name, const Tensor& operand, Loc loc) {
  return operand.defined() ? resolve(At(operand, loc), name) : operand;
}

// The last axes of x, which are those of `shape`.
Tensor over_last_axes(const char* name, const Tensor& x, const Shape& shape, const Tensor& weight, const Tensor& bias,
                      double eps, Center center, Loc loc) {
  const Type& type = type_of(x);
  const int first = type.shape.rank() - shape.rank();
  const auto fits = [&](const Tensor& each) {
    return !each.defined() || (is_floating(type_of(each).dtype) && type_of(each).shape == shape);
  };
  bool ends = shape.rank() > 0 && first >= 0;
  AxisSet axes;
  for (int i = 0; ends && i < shape.rank(); ++i) ends = type.shape[first + i] == shape[i], axes.insert(first + i);
  if (!ends || !is_floating(type.dtype) || !fits(weight) || !fits(bias))
    fail(name, loc, "takes a floating tensor [..., n], and ",
         center == Center::yes ? "a weight and a bias" : "a weight", " [n]: ", to_string(type),
         weight.defined() ? " x " + to_string(type_of(weight)) : " with " + to_string(shape),
         bias.defined() ? " x " + to_string(type_of(bias)) : "");
  return normalized(name, axes, eps, center, x, weight, bias, loc,
                    center == Center::yes ? differentiate_layer_norm : nullptr);
}

double epsilon_or(double eps, const Tensor& x) {
  if (!(eps < 0)) return eps;
  return type_of(x).dtype == DType::f64 ? std::numeric_limits<double>::epsilon()
                                        : std::numeric_limits<float>::epsilon();
}

}  // namespace

Tensor layer_norm(At x, At weight, At bias, double eps) {
  Operation call("layer_norm", x.loc);
  const Tensor value = resolve(x, "layer_norm"), scale = resolve(weight, "layer_norm");
  return over_last_axes("layer_norm", value, type_of(scale).shape, scale, resolve(bias, "layer_norm"), eps, Center::yes,
                        call.loc());
}
Tensor layer_norm(At x, Sizes shape, const Tensor& weight, const Tensor& bias, double eps) {
  Operation call("layer_norm", x.loc);
  return over_last_axes("layer_norm", resolve(x, "layer_norm"), shape.shape(), given("layer_norm", weight, call.loc()),
                        given("layer_norm", bias, call.loc()), eps, Center::yes, call.loc());
}
Tensor rms_norm(At x, const Tensor& weight, double eps) {
  Operation call("rms_norm", x.loc);
  const Tensor value = resolve(x, "rms_norm"), scale = resolve(At(weight, call.loc()), "rms_norm");
  return over_last_axes("rms_norm", value, type_of(scale).shape, scale, {}, epsilon_or(eps, value), Center::no,
                        call.loc());
}
Tensor rms_norm(At x, Sizes shape, const Tensor& weight, double eps) {
  Operation call("rms_norm", x.loc);
  const Tensor value = resolve(x, "rms_norm");
  return over_last_axes("rms_norm", value, shape.shape(), given("rms_norm", weight, call.loc()), {},
                        epsilon_or(eps, value), Center::no, call.loc());
}

// ---- over channels --------------------------------------------------------------------------------------------------

namespace {

// x [N, C, ...] and what is given for each channel; throws where one does not fit.
struct Channels {
  Channels(const char* name, const At& x, Loc loc) : name(name), loc(loc), value(resolve(x, name)) {
    const Type& type = type_of(value);
    if (type.shape.rank() < 2 || !is_floating(type.dtype))
      fail(name, loc, "takes a floating tensor [N, C, ...]: ", to_string(type));
    rank = type.shape.rank();
  }
  // [C] as [C, 1, ...], which broadcasts along axis 1.
  Tensor of_channel(const char* what, const Tensor& each) const {
    if (!each.defined()) return each;
    Tensor own = resolve(At(each, loc), name);
    const Type& type = type_of(own);
    if (type.shape.rank() != 1 || !(type.shape[0] == type_of(value).shape[1]) || !is_floating(type.dtype))
      fail(name, loc, "the ", what, " is ", to_string(type),
           ", it must be a floating tensor with the size of axis 1: ", to_string(type_of(value)));
    for (int axis = 2; axis < rank; ++axis) own = unsqueeze(own, -1);
    return own;
  }

  const char* name;
  Loc loc;
  Tensor value;
  int rank;
};

// The running value takes a part of what a batch has: one number a channel, [1, C, 1, ...] or [N, C, 1, ...].
void follow(Tensor& running, const Tensor& of_batch, At momentum) {
  Tensor one = stop_gradient(of_batch);
  one = mean(flatten(one, 1, -1), 0);
  const DType dtype = type_of(running).dtype, wide = computed_in(dtype);
  const Tensor before = cast(running, wide), now = cast(one, wide);
  if (momentum.tensor)
    running = cast(before + (now - before) * cast(momentum, wide), dtype);
  else
    running = cast(before * (1 - momentum.number) + now * momentum.number, dtype);
}

}  // namespace

void refuse_shared_statistics(const char* name, const Tensor& running, Loc loc) {
  const std::uint32_t own = running.node()->trace;
  const std::vector<Trace*>& traces = recorder().traces;
  for (auto each = traces.rbegin(); each != traces.rend() && (*each)->id != own; ++each)
    if (is_example_body((*each)->id))
      fail(name, loc, "its running statistics (", to_string(type_of(running)),
           ") are one for all examples of vmap, and training changes them: call eval(model), or give each example a "
           "model of its own, by stack_module_state");
}

namespace {

// Statistics of x over the axes; `running` follows them where it is defined.
Tensor by_own_statistics(const Channels& x, AxisSet axes, const Tensor& weight, const Tensor& bias, double eps,
                         RunningStatistics running, At momentum) {
  const Tensor scale = x.of_channel("weight", weight), shift = x.of_channel("bias", bias);
  const std::vector<int> list = list_of(axes, x.rank);
  if (!running.mean.defined())
    return normalized(x.name, axes, eps, Center::yes, x.value, scale, shift, x.loc, differentiate_by_channel);
  refuse_shared_statistics(x.name, running.mean, x.loc);
  if (!momentum.tensor) check_numbers(x.name, Bounds::share, {{"momentum", momentum.number}}, x.loc);
  (void)x.of_channel("running mean", running.mean), (void)x.of_channel("running variance", running.variance);
  std::vector<Tensor> operands = with_weights(x.value, scale, shift, x.loc);
  const auto record = [&](std::span<const Tensor> inputs, std::span<Tensor> results) {
    const DType dtype = type_of(inputs[0]).dtype;
    const Statistics found = standardized(cast(inputs[0], computed_in(dtype)), list, eps, Center::yes);
    results[0] = cast(scaled(found.value, inputs.subspan(1)), dtype);
    results[1] = found.mean, results[2] = found.variance;
  };
  Tensor results[3];
  composite(call_of(std::string(x.name) + "_training", axes, eps, x.loc), operands, results, x.loc, record,
            differentiate_by_channel);
  if (x.value.element_count() == Dim(0)) return results[0];  // a batch of nothing has no statistics
  Dim count = 1;
  for (const int axis : list) count = count * type_of(x.value).shape[axis];
  follow(running.mean, results[1], momentum);
  follow(running.variance, results[2] * At(count, x.loc) / At(count - 1, x.loc), momentum);
  return results[0];
}

Tensor by_running_statistics(const Channels& x, const Tensor& weight, const Tensor& bias, double eps,
                             RunningStatistics running) {
  std::vector<Tensor> operands =
      with_weights(x.value, x.of_channel("weight", weight), x.of_channel("bias", bias), x.loc);
  operands.push_back(x.of_channel("running mean", running.mean));
  operands.push_back(x.of_channel("running variance", running.variance));
  const auto record = [eps](std::span<const Tensor> inputs, std::span<Tensor> results) {
    results[0] = in_wide(inputs[0], [&](const Tensor& value) {
      const DType dtype = type_of(value).dtype;
      const std::size_t weights = inputs.size() - 3;
      const Tensor mean = cast(inputs[weights + 1], dtype), variance = cast(inputs[weights + 2], dtype);
      return scaled((value - mean) * rsqrt(variance + eps), inputs.subspan(1, weights));
    });
  };
  Tensor result;
  composite(call_of(std::string(x.name) + "_inference", {}, eps, x.loc), operands, std::span(&result, 1), x.loc,
            record);
  return result;
}

}  // namespace

Tensor normalize_batch(const At& input, RunningStatistics running, const Tensor& weight, const Tensor& bias,
                       bool training, At momentum, double eps, Loc loc) {
  const Channels x("batch_norm", input, loc);
  if (!training && running.mean.defined()) return by_running_statistics(x, weight, bias, eps, running);
  AxisSet axes;
  Dim count = 1;
  for (int axis = 0; axis < x.rank; ++axis)
    if (axis != 1) axes.insert(axis), count = count * type_of(x.value).shape[axis];
  if (training && count == Dim(1))
    fail("batch_norm", loc, "needs more than 1 number a channel in training: ", to_string(type_of(x.value)));
  Tensor none;
  return by_own_statistics(x, axes, weight, bias, eps, training ? running : RunningStatistics{none, none}, momentum);
}
Tensor normalize_instances(const At& input, RunningStatistics running, const Tensor& weight, const Tensor& bias,
                           bool own, At momentum, double eps, Loc loc) {
  const Channels x("instance_norm", input, loc);
  if (!own && running.mean.defined()) return by_running_statistics(x, weight, bias, eps, running);
  AxisSet axes;
  Dim count = 1;
  for (int axis = 2; axis < x.rank; ++axis) axes.insert(axis), count = count * type_of(x.value).shape[axis];
  if (count == Dim(1)) fail("instance_norm", loc, "needs more than 1 number a channel: ", to_string(type_of(x.value)));
  return by_own_statistics(x, axes, weight, bias, eps, running, momentum);
}

Tensor group_norm(At input, std::int64_t num_groups, const Tensor& weight, const Tensor& bias, double eps) {
  Operation call("group_norm", input.loc);
  const Channels x("group_norm", input, call.loc());
  const Shape shape = type_of(x.value).shape;
  if (num_groups < 1 || !(shape[1] % Dim(num_groups) == Dim(0)))
    fail("group_norm", call.loc(), "the channels don't come in ", num_groups, " groups: ", to_string(type_of(x.value)));
  // As in PyTorch only the batch may be of nothing, and one sample needs more than one number a group.
  Dim count = shape[0] * (shape[1] / Dim(num_groups));
  for (int axis = 1; axis < x.rank; ++axis) {
    if (shape[axis] == Dim(0))
      fail("group_norm", call.loc(), "of no elements along axis ", axis, ": ", to_string(type_of(x.value)));
    if (axis > 1) count = count * shape[axis];
  }
  if (count == Dim(1))
    fail("group_norm", call.loc(), "needs more than 1 number a group: ", to_string(type_of(x.value)));
  // [N, groups, C / groups, ...]: the weights have the two axes in the place of one.
  const auto grouped = [&](const Tensor& each, int axis) {
    if (!each.defined()) return each;
    const Shape from = type_of(each).shape;
    Shape to;
    for (int i = 0; i < from.rank(); ++i) {
      if (i == axis) to.push_back(num_groups);
      to.push_back(i == axis ? from[i] / Dim(num_groups) : from[i]);
    }
    return reshape(each, to);
  };
  if (x.rank == max_rank) fail("group_norm", call.loc(), "has too many axes: ", to_string(type_of(x.value)));
  AxisSet axes;
  for (int axis = 2; axis <= x.rank; ++axis) axes.insert(axis);
  const Tensor result =
      normalized("group_norm", axes, eps, Center::yes, grouped(x.value, 1), grouped(x.of_channel("weight", weight), 0),
                 grouped(x.of_channel("bias", bias), 0), call.loc());
  return reshape(result, shape);
}

Tensor batch_norm(At x, Tensor& running_mean, Tensor& running_var, const Tensor& weight, const Tensor& bias,
                  bool training, double momentum, double eps) {
  Operation call("batch_norm", x.loc);
  return normalize_batch(x, {running_mean, running_var}, weight, bias, training, momentum, eps, call.loc());
}
Tensor instance_norm(At x, const Tensor& weight, const Tensor& bias, double eps) {
  Operation call("instance_norm", x.loc);
  Tensor none;
  return normalize_instances(x, {none, none}, weight, bias, true, 0.1, eps, call.loc());
}
Tensor instance_norm(At x, Tensor& running_mean, Tensor& running_var, const Tensor& weight, const Tensor& bias,
                     bool use_input_stats, double momentum, double eps) {
  Operation call("instance_norm", x.loc);
  return normalize_instances(x, {running_mean, running_var}, weight, bias, use_input_stats, momentum, eps, call.loc());
}

Tensor local_response_norm(At input, std::int64_t size, double alpha, double beta, double k) {
  LooseComposite call("local_response_norm", input.loc);
  const Channels x("local_response_norm", input, call.loc());
  if (size < 1) fail("local_response_norm", call.loc(), "the size must be positive, it is ", size);
  check_numbers("local_response_norm", Bounds::finite, {{"alpha", alpha}, {"beta", beta}, {"k", k}}, call.loc());
  if (x.value.element_count().same(Dim(0))) return x.value;
  return in_wide(x.value, [&](const Tensor& value) {
    const Tensor padded = pad(value * value, 1, size / 2, (size - 1) / 2);
    return value / pow(mean(unfold(padded, 1, size), -1) * alpha + k, beta);
  });
}

}  // namespace weft::nn
