// Objects of Polymorphic classes: which class one is of, and the list of its parts for a walk.
#include "record/polymorphic.hpp"

#include <cstring>
#include <optional>

#include "base/class_name.hpp"
#include "base/fail.hpp"
#include "base/path_name.hpp"
#include "ir/node.hpp"
#include "weft/polymorphic.hpp"

namespace weft::detail {
namespace {

// A class of an unnamed namespace or of a static function: another file may have one of the same name.
bool is_local(const std::type_info& type) {
  return std::strstr(type.name(), "_GLOBAL__N_") || std::strncmp(type.name(), "ZL", 2) == 0;
}
// What stands for a class: its mangled name; of a local one its address too.
std::string class_key(const std::type_info& type) {
  return is_local(type) ? concat_text(type.name(), " ", reinterpret_cast<std::uintptr_t>(&type)) : type.name();
}

}  // namespace

bool same_class(const std::type_info& a, const std::type_info& b) {
  return &a == &b || (std::strcmp(a.name(), b.name()) == 0 && !is_local(a));
}

std::uint64_t class_number(const DynamicType& type) {
  std::uint64_t number = __atomic_load_n(&type.number, __ATOMIC_RELAXED);
  if (number == 0) __atomic_store_n(&type.number, number = intern_text(class_key(*type.type)), __ATOMIC_RELAXED);
  return number;
}

std::string class_of_number(std::uint64_t number) {
  const std::string& key = interned_text(static_cast<std::uint32_t>(number));
  return class_name(key.substr(0, key.find(' ')).c_str());
}

DynamicObject dynamic_of(const Polymorphic& object) {
  const DynamicObject own = object.weft_dynamic();
  if (!same_class(typeid(object), *own.type->type)) [[unlikely]]
    fail("model", {}, "the class ", class_name(typeid(object).name()), " derives from ",
         class_name(own.type->type->name()),
         " and has no WEFT_MEMBERS of its own: its members would be dropped; list all members again");
  return own;
}

void require_class(const Polymorphic& object, const DynamicType& type) {
  if (!same_class(typeid(object), *type.type)) [[unlikely]]
    fail("model", {}, "an object of the class ", class_name(typeid(object).name()), " is passed as a ",
         class_name(type.type->name()), ": its other members would be dropped; pass a std::unique_ptr that holds it");
}

void flatten_dynamic(const Polymorphic& object, LeafList& list) {
  const DynamicObject own = dynamic_of(object);
  list.push(LeafKind::dynamic_type, own.type, class_number(*own.type));
  own.type->flatten(own.object, list);
}

PartRecorder::PartRecorder(const Polymorphic& object, bool numbers) : numbers_(numbers) {
  const DynamicObject own = dynamic_of(object);
  own.type->record_parts(const_cast<void*>(own.object), *this);
}

void PartRecorder::push(const Path& path, void* address, const PartType& type, const char* what, std::uint64_t count) {
  const std::size_t text = text_.size();
  for (const char* letter = path.text(); *letter; ++letter) text_.push(*letter);
  parts_.push({address, &type, what, count, parts_.size() + 1, text, static_cast<unsigned>(text_.size() - text)});
}

void PartRecorder::require_same(std::size_t i, const PartRecorder& other, const Path& outer, Loc loc) const {
  Path path = outer;
  std::optional<Path::Segment> segment;
  const auto text = [](MemberName name) { return std::string_view(name.text, name.size); };
  if (this->path(i).size) segment.emplace(path, 0, this->path(i));
  if (i >= other.size() || text(this->path(i)) != text(other.path(i)))
    refuse_other_structure(path, "presence of a key", 1, 0, loc);
  const Part &a = parts_[i], &b = other.parts_[i];
  if (!same_class(*a.type->type, *b.type->type))
    fail("tree", loc, "the models differ", *path.text() ? " at " : "", path.text(), ": one is a ",
         class_name(a.type->type->name()), ", the other a ", class_name(b.type->type->name()));
  if (a.count != b.count) refuse_other_structure(path, a.what, a.count, b.count, loc);
}

}  // namespace weft::detail
