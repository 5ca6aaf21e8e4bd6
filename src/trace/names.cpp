#include "trace/names.hpp"

#include "base/fail.hpp"
#include "record/polymorphic.hpp"

namespace weft::detail {
namespace {

struct NameList {
  std::string prefix;
  std::vector<std::string> names;
  static void add(void* context, const Leaf&, const char* path) {
    auto& self = *static_cast<NameList*>(context);
    self.names.push_back(*path ? self.prefix + " (" + path + ")" : self.prefix);
  }
};

}  // namespace

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

std::string path_in(const std::string& name) {
  const std::size_t open = name.find(" (");
  return open == name.npos ? std::string() : name.substr(open + 2, name.size() - open - 3);
}

std::string count_text(const Leaf& leaf, std::uint64_t count) {
  if (leaf.kind == LeafKind::presence) return count ? "a value" : "no value";
  if (leaf.kind == LeafKind::dynamic_type) return count ? "a " + class_of_number(count) : "no object";
  if (leaf.kind == LeafKind::alternative && leaf.address) return static_cast<const char* const*>(leaf.address)[count];
  return (leaf.kind == LeafKind::length ? "length " : "alternative ") + std::to_string(count);
}

std::string few_of(const std::vector<std::string>& parts) {
  constexpr std::size_t most = 4;
  std::string text;
  for (std::size_t i = 0; i < parts.size() && i < most; ++i) text += (i ? ", " : "") + parts[i];
  return parts.size() > most ? concat_text(text, " and ", parts.size() - most, " more") : text;
}

}  // namespace weft::detail
