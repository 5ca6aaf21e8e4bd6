// The sentences about structs whose members cannot all be listed, and about pointers to such. In: the type that does
// not fit. Out: an error at compile time, or nothing where the type is no such struct.
#pragma once
#include "weft/flatten.hpp"

namespace weft::detail {

// std::function, and others like it: a template over the type of a function.
template <class T>
inline constexpr bool is_function_object = false;
template <template <class...> class Holder, class Signature>
requires std::is_function_v<Signature>
inline constexpr bool is_function_object<Holder<Signature>> = true;

template <class Offending>
consteval Flaw flaw_of() {
  if constexpr (requires { members<Offending>::flaw; })
    return members<Offending>::flaw;
  else if constexpr (PointerLike<Offending>)
    return std::is_polymorphic_v<typename Offending::element_type> ? Flaw::polymorphic_pointer : Flaw::none;
  else if constexpr (is_function_object<Offending>)
    return Flaw::function_object;
  else if constexpr (std::is_class_v<Offending> && std::is_base_of_v<Polymorphic, Offending>)
    return Flaw::base_object;
  else
    return Flaw::none;
}
// An error here names the struct as `Offending`.
template <class Offending, Flaw flaw = flaw_of<Offending>()>
consteval bool check_members() {
  static_assert(flaw != Flaw::inherited_list,
                "weft: this class derives from one with WEFT_MEMBERS and has no list of its own: its members would be "
                "dropped; make the base a member, or list all members again");
  static_assert(
      flaw != Flaw::open_class,
      "weft: a class with virtual functions and WEFT_MEMBERS must be final, or derive from weft::Polymorphic: "
      "an object of a class derived from it could have more members");
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
                "weft: a pointer to a class with virtual functions can be followed where the class derives from "
                "weft::Polymorphic (weft/polymorphic.hpp) and each class derived from it has WEFT_MEMBERS: what it "
                "points to may be of a class with other members. Or hold the classes that there are as "
                "std::variant<A, B>");
  static_assert(flaw != Flaw::base_object,
                "weft: an object of a class that derives from weft::Polymorphic and has no WEFT_MEMBERS is passed as "
                "std::unique_ptr, or as a struct that holds one: it is of a derived class with other members");
  static_assert(flaw != Flaw::function_object,
                "weft: a std::function cannot be guarded: whether it calls what was compiled cannot be told, nor which "
                "parameters it holds. Hold a unique_ptr of a class that derives from weft::Polymorphic and has a call "
                "operator, an enum, or a std::variant of callables");
  return true;
}

}  // namespace weft::detail
