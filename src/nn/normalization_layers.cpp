// The layers of normalization: their parameters, their running statistics, and what a call of them checks.
#include "base/fail.hpp"
#include "base/number_checks.hpp"
#include "nn/normalization.hpp"
#include "weft/nn/normalization.hpp"

namespace weft::nn {
namespace {

std::vector<std::int64_t> numbers_of(const char* name, const Sizes& sizes, Loc loc) {
  std::vector<std::int64_t> numbers;
  for (const Dim size : sizes.shape()) numbers.push_back(static_cast<std::int64_t>(size));
  for (const std::int64_t size : numbers)
    if (size < 1) fail(name, loc, "sizes must be positive, one is ", size);
  if (numbers.empty()) fail(name, loc, "needs an axis to normalize");
  return numbers;
}
void make(Param& param, bool wanted, const Sizes& sizes, double value, const Options& options, Loc loc) {
  if (wanted)
    param = full(sizes, At(value, loc), options);
  else
    param.frozen = true;
}
void start_at(Tensor& place, double value) {
  if (place.defined()) place = full_like(place, value);
}
template <class Norm>
void start(Norm& norm) {
  start_at(norm.weight.tensor(), 1), start_at(norm.bias.tensor(), 0);
}
template <class Norm, class NormOptions>
void make_tracked(const char* name, Norm& norm, std::int64_t channels, const NormOptions& options, Loc loc) {
  LooseComposite call(name, loc);
  if (channels < 1) fail(name, call.loc(), "the number of channels must be positive, it is ", channels);
  check_numbers(name, Bounds::not_negative, {{"eps", options.eps}}, call.loc());
  if (!(options.momentum < 0)) check_numbers(name, Bounds::share, {{"momentum", options.momentum}}, call.loc());
  make(norm.weight, options.affine, {channels}, 1, options.options, call.loc());
  make(norm.bias, options.affine, {channels}, 0, options.options, call.loc());
  if (!options.track_running_stats) return;
  norm.running_mean = zeros({channels}, options.options, call.loc());
  norm.running_var = ones({channels}, options.options, call.loc());
  norm.num_batches_tracked = zeros({}, {DType::i64}, call.loc());
}
template <class Norm>
void start_tracked(Norm& norm) {
  start(norm);
  start_at(norm.running_mean.tensor(), 0), start_at(norm.running_var.tensor(), 1);
  start_at(norm.num_batches_tracked.tensor(), 0);
}
template <class Norm>
void check_channels(const char* name, const Norm& norm, const Tensor& x, int channels, int spatial, bool axes_fit,
                    Loc loc) {
  const Type& type = type_of(x);
  if (!axes_fit || !(type.shape[channels] == Dim(norm.num_features)))
    fail(name, loc, "takes ", norm.num_features, " channels and ", spatial, " axes after them: ", to_string(type));
}
// Counts a batch of training. Where the running statistics are averages: the part of this batch in them.
template <class Norm>
Tensor count_batch(const char* name, Norm& norm, Loc loc) {
  if (!norm.training || !norm.running_mean.tensor().defined()) return {};
  refuse_shared_statistics(name, norm.running_mean.tensor(), loc);
  norm.num_batches_tracked += 1;
  return norm.momentum < 0 ? reciprocal(cast(norm.num_batches_tracked, DType::f64)) : Tensor();
}
template <class Norm>
void refuse_const(const char* name, const Norm& norm, Loc loc) {
  if (norm.training && norm.running_mean.tensor().defined())
    fail(name, loc,
         "is const, and its running statistics change in training: take the model by reference, or call eval(model)");
}
template <class Norm>
Tensor run_batch(Norm& norm, const At& x, int spatial, RunningStatistics running, Loc loc) {
  const Tensor value = resolve(x, "BatchNorm");
  const int rank = type_of(value).shape.rank();
  check_channels("BatchNorm", norm, value, 1, spatial, rank == spatial + 2 || (spatial == 1 && rank == 2), loc);
  const bool own = norm.training || !running.mean.defined();
  Tensor momentum;
  if constexpr (!std::is_const_v<Norm>) momentum = count_batch("BatchNorm", norm, loc);
  return normalize_batch(At(value, loc), running, norm.weight, norm.bias, own,
                         momentum.defined() ? At(momentum, loc) : At(norm.momentum, loc), norm.eps, loc);
}
template <class Norm>
Tensor run_instances(Norm& norm, const At& x, int spatial, RunningStatistics running, Loc loc) {
  Tensor value = resolve(x, "InstanceNorm");
  const int rank = type_of(value).shape.rank();
  const bool single = rank == spatial + 1;
  check_channels("InstanceNorm", norm, value, single ? 0 : 1, spatial, single || rank == spatial + 2, loc);
  if (single) value = unsqueeze(value, 0);
  Tensor momentum;
  if constexpr (!std::is_const_v<Norm>) momentum = count_batch("InstanceNorm", norm, loc);
  const Tensor result =
      normalize_instances(At(value, loc), running, norm.weight, norm.bias, norm.training || !running.mean.defined(),
                          momentum.defined() ? At(momentum, loc) : At(norm.momentum, loc), norm.eps, loc);
  return single ? squeeze(result, 0) : result;
}

}  // namespace

LayerNorm::LayerNorm(Sizes shape, LayerNormOptions options, Loc loc) : eps(options.eps) {
  LooseComposite call("LayerNorm", loc);
  check_numbers("LayerNorm", Bounds::not_negative, {{"eps", eps}}, call.loc());
  normalized_shape = numbers_of("LayerNorm", shape, call.loc());
  make(weight, options.elementwise_affine, normalized_shape, 1, options.options, call.loc());
  make(bias, options.elementwise_affine && options.bias, normalized_shape, 0, options.options, call.loc());
}
LayerNorm::LayerNorm(std::int64_t size, LayerNormOptions options, Loc loc) : LayerNorm(Sizes{size}, options, loc) {}
Tensor LayerNorm::operator()(At x) const { return layer_norm(x, normalized_shape, weight, bias, eps); }
void LayerNorm::initialize(Generator&) { start(*this); }

RMSNorm::RMSNorm(Sizes shape, RMSNormOptions options, Loc loc) : eps(options.eps) {
  LooseComposite call("RMSNorm", loc);
  check_numbers("RMSNorm", Bounds::finite, {{"eps", eps}}, call.loc());
  normalized_shape = numbers_of("RMSNorm", shape, call.loc());
  make(weight, options.elementwise_affine, normalized_shape, 1, options.options, call.loc());
}
RMSNorm::RMSNorm(std::int64_t size, RMSNormOptions options, Loc loc) : RMSNorm(Sizes{size}, options, loc) {}
Tensor RMSNorm::operator()(At x) const { return rms_norm(x, normalized_shape, weight, eps); }
void RMSNorm::initialize(Generator&) { start_at(weight.tensor(), 1); }

GroupNorm::GroupNorm(std::int64_t num_groups, std::int64_t num_channels, GroupNormOptions options, Loc loc)
    : num_groups(num_groups), num_channels(num_channels), eps(options.eps) {
  LooseComposite call("GroupNorm", loc);
  check_numbers("GroupNorm", Bounds::not_negative, {{"eps", eps}}, call.loc());
  if (num_groups < 1 || num_channels < 1 || num_channels % num_groups != 0)
    fail("GroupNorm", call.loc(), num_channels, " channels don't come in ", num_groups, " groups");
  make(weight, options.affine, {num_channels}, 1, options.options, call.loc());
  make(bias, options.affine, {num_channels}, 0, options.options, call.loc());
}
Tensor GroupNorm::operator()(At x) const {
  Operation call("GroupNorm", x.loc);
  const Tensor value = resolve(x, "GroupNorm");
  const Type& type = type_of(value);
  if (type.shape.rank() < 2 || !(type.shape[1] == Dim(num_channels)))
    fail("GroupNorm", call.loc(), "takes ", num_channels, " channels: ", to_string(type));
  return group_norm(At(value, call.loc()), num_groups, weight, bias, eps);
}
void GroupNorm::initialize(Generator&) { start(*this); }

template <int spatial>
BatchNorm<spatial>::BatchNorm(std::int64_t num_features, BatchNormOptions options, Loc loc)
    : num_features(num_features), eps(options.eps), momentum(options.momentum) {
  make_tracked("BatchNorm", *this, num_features, options, loc);
}
template <int spatial>
Tensor BatchNorm<spatial>::operator()(At x) {
  Operation call("BatchNorm", x.loc);
  return run_batch(*this, x, spatial, {running_mean.tensor(), running_var.tensor()}, call.loc());
}
template <int spatial>
Tensor BatchNorm<spatial>::operator()(At x) const {
  Operation call("BatchNorm", x.loc);
  refuse_const("BatchNorm", *this, call.loc());
  Tensor mean = running_mean, variance = running_var;
  return run_batch(*this, x, spatial, {mean, variance}, call.loc());
}
template <int spatial>
void BatchNorm<spatial>::initialize(Generator&) {
  start_tracked(*this);
}
template struct BatchNorm<1>;
template struct BatchNorm<2>;
template struct BatchNorm<3>;

template <int spatial>
InstanceNorm<spatial>::InstanceNorm(std::int64_t num_features, InstanceNormOptions options, Loc loc)
    : num_features(num_features), eps(options.eps), momentum(options.momentum) {
  make_tracked("InstanceNorm", *this, num_features, options, loc);
}
template <int spatial>
Tensor InstanceNorm<spatial>::operator()(At x) {
  Operation call("InstanceNorm", x.loc);
  return run_instances(*this, x, spatial, {running_mean.tensor(), running_var.tensor()}, call.loc());
}
template <int spatial>
Tensor InstanceNorm<spatial>::operator()(At x) const {
  Operation call("InstanceNorm", x.loc);
  refuse_const("InstanceNorm", *this, call.loc());
  Tensor mean = running_mean, variance = running_var;
  return run_instances(*this, x, spatial, {mean, variance}, call.loc());
}
template <int spatial>
void InstanceNorm<spatial>::initialize(Generator&) {
  start_tracked(*this);
}
template struct InstanceNorm<1>;
template struct InstanceNorm<2>;
template struct InstanceNorm<3>;

}  // namespace weft::nn
