#include "codegen/cuda_attention.hpp"

#include <algorithm>
#include <bit>

#include "base/fail.hpp"
#include "base/hash.hpp"
#include "codegen/cpp_expression.hpp"

namespace weft::codegen {

namespace {

using Kernel = CudaAttentionKernel;
using Part = Kernel::Part;

constexpr std::int64_t segment = 64, row_bytes = 128;  // features of a segment of shared memory, bytes of its rows
constexpr std::int64_t barrier_room = 1024, alignment_room = 1023;

std::int64_t segments(std::int64_t features) { return (features + segment - 1) / segment; }

// Tiles that the registers hold, and shared memory as the shapes of the templates have it.
struct Tile {
  int warps, columns;
};
Tile portable_tile(std::int64_t features, bool is_backward) {
  if (is_backward) return features <= 64 ? Tile{4, 64} : features <= 128 ? Tile{8, 32} : Tile{4, 16};
  return features <= 128 ? Tile{4, 64} : Tile{4, 32};
}
constexpr int hopper_rows = 128, hopper_threads = 384;
constexpr int hopper_groups = 2, hopper_stages = 2, piece_rows = 64, piece_stages = 2;
int hopper_columns(const CudaAttention& call) { return call.is_backward && call.features > segment ? 64 : 128; }

std::int64_t shared_bytes(const CudaAttention& call, std::int64_t rows, std::int64_t columns) {
  const std::int64_t e = segments(call.features), f = segments(call.value_features), most = std::max(e, f);
  if (call.on_hopper && call.is_backward) {
    const std::int64_t pieces = piece_stages * std::int64_t{hopper_groups} * piece_rows * segment * 4;
    const std::int64_t tiles =
        rows * row_bytes * (e + f) + hopper_stages * columns * (row_bytes * (e + f) + 8) + rows * columns * 2 + pieces;
    return (tiles + barrier_room - 1) / barrier_room * barrier_room + barrier_room + alignment_room;
  }
  if (call.on_hopper)
    return rows * row_bytes * (e + f) + hopper_stages * columns * row_bytes * (e + f) + barrier_room + alignment_room;
  const std::int64_t stage = columns * row_bytes * (e + f);
  if (call.is_backward) return rows * row_bytes * (e + f) + 2 * (stage + columns * 8);
  return rows * row_bytes * most + 2 * stage;
}

}  // namespace

bool fits_cuda_attention(std::int64_t features, std::int64_t value_features) {
  const std::int64_t most = std::max(features, value_features);
  return features > 0 && value_features > 0 && features % 8 == 0 && value_features % 8 == 0 && most <= 256;
}

std::vector<Kernel> cuda_attention(const CudaAttention& call) {
  const bool is_bf16 = call.dtype == DType::bf16;
  WEFT_CHECK(is_bf16 || call.dtype == DType::f16, "attention on tensor cores is of 16-bit floats");
  const std::string type = is_bf16 ? "bfloat16" : "float16";
  const std::string e = std::to_string(call.features), f = std::to_string(call.value_features);
  Hasher hasher;
  hasher.add(call.functions).add(type).add(e).add(f).add(static_cast<std::uint64_t>(call.is_backward));
  hasher.add(static_cast<std::uint64_t>(call.on_hopper));
  const std::string prefix = "weft_attention_" + hex(hasher.digest()).substr(0, 16), space = prefix + "_functions";
  // Kernels of a call may share a program.
  const std::string functions = "#ifndef " + space + "_there\n#define " + space + "_there\nnamespace " + space +
                                " {\n" + call.functions + "\n}  // namespace " + space + "\n#endif\n";

  WEFT_CHECK(!call.on_hopper || call.features == call.value_features, "attention on Hopper has features of one size");
  // More sums than a thread has registers for.
  const bool values_apart = call.is_backward && call.features + call.value_features > 256;
  std::vector<Kernel> kernels;
  const auto add = [&](Part part, const char* name, int threads, const std::string& parameters,
                       const std::string& body) -> Kernel& {
    Kernel& made = kernels.emplace_back();
    made.part = part, made.name = prefix + name, made.threads = threads;
    made.text = functions + "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(threads) + ", 1) " +
                made.name + "(" + parameters + ") {\n  " + body + ";\n}\n";
    return made;
  };
  const std::string captured = "const __grid_constant__ " + space + "::Captured captured";
  const std::string arguments = "const __grid_constant__ AttentionArguments arguments";
  const auto add_pass = [&](Part part, const char* name) {
    const auto [warps, columns] = portable_tile(std::max(call.features, call.value_features), call.is_backward);
    std::string shape, kind = call.is_backward ? "attention_backward" : "attention_forward";
    int rows = warps * 16, wide = columns, threads = warps * 32;
    if (call.on_hopper) {
      rows = hopper_rows, threads = hopper_threads;
      wide = hopper_columns(call);
      kind = "hopper_" + kind;
      // Groups that draw do not wait for each other's turn: what they compute takes longer than their products.
      const char* const turns = call.kept == 1 ? ", true>" : ", false>";
      shape = call.is_backward ? "HopperGradientShape<" + type + ", " + e + ">"
                               : "HopperAttentionShape<" + type + ", " + e + ", " + f + ", " +
                                     std::to_string(hopper_groups) + ", " + std::to_string(wide) + turns;
    } else {
      const int gives = !values_apart ? 3 : part == Part::by_values ? 2 : 1;
      shape = "AttentionShape<" + type + ", " + e + ", " + f + ", " + std::to_string(warps) + ", " +
              std::to_string(wide) + (gives == 3 ? "" : ", " + std::to_string(gives)) + ">";
    }
    if (call.is_backward && !call.on_hopper) shape += part == Part::by_queries ? ", false" : ", true";
    Kernel& made = add(
        part, name, threads,
        (call.on_hopper ? "const __grid_constant__ HopperAttentionArguments arguments" : arguments) + ", " + captured,
        (part == Part::forward ? "after_earlier_kernels();\n  " : "") + kind + "<" + shape + ">(arguments, captured)");
    made.rows = rows, made.columns = wide, made.shared = shared_bytes(call, rows, wide);
  };
  if (call.is_backward) {
    const std::string kept =
        call.kept == 1 ? "" : ", " + literal(DType::f32, std::bit_cast<std::uint64_t>(double{call.kept}));
    add_pass(Part::by_keys, "_by_keys");
    if (call.on_hopper)
      add(Part::queries, "_queries", 128, arguments,
          "attention_queries<" + type + ", " + e + ">(arguments" + kept + ")");
    else
      add_pass(Part::by_queries, "_by_queries");
    add(Part::rows, "_rows", 256, arguments, "attention_rows<" + type + ", " + f + ">(arguments" + kept + ")");
  } else {
    add_pass(Part::forward, "_forward");
  }
  if (!call.masks) {
    if (values_apart) add_pass(Part::by_values, "_by_values");
    return kernels;
  }
  const std::string tile = std::to_string(kernels[0].rows) + ", " + std::to_string(kernels[0].columns);
  const auto add_tiles = [&](Part part, const char* name, const char* by_keys) {
    add(part, name, 128, arguments + ", " + captured + ", unsigned char* states",
        "after_earlier_kernels();\n  attention_tiles<" + tile + ", " + by_keys + ">(arguments, captured, states)");
  };
  add(Part::lists, "_lists", 32, "const unsigned char* states, int* counts, int* tiles, int* before, int rows, int width",
      "after_earlier_kernels();\n  attention_lists(states, counts, tiles, before, rows, width)");
  if (call.is_backward) add_tiles(Part::tiles_by_keys, "_tiles_by_keys", "true");
  if (!call.is_backward || !call.on_hopper) add_tiles(Part::tiles, "_tiles", "false");
  if (values_apart) add_pass(Part::by_values, "_by_values");
  return kernels;
}

