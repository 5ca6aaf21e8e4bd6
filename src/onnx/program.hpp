// What a loaded model runs: its graph, the operators of its nodes, and what is neither a parameter nor a buffer.
#pragma once
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/hash.hpp"
#include "onnx/call.hpp"
#include "weft/onnx.hpp"

namespace weft::onnx {

struct Program {
  Digest key;                // of the file without the elements of parameters and buffers
  std::string file;          // its name, for messages
  ModelData model;           // without the elements of parameters and buffers
  std::int64_t version = 0;  // of the operator set
  std::int64_t version_of(const NodeData& node) const { return node.version ? node.version : version; }
  std::unordered_map<const NodeData*, const OperatorRow*> operators;
  // By node, the values that no later one of its graph reads and the graph does not give.
  std::unordered_map<const NodeData*, std::vector<std::string>> last_uses;
  std::map<std::string, Value> constants;            // small initializers
  std::map<std::string, const TensorData*> tensors;  // other initializers that are no parameters
  std::vector<std::string> held;                     // names of parameters and buffers, which a Model has
  std::vector<const ValueData*> inputs;              // those that are no initializers
};

// Checks the graph and finds its operators. Takes parameters and buffers out of it.
Model make_model(ModelData data, const std::string& file, Loc loc);
// Gives the number of the program's graph: that of its key, or the next odd one that no other graph has. The first
// program of a key stays.
std::uint64_t keep(std::unique_ptr<const Program> program);
const Program& program_of(const Model& model, const char* operation, Loc loc);
std::vector<Value> run_graph(const Program& program, const GraphData& graph, Scope& scope, Device device);

}  // namespace weft::onnx
