// ONNX: models that other programs made, as functions over tensors, and functions as files that other programs run
// (docs/onnx.md). The component weft::onnx of CMake:
// find_package(weft COMPONENTS onnx).
//   onnx::Model model = onnx::load("resnet50.onnx");
//   auto infer = compile([](const onnx::Model& m, const std::vector<Tensor>& x) { return m(x); });
//   Tensor logits = infer(model, {images})[0];
// In: a file, or its bytes, of operator sets 13 to 23 (24, where the operations are known). Out: a model, of which the
// floating initializers are parameters by their names: it is compiled, differentiated, saved and packaged as any other.
#pragma once
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "weft/compile.hpp"
#include "weft/export.hpp"
#include "weft/graph.hpp"

namespace weft::onnx {

// A model of a file. Copies share their tensors, as those of other models do.
struct Model {
  // The graph's outputs for its inputs, both in the order of the file. Recorded operation by operation, so that a
  // compiled function can call it; the number of a node in the file is the line of its operations. Sizes that the graph
  // computes from shapes stay sizes, symbolic ones too (mark_dynamic). Throws Error where inputs do not fit the file's
  // types, where a parameter or a buffer of the file is missing below, and what the operations throw.
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs) const;

  std::map<std::string, Param> parameters;  // floating initializers that have axes, but for sizes, scales and the like
  std::map<std::string, Buffer> buffers;    // running statistics, and initializers of more than 4096 integers
  std::uint64_t graph = 0;                  // which graph it is: a digest of the file without the numbers above
  WEFT_MEMBERS(parameters, buffers, graph)
};

struct Port {        // an input or an output of a model
  std::string name;  // in the file
  std::string type;  // "f32[batch,3,224,224]": sizes, names of sizes, ? where the file does not say
};
std::vector<Port> inputs(const Model& model);   // what operator() takes, in order
std::vector<Port> outputs(const Model& model);  // what operator() gives, in order

// A model of a file, or of its bytes; tensors in other files are read from the folder of the file alone. The graph
// stays known to the process until it ends. Throws Error that names the file: where it can't be read or is damaged;
// where an operation is unknown (all such operations are named), or of an operator set beyond 24; where a node reads
// what no earlier one gives; where a tensor is not as large as its sizes say, or of a type that Weft has not; where the
// place of a tensor is outside of the folder.
Model load(const std::string& path, Loc loc = Loc::current());
Model load(std::span<const std::byte> bytes, Loc loc = Loc::current());

// How a file is written.
struct SaveOptions {
  // Names of the inputs and of the outputs, in order, in the place of those that save() gives. Empty: those.
  std::vector<std::string> input_names = {}, output_names = {};
};

// The file that save() writes, how, and the line that says so: "net.onnx", or {"net.onnx", {.input_names = {"image"}}}.
struct NewModel {
  // A literal or a std::string.
  template <class T>
  requires std::convertible_to<const T&, std::string> NewModel(const T& file, Loc line = Loc::current())
      : path(file), loc(line) {}
  template <class T>
  requires std::convertible_to<const T&, std::string> NewModel(const T& file, SaveOptions how,
                                                               Loc line = Loc::current())
      : path(file), options(std::move(how)), loc(line) {}
  std::string path;  // of the file
  SaveOptions options = {};
  Loc loc;  // the line, for messages
};

namespace detail {
// Writes what the innermost call of this thread has traced; its result is there too.
void save_call(const NewModel& to, const weft::detail::FunctionHandle& function,
               const weft::detail::CallSignature& signature);
template <class R, class... P, class F>
void save(const NewModel& to, const weft::detail::FunctionHandle& compiled, const F& f,
          std::remove_reference_t<P>&... argument) {
  const auto write = [&](const weft::detail::FunctionHandle& function, const weft::detail::CallSignature& signature) {
    save_call(to, function, signature);
  };
  weft::detail::export_call<R, P...>("onnx::save", to.loc, compiled, f, write, argument...);
}
}  // namespace detail

// Writes what a compiled function computes for these arguments as an ONNX file of operator set 23. Its Params and
// Buffers are initializers under their paths, its Tensors, Scalars and Indices inputs; members of its result name the
// outputs. Sizes that vary (mark_dynamic, CompileOptions::dynamic) have names, s0, s1, ... Where ONNX has an operation
// for a function it is one node: LayerNormalization, Gelu, Attention, Softmax, ... The file appears at once or not at
// all. Throws Error, with the line of the operation, where ONNX has none for it; where the function changes its
// arguments, draws numbers, or reads a value on the host; where SaveOptions has not as many names as there are inputs
// or outputs, or one twice; and where the file can't be written.
template <class F, class R, class... T, class... First, class... P, class... A>
void save(const NewModel& to,
          const Compiled<F, R, Bound<T...>, weft::detail::TypeList<First...>, weft::detail::TypeList<P...>>& f,
          A&&... argument) {
  f.bound().apply([&](T&... bound) {
    [&](P... given) {
      detail::save<R, First..., P...>(to, f.function(), f.plain(), bound..., given...);
    }(std::forward<A>(argument)...);
  });
}
// The same of a generic callable: the arguments' types are the call's.
template <class F, class... T, class... A>
void save(const NewModel& to, const Compiled<F, void, Bound<T...>, void, void>& f, A&&... argument) {
  using R = std::remove_cvref_t<decltype(std::declval<F&>()(std::declval<T&>()...,
                                                            std::declval<weft::detail::ExportedArgument<A>>()...))>;
  f.bound().apply([&](T&... bound) {
    detail::save<R, T&..., weft::detail::ExportedArgument<A>...>(to, f.function(), f.plain(), bound..., argument...);
  });
}

// A graph that a backend is asked for (weft/backends.hpp) as the bytes of a model of operator set 23, for an engine
// that reads ONNX. Its inputs are input_0, input_1, ..., its outputs output_0, ..., sizes that vary s0, s1, ... An
// input that `constants` has a tensor for is an initializer of that value; an undefined tensor, or none, leaves it an
// input. Checks are left out. Throws Error, with the line of the operation, where ONNX has none for it.
std::vector<std::byte> to_bytes(const GraphView& graph, std::span<const Tensor> constants = {},
                                Loc loc = Loc::current());

// Names of the operations of ONNX's default domain that load() takes, in alphabetical order.
std::vector<std::string> operations();

namespace detail {
// The backends "onnxruntime" and "openvino" (docs/backends.md), in every program that has this header.
bool register_engines();
inline const bool engines_are_registered = register_engines();
}  // namespace detail

}  // namespace weft::onnx
