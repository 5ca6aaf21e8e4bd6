// Throwing: one way to build a message from parts and end it with the user's line.
//   fail("matmul", loc, "inner sizes differ: ", a, " x ", b)   throws weft::Error "[matmul] inner ..., at model.cpp:41"
//   WEFT_CHECK(condition, "text ", value)                      throws weft::InternalError with our own file and line
#pragma once
#include <sstream>
#include <string>
#include <string_view>

#include "weft/error.hpp"

namespace weft {

template <class... Parts>
std::string concat_text(const Parts&... parts) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  (out << ... << parts);
  return out.str();
}

// "model.cpp:41": the file's own name without its folders. Empty for an unknown location.
std::string to_string(Loc loc);

// Throws Error with "[operation] message, at file:line"; the bracket and the ending are left out when empty.
[[noreturn]] void throw_error(std::string_view operation, Loc loc, const std::string& message);
[[noreturn]] void throw_internal(Loc loc, const std::string& message);

template <class... Parts>
[[noreturn]] void fail(std::string_view operation, Loc loc, const Parts&... parts) {
  throw_error(operation, loc, concat_text(parts...));
}

}  // namespace weft

// An invariant of our own. Stays on in every build: a wrong answer costs more than a branch.
#define WEFT_CHECK(condition, ...)                                                                                 \
  do {                                                                                                             \
    if (!(condition)) [[unlikely]]                                                                                 \
      ::weft::throw_internal(::weft::Loc::current(),                                                               \
                             ::weft::concat_text("invariant failed: " #condition " " __VA_OPT__(, ) __VA_ARGS__)); \
  } while (false)
