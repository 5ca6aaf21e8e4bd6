// Steps that are no generated kernels, and functions put together as programs.
#include <algorithm>
#include <functional>
#include <numeric>

#include "codegen/cpp_expression.hpp"
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

std::string cuda_scatter_amax_name(DType dtype) { return std::string("weft_scatter_amax_") + info(dtype).name; }
std::string cuda_scatter_amax(DType dtype) {
  const std::string type = memory_type(dtype);
  return "extern \"C\" __global__ void " + cuda_scatter_amax_name(dtype) +
         "(const __grid_constant__ Arguments<3, 4> arguments) {\n"
         "  scatter_amax(static_cast<const long*>(arguments.buffers[0]), static_cast<const " +
         type + "*>(arguments.buffers[1]),\n               static_cast<" + type +
         "*>(arguments.buffers[2]), arguments.sizes[0], arguments.sizes[1],\n"
         "               arguments.sizes[2], arguments.sizes[3]);\n}\n";
}

std::string cuda_argsort_name(DType dtype) { return std::string("weft_argsort_") + info(dtype).name; }
std::string cuda_argsort(DType dtype) {
  return "extern \"C\" __global__ void __launch_bounds__(256, 4) " + cuda_argsort_name(dtype) +
         "(const __grid_constant__ Arguments<4, 6> arguments) {\n"
         "  argsort(static_cast<const " +
         memory_type(dtype) +
         "*>(arguments.buffers[0]), static_cast<long*>(arguments.buffers[1]),\n"
         "          static_cast<long*>(arguments.buffers[2]), static_cast<unsigned*>(arguments.buffers[3]),\n"
         "          arguments.sizes);\n}\n";
}

std::string cuda_select_name(DType dtype) { return std::string("weft_select_") + info(dtype).name; }
std::string cuda_select(DType dtype) {
  return "extern \"C\" __global__ void __launch_bounds__(512) " + cuda_select_name(dtype) +
         "(const __grid_constant__ Arguments<3, 7> arguments) {\n"
         "  select_first(static_cast<const " +
         memory_type(dtype) +
         "*>(arguments.buffers[0]), static_cast<const long*>(arguments.buffers[1]),\n"
         "               static_cast<long*>(arguments.buffers[2]), arguments.sizes[0], arguments.sizes[1],\n"
         "               arguments.sizes[2], arguments.sizes[3], arguments.sizes[4] != 0, arguments.sizes[5],\n"
         "               arguments.sizes[6]);\n}\n";
}

std::string cuda_fourier_name(DType dtype) { return std::string("weft_fourier_pairs_") + info(dtype).name; }
std::string cuda_fourier(DType dtype) {
  const std::string pointer = std::string("static_cast<") + memory_type(dtype) + "*>(arguments.buffers[";
  return "extern \"C\" __global__ void " + cuda_fourier_name(dtype) +
         "(const __grid_constant__ Arguments<3, 4> arguments) {\n  fourier_pairs(" + pointer + "0]), " + pointer +
         "1]), " + pointer +
         "2]), arguments.sizes[0], arguments.sizes[1] != 0, arguments.sizes[2], "
         "arguments.sizes[3] != 0);\n}\n";
}

std::string cuda_matrices_name(DType dtype) { return std::string("weft_matrices_") + info(dtype).name; }
std::string cuda_matrices(DType dtype) {
  const std::string type = memory_type(dtype);
  return "extern \"C\" __global__ void " + cuda_matrices_name(dtype) +
         "(const __grid_constant__ Arguments<4, 13> arguments) {\n  work_on_matrices<" + type +
         ">(arguments.buffers, arguments.sizes);\n}\n";
}

