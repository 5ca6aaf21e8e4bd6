// What a launch may ask for. In: the needs of a function, the limits of a device; or a compiled program. Out: why they
// do not fit, before anything is launched: the driver itself says no more than "invalid argument".
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace weft::runtime::cuda {

struct LaunchNeeds {
  int threads = 1;                  // of a block
  std::int64_t static_shared = 0;   // bytes of shared memory that the function declares
  std::int64_t dynamic_shared = 0;  // bytes that the launch adds to them
};
struct LaunchLimits {
  int threads = 1024;
  std::int64_t shared = 0;  // bytes of a block, static and dynamic together
};
// Empty where the needs are within the limits.
std::string beyond_limits(const LaunchNeeds& needs, const LaunchLimits& limits);

// The blocks of one of several sets in one launch: as many as it wants where the device takes all of them at once, else
// its share of `most` by what it wants of `all`. A set that wants any has one.
std::int64_t share_of_blocks(std::int64_t wanted, std::int64_t all, std::int64_t most);

// The bytes of static shared memory of a function in a cubin for sm_90, from the sizes of its sections; 0 where it
// declares none. Throws InternalError where the text is no cubin.
std::int64_t static_shared_in(std::string_view cubin, std::string_view function);

}  // namespace weft::runtime::cuda
