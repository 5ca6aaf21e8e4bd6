#include "weft/nn/dropout.hpp"

#include <cmath>

#include "base/fail.hpp"
#include "record/record.hpp"

namespace weft {

Tensor dropout(At x, double p, bool training, Generator& generator) {
  LooseComposite call("dropout", x.loc);
  nn::detail::check_dropout("dropout", p, call.loc());
  return training ? dropout(x, p, generator) : resolve(x, "dropout");
}

namespace nn {

double detail::check_dropout(const char* name, double p, Loc loc) {
  if (!(p >= 0 && p <= 1)) fail(name, loc, "the probability must be in [0, 1], it is ", p);
  return p;
}

namespace {

// True with the probability 1 - p: for each element, or for each of the first axes.
Tensor kept(const Tensor& x, double p, int axes, Generator& generator, Loc loc) {
  const Type type = type_of(x);
  Shape shape = type.shape;
  for (int axis = axes; axis < shape.rank(); ++axis) shape[axis] = 1;
  return uniform(shape, 0, 1, generator, {DType::f32, type.device}, loc) >= p;
}

Tensor checked(const char* name, const At& x, double p, Loc loc) {
  detail::check_dropout(name, p, loc);
  const Tensor value = resolve(x, name);
  if (!is_floating(type_of(value).dtype)) fail(name, loc, "takes a floating tensor: ", to_string(type_of(value)));
  return value;
}

Tensor alpha_dropped(const char* name, const At& x, double p, bool training, bool channels, Generator& generator) {
  LooseComposite call(name, x.loc);
  const Tensor value = checked(name, x, p, call.loc());
  const DType dtype = type_of(value).dtype;
  const int rank = type_of(value).shape.rank();
  if (channels && rank < 2) fail(name, call.loc(), "takes a tensor [N, C, ...]: ", to_string(type_of(value)));
  if (!training || p == 0) return value;
  if (p == 1) return value * 0;
  constexpr double low = -1.7580993408473766;  // of selu at -infinity
  const double scale = 1 / std::sqrt((1 - p) * (1 + p * low * low)), shift = -scale * p * low;
  const Tensor wide = cast(value, computed_in(dtype));
  return cast(where(kept(value, p, channels ? 2 : rank, generator, call.loc()), wide, low) * scale + shift, dtype);
}

}  // namespace

Tensor dropout_channels(At x, double p, bool training, int spatial, Generator& generator) {
  LooseComposite call("dropout_channels", x.loc);
  const Tensor value = checked("dropout_channels", x, p, call.loc());
  const int rank = type_of(value).shape.rank();
  if (rank != spatial + 2 && rank != spatial + 1)
    fail("dropout_channels", call.loc(), "takes [N, C, ...] or [C, ...] of ", spatial,
         " axes after the channels: ", to_string(type_of(value)));
  if (!training || p == 0) return value;
  const Tensor mask = kept(value, p, rank == spatial + 2 ? 2 : 1, generator, call.loc());
  return where(mask, p == 1 ? value : value / (1 - p), 0);
}
Tensor alpha_dropout(At x, double p, bool training, Generator& generator) {
  return alpha_dropped("alpha_dropout", x, p, training, false, generator);
}
Tensor feature_alpha_dropout(At x, double p, bool training, Generator& generator) {
  return alpha_dropped("feature_alpha_dropout", x, p, training, true, generator);
}

}  // namespace nn
}  // namespace weft
