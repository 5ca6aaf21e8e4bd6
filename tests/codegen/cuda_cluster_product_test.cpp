// Kernels of products by clusters compile for sm_90a with the shared memory of a launch, and how blocks share a
// product. Needs no GPU.
#include <doctest/doctest.h>

#include "codegen/cuda.hpp"
#include "codegen/cuda_functions.hpp"
#include "runtime/cuda/cluster_product.hpp"
#include "runtime/cuda/code.hpp"
#include "tests/codegen/cuda_support.hpp"

using namespace weft;
using namespace weft::test;
using runtime::cuda::cluster_parts, runtime::cuda::ClusterParts;

TEST_CASE("a product by clusters compiles, and has the shared memory of a launch" * needs(nvrtc)) {
  for (const auto& [n, k] : {std::pair(2304, 768), std::pair(768, 768), std::pair(3072, 768), std::pair(768, 3072),
                             std::pair(64, 128), std::pair(4096, 1024), std::pair(1000, 3584)})
    for (const bool has_gelu : {false, true}) {
      const std::optional<ClusterParts> parts = cluster_parts(n, k);
      REQUIRE(parts);
      const codegen::CudaFunction kernel = codegen::cuda_cluster_product(
          {has_gelu ? DType::f16 : DType::bf16, parts->columns, parts->depth, parts->parts, has_gelu});
      CAPTURE(kernel.name);
      CHECK(kernel.threads == 256);
      // Two blocks on a multiprocessor, each of which takes 1 KB more.
      CHECK(kernel.shared + 1024 <= (228 << 10) / 2);
      const std::string shared = "cluster_product::Shared<" + std::to_string(parts->columns) + ", " +
                                 std::to_string(parts->depth) + ", " + std::to_string(parts->parts) + ">";
      const std::string texts[] = {kernel.text + "static_assert(sizeof(" + shared +
                                   ") + 1023 == " + std::to_string(kernel.shared) + ");\n"};
      for (const std::string& cubin :
           runtime::cuda::compile_units(codegen::cuda_units(texts), "sm_90a", runtime::cuda::Effort::check))
        CHECK(!cubin.empty());
    }
}

TEST_CASE("blocks of a cluster share all of k, and the products of GPT-2 are 128 blocks") {
  for (const std::int64_t n : {64, 768, 1000, 2304, 3072, 8192})
    for (const std::int64_t k : {128, 136, 768, 1000, 3072, 3584}) {
      CAPTURE(n);
      CAPTURE(k);
      const std::optional<ClusterParts> parts = cluster_parts(n, k);
      REQUIRE(parts);
      CHECK(parts->depth * parts->parts >= k);
      CHECK(parts->depth * (parts->parts - 1) < k);
      CHECK(parts->depth % 64 == 0);
      CHECK(parts->depth / 64 < 16);                      // named barriers of a block
      CHECK(parts->columns / 8 * 4 % parts->parts == 0);  // each block ends as many units
    }
  CHECK(*cluster_parts(2304, 768) == ClusterParts{72, 192, 4});
  CHECK(*cluster_parts(768, 768) == ClusterParts{24, 192, 4});
  CHECK(*cluster_parts(3072, 768) == ClusterParts{96, 192, 4});
  CHECK(*cluster_parts(768, 3072) == ClusterParts{48, 384, 8});
  CHECK(!cluster_parts(768, 4096));
}

TEST_CASE("products by clusters are for Hopper GPUs with room for two blocks") {
  using runtime::cuda::has_cluster_products;
  constexpr std::int64_t shared_of_sm_90 = 227 << 10;
  CHECK(has_cluster_products(*device_target("sm_90a"), shared_of_sm_90));
  CHECK(!has_cluster_products(*device_target("sm_90a"), 99 << 10));
  for (const char* target : {"sm_80", "sm_89", "sm_90", "sm_100", "sm_120"})
    CHECK(!has_cluster_products(*device_target(target), shared_of_sm_90));
}
