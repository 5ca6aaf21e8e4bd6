#include "base/number_checks.hpp"

#include <cmath>

#include "base/fail.hpp"

namespace weft {
namespace {

// What is wrong with the value; null: nothing.
const char* flaw_of(Bounds bounds, double value) {
  switch (bounds) {
    case Bounds::share: return value >= 0 && value <= 1 ? nullptr : "must be from 0 to 1";
    case Bounds::share_below_one: return value >= 0 && value < 1 ? nullptr : "must be from 0 to below 1";
    case Bounds::finite: break;
    case Bounds::not_negative:
      if (value < 0) return "must not be negative";
      break;
    case Bounds::positive:
      if (value <= 0) return "must be positive";
      break;
  }
  return std::isfinite(value) ? nullptr : "must be finite";
}

}  // namespace

void check_numbers(const char* operation, Bounds bounds, std::initializer_list<NamedNumber> numbers, Loc loc) {
  for (const auto& [name, value] : numbers)
    if (const char* flaw = flaw_of(bounds, value)) fail(operation, loc, name, " ", flaw, ", it is ", value);
}

void check_recorded(const char* operation, const char* name, std::int64_t count, Loc loc) {
  constexpr std::int64_t most = UINT16_MAX;
  if (count > most) fail(operation, loc, name, " is at most ", most, ", it is ", count);
}

void check_choice(const char* operation, const char* type, std::int64_t value, std::int64_t last, Loc loc) {
  if (value < 0 || value > last) fail(operation, loc, type, " has no value ", value);
}

}  // namespace weft
