// Conversions from and to 8-bit floats as CUDA: by instructions where the device has them, else by bits; in packs.
#include <doctest/doctest.h>

#include "codegen/cuda.hpp"
#include "codegen/cuda_functions.hpp"
#include "runtime/cuda/code.hpp"
#include "tests/codegen/cuda_support.hpp"

using namespace weft;
using namespace weft::test;

TEST_CASE("CUDA: casts from and to 8-bit floats, and rows of them that are moved, compile for each device" *
          needs(nvrtc)) {
  std::vector<std::string> texts;
  for (const DType narrow : {DType::f8e4m3, DType::f8e5m2}) {
    for (const DType other : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64, DType::u8,
                              DType::boolean, DType::f8e4m3, DType::f8e5m2})
      for (const bool narrows : {false, true}) {
        const DType from = narrows ? other : narrow, to = narrows ? narrow : other;
        KernelBuilder b(std::string(narrows ? "to_" : "from_") + info(narrow).name + "_" + info(other).name);
        const Dim i = b.lanes(b.outer(4096));
        b.store(b.output(to, 4096), i, b.cast(to, b.load(b.input(from, 4096), i)));
        texts.push_back(codegen::generate_cuda(b.kernel()).text);
      }
    texts.push_back(codegen::cuda_update_rows(narrow, false, false).text);
  }
  const std::vector<std::string> units = codegen::cuda_units(texts);
  for (const char* architecture : {"sm_80", "sm_89", "sm_90", "sm_100"}) {
    CAPTURE(architecture);
    CHECK_NOTHROW(runtime::cuda::compile_units(units, architecture));
  }
}
