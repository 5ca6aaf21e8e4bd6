#include "base/class_name.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace weft {

std::string class_name(const char* mangled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(mangled, nullptr, nullptr, &status), std::free);
  return status == 0 ? name.get() : mangled;
}

}  // namespace weft
