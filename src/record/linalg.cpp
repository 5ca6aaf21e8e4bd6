// Linear algebra of public functions: arguments are checked, batches broadcast, and factors are put together.
#include "record/linalg.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include "record/composite.hpp"
#include "record/indexing.hpp"
#include "record/linear_algebra.hpp"
#include "record/ones.hpp"
#include "weft/linalg.hpp"
#include "weft/loops.hpp"

namespace weft::linalg {

WEFT_LINKS_LINEAR_ALGEBRA

// ---- shared with the derivatives ------------------------------------------------------------------------------------

Tensor triangular(const Tensor& a, const Tensor& b, const Triangle& triangle) {
  return record(Op::triangular_solve, {a, b}, triangle, {}, {});
}

Tensor take_rows(const Tensor& x, const Tensor& rows) {
  const Shape shape = type_of(x).shape;
  const int rank = shape.rank();
  if (rank == 2) return record(Op::gather, {x, rows}, {}, {}, {});
  Dim matrices = 1;
  for (int i = 0; i < rank - 2; ++i) matrices = matrices * shape[i];
  const Shape flat = Shape::of(matrices * shape[rank - 2], shape[rank - 1]);
  const Tensor each = reshape_to(rows, Shape::of(matrices, shape[rank - 2]), {});
  const Tensor start = positions(0, type_of(each).shape, type_of(x).device, {}) * dim_value(shape[rank - 2], {});
  const Tensor taken = record(Op::gather, {reshape_to(x, flat, {}), flatten(each + start)}, {}, {}, {});
  return reshape_to(taken, shape, {});
}

Tensor solve_by_lu(const Tensor& lu, const Tensor& rows, const Tensor& b, bool transposed) {
  if (!transposed) return triangular(lu, triangular(lu, take_rows(b, rows), {.unit = true}), {.upper = true});
  const Tensor inner = triangular(lu, b, {.upper = true, .transposed = true});
  return take_rows(triangular(lu, inner, {.transposed = true, .unit = true}), argsort(rows));
}

Tensor on_diagonal(Dim n, Device device) {
  const Shape shape = Shape::of(n, n);
  return positions(0, shape, device, {}) == positions(1, shape, device, {});
}
Tensor identity_like(const Tensor& value) {
  const Type type = type_of(value);
  return expand(cast(on_diagonal(type.shape[type.shape.rank() - 1], type.device), type.dtype), type.shape);
}
Tensor diagonal_matrix(const Tensor& rows) {
  const Type type = type_of(rows);
  return where(on_diagonal(type.shape[type.shape.rank() - 1], type.device), unsqueeze(rows, -2), 0);
}

// ---- arguments ------------------------------------------------------------------------------------------------------

Dim size_at(const Tensor& value, int from_end) {
  const Shape& shape = type_of(value).shape;
  return shape[shape.rank() - from_end];
}

namespace {

void require_kind(const char* name, const Tensor& value, Loc loc) {
  const Type& type = type_of(value);
  if (type.dtype != DType::f32 && type.dtype != DType::f64)
    fail(name, loc, "needs f32 or f64, it is given ", to_string(type), ": cast it first");
}

}  // namespace

Tensor matrix(const char* name, const At& given, Loc loc, bool square) {
  const Tensor value = resolve(given, name);
  require_kind(name, value, loc);
  if (type_of(value).shape.rank() < 2)
    fail(name, loc, "needs a matrix, or a batch of them, it is given ", to_string(type_of(value)));
  if (square && !(size_at(value, 1) == size_at(value, 2)))
    fail(name, loc, "needs a square matrix, or a batch of them, it is given ", to_string(type_of(value)));
  return value;
}

void require_one_dtype(const char* name, const Tensor& a, const Tensor& b, Loc loc) {
  if (type_of(a).dtype != type_of(b).dtype)
    fail(name, loc, "dtypes differ: ", to_string(type_of(a)), " and ", to_string(type_of(b)));
}

void broadcast_batches(const char* name, Tensor& a, Tensor& b, Loc loc) {
  require_one_dtype(name, a, b, loc);
  if (type_of(a).device != type_of(b).device)
    fail(name, loc, "operands live on different devices: ", to_string(type_of(a)), " and ", to_string(type_of(b)));
  if (type_of(a).shape.rank() > 2 || type_of(b).shape.rank() > 2) {
    Tensor both[] = {a, b};
    settle_ones(both, 2, loc);
    a = both[0], b = both[1];
  }
  const Shape sa = type_of(a).shape, sb = type_of(b).shape;
  Shape full_a, full_b;
  const int rank = std::max(sa.rank(), sb.rank());
  full_a.resize(rank), full_b.resize(rank);
  for (int axis = 1; axis <= rank; ++axis) {
    const Dim x = axis <= sa.rank() ? sa[sa.rank() - axis] : Dim(1),
              y = axis <= sb.rank() ? sb[sb.rank() - axis] : Dim(1);
    const Dim merged = x.same(Dim(1)) ? y : x;
    if (axis > 2 && !y.same(Dim(1)) && !(merged == y))
      fail(name, loc, "batch sizes differ: ", to_string(type_of(a)), " and ", to_string(type_of(b)));
    full_a[rank - axis] = axis > 2 ? merged : x;
    full_b[rank - axis] = axis > 2 ? merged : y;
  }
  a = expand(a, full_a);
  b = expand(b, full_b);
}

void require_all(const Tensor& fine, const char* name, const char* what, const Tensor& of, Loc loc) {
  if (fine.element_count().same(Dim(0))) return;
  const bool is_batch = type_of(of).shape.rank() > 2;
  const std::string end = concat_text(" ", what, ": ", to_string(type_of(of)));
  try {
    require(all(fine), name, loc, (is_batch ? "a matrix of the batch" : "the matrix") + end);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error&) {
    if (!is_batch || recorder().trace() || type_of(of).device.type != Device::Type::cpu) throw;
    const Tensor each = all(fine, -1);
    const Shape batch = type_of(each).shape;
    const auto first = argmin(cast(flatten(each), DType::i64)).item<std::int64_t>();
    if (select(flatten(each), 0, first).item<bool>()) throw;
    fail(name, loc, "matrix ", place_text(first, batch), " of the batch", end);
  }
}

void require_pivots(const char* name, const Tensor& factors, const Tensor& pivots, Loc loc) {
  const Shape own = type_of(factors).shape, shape = type_of(pivots).shape;
  bool fits = is_integer(type_of(pivots).dtype) && shape.rank() == own.rank() - 1;
  for (int i = 0; fits && i < shape.rank(); ++i) fits = shape[i] == own[i];
  if (!fits)
    fail(name, loc, "needs pivots [...,n] of integers: ", to_string(type_of(factors)), " and ",
         to_string(type_of(pivots)));
}

// ---- solutions ------------------------------------------------------------------------------------------------------

Tensor diagonal_of(const Tensor& a) { return diagonal(a, 0, -2, -1); }

Tensor lu_of(const Tensor& a) { return record(Op::lu, {a}, {}, {}, {}); }

namespace {

// The factors are a function of the matrix, so its gradient takes theirs in: operands are the matrix, its factors,
// their rows, the right side. A derivative of this one differentiates the factors instead.
void solve_derivative(const CallValues& p, std::span<Tensor> gradients) {
  if (!p.gradients[0].defined()) return;
  const Tensor right = solve_by_lu(p.operands[1], p.operands[2], p.gradients[0], true);
  gradients[0] = -matmul(right, transpose(p.results[0]));
  gradients[3] = right;
}

}  // namespace

Tensor solve_checked(const char* name, const Tensor& a, const Tensor& b, Loc loc) {
  const Tensor lu = lu_of(a), rows = result_of(lu, 1);
  require_all(diagonal_of(lu) != 0, name, "is singular", a, loc);
  const auto record = [](const Tensor&, const Tensor& lu, const Tensor& rows, const Tensor& b) {
    return solve_by_lu(lu, rows, b, false);
  };
  return composite_with(solve_derivative, called("solve"), loc, record, a, lu, rows, b);
}

namespace {

double spacing(DType dtype) {
  return dtype == DType::f64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
}
// The part of the greatest singular value that counts, as a number of the tensor's dtype.
Tensor least_share(const Tensor& like, Dim m, Dim n, double rtol) {
  const Type type = type_of(like);
  if (rtol >= 0) return full({}, rtol, {type.dtype, type.device});
  return cast(dim_value(m <= n ? n : m, {}), type.dtype) * spacing(type.dtype);
}
// bool: the singular values that count.
Tensor above(const Tensor& s, Dim m, Dim n, double rtol) { return s > slice(s, -1, 0, 1) * least_share(s, m, n, rtol); }

Tensor spectrum(Op op, const Tensor& a, const Spectrum& which) { return record(op, {a}, which, {}, {}); }

Tensor eigh_of(const char* name, const At& given, bool upper, bool vectors, Loc loc) {
  const Tensor a = matrix(name, given, loc, true);
  return spectrum(Op::eigh, upper ? transpose(a) : a, {.vectors = vectors});
}

Tensor singular_values(const Tensor& a) { return spectrum(Op::svd, a, {.vectors = false}); }

}  // namespace

Tensor cholesky(At given, bool upper) {
  LooseComposite call("cholesky", given.loc);
  const Tensor a = matrix("cholesky", given, call.loc(), true);
  const Tensor l = record(Op::cholesky, {a}, {}, {}, {});
  require_all(~isnan(diagonal_of(l)), "cholesky", "is not positive definite", a, call.loc());
  return upper ? transpose(l) : l;
}

Tensor solve_triangular(At given, At right, TriangularOptions options) {
  LooseComposite call("solve_triangular", given.loc);
  Tensor a = matrix("solve_triangular", given, call.loc(), true), b = matrix("solve_triangular", right, call.loc());
  if (!(size_at(b, options.left ? 2 : 1) == size_at(a, 1)))
    fail("solve_triangular", call.loc(), "the right side does not fit: ", to_string(type_of(a)), " and ",
         to_string(type_of(b)));
  broadcast_batches("solve_triangular", a, b, call.loc());
  Triangle triangle{options.upper, !options.left, options.unitriangular};
  return options.left ? triangular(a, b, triangle) : transpose(triangular(a, transpose(b), triangle));
}

Tensor solve(At given, At right, bool left) {
  LooseComposite call("solve", given.loc);
  Tensor a = matrix("solve", given, call.loc(), true), b = resolve(right, "solve");
  require_kind("solve", b, call.loc());
  const Shape sa = type_of(a).shape, sb = type_of(b).shape;
  bool is_vector = sb.rank() == 1 || sb.rank() == sa.rank() - 1;
  for (int i = 0; is_vector && sb.rank() > 1 && i < sb.rank(); ++i) is_vector = sa[i] == sb[i];
  if (is_vector && !left)
    fail("solve", call.loc(), "a vector must be on the right of the matrix: ", to_string(type_of(a)), " and ",
         to_string(type_of(b)));
  require_one_dtype("solve", a, b, call.loc());  // with the right side as it was given
  if (is_vector) b = unsqueeze(b, -1);
  if (type_of(b).shape.rank() < 2 || !(size_at(b, left ? 2 : 1) == size_at(a, 1)))
    fail("solve", call.loc(), "the right side does not fit: ", to_string(type_of(a)), " and ",
         to_string(Type{type_of(b).dtype, false, {}, sb}));
  broadcast_batches("solve", a, b, call.loc());
  if (!left) return transpose(solve_checked("solve", transpose(a), transpose(b), call.loc()));
  const Tensor x = solve_checked("solve", a, b, call.loc());
  return is_vector ? squeeze(x, -1) : x;
}

Tensor inv(At given) {
  LooseComposite call("inv", given.loc);
  const Tensor a = matrix("inv", given, call.loc(), true);
  return solve_checked("inv", a, identity_like(a), call.loc());
}

Tensor cholesky_solve(At right, At given, bool upper) {
  LooseComposite call("cholesky_solve", right.loc);
  const Tensor triangle = resolve(given, "cholesky_solve"), b = resolve(right, "cholesky_solve");
  const auto solved = [&](const Tensor& factor, const Tensor& b, bool upper) {
    return solve_triangular(factor, b, {.upper = upper});
  };
  if (type_of(triangle).shape.rank() < 2)
    fail("cholesky_solve", call.loc(), "needs a triangle [...,n,n]: ", to_string(type_of(triangle)));
  if (upper) return solved(triangle, solved(transpose(triangle), b, false), true);
  return solved(transpose(triangle), solved(triangle, b, false), true);
}

Tensor cross(At left, At right, int axis) {
  LooseComposite call("cross", left.loc);
  const Tensor a = resolve(left, "cross"), b = resolve(right, "cross");
  const int rank = type_of(a).shape.rank();
  if (type_of(b).shape.rank() != rank)
    fail("cross", call.loc(), "needs operands of as many axes: ", to_string(type_of(a)), " x ", to_string(type_of(b)));
  const int normal = normalize_axis("cross", axis, rank, call.loc());
  for (const Tensor& each : {a, b})
    if (!(type_of(each).shape[normal] == Dim(3)))
      fail("cross", call.loc(), "needs 3 elements along axis ", axis, ": ", to_string(type_of(a)), " x ",
           to_string(type_of(b)));
  // Element i is a[i+1] b[i+2] - a[i+2] b[i+1].
  const auto from = [&](const Tensor& value, int by) {
    return concat({slice(value, normal, by, 3), slice(value, normal, 0, by)}, normal);
  };
  return from(a, 1) * from(b, 2) - from(a, 2) * from(b, 1);
}

LU lu(At given) {
  LooseComposite call("lu", given.loc);
  const Tensor a = matrix("lu", given, call.loc(), true), factors = lu_of(a), rows = result_of(factors, 1);
  const Dim n = size_at(a, 1);
  const Tensor columns = positions(0, Shape::of(n, n), type_of(a).device, {});
  return {cast(unsqueeze(rows, -2) == columns, type_of(a).dtype), tril(factors, -1) + identity_like(factors),
          triu(factors)};
}

LUFactors lu_factor(At given) {
  LooseComposite call("lu_factor", given.loc);
  const Tensor a = matrix("lu_factor", given, call.loc(), true), factors = lu_of(a);
  require_all(diagonal_of(factors) != 0, "lu_factor", "is singular", a, call.loc());
  return {factors, result_of(factors, 1)};
}

Tensor lu_solve(At given, At rows, At right, LUSolveOptions options) {
  LooseComposite call("lu_solve", given.loc);
  Tensor lu = matrix("lu_solve", given, call.loc(), true), b = matrix("lu_solve", right, call.loc());
  Tensor pivots = resolve(rows, "lu_solve");
  require_pivots("lu_solve", lu, pivots, call.loc());
  if (!(size_at(b, options.left ? 2 : 1) == size_at(lu, 1)))
    fail("lu_solve", call.loc(), "the right side does not fit: ", to_string(type_of(lu)), " and ",
         to_string(type_of(b)));
  check_range(pivots, size_at(lu, 1), "lu_solve", call.loc(), lu);
  broadcast_batches("lu_solve", lu, b, call.loc());
  Shape whole = type_of(lu).shape;
  whole.resize(whole.rank() - 1);
  pivots = expand(cast(pivots, DType::i64), whole);
  // x a = b is a^T x^T = b^T.
  if (!options.left) return transpose(solve_by_lu(lu, pivots, transpose(b), !options.adjoint));
  return solve_by_lu(lu, pivots, b, options.adjoint);
}

QR qr(At given) {
  LooseComposite call("qr", given.loc);
  const Tensor q = record(Op::qr, {matrix("qr", given, call.loc())}, {}, {}, {});
  return {q, result_of(q, 1)};
}

Eigh eigh(At a, bool upper) {
  LooseComposite call("eigh", a.loc);
  const Tensor values = eigh_of("eigh", a, upper, true, call.loc());
  return {values, result_of(values, 1)};
}
Tensor eigvalsh(At a, bool upper) {
  LooseComposite call("eigvalsh", a.loc);
  return eigh_of("eigvalsh", a, upper, false, call.loc());
}

Eig eig(At a) {
  LooseComposite call("eig", a.loc);
  const Tensor real = spectrum(Op::eig, matrix("eig", a, call.loc(), true), {});
  return {{real, result_of(real, 1)}, {result_of(real, 2), result_of(real, 3)}};
}
fft::Complex eigvals(At a) {
  LooseComposite call("eigvals", a.loc);
  const Tensor real = spectrum(Op::eig, matrix("eigvals", a, call.loc(), true), {.vectors = false});
  return {real, result_of(real, 1)};
}

SVD svd(At given, bool full_matrices) {
  LooseComposite call("svd", given.loc);
  const Tensor s = spectrum(Op::svd, matrix("svd", given, call.loc()), {.full = full_matrices});
  return {result_of(s, 1), s, result_of(s, 2)};
}
Tensor svdvals(At given) {
  LooseComposite call("svdvals", given.loc);
  return singular_values(matrix("svdvals", given, call.loc()));
}

Tensor lstsq(At given, At right) {
  LooseComposite call("lstsq", given.loc);
  Tensor a = matrix("lstsq", given, call.loc()), b = matrix("lstsq", right, call.loc());
  if (!(size_at(a, 2) == size_at(b, 2)))
    fail("lstsq", call.loc(), "the right side does not fit: ", to_string(type_of(a)), " and ", to_string(type_of(b)));
  broadcast_batches("lstsq", a, b, call.loc());
  const bool tall = size_at(a, 2) >= size_at(a, 1);
  const auto [q, r] = qr(tall ? a : transpose(a));
  if (tall) return triangular(r, matmul(transpose(q), b), {.upper = true});
  return matmul(q, triangular(r, b, {.upper = true, .transposed = true}));
}

// Golub and Pereyra 1973, for changes that keep the rank: with P = pinv(a) and G its gradient,
// -P^T G P^T + (I - a P) G^T P P^T + P^T P G^T (I - P a).
// Where the rank, which is the trace of a P, is the number of rows, I - a P is 0, and so is I - P a where it is that of
// columns: their rounding errors would be multiplied by the squares of the inverses.
static void differentiate_pinv(const CallValues& p, std::span<Tensor> gradients) {
  const Tensor &a = p.operands[0], &inverse = p.results[0], turned = transpose(p.gradients[0]),
               other = transpose(inverse);
  const Tensor right = matmul(turned, matmul(inverse, other)), left = matmul(matmul(other, inverse), turned);
  const Tensor rank = sum(a * other, {-2, -1}, true);
  const auto unless_full = [&](int from_end, const Tensor& term) {
    return where(rank > cast(dim_value(size_at(a, from_end), {}), type_of(a).dtype) - 0.5, 0, term);
  };
  gradients[0] = unless_full(2, right - matmul(a, matmul(inverse, right))) +
                 unless_full(1, left - matmul(matmul(left, inverse), a)) - matmul(matmul(other, p.gradients[0]), other);
}

Tensor pinv(At given, double rtol) {
  LooseComposite call("pinv", given.loc);
  const Tensor a = matrix("pinv", given, call.loc());
  const auto body = [](const Tensor& a, const Tensor& least) {
    const Tensor parts = spectrum(Op::svd, a, {});
    const Tensor &s = parts, u = result_of(parts, 1), vh = result_of(parts, 2);
    const Tensor counts = s > slice(s, -1, 0, 1) * least;
    const Tensor inverses = where(counts, 1 / where(counts, s, 1), 0);
    return matmul(transpose(vh) * unsqueeze(inverses, -2), transpose(u));
  };
  return composite_with(differentiate_pinv, called("pinv"), call.loc(), body, a,
                        least_share(a, size_at(a, 2), size_at(a, 1), rtol));
}

Tensor matrix_rank(At given, double rtol) {
  LooseComposite call("matrix_rank", given.loc);
  const Tensor a = matrix("matrix_rank", given, call.loc());
  return sum(above(singular_values(a), size_at(a, 2), size_at(a, 1), rtol), -1);
}

Tensor matrix_power(At given, std::int64_t exponent) {
  LooseComposite call("matrix_power", given.loc);
  Tensor a = matrix("matrix_power", given, call.loc(), true);
  if (exponent == 0) return identity_like(a);
  if (exponent < 0) a = solve_checked("matrix_power", a, identity_like(a), call.loc());
  Tensor result;
  for (std::uint64_t left = exponent < 0 ? -static_cast<std::uint64_t>(exponent) : static_cast<std::uint64_t>(exponent);
       ; a = matmul(a, a)) {
    if (left & 1) result = result.defined() ? matmul(result, a) : a;
    if ((left >>= 1) == 0) return result;
  }
}

// ---- norms ----------------------------------------------------------------------------------------------------------

Tensor matrix_norm(At given, const char* ord, bool keepdim) {
  LooseComposite call("matrix_norm", given.loc);
  const Tensor a = matrix("matrix_norm", given, call.loc());
  const std::string_view which = ord ? ord : "";
  if (which == "fro") return norm(a, {-2, -1}, keepdim);
  if (which != "nuc") fail("matrix_norm", call.loc(), "the order is \"fro\", \"nuc\" or a number, not \"", which, "\"");
  const Tensor total = sum(singular_values(a), -1);
  return keepdim ? unsqueeze(unsqueeze(total, -1), -1) : total;
}

Tensor matrix_norm(At given, double ord, bool keepdim) {
  LooseComposite call("matrix_norm", given.loc);
  const Tensor a = matrix("matrix_norm", given, call.loc());
  const double order = std::fabs(ord);
  if (order != 1 && order != 2 && order != std::numeric_limits<double>::infinity())
    fail("matrix_norm", call.loc(), "the order is 1, 2 or infinity, or one of them with a minus, not ", ord);
  const Tensor sizes = order == 2 ? singular_values(a) : sum(abs(a), order == 1 ? -2 : -1);
  const Tensor result = ord > 0 ? amax(sizes, -1) : amin(sizes, -1);
  return keepdim ? unsqueeze(unsqueeze(result, -1), -1) : result;
}

Tensor vector_norm(At given, double ord, Axes axes, bool keepdim) {
  LooseComposite call("vector_norm", given.loc);
  const Tensor x = resolve(given, "vector_norm");
  if (!is_floating(type_of(x).dtype))
    fail("vector_norm", call.loc(), "needs a floating dtype, it is given ", to_string(type_of(x)));
  if (ord == 2) return norm(x, axes, keepdim);
  if (ord == std::numeric_limits<double>::infinity()) return amax(abs(x), axes, keepdim);
  if (ord == -std::numeric_limits<double>::infinity()) return amin(abs(x), axes, keepdim);
  return in_wide(x, [&](const Tensor& wide) {
    if (ord == 0) return sum(where(wide == 0, abs(wide), 1), axes, keepdim);  // abs: its derivative at 0 is 0
    if (ord == 1) return sum(abs(wide), axes, keepdim);
    // Powers have no derivative at 0, where it is 0 here: of an element, and of the norm. A negative power of 0 is
    // infinite, and so is the total of a norm of 0.
    const double power_of_zero = ord > 0 ? 0 : std::numeric_limits<double>::infinity();
    const Tensor size = abs(wide), zero = size == 0;
    const Tensor total = sum(where(zero, power_of_zero, pow(where(zero, 1, size), ord)), axes, keepdim);
    const Tensor none = total == power_of_zero;
    return where(none, 0, pow(where(none, 1, total), 1 / ord));
  });
}

}  // namespace weft::linalg
