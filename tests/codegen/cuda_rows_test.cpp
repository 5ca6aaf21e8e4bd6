// Functions that sort, and that join updates with rows: the numbers that they share with their launches.
#include <doctest/doctest.h>

#include "base/fail.hpp"
#include "codegen/cuda.hpp"
#include "codegen/cuda_functions.hpp"
#include "runtime/cuda/code.hpp"
#include "runtime/cuda/rows.hpp"
#include "tests/codegen/cuda_support.hpp"

using namespace weft;
namespace own = weft::runtime::cuda::row_kernels;

TEST_CASE("the functions of rows have the numbers of their launches" * test::needs(test::nvrtc)) {
  const auto holds = [](const std::string& name, std::int64_t number) {
    return concat_text("static_assert(", name, " == ", number, ");\n");
  };
  std::string asserted = holds("sort_threads", own::threads) + holds("sort_tile", own::short_row) +
                         holds("digits", own::digits) + holds("radix_tile", own::radix_tile) +
                         holds("long_segment", own::long_segment) + holds("columns_of_block", own::columns_of_block) +
                         holds("rows_memory", own::shared_bytes) + holds("radix_whole", own::whole) +
                         holds("radix_count", own::count_digits) + holds("radix_scan", own::scan_digits) +
                         holds("radix_place", own::place) + holds("rows_clear", own::clear) +
                         holds("rows_join", own::join) + holds("rows_add_long", own::add_long) +
                         holds("rows_add_atomic", own::add_atomic) + holds("row_detail", 8);
  CHECK(codegen::cuda_update_rows(DType::f32, true, true).threads == own::threads);
  CHECK(codegen::cuda_argsort(DType::f32).threads == own::threads);
  const std::vector<std::string> functions = {codegen::cuda_update_rows(DType::f32, true, true).text + asserted};
  CHECK_NOTHROW(runtime::cuda::compile_units(codegen::cuda_units(functions), "sm_90"));
  const std::vector<std::string> wrong = {codegen::cuda_update_rows(DType::f32, true, true).text + holds("digits", 1)};
  CHECK_THROWS(runtime::cuda::compile_units(codegen::cuda_units(wrong), "sm_90"));
}
