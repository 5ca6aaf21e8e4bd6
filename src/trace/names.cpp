#include "trace/names.hpp"

#include <charconv>
#include <cstring>

#include "base/fail.hpp"
#include "base/path_name.hpp"
#include "record/polymorphic.hpp"

namespace weft::detail {
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

struct NameList {
  std::string prefix;
  std::vector<std::string> names;
  static void add(void* context, const Leaf&, const char* path) {
    auto& self = *static_cast<NameList*>(context);
    self.names.push_back(*path ? self.prefix + " (" + path + ")" : self.prefix);
  }
};

}  // namespace

void refuse_valueless() { fail("compile", {}, "a variant has no value (its last assignment threw)"); }

std::size_t visit_paths(const TypeDescription& description, const Leaf* leaves, void* context, LeafVisitor visit) {
  PathWalk walk{leaves, leaves, context, visit, {}};
  walk.walk(description);
  return static_cast<std::size_t>(walk.next - walk.begin);
}

std::vector<std::string> argument_names(const CallSignature& signature, const LeafList& arguments) {
  NameList list;
  std::size_t position = 0;
  for (int i = 0; i < signature.argument_count; ++i) {
    list.prefix = "argument " + std::to_string(i);
    position += visit_paths(*signature.arguments[i], arguments.leaves.begin() + position, &list, NameList::add);
  }
  WEFT_CHECK(position == arguments.leaves.size(), "names of leaves");
  return list.names;
}

std::vector<std::string> result_names(const CallSignature& signature, const LeafList& results) {
  NameList list{"the result", {}};
  if (signature.result) visit_paths(*signature.result, results.leaves.begin(), &list, NameList::add);
  return list.names;
}

std::string count_text(LeafKind kind, std::uint64_t count) {
  if (kind == LeafKind::presence) return count ? "a value" : "no value";
  if (kind == LeafKind::dynamic_type) return count ? "a " + class_of_number(count) : "no object";
  return (kind == LeafKind::length ? "length " : "alternative ") + std::to_string(count);
}

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

std::string few_of(const std::vector<std::string>& parts) {
  constexpr std::size_t most = 4;
  std::string text;
  for (std::size_t i = 0; i < parts.size() && i < most; ++i) text += (i ? ", " : "") + parts[i];
  return parts.size() > most ? concat_text(text, " and ", parts.size() - most, " more") : text;
}

}  // namespace weft::detail
