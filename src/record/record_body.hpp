// A body, recorded once more. In: a graph, and arguments in the place of its inputs. Out: the values of its outputs, as
// if the program had written its operations here: they carry the locations of the body's nodes, calls stay calls.
#pragma once
#include "record/record.hpp"

namespace weft {

// A node once more, with these operands, at the recorder's place.
Tensor record_node(const Node& node, std::span<const Tensor> operands);
// Whether calls of it are of a checkpointed function, whose derivative computes the values inside again. Its name alone
// says so, so that a batch of it is one too.
bool is_checkpoint(const Callee& callee);
// Marks a call that computes values again. Its number is the only one in the trace, and the same whenever the function
// is traced. Outside a trace nothing is computed again.
void mark_as_recomputation(const Tensor& call);
// Later marks in the trace differ from those of the nodes of `copied`, whose copies are in it.
void keep_recomputations_of(const Graph& copied);
std::vector<Tensor> record_body(const Graph& body, std::span<const Tensor> arguments);

}  // namespace weft