std::vector<Kernel> cuda_split_attention(const CudaSplitAttention& call) {
  const std::string type = memory_type(call.dtype), mask = call.mask ? memory_type(*call.mask) : "void";
  const std::string e = std::to_string(call.features), f = std::to_string(call.value_features);
  const std::string name = std::string("weft_split_attention_") + info(call.dtype).name + "_" + e + "_" + f;
  // Two blocks fit on a multiprocessor of sm_90, whose warps have 128 KB of keys and values on their way, and one on
  // those of sm_80 and sm_89.
  constexpr int rows = 16, room = 96 << 10, mask_bytes = 2048 + 128;
  const std::int64_t of_keys = segments(call.features), all_segments = of_keys + segments(call.value_features);
  const std::int64_t tile = rows * row_bytes * all_segments,
                     query = call.features <= 128 ? 0 : rows * row_bytes * of_keys;
  const int warps = all_segments <= 2 ? 8 : std::max(call.features, call.value_features) <= 128 ? 4 : 2;
  const auto stages = std::min<std::int64_t>((room - query) / (warps * tile), 4);
  const std::int64_t sums = std::int64_t{warps} * rows * (((call.value_features + 15) / 16 * 16 + 8) * 4 + 8);
  std::vector<Kernel> kernels(2);
  Kernel &part = kernels[0], &join = kernels[1];
  const auto text = [](const Kernel& kernel, const std::string& body) {
    const std::string bounds = std::to_string(kernel.threads) + (kernel.part == Part::keys ? ", 2) " : ") ");
    return "extern \"C\" __global__ void __launch_bounds__(" + bounds + kernel.name +
           "(const __grid_constant__ SplitAttentionArguments arguments) {\n  " + body + "(arguments);\n}\n";
  };
  part.part = Part::keys, part.threads = warps * 32, part.rows = rows, part.columns = warps * rows;
  part.name = name + (call.mask ? std::string("_masked_") + info(*call.mask).name : call.is_paged ? "_paged" : "");
  part.shared = std::max(mask_bytes + query + warps * stages * tile, sums);
  part.text =
      text(part, "attention_part<SplitAttentionShape<" + type + ", " + e + ", " + f + ", " + std::to_string(warps) +
                     ", " + std::to_string(stages) + ">, " + mask + (call.is_paged ? ", true>" : ">"));
  join.part = Part::join, join.name = name + "_join";
  join.threads = static_cast<int>((call.value_features + 31) / 32 * 32);
  join.text = text(join, "attention_join<" + type + ", " + f + ">");
  return kernels;
}

}  // namespace weft::codegen
