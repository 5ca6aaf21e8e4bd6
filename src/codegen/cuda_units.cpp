// Functions put together as programs.
#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

#include "codegen/cuda.hpp"

namespace weft::codegen {

extern const char embedded_cuda[];
extern const char embedded_cuda_attention[];
extern const char embedded_cuda_attention_backward[];
extern const char embedded_cuda_attention_dropout[];
extern const char embedded_cuda_attention_hopper[];
extern const char embedded_cuda_attention_hopper_backward[];
extern const char embedded_cuda_attention_ranges[];
extern const char embedded_cuda_attention_split[];
extern const char embedded_cuda_barriers[];
extern const char embedded_cuda_cluster_product[];
extern const char embedded_cuda_cut[];
extern const char embedded_cuda_depthwise[];
extern const char embedded_cuda_few_rows[];
extern const char embedded_cuda_group_walk[];
extern const char embedded_cuda_groups[];
extern const char embedded_cuda_fragments[];
extern const char embedded_cuda_math[];
extern const char embedded_cuda_order[];
extern const char embedded_cuda_pack[];
extern const char embedded_cuda_parts[];
extern const char embedded_cuda_product[];
extern const char embedded_cuda_product_by_warps[];
extern const char embedded_cuda_reduce[];
extern const char embedded_cuda_rows[];
extern const char embedded_cuda_sort[];
extern const char embedded_cuda_steps[];
extern const char embedded_cuda_select[];
extern const char embedded_cuda_whole_by_warps[];

namespace {

// A part of the prelude. Those of one architecture alone, or of the newer ones, are in no other program.
struct Part {
  const char* text;
  std::array<const char*, 8> words = {};  // of functions that call it; none: of all
  bool is_wanted(const std::string& functions) const {
    const auto calls = [&](const char* word) { return word && functions.find(word) != std::string::npos; };
    return !words[0] || std::ranges::any_of(words, calls);
  }
};
// In the order in which they are pasted: a part needs only what precedes it.
constexpr const char *products = "tensor_core_product<", *groups = "GroupsArguments",
                     *groups_by_warps = "GroupsByWarpsArguments", *whole_by_warps = "ProductByWarpsArguments",
                     *few_rows = "FewRowsArguments", *in_clusters = "ClusterProductArguments",
                     *attention = "AttentionArguments", *lists = "attention_lists(",
                     *on_hopper = "HopperAttentionArguments", *rows = "update_rows<", *sort = "argsort(",
                     *select = "select_first(";
constexpr Part parts[] = {
    {embedded_cuda},
    {embedded_cuda_math},
    {embedded_cuda_pack},
    {embedded_cuda_reduce},
    {embedded_cuda_steps},
    {embedded_cuda_order, {rows, sort, select}},
    {embedded_cuda_sort, {rows, sort}},
    {embedded_cuda_rows, {rows}},
    {embedded_cuda_barriers, {products, groups, on_hopper, few_rows, in_clusters}},
    {embedded_cuda_fragments,
     {attention, lists, few_rows, in_clusters, groups_by_warps, whole_by_warps, products, groups}},
    {embedded_cuda_cut, {products, groups, on_hopper, in_clusters, whole_by_warps}},
    {embedded_cuda_parts, {products, groups, on_hopper, in_clusters, whole_by_warps}},
    {embedded_cuda_product, {products, groups, on_hopper, in_clusters}},
    {embedded_cuda_group_walk, {groups, groups_by_warps, whole_by_warps}},
    {embedded_cuda_groups, {groups}},
    {embedded_cuda_product_by_warps, {groups_by_warps, whole_by_warps}},
    {embedded_cuda_whole_by_warps, {whole_by_warps}},
    {embedded_cuda_few_rows, {few_rows}},
    {embedded_cuda_cluster_product, {in_clusters}},
    {embedded_cuda_depthwise, {"DepthwiseArguments"}},
    {embedded_cuda_select, {select}},
    {embedded_cuda_attention_dropout, {attention, lists}},
    {embedded_cuda_attention_ranges, {attention, lists}},
    {embedded_cuda_attention, {attention, lists}},
    {embedded_cuda_attention_backward, {attention, lists}},
    {embedded_cuda_attention_split, {"SplitAttentionArguments"}},
    {embedded_cuda_attention_hopper, {on_hopper}},
    {embedded_cuda_attention_hopper_backward, {on_hopper}}};

// About how long a function takes to compile, in letters of a kernel's text; what it calls of the prelude's counts.
std::size_t work_of(const std::string& function) {
  constexpr struct {
    const char* word;
    std::size_t letters;
  } called[] = {
      {attention, 50'000},           {products, 20'000}, {groups, 20'000},      {groups_by_warps, 20'000},
      {whole_by_warps, 20'000},      {few_rows, 20'000}, {in_clusters, 20'000}, {"DepthwiseArguments", 10'000},
      {"work_on_matrices<", 10'000}, {rows, 9'000},      {sort, 9'000},         {select, 6'000}};
  std::size_t work = function.size();
  for (const auto& [word, letters] : called)
    if (function.find(word) != std::string::npos) work += letters;
  return work;
}

}  // namespace

std::size_t cuda_unit_count(std::size_t functions) {
  constexpr std::size_t processors = 16, most_a_unit = 6, most = processors * most_a_unit;
  return std::min(functions, processors * ((functions + most - 1) / most));
}

// The longest first, to and fro over the programs.
std::vector<std::size_t> order_for_units(std::span<const std::string> functions, std::size_t count) {
  std::vector<std::size_t> order(functions.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return work_of(functions[i]); });
  for (std::size_t begin = count; begin < order.size(); begin += 2 * count)
    std::reverse(order.begin() + static_cast<std::ptrdiff_t>(begin),
                 order.begin() + static_cast<std::ptrdiff_t>(std::min(begin + count, order.size())));
  return order;
}

std::vector<std::string> cuda_units(std::span<const std::string> functions, std::size_t count) {
  std::vector<std::string> units;
  for (std::size_t unit = 0; unit < count; ++unit) {
    std::string own;
    for (std::size_t i = unit; i < functions.size(); i += count) own += "\n" + functions[i];
    std::string text;
    for (const Part& part : parts)
      if (part.is_wanted(own)) text.append(part.text).append("\n");
    units.push_back(text + "namespace weft {\n" + own + "\n}  // namespace weft\n");
  }
  return units;
}

}  // namespace weft::codegen
