// What is otherwise where a sanitizer is.
#pragma once
#include <cstdlib>
#include <string>
#include <string_view>

namespace weft::test {

// Where AddressSanitizer makes everything slow, large counts are divided by it.
#ifdef __SANITIZE_ADDRESS__
inline constexpr int less_when_sanitized = 5;
#else
inline constexpr int less_when_sanitized = 1;
#endif

// Under a tool of compute-sanitizer, as tools/test_gpu says, a kernel takes hundreds of times as long: a case has fewer
// and smaller values, of each kind.
inline bool under_device_tool() { return std::getenv("WEFT_TEST_TOOL") != nullptr; }
inline bool under_device_tool(std::string_view one) {
  const char* const tool = std::getenv("WEFT_TEST_TOOL");
  return tool && tool == one;
}

// A need (needs.hpp).
inline std::string kernels_without_sanitizer() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return "kernels call the sanitizer here, and take many times as long";
#else
  return {};
#endif
}

}  // namespace weft::test
