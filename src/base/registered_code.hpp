// Code that the program has registered: backends, passes, observers. What it throws reaches the caller with its name.
#pragma once
#include <exception>
#include <string_view>

#include "base/fail.hpp"

namespace weft {

// In the handler of what such code has thrown: throws Error `[compile] the pass "mine": ...`, with the original nested
// in it (std::rethrow_if_nested).
[[noreturn]] inline void throw_named(const char* kind, std::string_view name, const std::exception& error) {
  const std::string text = error_text("compile", {}, concat_text("the ", kind, " \"", name, "\": ", error.what()));
  std::throw_with_nested(Error(text.c_str()));
}

// Runs it. Errors that callers tell apart by their type pass as they are.
template <class Run>
auto naming_registered(const char* kind, std::string_view name, Run run) {
  try {
    return run();
  } catch (const CompileError&) {
    throw;
  } catch (const OutOfMemory&) {
    throw;
  } catch (const InternalError&) {
    throw;
  } catch (const std::exception& error) {
    throw_named(kind, name, error);
  }
}

}  // namespace weft
