// Functions of matrices made of factorizations: the exponential, condition numbers, maps between tensors, products of
// reflections, singular values by random projection.
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/number_checks.hpp"
#include "record/composite.hpp"
#include "record/linalg.hpp"
#include "weft/linalg.hpp"
#include "weft/loops.hpp"

namespace weft::linalg {

// ---- the exponential ------------------------------------------------------------------------------------------------

namespace {

constexpr int most_squarings = 64;  // at a norm beyond that no digit of the result would be right

// The sum of a^i / i! up to i = 18: to a rounding for matrices of a 1-norm of `most_norm`. In powers of a^3 (Paterson
// and Stockmeyer 1973).
double most_norm(DType dtype) { return dtype == DType::f32 ? 3.010066362817634 : 1.090863719290036; }
Tensor taylor(const Tensor& a, const Tensor& identity) {
  constexpr int degree = 18;
  std::array<double, degree + 1> b{1};
  for (std::size_t i = 1; i <= degree; ++i) b[i] = b[i - 1] / static_cast<double>(i);
  const Tensor a2 = matmul(a, a), a3 = matmul(a2, a);
  Tensor sum = a3 * b[degree];
  for (std::size_t i = degree - 3;; i -= 3) {
    sum = sum + a2 * b[i + 2] + a * b[i + 1] + identity * b[i];
    if (i == 0) return sum;
    sum = matmul(a3, sum);
  }
}

Tensor exponential(const Tensor& a);

// While it lives, composites stay calls inside the body of another one too, and keep the derivatives of their own.
class StaysCall {
 public:
  StaysCall() : before_(std::exchange(recorder().in_body, false)) {}
  ~StaysCall() { recorder().in_body = before_; }
  StaysCall(const StaysCall&) = delete;

