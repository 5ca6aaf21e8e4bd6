// A graph as an ONNX model. In: a graph as a call has traced it, composites whole, and names for what goes in and out.
// Out: a model of operator set 23 that computes the same.
#pragma once
#include "base/fail.hpp"
#include "ir/graph.hpp"
#include "onnx/file.hpp"

namespace weft::onnx {

// What the model is for, which messages say.
struct ModelPurpose {
  const char* operation;  // that the user called
  std::string file = {};  // the model's name; empty: none
  Loc loc = {};           // of a refusal that is of no line of the graph
  // An engine runs it: conditions of checks are outputs, and inputs that nothing reads are left out, since engines
  // drop those. Else checks are left out.
  bool for_engine = false;

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
  // A text each, thrown where the condition fails: the last outputs, of dtype bool.
  std::vector<std::string> checks = {};
  std::vector<bool> reads = {};  // a word for each input of the graph, given as an initializer or not
};

// Throws Error, with the line of the operation, where ONNX has none for it.
WrittenModel write_model(const Graph& graph, const ModelPorts& ports, const ModelPurpose& purpose);

}  // namespace weft::onnx
