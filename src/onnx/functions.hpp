// Functions that a file defines itself. In: a model. Out: one that has none, in which each call is the nodes of the
// function's body, of their own operator set, with names that no other has.
#pragma once
#include "onnx/file.hpp"

namespace weft::onnx {

// Throws Error that begins with `file` where a function calls itself, a call does not fit it, or the nodes are too
// many.
void inline_functions(ModelData& model, const std::string& file, Loc loc);

}  // namespace weft::onnx
