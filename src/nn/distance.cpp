// Norms along an axis, and distances, loose: several numbers say what each is.
#include "base/fail.hpp"
#include "base/number_checks.hpp"
#include "record/composite.hpp"
#include "weft/linalg.hpp"
#include "weft/nn/normalization.hpp"

namespace weft::nn {
namespace {

void check_order(const char* name, double p, Loc loc) {
  if (!(p > 0)) fail(name, loc, "p must be positive, it is ", p);
}
void check_eps(const char* name, double eps, Loc loc) {
  check_numbers(name, Bounds::not_negative, {{"eps", eps}}, loc);
}
}  // namespace

Tensor normalize(At x, double p, int axis, double eps) {
  LooseComposite call("normalize", x.loc);
  check_order("normalize", p, call.loc());
  check_eps("normalize", eps, call.loc());
  return in_wide(resolve(x, "normalize"),
                 [&](const Tensor& value) { return value / maximum(linalg::vector_norm(value, p, axis, true), eps); });
}
Tensor cosine_similarity(At left, At right, int axis, double eps) {
  LooseComposite call("cosine_similarity", left.loc);
  check_eps("cosine_similarity", eps, call.loc());
  Tensor values[] = {resolve(left, "cosine_similarity"), resolve(right, "cosine_similarity")};
  unify("cosine_similarity", values, DTypeClass::floating, call.loc());
  return in_wide(values[0], [&](const Tensor& a) {
    const Tensor b = cast(values[1], type_of(a).dtype);
    // The bound changes the value alone: the derivative is that of the length, as in PyTorch.
    const auto unit = [&](const Tensor& each) {
      const Tensor length = norm(each, axis, true);
      return each / (length + stop_gradient(maximum(eps - length, 0)));
    };
    return sum(unit(a) * unit(b), axis);
  });
}
Tensor pairwise_distance(At left, At right, double p, double eps, bool keepdim) {
  LooseComposite call("pairwise_distance", left.loc);
  check_order("pairwise_distance", p, call.loc());
  check_numbers("pairwise_distance", Bounds::finite, {{"eps", eps}}, call.loc());
  Tensor values[] = {resolve(left, "pairwise_distance"), resolve(right, "pairwise_distance")};
  unify("pairwise_distance", values, DTypeClass::floating, call.loc());
  return in_wide(values[0], [&](const Tensor& a) {
    return linalg::vector_norm(a - cast(values[1], type_of(a).dtype) + eps, p, -1, keepdim);
  });
}

// Pair number k, counted from the last one, is in the row r from the end with r (r + 1) / 2 <= k.
Tensor pdist(At given, double p) {
  LooseComposite call("pdist", given.loc);
  const Tensor x = resolve(given, "pdist");
  const Type type = type_of(x);
  if (type.shape.rank() != 2 || !is_floating(type.dtype))
    fail("pdist", call.loc(), "takes floating rows [n, k]: ", to_string(type));
  if (!(p >= 0)) fail("pdist", call.loc(), "p must not be negative, it is ", p);
  const Dim n = type.shape[0], count = n * (n - Dim(1)) / Dim(2);
  const Tensor last = count - Dim(1) - positions(0, Shape::of(count), type.device, call.loc());
  // The root may be one off beside a whole number.
  Tensor from_end = cast(floor((sqrt(cast(last, DType::f64) * 8 + 1) - 1) * 0.5), DType::i64);
  from_end = from_end - cast(floor_divide(from_end * (from_end + 1), 2) > last, DType::i64);
  from_end = from_end + cast(floor_divide((from_end + 1) * (from_end + 2), 2) <= last, DType::i64);
  const Tensor first = n - Dim(2) - from_end;
  const Tensor second = n - Dim(1) - (last - floor_divide(from_end * (from_end + 1), 2));
  return in_wide(
      x, [&](const Tensor& rows) { return linalg::vector_norm(gather(rows, first) - gather(rows, second), p, -1); });
}

}  // namespace weft::nn