std::string cuda_update_slice_name(DType dtype, bool checked) {
  return std::string("weft_update_slice_") + info(dtype).name + (checked ? "_checked" : "");
}
std::string cuda_update_slice(DType dtype, bool checked) {
  const std::string type = memory_type(dtype);
  return "extern \"C\" __global__ void " + cuda_update_slice_name(dtype, checked) +
         "(const __grid_constant__ Arguments<" + (checked ? "4" : "3") +
         ", 7> arguments) {\n"
         "  after_earlier_kernels();\n"
         "  const long *const sizes = arguments.sizes, count = sizes[0], part = sizes[1], whole = sizes[2];\n" +
         (checked ? "  if (*static_cast<const volatile int*>(arguments.buffers[3]) != 0) return;\n" : "") + "  const " +
         type + "* const update = static_cast<const " + type +
         "*>(arguments.buffers[0]) + sizes[5];\n"
         "  " +
         type + "* const result = static_cast<" + type +
         "*>(arguments.buffers[2]);\n"
         "  long start = static_cast<const long*>(arguments.buffers[1])[sizes[6]];\n"
         "  start = start < 0 ? 0 : start > sizes[4] ? sizes[4] : start;\n"
         "  for (long i = blockIdx.x * long(blockDim.x) + threadIdx.x; i < count; i += gridDim.x * long(blockDim.x))\n"
         "    result[i / part * whole + start * sizes[3] + i % part] = update[i];\n}\n";
}
std::string cuda_update_rows_name(DType dtype, bool adds, bool checked) {
  return std::string(adds ? "weft_add_rows_" : "weft_put_rows_") + info(dtype).name + (checked ? "_checked" : "");
}
std::string cuda_update_rows(DType dtype, bool adds, bool checked) {
  const std::string type = memory_type(dtype);
  return "extern \"C\" __global__ void __launch_bounds__(256, 4) " + cuda_update_rows_name(dtype, adds, checked) +
         "(const __grid_constant__ Arguments<" + (checked ? "5" : "4") + ", 11> arguments) {\n" +
         (checked ? "  if (*static_cast<const volatile int*>(arguments.buffers[4]) != 0) return;\n" : "") +
         "  update_rows<" + type + ", " + (adds ? "true" : "false") + ">(static_cast<const " + type +
         "*>(arguments.buffers[0]) + arguments.sizes[9],\n"
         "      static_cast<const long*>(arguments.buffers[1]) + arguments.sizes[10], static_cast<" +
         type +
         "*>(arguments.buffers[2]),\n"
         "      arguments.buffers[3], arguments.sizes);\n}\n";
}
std::string cuda_product_name(DType dtype, bool by_rows, bool has_bias) {
  return std::string("weft_tensor_core_product_") + info(dtype).name + (by_rows ? "_by_rows" : "") +
         (has_bias ? "_bias" : "");
}
std::string cuda_product(DType dtype, bool by_rows, bool has_bias) {
  return "extern \"C\" __global__ void __launch_bounds__(384, 1) " + cuda_product_name(dtype, by_rows, has_bias) +
         "(const __grid_constant__ ProductArguments arguments) {\n  tensor_core_product<" + memory_type(dtype) + ", " +
         (by_rows ? "true" : "false") + ", " + (has_bias ? "true" : "false") + ">(arguments);\n}\n";
}
std::string cuda_groups_name(DType dtype, GroupsKernel kernel) {
  constexpr const char* kinds[] = {"rows", "rows_by_rows", "sums"};
  return std::string("weft_groups_") + kinds[static_cast<int>(kernel)] + "_" + info(dtype).name;
}
std::string cuda_groups(DType dtype, GroupsKernel kernel) {
  constexpr const char *kinds[] = {"RowsOfGroups", "RowsOfGroups", "SumsOfGroups"}, *more[] = {", false", ", true", ""};
  const auto i = static_cast<int>(kernel);
  const std::string type = memory_type(dtype);
  return "extern \"C\" __global__ void __launch_bounds__(384, 1) " + cuda_groups_name(dtype, kernel) +
         "(const __grid_constant__ GroupsArguments arguments) {\n  tensor_core_groups<" + type +
         ", product::" + kinds[i] + "<" + type + more[i] + ">>(arguments);\n}\n";
}
namespace {
constexpr int few_rows_warps = 16;
}
std::int64_t few_rows_shared(std::int64_t depth, std::int64_t stages, bool has_copy_engine) {
  // A stage of the copy engine's has gaps between rows, and two barriers.
  constexpr std::int64_t tile_rows = 8, gaps = tile_rows / 2 * 64, barriers = 16,
                         sums = 2 * 2 * few_rows_warps * 128 * 4;
  return stages * (few_rows_warps * tile_rows * depth * 2 + (has_copy_engine ? gaps + barriers : 0)) + sums;
}
CudaFewRowsKernel cuda_few_rows(const CudaFewRows& call) {
  const std::string type = memory_type(call.dtype), depth = std::to_string(call.depth),
                    stages = std::to_string(call.stages), warps = std::to_string(few_rows_warps),
                    gated = call.is_gated ? "true" : "false";
  CudaFewRowsKernel made{.threads = (few_rows_warps + (call.has_copy_engine ? 1 : 0)) * 32,
                         .shared = few_rows_shared(call.depth, call.stages, call.has_copy_engine)};
  made.name = std::string("weft_few_rows_") + info(call.dtype).name + (call.is_wide ? "_wide_" : "_") +
              (call.is_gated ? "gated_" : "") + depth + "_" + stages + (call.has_copy_engine ? "" : "_by_warps");
  made.text = "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(made.threads) + ", 1) " + made.name +
              "(const __grid_constant__ FewRowsArguments arguments) {\n  few_rows_product<" + type + ", " +
              (call.is_wide ? "float" : type) + ", " + warps + ", " + depth + ", " + gated +
              ", few_rows::" + (call.has_copy_engine ? "RingOfBlock<" : "RingOfWarps<") + type + ", " + warps + ", " +
              depth + ", " + stages + ", " + gated + ">>(arguments);\n}\n";
  return made;
}
CudaDepthwiseKernel cuda_depthwise(const CudaDepthwise& call) {
  CudaDepthwiseKernel made{.threads = 256};
  made.name = std::string("weft_depthwise_") + info(call.dtype).name;
  std::string sizes;
  for (const auto& pair : {call.kernel, call.steps, call.tile})
    for (const std::int64_t size : pair) made.name += "_" + std::to_string(size), sizes += ", " + std::to_string(size);
  made.text = "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(made.threads) + ", 2) " + made.name +
              "(const __grid_constant__ DepthwiseArguments arguments) {\n  depthwise_convolution<" +
              memory_type(call.dtype) + sizes + ">(arguments);\n}\n";
  return made;
}
std::string cuda_check() {
  return std::string("extern \"C\" __global__ void ") + cuda_check_name +
         "(const __grid_constant__ Arguments<2, 2> arguments) {\n"
         "  check_holds(static_cast<const bool*>(arguments.buffers[0]), static_cast<int*>(arguments.buffers[1]),\n"
         "              int(arguments.sizes[0]), reinterpret_cast<volatile int*>(arguments.sizes[1]));\n}\n";
}

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
