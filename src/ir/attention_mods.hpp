// The score_mod and mask_mod of an attention call, as its attributes have them: the text of a graph over numbers. In:
// AttentionCall::mods. Out: that graph. Its inputs are tensors of no axes, the score of a pair and the i32 places of
// the pair, then what is captured: numbers, or vectors that are read by gather alone. All other nodes are pointwise
// primitives, casts, bitcasts, stop_gradient and constants of no axes. Its outputs: the new score, the bool that says
// whether the query sees the key, or both. Sizes of vectors and devices are not in it: they are those of the call's
// operands.
#pragma once
#include "ir/callee.hpp"

namespace weft {

enum class PairInput : std::uint8_t { score, batch, head, query, key };
constexpr std::size_t pair_inputs = 5;  // what follows them is captured

struct AttentionMods {
  Graph graph;
  Tensor score, sees;  // outputs; undefined where there is none
};
AttentionMods attention_mods(InternedText text);
// Whether a provider may do attention of such queries whole: f16 and bf16 on a device. A call of it is recorded with
// the stats of its rows as a second result, and is a call where it drops weights too.
bool attention_may_be_whole(const Type& query);
// Whether one may do the derivative of an attention call whole: of queries, keys and values, and of nothing else, where
// the call gives the stats of its rows. False of other calls.
bool attention_may_be_whole(const CallValues& call);
// The text of such a graph.
InternedText attention_mods_text(const Graph& graph);
// For people: `score_mod mul(tanh(div(score, 30)), 30), mask_mod less_equal(k, q)`.
std::string to_words(const AttentionMods& mods);

}  // namespace weft
