// Boost.Hana and Weft's reflection see the same structs: what BOOST_HANA_DEFINE_STRUCT or ADAPT_STRUCT declares has
// weft::members, and what WEFT_MEMBERS lists is a hana::Struct, so that hana::keys, members, for_each, fold and
// printing work on models. Include before the first use of such a type.
#pragma once
#include <boost/hana/accessors.hpp>
#include <boost/hana/adapt_struct.hpp>
#include <boost/hana/define_struct.hpp>
#include <boost/hana/first.hpp>
#include <boost/hana/length.hpp>
#include <boost/hana/pair.hpp>
#include <boost/hana/second.hpp>
#include <boost/hana/string.hpp>
#include <boost/hana/tuple.hpp>
#include <boost/hana/unpack.hpp>

#include "weft/members.hpp"

namespace weft {
namespace detail {

template <class T>
requires(!Listed<T> && boost::hana::Struct<T>::value) inline constexpr bool hana_adapted<T> = true;

template <int count>
struct NameList {
  MemberName names[static_cast<std::size_t>(count > 0 ? count : 1)];
};
struct CollectNames {
  template <class... Accessor>
  constexpr auto operator()(const Accessor&...) const {
    return NameList<sizeof...(Accessor)>{
        {{std::remove_cvref_t<decltype(boost::hana::first(std::declval<Accessor>()))>::c_str(),
          static_cast<unsigned>(
              decltype(boost::hana::length(boost::hana::first(std::declval<Accessor>())))::value)}...}};
  }
};

// The member at a position, as hana calls it.
template <int index>
struct MemberAt {
  template <class First, class... Rest>
  constexpr auto& operator()(First& first, Rest&... rest) const {
    if constexpr (index == 0)
      return first;
    else
      return MemberAt<index - 1>()(rest...);
  }
};
template <class T, int index>
struct Accessor {
  template <class Object>
  constexpr auto& operator()(Object&& object) const {
    return members<T>::visit(object, MemberAt<index>());
  }
};
template <class T, int index, std::size_t... character>
constexpr auto hana_name(std::index_sequence<character...>) {
  return boost::hana::string_c<members<T>::names[index].text[character]...>;
}
template <class T, int index>
constexpr auto hana_accessor() {
  return boost::hana::make_pair(hana_name<T, index>(std::make_index_sequence<members<T>::names[index].size>()),
                                Accessor<T, index>());
}

}  // namespace detail

// The same of structs that Boost.Hana knows.
template <class T>
requires detail::hana_adapted<T>
struct members<T> {
  static constexpr bool reflected = true;  // the members are listed
  // f(member...) with references to the object's members, const where the object is; and what that returns.
  template <class Object, class Visitor>
  static constexpr decltype(auto) visit(Object& object, Visitor&& visitor) {
    return boost::hana::unpack(boost::hana::accessors<T>(), [&](const auto&... accessor) -> decltype(auto) {
      return visitor(boost::hana::second(accessor)(object)...);
    });
  }

  using types = decltype(visit(std::declval<T&>(), detail::CollectTypes()));  // of the members, in order
  // A class that derives from one with DEFINE_STRUCT would drop its own members. Foreign types are taken as adapted.
  static constexpr detail::Flaw flaw = [] {
    if constexpr (requires { typename T::hana_accessors_impl; })
      return detail::laid_out(false, types()).size == sizeof(T) ? detail::Flaw::none : detail::Flaw::incomplete_list;
    else
      return detail::Flaw::none;
  }();

  static constexpr int count = types::size;  // of the members
  // The members' names, in order.
  static constexpr auto list = boost::hana::unpack(boost::hana::accessors<T>(), detail::CollectNames());
  static constexpr const MemberName* names = list.names;
};

}  // namespace weft

namespace boost::hana {
template <typename T>
struct accessors_impl<T, when<weft::detail::Listed<T>>> {
  static constexpr auto apply() {
    return []<int... index>(std::integer_sequence<int, index...>) {
      return make_tuple(weft::detail::hana_accessor<T, index>()...);
    }
    (std::make_integer_sequence<int, weft::members<T>::count>());
  }
};
}  // namespace boost::hana
