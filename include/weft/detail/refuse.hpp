// The sentences about structs whose members cannot all be listed, and about pointers to such. In: the type that does
// not fit. Out: an error at compile time, or nothing where the type is no such struct.
#pragma once
#include "weft/flatten.hpp"

namespace weft::detail {

template <class Offending>
consteval Flaw flaw_of() {
  if constexpr (requires { members<Offending>::flaw; })
    return members<Offending>::flaw;
  else if constexpr (PointerLike<Offending>)
    return std::is_polymorphic_v<typename Offending::element_type> ? Flaw::polymorphic_pointer : Flaw::none;
  else
    return Flaw::none;
}
// An error here names the struct as `Offending`.
template <class Offending, Flaw flaw = flaw_of<Offending>()>
consteval bool check_members() {
  static_assert(flaw != Flaw::inherited_list,
                "weft: this class derives from one with WEFT_MEMBERS and has no list of its own: its members would be "
                "dropped; make the base a member, or list all members again");
  static_assert(flaw != Flaw::open_class,
                "weft: a class with virtual functions and WEFT_MEMBERS must be final: an object of a class derived "
                "from it could have more members");
  static_assert(
      flaw != Flaw::incomplete_list,
      "weft: WEFT_MEMBERS must list every data member, in the order of declaration; a base class with members "
      "must become a member");
  static_assert(
      flaw != Flaw::base_with_members,
      "weft: this struct derives from a class with members, which would be dropped: make the base a member, or "
      "list all members, those of the base too, with WEFT_MEMBERS(a, b, ...)");
  static_assert(flaw != Flaw::many_members,
                "weft: a plain struct of more than 32 members: list them with WEFT_MEMBERS(a, b, ...) inside it");
  static_assert(
      flaw != Flaw::unlistable,
      "weft: the members of this plain struct cannot be listed: one is a reference, a bit-field, a union, takes "
      "any initializer, or is a C array of over 256 elements (take std::array); list others with "
      "WEFT_MEMBERS(a, b, ...) inside it");
  static_assert(flaw != Flaw::polymorphic_pointer,
                "weft: a pointer to a class with virtual functions cannot be followed, whether or not its classes have "
                "WEFT_MEMBERS: what it points to may be of a derived class with other members. Hold the classes that "
                "there are as std::variant<A, B>, and call through std::visit");
  return true;
}

}  // namespace weft::detail
