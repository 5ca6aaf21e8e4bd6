// Replaying a traced graph without generated kernels: by the eager executor, node by node, or by the reference
// interpreter. In: the graph, the values of its inputs and size symbols. Out: its outputs, computed.
#pragma once
#include "ir/graph.hpp"
#include "weft/compile_options.hpp"

namespace weft::detail {

std::vector<Tensor> replay(const Graph& graph, std::span<const Tensor> inputs, std::span<const std::int64_t> symbols,
                           Backend backend, Loc loc);

// While one lives, the reference interpreter moves every inexact result in this thread by up to 3 roundings of its
// dtype, at random: how far the outputs move is how far another order of operations may move them (Perturbation). The
// same seed, any number, gives the same values.
class MovedRoundings {
 public:
  explicit MovedRoundings(std::uint64_t seed);
  ~MovedRoundings();
  MovedRoundings(const MovedRoundings&) = delete;
};

}  // namespace weft::detail
