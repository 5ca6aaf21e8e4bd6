// How an element of a table and its update are joined, and what a table begins with that only joins.
#pragma once
#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace weft::runtime::rows {

struct Replace {
  template <class T>
  T operator()(T, T b) const {
    return b;
  }
};

// Integers wrap; of bools one must be true.
struct Add {
  template <class T>
  static constexpr T identity() {
    return T(0);
  }
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_same_v<T, bool>) {
      return a || b;
    } else if constexpr (std::is_integral_v<T>) {
      using Wrapping = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<Wrapping>(a) + static_cast<Wrapping>(b));
    } else {
      return a + b;
    }
  }
};

// NaN where one is; -0 < +0.
struct Greatest {
  template <class T>
  static constexpr T identity() {
    return std::is_floating_point_v<T> ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
  }
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {  // without a branch, so that it becomes vector instructions
      using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
      const auto mask = [](bool holds) { return Bits{0} - static_cast<Bits>(holds); };
      const auto first = std::bit_cast<Bits>(a), second = std::bit_cast<Bits>(b);
      const Bits takes_first = mask(a > b) | mask(a != a);
      const Bits joined = (first & takes_first) | (second & ~takes_first);
      return std::bit_cast<T>(joined & ~(mask(a == b) & (first ^ second)));
    } else {
      return a > b ? a : b;
    }
  }
};

}  // namespace weft::runtime::rows
