// What the program has registered (weft/backends.hpp): backends by name, and sets of passes by number. In: names. Out:
// what runs a graph, and what its compilation runs besides Weft's own passes. Invariant: a number stands for the same
// stages, names and versions as long as the process lives.
#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "base/fork.hpp"
#include "pipeline.hpp"

namespace weft::detail {

struct RegisteredBackend {
  std::string name;
  BackendFunction make;
};

// What CompileOptions::backend asks for.
struct ChosenBackend {
  Backend own = Backend::compiled;                      // who traces decide by, too; eager for a registered one
  std::optional<Device::Type> device = {};              // where the tensors must be
  std::shared_ptr<const RegisteredBackend> registered;  // null: one of our own
};
// Throws Error where nobody has the name.
ChosenBackend choose_backend(const BackendName& asked, Loc loc);

// The number of the set of passes that is registered now, of so many bits (trace/key.hpp). 0: none.
inline std::atomic<std::uint64_t> current_passes{0};
constexpr int pass_set_bits = 14;
// The passes of a set, and those who observe now. Null for neither.
std::shared_ptr<const RegisteredPasses> registered_passes(std::uint64_t set);

// How a graph of a function is compiled where a GraphView is asked for it.
struct GraphData {
  Graph graph;
  FunctionOptions options = {};
  bool is_imported = false;         // no recorder made it: each call asks whether its sizes hold together
  std::vector<int> constants = {};  // inputs that are parameters or buffers and stay as they are, ascending
};
// The sizes of a call on these inputs, by symbol. Throws Error where they are not the graph's.
std::vector<std::int64_t> sizes_of_inputs(const GraphView& view, std::span<const Tensor> inputs, Loc loc);
// The type at these sizes.
Type at_sizes(Type type, std::span<const std::int64_t> symbols);
// Arguments of a call of a graph as an executable reads them.
class ArgumentMemory {
 public:
  ArgumentMemory() = default;
  ArgumentMemory(const ArgumentMemory&) = delete;
  ~ArgumentMemory();
  // The elements of a value in row-major order; they stay as long as this object. `value` is computed.
  void* elements(const Tensor& value, Loc loc);
  const std::vector<Storage*>& blocks() const { return blocks_; }

 private:
  std::vector<Storage*> blocks_;
};
// A result at these sizes, whose memory is to be written.
Tensor new_result(const Tensor& output, std::span<const std::int64_t> symbols, Loc loc);

// A graph under a registered backend: asked at the first run. Many calls may run it at once.
class RegisteredRun {
 public:
  RegisteredRun(std::shared_ptr<const RegisteredBackend> backend, GraphData data)
      : backend_(std::move(backend)), data_(std::make_shared<const GraphData>(std::move(data))) {}
  const std::string& name() const { return backend_->name; }
  // The outputs, computed, of these types. Throws Error where the backend gives others.
  std::vector<Tensor> run(std::span<const Tensor> inputs, std::span<const std::int64_t> symbols,
                          std::span<const Type> outputs, Loc loc);

 private:
  const std::shared_ptr<const RegisteredBackend> backend_;
  const std::shared_ptr<const GraphData> data_;
  RecursiveMutex mutex_;  // of making it
  BackendExecutable executable_;
  std::atomic<bool> made_{false};
};

// The pass over graphs as the pipeline has them. Throws Error where it changes inputs or the types of outputs.
std::function<Graph(const Graph&)> checked_pass(std::string_view name, GraphPass pass);

// The sizes of the call that runs a registered backend on this thread: a graph's inputs need not show all of them.
inline thread_local constinit std::span<const std::int64_t> sizes_of_call;

}  // namespace weft::detail
