#include "ir/factorization.hpp"

#include "base/fail.hpp"
#include "ir/infer.hpp"

namespace weft {

namespace {

bool is_fourier(Op op) { return op == Op::fourier || op == Op::real_fourier || op == Op::inverse_real_fourier; }

}  // namespace

std::vector<Type> infer_factorization(Op op, std::span<const Tensor> operands, const Attributes& attributes, Loc loc) {
  const char* const name = info(op).name;
  for (const Tensor& operand : operands) {
    const Type& type = type_of(operand);
    if (type.dtype != DType::f32 && type.dtype != DType::f64)
      fail(name, loc, "needs f32 or f64: ", describe_operands(operands));
    if (type.dtype != type_of(operands[0]).dtype) fail(name, loc, "dtypes differ: ", describe_operands(operands));
    if (type.device != type_of(operands[0]).device)
      fail(name, loc, "operands live on different devices: ", describe_operands(operands));
  }
  Type first = type_of(operands[0]);
  first.weak = false;
  const int rank = first.shape.rank();
  if (is_fourier(op)) {
    if (rank < 1 || !(first.shape == type_of(operands.back()).shape))
      fail(name, loc, "needs real and imaginary parts of one shape: ", describe_operands(operands));
    Dim& points = first.shape[rank - 1];
    if (op == Op::real_fourier) {
      points = points / Dim(2) + Dim(1);
    } else if (op == Op::inverse_real_fourier) {
      const Dim count = attributes.as<RealPoints>().count;
      if (!(points == count / Dim(2) + Dim(1)))
        fail(name, loc, "needs half of ", dims::to_string(count), " points and one: ", describe_operands(operands));
      points = count;
      return {first};
    }
    return {first, first};
  }
  if (rank < 2) fail(name, loc, "needs a matrix, or a batch of them: ", describe_operands(operands));
  const Dim m = first.shape[rank - 2], n = first.shape[rank - 1];
  if (op != Op::qr && op != Op::svd && !(m == n))
    fail(name, loc, "needs a square matrix, or a batch of them: ", describe_operands(operands));
  const auto shaped = [&](std::initializer_list<Dim> last) {
    Type type = first;
    type.shape = Shape();
    for (int i = 0; i < rank - 2; ++i) type.shape.push_back(first.shape[i]);
    for (const Dim size : last) type.shape.push_back(size);
    return type;
  };
  const auto lesser = [&] { return m <= n ? m : n; };
  if (op == Op::triangular_solve) {
    Type result = type_of(operands[1]);
    result.weak = false;
    bool fits = result.shape.rank() == rank && result.shape[rank - 2] == n;
    for (int i = 0; fits && i < rank - 2; ++i) fits = result.shape[i] == first.shape[i];
    if (!fits) fail(name, loc, "the right side does not fit: ", describe_operands(operands));
    return {result};
  }
  if (op == Op::lu || op == Op::ldl) {
    Type rows = shaped({n});
    rows.dtype = DType::i64;
    return {first, rows};
  }
  if (op == Op::qr) return {shaped({m, lesser()}), shaped({lesser(), n})};
  if (op == Op::eigh) {
    if (attributes.as<Spectrum>().vectors) return {shaped({n}), first};
    return {shaped({n})};
  }
  if (op == Op::eig) {
    if (attributes.as<Spectrum>().vectors) return {shaped({n}), shaped({n}), first, first};
    return {shaped({n}), shaped({n})};
  }
  if (op == Op::svd) {
    const auto& spectrum = attributes.as<Spectrum>();
    const Dim k = lesser();
    if (!spectrum.vectors) return {shaped({k})};
    return {shaped({k}), shaped({m, spectrum.full ? m : k}), shaped({spectrum.full ? n : k, n})};
  }
  return {first};  // cholesky
}

Factorization factorization_of(Op op, const Attributes& attributes, DType dtype) {
  Factorization result;
  result.dtype = dtype;
  switch (op) {
    case Op::cholesky: result.kind = Factorization::Kind::cholesky; break;
    case Op::lu: result.kind = Factorization::Kind::lu; break;
    case Op::ldl: result.kind = Factorization::Kind::ldl; break;
    case Op::qr: result.kind = Factorization::Kind::qr; break;
    case Op::fourier:
      result.kind = Factorization::Kind::fourier;
      result.inverse = attributes.as<Fourier>().inverse;
      break;
    case Op::real_fourier: result.kind = Factorization::Kind::real_fourier; break;
    case Op::inverse_real_fourier: result.kind = Factorization::Kind::inverse_real_fourier; break;
    case Op::triangular_solve: {
      result.kind = Factorization::Kind::triangular_solve;
      const auto& triangle = attributes.as<Triangle>();
      result.upper = triangle.upper, result.transposed = triangle.transposed, result.unit = triangle.unit;
      break;
    }
    case Op::eigh:
    case Op::svd:
    case Op::eig: {
      result.kind = op == Op::eigh  ? Factorization::Kind::eigh
                    : op == Op::svd ? Factorization::Kind::svd
                                    : Factorization::Kind::eig;
      const auto& spectrum = attributes.as<Spectrum>();
      result.vectors = spectrum.vectors, result.full = spectrum.full;
      break;
    }
    default: WEFT_CHECK(false, info(op).name, " is no factorization");
  }
  return result;
}

FactorizationSizes<Dim> factorization_sizes(Op op, const Attributes& attributes, const Shape& a, const Shape& b) {
  FactorizationSizes<Dim> sizes;
  const bool transforms = is_fourier(op);
  const int rank = a.rank(), matrix = transforms ? 1 : 2;
  for (int i = 0; i < rank - matrix; ++i) sizes.batch = sizes.batch * a[i];
  if (!transforms) sizes.rows = a[rank - 2];
  sizes.columns = op == Op::inverse_real_fourier ? attributes.as<RealPoints>().count : a[rank - 1];
  if (op == Op::triangular_solve) sizes.sides = b[rank - 1];
  return sizes;
}

}  // namespace weft
