// A program's own backends and passes.
//   register_backend("printing", [](const GraphView& graph, std::span<const Tensor>) {
//     std::cout << graph.text();
//     return graph.compiled();
//   });
//   auto f = compile(step, {.backend = "printing"});
// All of this is safe from any thread. What is registered stays until it is replaced or taken back, or the process
// ends.
#pragma once
#include "weft/compile_options.hpp"
#include "weft/graph.hpp"
#include "weft/pattern.hpp"

namespace weft {

// ---- backends -------------------------------------------------------------------------------------------------------

// Computes the outputs of a graph for a call's inputs. Many threads may call it at once. What it throws reaches the
// caller, with state as before the call; so does an Error where what it gives are not the outputs: their count, dtypes,
// shapes and devices.
using BackendExecutable = std::function<std::vector<Tensor>(std::span<const Tensor> inputs)>;
// Makes that of a graph, when it is to run for the first time. `examples` are the inputs of that call. What it throws
// reaches the caller, and the next call asks again.
using BackendFunction = std::function<BackendExecutable(const GraphView& graph, std::span<const Tensor> examples)>;

// Names a backend for CompileOptions::backend. A name that was registered before is replaced, for functions that are
// compiled from then on. Throws Error where the name is one of Weft's.
void register_backend(std::string_view name, BackendFunction backend, Loc loc = Loc::current());
// The names that CompileOptions::backend takes, in alphabetical order.
std::vector<std::string> backend_names();

// ---- passes ---------------------------------------------------------------------------------------------------------

// Which form of the graph a pass gets. It always is the whole one, with gradients and updates.
enum class PassStage : std::uint8_t {
  traced,         // as recorded: a composite is one operation
  joint,          // of primitives: composites have given way to their bodies, nothing is simplified yet
  before_fusion,  // simplified and taken apart
};

// Gives the graph itself or what its rewrite() gave: the same inputs, and outputs of the same types.
using GraphPass = std::function<GraphView(const GraphView& graph)>;

// Adds a pass to all compilations from now on, of functions that have been compiled already too: they are compiled anew
// at the next call. Passes of a stage run in the order in which they were registered. A pass of that name is replaced,
// in its place; `version` says what it does: where it is the same as before, functions stay compiled. Throws Error
// where the name or the version is empty.
void register_pass(PassStage stage, std::string_view name, std::string_view version, GraphPass pass,
                   Loc loc = Loc::current());
// Takes it back. False where there is none of that name.
bool unregister_pass(std::string_view name);

// ---- patterns -------------------------------------------------------------------------------------------------------

// An operation that a pattern fits.
class PatternMatch {
 public:
  // The value that a letter stands for. Throws Error where the pattern has no such letter.
  const Tensor& operator[](const pattern::Expression& letter) const;
  const NodeView& node() const { return node_; }  // the operation at the pattern's root

 private:
  friend struct PatternPass;
  explicit PatternMatch(const NodeView& node) : node_(node) {}
  const NodeView& node_;
  const Tensor* bound_[pattern::letters.size()] = {};
};

// A pass of one rule: each operation that the pattern fits is replaced by what `make` records, and stays where that is
// undefined. Throws Error where the pattern is no operation.
void register_rewrite(PassStage stage, std::string_view name, std::string_view version, const pattern::Expression& from,
                      std::function<Tensor(const PatternMatch& match)> make, Loc loc = Loc::current());

// ---- after fusion ---------------------------------------------------------------------------------------------------

// What a graph was cut into.
struct FusedSteps {
  struct Step {                           // a kernel, or an operation of a library
    std::string name;                     // of the kernel, or of the operation that a library does
    std::vector<std::string> operations;  // that it does, with the user's lines
  };
  std::vector<Step> steps;  // in order
  std::string text;         // buffers and loops too, and why neighbours were not fused: what explain() prints
};

// Calls `observe` with the steps of each graph that is compiled from now on. An observer of that name is replaced; an
// empty one is taken back. It changes nothing, so it needs no version.
void observe_fusion(std::string_view name, std::function<void(const FusedSteps& steps)> observe);

}  // namespace weft
