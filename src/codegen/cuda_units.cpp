// Functions put together as programs.
#include <algorithm>
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
extern const char embedded_cuda_attention_split[];
extern const char embedded_cuda_barriers[];
extern const char embedded_cuda_depthwise[];
extern const char embedded_cuda_few_rows[];
extern const char embedded_cuda_groups[];
extern const char embedded_cuda_fragments[];
extern const char embedded_cuda_pack[];
extern const char embedded_cuda_product[];
extern const char embedded_cuda_reduce[];
extern const char embedded_cuda_rows[];
extern const char embedded_cuda_sort[];
extern const char embedded_cuda_steps[];
extern const char embedded_cuda_select[];

namespace {
// About how long a function takes to compile, in letters of a kernel's text; what it calls of the prelude's counts.
std::size_t work_of(const std::string& function) {
  constexpr struct {
    const char* word;
    std::size_t letters;
  } called[] = {{"AttentionArguments", 50'000}, {"tensor_core_product<", 20'000},
                {"GroupsArguments", 20'000},    {"FewRowsArguments", 20'000},
                {"DepthwiseArguments", 10'000}, {"work_on_matrices<", 10'000},
                {"update_rows<", 9'000},        {"argsort(", 9'000},
                {"select_first(", 6'000}};
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
    std::string text;
    for (const char* part : {embedded_cuda, embedded_cuda_pack, embedded_cuda_reduce, embedded_cuda_steps})
      text.append(part).append("\n");
    std::string own;
    for (std::size_t i = unit; i < functions.size(); i += count) own += "\n" + functions[i];
    const auto add_if = [&](bool wanted, std::initializer_list<const char*> parts) {
      for (const char* part : parts)
        if (wanted) text.append(part).append("\n");
    };
    const auto uses = [&](const char* word) { return own.find(word) != std::string::npos; };
    const bool updates_rows = uses("update_rows<");
    add_if(updates_rows || uses("argsort("), {embedded_cuda_sort});
    add_if(updates_rows, {embedded_cuda_rows});
    // Of one architecture alone, or of the newer ones: other units must not hold it.
    const bool splits = uses("SplitAttentionArguments");
    const bool attends = uses("AttentionArguments") || uses("attention_lists("),
               attends_on_hopper = uses("HopperAttentionArguments");
    const bool has_groups = uses("GroupsArguments"), has_few_rows = uses("FewRowsArguments");
    const bool has_products = uses("tensor_core_product<") || has_groups || attends_on_hopper;
    add_if(has_products || has_few_rows, {embedded_cuda_barriers});
    add_if(has_products, {embedded_cuda_product});
    add_if(has_groups, {embedded_cuda_groups});
    add_if(attends || has_few_rows, {embedded_cuda_fragments});
    add_if(has_few_rows, {embedded_cuda_few_rows});
    add_if(uses("DepthwiseArguments"), {embedded_cuda_depthwise});
    add_if(uses("select_first("), {embedded_cuda_select});
    add_if(attends, {embedded_cuda_attention_dropout, embedded_cuda_attention, embedded_cuda_attention_backward});
    add_if(splits, {embedded_cuda_attention_split});
    add_if(attends_on_hopper, {embedded_cuda_attention_hopper, embedded_cuda_attention_hopper_backward});
    units.push_back(text + "namespace weft {\n" + own + "\n}  // namespace weft\n");
  }
  return units;
}

}  // namespace weft::codegen
