// Attention on tensor cores, as CUDA source: the templates of weft/detail/cuda_attention.inc and its companions, with
// the functions of a call in their holes. In: dtype, sizes, the text of the functions. Out: the kernels of a call, each
// with the tile that it works on.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codegen/cuda_function.hpp"
#include "weft/dtype.hpp"

namespace weft::codegen {

// A call, as its kernels see it.
struct CudaAttention {
  DType dtype = DType::bf16;                      // or f16
  std::int64_t features = 0, value_features = 0;  // multiples of 8
  bool is_backward = false;
  bool masks = false;           // the functions have a mask: kernels that list the tiles to visit come too
  bool changes_scores = false;  // they have a score too
  float kept = 1;               // of the weights; less: they have a dropout
  // By warpgroups and the copy engine, of sm_90a, both features 64 or both 128; else for sm_80 and up.
  bool on_hopper = false;
  std::string functions;  // `struct Captured` and its functions, as cuda_attention.inc wants them
};

// One kernel. Its name begins with a digest of the call.
struct CudaAttentionKernel : CudaFunction {
  enum class Part : std::uint8_t {
    forward,
    by_keys,  // by_values: what is left to do for them, where one kernel has no room for both
    by_queries,
    queries,  // on Hopper, where by_keys leaves sums of their gradient: these, rounded
    rows,
    lists,
    tiles_by_keys,
    tiles,
    by_values,
    keys,
    join
  };
  Part part;
  int rows = 0, columns = 0;  // of scores, a tile
};
// Whether the templates fit these sizes: registers and shared memory.
bool fits_cuda_attention(std::int64_t features, std::int64_t value_features);
std::vector<CudaAttentionKernel> cuda_attention(const CudaAttention& call);

// Attention of few queries, without functions, of any lengths, by weft/detail/cuda_attention_split.inc.
struct CudaSplitAttention {
  DType dtype = DType::bf16;                      // or f16
  std::int64_t features = 0, value_features = 0;  // as fits_cuda_attention has them
  std::optional<DType> mask = {};                 // f32, f16 or bf16, where there is one
  bool is_paged = false;                          // keys and values are pages of rows, a multiple of 16 each
};
// The kernel of the parts, whose blocks have `columns` keys by turns, and that which joins them.
std::vector<CudaAttentionKernel> cuda_split_attention(const CudaSplitAttention& call);

}  // namespace weft::codegen
