// Attention as products and a softmax, found and replaced. In: a traced graph, or a product in one. Out: the graph with
// calls of attention in their place, or such a call.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "ir/graph.hpp"
#include "record/random.hpp"

namespace weft {

// softmax(query transposed_key scale, with masks) value, whose weights may be dropped.
struct AttentionByHand {
  struct Mask {
    enum class Kind : std::uint8_t { sees, hides, added, subtracted } kind;
    Tensor value;
    double factor = 1;  // that the scores get after it
    double number = 0;  // in the place of hidden scores
  };
  Tensor query, transposed_key, value;
  double scale = 1;
  std::vector<Mask> masks = {};
  double dropout = 0;                // the probability with which a weight becomes zero
  Draw draw = {};                    // of that, if it is not 0
  std::vector<Tensor> weights = {};  // what the product reads, and what that is made of up to the scores
};
// What a product of weights and values is the end of.
std::optional<AttentionByHand> find_attention(const Node& product);
// Whether all of its weights have one reader.
bool is_read_once(const AttentionByHand& found, const std::function<bool(const Node&)>& has_one_reader);
// The call, recorded in the open trace; with dropout, where no device does the call, its body.
Tensor attention_of(const AttentionByHand& found);

// Replaces those whose weights nobody else reads, where the call is wanted; in bodies of loops too.
Graph fuse_attention_where(const Graph& graph, const std::function<bool(const Node&)>& is_wanted);

}  // namespace weft
