// score_mod and mask_mod as a graph over numbers (ir/attention_mods.hpp), and on all pairs at once. In: the functions
// of the user. Out: a text that is part of the call's signature, and what they capture, the call's operands.
#pragma once
#include "ir/attention_mods.hpp"
#include "record/record.hpp"
#include "weft/nn/attention_mods.hpp"

namespace weft {

// Of a call's pairs.
struct PairSizes {
  DType score = DType::f32;
  Device device = {};
  Dim batch = 1, heads = 1, queries = 1, keys = 1;
  Dim of(PairInput place) const;
};
PairSizes pair_sizes(const Type& query, const Type& key);

struct RecordedMods {
  InternedText text = {};
  std::vector<Tensor> captured = {};
};
// Throws Error where a function gives no number, draws, reads a value, or does what has no meaning for a number.
RecordedMods record_mods(const detail::PairFunction& score, const detail::PairFunction& mask, const PairSizes& sizes,
                         Loc loc);

// For all scores [..., H, L, S]: the new ones, and which of them are seen, a bool that broadcasts to them; undefined:
// all are. `sees`, if defined: those that are not hidden otherwise. New scores of hidden pairs are of no meaning, and
// nothing gets a gradient from them: the score_mod has zeros there for scores and for what it captures, as its
// derivative may be infinite.
struct PairValues {
  Tensor scores, sees;
};
PairValues apply_mods(InternedText mods, const Tensor& scores, std::span<const Tensor> captured, Tensor sees);

}  // namespace weft
