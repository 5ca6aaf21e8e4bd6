// Reflection: weft::members<T> says which members a struct has, in order, with their names. Three sources, the first
// that applies: Boost.Hana's BOOST_HANA_ADAPT_STRUCT / DEFINE_STRUCT (with weft/hana.hpp), WEFT_MEMBERS(a, b, ...)
// inside the class, and plain aggregates as they are (detail/aggregate.hpp). Invariant: no data member is left out. A
// list that forgets one, a class that derives from a listed one, and a base class with members do not compile. In a
// class that derives from Polymorphic (weft/polymorphic.hpp) WEFT_MEMBERS also says what class an object is of.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "weft/detail/aggregate.hpp"

namespace weft {

template <class T>
struct members;
class Polymorphic;  // weft/polymorphic.hpp

namespace detail {

// An object whose class is known only when the program runs, and that class.
struct DynamicType;
struct DynamicObject {
  const DynamicType* type;
  const void* object;
};
template <class T>
const DynamicType& dynamic_type();
// What WEFT_MEMBERS makes of a class that derives from Polymorphic; nothing of others.
template <class T>
DynamicObject dynamic_object(const T& object) {
  if constexpr (std::is_base_of_v<Polymorphic, T>)
    return {&dynamic_type<T>(), &object};
  else
    return {nullptr, nullptr};
}

// ---- WEFT_MEMBERS ---------------------------------------------------------------------------------------------------

// The friend of every class with WEFT_MEMBERS, which may be in a private section.
struct MemberAccess {
  template <class T>
  static constexpr auto visitor(T& object) -> decltype(object.weft_members()) {
    return object.weft_members();
  }
  template <class T>
  static constexpr auto names() -> decltype(T::weft_member_names()) {
    return T::weft_member_names();
  }
  // The class that has the list, which may be a base of T.
  template <class Class>
  static Class owner(void (Class::*)() const);
  // A function, not an alias: clang checks an alias's access where it is used.
  template <class T>
  static auto owner_of() -> decltype(owner(&T::weft_member_owner));
};
template <class T>
concept Listed = requires {
  MemberAccess::names<T>();
};

// "a, b, c" at commas outside brackets, without spaces and `this->`.
template <int count>
struct MemberNames {
  MemberName names[static_cast<std::size_t>(count > 0 ? count : 1)];
  constexpr explicit MemberNames(const char* text) : names{} {
    int depth = 0, index = 0;
    const char* begin = text;
    for (const char* at = text;; ++at) {
      depth += (*at == '(' || *at == '<' || *at == '{') - (*at == ')' || *at == '}' || (*at == '>' && at[-1] != '-'));
      if (*at && !(*at == ',' && depth == 0)) continue;
      const char* end = at;
      while (begin < end && *begin == ' ') ++begin;
      while (end > begin && end[-1] == ' ') --end;
      for (const char* arrow = begin; arrow + 1 < end; ++arrow)
        if (arrow[0] == '-' && arrow[1] == '>') begin = arrow + 2;
      if (index < count) names[index++] = {begin, static_cast<unsigned>(end - begin)};
      if (!*at) break;
      begin = at + 1;
    }
  }
};

// ---- what all sources share -----------------------------------------------------------------------------------------

// A class that holds exactly these, in this order, after the pointer that virtual functions need: its size, and how
// many of its last bytes are padding.
struct LaidOut {
  std::size_t size, padding;
};
template <class... T>
constexpr LaidOut laid_out(bool has_virtual_functions, TypeList<T...>) {
  std::size_t offset = has_virtual_functions ? sizeof(void*) : 0, alignment = offset ? alignof(void*) : 1;
  ((offset = (offset + alignof(T) - 1) / alignof(T) * alignof(T) + sizeof(T),
    alignment = alignof(T) > alignment ? alignof(T) : alignment),
   ...);
  const std::size_t size = offset ? (offset + alignment - 1) / alignment * alignment : 1;
  return {size, size - offset};
}
// A T and bytes after it, which lie in the padding at T's end where the ABI reuses that.
template <class T, std::size_t bytes>
struct Followed {
  [[no_unique_address]] T object;
  char behind[bytes];
};
// Whether `Listed` can be all members of T, by T's size, its padding at the end, and, of an aggregate, their number. A
// class that was plain in C++98 does not lend its padding, so the padding says something of others alone.
template <class T, class Listed>
constexpr bool all_listed() {
  constexpr LaidOut expected = laid_out(std::is_polymorphic_v<T>, Listed());
  bool plain = false;
  if constexpr (expected.size != sizeof(T)) {
    return false;
  } else if constexpr (std::is_aggregate_v<T>) {
    constexpr Count found = count_members<T>();
    if (found.flaw == Flaw::none) return found.members == Listed::size;
    plain = std::is_trivially_copyable_v<T> && found.flaw != Flaw::base_with_members;
  }
  if constexpr (expected.padding > 0 && expected.size > 1)
    return plain || sizeof(Followed<T, expected.padding>) == sizeof(T);
  return true;
}
template <class T>
inline constexpr bool hana_adapted = false;  // weft/hana.hpp
template <class T>
concept TupleLike = requires {
  std::tuple_size<T>::value;
};
template <class T>
concept PlainAggregate = std::is_aggregate_v<T> && std::is_class_v<T> && !Listed<T> && !TupleLike<T>;

}  // namespace detail

// The trait. `types` lists the members' types, `names` their names (text is null where the compiler cannot tell), and
// visit(object, f) calls f(member...) with references, const where the object is. `flaw` says why a class's members
// cannot all be listed: then `types` means nothing, and whoever flattens refuses the type.
template <class T>
struct members {
  static constexpr bool reflected = false;  // whether the members are listed
};

// The same of classes with WEFT_MEMBERS.
template <class T>
requires(!detail::hana_adapted<T> && detail::Listed<T>) struct members<T> {
  static constexpr bool reflected = true;  // the members are listed
  // f(member...) with references to the object's members, const where the object is; and what that returns.
  template <class Object, class Visitor>
  static constexpr decltype(auto) visit(Object& object, Visitor&& visitor) {
    return detail::MemberAccess::visitor(object)(visitor);
  }

  using types = decltype(visit(std::declval<T&>(), detail::CollectTypes()));  // of the members, in order
  // Why the list is refused, if it is.
  static constexpr detail::Flaw flaw =
      !std::is_same_v<decltype(detail::MemberAccess::owner_of<T>()), T> ? detail::Flaw::inherited_list
      : std::is_polymorphic_v<T> && !std::is_final_v<T> && !std::is_base_of_v<Polymorphic, T> ? detail::Flaw::open_class
      : detail::all_listed<T, types>()                                                        ? detail::Flaw::none
                                       : detail::Flaw::incomplete_list;
  static constexpr int count = types::size;  // of the members
  // The members' names, in order.
  static constexpr detail::MemberNames<count> list{detail::MemberAccess::names<T>()};
  static constexpr const MemberName* names = list.names;
};

// The same of plain aggregates.
template <class T>
requires(!detail::hana_adapted<T> && detail::PlainAggregate<T>) struct members<T> {
  static constexpr bool reflected = true;                           // the members are listed
  static constexpr detail::Flaw flaw = detail::Aggregate<T>::flaw;  // why the list is refused, if it is
  using types = decltype(detail::Aggregate<T>::types());            // of the members, in order
  static constexpr int count = types::size;                         // of the members
  // f(member...) with references to the object's members, const where the object is; and what that returns.
  template <class Object, class Visitor>
  static constexpr decltype(auto) visit(Object& object, Visitor&& visitor) {
    return detail::visit_aggregate<count>(object, visitor);
  }

  // The members' names, in order.
  static constexpr auto list = detail::aggregate_names<T, count>(std::make_integer_sequence<int, count>());
  static constexpr const MemberName* names = list.names;
};

template <class T>
concept Reflected = members<T>::reflected;  // a struct whose members Weft can list

}  // namespace weft

