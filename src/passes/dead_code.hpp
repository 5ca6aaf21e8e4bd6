// Dead code. In: any graph. Out: what its outputs and effects need, and its inputs. An effect goes only when it is
// proved to do nothing: a check of the constant true, or one that an earlier one is, message and all.
#pragma once
#include "passes/context.hpp"

namespace weft {

Graph dead_code(const Graph& graph, const PassContext& context = {});

}  // namespace weft
