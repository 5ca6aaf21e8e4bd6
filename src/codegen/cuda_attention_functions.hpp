// The score_mod and mask_mod of an attention call as CUDA functions, for the holes of weft/detail/cuda_attention.inc.
// In: their graph over numbers (ir/attention_mods.hpp). Out: text, and what it reads.
//
// The derivative of a score is written with the rules of the table of primitives (ops.def): they are linear in the
// gradient that is given, so what they make of the operands' slopes is the slope of the result. In these functions a
// division by a constant is a product, and tanh of f32 has an absolute error of 3e-7.
#pragma once
#include <optional>
#include <string>

#include "ir/attention_mods.hpp"

namespace weft::codegen {

struct CudaAttentionFunctions {
  std::string
      text;  // `struct Captured`, whose members are pointers in the order of what is captured, and the functions
  bool changes_scores = false, masks = false;
  bool mask_reads_batch = false, mask_reads_head = false;
};
// A dropout of weights, as cuda_attention_dropout.inc draws it.
struct CudaAttentionDropout {
  double probability = 0;       // 0: none
  bool draws_together = false;  // the count of keys is a multiple of four
  bool is_short = false;        // so many weights that an index of four fits 32 bits
};
// What stays of the weights on average.
float kept_by(const CudaAttentionDropout& dropout);
// `is_causal`: query i sees keys 0 ... i, besides. Nothing where the score is no f32, a rule of the derivative has no
// text for a device, or a dropout drops all. With a dropout the last members of `Captured` point to its seed and
// offset.
std::optional<CudaAttentionFunctions> cuda_attention_functions(const AttentionMods& mods, bool is_causal,
                                                               bool is_backward,
                                                               const CudaAttentionDropout& dropout = {});

}  // namespace weft::codegen
