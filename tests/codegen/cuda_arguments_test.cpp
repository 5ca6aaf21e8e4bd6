// The arguments of hand-written kernels and the sizes of their tiles are declared twice, for the host and as text for
// the device: both are the same. NVRTC says so by static_asserts, without a GPU.
#include <doctest/doctest.h>

#include "base/fail.hpp"
#include "base/member_count.hpp"
#include "codegen/cuda.hpp"
#include "codegen/cuda_attention.hpp"
#include "codegen/cuda_functions.hpp"
#include "runtime/cuda/code.hpp"
#include "runtime/cuda/few_rows_product.hpp"
#include "runtime/cuda/grouped_product.hpp"
#include "runtime/cuda/kernel_arguments.hpp"
#include "runtime/cuda/stored_steps.hpp"
#include "runtime/cuda/tensor_core_product.hpp"
#include "tests/codegen/cuda_support.hpp"

using namespace weft;
using namespace weft::test;
using namespace weft::runtime::cuda;

namespace {

struct Member {
  const char* name;
  std::size_t offset, size;
};
#define MEMBER(T, member) \
  { #member, offsetof(T, member), sizeof(T::member) }
// Of a struct that is a member on the host, and whose members are the arguments' own on the device.
#define INNER(T, inner, Inner, member) \
  { #member, offsetof(T, inner) + offsetof(Inner, member), sizeof(Inner::member) }
#define COUNTS(T)                                                                               \
  INNER(T, counts, AttentionCounts, batch), INNER(T, counts, AttentionCounts, heads),           \
      INNER(T, counts, AttentionCounts, key_heads), INNER(T, counts, AttentionCounts, queries), \
      INNER(T, counts, AttentionCounts, keys), INNER(T, counts, AttentionCounts, scale)
constexpr int more_counts = member_count<AttentionCounts> - 1;

std::string asserted(const std::string& condition) {
  return "static_assert(" + condition + ", \"" + condition + "\");\n";
}
std::string same(const std::string& of_device, std::int64_t of_host) {
  return asserted(of_device + " == " + std::to_string(of_host));
}

// All members of the host's T, and `more` that are members of members: the device's struct of the name has no others.
template <class T, int more = 0, std::size_t count>
std::string same_struct(const std::string& name, const Member (&members)[count]) {
  static_assert(count == member_count<T> + more, "a member is not listed");
  std::string text = same("sizeof(" + name + ")", sizeof(T)) + same("alignof(" + name + ")", alignof(T)), names;
  for (const Member& member : members) {
    // NVRTC has no offsetof, but what that is made of.
    text += same("__INTADDR__(&static_cast<" + name + "*>(nullptr)->" + member.name + ")",
                 static_cast<std::int64_t>(member.offset));
    text += same("sizeof(" + name + "::" + member.name + ")", static_cast<std::int64_t>(member.size));
    names += (names.empty() ? "its_" : ", its_") + std::string(member.name);
  }
  // A structured binding has as many names as there are members.
  return text + "__device__ void members_of(" + name + "& all) {\n  auto& [" + names + "] = all;\n}\n";
}

std::string all_structs() {
  using U = Cut;
  using P = ProductArguments;
  using G = GroupsArguments;
  using W = GroupsByWarpsArguments;
  using M = ProductByWarpsArguments;
  using R = FewRowsPart;
  using F = FewRowsArguments;
  using C = ClusterProductArguments;
  using D = DepthwiseArguments;
  using S = HeadStrides;
  using B = BlockLists;
  using A = AttentionArguments;
  using H = HopperAttentionArguments;
  using Q = SplitAttentionArguments;
  return same("sizeof(TensorMap)", sizeof(TensorMap)) + same("alignof(TensorMap)", alignof(TensorMap)) +
         same_struct<U>("Cut", {MEMBER(U, tiles), MEMBER(U, whole), MEMBER(U, of_group), MEMBER(U, groups),
                                MEMBER(U, steps_of_unit), MEMBER(U, units), MEMBER(U, of_unit), MEMBER(U, width),
                                MEMBER(U, count), MEMBER(U, band)}) +
         same_struct<P>("ProductArguments", {MEMBER(P, a), MEMBER(P, b), MEMBER(P, c), MEMBER(P, bias), MEMBER(P, m),
                                             MEMBER(P, n), MEMBER(P, k), MEMBER(P, sums), MEMBER(P, counters),
                                             MEMBER(P, result), MEMBER(P, c_row), MEMBER(P, cut)}) +
         same_struct<G>("GroupsArguments",
                        {MEMBER(G, a), MEMBER(G, b), MEMBER(G, c), MEMBER(G, ends), MEMBER(G, result), MEMBER(G, m),
                         MEMBER(G, n), MEMBER(G, k), MEMBER(G, rows), MEMBER(G, groups)}) +
         same_struct<W>(
             "GroupsByWarpsArguments",
             {MEMBER(W, a), MEMBER(W, b), MEMBER(W, ends), MEMBER(W, result), MEMBER(W, m), MEMBER(W, n), MEMBER(W, k),
              MEMBER(W, a_row), MEMBER(W, b_row), MEMBER(W, b_group), MEMBER(W, rows), MEMBER(W, groups)}) +
         same_struct<M>("ProductByWarpsArguments",
                        {MEMBER(M, a), MEMBER(M, b), MEMBER(M, bias), MEMBER(M, result), MEMBER(M, sums),
                         MEMBER(M, counters), MEMBER(M, m), MEMBER(M, n), MEMBER(M, k), MEMBER(M, a_row),
                         MEMBER(M, b_row), MEMBER(M, c_row), MEMBER(M, a_batch), MEMBER(M, b_batch), MEMBER(M, c_batch),
                         MEMBER(M, batch), MEMBER(M, cut), MEMBER(M, is_whole)}) +
         same_struct<R>("FewRowsPart", {MEMBER(R, weights), MEMBER(R, bias), MEMBER(R, result), MEMBER(R, weights_row),
                                        MEMBER(R, result_row), MEMBER(R, n), MEMBER(R, tile_end)}) +
         same_struct<F>("FewRowsArguments",
                        {MEMBER(F, x), MEMBER(F, parts), MEMBER(F, sums), MEMBER(F, arrivals), MEMBER(F, x_row),
                         MEMBER(F, m), MEMBER(F, k), MEMBER(F, part_count), MEMBER(F, tiles), MEMBER(F, slices),
                         MEMBER(F, k_of_warp), MEMBER(F, begins_early)}) +
         same_struct<C>("ClusterProductArguments",
                        {MEMBER(C, weights), MEMBER(C, x), MEMBER(C, bias), MEMBER(C, result), MEMBER(C, x_row),
                         MEMBER(C, result_row), MEMBER(C, m), MEMBER(C, n), MEMBER(C, k), MEMBER(C, begins_early)}) +
         same_struct<D>("DepthwiseArguments",
                        {MEMBER(D, images), MEMBER(D, weights), MEMBER(D, result), MEMBER(D, batch),
                         MEMBER(D, channels), MEMBER(D, height), MEMBER(D, width), MEMBER(D, rows), MEMBER(D, columns),
                         MEMBER(D, low_down), MEMBER(D, low_across), MEMBER(D, packs), MEMBER(D, groups),
                         MEMBER(D, tiles_down), MEMBER(D, tiles_across)}) +
         same_struct<S>("HeadStrides", {MEMBER(S, batch), MEMBER(S, head), MEMBER(S, row)}) +
         same_struct<B>("BlockLists", {MEMBER(B, counts), MEMBER(B, tiles), MEMBER(B, before), MEMBER(B, batch),
                                       MEMBER(B, head), MEMBER(B, rows), MEMBER(B, width)}) +
         same_struct<A, more_counts>("AttentionArguments", {MEMBER(A, query),
                                                            MEMBER(A, key),
                                                            MEMBER(A, value),
                                                            MEMBER(A, output),
                                                            MEMBER(A, given),
                                                            MEMBER(A, to_output),
                                                            MEMBER(A, stats),
                                                            MEMBER(A, rows),
                                                            MEMBER(A, sums),
                                                            MEMBER(A, progress),
                                                            MEMBER(A, of_query),
                                                            MEMBER(A, of_key),
                                                            MEMBER(A, of_value),
                                                            MEMBER(A, q),
                                                            MEMBER(A, k),
                                                            MEMBER(A, v),
                                                            MEMBER(A, o),
                                                            MEMBER(A, g),
                                                            MEMBER(A, dq),
                                                            MEMBER(A, dk),
                                                            MEMBER(A, dv),
                                                            COUNTS(A),
                                                            MEMBER(A, heads_together),
                                                            MEMBER(A, blocks)}) +
         same_struct<H>("HopperAttentionArguments",
                        {MEMBER(H, query), MEMBER(H, key), MEMBER(H, value), MEMBER(H, given), MEMBER(H, all)}) +
         same_struct<Q, more_counts>(
             "SplitAttentionArguments",
             {MEMBER(Q, query),     MEMBER(Q, key),     MEMBER(Q, value),       MEMBER(Q, mask),
              MEMBER(Q, output),    MEMBER(Q, stats),   MEMBER(Q, sums),        MEMBER(Q, numbers),
              MEMBER(Q, q),         MEMBER(Q, k),       MEMBER(Q, v),           MEMBER(Q, o),
              MEMBER(Q, of_stats),  MEMBER(Q, of_mask), MEMBER(Q, of_mask_key), COUNTS(Q),
              MEMBER(Q, after),     MEMBER(Q, parts),   MEMBER(Q, cluster),     MEMBER(Q, table),
              MEMBER(Q, positions), MEMBER(Q, pages),   MEMBER(Q, page_size),   MEMBER(Q, pages_of_text)}) +
         same("sizeof(*AttentionArguments::rows)", sizeof(RowNumbers)) +
         same("sizeof(*SplitAttentionArguments::numbers)", sizeof(RowNumbers));
}

// Of cuda_product.inc the word, without which it is not pasted.
constexpr const char* head = "// tensor_core_product<\n";

std::string all_numbers() {
  const codegen::CudaFunction by_warps = codegen::cuda_groups_by_warps(DType::bf16, codegen::GroupsKernel::rows, 4);
  return same("product::rows", ProductTile::rows) + same("product::columns", ProductTile::columns) +
         same("product::depth", ProductTile::depth) + same("product::row_elements", ProductTile::box) +
         same("product::row_bytes", ProductTile::box * 2) +
         same("3 * product::group_threads", codegen::cuda_product({}).threads) +
         same("3 * product::group_threads", codegen::cuda_groups(DType::bf16, codegen::GroupsKernel::sums).threads) +
         same("sizeof(product::Shared) + 1023", product_shared) +
         same("sizeof(product::GroupsShared) + 1023", grouped_shared) + same("product::most_groups", most_groups) +
         same("by_warps::lines", WarpsTile::lines) + same("by_warps::stage_bytes", WarpsTile::stage) +
         same("parts::counters_of_join", counters_of_join) + same("by_warps::depth", WarpsTile::depth) +
         same("by_warps::sums_of_tile", WarpsTile::lines * WarpsTile::lines) +
         same("by_warps::threads", by_warps.threads) + same("4 * by_warps::stage_bytes", by_warps.shared) +
         same("few_rows::tile_rows", FewRowsTile::rows) + same("few_rows::sums_of_tile", FewRowsTile::sums) +
         same("cluster_product::rows", ClusterProductTile::rows) +
         same("cluster_product::box", ClusterProductTile::box) +
         same("depthwise::most_channels", depthwise_most_channels) +
         same("attention::row_padding", attention_row_padding);
}

void check_compiles(const std::string& text, const std::string& architecture) {
  const std::string texts[] = {text};
  CHECK_NOTHROW(compile_units(codegen::cuda_units(texts), architecture, Effort::check));
}

// The name that begins so in a kernel's text, with its arguments.
std::string template_in(const std::string& text, const std::string& name) {
  const std::size_t begin = text.find(name + "<");
  REQUIRE(begin != std::string::npos);
  std::size_t end = begin;
  int open = 0;
  do {
    end = text.find_first_of("<>", end);
    open += text[end++] == '<' ? 1 : -1;
  } while (open > 0);
  return text.substr(begin, end - begin);
}

}  // namespace

TEST_CASE("the host's arguments of hand-written kernels lie as the device's do" * needs(nvrtc)) {
  check_compiles(head + all_structs(), "sm_90a");
  // One that differs is found: in its size, its place and its number of members.
  const std::string texts[] = {head + same("sizeof(FewRowsArguments)", sizeof(FewRowsArguments) + 8)};
  CHECK_THROWS_AS(compile_units(codegen::cuda_units(texts), "sm_90a", Effort::check), CompileError);
  const std::string less[] = {
      "// HeadStrides of AttentionArguments\n__device__ void members_of(HeadStrides& all) {\n"
      "  auto& [batch, head] = all;\n}\n"};
  CHECK_THROWS_AS(compile_units(codegen::cuda_units(less), "sm_90a", Effort::check), CompileError);
}

TEST_CASE("the host's sizes of tiles are those of hand-written kernels" * needs(nvrtc)) {
  check_compiles(
      std::string(head) +
          "// GroupsArguments GroupsByWarpsArguments ProductByWarpsArguments FewRowsArguments ClusterProductArguments "
          "DepthwiseArguments AttentionArguments\n" +
          all_numbers(),
      "sm_90a");
}

TEST_CASE("kernels of attention and of few rows have the threads, tiles and shared memory of a launch" * needs(nvrtc)) {
  std::string hopper = "// HopperAttentionArguments FewRowsArguments\n", older = "// SplitAttentionArguments\n";
  for (const bool is_backward : {false, true})
    for (const std::int64_t features : {64, 128, 192, 256})
      for (const bool on_hopper : {false, true}) {
        if (on_hopper && features > 128) continue;
        codegen::CudaAttention call{.features = features, .value_features = features, .is_backward = is_backward};
        call.on_hopper = on_hopper;
        for (const codegen::CudaAttentionKernel& kernel : codegen::cuda_attention(call)) {
          using Part = codegen::CudaAttentionKernel::Part;
          if (kernel.part == Part::rows || kernel.part == Part::queries) continue;
          const std::string shape = template_in(kernel.text, !on_hopper    ? "AttentionShape"
                                                             : is_backward ? "HopperGradientShape"
                                                                           : "HopperAttentionShape");
          std::string text = same(shape + "::threads", kernel.threads) + same(shape + "::rows", kernel.rows) +
                             same(shape + "::columns", kernel.columns);
          text += same(shape + (is_backward ? "::backward_shared" : "::forward_shared"), kernel.shared);
          if (on_hopper && is_backward)
            text += same(shape + "::piece", attention_piece * attention_piece) +
                    same(shape + "::pieces", features / attention_piece);
          (on_hopper ? hopper : older) += text;
        }
      }
  for (const std::int64_t features : {8, 64, 128, 256}) {
    const auto kernels = codegen::cuda_split_attention({.features = features, .value_features = features});
    const std::string shape = template_in(kernels[0].text, "SplitAttentionShape");
    older += same(shape + "::threads", kernels[0].threads) + same(shape + "::rows", SplitAttentionTile::rows) +
             same(shape + "::columns", SplitAttentionTile::keys_of_warp) +
             asserted(shape + "::mask_bytes + " + shape + "::seen_bytes + " + shape + "::query_bytes + " + shape +
                      "::warps * " + shape + "::stages * " + shape +
                      "::stage_bytes <= " + std::to_string(kernels[0].shared));
  }
  for (const std::int64_t depth : {128, 256})
    for (const bool has_copy_engine : {false, true}) {
      const codegen::CudaFunction kernel =
          codegen::cuda_few_rows({.depth = depth, .stages = 2, .has_copy_engine = has_copy_engine});
      const std::string ring =
          template_in(kernel.text, has_copy_engine ? "few_rows::RingOfBlock" : "few_rows::RingOfWarps");
      // Beside the ring the sums of two tiles for each warp, twice.
      hopper += same(ring + "::threads", kernel.threads) +
                same(ring + "::bytes + 2 * 2 * " + std::to_string(few_rows_warps) + " * few_rows::sums_of_tile * 4",
                     kernel.shared);
      CHECK(kernel.threads == (few_rows_warps + (has_copy_engine ? 1 : 0)) * 32);
    }
  check_compiles(hopper, "sm_90a");
  check_compiles(older, "sm_80");
}

TEST_CASE("a stored attention of few queries has the features that kernels are written for, and no others") {
  for (std::int64_t features = 0; features <= 272; ++features) {
    StoredSplitAttention step({.features = features, .value_features = 64});
    step.what.dims.resize(5 + 4 * 5), step.what.offsets.resize(5);
    CAPTURE(features);
    if (codegen::fits_cuda_attention(features, 64))
      CHECK_NOTHROW(step.check());
    else
      CHECK_THROWS_AS(step.check(), runtime::Malformed);
  }
}