// weft_dynamic() overrides that of Polymorphic in classes which derive from it, and is a plain function in others, so
// it can't be marked.
#ifdef __clang__
#define WEFT_MAY_OVERRIDE                                                                                  \
  _Pragma("clang diagnostic push") _Pragma("clang diagnostic ignored \"-Winconsistent-missing-override\"") \
      _Pragma("clang diagnostic ignored \"-Wsuggest-override\"")
#define WEFT_MAY_OVERRIDE_END _Pragma("clang diagnostic pop")
#else
#define WEFT_MAY_OVERRIDE
#define WEFT_MAY_OVERRIDE_END
#endif

// Lists a class's data members, all of them, in the order of declaration; anywhere in the class. A class that derives
// from Polymorphic and has none writes WEFT_MEMBERS().
//   class Linear { Param weight_, bias_;  WEFT_MEMBERS(weight_, bias_) };
#define WEFT_MEMBERS(...)                                                   \
  friend struct ::weft::detail::MemberAccess;                               \
  constexpr auto weft_members() {                                           \
    return [this](auto&& weft_visitor) -> decltype(auto) {                  \
      (void)this;                                                           \
      return weft_visitor(__VA_ARGS__);                                     \
    };                                                                      \
  }                                                                         \
  constexpr auto weft_members() const {                                     \
    return [this](auto&& weft_visitor) -> decltype(auto) {                  \
      (void)this;                                                           \
      return weft_visitor(__VA_ARGS__);                                     \
    };                                                                      \
  }                                                                         \
  void weft_member_owner() const {}                                         \
  static constexpr const char* weft_member_names() { return #__VA_ARGS__; } \
  WEFT_MAY_OVERRIDE ::weft::detail::DynamicObject weft_dynamic() const {    \
    return ::weft::detail::dynamic_object(*this);                           \
  }                                                                         \
  WEFT_MAY_OVERRIDE_END
