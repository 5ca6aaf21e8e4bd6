// Kernels of attention compile for each architecture they are for. Needs no GPU.
#include "codegen/cuda_attention.hpp"

#include <doctest/doctest.h>

#include "codegen/cuda.hpp"
#include "codegen/cuda_attention_functions.hpp"
#include "ir/composites.hpp"
#include "record/attention_mods.hpp"
#include "runtime/cuda/code.hpp"
#include "runtime/cuda/split_attention.hpp"
#include "tests/codegen/cuda_support.hpp"
#include "weft/backends.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace weft::test;

namespace {

// A soft cap of 30, and a mask of documents.
std::string functions(bool changes_scores, bool masks, int draws_together = 0) {
  const auto flag = [](bool value) { return value ? "true" : "false"; };
  return std::string("struct Captured {\n  static constexpr bool changes_scores = ") + flag(changes_scores) +
         ", masks = " + flag(masks) + ", is_causal = " + flag(!masks) +
         ";\n  static constexpr int mask_reads = -1, draws_together = " + std::to_string(draws_together) +
         ";\n  using Group = unsigned;\n  static constexpr unsigned least_kept = 1677722;\n  static constexpr float "
         "kept = 0.9f;\n"
         "  const int* document;\n  const long *seed, *offset;\n};\n"
         "WEFT_DEVICE float weft_score(float score, int, int, int, int, const Captured&) {\n"
         "  return 30.0f * attention::tanh_of(score / 30.0f);\n}\n"
         "WEFT_DEVICE float weft_score_gradient(float score, int, int, int, int, const Captured&) {\n"
         "  const float t = attention::tanh_of(score / 30.0f);\n  return 1.0f - t * t;\n}\n"
         "WEFT_DEVICE bool weft_sees(int, int, int q, int k, const Captured& captured) {\n"
         "  return (q >= k) & (captured.document[q] == captured.document[k]);\n}";
}

void check_compiles(const std::vector<codegen::CudaAttentionKernel>& kernels, const std::string& architecture) {
  std::vector<std::string> texts;
  for (const codegen::CudaAttentionKernel& kernel : kernels) texts.push_back(kernel.text);
  CAPTURE(architecture);
  CAPTURE(kernels[0].name);
  for (const std::string& cubin :
       runtime::cuda::compile_units(codegen::cuda_units(texts), architecture, runtime::cuda::Effort::check))
    CHECK(!cubin.empty());
}

}  // namespace

TEST_CASE("attention on tensor cores compiles for sm_80 and by warpgroups for sm_90a" * needs(nvrtc)) {
  for (const bool is_backward : {false, true})
    for (const bool masks : {false, true}) {
      codegen::CudaAttention call{.dtype = masks ? DType::f16 : DType::bf16,
                                  .features = 72,
                                  .value_features = 40,
                                  .is_backward = is_backward,
                                  .masks = masks,
                                  .functions = functions(!masks, masks)};
      check_compiles(codegen::cuda_attention(call), "sm_80");
      call.features = call.value_features = masks ? 128 : 64;
      call.on_hopper = true;
      check_compiles(codegen::cuda_attention(call), "sm_90a");
    }
}

TEST_CASE("attention with dropout compiles, for four keys a draw and one" * needs(nvrtc)) {
  for (const bool is_backward : {false, true})
    for (const bool masks : {false, true}) {
      codegen::CudaAttention call{.dtype = masks ? DType::f16 : DType::bf16,
                                  .features = 128,
                                  .value_features = masks ? 40 : 128,
                                  .is_backward = is_backward,
                                  .masks = masks,
                                  .kept = 0.9f,
                                  .functions = functions(false, masks, masks ? 1 : 4)};
      check_compiles(codegen::cuda_attention(call), "sm_80");
      call.features = call.value_features = masks ? 128 : 64;
      call.functions = functions(masks, masks, masks ? 4 : 1);
      call.on_hopper = true;
      check_compiles(codegen::cuda_attention(call), "sm_90a");
    }
}

