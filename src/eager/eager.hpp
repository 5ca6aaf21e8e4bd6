// The eager CPU executor: computes one primitive at a time with pre-built kernels. In: computed values. Out: a computed
// value: fresh memory, a view of an operand's, or, of an update, the memory of the operand that it updates where that
// has the only reference. Results are a function of the operands alone: work is cut by
// shape, and threads only share the pieces out.
#pragma once
#include <utility>

#include "base/storage.hpp"
#include "eager/layout.hpp"
#include "ir/table.hpp"

namespace weft::eager {

// A computed value: memory, and where in it. Owns a reference to the memory.
struct Value {
  Type type;
  Sizes sizes;
  Layout layout;
  Storage* storage = nullptr;

  Value() = default;
  // Takes over a reference.
  Value(const Type& type, Storage* storage, const Layout& layout)
      : type(type), sizes(sizes_of(type)), layout(layout), storage(storage) {}
  Value(const Value& other) : type(other.type), sizes(other.sizes), layout(other.layout), storage(other.storage) {
    if (storage) retain(storage);
  }
  Value(Value&& other) noexcept
      : type(other.type), sizes(other.sizes), layout(other.layout), storage(std::exchange(other.storage, nullptr)) {}
  Value& operator=(Value other) noexcept {
    type = other.type;
    sizes = other.sizes;
    layout = other.layout;
    std::swap(storage, other.storage);
    return *this;
  }
  ~Value() {
    if (storage) release(storage);
  }

  std::size_t element_bytes() const { return storage_bytes(type.dtype, 1); }
  // The first element.
  void* data() const {
    return static_cast<std::byte*>(storage->data) + static_cast<std::size_t>(layout.offset) * element_bytes();
  }
  template <class T>
  T* as() const {
    return static_cast<T*>(data());
  }
  bool contiguous() const { return is_contiguous(sizes, layout); }
};

// Fresh contiguous memory, contents undefined.
Value make_value(const Type& type);
// The same elements, contiguous: the value itself where it is.
Value make_contiguous(const Value& value);
// The same elements, contiguous, to be written into: the value's own memory where the value has the only reference to
// it, else a copy. Once it is written the value is not read any more.
Value make_writable(const Value& value);
// The same elements in another dtype.
Value convert(const Value& value, DType dtype);

// Computes a primitive other than a leaf of a graph (input, data) or a region. `type` and `attributes` have no symbols.
Value execute(Op op, const Attributes& attributes, const Type& type, std::span<const Value> operands, Loc loc);

// ---- the parts of it, by kind of primitive --------------------------------------------------------------------------

Value execute_pointwise(Op op, const Type& type, std::span<const Value> operands);
Value execute_reduction(Op op, const Reduce& reduce, const Type& type, const Value& operand);
Value execute_matmul(const Type& type, const Value& a, const Value& b);
Value execute_convolution(Op op, const Attributes& attributes, const Type& type, std::span<const Value> operands,
                          Loc loc);
Value execute_gather(const Type& type, const Value& table, const Value& index, Loc loc);
Value execute_update_slice(const Along& along, const Type& type, std::span<const Value> operands);
Value execute_update_rows(const RowUpdate& update, const Type& type, std::span<const Value> operands, Loc loc);
Value execute_scatter(Op op, const Type& type, const Value& index, const Value& updates, Loc loc);
Value execute_cumulative(Op op, const Along& along, const Type& type, const Value& operand);
Value execute_argsort(const Order& order, const Type& type, const Value& operand);
// All results, of known sizes.
std::vector<Value> execute_factorization(Op op, const Attributes& attributes, std::span<const Type> types,
                                         std::span<const Value> operands);
// The results of a scalar expression, of the given types.
std::vector<Value> execute_elementwise(const ElementwiseDefinition& definition, std::span<const Type> types,
                                       std::span<const Value> operands);
Value execute_random_bits(const Type& type, const Value& seed, const Value& offset);

// On contiguous memory: result[i] = op(a[i], b[i]), all of one dtype, and result[i] = a[i] in another dtype. f16 and
// bf16 convert to f32 and from f32, f64, i32 and i64.
void combine(Op op, DType dtype, void* result, const void* a, const void* b, std::int64_t count);
void cast_elements(DType from, DType to, void* result, const void* data, std::int64_t count);

}  // namespace weft::eager
