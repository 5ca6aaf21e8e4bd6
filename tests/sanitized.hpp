// How much less a test does where AddressSanitizer makes everything slow: large counts are divided by it.
#pragma once

namespace weft::test {

#ifdef __SANITIZE_ADDRESS__
inline constexpr int less_when_sanitized = 5;
#else
inline constexpr int less_when_sanitized = 1;
#endif

}  // namespace weft::test