TEST_CASE("gradients compile for sm_90a in one nest, of both sizes of heads, with all that functions may do" *
          needs(nvrtc)) {
  for (const std::int64_t features : {64, 128})
    for (const bool changes_scores : {false, true})
      for (const bool masks : {false, true})
        for (const int draws_together : {0, 1, 4}) {
          const auto kernels = codegen::cuda_attention({.dtype = masks ? DType::f16 : DType::bf16,
                                                        .features = features,
                                                        .value_features = features,
                                                        .is_backward = true,
                                                        .masks = masks,
                                                        .changes_scores = changes_scores,
                                                        .kept = draws_together ? 0.9f : 1,
                                                        .on_hopper = true,
                                                        .functions = functions(changes_scores, masks, draws_together)});
          CHECK((kernels[1].part == codegen::CudaAttentionKernel::Part::queries));
          CHECK(kernels[0].shared <= (227 << 10));
          check_compiles(kernels, "sm_90a");
        }
}

TEST_CASE("gradients of wide heads compile, those of values apart, within the shared memory of the smallest device") {
  for (const std::int64_t value_features : {64, 128, 256})
    for (const bool masks : {false, true}) {
      const codegen::CudaAttention call{.dtype = DType::f16,
                                        .features = value_features == 128 ? 192 : 256,
                                        .value_features = value_features,
                                        .is_backward = true,
                                        .masks = masks,
                                        .functions = functions(!masks, masks)};
      const auto kernels = codegen::cuda_attention(call);
      CHECK((kernels.back().part == codegen::CudaAttentionKernel::Part::by_values));
      for (const auto& kernel : kernels) CHECK(kernel.shared <= (99 << 10));
      if (nvrtc().empty()) check_compiles(kernels, masks ? "sm_89" : "sm_80");
    }
}

TEST_CASE("the mask and scores of texts of several lengths compile, with what the program's mods capture") {
  InternedText mods;
  register_pass(PassStage::traced, "look_at_mods", "1", [&](const GraphView& graph) {
    for (const Tensor& value : graph.nodes())
      if (NodeView(value).name() == "scaled_dot_product_attention")
        mods = value.node()->attributes().as<AttentionCall>().mods;
    return graph;
  });
  compile([](const Tensor& x, const Tensor& offsets, const Tensor& slopes) {
    return nn::varlen_attention(
        x, x, x, offsets, offsets,
        {.is_causal = true, .score_mod = nn::alibi(slopes), .mask_mod = nn::sliding_window(64)});
  })(ones({5, 2, 8}), arange(2) * 5, ones({2}));
  unregister_pass("look_at_mods");
  REQUIRE(mods.id != 0);
  for (const bool is_backward : {false, true}) {
    const auto functions = codegen::cuda_attention_functions(attention_mods(mods), false, is_backward);
    REQUIRE(functions);
    CHECK(functions->masks);
    CHECK(functions->changes_scores);
    CHECK(!functions->mask_reads_batch);  // one list of blocks for all heads
    CHECK(!functions->mask_reads_head);
    if (nvrtc().empty())
      for (const bool on_hopper : {false, true})
        check_compiles(codegen::cuda_attention({.dtype = DType::bf16,
                                                .features = 64,
                                                .value_features = 64,
                                                .is_backward = is_backward,
                                                .masks = true,
                                                .on_hopper = on_hopper,
                                                .functions = functions->text}),
                       on_hopper ? "sm_90a" : "sm_80");
  }
}

