// Norms along an axis, and distances, loose: several numbers say what each is.
#include <limits>

#include "base/fail.hpp"
#include "record/composite.hpp"
#include "weft/nn/normalization.hpp"

namespace weft::nn {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

Tensor sum_of_powers(const Tensor& x, double p, int axis) {
  const auto body = [p](const Tensor& x) { return p == 1 ? abs(x) : p == 2 ? x * x : pow(abs(x), p); };
  return sum(body(x), axis, true);
}
// Of an x that is wide; keeps the axis.
Tensor norm_along(const Tensor& x, double p, int axis) {
  if (p == 2) return norm(x, axis, true);
  if (p == infinity) return amax(abs(x), axis, true);
  const Tensor total = sum_of_powers(x, p, axis);
  return p == 1 ? total : pow(total, 1 / p);
}

void check_order(const char* name, double p, Loc loc) {
  if (!(p > 0)) fail(name, loc, "p must be positive, it is ", p);
}
}  // namespace

Tensor normalize(At x, double p, int axis, double eps) {
  LooseComposite call("normalize", x.loc);
  check_order("normalize", p, call.loc());
  return in_wide(resolve(x, "normalize"),
                 [&](const Tensor& value) { return value / maximum(norm_along(value, p, axis), eps); });
}
Tensor cosine_similarity(At left, At right, int axis, double eps) {
  LooseComposite call("cosine_similarity", left.loc);
  Tensor values[] = {resolve(left, "cosine_similarity"), resolve(right, "cosine_similarity")};
  unify("cosine_similarity", values, DTypeClass::floating, call.loc());
  return in_wide(values[0], [&](const Tensor& a) {
    const Tensor b = cast(values[1], type_of(a).dtype);
    // The bound changes the value alone: the derivative is that of the length, as in PyTorch.
    const auto unit = [&](const Tensor& each) {
      const Tensor length = norm(each, axis, true);
      return each / (length + stop_gradient(maximum(length, eps) - length));
    };
    return sum(unit(a) * unit(b), axis);
  });
}
Tensor pairwise_distance(At left, At right, double p, double eps, bool keepdim) {
  LooseComposite call("pairwise_distance", left.loc);
  check_order("pairwise_distance", p, call.loc());
  Tensor values[] = {resolve(left, "pairwise_distance"), resolve(right, "pairwise_distance")};
  unify("pairwise_distance", values, DTypeClass::floating, call.loc());
  return in_wide(values[0], [&](const Tensor& a) {
    const Tensor distance = norm_along(a - cast(values[1], type_of(a).dtype) + eps, p, -1);
    return keepdim ? distance : squeeze(distance, -1);
  });
}

}  // namespace weft::nn
