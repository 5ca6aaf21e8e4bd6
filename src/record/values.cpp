#include "record/values.hpp"

#include "base/fail.hpp"
#include "ir/callee.hpp"
#include "record/evaluate.hpp"

namespace weft {

using eager::Value;

Storage* computed(const Node* node) { return __atomic_load_n(&node->storage, __ATOMIC_ACQUIRE); }

Value value_of(const Tensor& tensor) {
  const Node* node = tensor.node();
  Storage* storage = storage_of(tensor);
  WEFT_CHECK(storage, name_of(*node), " has not been computed");
  retain(storage);
  const Layout* layout = layout_of(tensor);
  const Type& type = type_of(tensor);
  return Value(type, storage, layout ? *layout : eager::contiguous_layout(eager::sizes_of(type)));
}

bool is_plain(const Value& value) { return value.layout.offset == 0 && value.contiguous(); }

void set_computed(Node* node, Value value) {
  if (!is_plain(value)) node->layout = new Layout(value.layout);
  __atomic_store_n(&node->pending, 0u, __ATOMIC_RELAXED);
  __atomic_store_n(&node->storage, std::exchange(value.storage, nullptr), __ATOMIC_RELEASE);
}

Value made_plain(const Value& value) {
  if (is_plain(value)) return value;
  Value result = eager::make_value(value.type);
  eager::copy_elements(value.sizes, value.element_bytes(), result.storage->data, result.layout, value.storage->data,
                       value.layout);
  return result;
}

Tensor tensor_of(Value value, Loc loc) {
  const Layout layout = value.layout;
  const bool strided = !is_plain(value);
  Tensor tensor = make_data(std::exchange(value.storage, nullptr), value.type, loc);
  if (strided) tensor.node()->layout = new Layout(layout);
  return tensor;
}

}  // namespace weft
