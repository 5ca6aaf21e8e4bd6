// The arguments of hand-written kernels, and the sizes of their tiles, as the host needs them. The device's own
// declarations are in weft/detail/cuda_*.inc, under the same names: tests/codegen/cuda_arguments_test.cpp holds that
// both are the same.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "runtime/cuda/tensor_map.hpp"

namespace weft::runtime::cuda {

// ---- cuda_cut.inc: how blocks share the k of a product's tiles
// --------------------------------------------------------

struct Cut {
  int tiles, whole;
  int of_group, groups;  // no groups: k is not cut
  int steps_of_unit, units, of_unit;
  int width, count;
  int band;
};

// ---- cuda_product.inc: a matrix product by the tensor cores
// -----------------------------------------------------------

// Elements of a tile of the result, of k at a time, and across what the copy engine fetches at once.
struct ProductTile {
  static constexpr std::uint32_t rows = 128, columns = 256, depth = 64, box = 64;
};
struct ProductArguments {
  TensorMap a, b, c;
  const void* bias;
  std::int64_t m, n, k;
  float* sums;
  std::uint32_t* counters;
  void* result;
  std::int64_t c_row;
  Cut cut;
};

// ---- cuda_groups.inc: products over groups of rows, in the same tiles
// ------------------------------------------------

struct GroupsArguments {
  TensorMap a, b, c;
  const void* ends;
  void* result;
  std::int64_t m, n, k;
  int rows, groups;
};

// ---- cuda_product_by_warps.inc, cuda_whole_by_warps.inc -------------------------------------------------------------

// Counters of the groups of 128 threads that share the k of a tile, or of its half (cuda_parts.inc).
inline constexpr std::int64_t counters_of_join = 3;

struct WarpsTile {
  // Rows and columns; of k at a time; bytes of a stage.
  static constexpr std::int64_t lines = 128, depth = 32, stage = 2 * lines * depth * 2;
};
struct GroupsByWarpsArguments {
  const void *a, *b, *ends;
  void* result;
  std::int64_t m, n, k;
  std::int64_t a_row, b_row, b_group;
  int rows, groups;
};

struct ProductByWarpsArguments {
  const void *a, *b, *bias;
  void* result;
  float* sums;
  std::uint32_t* counters;
  std::int64_t m, n, k;
  std::int64_t a_row, b_row, c_row;
  std::array<std::int64_t, 3> a_batch, b_batch, c_batch;
  std::array<int, 3> batch;
  Cut cut;
  int is_whole;
};

// ---- cuda_few_rows.inc
// -----------------------------------------------------------------------------------------------

inline constexpr std::size_t few_rows_most_products = 3;  // of a launch
struct FewRowsTile {
  static constexpr std::int64_t rows = 8, sums = 128;  // rows of weights; sums of the results
};
struct FewRowsPart {
  const void *weights, *bias;
  void* result;
  std::int64_t weights_row, result_row;
  int n, tile_end;
};
struct FewRowsArguments {
  const void* x;
  std::array<FewRowsPart, few_rows_most_products> parts;
  float* sums;
  std::uint32_t* arrivals;
  std::int64_t x_row;
  int m, k;
  int part_count, tiles;
  int slices, k_of_warp;
  int begins_early;
};

// ---- cuda_cluster_product.inc ---------------------------------------------------------------------------------------

struct ClusterProductTile {
  static constexpr std::int64_t rows = 64, box = 64;
};
struct ClusterProductArguments {
  TensorMap weights;
  const void *x, *bias;
  void* result;
  std::int64_t x_row, result_row;
  int m, n, k;
  int begins_early;
};

// ---- cuda_depthwise.inc
// ----------------------------------------------------------------------------------------------

inline constexpr std::int64_t depthwise_pack = 8, depthwise_most_channels = 128;  // of a thread, of a block
struct DepthwiseArguments {
  const void *images, *weights;
  void* result;
  int batch, channels, height, width, rows, columns, low_down, low_across;
  int packs, groups;
  int tiles_down, tiles_across;
};

// ---- cuda_attention.inc, cuda_attention_hopper.inc, cuda_attention_split.inc
// -------------------------------------------

struct HeadStrides {
  std::int64_t batch, head, row;
};
// Members of the arguments themselves on the device.
struct AttentionCounts {
  int batch, heads, key_heads, queries, keys;
  float scale;
};
struct BlockLists {
  const int *counts, *tiles, *before;
  std::int64_t batch, head;
  int rows, width;
};
// Two numbers of a row, float2 on the device.
struct RowNumbers {
  float first, second;
};
inline constexpr std::int64_t attention_row_padding = 128;  // of AttentionArguments::rows
// On Hopper: what a block adds to the sums of the queries' gradient at once has so many queries and features.
inline constexpr std::int64_t attention_piece = 64;
struct AttentionArguments {
  const void *query, *key, *value, *output, *given;
  void* to_output;
  float* stats;
  RowNumbers* rows;
  float* sums;
  int* progress;
  void *of_query, *of_key, *of_value;
  HeadStrides q, k, v, o, g, dq, dk, dv;
  AttentionCounts counts;
  int heads_together;
  BlockLists blocks;
};
struct HopperAttentionArguments {
  TensorMap query, key, value, given;
  AttentionArguments all;
};

struct SplitAttentionTile {
  static constexpr std::int64_t rows = 16, keys_of_warp = 16;
};
struct SplitAttentionArguments {
  const void *query, *key, *value, *mask;
  void* output;
  float *stats, *sums;
  RowNumbers* numbers;
  HeadStrides q, k, v, o, of_stats, of_mask;
  std::int64_t of_mask_key;
  AttentionCounts counts;
  int after, parts, cluster;
  const std::int64_t *table, *positions;
  int pages, page_size, pages_of_text;
};

}  // namespace weft::runtime::cuda
