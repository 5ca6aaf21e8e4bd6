// The types of a signature, a line each.
#include "base/fail.hpp"
#include "package/leaves.hpp"

namespace weft::detail {

void TypeLines::argument(int position) {
  whole_ = "argument " + std::to_string(position);
  lines.reserve(16);
}
void TypeLines::result() { whole_ = "the result"; }

void TypeLines::add(const std::string& what) {
  std::string line = whole_;
  for (std::size_t i = 0; i < path_.size(); ++i) line += (i ? "." : " (") + path_[i];
  lines.push_back(line + (path_.empty() ? ": " : "): ") + what);
}

void TypeLines::line(TypeKind kind, std::size_t repeat) {
  switch (kind) {
    case TypeKind::tensor: return add("Tensor");
    case TypeKind::param: return add("Param");
    case TypeKind::buffer: return add("Buffer");
    case TypeKind::scalar: return add("Scalar");
    case TypeKind::index: return add("Index");
    case TypeKind::text: return add("text");
    case TypeKind::list: return add("list");
    case TypeKind::array: return add(concat_text("array of ", repeat));
    case TypeKind::tuple: return add("tuple");
    case TypeKind::map: return add("map");
    case TypeKind::optional: return add("optional");
    case TypeKind::pointer:
    case TypeKind::polymorphic: return add("pointer");
    case TypeKind::variant: return add("variant");
    case TypeKind::structure: return add("struct");
    case TypeKind::empty: return add("empty struct");
    case TypeKind::number:
    case TypeKind::unsupported: break;
  }
  WEFT_CHECK(false, "a type without a name");
}

void TypeLines::number(NumberKind kind, std::size_t size) {
  static constexpr const char* names[] = {"bool", "int", "unsigned int", "float", "float16", "bfloat16", "enum"};
  add(concat_text(names[static_cast<int>(kind)], " of ", counted(static_cast<std::int64_t>(size), "byte", "bytes")));
}

void TypeLines::same_as_around() { add("a type that it is in"); }

void TypeLines::enter(const MemberName* name, int position) {
  path_.push_back(name && name->text ? std::string(name->text, name->size)
                  : position < 0     ? "*"
                                     : std::to_string(position));
}
void TypeLines::leave() { path_.pop_back(); }

std::string first_difference(const std::vector<std::string>& a, const std::vector<std::string>& b, const char* who_a,
                             const char* who_b) {
  std::size_t at = 0;
  while (at < a.size() && at < b.size() && a[at] == b[at]) ++at;
  const auto line = [&](const std::vector<std::string>& all) { return at < all.size() ? all[at] : "nothing more"; };
  return concat_text(who_a, " has ", line(a), "; ", who_b, " has ", line(b));
}

}  // namespace weft::detail
