// How many members an aggregate has: lists that must name all of them (a digest, a plan on disk) are held by it. A
// static_assert beside the list fails where a member is added, and says what to do.
#pragma once
#include <tuple>
#include <utility>

#include "weft/detail/aggregate.hpp"

namespace weft {

// Of base classes and of a C array as many as they have initializers.
template <class T>
inline constexpr int member_count = detail::initializer_count<T>();

// Whether T::fields (runtime/fields.hpp) names as many as there are.
template <class T>
inline constexpr bool lists_all = std::tuple_size_v<decltype(T::fields(std::declval<T&>()))> == member_count<T>;

}  // namespace weft
