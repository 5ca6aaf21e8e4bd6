// Attention as products and a softmax, found and replaced. In: a traced graph, or a product in one. Out: the graph with
// calls of attention in their place, or such a call.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "ir/graph.hpp"

namespace weft {

// softmax(query transposed_key scale, with masks) value.
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
};
// What a product of weights and values is the end of.
std::optional<AttentionByHand> find_attention(const Node& product);
// Whether the weights that such a product reads, and what they are cast from, have one reader each.
bool is_read_once(const Node& product, const std::function<bool(const Node&)>& has_one_reader);
// The call, recorded in the open trace.
Tensor attention_of(const AttentionByHand& found);

// Replaces those whose weights nobody else reads, where the call is wanted; in bodies of loops too.
Graph fuse_attention(const Graph& graph, const std::function<bool(const Node&)>& is_wanted);

}  // namespace weft
