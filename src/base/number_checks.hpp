// Checks of numbers that a user gives as options. Each refuses NaN and says the option's name and value.
#pragma once
#include <cstdint>
#include <initializer_list>

#include "weft/error.hpp"

namespace weft {

struct NamedNumber {
  const char* name;  // the option's, as the user writes it
  double value;
};

enum class Bounds {
  finite,           // any number but the infinite ones
  not_negative,     // finite, 0 or more
  positive,         // finite, more than 0
  share,            // from 0 to 1
  share_below_one,  // from 0 to below 1
};

// Throws Error for the first of the numbers that is not within the bounds.
void check_numbers(const char* operation, Bounds bounds, std::initializer_list<NamedNumber> numbers, Loc loc);
// Throws Error for a count beyond 65,535 of what is recorded each by itself.
void check_recorded(const char* operation, const char* name, std::int64_t count, Loc loc);
// Throws Error for a number that is no value of the enumeration, whose last value is given.
void check_choice(const char* operation, const char* type, std::int64_t value, std::int64_t last, Loc loc);
template <class Enum>
void check_choice(const char* operation, const char* type, Enum value, Enum last, Loc loc) {
  check_choice(operation, type, static_cast<std::int64_t>(value), static_cast<std::int64_t>(last), loc);
}

}  // namespace weft
