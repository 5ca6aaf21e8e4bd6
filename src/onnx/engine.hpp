// Engines that run ONNX models, as backends (docs/backends.md). In: a graph, and the values of its inputs. Out: values.
// What knows an engine is a file of its own; here is what they share: the library is found when the program runs, and
// the parameters of a function are constants of the model as long as they stay the same.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "onnx/export.hpp"
#include "weft/graph.hpp"

namespace weft::onnx {

// A tensor's elements in the host's memory, row-major, without gaps.
struct ElementsView {
  DType dtype;
  std::vector<std::int64_t> sizes;
  void* data;
  std::size_t bytes;
};

// An input or an output of an engine's model.
struct EnginePort {
  std::string name;
  DType dtype;
  std::size_t rank;
};

// A model that an engine has compiled. Many threads may run it at once.
class EngineModel {
 public:
  virtual ~EngineModel() = default;
  // Reads the inputs and writes the outputs. Throws Error with the engine's message.
  virtual void run(std::span<const ElementsView> inputs, std::span<const ElementsView> outputs) const = 0;
};

struct Engine {
  const char* name;  // of the backend
  // Throws Error where the library is not found, is too old, or refuses the model.
  std::unique_ptr<EngineModel> (*compile)(const std::string& model, const std::vector<EnginePort>& inputs,
                                          const std::vector<EnginePort>& outputs);
};
extern const Engine onnxruntime, openvino;

// Loads a library, for the life of the process: from `given`, which the variable says, else under the first of the
// names that the loader finds. Throws Error that says what was tried.
class EngineLibrary {
 public:
  EngineLibrary(const char* engine, const char* variable, const std::string& given, std::span<const char* const> names);
  const std::string& path() const { return path_; }
  void* symbol(const char* name) const;  // null where it has none
  // Throws Error that says which version it is too old for.
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail("", {}, engine_, " (", path_, ") ", parts...);
  }

 private:
  const char* engine_;
  std::string path_;
  void* handle_ = nullptr;
};

// False when static objects are being destroyed: those of an engine's library may be gone, so nothing of it is given
// back. Watched from the first call on.
bool process_goes_on();

// The names input_0, ... and output_0, ... of a graph's inputs and outputs, and what is a constant.
ModelPorts ports_of(const GraphView& graph, std::span<const Tensor> constants, Loc loc);

}  // namespace weft::onnx
