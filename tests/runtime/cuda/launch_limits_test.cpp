// What a launch may ask for, found before it: no device is needed.
#include "runtime/cuda/launch_limits.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "base/device_target.hpp"
#include "runtime/cuda/code.hpp"
#include "tests/needs_nvrtc.hpp"
#include "weft/error.hpp"

using namespace weft::runtime::cuda;

TEST_CASE("static and dynamic shared memory count together, and a block's threads by themselves") {
  const LaunchLimits limits{.threads = 512, .shared = 4096};
  CHECK(beyond_limits({512, 96, 4000}, limits).empty());
  CHECK(beyond_limits({512, 97, 4000}, limits) ==
        "a block wants 97 + 4000 bytes of shared memory, and the device gives 4096");
  CHECK(beyond_limits({513, 0, 0}, limits) == "a block has 513 threads, and at most 512 fit");
}

TEST_CASE("sets of a launch share what the device holds at once by the work that they have") {
  CHECK(share_of_blocks(300, 1000, 1000) == 300);
  CHECK(share_of_blocks(0, 5000, 1000) == 0);
  // An embedding beside 96 small weights.
  const std::int64_t large = 18864, small = 1152, all = large + 96 * small, most = 4224;
  CHECK(share_of_blocks(large, all, most) == 615);
  CHECK(share_of_blocks(small, all, most) == 37);
  CHECK(share_of_blocks(1, 1 << 20, 64) == 1);
}

TEST_CASE("a cubin tells how much shared memory each of its functions declares" *
          weft::test::needs(weft::test::nvrtc)) {
  const std::vector<std::string> units = {
      "extern \"C\" __global__ void reversed(float* x) {\n"
      "  __shared__ float row[192];\n"
      "  row[threadIdx.x] = x[threadIdx.x];\n"
      "  __syncthreads();\n"
      "  x[threadIdx.x] = row[191 - threadIdx.x];\n"
      "}\n"
      "extern \"C\" __global__ void doubled(float* x) { x[threadIdx.x] *= 2; }\n"};
  for (const char* target : weft::device_generations)
    for (const Effort effort : {Effort::run, Effort::check}) {
      CAPTURE(target);
      const std::string cubin = compile_units(units, target, effort).at(0);
      CHECK(static_shared_in(cubin, "reversed") == 768);
      CHECK(static_shared_in(cubin, "doubled") == 0);
      CHECK_THROWS_AS(static_shared_in(std::string_view(cubin).substr(0, 100), "reversed"), weft::InternalError);
    }
  CHECK_THROWS_AS(static_shared_in("no cubin", "reversed"), weft::InternalError);
}
