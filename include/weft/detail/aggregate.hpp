// Reflection of plain aggregates: how many members one has, of which types, under which names. In: an aggregate class.
// Out: the count, a visit by structured bindings, and what speaks against them. Invariant: structured bindings name
// every member or do not compile, so only a count of 0 and references have to be proved here.
#pragma once
#include <cstddef>
#include <type_traits>
#include <utility>

namespace weft {

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

// Why the members of a class cannot be listed.
enum class Flaw : unsigned char {
  none,
  inherited_list,     // WEFT_MEMBERS is in a base class
  open_class,         // virtual functions, and not final: an object may be of a class with more members
  incomplete_list,    // WEFT_MEMBERS, or hana, leaves a member out
  base_with_members,  // of a plain struct
  many_members,
  unlistable,           // a bit-field, a reference, a union, or a member that takes any initializer
  polymorphic_pointer,  // of a pointer: what it points to may be of a class with more members
  base_object,          // an object of a class that derives from Polymorphic and lists no members
  function_object,      // a std::function
};

// ---- how many members -----------------------------------------------------------------------------------------------
// As many as initializers that fill it, where those of one C array count once. Closed has a further member after the
// aggregate, whose initializer is taken only where the aggregate is full.

inline constexpr int max_aggregate_members = 32;
inline constexpr int max_initializers = 256;

struct EndValue {};
struct End {
  End(EndValue);
};
template <class T>
struct Closed {
  T object;
  End end;
};
// Never defined: a member is asked what would initialize it. clang 19 takes some of the questions for uses.
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wundefined-internal"
#endif
template <class Owner>
struct AnyMember {
  template <class T>
  requires(!std::is_same_v<T, Owner> && !std::is_same_v<T, Closed<Owner>> && !std::is_same_v<T, End>) operator T()
      const;
};
template <class Owner>
struct AnyUnion {
  template <class T>
  requires std::is_union_v<T>
  operator T() const;
};
template <class Owner>
struct AnyBase {
  template <class T>
  requires(std::is_base_of_v<T, Owner> && !std::is_same_v<T, Owner>) operator T() const;
};
template <class Owner>
struct AnyEmptyBase {
  template <class T>
  requires(std::is_base_of_v<T, Owner> && !std::is_same_v<T, Owner> && std::is_empty_v<T>) operator T() const;
};
#if defined(__clang__)
#pragma clang diagnostic pop
#endif
struct NoValue {};

template <class T, int>
using Repeated = T;
template <int count>
using Indices = std::make_integer_sequence<int, count>;
template <class T, class First, int... first, int... rest>
constexpr bool fills(std::integer_sequence<int, first...>, std::integer_sequence<int, rest...>) {
  return requires { Closed<T>{Repeated<First, first>{}..., Repeated<AnyMember<T>, rest>{}..., EndValue{}}; };
}
template <class T, class One, int... before, int... after>
constexpr bool takes(std::integer_sequence<int, before...>, std::integer_sequence<int, after...>) {
  return requires { T{Repeated<AnyMember<T>, before>{}..., One{}, Repeated<AnyMember<T>, after>{}...}; };
}
template <class T, int... before, int... inside, int... after>
constexpr bool takes_braces(std::integer_sequence<int, before...>, std::integer_sequence<int, inside...>,
                            std::integer_sequence<int, after...>) {
  return requires {
    T{Repeated<AnyMember<T>, before>{}..., {Repeated<AnyMember<T>, inside>{}...}, Repeated<AnyMember<T>, after>{}...};
  };
}

// How many initializers fill T; -1: none of 0 to max_initializers.
template <class T, int count = 0>
constexpr int initializer_count() {
  if constexpr (fills<T, NoValue>(Indices<0>(), Indices<count>()))
    return count;
  else if constexpr (count == max_initializers)
    return -1;
  else
    return initializer_count<T, count + 1>();
}
// How many of `all` initializers are those of base classes, which come first. A member that takes NoValue takes
// anything.
template <class T, int all, int count = 0>
constexpr int base_count() {
  if constexpr (count < all) {
    if constexpr (fills<T, AnyBase<T>>(Indices<count + 1>(), Indices<all - count - 1>()) &&
                  !takes<T, NoValue>(Indices<count>(), Indices<all - count - 1>()))
      return base_count<T, all, count + 1>();
  }
  return count;
}
// How many initializers the member takes that begins with the one at `at`: more than one for a C array, which in braces
// takes the same ones, and with them leaves no room for all others but one.
template <class T, int all, int at, int count = 2>
constexpr int initializers_of_array() {
  if constexpr (at + count > all)
    return 1;
  else if constexpr (takes_braces<T>(Indices<at>(), Indices<count>(), Indices<all - at - count>()) &&
                     !takes_braces<T>(Indices<at>(), Indices<count>(), Indices<all - at - 1>()))
    return count;
  else
    return initializers_of_array<T, all, at, count + 1>();
}
template <class T, int all, int at>
constexpr int initializers_of_member() {
  constexpr Indices<at> before;
  constexpr Indices<all - at - 1> after;
  // One question at a time: clang instantiates the constructors that it finds, and that of a
  // std::vector<std::unique_ptr> from one initializer is an error.
  if constexpr (takes_braces<T>(before, Indices<0>(), after))
    return 1;
  else if constexpr (takes_braces<T>(before, Indices<1>(), after))
    return 1;
  else if constexpr (takes_braces<T>(before, Indices<2>(), after))
    return 1;
  else
    return initializers_of_array<T, all, at>();
}
struct Count {
  int members = 0;
  Flaw flaw = Flaw::none;
};
template <class T, int all, int at>
constexpr Count count_from(int before = 0) {
  if constexpr (at == all)
    return {before, before > max_aggregate_members ? Flaw::many_members : Flaw::none};
  else if constexpr (takes<T, AnyUnion<T>>(Indices<at>(), Indices<all - at - 1>()))
    return {0, Flaw::unlistable};
  else
    return count_from<T, all, at + initializers_of_member<T, all, at>()>(before + 1);
}
template <class T>
constexpr Count count_members() {
  if constexpr (std::is_empty_v<T>) {
    return {};
  } else {
    constexpr int all = initializer_count<T>();
    if constexpr (all <= 0) {
      return {0, Flaw::unlistable};
    } else {
      constexpr int bases = base_count<T, all>();
      if constexpr (bases > 0 && !fills<T, AnyEmptyBase<T>>(Indices<bases>(), Indices<all - bases>()))
        return {0, Flaw::base_with_members};
      else
        return count_from<T, all, bases>();
    }
  }
}

// ---- the visit ------------------------------------------------------------------------------------------------------

struct NotVisited {};
// clang 14 cannot name structured bindings in a requires-expression: there a bit-field is the compiler's own error.
#ifdef __clang__
#define WEFT_TAKES(visitor, ...) true
#else
#define WEFT_TAKES(visitor, ...) \
  requires { visitor(__VA_ARGS__); }
#endif
#define WEFT_BIND(n, ...)                             \
  else if constexpr (count == n) {                    \
    auto& [__VA_ARGS__] = object;                     \
    if constexpr (WEFT_TAKES(visitor, __VA_ARGS__))   \
      return visitor(__VA_ARGS__);                    \
    else                                              \
      return NotVisited(); /* there is a bit-field */ \
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
#undef WEFT_TAKES

// ---- the types ------------------------------------------------------------------------------------------------------

struct CollectTypes {
  template <class... T>
  constexpr TypeList<T...> operator()(T&...) const {
    return {};
  }
};
struct CollectConstTypes {
  template <class... T>
  constexpr TypeList<T...> operator()(const T&...) const {  // a bit-field binds to it
    return {};
  }
};
// The size of a class that holds exactly these, in this order. Empty ones may lie in others.
template <class... T>
constexpr std::size_t least_size(TypeList<T...>) {
  std::size_t offset = 0, alignment = 1;
  ((offset = std::is_empty_v<T> ? offset : (offset + alignof(T) - 1) / alignof(T) * alignof(T) + sizeof(T),
    alignment = alignof(T) > alignment ? alignof(T) : alignment),
   ...);
  return (offset + alignment - 1) / alignment * alignment;
}
// Members of a volatile object are volatile; what a reference among them refers to is not.
template <class... T>
constexpr bool all_volatile(TypeList<T...>) {
  return (std::is_volatile_v<T> && ... && true);
}
constexpr bool all_volatile(NotVisited) { return false; }
template <class... T>
constexpr TypeList<std::remove_volatile_t<T>...> without_volatile(TypeList<T...>) {
  return {};
}

template <class T>
struct Aggregate {
  static constexpr Count count = count_members<T>();
  template <class Object, class Collect>
  using Visited = decltype(visit_aggregate<count.members>(std::declval<Object&>(), Collect()));
  static constexpr Flaw flaw = [] {
    if constexpr (count.flaw != Flaw::none)
      return count.flaw;
    else if constexpr (least_size(Visited<T, CollectConstTypes>()) > sizeof(T))
      return Flaw::unlistable;
    else
      return all_volatile(Visited<volatile T, CollectTypes>()) ? Flaw::none : Flaw::unlistable;
  }();
  static constexpr auto types() {
    if constexpr (flaw == Flaw::none)
      return without_volatile(Visited<volatile T, CollectTypes>());
    else
      return TypeList<>();
  }
};

// ---- the names ------------------------------------------------------------------------------------------------------

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

}  // namespace detail
}  // namespace weft