TEST_CASE("attention of few queries compiles for each architecture, within the shared memory of the smallest") {
  constexpr std::int64_t shared_of_sm_89 = 99 << 10;
  const std::string architectures[] = {"sm_80", "sm_89", "sm_90a", "sm_100"};
  const bool compiles = nvrtc().empty();
  if (!compiles) MESSAGE("left out: ", nvrtc());
  std::size_t next = 0;
  for (const std::int64_t features : {8, 64, 72, 128, 256})
    for (const char* const way : {"", "masked", "paged"}) {
      const bool is_masked = way == std::string("masked"), is_paged = way == std::string("paged");
      const auto mask = is_masked ? std::optional(features == 128 ? DType::f32 : DType::bf16) : std::nullopt;
      const auto kernels = codegen::cuda_split_attention(
          {features == 72 ? DType::f16 : DType::bf16, features, features == 72 ? 40 : features, mask, is_paged});
      REQUIRE(kernels.size() == 2);
      CHECK(kernels[0].shared <= shared_of_sm_89);
      CHECK(kernels[0].shared >= (64 << 10));               // so much at least is on its way to a block
      CHECK(kernels[0].columns == kernels[0].threads / 2);  // 16 keys for each warp
      CHECK(kernels[1].threads >= (features == 72 ? 40 : features));
      CHECK((kernels[0].name.find("paged") != std::string::npos) == is_paged);
      CHECK((kernels[0].name.find("masked") != std::string::npos) == is_masked);
      if (compiles) check_compiles(kernels, architectures[next++ % 4]);
    }
}

TEST_CASE("keys of few queries are shared by as many blocks as a device has work for, and two join in a cluster") {
  struct Made {
    std::int64_t parts, cluster;
    bool operator==(const Made&) const = default;
  };
  const auto parts = [](std::int64_t batch, std::int64_t heads, std::int64_t key_heads, std::int64_t queries,
                        std::int64_t keys, std::int64_t columns = 128) {
    runtime::cuda::AttentionSizes sizes;
    sizes.batch = batch, sizes.heads = heads, sizes.key_heads = key_heads, sizes.queries = queries, sizes.keys = keys;
    const runtime::cuda::KeyParts made = runtime::cuda::key_parts(sizes, columns, true);
    CHECK(made.blocks == batch * key_heads * ((heads / key_heads * queries + 15) / 16) * made.parts);
    CHECK(made.parts % made.cluster == 0);
    CHECK((made.parts == 1 || (made.parts / 2) * columns < keys));
    const runtime::cuda::KeyParts without = runtime::cuda::key_parts(sizes, columns, false);
    CHECK((without.cluster == 1 && without.parts == made.parts));
    return Made{made.parts, made.cluster};
  };
  CHECK(parts(1, 32, 8, 1, 256) == Made{2, 2});  // of 128 keys: no part is less
  CHECK(parts(1, 32, 8, 1, 256, 64) == Made{4, 4});
  CHECK(parts(1, 32, 8, 1, 1024) == Made{8, 1});
  CHECK(parts(1, 32, 8, 1, 16384) == Made{16, 1});
  CHECK(parts(4, 32, 8, 1, 4096) == Made{4, 1});  // clusters of four would not fill the device
  CHECK(parts(4, 32, 8, 1, 1024) == Made{2, 2});
  CHECK(parts(8, 32, 8, 1, 1024) == Made{2, 2});
  CHECK(parts(16, 32, 8, 1, 1024) == Made{1, 1});
  CHECK(parts(16, 32, 8, 1, 1024, 64) == Made{1, 1});
  CHECK(parts(16, 32, 8, 1, 1024, 32) == Made{2, 2});
  CHECK(parts(16, 12, 12, 1, 1024) == Made{1, 1});
  CHECK(parts(16, 12, 12, 1, 4096) == Made{4, 1});  // 192 blocks are three quarters of a wave
  CHECK(parts(32, 32, 8, 1, 16384) == Made{1, 1});
  CHECK(parts(512, 32, 8, 1, 1024) == Made{1, 1});
  CHECK(parts(1, 1, 1, 1, 1 << 20) == Made{128, 1});
  CHECK(parts(1, 32, 8, 16, 2048) == Made{4, 1});  // four tiles of rows for each key head
  CHECK(parts(1, 32, 8, 1, 0) == Made{1, 1});
  CHECK(parts(0, 32, 8, 1, 1024) == Made{1, 1});
}

