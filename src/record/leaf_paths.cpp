#include "record/leaf_paths.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/fail.hpp"
#include "base/path_name.hpp"
#include "record/polymorphic.hpp"
#include "weft/grad.hpp"

namespace weft::detail {

std::string value_text(NumberKind kind, std::uint64_t bits, std::size_t size) {
  char text[40];
  auto written = [&](auto value) { return std::string(text, std::to_chars(text, text + sizeof text, value).ptr); };
  switch (kind) {
    case NumberKind::enumeration: return "enum value " + value_text(NumberKind::signed_integer, bits, size);
    case NumberKind::boolean: return bits ? "true" : "false";
    case NumberKind::floating: {
      if (size == 4) {
        float value;
        std::memcpy(&value, &bits, sizeof value);
        return written(value);
      }
      double value;
      std::memcpy(&value, &bits, sizeof value);
      return written(value);
    }
    case NumberKind::float16: return written(static_cast<float>(float16::from_bits(static_cast<std::uint16_t>(bits))));
    case NumberKind::bfloat16:
      return written(static_cast<float>(bfloat16::from_bits(static_cast<std::uint16_t>(bits))));
    case NumberKind::unsigned_integer: return written(bits);
    case NumberKind::signed_integer: break;
  }
  const int shift = 64 - static_cast<int>(size) * 8;
  return written(static_cast<std::int64_t>(bits << shift) >> shift);
}

namespace {

std::string key_text(const Leaf& key) {
  if (key.kind == LeafKind::text) return {static_cast<const char*>(key.address), static_cast<std::size_t>(key.size)};
  std::uint64_t bits = 0;
  std::memcpy(&bits, key.address, key.size);
  const bool plain = key.number == NumberKind::enumeration;
  return value_text(plain ? NumberKind::signed_integer : key.number, bits, static_cast<std::size_t>(key.size));
}

struct PathWalk {
  const Leaf* begin;
  const Leaf* next;
  void* context;
  LeafVisitor visit;
  std::string path;

  void leaf() { visit(context, *next++, path.c_str()); }
  void child(const TypeDescription& description, std::string_view name) {
    std::size_t length = path.size();
    if (length) path += '.';
    path += path_name(name);
    walk(description);
    path.resize(length);
  }
  void elements(const TypeDescription& description, std::size_t count) {
    if (description.packed) return leaf();
    for (std::size_t i = 0; i < count; ++i) child(*description.children[0], std::to_string(i));
  }
  void walk(const TypeDescription& description) {
    switch (description.kind) {
      case TypeKind::list: {
        auto count = static_cast<std::size_t>(next->size);
        leaf();
        return elements(description, count);
      }
      case TypeKind::array: return elements(description, description.repeat);
      case TypeKind::map: {
        const auto count = static_cast<std::size_t>(next->size);
        leaf();
        for (std::size_t i = 0; i < count; ++i) {
          const std::string key = key_text(*next);
          leaf();
          child(*description.children[1], key);
        }
        return;
      }
      case TypeKind::pointer:
      case TypeKind::optional:
      case TypeKind::variant: {
        std::uint64_t which = next->size;
        leaf();
        if (description.kind == TypeKind::variant)
          walk(*description.children[which]);
        else if (which)
          walk(*description.children[0]);
        return;
      }
      case TypeKind::polymorphic: {
        const auto* const own = static_cast<const DynamicType*>(next->address);
        leaf();
        if (own) walk(*own->description);
        return;
      }
      case TypeKind::tuple:
      case TypeKind::structure:
        for (int i = 0; i < description.child_count; ++i) {
          const MemberName* name = description.names ? description.names + i : nullptr;
          child(*description.children[i], name && name->text ? std::string(name->text, name->size) : std::to_string(i));
        }
        return;
      case TypeKind::empty: return;
      case TypeKind::tensor:
      case TypeKind::param:
      case TypeKind::buffer:
      case TypeKind::scalar:
      case TypeKind::index:
      case TypeKind::number:
      case TypeKind::text: return leaf();
      case TypeKind::unsupported: WEFT_CHECK(false, "the leaves of a type that is refused");
    }
  }
};

}  // namespace

void refuse_valueless() { fail("compile", {}, "a variant has no value (its last assignment threw)"); }

std::size_t visit_paths(const TypeDescription& description, const Leaf* leaves, void* context, LeafVisitor visit) {
  PathWalk walk{leaves, leaves, context, visit, {}};
  walk.walk(description);
  return static_cast<std::size_t>(walk.next - walk.begin);
}

std::string leaf_path(const TypeDescription& description, const LeafList& leaves, std::size_t leaf) {
  struct Search {
    std::size_t left;
    std::string found;
  } search{leaf, {}};
  visit_paths(description, leaves.leaves.begin(), &search, [](void* context, const Leaf&, const char* path) {
    Search& at = *static_cast<Search*>(context);
    if (at.left-- == 0) at.found = path;
  });
  return search.found;
}

LeafKind trainable_kind(const LeafList& leaves) {
  auto holds = [&](LeafKind kind) {
    return std::any_of(leaves.leaves.begin(), leaves.leaves.end(), [&](const Leaf& leaf) { return leaf.kind == kind; });
  };
  return holds(LeafKind::param) ? LeafKind::param : holds(LeafKind::tensor) ? LeafKind::tensor : LeafKind::scalar;
}

}  // namespace weft::detail
