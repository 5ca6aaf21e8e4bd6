#include "package/leaves.hpp"

#include <algorithm>
#include <cstring>

#include "ir/node.hpp"
#include "record/leaf_paths.hpp"
#include "trace/names.hpp"

namespace weft::detail {

namespace {

using Kind = runtime::PackageLeaf::Kind;

Kind kind_of(LeafKind kind) {
  if (holds_tensor(kind)) return Kind::tensor;
  if (is_count(kind)) return Kind::count;
  return kind == LeafKind::number ? Kind::number : Kind::list;
}

std::string number_text(const Leaf& leaf, const char* bytes, std::size_t size) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, bytes, size);
  return value_text(leaf.number, bits, size);
}
std::string text_of(const Leaf& leaf, std::string_view bytes) {
  constexpr std::size_t most = 8;
  if (is_count(leaf.kind)) return count_text(leaf, leaf.size);
  if (leaf.kind == LeafKind::text) return "\"" + std::string(bytes) + "\"";
  if (leaf.kind == LeafKind::number) return number_text(leaf, bytes.data(), bytes.size());
  std::string text = "{";
  const std::size_t count = bytes.size() / leaf.element;
  for (std::size_t i = 0; i < std::min(count, most); ++i)
    text += (i ? ", " : "") + number_text(leaf, bytes.data() + i * leaf.element, leaf.element);
  return text + (count > most ? ", ...}" : "}");
}

}  // namespace

runtime::PackageLeaf package_leaf(const Leaf& leaf, const std::string& name) {
  runtime::PackageLeaf made{.kind = kind_of(leaf.kind),
                            .name = name,
                            .argument = leaf.argument,
                            .frozen = leaf.kind == LeafKind::param && leaf.flag};
  if (holds_tensor(leaf.kind)) {
    const Tensor& value = leaf.tensor();
    made.defined = value.defined();
    if (!made.defined) return made;
    const Type& type = type_of(value);
    made.weak = type.weak;
    made.dtype = type.dtype;
    made.device = type.device;
    for (int axis = 0; axis < type.shape.rank(); ++axis) made.sizes.push_back(type.shape[axis].constant());
    return made;
  }
  if (is_count(leaf.kind))
    made.count = leaf.size;
  else if (leaf.size > 0)
    made.bytes = {static_cast<const char*>(leaf.address), static_cast<std::size_t>(leaf.size)};
  made.text = text_of(leaf, made.bytes);
  return made;
}

}  // namespace weft::detail
