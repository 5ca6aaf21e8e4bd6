// Distances between points, and slices that are scaled to a length, over vector_norm.
#include <vector>

#include "base/fail.hpp"
#include "record/composite.hpp"
#include "weft/linalg.hpp"
#include "weft/statistics.hpp"

namespace weft {

Tensor cdist(At left, At right, double p) {
  LooseComposite call("cdist", left.loc);
  const Tensor a = resolve(left, "cdist"), b = resolve(right, "cdist");
  const Shape &from = type_of(a).shape, &to = type_of(b).shape;
  if (from.rank() < 2 || to.rank() < 2 || !(from[from.rank() - 1] == to[to.rank() - 1]))
    fail("cdist", call.loc(), "needs rows of one length, [..., n, k] and [..., m, k]: ", to_string(type_of(a)), " x ",
         to_string(type_of(b)));
  if (!(p >= 0)) fail("cdist", call.loc(), "p must not be negative, it is ", p);
  return linalg::vector_norm(unsqueeze(a, -2) - unsqueeze(b, -3), p, -1);
}

Tensor dist(At left, At right, double p) {
  LooseComposite call("dist", left.loc);
  return linalg::vector_norm(resolve(left, "dist") - resolve(right, "dist"), p);
}

Tensor renorm(At x, double p, int axis, double maxnorm) {
  LooseComposite call("renorm", x.loc);
  const Tensor value = resolve(x, "renorm");
  const Type type = type_of(value);
  const int rank = type.shape.rank();
  if (rank < 2 || !is_floating(type.dtype))
    fail("renorm", call.loc(), "needs a floating dtype and two axes at least, it is ", to_string(type));
  if (!(p > 0)) fail("renorm", call.loc(), "p must be positive, it is ", p);
  if (!(maxnorm >= 0)) fail("renorm", call.loc(), "maxnorm must not be negative, it is ", maxnorm);
  const int normal = normalize_axis("renorm", axis, rank, call.loc());
  std::vector<int> others;
  for (int i = 0; i < rank; ++i)
    if (i != normal) others.push_back(i);
  return in_wide(value, [&](const Tensor& wide) {
    const Tensor length = linalg::vector_norm(wide, p, Axes(others), true), above = length > maxnorm;
    return where(above, wide * (maxnorm / (where(above, length, 1) + 1e-7)), wide);
  });
}

}  // namespace weft
