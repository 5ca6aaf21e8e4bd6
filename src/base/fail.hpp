// Throwing: one way to build a message from parts and end it with the user's line.
//   fail("matmul", loc, "inner sizes differ: ", a, " x ", b)   throws weft::Error "[matmul] inner ..., at model.cpp:41"
//   WEFT_CHECK(condition, "text ", value)                      throws weft::InternalError with our own file and line
#pragma once
#include <cstdint>
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

// "1 axis", "2 axes".
std::string counted(std::int64_t count, const char* one, const char* many);

// "model.cpp:41": the file's own name without its folders. Empty for an unknown location.
std::string to_string(Loc loc);

// The name of the operation that the user called, while it is made of others: errors inside say it, not their own.
// Null: none.
const char*& called_operation();
// Until the end of the block it is this; null: what runs is another call's.
class CalledOperation {
 public:
  explicit CalledOperation(const char* name) { name_ = name; }
  ~CalledOperation() { name_ = saved_; }
  CalledOperation(const CalledOperation&) = delete;

 private:
  const char*& name_ = called_operation();
  const char* const saved_ = name_;
};

// "[operation] message, at file:line"; the bracket and the ending are left out when empty.
std::string error_text(std::string_view operation, Loc loc, const std::string& message);

// Throws Error with that text and, of the symbols it names, the sizes in this call.
[[noreturn]] void throw_error(std::string_view operation, Loc loc, const std::string& message);
[[noreturn]] void throw_internal(Loc loc, const std::string& message);
// Throws CompileError with the text of one that names no line, and the line at the end of the first of its lines.
[[noreturn]] void throw_compile_error(std::string_view operation, Loc loc, std::string_view text);

// Runs `compute`; where memory ends in it, says for which operation of the user's program.
template <class Compute, class Describe>
void naming_memory(Compute compute, Describe describe, const char* operation, Loc loc) {
  try {
    compute();
  } catch (const OutOfMemory& error) {
    const std::string_view text = error.what(), allocator = "[allocate] ";
    if (!text.starts_with(allocator)) throw;
    const std::string what = describe();
    throw OutOfMemory(
        error_text(operation, loc, what + (what.empty() ? "" : ": ") + std::string(text.substr(allocator.size())))
            .c_str());
  }
}

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
