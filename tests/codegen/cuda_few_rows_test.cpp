// How kernels of products of few rows share k. Needs no GPU.
#include <doctest/doctest.h>

#include "codegen/cuda.hpp"
#include "codegen/cuda_functions.hpp"
#include "runtime/cuda/code.hpp"
#include "runtime/cuda/few_rows_product.hpp"
#include "tests/codegen/cuda_support.hpp"

using namespace weft;
using namespace weft::test;

TEST_CASE("a product of few rows has room on the smallest device, and its warps share all of k in whole instructions") {
  constexpr std::int64_t shared_of_sm_89 = 99 << 10, shared_of_sm_90 = 227 << 10;
  CHECK(codegen::few_rows_shared(128, 2, false) < shared_of_sm_89);
  CHECK(codegen::few_rows_shared(128, 5, true) < shared_of_sm_90);
  CHECK(codegen::few_rows_shared(256, 2, true) < shared_of_sm_90);
  for (const std::int64_t depth : {128, 256})
    for (const std::int64_t k : {8, 1024, 1032, 2048, 2056, 4096, 5632, 8192, 14336, 28672}) {
      CAPTURE(k);
      const auto [slices, of_warp] = runtime::cuda::depth_parts(k, depth);
      CHECK(of_warp <= depth);
      CHECK(of_warp % 32 == 0);
      CHECK(slices * 16 * of_warp >= k);
    }
  CHECK(runtime::cuda::depth_parts(2048, 128).slices == 1);
  CHECK(runtime::cuda::depth_parts(8192, 128).slices == 4);
}
