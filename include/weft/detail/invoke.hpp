// std::invoke without <functional>, which weft.hpp needs for nothing else.
#pragma once
#include <type_traits>
#include <utility>

namespace weft::detail {

// f(arguments...). Where f is a pointer to a member: that member of the first argument, an object or what points to
// one.
template <class F, class... A>
constexpr decltype(auto) invoke(const F& f, A&&... arguments) {
  return f(std::forward<A>(arguments)...);
}
template <class M, class C, class Object, class... A>
constexpr decltype(auto) invoke(M C::*member, Object&& object, A&&... arguments) {
  const auto of = [&]<class T>(T&& it) -> decltype(auto) {
    if constexpr (std::is_function_v<M>)
      return (std::forward<T>(it).*member)(std::forward<A>(arguments)...);
    else
      return (std::forward<T>(it).*member);
  };
  if constexpr (std::is_base_of_v<C, std::remove_cvref_t<Object>>)
    return of(std::forward<Object>(object));
  else
    return of(*std::forward<Object>(object));
}

}  // namespace weft::detail
