// Errors and source locations. `Error` is the user's mistake or the outside world's (a wrong shape, a full disk);
// `InternalError` is ours. Both carry one line of text that names the operation, the shapes and the user's file and
// line: `[matmul] inner sizes differ: f32[64,128] x f32[256,32], at model.cpp:41`.
#pragma once
#include <cstdint>
#include <exception>

#include "weft/version.hpp"

namespace weft {

// Where in the user's program an operation was written. Captured by default arguments; 16 bytes, trivially copyable.
struct Loc {
  const char* file = nullptr;  // its path, as the compiler was given it; null where it is not known
  std::uint32_t line = 0;      // from 1
  // The place of the call for which this is a default argument.
  static constexpr Loc current(const char* file = __builtin_FILE(), std::uint32_t line = __builtin_LINE()) {
    return {file, line};
  }
};

// An exception whose text is shared by copies, so that copying never throws. The text is copied in.
class Exception : public std::exception {
 public:
  explicit Exception(const char* text);                   // copies the text
  Exception(const Exception& other) noexcept;             // shares the text
  Exception& operator=(const Exception& other) noexcept;  // shares the text
  ~Exception() override;
  const char* what() const noexcept override;  // the text; lives as long as a copy of the exception

 private:
  struct Text;
  Text* text_;
};

// The user's mistake, or a condition of the outside world that the user can mend.
class Error : public Exception {
 public:
  using Exception::Exception;
};

// A kernel could not be compiled: the compiler is missing, failed, or made something that was refused.
class CompileError : public Error {
 public:
  using Error::Error;
};

// The device has no memory left. State is unchanged and the next call works.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

// A defect of Weft itself: an invariant that does not hold.
class InternalError : public Exception {
 public:
  using Exception::Exception;
};

}  // namespace weft
