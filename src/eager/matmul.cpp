// Matrix products: f32 and f64 where they lie, through runtime/matmul; f16 and bf16 as f32, rounded to the result's
// dtype; integers by a plain loop that wraps.
#include <algorithm>
#include <cstring>

#include "base/fail.hpp"
#include "eager/eager.hpp"
#include "runtime/host/matmul.hpp"

namespace weft::eager {
namespace {

template <class T>
void multiply_integers(const runtime::Matmul& p, const T* a, const T* b, T* c) {
  using Word = std::uint64_t;
  for (std::int64_t row = 0; row < p.m; ++row)
    for (std::int64_t i = 0; i < p.k; ++i) {
      Word x = static_cast<Word>(a[row * p.a_row + i * p.a_column]);
      for (std::int64_t column = 0; column < p.n; ++column) {
        T& total = c[row * p.c_row + column];
        total = static_cast<T>(static_cast<Word>(total) + x * static_cast<Word>(b[i * p.b_row + column * p.b_column]));
      }
    }
}

void multiply_integers(const runtime::Matmul& p, const Value& a, const Value& b, Value& c) {
  std::size_t bytes = c.element_bytes();
  std::int64_t matrices = 1;
  for (std::int64_t size : p.batch) matrices *= size;
  for (std::int64_t matrix = 0; matrix < matrices; ++matrix) {
    std::int64_t left = 0, right = 0, rest = matrix;
    for (std::size_t axis = p.batch.size(); axis-- > 0; rest /= p.batch[axis]) {
      left += rest % p.batch[axis] * p.a_batch[axis];
      right += rest % p.batch[axis] * p.b_batch[axis];
    }
    void* to = c.as<std::byte>() + static_cast<std::size_t>(matrix * p.m * p.n) * bytes;
    auto multiply = [&]<class T>(T) { multiply_integers(p, a.as<T>() + left, b.as<T>() + right, static_cast<T*>(to)); };
    switch (c.type.dtype) {
      case DType::u8: multiply(std::uint8_t{}); break;
      case DType::i32: multiply(std::int32_t{}); break;
      case DType::i64: multiply(std::int64_t{}); break;
      default: WEFT_CHECK(false, "matmul of ", to_string(c.type));
    }
  }
}

}  // namespace

Value execute_matmul(const Type& type, const Value& a, const Value& b) {
  if (const DType computed = computed_in(a.type.dtype); computed != a.type.dtype) {
    Type wide = type;
    wide.dtype = computed;
    return convert(execute_matmul(wide, convert(a, computed), convert(b, computed)), type.dtype);
  }
  Value c = make_value(type);
  int row = c.sizes.rank - 2, column = c.sizes.rank - 1;
  runtime::Matmul product;
  product.dtype = type.dtype;
  product.m = c.sizes.size[row];
  product.n = c.sizes.size[column];
  product.k = a.sizes.size[column];
  product.a_row = a.layout.strides[row];
  product.a_column = a.layout.strides[column];
  product.b_row = b.layout.strides[row];
  product.b_column = b.layout.strides[column];
  product.c_row = c.layout.strides[row];
  product.c_column = 1;
  auto batch = static_cast<std::size_t>(row);
  product.batch = {c.sizes.size, batch};
  product.a_batch = {a.layout.strides, batch};
  product.b_batch = {b.layout.strides, batch};
  product.c_batch = {c.layout.strides, batch};
  if (c.sizes.count() == 0) return c;
  bool floats = is_floating(type.dtype);
  if (product.k == 0 || !floats)
    std::memset(c.data(), 0, static_cast<std::size_t>(c.sizes.count()) * c.element_bytes());
  if (product.k == 0) return c;
  if (floats)
    runtime::matmul(product, a.data(), b.data(), c.data());
  else
    multiply_integers(product, a, b, c);
  return c;
}

}  // namespace weft::eager