TEST_CASE("functions of scores by all functions that work element by element compile, with their derivatives") {
  const nn::ScoreMod by[] = {
#define WEFT_ONE(f) [](auto s, auto, auto, auto, auto) { return f(s); },
#define WEFT_TWO(f) [](auto s, auto, auto, auto q, auto) { return f(s, cast(q, DType::f32)); },
      // clang-format off
      WEFT_ONE(abs) WEFT_ONE(exp) WEFT_ONE(log) WEFT_ONE(sqrt) WEFT_ONE(rsqrt) WEFT_ONE(tanh) WEFT_ONE(sigmoid)
      WEFT_ONE(relu) WEFT_ONE(gelu) WEFT_ONE(silu) WEFT_ONE(hardsigmoid) WEFT_ONE(hardswish) WEFT_ONE(relu6)
      WEFT_ONE(mish) WEFT_ONE(log_sigmoid) WEFT_ONE(softsign) WEFT_ONE(stop_gradient) WEFT_ONE(erf) WEFT_ONE(sin)
      WEFT_ONE(atan) WEFT_ONE(floor) WEFT_ONE(square) WEFT_ONE(frac) WEFT_ONE(log1p) WEFT_ONE(sinh) WEFT_ONE(selu)
      WEFT_TWO(hypot) WEFT_TWO(copysign) WEFT_TWO(maximum) WEFT_TWO(fmin) WEFT_TWO(logaddexp)
      WEFT_TWO(xlogy) WEFT_TWO(remainder) WEFT_TWO(pow)
  // clang-format on
#undef WEFT_ONE
#undef WEFT_TWO
                              [](auto s, auto, auto, auto, auto){return clamp(s, -1, 1);
}
, [](auto s, auto, auto, auto q, auto k) { return clamp(s, -1.0 * q, k); },
    [](auto s, auto, auto, auto q, auto k) { return s + stop_gradient(s) * log(q - k + 1); }
}
;
std::vector<std::string> texts;
for (const nn::ScoreMod& mod : by) {
  const RecordedMods mods = record_mods(mod.function(), {}, {DType::f32, {}, 1, 2, 4, 4}, {});
  const auto functions = codegen::cuda_attention_functions(attention_mods(mods.text), false, true);
  const std::string name = "mod" + std::to_string(texts.size());
  CAPTURE(texts.size());
  REQUIRE(functions);
  texts.push_back("namespace " + name + " {\n" + functions->text + "}\nextern \"C\" __global__ void " + name +
                  "_kernel(float* score, " + name +
                  "::Captured captured, AttentionArguments) {\n  score[0] = weft_score(score[0], 0, 0, 1, 2, "
                  "captured) + weft_score_gradient(score[0], 0, 0, 1, 2, captured);\n}\n");
}
// What has no gradient has none here.
CHECK(texts[16].find("return 0.0f") != std::string::npos);
if (const std::string lacking = nvrtc(); !lacking.empty()) {
  MESSAGE("left out: ", lacking);
  return;
}
for (const std::string& cubin :
     runtime::cuda::compile_units(codegen::cuda_units(texts, 1), "sm_80", runtime::cuda::Effort::check))
  CHECK(!cubin.empty());
}

TEST_CASE("attention's kernels say their tiles, and calls that differ have other names") {
  codegen::CudaAttention call{.features = 64, .value_features = 64, .functions = functions(true, false)};
  const auto portable = codegen::cuda_attention(call);
  REQUIRE(portable.size() == 1);
  CHECK(portable[0].rows == portable[0].threads / 2);  // 16 rows for each warp
  CHECK(portable[0].shared == 64 * 128 + 2 * 2 * 64 * 128);
  call.on_hopper = true;
  const auto hopper = codegen::cuda_attention(call);
  REQUIRE(hopper.size() == 1);
  CHECK(hopper[0].name != portable[0].name);
  call.masks = call.is_backward = true;
  CHECK(codegen::cuda_attention(call).size() == 5);  // one nest, and one list of tiles
  call.on_hopper = false;
  CHECK(codegen::cuda_attention(call).size() == 6);
  CHECK(codegen::fits_cuda_attention(256, 256));
  CHECK(!codegen::fits_cuda_attention(264, 64));
  CHECK(!codegen::fits_cuda_attention(60, 64));
}
