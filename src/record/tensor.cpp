// The handle's own questions, and printing.
#include "weft/tensor.hpp"

#include <cmath>
#include <ostream>

#include "base/fail.hpp"
#include "record/evaluate.hpp"
#include "record/host_call.hpp"
#include "record/record.hpp"

namespace weft {
namespace {

const Type& type_checked(const Tensor& value, const char* operation, Loc loc) {
  if (!value.defined()) fail(operation, recorder().loc.file ? recorder().loc : loc, "of an undefined tensor");
  note_call(loc);
  return type_of(value);
}

}  // namespace

DType Tensor::dtype(Loc loc) const { return type_checked(*this, "dtype", loc).dtype; }
int Tensor::rank(Loc loc) const { return type_checked(*this, "rank", loc).shape.rank(); }
Shape Tensor::shape(Loc loc) const { return type_checked(*this, "shape", loc).shape; }
Dim Tensor::element_count(Loc loc) const { return type_checked(*this, "element_count", loc).shape.element_count(); }
Device Tensor::device(Loc loc) const { return type_checked(*this, "device", loc).device; }
Dim Tensor::size(int axis, Loc loc) const {
  const Shape& shape = type_checked(*this, "size", loc).shape;
  return shape[normalize_axis("size", axis, shape.rank(), loc)];
}

void detail::refuse_literal(std::uint64_t value, Loc loc) {
  fail("literal", recorder().loc.file ? recorder().loc : loc, value, " is beyond i64: write it as a double");
}
void detail::refuse_size(Loc loc) {
  fail("size", recorder().loc.file ? recorder().loc : loc, "a size of 2^61 or more can't be computed with");
}

const Tensor& Tensor::eval(Loc loc) const {
  type_checked(*this, "eval", loc);
  evaluate(std::span(this, 1), loc);
  return *this;
}

// ---- printing -----------------------------------------------------------------------------------------------------

namespace {

void print_number(std::ostream& out, double value, DType) {
  if (std::isnan(value))
    out << "nan";
  else
    out << concat_text(value);
}
void print_number(std::ostream& out, std::int64_t value, DType dtype) {
  if (dtype == DType::boolean)
    out << (value != 0 ? "true" : "false");
  else
    out << concat_text(value);
}

// Of many elements at most six an axis are shown: the first and the last three.
bool is_cut(const Type& type, int axis) {
  return type.shape.element_count().constant() > 1000 && type.shape[axis].constant() > 6;
}
Tensor shown_part(const Tensor& tensor) {
  Tensor part = tensor;
  for (int axis = 0; axis < type_of(tensor).shape.rank(); ++axis)
    if (is_cut(type_of(tensor), axis)) part = concat({slice(part, axis, 0, 3), slice(part, axis, -3)}, axis);
  return part;
}

template <class T>
void print_axis(std::ostream& out, const Type& type, const View<const T>& shown, int axis, std::size_t& at) {
  if (axis == type.shape.rank()) return print_number(out, shown[at++], type.dtype);
  const bool cut = is_cut(type, axis);
  const std::int64_t size = cut ? 6 : type.shape[axis].constant();
  out << "[";
  for (std::int64_t i = 0; i < size; ++i) {
    if (cut && i == 3) out << ", ...";
    if (i) out << (axis + 1 == type.shape.rank() ? ", " : ",\n" + std::string(static_cast<std::size_t>(axis) + 1, ' '));
    print_axis(out, type, shown, axis + 1, at);
  }
  out << "]";
}

// As f64 or i64, which hold every value of the dtype.
template <class T>
void print_elements(std::ostream& out, const Tensor& tensor) {
  const Tensor wide = cast(shown_part(tensor), dtype_of<T>);
  std::size_t at = 0;
  print_axis(out, type_of(tensor), wide.data<T>(), 0, at);
}

std::ostream& print(std::ostream& out, const Tensor& tensor, bool with_type) {
  if (!tensor.defined()) return out << "undefined";
  Type type = type_of(tensor);
  type.weak = false;  // an inner matter of promotion
  if (tensor.node()->trace != 0) return out << to_string(type) << " (traced)";
  if (is_floating(type.dtype))
    print_elements<double>(out, tensor);
  else
    print_elements<std::int64_t>(out, tensor);
  if (with_type) out << " " << to_string(type);
  return out;
}

}  // namespace

void write_elements(std::ostream& out, const Tensor& value) { print(out, value, false); }

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) { return print(out, tensor, true); }
std::ostream& operator<<(std::ostream& out, const Scalar& scalar) { return print(out, scalar.tensor(), false); }
std::ostream& operator<<(std::ostream& out, const Index& index) { return print(out, index.tensor(), false); }

}  // namespace weft
