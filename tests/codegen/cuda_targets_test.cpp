// Every hand-written function of a device compiles for each device that runs it. Needs no GPU. What generated kernels
// compile for: tests/CMakeLists.txt, the variant nvrtc.
#include <doctest/doctest.h>

#include "base/device_target.hpp"
#include "codegen/cuda.hpp"
#include "codegen/cuda_attention.hpp"
#include "codegen/cuda_functions.hpp"
#include "tests/codegen/cuda_support.hpp"

using namespace weft;
using namespace weft::test;

namespace {

constexpr DType all_dtypes[] = {DType::boolean, DType::u8,  DType::i8,  DType::u16,  DType::i16, DType::u32,
                                DType::i32,     DType::i64, DType::f16, DType::bf16, DType::f32, DType::f64};
constexpr DType of_16_bits[] = {DType::f16, DType::bf16};

// A score and a mask of their own, each with a number that is captured.
std::string functions(bool changes_scores, bool masks) {
  const auto flag = [](bool value) { return value ? "true" : "false"; };
  return std::string("struct Captured {\n  static constexpr bool changes_scores = ") + flag(changes_scores) +
         ", masks = " + flag(masks) +
         ", is_causal = false;\n  static constexpr int mask_reads = -1, draws_together = 0;\n  const int* document;\n  float cap;\n};\n"
         "WEFT_DEVICE float weft_score(float score, int, int, int, int, const Captured& captured) {\n"
         "  return captured.cap * attention::tanh_of(score / captured.cap);\n}\n"
         "WEFT_DEVICE float weft_score_gradient(float score, int, int, int, int, const Captured& captured) {\n"
         "  const float t = attention::tanh_of(score / captured.cap);\n  return 1.0f - t * t;\n}\n"
         "WEFT_DEVICE bool weft_sees(int, int, int q, int k, const Captured& captured) {\n"
         "  return captured.document[q] == captured.document[k];\n}\n";
}

void add(std::vector<std::string>& texts, const std::vector<codegen::CudaAttentionKernel>& kernels) {
  for (const codegen::CudaAttentionKernel& kernel : kernels) texts.push_back(kernel.text);
}

}  // namespace

TEST_SUITE_BEGIN("targets" * needs(nvrtc));

TEST_CASE("functions of rows, orders, matrices and checks compile for all devices") {
  std::vector<std::string> texts = {codegen::cuda_check().text};
  for (const DType dtype : all_dtypes) {
    const bool checked = is_floating(dtype);
    for (const bool adds : {false, true}) texts.push_back(codegen::cuda_update_rows(dtype, adds, adds == checked).text);
    texts.push_back(codegen::cuda_update_slice(dtype, checked).text);
    const bool is_ordered = dtype != DType::boolean && dtype != DType::f16 && dtype != DType::bf16;
    if (is_ordered)
      for (const auto& made : {codegen::cuda_argsort(dtype), codegen::cuda_select(dtype)}) texts.push_back(made.text);
  }
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64, DType::u8})
    texts.push_back(codegen::cuda_scatter_amax(dtype).text);
  for (const DType dtype : {DType::f32, DType::f64})
    for (const auto& made : {codegen::cuda_fourier(dtype), codegen::cuda_matrices(dtype)}) texts.push_back(made.text);
  for (const char* target : device_generations) check_functions_compile(texts, target);
}

TEST_CASE("products of few rows compile for all devices, with the copy engine where there is one") {
  for (const char* target : device_generations) {
    std::vector<std::string> texts;
    const bool has_copy_engine = device_target(target)->has(DeviceInstruction::bulk_copy);
    for (const DType dtype : of_16_bits)
      for (const bool is_gated : {false, true}) {
        const std::int64_t stages = has_copy_engine ? 5 : 2;
        texts.push_back(codegen::cuda_few_rows({dtype, !is_gated, 128, stages, has_copy_engine, is_gated}).text);
      }
    texts.push_back(codegen::cuda_few_rows({DType::bf16, false, 256, 2, has_copy_engine}).text);
    check_functions_compile(texts, target);
  }
}

TEST_CASE("products over groups by warps compile for all devices") {
  using codegen::GroupsKernel;
  std::vector<std::string> texts;
  for (const DType dtype : of_16_bits)
    for (const GroupsKernel kernel : {GroupsKernel::rows, GroupsKernel::rows_by_rows, GroupsKernel::sums})
      texts.push_back(codegen::cuda_groups_by_warps(dtype, kernel, dtype == DType::f16 ? 3 : 4).text);
  for (const char* target : device_generations) check_functions_compile(texts, target);
  // Hopper's kernels are not in their programs.
  CHECK(codegen::cuda_units(texts)[0].find("wgmma") == std::string::npos);
}