 private:
  const bool before_;
};

// The exponential of [[a^T, g], [0, a^T]] has the derivative in its upper right corner (Mathias 1996). It is a call:
// its loop has no gradient.
void differentiate_exponential(const CallValues& p, std::span<Tensor> gradients) {
  const Tensor a = transpose(p.operands[0]), &g = p.gradients[0];
  const Dim n = size_at(a, 1);
  const Tensor matrix = concat({concat({a, g}, -1), concat({g * 0, a}, -1)}, -2);
  const StaysCall scope;
  const Tensor both = exponential(matrix);
  gradients[0] = slice(slice(both, -2, 0, n), -1, n);
}

Tensor exponential(const Tensor& a) {
  const auto body = [](const Tensor& a) {
    const double bound = most_norm(type_of(a).dtype);
    const Tensor norm = amax(sum(abs(a), -2, true), -1, true), identity = identity_like(a);
    const Tensor beyond = (norm > bound) & ~isinf(norm);
    const Tensor exponent = ceil(log2(where(beyond, norm, bound) / bound));
    const Tensor squarings = stop_gradient(where(beyond, minimum(exponent, most_squarings), 0));
    const Tensor small = taylor(a * exp2(-squarings), identity);
    // Matrices of a batch have their own numbers of squarings.
    using State = std::pair<Tensor, Tensor>;
    return while_loop([](const State& state) { return any(state.second > 0); },
                      [](const State& state) {
                        const auto& [power, left] = state;
                        return State{where(left > 0, matmul(power, power), power), left - 1};
                      },
                      State{small, squarings})
        .first;
  };
  return composite_with(differentiate_exponential, called("matrix_exp"), Loc(), body, a);
}

}  // namespace

Tensor matrix_exp(At given) {
  LooseComposite call("matrix_exp", given.loc);
  const Tensor a = matrix("matrix_exp", given, call.loc(), true);
  return size_at(a, 1) == Dim(0) ? a : exponential(a);
}

// ---- condition numbers ----------------------------------------------------------------------------------------------

namespace {

// The norm of a times that of its inverse; infinite where there is none.
template <class Order>
Tensor cond_by_inverse(const At& given, Order order, Loc loc) {
  const Tensor a = matrix("cond", given, loc, true);
  const Tensor lu = record(Op::lu, {a}, {}, {}, {});
  const Tensor singular = any(diagonal_of(lu) == 0, -1);
  const Tensor none = unsqueeze(unsqueeze(singular, -1), -1), regular = where(none, identity_like(a), a);
  const Tensor number =
      matrix_norm(a, order) * matrix_norm(solve_checked("cond", regular, identity_like(a), loc), order);
  return where(singular, std::numeric_limits<double>::infinity(), number);
}

}  // namespace

Tensor cond(At given, double ord) {
  LooseComposite call("cond", given.loc);
  if (std::fabs(ord) != 2) return cond_by_inverse(given, ord, call.loc());
  const Tensor s = svdvals(matrix("cond", given, call.loc()));
  const Tensor greatest = amax(s, -1), least = amin(s, -1);
  return ord > 0 ? greatest / least : least / greatest;
}
Tensor cond(At given, const char* ord) {
  LooseComposite call("cond", given.loc);
  return cond_by_inverse(given, ord, call.loc());
}

// ---- tensors as maps ------------------------------------------------------------------------------------------------

namespace {

Shape part_of(const Shape& shape, int from, int to) {
  Shape part;
  for (int i = from; i < to; ++i) part.push_back(shape[i]);
  return part;
}

}  // namespace

Tensor tensorinv(At given, int ind) {
  LooseComposite call("tensorinv", given.loc);
  const Tensor a = resolve(given, "tensorinv");
  const Shape shape = type_of(a).shape;
  if (ind < 1 || ind >= shape.rank())
    fail("tensorinv", call.loc(), "ind is between the axes of ", to_string(type_of(a)), ", it is ", ind);
  const Shape to = part_of(shape, 0, ind), from = part_of(shape, ind, shape.rank());
  if (!(to.element_count() == from.element_count()))
    fail("tensorinv", call.loc(), "needs as many elements before axis ", ind,
         " as from it on: ", to_string(type_of(a)));
  const Dim n = from.element_count();
  const Tensor map = matrix("tensorinv", reshape_to(a, Shape::of(n, n), call.loc()), call.loc(), true);
  Shape result = from;
  for (const Dim size : to) result.push_back(size);
  return reshape_to(solve_checked("tensorinv", map, identity_like(map), call.loc()), result, call.loc());
}

Tensor tensorsolve(At given, At right, Axes axes) {
  LooseComposite call("tensorsolve", given.loc);
  Tensor a = resolve(given, "tensorsolve");
  const Tensor b = resolve(right, "tensorsolve");
  const Type type = type_of(a), wanted = type_of(b);
  const int rank = type.shape.rank(), first = wanted.shape.rank();
  AxisSet moved;
  for (int i = 0; i < axes.count(); ++i) moved.insert(normalize_axis("tensorsolve", axes[i], rank, call.loc()));
  if (axes.count() > 0) {
    std::vector<int> order;
    for (int i = 0; i < rank; ++i)
      if (!moved[i]) order.push_back(i);
    for (int i = 0; i < axes.count(); ++i) order.push_back(normalize_axis("tensorsolve", axes[i], rank, call.loc()));
    if (static_cast<int>(order.size()) != rank) fail("tensorsolve", call.loc(), "an axis is named twice");
    a = permute(a, order);
  }
  const Shape shape = type_of(a).shape;
  const Shape unknown = part_of(shape, std::min(first, rank), rank);
  if (type.dtype != wanted.dtype)
    fail("tensorsolve", call.loc(), "dtypes differ: ", to_string(type), " and ", to_string(wanted));
  const Dim n = wanted.shape.element_count();
  if (first > rank || !(unknown.element_count() == n) || !(shape.element_count() == n * n))
    fail("tensorsolve", call.loc(),
         "needs as many unknowns as there are elements on the right side: ", to_string(type_of(a)), " and ",
         to_string(wanted));
  const Tensor map = matrix("tensorsolve", reshape_to(a, Shape::of(n, n), call.loc()), call.loc(), true);
  const Tensor x = solve_checked("tensorsolve", map, reshape_to(b, Shape::of(n, 1), call.loc()), call.loc());
  return reshape_to(x, unknown, call.loc());
}

Tensor vander(At given, std::int64_t count) {
  LooseComposite call("vander", given.loc);
  const Tensor x = resolve(given, "vander");
  const Type type = type_of(x);
  const int rank = type.shape.rank();
  if (rank < 1 || rank == max_rank || type.dtype == DType::boolean)
    fail("vander", call.loc(), "takes numbers [..., n] of 1 to ", max_rank - 1, " axes: ", to_string(type));
  const Dim powers = count < 0 ? type.shape[rank - 1] : Dim(count);
  check_extent("vander", "the count of powers", powers, call.loc());
  const Tensor column = unsqueeze(x, -1);
  if (powers == Dim(0)) return slice(column, -1, 0, 0);
  Shape shape = type_of(column).shape;
  const Tensor one = ones_like(column);
  if (powers == Dim(1)) return one;
  shape[rank] = powers - Dim(1);
  return concat({one, cast(cumprod(expand(column, shape), -1), type.dtype)}, -1);
}

// ---- reflections ----------------------------------------------------------------------------------------------------

// H_1 ... H_k = I - V T V^T with T = (I + D U)^-1 D, where D has tau on its diagonal and U is V^T V above its own
// (Schreiber and Van Loan 1989).
Tensor householder_product(At given, At factors) {
  LooseComposite call("householder_product", given.loc);
  const Tensor a = matrix("householder_product", given, call.loc()), tau = resolve(factors, "householder_product");
  const Shape shape = type_of(a).shape, own = type_of(tau).shape;
  const int rank = shape.rank();
  bool fits = own.rank() == rank - 1 && type_of(tau).dtype == type_of(a).dtype;
  for (int i = 0; fits && i < rank - 2; ++i) fits = own[i] == shape[i];
  if (!fits || shape[rank - 2] < shape[rank - 1] || shape[rank - 1] < own[rank - 2])
    fail("householder_product", call.loc(),
         "needs [...,m,n] and [...,k] of one dtype, k <= n <= m: ", to_string(type_of(a)), " and ",
         to_string(type_of(tau)));
  const Dim m = shape[rank - 2], n = shape[rank - 1], k = own[rank - 2];
  const Device device = type_of(a).device;
  const Tensor row = positions(0, Shape::of(m, n), device, {}), column = positions(1, Shape::of(m, n), device, {});
  const Tensor eye = cast(row == column, type_of(a).dtype);
  if (k == Dim(0)) return expand(eye, shape);
  const Tensor v = slice(tril(a, -1) + eye, -1, 0, k);
  const Tensor inner = unsqueeze(tau, -1) * triu(matmul(transpose(v), v), 1);
  const Tensor right = unsqueeze(tau, -1) * slice(transpose(v), -1, 0, n);
  return eye - matmul(v, triangular(inner, right, {.upper = true, .unit = true}));
}

// ---- few singular values --------------------------------------------------------------------------------------------

SVDLowrank svd_lowrank(At given, std::int64_t q, int niter, Generator& generator) {
  LooseComposite call("svd_lowrank", given.loc);
  const Tensor whole = matrix("svd_lowrank", given, call.loc());
  const Dim m = size_at(whole, 2), n = size_at(whole, 1);
  if (q < 1 || m < Dim(q) || n < Dim(q))
    fail("svd_lowrank", call.loc(), "q is between 1 and the lesser size of ", to_string(type_of(whole)), ", it is ", q);
  if (niter < 0) fail("svd_lowrank", call.loc(), "niter must not be negative, it is ", niter);
  check_recorded("svd_lowrank", "niter", niter, call.loc());
  const bool wide = m < n;
  const Tensor a = wide ? transpose(whole) : whole;
  Shape shape = type_of(a).shape;
  shape[shape.rank() - 2] = shape[shape.rank() - 1];
  shape[shape.rank() - 1] = q;
  Tensor basis = qr(matmul(a, normal(shape, 0, 1, generator, {type_of(a).dtype, type_of(a).device}))).q;
  for (int i = 0; i < niter; ++i) basis = qr(matmul(a, qr(matmul(transpose(a), basis)).q)).q;
  const auto [u, s, vh] = svd(matmul(transpose(basis), a), false);
  const Tensor left = matmul(basis, u), right = transpose(vh);
  return wide ? SVDLowrank{right, s, left} : SVDLowrank{left, s, right};
}

}  // namespace weft::linalg
