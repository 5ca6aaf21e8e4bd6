#include "tests/autograd/cases.hpp"

#include <map>

#include "record/linalg.hpp"
#include "weft/effects.hpp"
#include "weft/fft.hpp"
#include "weft/linalg.hpp"
#include "weft/loops.hpp"
#include "weft/nn.hpp"

namespace weft::test {
namespace {

struct Domain {
  double low = -2, high = 2;
};
// Where an operand of a primitive may lie; elsewhere (-2, 2).
Domain domain(const std::string& name, std::size_t operand) {
  static const std::map<std::string, std::vector<Domain>> domains = {
      {"log", {{0.3, 3}}},
      {"log2", {{0.3, 3}}},
      {"log10", {{0.3, 3}}},
      {"log1p", {{-0.7, 3}}},
      {"tan", {{-1, 1}}},
      {"asin", {{-0.8, 0.8}}},
      {"acos", {{-0.8, 0.8}}},
      {"atan2", {{-2, 2}, {0.5, 2}}},
      {"acosh", {{1.3, 3}}},
      {"atanh", {{-0.8, 0.8}}},
      {"erfinv", {{-0.8, 0.8}}},
      {"lgamma", {{0.5, 4}}},
      {"digamma", {{0.7, 4}}},
      {"polygamma", {{1.2, 1.8}, {0.7, 3}}},
      {"sqrt", {{0.3, 3}}},
      {"rsqrt", {{0.3, 3}}},
      {"reciprocal", {{0.4, 3}}},
      {"pow", {{0.4, 2}, {-2, 2}}},
      {"div", {{-2, 2}, {0.5, 2}}},
      {"remainder", {{-2, 2}, {0.6, 2}}},
      {"fmod", {{-2, 2}, {0.6, 2}}},
      {"floor_divide", {{-2, 2}, {0.6, 2}}},
  };
  auto found = domains.find(name);
  return found == domains.end() ? Domain{} : found->second[std::min(operand, found->second.size() - 1)];
}

// The primitive of real operands; a select's condition is made from operand 0.
Function primitive(Op op) {
  return [op](const std::vector<Tensor>& x) {
    Tensor condition;
    std::vector<At> operands(x.begin(), x.end());
    if (info(op).dtypes == DTypeClass::select) {
      condition = x[0] < 0.25;
      operands[0] = At(condition);
    }
    return pointwise(op, operands);
  };
}

}  // namespace

bool is_real_function(Op op) {
  DTypeClass dtypes = info(op).dtypes;
  return info(op).kind == OpKind::pointwise &&
         (dtypes == DTypeClass::arithmetic || dtypes == DTypeClass::floating || dtypes == DTypeClass::select);
}

Case pointwise_case(Op op, std::span<const Shape> shapes) {
  Case result{info(op).name, {}, primitive(op)};
  for (int i = 0; i < info(op).arity; ++i) {
    Domain d = domain(info(op).name, static_cast<std::size_t>(i));
    result.inputs.push_back(
        numbers(shapes[static_cast<std::size_t>(i)], d.low, d.high, static_cast<unsigned>(7 * i + 3)));
  }
  // A select's condition passes no gradient: keep another way to it.
  if (info(op).dtypes == DTypeClass::select)
    result.f = [f = result.f](const std::vector<Tensor>& x) { return f(x) + sum(x[0]); };
  return result;
}

std::vector<Case> structural_cases() {
  Literal m = numbers(Shape::of(3, 4), -2, 2, 1), v = numbers(Shape::of(5), -2, 2, 2),
          cube = numbers(Shape::of(2, 3, 4), -2, 2, 4);
  Literal rows = integers(Shape::of(2, 2), {2, 0, 2, 2});
  Literal image = numbers(Shape::of(2, 4, 5), -2, 2, 11), kernel = numbers(Shape::of(2, 2, 2), -2, 2, 12),
          slope = numbers(Shape::of(2, 2, 3), -2, 2, 13);
  Literal matrix = numbers(Shape::of(3, 3), -1, 1, 20), matrices = numbers(Shape::of(2, 3, 3), -1, 1, 21);
  for (std::size_t i = 0; i < 18; i += i % 9 == 8 ? 1 : 4) {  // diagonals
    matrices.reals[i] += 3;
    if (i < 9) matrix.reals[i] += 3 + static_cast<double>(i) / 8;
  }
  Convolution by_groups;
  by_groups.strides.push_back(2), by_groups.low.push_back(1), by_groups.high.push_back(2);
  by_groups.dilation.push_back(2), by_groups.groups = 2;
  using X = const std::vector<Tensor>&;
  return {
      {"scan",
       {m, v, cube},
       [](X x) {
         auto [last, ys] = scan(
             [&](const Tensor& s, const Tensor& row) {
               const Tensor next = tanh(matmul(row, transpose(x[0])) * slice(s, 1, 0, 3)) + sum(x[1]);
               return std::pair{concat(std::vector{next, slice(s, 1, 0, 1)}, 1), next * s[0][0]};
             },
             x[2][0], x[2]);
         return sum(last) + ys;
       }},
      {"update_slice",
       {m, cube},
       [](X x) {
         const Tensor part = reshape(slice(x[1], 1, 0, 2), {4, 4});
         return update_slice(x[0] * x[0], slice(part, 0, 1, 3), 0, Index(1)) *
                cast(slice(x[1], 2, Index(1), 2)[0][0][1], DType::f64);
       }},
      {"update_rows",
       {m, cube},
       [](X x) {
         const auto updated = [&](int axis, bool adds) {  // row 1 twice
           const Tensor index = constant(std::vector<std::int64_t>{1, 0, 1}, {3});
           const Tensor rows = axis == 0 ? x[0] : slice(x[1] * x[1], 1, 0, 3)[0];
           return record(Op::update_rows, {sin(x[0]), axis == 0 ? rows : slice(transpose(rows), 0, 0, 3), index},
                         RowUpdate{static_cast<std::uint8_t>(axis), adds}, {}, {});
         };
         return sum(square(updated(0, false))) + sum(exp(updated(0, true))) +
                sum(cos(updated(1, false)) * square(updated(1, true)));
       }},
      {"cond",
       {m},
       [](X x) {
         const auto f = [](const Tensor& a) { return sin(a) * a; };
         return cond(
             sum(x[0]) < 1e9, f, [](const Tensor& a) { return a + 1; }, x[0]);
       }},
      {"cast to f64", {m}, [](X x) { return cast(cast(x[0], DType::f64) * x[0], DType::f64); }},
      {"reshape",
       {m},
       [](X x) {
         return square(reshape(x[0], {2, 6}));
       }},
      {"permute",
       {cube},
       [](X x) {
         return square(permute(x[0], {2, 0, 1}));
       }},
      {"expand",
       {v},
       [](X x) {
         return square(expand(x[0], {2, 3, 5}));
       }},
      {"expand of size 1",
       {numbers(Shape::of(2, 1, 3), -2, 2, 3)},
       [](X x) {
         return square(expand(x[0], {4, 2, 5, 3}));
       }},
      {"slice", {m}, [](X x) { return square(slice(x[0], 1, 1, 3)); }},
      {"slice by steps", {v}, [](X x) { return square(slice(x[0], 0, 0, 5, 2)); }},
      {"slice by steps that leave a rest", {v}, [](X x) { return square(slice(x[0], 0, 0, 4, 3)); }},
      {"slice backwards", {v}, [](X x) { return square(slice(x[0], 0, 3, 0, -2)); }},
      {"flip", {m}, [](X x) { return square(flip(x[0], 0)) * x[0]; }},
      {"slice of nothing",
       {v},
       [](X x) {
         return concat({square(slice(x[0], 0, 3, 3)), square(x[0])});
       }},
      {"concat",
       {m, numbers(Shape::of(3, 2), -2, 2, 5)},
       [](X x) {
         return square(concat({x[0], x[1], x[0]}, 1));
       }},
      {"pad", {m}, [](X x) { return square(pad(x[0], 1, 2, 1)); }},
      {"pad inside", {m}, [](X x) { return square(pad(x[0], 0, 1, 0, 2)); }},
      {"sum",
       {cube},
       [](X x) {
         return square(sum(x[0], {0, 2}));
       }},
      {"sum of all", {cube}, [](X x) { return square(sum(x[0])); }},
      {"mean", {cube}, [](X x) { return square(mean(x[0], 1, true)); }},
      {"var",
       {cube},
       [](X x) {
         return square(var(x[0], {1, 2}));
       }},
      {"prod",
       {cube},
       [](X x) {
         return prod(x[0], {0, 1});
       }},
      {"prod of all", {m}, [](X x) { return prod(x[0]); }},
      {"prod of one",
       {v},
       [](X x) {
         return square(prod(reshape(x[0], {5, 1}), 1));
       }},
      {"prod with one zero", {literal(Shape::of(2, 3), {1, 0, 3, 4, 5, 6})}, [](X x) { return prod(x[0], 1); }},
      {"prod with two zeros", {literal(Shape::of(4), {1.5, 0, 3, 0})}, [](X x) { return prod(x[0]); }},
      {"amax",
       {cube},
       [](X x) {
         return square(amax(x[0], {0, 2}));
       }},
      {"amin", {cube}, [](X x) { return square(amin(x[0], 1, true)); }},
      {"matmul", {m, numbers(Shape::of(4, 2), -2, 2, 6)}, [](X x) { return square(matmul(x[0], x[1])); }},
      {"matmul of transposed operands",
       {m, numbers(Shape::of(2, 3), -2, 2, 6)},
       [](X x) { return square(matmul(transpose(x[0]), transpose(x[1]))); }},
      {"matmul of batches", {cube, numbers(Shape::of(4, 2), -2, 2, 6)}, [](X x) { return square(matmul(x[0], x[1])); }},
      {"matmul of vectors", {v, v}, [](X x) { return square(matmul(x[0], x[1])); }},
      {"windows",
       {numbers(Shape::of(2, 9), -2, 2, 10)},
       [](X x) {
         return square(record(Op::windows, {x[0]}, Windows{3, 2, 2, 1}, {}, {}));
       }},
      {"convolution",
       {image, kernel},
       [=](X x) {
         return square(record(Op::convolution, {x[0], x[1]}, by_groups, {}, {}));
       }},
      {"convolution_input_gradient",
       {slope, kernel},
       [=](X x) {
         return square(record(Op::convolution_input_gradient, {x[0], x[1]}, by_groups, image.type, {}));
       }},
      {"convolution_weight_gradient",
       {image, slope},
       [=](X x) {
         return square(record(Op::convolution_weight_gradient, {x[0], x[1]}, by_groups, kernel.type, {}));
       }},
      {"convolution of one channel a group",
       {numbers(Shape::of(2, 2, 4, 4), -2, 2, 14), numbers(Shape::of(2, 1, 3, 2), -2, 2, 15)},
       [](X x) { return square(conv2d(x[0], x[1], {.padding = 1, .groups = 2})); }},
      {"gather", {m, rows}, [](X x) { return square(gather(x[0], x[1])); }},
      {"scatter_add",
       {cube, integers(Shape::of(2), {4, 4})},
       [](X x) {
         return square(record(Op::scatter_add, {x[1], x[0]}, {}, made_type(DType::f64, Shape::of(5, 3, 4)), {}));
       }},
      {"scatter_amax",
       {cube, integers(Shape::of(2), {4, 4})},
       [](X x) {
         const Type table = made_type(DType::f64, Shape::of(5, 3, 4));
         return square(gather(record(Op::scatter_amax, {x[1], x[0]}, {}, table, {}), x[1]));
       }},
      {"cumsum", {cube}, [](X x) { return square(cumsum(x[0], 1)); }},
      {"cumprod", {cube}, [](X x) { return square(cumprod(x[0], 2)) + cumprod(x[0], 1); }},
      {"cumprod with a zero",
       {literal(Shape::of(2, 4), {1, 0, 3, 4, 5, 6, 0, 2})},
       [](X x) { return cumprod(x[0], 1); }},
      {"cumprod with two zeros",
       {literal(Shape::of(5), {1.5, 0, 3, 0, 2})},
       [](X x) { return square(cumprod(x[0], 0)) + cumprod(x[0], 0); }},
      {"cummax", {cube}, [](X x) { return square(cummax(x[0], 1).values); }},
      {"cummin", {m}, [](X x) { return square(cummin(x[0], 1).values); }},
      {"logcumsumexp", {cube}, [](X x) { return square(logcumsumexp(x[0], 1)) + logcumsumexp(x[0], 2); }},
      {"variable", {v}, [](X x) { return square(record(Op::variable, {x[0]}, {}, {}, {})); }},
      {"stop_gradient", {v}, [](X x) { return square(x[0]) - stop_gradient(x[0]) + x[0]; }},
      {"transfer", {v}, [](X x) { return square(record(Op::transfer, {x[0]}, {}, type_of(x[0]), {})); }},
      {"all_reduce",
       {v},
       [](X x) {
         const Collective group{{intern_text("data")}};
         const Tensor started = record(Op::all_reduce_start, {square(x[0])}, group, {}, {});
         return square(record(Op::all_reduce_wait, {started}, group, {}, {}));
       }},
      {"broadcast",
       {v},
       [](X x) {
         return square(record(Op::broadcast, {square(x[0])}, RootedCollective{{intern_text("data")}}, {}, {}));
       }},
      {"reduce_to_root",
       {v},
       [](X x) {
         return square(record(Op::reduce_to_root, {square(x[0])}, RootedCollective{{intern_text("data")}}, {}, {}));
       }},
      {"all_gather",
       {m},
       [](X x) { return square(record(Op::all_gather, {square(x[0])}, Collective{{intern_text("data")}}, {}, {})); }},
      {"reduce_scatter",
       {m},
       [](X x) {
         return square(record(Op::reduce_scatter, {square(x[0])}, Collective{{intern_text("data")}}, {}, {}));
       }},
      {"host_call",
       {v},
       [](X x) {
         const HostFunction cube([](const Tensor& x) { return x * x * x; });
         const auto derivative = [](const Tensor& x, const Tensor&, const Tensor& g) { return g * 3 * x * x; };
         return square(host_call(like(x[0]), cube.with_derivative(derivative), x[0]));
       }},
      {"iota", {v}, [](X x) { return square(x[0]) * arange(5); }},
      {"argmax", {m}, [](X x) { return square(x[0]) * cast(argmax(x[0], 1, true), DType::f64); }},
      {"softmax", {m}, [](X x) { return softmax(x[0]); }},
      {"log_softmax", {m}, [](X x) { return log_softmax(x[0], 0); }},
      {"logsumexp", {cube}, [](X x) { return logsumexp(x[0], 1); }},
      {"gelu", {m}, [](X x) { return gelu(x[0]) + gelu(x[0], Gelu::tanh); }},
      {"silu", {m}, [](X x) { return silu(x[0]); }},
      {"norm", {m}, [](X x) { return norm(x[0], 1); }},
      {"std", {m}, [](X x) { return weft::std(x[0], 1); }},
      {"roll", {m}, [](X x) { return square(roll(x[0], 1)) * roll(x[0], -1, 1); }},
      {"tril and triu", {m}, [](X x) { return square(tril(x[0], 1)) + triu(x[0]); }},
      {"diagonal and diag",
       {cube},
       [](X x) { return square(diagonal(x[0], 1, 0, 2)) + sum(diag(diagonal(x[0][0]), 1)); }},
      {"tile and repeat_interleave",
       {m},
       [](X x) {
         return square(tile(repeat_interleave(x[0], 2, 0), {2, 1}));
       }},
      {"unfold", {v}, [](X x) { return square(unfold(x[0], 0, 3, 2)); }},
      {"pad by its own elements",
       {m},
       [](X x) {
         return square(pad(pad(x[0], {1, 2, 2, 1}, Pads::reflect), {1, 1}, Pads::circular)) +
                sum(pad(x[0], {2, 1}, Pads::replicate)) + sum(square(pad(x[0], {1, 1}, Pads::constant, 3)));
       }},
      {"einsum",
       {cube, numbers(Shape::of(2, 4, 3), -2, 2, 6)},
       [](X x) {
         return einsum("bij,bjk->bki", {x[0], x[1]}) + einsum("bij,bji->b", {x[0], x[1]})[0];
       }},
      {"gather along an axis",
       {m, rows},
       [](X x) { return square(gather(x[0], 0, x[1])) + gather(x[0], 1, x[1]) + sum(index_select(x[0], 1, x[1][0])); }},
      {"scatter_add along an axis",
       {m, numbers(Shape::of(3, 4), -2, 2, 6), rows},
       [](X x) {
         return square(scatter_add(x[0], 1, x[2], x[1])) + index_add(x[0], 0, x[2][0], slice(x[1], 0, 0, 2));
       }},
      {"scatter",
       {m, numbers(Shape::of(3, 4), -2, 2, 6), rows},
       [](X x) { return square(scatter(x[0], 1, x[2], x[1])) + square(scatter(x[0], 0, x[2], 3)); }},
      {"scatter_reduce",
       {m, numbers(Shape::of(3, 4), -2, 2, 6), rows},
       [](X x) {
         return square(scatter_reduce(x[0], 1, x[2], x[1], ScatterReduction::amax)) +
                square(scatter_reduce(x[0], 1, x[2], x[1], ScatterReduction::amin, false)) +
                square(scatter_reduce(x[0], 0, x[2], x[1], ScatterReduction::mean)) +
                scatter_reduce(x[0], 0, x[2], x[1], ScatterReduction::sum, false);
       }},
      {"rows that are set",
       {m, numbers(Shape::of(3, 4), -2, 2, 6), rows},
       [](X x) {
         const Tensor at = x[2][0];
         return square(set_rows(x[0], at, slice(x[1], 0, 0, 2))) + index_copy(x[0], 0, at, slice(x[1], 0, 1)) +
                square(index_fill(x[0], 0, at, 2)) + square(index_put(x[0], {at, at}, x[1][0][0])) +
                index_put(x[0], {at, at}, x[1][1][2], true) + square(masked_scatter(x[0], x[0] > 0.5, x[1]));
       }},
      {"argsort", {m}, [](X x) { return square(x[0]) * cast(argsort(x[0], 0), DType::f64); }},
      {"sort, topk and quantile",
       {m},
       [](X x) { return square(sort(x[0], 1, true).values) + topk(x[0], 3, 0).values + quantile(x[0], 0.4); }},
      {"cholesky",
       {matrix},
       [](X x) { return square(linalg::cholesky(matmul(x[0], transpose(x[0])) + linalg::identity_like(x[0]))); }},
      {"solve_triangular",
       {matrices, numbers(Shape::of(2, 3, 2), -2, 2, 22)},
       [](X x) {
         return linalg::solve_triangular(x[0], x[1], {.upper = true}) * linalg::solve_triangular(x[0], x[1]);
       }},
      {"solve, det and slogdet",
       {matrix, v},
       [](X x) {
         const auto [sign, size] = linalg::slogdet(x[0]);
         return linalg::solve(x[0], slice(x[1], 0, 0, 3)) * linalg::det(x[0]) + size * sign;
       }},
      {"solve of a batch, and inv",
       {matrices},
       [](X x) { return linalg::inv(x[0]) + linalg::solve(x[0], transpose(x[0])); }},
      {"lu",
       {matrix},
       [](X x) {
         const auto [p, l, u] = linalg::lu(x[0]);
         return square(u) + matmul(p, square(l));
       }},
      {"lu_solve",
       {matrix},
       [](X x) {
         const auto [lu, pivots] = linalg::lu_factor(x[0]);
         return linalg::lu_solve(lu, pivots, x[0] * x[0]) +
                linalg::lu_solve(lu, pivots, sin(x[0]), {.left = false, .adjoint = true});
       }},
      {"ldl_factor and ldl_solve",
       {matrix},
       [](X x) {
         const auto [ld, pivots] = linalg::ldl_factor(x[0] + transpose(x[0]));
         return linalg::ldl_solve(ld, pivots, x[0] * x[0]) + square(ld);
       }},
      {"ldl_factor with blocks of two",
       {matrices},
       [](X x) {
         const Tensor off = tril(x[0], -1), a = off + transpose(off) + (x[0] + transpose(x[0])) * 1e-3;
         const auto [ld, pivots] = linalg::ldl_factor(a);
         return linalg::ldl_solve(ld, pivots, sin(x[0])) + tril(ld, -1);
       }},
      {"householder_product and vander",
       {m},
       [](X x) {
         return linalg::householder_product(transpose(x[0]), slice(x[0][0], 0, 1, 4)) + sum(linalg::vander(x[0][0], 3));
       }},
      {"qr, tall",
       {m},
       [](X x) {
         const auto [q, r] = linalg::qr(transpose(x[0]));
         return matmul(square(q), square(r));
       }},
      {"qr, wide",
       {m},
       [](X x) {
         const auto [q, r] = linalg::qr(x[0]);
         return matmul(square(q), square(r));
       }},
      {"eigh",
       {matrix},
       [](X x) {
         const auto [values, vectors] = linalg::eigh(x[0] + transpose(x[0]));
         return square(vectors) * sin(values) + sum(square(linalg::eigvalsh(x[0] + transpose(x[0]))));
       }},
      {"eig",  // in any order of eigenvalues
       {matrix},
       [](X x) {
         const auto [values, vectors] = linalg::eig(x[0]);
         const Tensor sizes = square(vectors.real) + square(vectors.imag);
         return sum(sizes * unsqueeze(sin(values.real) * cos(values.imag), -2), -1) +
                sum(square(linalg::eigvals(x[0]).imag));
       }},
      {"svd",
       {m},
       [](X x) {
         const auto [u, s, vh] = linalg::svd(x[0], false);
         const auto [a, b, c] = linalg::svd(transpose(x[0]), false);
         return matmul(square(u) * sin(s), square(vh)) + transpose(matmul(square(a), square(c))) +
                linalg::matrix_norm(x[0], "nuc");
       }},
      {"pinv and lstsq",
       {m},
       [](X x) {
         return linalg::pinv(x[0]) * (linalg::lstsq(x[0], square(slice(x[0], 1, 0, 3))) +
                                      linalg::lstsq(transpose(x[0]), sin(transpose(x[0])))[0]);
       }},
      {"real_fourier",
       {cube, m},
       [](X x) {
         const auto even = fft::rfft(x[0], {.n = 6}), odd = fft::rfft(x[0], {.n = 5});
         return sum(square(fft::irfft(even)) * fft::irfft({square(even.imag), even.real}, {.n = 6})) +
                fft::irfft({square(odd.real), odd.imag}, {.n = 5}) * sum(fft::rfft(x[1]).imag);
       }},
      {"fourier",
       {cube, m},
       [](X x) {
         const auto [real, imag] = fft::fft({x[0], square(x[0])}, {.axis = 1});
         return square(fft::irfft({real, imag}, {.norm = fft::Norm::ortho})) * sum(fft::rfft(x[1]).imag);
       }},
      {"masked_fill", {m}, [](X x) { return square(masked_fill(x[0], x[0] > 0.5, 2)); }},
      {"layer_norm",
       {m, numbers(Shape::of(4), 0.5, 2, 7), numbers(Shape::of(4), -1, 1, 8)},
       [](X x) { return nn::layer_norm(x[0], x[1], x[2]); }},
      {"cross_entropy", {m, integers(Shape::of(3), {1, 0, 2})}, [](X x) { return nn::cross_entropy(x[0], x[1]); }},
      {"mse_loss", {m, numbers(Shape::of(3, 4), -2, 2, 9)}, [](X x) { return nn::mse_loss(x[0], x[1]); }},
  };
}

}  // namespace weft::test
