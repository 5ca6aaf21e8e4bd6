#include "codegen/cuda_functions.hpp"

#include <utility>

#include "codegen/cpp_expression.hpp"

namespace weft::codegen {

namespace {

// `bounds`: the threads of a block, and after them the blocks of a multiprocessor; 0: not said.
struct LaunchBounds {
  int threads = 0, blocks = 0;
};

// A function of one argument, which its body calls `arguments`.
CudaFunction function(std::string name, const std::string& argument, const std::string& body,
                      LaunchBounds bounds = {}) {
  std::string text = "extern \"C\" __global__ void ";
  if (bounds.threads > 0)
    text += "__launch_bounds__(" + std::to_string(bounds.threads) +
            (bounds.blocks > 0 ? ", " + std::to_string(bounds.blocks) : "") + ") ";
  text += name + "(const __grid_constant__ " + argument + " arguments) {\n" + body + "}\n";
  return {std::move(name), std::move(text), bounds.threads};
}

std::string argument_of(int buffers, int sizes) {
  return "Arguments<" + std::to_string(buffers) + ", " + std::to_string(sizes) + ">";
}

// Returns where the error word, this buffer, says that a check has failed.
std::string unless_failed(int buffer) {
  return "  if (*static_cast<const volatile int*>(arguments.buffers[" + std::to_string(buffer) + "]) != 0) return;\n";
}

const char* word(bool value) { return value ? "true" : "false"; }

}  // namespace

CudaFunction cuda_scatter_amax(DType dtype) {
  const std::string type = memory_type(dtype);
  return function(std::string("weft_scatter_amax_") + info(dtype).name, argument_of(3, 4),
                  "  scatter_amax(static_cast<const long*>(arguments.buffers[0]), static_cast<const " + type +
                      "*>(arguments.buffers[1]),\n               static_cast<" + type +
                      "*>(arguments.buffers[2]), arguments.sizes[0], arguments.sizes[1],\n"
                      "               arguments.sizes[2], arguments.sizes[3]);\n");
}

CudaFunction cuda_argsort(DType dtype) {
  return function(std::string("weft_argsort_") + info(dtype).name, argument_of(4, 6),
                  std::string("  argsort(static_cast<const ") + memory_type(dtype) +
                      "*>(arguments.buffers[0]), static_cast<long*>(arguments.buffers[1]),\n"
                      "          static_cast<long*>(arguments.buffers[2]), "
                      "static_cast<unsigned*>(arguments.buffers[3]),\n"
                      "          arguments.sizes);\n",
                  {256, 4});
}

CudaFunction cuda_select(DType dtype) {
  return function(std::string("weft_select_") + info(dtype).name, argument_of(3, 7),
                  std::string("  select_first(static_cast<const ") + memory_type(dtype) +
                      "*>(arguments.buffers[0]), static_cast<const long*>(arguments.buffers[1]),\n"
                      "               static_cast<long*>(arguments.buffers[2]), arguments.sizes[0], "
                      "arguments.sizes[1],\n"
                      "               arguments.sizes[2], arguments.sizes[3], arguments.sizes[4] != 0, "
                      "arguments.sizes[5],\n"
                      "               arguments.sizes[6]);\n",
                  {512});
}

CudaFunction cuda_fourier(DType dtype) {
  const std::string pointer = std::string("static_cast<") + memory_type(dtype) + "*>(arguments.buffers[";
  return function(std::string("weft_fourier_pairs_") + info(dtype).name, argument_of(3, 4),
                  "  fourier_pairs(" + pointer + "0]), " + pointer + "1]), " + pointer +
                      "2]), arguments.sizes[0], arguments.sizes[1] != 0, arguments.sizes[2], "
                      "arguments.sizes[3] != 0);\n");
}

CudaFunction cuda_matrices(DType dtype) {
  return function(std::string("weft_matrices_") + info(dtype).name, argument_of(4, 13),
                  std::string("  work_on_matrices<") + memory_type(dtype) + ">(arguments.buffers, arguments.sizes);\n");
}

CudaFunction cuda_update_slice(DType dtype, bool checked) {
  const std::string type = memory_type(dtype);
  return function(
      std::string("weft_update_slice_") + info(dtype).name + (checked ? "_checked" : ""),
      argument_of(checked ? 4 : 3, 7),
      "  after_earlier_kernels();\n"
      "  const long *const sizes = arguments.sizes, count = sizes[0], part = sizes[1], whole = sizes[2];\n" +
          (checked ? unless_failed(3) : "") + "  const " + type + "* const update = static_cast<const " + type +
          "*>(arguments.buffers[0]) + sizes[5];\n"
          "  " +
          type + "* const result = static_cast<" + type +
          "*>(arguments.buffers[2]);\n"
          "  long start = static_cast<const long*>(arguments.buffers[1])[sizes[6]];\n"
          "  start = start < 0 ? 0 : start > sizes[4] ? sizes[4] : start;\n"
          "  for (long i = blockIdx.x * long(blockDim.x) + threadIdx.x; i < count; i += gridDim.x * "
          "long(blockDim.x))\n"
          "    result[i / part * whole + start * sizes[3] + i % part] = update[i];\n");
}

CudaFunction cuda_update_rows(DType dtype, bool adds, bool checked) {
  const std::string type = memory_type(dtype);
  return function(
      std::string(adds ? "weft_add_rows_" : "weft_put_rows_") + info(dtype).name + (checked ? "_checked" : ""),
      argument_of(checked ? 5 : 4, 11),
      (checked ? unless_failed(4) : "") + "  update_rows<" + type + ", " + word(adds) + ">(static_cast<const " + type +
          "*>(arguments.buffers[0]) + arguments.sizes[9],\n"
          "      static_cast<const long*>(arguments.buffers[1]) + arguments.sizes[10], static_cast<" +
          type +
          "*>(arguments.buffers[2]),\n"
          "      arguments.buffers[3], arguments.sizes);\n",
      {256, 4});
}

CudaFunction cuda_check() {
  return function(
      "weft_check", argument_of(2, 2),
      "  check_holds(static_cast<const bool*>(arguments.buffers[0]), static_cast<int*>(arguments.buffers[1]),\n"
      "              int(arguments.sizes[0]), reinterpret_cast<volatile int*>(arguments.sizes[1]));\n");
}

namespace {
// The name and the template's arguments of a product, after its dtype.
std::pair<std::string, std::string> flags_of(const CudaProduct& call) {
  std::string name, flags;
  for (const auto& [flag, text] : {std::pair(call.a_by_rows, "_a_by_rows"),
                                   {call.b_by_rows, "_b_by_rows"},
                                   {call.has_bias, "_bias"},
                                   {call.in_parts, "_in_parts"}}) {
    if (flag) name += text;
    flags += std::string(", ") + word(flag);
  }
  return {name, flags};
}
}  // namespace

CudaFunction cuda_product(const CudaProduct& call) {
  const auto [name, flags] = flags_of(call);
  return function(std::string("weft_tensor_core_product_") + info(call.dtype).name + name, "ProductArguments",
                  std::string("  tensor_core_product<") + memory_type(call.dtype) + flags + ">(arguments);\n",
                  {384, 1});
}

namespace {
constexpr struct {
  const char *name, *kind, *more;
} groups_kernels[] = {
    {"rows", "RowsOfGroups", ", false"}, {"rows_by_rows", "RowsOfGroups", ", true"}, {"sums", "SumsOfGroups", ""}};
}  // namespace

CudaFunction cuda_groups(DType dtype, GroupsKernel kernel) {
  const auto& [name, kind, more] = groups_kernels[static_cast<int>(kernel)];
  const std::string type = memory_type(dtype);
  return function(std::string("weft_groups_") + name + "_" + info(dtype).name, "GroupsArguments",
                  "  tensor_core_groups<" + type + ", product::" + kind + "<" + type + more + ">>(arguments);\n",
                  {384, 1});
}

namespace {
// `work`: what the template's blocks do, without its arguments.
CudaFunction by_warps(const std::string& name, const char* arguments, DType dtype, int stages,
                      const std::string& work) {
  constexpr std::int64_t stage_bytes = 2 * 128 * 32 * 2;
  const std::string count = std::to_string(stages);
  CudaFunction made = function(name + "_by_warps_" + count + "_" + info(dtype).name, arguments,
                               std::string("  by_warps::multiply_tiles<") + memory_type(dtype) + ", " + count +
                                   ">(by_warps::" + work + "(arguments));\n",
                               {128, 2});
  made.shared = stages * stage_bytes;
  return made;
}
}  // namespace

CudaFunction cuda_groups_by_warps(DType dtype, GroupsKernel kernel, int stages) {
  const auto& [name, kind, more] = groups_kernels[static_cast<int>(kernel)];
  return by_warps(std::string("weft_groups_") + name, "GroupsByWarpsArguments", dtype, stages,
                  std::string(kind) + "<" + memory_type(dtype) + more + ">");
}

CudaFunction cuda_product_by_warps(const CudaProduct& call, bool is_wide, int stages) {
  const std::string type = memory_type(call.dtype);
  const auto [name, flags] = flags_of(call);
  return by_warps("weft_product" + name + (is_wide ? "_wide" : ""), "ProductByWarpsArguments", call.dtype, stages,
                  "WholeProduct<" + type + ", " + (is_wide ? "float" : type) + flags + ">");
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

CudaFunction cuda_few_rows(const CudaFewRows& call) {
  const std::string type = memory_type(call.dtype), depth = std::to_string(call.depth),
                    stages = std::to_string(call.stages), warps = std::to_string(few_rows_warps),
                    gated = word(call.is_gated);
  CudaFunction made =
      function(std::string("weft_few_rows_") + info(call.dtype).name + (call.is_wide ? "_wide_" : "_") +
                   (call.is_gated ? "gated_" : "") + depth + "_" + stages + (call.has_copy_engine ? "" : "_by_warps"),
               "FewRowsArguments",
               "  few_rows_product<" + type + ", " + (call.is_wide ? "float" : type) + ", " + warps + ", " + depth +
                   ", " + gated + ", few_rows::" + (call.has_copy_engine ? "RingOfBlock<" : "RingOfWarps<") + type +
                   ", " + warps + ", " + depth + ", " + stages + ", " + gated + ">>(arguments);\n",
               {(few_rows_warps + (call.has_copy_engine ? 1 : 0)) * 32, 1});
  made.shared = few_rows_shared(call.depth, call.stages, call.has_copy_engine);
  return made;
}

CudaFunction cuda_cluster_product(const CudaClusterProduct& call) {
  constexpr std::int64_t rows = 64, bytes = 2, of_sum = 4, barriers = 16, alignment = 1024;
  const std::string type = memory_type(call.dtype), columns = std::to_string(call.columns),
                    depth = std::to_string(call.depth), parts = std::to_string(call.parts);
  CudaFunction made = function(std::string("weft_cluster_product_") + info(call.dtype).name +
                                   (call.has_gelu ? "_gelu_" : "_") + columns + "_" + depth + "_" + parts,
                               "ClusterProductArguments",
                               "  product_in_clusters<" + type + ", " + columns + ", " + depth + ", " + parts + ", " +
                                   word(call.has_gelu) + ">(arguments);\n",
                               {256, 2});
  const std::int64_t all = (call.columns + rows) * call.depth * bytes + rows * call.columns * of_sum + barriers;
  made.shared = (all + alignment - 1) / alignment * alignment + alignment - 1;
  return made;
}

CudaFunction cuda_depthwise(const CudaDepthwise& call) {
  std::string name = std::string("weft_depthwise_") + info(call.dtype).name, sizes;
  for (const auto& pair : {call.kernel, call.steps, call.tile})
    for (const std::int64_t size : pair) name += "_" + std::to_string(size), sizes += ", " + std::to_string(size);
  return function(std::move(name), "DepthwiseArguments",
                  std::string("  depthwise_convolution<") + memory_type(call.dtype) + sizes + ">(arguments);\n",
                  {256, 2});
}

}  // namespace weft::codegen
