// A graph as an ONNX model. In: a graph as a call has traced it, composites whole, and names for what goes in and out.
// Out: a model of operator set 23 that computes the same.
#pragma once
#include "base/fail.hpp"
#include "ir/graph.hpp"
#include "onnx/file.hpp"

namespace weft::onnx {

// What the model is for, which messages say.
struct ModelPurpose {
  const char* operation;     // that the user called
  std::string file = {};     // the model's name; empty: none
  Loc loc = {};              // of a refusal that is of no line of the graph
  bool with_checks = false;  // conditions of checks are outputs; else checks are left out

  template <class... Parts>
  [[noreturn]] void refuse(Loc line, const Parts&... parts) const {
    fail(operation, line.file ? line : loc, file, file.empty() ? "" : ": ", parts...);
  }
};

struct ModelPorts {
  std::vector<std::string> inputs;   // a name for each input of the graph
  std::vector<Tensor> initializers;  // likewise a value, which becomes part of the model; undefined, or missing: none
  struct Output {
    std::string name;
    std::size_t index;      // of the graph's outputs, or of its inputs
    bool is_input = false;  // it is that input
  };
  std::vector<Output> outputs;
};

struct WrittenModel {
  ModelData model;
  std::vector<std::string> checks =
      {};  // a text each, thrown where the condition fails: the last outputs, of dtype bool
};

// Throws Error, with the line of the operation, where ONNX has none for it.
WrittenModel write_model(const Graph& graph, const ModelPorts& ports, const ModelPurpose& purpose);

}  // namespace weft::onnx
