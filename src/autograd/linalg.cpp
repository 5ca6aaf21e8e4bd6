#include "autograd/linalg.hpp"

#include "base/fail.hpp"
#include "record/linalg.hpp"

namespace weft {
namespace {

using linalg::diagonal_matrix;
using linalg::identity_like;
using linalg::on_diagonal;
using linalg::result_of;
using linalg::triangular;

// x a^-1, or x a^-T where the triangle is transposed.
Tensor triangular_right(const Tensor& a, const Tensor& x, Triangle triangle) {
  triangle.transposed = !triangle.transposed;
  return transpose(triangular(a, transpose(x), triangle));
}

Dim size_at(const Tensor& value, int from_end) {
  const Shape& shape = type_of(value).shape;
  return shape[shape.rank() - from_end];
}

Tensor sum_of(const Tensor& a, const Tensor& b) { return !a.defined() ? b : !b.defined() ? a : a + b; }

Tensor skew(const Tensor& x) { return x - transpose(x); }

// x / y, and 0 where both are 0, or on the diagonal.
Tensor quotient_or_zero(const Tensor& x, const Tensor& y) {
  const Tensor none = on_diagonal(size_at(x, 1), type_of(x).device) | ((x == 0) & (y == 0));
  return where(none, 0, x / where(none, 1, y));
}

// values[j] - values[i].
Tensor differences_of(const Tensor& values) { return unsqueeze(values, -2) - unsqueeze(values, -1); }

// Of q r = x with x square or tall.
Tensor tall_qr_gradient(const Tensor& q, const Tensor& r, const Tensor& dq, const Tensor& dr) {
  Tensor middle;
  if (dr.defined()) middle = matmul(dr, transpose(r));
  if (dq.defined()) {
    const Tensor inner = matmul(transpose(q), dq);
    middle = middle.defined() ? middle - inner : -inner;
  }
  const Tensor symmetric = triu(middle) + transpose(triu(middle, 1));
  return triangular_right(r, sum_of(dq, matmul(q, symmetric)), {.upper = true, .transposed = true});
}

}  // namespace

// Murray 2016: with S = L^T dL, L^-T sym(tril(S)) L^-1, where sym halves what is not on the diagonal and mirrors it.
void vjp_cholesky(const Pullback& p) {
  const Tensor& l = p.value;
  const Tensor s = matmul(transpose(l), p.gradient());
  const Tensor symmetric = (tril(s) + transpose(tril(s, -1))) * 0.5;
  p.results[0] = triangular_right(l, triangular(l, symmetric, {.transposed = true}), {});
}

void vjp_triangular_solve(const Pullback& p) {
  const auto triangle = p.node().attributes<Triangle>();
  Triangle other = triangle;
  other.transposed = !other.transposed;
  const Tensor right = triangular(p.operand(0), p.gradient(), other);
  if (p.wanted[1]) p.results[1] = right;
  if (!p.wanted[0]) return;
  const Tensor whole = triangle.transposed ? matmul(p.value, transpose(right)) : matmul(right, transpose(p.value));
  p.results[0] = triangle.upper ? -triu(whole, triangle.unit ? 1 : 0) : -tril(whole, triangle.unit ? -1 : 0);
}

// L^-T (tril(L^T dL, -1) + triu(dU U^T)) U^-T, with the rows of the operand where they were.
void vjp_lu(const Pullback& p) {
  if (!p.gradient().defined()) return;
  const Tensor &factors = p.value, rows = result_of(p.value, 1);
  const Tensor l = tril(factors, -1) + identity_like(factors), u = triu(factors);
  const Tensor dl = tril(p.gradient(), -1), du = triu(p.gradient());
  const Tensor middle = tril(matmul(transpose(l), dl), -1) + triu(matmul(du, transpose(u)));
  const Tensor left = triangular(factors, middle, {.transposed = true, .unit = true});
  const Tensor ordered = triangular_right(factors, left, {.upper = true, .transposed = true});
  p.results[0] = linalg::take_rows(ordered, argsort(rows));
}

// With M = L^-1 dA L^-T, dL is L (M D^-1) below the blocks of D, and dD is M in them.
void vjp_ldl(const Pullback& p) {
  if (!p.gradient().defined()) return;
  const linalg::LDLParts parts = linalg::parts_of_ldl(p.value, result_of(p.value, 1));
  const Tensor l = tril(parts.l, -1) + identity_like(parts.l);
  const Tensor in_block = parts.in_block | on_diagonal(size_at(l, 1), type_of(l).device);
  const Tensor dl = where(in_block, 0, tril(p.gradient(), -1));
  const Tensor below = where(in_block, 0, tril(matmul(transpose(l), dl), -1));
  const Tensor middle = transpose(linalg::divide_by_blocks(parts, transpose(below))) + where(in_block, p.gradient(), 0);
  const Tensor symmetric = (middle + transpose(middle)) * 0.5;
  const Triangle unit{.unit = true};
  const Tensor ordered =
      triangular_right(parts.l, triangular(parts.l, symmetric, {.transposed = true, .unit = true}), unit);
  const Tensor places = argsort(parts.rows);
  p.results[0] = transpose(linalg::take_rows(transpose(linalg::take_rows(ordered, places)), places));
}

// Of m >= n: (dQ + Q sym(triu(dR R^T - Q^T dQ))) R^-T, where sym mirrors what is above the diagonal. Else the first m
// columns X of the operand [X, Y] have the factors Q and U, and R = [U, Q^T Y].
void vjp_qr(const Pullback& p) {
  const Tensor &a = p.operand(0), &q = p.value, r = result_of(p.value, 1);
  const Tensor &dq = p.gradients[0], &dr = p.gradients[1];
  const Dim m = size_at(a, 2), n = size_at(a, 1);
  if (m >= n) {
    p.results[0] = tall_qr_gradient(q, r, dq, dr);
    return;
  }
  const Tensor u = slice(r, -1, 0, m);
  Tensor dy, du, dq_whole = dq;
  if (dr.defined()) {
    const Tensor dv = slice(dr, -1, m);
    du = slice(dr, -1, 0, m);
    dy = matmul(q, dv);
    dq_whole = sum_of(dq, matmul(slice(a, -1, m), transpose(dv)));
  } else {
    dy = slice(a, -1, m) * 0;
  }
  const Tensor dx = tall_qr_gradient(q, u, dq_whole, du);
  p.results[0] = concat({dx, dy}, -1);
}

// V (diag(dlambda) + skew(V^T dV)_ij / 2 (lambda_j - lambda_i)) V^T: Giles 2008, of which this is the symmetric half.
// Only one triangle is read, so the other half is a derivative along changes that leave no symmetric matrix.
// Of equal eigenvalues the term is 0 / 0 where the loss does not change when their vectors turn among themselves; it
// counts as 0. Where the loss does change, the term is infinite.
void vjp_eigh(const Pullback& p) {
  const bool vectors = p.node().attributes<Spectrum>().vectors;
  const Tensor again = vectors ? p.value : record(Op::eigh, {p.operand(0)}, Spectrum{}, {}, {});
  const Tensor v = result_of(again, 1);
  const Tensor dv = vectors ? p.gradients[1] : Tensor();
  Tensor middle;
  if (dv.defined()) middle = quotient_or_zero(skew(matmul(transpose(v), dv)), differences_of(p.value)) * 0.5;
  if (p.gradient().defined()) middle = sum_of(middle, diagonal_matrix(p.gradient()));
  p.results[0] = matmul(matmul(v, middle), transpose(v));
}

// With M = V^T dA V: dlambda is its diagonal, and dV is V (M_ij / (lambda_j - lambda_i)).
void push_eigh(const Pushforward& p) {
  const bool vectors = p.node().attributes<Spectrum>().vectors;
  const Tensor again = vectors ? p.value : record(Op::eigh, {p.operand(0)}, Spectrum{}, {}, {});
  const Tensor v = result_of(again, 1), &da = p.tangents[0];
  const Tensor m = matmul(matmul(transpose(v), (da + transpose(da)) * 0.5), v);
  p.results[0] = linalg::diagonal_of(m);
  if (vectors) p.results[1] = matmul(v, quotient_or_zero(m, differences_of(p.value)));
}

// Townsend 2016: U (F S + S G + diag(ds)) V^T, F = skew(U^T dU)_ij / (s_j^2 - s_i^2), and G of V likewise; and what of
// dU and dV is orthogonal to U and V. With a and b the skew parts, (a s_j + b s_i) / (s_j^2 - s_i^2) is half of
// (a + b) / (s_j - s_i) + (a - b) / (s_j + s_i): of equal singular values only the first term is 0 / 0, with what is
// said of eigh.
void vjp_svd(const Pullback& p) {
  const auto& spectrum = p.node().attributes<Spectrum>();
  const Tensor& a = p.operand(0);
  const Dim m = size_at(a, 2), n = size_at(a, 1);
  const Tensor again = spectrum.vectors ? p.value : record(Op::svd, {a}, Spectrum{}, {}, {});
  const Tensor &s = p.value, u = result_of(again, 1), vt = result_of(again, 2);
  const Tensor du = spectrum.vectors ? p.gradients[1] : Tensor(), dvt = spectrum.vectors ? p.gradients[2] : Tensor();
  const bool is_square = m == n;
  if (spectrum.full && !is_square && (du.defined() || dvt.defined()))
    fail("svd", p.node().loc, "the vectors of full matrices have no derivative, where ", to_string(type_of(a)),
         " is not square: use full_matrices = false");
  const Dim k = size_at(s, 1);
  const Tensor left = spectrum.full && !is_square ? slice(u, -1, 0, k) : u;
  const Tensor right = spectrum.full && !is_square ? slice(vt, -2, 0, k) : vt;
  const Tensor across = unsqueeze(s, -2), down = unsqueeze(s, -1);
  Tensor middle, turns, of_left, of_right;
  if (p.gradient().defined()) middle = diagonal_matrix(p.gradient());
  if (du.defined()) of_left = skew(matmul(transpose(left), du));
  if (dvt.defined()) of_right = skew(matmul(right, transpose(dvt)));
  if (du.defined() || dvt.defined()) {
    const Tensor together = sum_of(of_left, of_right),
                 apart = sum_of(of_left, of_right.defined() ? -of_right : of_right);
    turns = quotient_or_zero(together, across - down) + quotient_or_zero(apart, across + down);
    middle = sum_of(middle, turns * 0.5);
  }
  Tensor gradient = matmul(matmul(left, middle), right);
  if (du.defined() && m > n) {
    const Tensor outside = du - matmul(left, matmul(transpose(left), du));
    gradient = gradient + matmul(outside / across, right);
  }
  if (dvt.defined() && m < n) {
    const Tensor outside = dvt - matmul(matmul(dvt, transpose(right)), right);
    gradient = gradient + matmul(left / across, outside);
  }
  p.results[0] = gradient;
}

namespace {

struct Pair {  // a complex tensor
  Tensor real, imag;
};
Pair adjoint(const Pair& x) { return {transpose(x.real), -transpose(x.imag)}; }
Pair product(const Pair& a, const Pair& b) {
  return {matmul(a.real, b.real) - matmul(a.imag, b.imag), matmul(a.real, b.imag) + matmul(a.imag, b.real)};
}

// The real part of a^-1 b, by the real matrix of twice the size that a is.
Tensor real_of_solution(const Pair& a, const Pair& b) {
  const Tensor whole = concat({concat({a.real, -a.imag}, -1), concat({a.imag, a.real}, -1)}, -2);
  const Tensor lu = record(Op::lu, {whole}, {}, {}, {});
  const Tensor solution = linalg::solve_by_lu(lu, result_of(lu, 1), concat({b.real, b.imag}, -2), false);
  return slice(solution, -2, 0, size_at(a.real, 1));
}

}  // namespace

// Re V^-H (diag(dL) + W_ij / conj(L_j - L_i)) V^H with W = V^H dV - V^H V diag(Re V^H dV), which is not read on the
// diagonal: a vector keeps its length (Boeddeker and others 2017). Its phase is free, so no loss may depend on it.
void vjp_eig(const Pullback& p) {
  const bool vectors = p.node().attributes<Spectrum>().vectors;
  const Tensor again = vectors ? p.value : record(Op::eig, {p.operand(0)}, Spectrum{}, {}, {});
  const Pair values{p.value, result_of(p.value, 1)}, v{result_of(again, 2), result_of(again, 3)}, left = adjoint(v);
  const auto pair_from = [&](std::size_t i, const Pair& like) -> Pair {
    const auto part = [&](const Tensor& given, const Tensor& of) {
      return given.defined() ? given : constant_like(0, type_of(of), p.node().loc);
    };
    return {part(p.gradients[i], like.real), part(p.gradients[i + 1], like.imag)};
  };
  const Pair dl = pair_from(0, values);
  Pair middle{diagonal_matrix(dl.real), diagonal_matrix(dl.imag)};
  if (vectors && (p.gradients[2].defined() || p.gradients[3].defined())) {
    const Pair inner = product(left, pair_from(2, v)), gram = product(left, v);
    const Tensor lengths = unsqueeze(linalg::diagonal_of(inner.real), -2);
    const Pair w{inner.real - gram.real * lengths, inner.imag - gram.imag * lengths};
    const auto differences = [](const Tensor& of) { return unsqueeze(of, -2) - unsqueeze(of, -1); };
    const Tensor diagonal = on_diagonal(size_at(v.real, 1), type_of(v.real).device);
    // w / conj(d) is w d / |d|^2.
    const Tensor x = differences(values.real), y = differences(values.imag);
    const Tensor square = where(diagonal, 1, x * x + y * y);
    middle.real = middle.real + where(diagonal, 0, (w.real * x - w.imag * y) / square);
    middle.imag = middle.imag + where(diagonal, 0, (w.real * y + w.imag * x) / square);
  }
  p.results[0] = real_of_solution(left, product(middle, left));
}

// The transform is linear, and its adjoint is the other one.
void vjp_fourier(const Pullback& p) {
  Tensor parts[2];
  for (std::size_t i = 0; i < 2; ++i)
    parts[i] = p.gradients[i].defined() ? p.gradients[i] : constant_like(0, p.node().type, p.node().loc);
  const Tensor back = record(Op::fourier, parts, Fourier{!p.node().attributes<Fourier>().inverse}, {}, {});
  p.results[0] = back;
  p.results[1] = result_of(back, 1);
}

namespace {

// How often each number of the half counts among n: those at 0 and n / 2 have no conjugate.
Tensor times_in_whole(const Type& half, Dim n) {
  const int axis = half.shape.rank() - 1;
  const Tensor k = positions(axis, half.shape, half.device, {});
  return cast(where((k == 0) | (k * 2 == dim_value(n, {})), 1, 2), half.dtype);
}

}  // namespace

void vjp_real_fourier(const Pullback& p) {
  const Type& half = p.node().type;
  const Dim n = type_of(p.operand(0)).shape[half.shape.rank() - 1];
  const Tensor times = times_in_whole(half, n);
  Tensor parts[2];
  for (std::size_t i = 0; i < 2; ++i)
    parts[i] = p.gradients[i].defined() ? p.gradients[i] / times : constant_like(0, half, p.node().loc);
  p.results[0] = record(Op::inverse_real_fourier, parts, RealPoints{n}, {}, {});
}
void vjp_inverse_real_fourier(const Pullback& p) {
  const Tensor spectrum = record(Op::real_fourier, {p.gradients[0]}, {}, {}, {});
  const Tensor times = times_in_whole(type_of(spectrum), p.node().attributes<RealPoints>().count);
  p.results[0] = spectrum * times;
  p.results[1] = result_of(spectrum, 1) * times;
}

}  // namespace weft
