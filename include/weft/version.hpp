// Weft's version, written here alone: CMake reads these lines for the project, its package's version file and the
// library's soname. What a version promises: docs/versions.md.
#pragma once

// The version of these headers: major.minor.patch.
#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 1
#define WEFT_VERSION_PATCH 0

namespace weft {

const char* version() noexcept;  // of the library, "0.1.0"

}  // namespace weft

// Every file that includes Weft refers to this symbol, whose name says why a library of another version does not link.
#define WEFT_JOINED(prefix, major, minor) prefix##major##_##minor
#define WEFT_JOIN(prefix, major, minor) WEFT_JOINED(prefix, major, minor)
#define WEFT_VERSION_SYMBOL \
  WEFT_JOIN(weft_headers_and_library_must_both_be_version_, WEFT_VERSION_MAJOR, WEFT_VERSION_MINOR)
extern "C" const char WEFT_VERSION_SYMBOL;
namespace weft::detail {
[[gnu::used]] const char* const version_of_headers = &WEFT_VERSION_SYMBOL;
}
