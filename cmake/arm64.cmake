# Toolchain: builds for arm64 Linux on another machine by Debian's cross compiler, and runs the tests by qemu-user. The
# libraries that are linked lie in WEFT_ARM64_ROOT, unpacked Debian packages (tools/test_arm64 puts them there).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES WEFT_ARM64_ROOT)
# Programs and headers that are the same for every machine come from this one; libraries never do.
set(CMAKE_FIND_ROOT_PATH ${WEFT_ARM64_ROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE BOTH)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)