TEST_CASE("products by warps compile for all devices, of operands that lie each way, with a bias and in parts of k") {
  std::vector<std::string> texts;
  for (const bool a_by_rows : {false, true})
    for (const bool b_by_rows : {false, true})
      for (const bool in_parts : {false, true}) {
        const bool is_wide = a_by_rows != b_by_rows;
        for (const DType dtype : of_16_bits)
          texts.push_back(codegen::cuda_product_by_warps({dtype, a_by_rows, b_by_rows, is_wide != in_parts, in_parts},
                                                         is_wide, dtype == DType::f16 ? 3 : 4)
                              .text);
      }
  for (const char* target : device_generations) check_functions_compile(texts, target);
  CHECK(codegen::cuda_units(texts)[0].find("wgmma") == std::string::npos);
}

TEST_CASE("depthwise convolutions compile for all devices") {
  std::vector<std::string> texts;
  for (const DType dtype : of_16_bits)
    for (const codegen::CudaDepthwise& call :
         {codegen::CudaDepthwise{dtype, {3, 3}, {1, 1}, {1, 7}}, codegen::CudaDepthwise{dtype, {5, 5}, {2, 2}, {1, 7}},
          codegen::CudaDepthwise{dtype, {7, 7}, {1, 2}, {1, 7}}, codegen::CudaDepthwise{dtype, {5, 3}, {1, 1}, {1, 7}}})
      texts.push_back(codegen::cuda_depthwise(call).text);
  for (const char* target : device_generations) check_functions_compile(texts, target);
}

TEST_CASE("attention that is for sm_80 and up compiles for all devices, of one head size to 256 and of few queries") {
  std::vector<std::string> texts;
  for (const bool is_backward : {false, true})
    for (const auto& [features, value_features] : {std::pair<int, int>{32, 32}, {64, 64}, {192, 128}, {256, 256}}) {
      const bool masks = features != 64, changes_scores = features <= 64;
      add(texts, codegen::cuda_attention({.dtype = features == 32 ? DType::f16 : DType::bf16,
                                          .features = features,
                                          .value_features = value_features,
                                          .is_backward = is_backward,
                                          .masks = masks,
                                          .changes_scores = changes_scores,
                                          .functions = functions(changes_scores, masks)}));
    }
  for (const std::int64_t features : {64, 128, 256})
    add(texts, codegen::cuda_split_attention({features == 128 ? DType::f16 : DType::bf16, features, features,
                                              features == 256 ? std::optional<DType>() : DType::f32}));
  for (const DType dtype : of_16_bits)
    add(texts, codegen::cuda_split_attention({.dtype = dtype, .features = 64, .value_features = 64, .is_paged = true}));
  for (const char* target : device_generations) check_functions_compile(texts, target);
}

TEST_CASE("what has Hopper's instructions compiles for sm_90a: products, products over groups, attention") {
  using codegen::GroupsKernel;
  std::vector<std::string> texts;
  for (const DType dtype : of_16_bits) {
    for (const bool by_rows : {false, true})
      for (const bool bias : {false, true}) {
        texts.push_back(codegen::cuda_product({dtype, false, by_rows, bias}).text);
        texts.push_back(codegen::cuda_product({dtype, by_rows, by_rows != bias, bias, true}).text);
      }
    for (const GroupsKernel kernel : {GroupsKernel::rows, GroupsKernel::rows_by_rows, GroupsKernel::sums})
      texts.push_back(codegen::cuda_groups(dtype, kernel).text);
    for (const bool is_backward : {false, true}) {
      const bool masks = dtype == DType::f16;
      add(texts, codegen::cuda_attention({.dtype = dtype,
                                          .features = masks ? 128 : 64,
                                          .value_features = masks ? 128 : 64,
                                          .is_backward = is_backward,
                                          .masks = masks,
                                          .changes_scores = !masks,
                                          .on_hopper = true,
                                          .functions = functions(!masks, masks)}));
    }
  }
  check_functions_compile(texts, "sm_90a");
  // And is in no program that others run.
  const std::string others[] = {codegen::cuda_check().text};
  CHECK(codegen::cuda_units(others)[0].find("wgmma") == std::string::npos);
}

TEST_SUITE_END();
