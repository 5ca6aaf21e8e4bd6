// Reflection: weft::members<T> says which members a struct has, in order, with their names. Three sources, the first
// that applies: Boost.Hana's BOOST_HANA_ADAPT_STRUCT / DEFINE_STRUCT (with weft/hana.hpp), WEFT_MEMBERS(a, b, ...)
// inside the class, and plain aggregates as they are (one that holds a C array needs a list). Invariant: no data member
// is left out. A list that forgets one, a class that derives from a listed one, and a base class with members do not
// compile.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace weft {

template <class T>
struct members;

// The name of a member: part of a longer text, not terminated.
struct MemberName {
  const char* text = nullptr;
  unsigned size = 0;
};

namespace detail {

template <class... T>
struct TypeList {
  static constexpr int size = sizeof...(T);
};

// ---- WEFT_MEMBERS ---------------------------------------------------------------------------------------------------

// The friend of every class with WEFT_MEMBERS, which may stand in a private section.
struct MemberAccess {
  template <class T>
  static constexpr auto visitor(T& object) -> decltype(object.weft_members()) {
    return object.weft_members();
  }
  template <class T>
  static constexpr auto names() -> decltype(T::weft_member_names()) {
    return T::weft_member_names();
  }
  // The class in which the list stands, which may be a base of T.
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
  MemberName names[count > 0 ? count : 1];
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

// ---- plain aggregates -----------------------------------------------------------------------------------------------

inline constexpr int max_aggregate_members = 32;

template <class Owner>
struct AnyMember {
  template <class T>
  requires(!std::is_same_v<T, Owner>) operator T() const;
};
template <class T, class... Any>
concept TakesBraces = requires {
  T{Any{}...};
};

// How many members an aggregate has: as many initializers as it takes. More than max_aggregate_members: that plus one.
template <class T, class... Any>
constexpr int aggregate_size() {
  if constexpr (sizeof...(Any) > max_aggregate_members)
    return static_cast<int>(sizeof...(Any));
  else if constexpr (TakesBraces<T, Any...> && !TakesBraces<T, Any..., AnyMember<T>>)
    return static_cast<int>(sizeof...(Any));
  else
    return aggregate_size<T, Any..., AnyMember<T>>();
}

#define WEFT_BIND(n, ...)          \
  else if constexpr (count == n) { \
    auto& [__VA_ARGS__] = object;  \
    return visitor(__VA_ARGS__);   \
  }
template <int count, class T, class Visitor>
constexpr decltype(auto) visit_aggregate(T& object, Visitor&& visitor) {
  if constexpr (count == 0) return visitor();
  WEFT_BIND(1, a)
  WEFT_BIND(2, a, b)
  WEFT_BIND(3, a, b, c)
  WEFT_BIND(4, a, b, c, d)
  WEFT_BIND(5, a, b, c, d, e)
  WEFT_BIND(6, a, b, c, d, e, f)
  WEFT_BIND(7, a, b, c, d, e, f, g)
  WEFT_BIND(8, a, b, c, d, e, f, g, h)
  WEFT_BIND(9, a, b, c, d, e, f, g, h, i)
  WEFT_BIND(10, a, b, c, d, e, f, g, h, i, j)
  WEFT_BIND(11, a, b, c, d, e, f, g, h, i, j, k)
  WEFT_BIND(12, a, b, c, d, e, f, g, h, i, j, k, l)
  WEFT_BIND(13, a, b, c, d, e, f, g, h, i, j, k, l, m)
  WEFT_BIND(14, a, b, c, d, e, f, g, h, i, j, k, l, m, n)
  WEFT_BIND(15, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o)
  WEFT_BIND(16, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
  WEFT_BIND(17, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q)
  WEFT_BIND(18, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r)
  WEFT_BIND(19, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s)
  WEFT_BIND(20, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t)
  WEFT_BIND(21, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u)
  WEFT_BIND(22, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v)
  WEFT_BIND(23, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w)
  WEFT_BIND(24, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x)
  WEFT_BIND(25, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y)
  WEFT_BIND(26, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z)
  WEFT_BIND(27, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z, aa)
  WEFT_BIND(28, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z, aa, ab)
  WEFT_BIND(29, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z, aa, ab, ac)
  WEFT_BIND(30, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z, aa, ab, ac, ad)
  WEFT_BIND(31, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z, aa, ab, ac, ad, ae)
  WEFT_BIND(32, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z, aa, ab, ac, ad, ae, af)
}
#undef WEFT_BIND

// The members' names: g++ spells out the address of a member of an object that is declared and never defined.
#if defined(__GNUC__) && !defined(__clang__)
template <class T>
struct Undefined {
  T value;
};
template <class T>
struct Nowhere {
  static Undefined<T> object;
};
template <auto address>
constexpr MemberName name_at() {
  const char* begin = __PRETTY_FUNCTION__;
  const char* end = begin;
  for (const char* at = begin; *at; ++at) {
    if (at[0] == ':' && at[1] == ':') begin = at + 2;
    if (at[0] == ')' || at[0] == ']') {
      end = at;
      if (at[0] == ')' && at[1] == ']') break;
    }
  }
  return {begin, static_cast<unsigned>(end - begin)};
}
template <int index>
struct AddressOf {
  template <class First, class... Rest>
  constexpr auto operator()(First& first, Rest&... rest) const {
    if constexpr (index == 0)
      return &first;
    else
      return AddressOf<index - 1>()(rest...);
  }
};
template <class T, int count, int... index>
constexpr auto aggregate_names(std::integer_sequence<int, index...>) {
  struct {
    MemberName names[sizeof...(index) + 1];
  } result{{name_at<visit_aggregate<count>(Nowhere<T>::object.value, AddressOf<index>())>()..., {}}};
  return result;
}
#else
template <class T, int count, int... index>
constexpr auto aggregate_names(std::integer_sequence<int, index...>) {
  struct {
    MemberName names[sizeof...(index) + 1];
  } result{};
  return result;
}
#endif

// ---- what all sources share -----------------------------------------------------------------------------------------

struct CollectTypes {
  template <class... T>
  constexpr TypeList<T...> operator()(T&...) const {
    return {};
  }
};
// The size of a class that holds exactly these, in this order.
template <class... T>
constexpr std::size_t laid_out(TypeList<T...>) {
  std::size_t offset = 0, alignment = 1;
  ((offset = (offset + alignof(T) - 1) / alignof(T) * alignof(T) + sizeof(T),
    alignment = alignof(T) > alignment ? alignof(T) : alignment),
   ...);
  offset = (offset + alignment - 1) / alignment * alignment;
  return offset ? offset : 1;
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
// visit(object, f) calls f(member...) with references, const where the object is. Where `complete` is false the list
// leaves a member out (or `inherited`: it is the list of a base class), and whoever flattens refuses the type.
template <class T>
struct members {
  static constexpr bool reflected = false;
};

template <class T>
requires(!detail::hana_adapted<T> && detail::Listed<T>) struct members<T> {
  static constexpr bool reflected = true;
  static constexpr bool inherited = !std::is_same_v<decltype(detail::MemberAccess::owner_of<T>()), T>;
  template <class Object, class Visitor>
  static constexpr decltype(auto) visit(Object& object, Visitor&& visitor) {
    return detail::MemberAccess::visitor(object)(visitor);
  }
  using types = decltype(visit(std::declval<T&>(), detail::CollectTypes()));
  static constexpr bool complete = !inherited && detail::laid_out(types()) == sizeof(T);
  static constexpr int count = types::size;
  static constexpr detail::MemberNames<count> list{detail::MemberAccess::names<T>()};
  static constexpr const MemberName* names = list.names;
};

template <class T>
requires(!detail::hana_adapted<T> && detail::PlainAggregate<T>) struct members<T> {
  static constexpr bool reflected = true;
  static constexpr bool complete = true;
  static constexpr int count = detail::aggregate_size<T>();
  static_assert(count <= detail::max_aggregate_members,
                "weft: a plain struct of more than 32 members: list them with WEFT_MEMBERS(a, b, ...) inside it");
  template <class Object, class Visitor>
  static constexpr decltype(auto) visit(Object& object, Visitor&& visitor) {
    return detail::visit_aggregate<count>(object, visitor);
  }
  using types = decltype(visit(std::declval<T&>(), detail::CollectTypes()));
  static constexpr auto list = detail::aggregate_names<T, count>(std::make_integer_sequence<int, count>());
  static constexpr const MemberName* names = list.names;
};

template <class T>
concept Reflected = members<T>::reflected;

}  // namespace weft

// Lists a class's data members, all of them, in the order of declaration; anywhere in the class.
//   class Linear { Param weight_, bias_;  WEFT_MEMBERS(weight_, bias_) };
#define WEFT_MEMBERS(...)                                                                       \
  friend struct ::weft::detail::MemberAccess;                                                   \
  constexpr auto weft_members() {                                                               \
    return [this](auto&& weft_visitor) -> decltype(auto) { return weft_visitor(__VA_ARGS__); }; \
  }                                                                                             \
  constexpr auto weft_members() const {                                                         \
    return [this](auto&& weft_visitor) -> decltype(auto) { return weft_visitor(__VA_ARGS__); }; \
  }                                                                                             \
  void weft_member_owner() const {}                                                             \
  static constexpr const char* weft_member_names() { return #__VA_ARGS__; }
