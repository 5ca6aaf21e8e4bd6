// Pointwise kernels as what follows a product on tensor cores: which may, that what is written compiles for sm_90a with
// NVRTC, where that is installed, and that it does not read the product from memory. What they compute is tested on a
// device (tests/cuda/followed_product_test.cpp).
#include <doctest/doctest.h>

#include "codegen/cuda.hpp"
#include "loop/parse.hpp"
#include "runtime/cuda/code.hpp"
#include "tests/codegen/cuda_support.hpp"

using namespace weft;
using namespace weft::test;

namespace {

// Of a product in p0; what follows a `where` is left out of what the schedule prints.
constexpr const char* gelu_of_all = R"(epilogue(bf16 p0[131072], out bf16 p1[131072])
  outer i0<131072 vector
  outer0 v0 bf16 = p0[i0]
  outer0 v1 f32 = cast(v0)
  once 0 v2 f32 = 0.5
  outer0 v3 f32 = mul(v1, v2)
  outer0 v4 f32 = tanh(v1)
  outer0 v5 f32 = mul(v3, v4)
  outer0 v6 bf16 = cast(v5)
  outer0 p1[i0] = v6
)";
// With a bias, a residual and a number, and a second result in f32.
constexpr const char* with_others =
    R"(epilogue(bf16 p0[131072], bf16 p1[512], bf16 p2[131072], f32 p3[1], out bf16 p4[131072], out f32 p5[131072])
  outer i0<256 outer i1<512 vector
  outer0 v0 bf16 = p0[512*i0 + i1]
  outer0 v1 bf16 = p1[i1]
  outer0 v2 bf16 = add(v0, v1)
  outer0 v3 bf16 = p2[512*i0 + i1]
  outer0 v4 bf16 = add(v2, v3)
  once 0 v5 f32 = p3[0]
  outer0 v6 f32 = cast(v4)
  outer0 v7 f32 = mul(v6, v5)
  outer0 p4[512*i0 + i1] = v4
  outer0 p5[512*i0 + i1] = v7
)";
constexpr const char* of_rows_sums = R"(epilogue(bf16 p0[131072], out f32 p1[256])
  outer i0<256 inner i1<512 vector
  inner0 v0 bf16 = p0[512*i0 + i1]
  inner0 v1 f32 = cast(v0)
  outer1 v2 f32 = reduce_sum(v1)
  outer1 p1[i0] = v2
)";
constexpr const char* turned = R"(epilogue(bf16 p0[131072], out bf16 p1[131072])
  outer i0<512 outer i1<256 vector
  outer0 v0 bf16 = p0[i0 + 512*i1]
  outer0 p1[256*i0 + i1] = v0
)";

}  // namespace

TEST_CASE("what walks a product in order may follow it in its launch, and compiles for sm_90a" * needs(nvrtc)) {
  std::vector<std::string> functions;
  for (const char* text : {gelu_of_all, with_others})
    for (const bool keeps : {false, true}) {
      loop::Kernel kernel = loop::parse_kernel(text);
      CHECK(codegen::may_be_epilogue(kernel, 0));
      const std::string name = "product" + std::to_string(functions.size());
      kernel.name = name + "_epilogue";
      const std::string made = codegen::generate_epilogue(kernel, 0, keeps);
      CHECK(made.find("read(x0") == made.npos);  // its packs are given
      functions.push_back(
          codegen::cuda_product_with(DType::bf16, functions.size() % 2 == 0, keeps, name, kernel.name, made));
    }
  const std::vector<std::string> units = codegen::cuda_units(functions, 1);
  CHECK(!runtime::cuda::compile_units(units, "sm_90a", runtime::cuda::Effort::check).at(0).empty());
}

TEST_CASE("what reduces or turns a product, or stores into it, does not follow it in its launch") {
  for (const char* text : {of_rows_sums, turned}) CHECK(!codegen::may_be_epilogue(loop::parse_kernel(text), 0));
  CHECK(!codegen::may_be_epilogue(loop::parse_kernel(gelu_of_all), 1));
}
