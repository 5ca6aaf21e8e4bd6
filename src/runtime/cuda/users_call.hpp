// A call of weft/cuda.hpp: what fails in it names the function and the user's line.
#pragma once
#include <string_view>

#include "base/fail.hpp"

namespace weft::runtime::cuda {

template <class F>
decltype(auto) users_call(const char* function, Loc loc, F call) {
  try {
    return call();
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& error) {
    const std::string_view text = error.what(), driver = "[cuda] ";
    if (!text.starts_with(driver)) throw;  // a failed check has the line of what it checks
    throw_error(function, loc, std::string(text.substr(driver.size())));
  }
}

}  // namespace weft::runtime::cuda
