// Exported graphs: what a compiled function computes, as text or JSON that later versions of Weft read, and other
// programs too (docs/export.md).
//   const ExportedGraph graph = export_graph(forward, model, x);
//   save_graph("mlp.json", graph);                        // and mlp.safetensors, with its weights
//   const ExportedGraph again = load_graph("mlp.json");
//   Tensor y = again({x})[0];
// In: a compiled function and arguments, which may be specs without values (weft/precompile.hpp). Out: the graph as it
// was traced, before any pass: primitives, and composites as calls with their bodies; what its inputs and outputs are;
// the weights by name. Invariant: text and JSON hold the same, and a graph that is read back has the same text.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/compile.hpp"
#include "weft/graph.hpp"

namespace weft {

// An input or an output of an exported graph.
struct GraphPort {
  // The path of a member, "in.weight", "logits", "counter.total"; "input_1" of an argument that is one tensor, by the
  // argument's number; "output", "output_1", ... of a result that is no struct.
  std::string name;
  std::string role;  // of an input: "argument", "parameter" or "buffer"; of an output: "result" or "state"
  std::string type;  // "f32[s0,8]"
};

namespace detail {
struct ExportedData;
}

// Copies share it.
class ExportedGraph {
 public:
  std::string text() const;  // for people: a line an input, an output and an operation
  std::string json() const;  // for programs
  // What the function reads, weights too, in the order of a call.
  const std::vector<GraphPort>& inputs() const;
  // Results, then the new values of the arguments that the function changes.
  const std::vector<GraphPort>& outputs() const;
  // The operations. Its inputs are those of inputs(), weights too.
  const GraphView& graph() const;
  // What is not in the text: parameters and buffers by the names of their inputs, and constants that have elements,
  // constant.0, constant.1, ...
  const std::map<std::string, Tensor>& tensors() const;

  // The outputs for these arguments, which are the inputs whose role is "argument", in order: operation by operation,
  // with the bits that the function gives eagerly. Throws Error where the arguments or tensors() are not what the graph
  // takes, and what operations throw.
  std::vector<Tensor> operator()(std::span<const Tensor> arguments, Loc loc = Loc::current()) const;
  std::vector<Tensor> operator()(std::initializer_list<Tensor> arguments, Loc loc = Loc::current()) const {
    return (*this)(std::span<const Tensor>(arguments.begin(), arguments.size()), loc);
  }
  // The same by generated kernels, compiled now.
  std::function<std::vector<Tensor>(std::span<const Tensor>)> compiled() const;

  // Of detail::make_exported.
  explicit ExportedGraph(std::shared_ptr<const detail::ExportedData> data) : data_(std::move(data)) {}

 private:
  std::shared_ptr<const detail::ExportedData> data_;
};

// The number of the set of operations that this version of Weft writes (docs/operation_set.md); it reads this one and
// all before it.
int operation_set_version();

// The graph of text that text() or json() gave, of this version or an earlier one. `tensors`: what tensors() held.
// Without them the graph can be looked at, and run where it needs none. Throws Error, one sentence, where the text is
// damaged, of a later operation set, or holds an operation that is unknown, and where a tensor is of another type.
ExportedGraph import_graph(std::string_view text, std::map<std::string, Tensor> tensors = {}, Loc loc = Loc::current());

// Writes json() where the path ends in .json, else text(); and beside it, where the graph has tensors, these as
// NAME.safetensors; endings other than .json, .graph and .txt belong to the NAME. The weights get their name first,
// when the text is written: a crash between leaves new weights beside the old text. Throws Error where they can't be
// written.
void save_graph(const std::string& path, const ExportedGraph& graph, Loc loc = Loc::current());
// Reads such a file, and NAME.safetensors where that is there. Throws as import_graph, and where it can't be read.
ExportedGraph load_graph(const std::string& path, Loc loc = Loc::current());

namespace detail {
FunctionHandle function_to_export(const FunctionHandle& function);
// What the innermost call of this thread has traced; its result is there too.
ExportedGraph make_exported(const FunctionHandle& function, const CallSignature& signature, Loc loc);
Loc loc_of(const FunctionHandle& function);
// While one lives, messages of this thread say who exports what is traced.
class ExportScope {
 public:
  ExportScope(const char* operation, Loc line);
  ~ExportScope();
  ExportScope(const ExportScope&) = delete;
};
// Traces a call, which is neither compiled nor run. Gives what `make` makes of it, from the function that has the trace
// and the signature.
template <class R, class... P, class F, class Make>
auto export_call(const char* operation, Loc loc, const FunctionHandle& compiled, const F& f, Make make,
                 std::remove_reference_t<P>&... argument) {
  const FunctionHandle function = function_to_export(compiled);
  auto body = [&](Tracer& tracer) { trace_body<R, P...>(f, tracer, TracedArgument<P>(argument)...); };
  TraceBody erased = [](void* context, Tracer& tracer) { (*static_cast<decltype(body)*>(context))(tracer); };
  const ExportScope scope(operation, loc);
  const FunctionModes modes(function.get());
  Call call(function.get(), SignatureOfCall<R, P...>::value, erased, &body, loc);
  (call.argument(argument, access<P>), ...);
  const void* prototype = call.prepare();
  if constexpr (std::is_void_v<R>) {
    return make(function, SignatureOfCall<R, P...>::value);
  } else {
    R result = clone(*static_cast<const R*>(prototype));
    call.result(result);
    return make(function, SignatureOfCall<R, P...>::value);
  }
}
template <class R, class... P, class F>
ExportedGraph export_graph(const FunctionHandle& compiled, const F& f, std::remove_reference_t<P>&... argument) {
  const Loc loc = loc_of(compiled);
  const auto make = [&](const FunctionHandle& function, const CallSignature& signature) {
    return make_exported(function, signature, loc);
  };
  return export_call<R, P...>("export_graph", loc, compiled, f, make, argument...);
}
template <class A>  // what is moved and const is only read
using ExportedArgument = std::conditional_t<std::is_lvalue_reference_v<A> || std::is_const_v<A>, A&, A>;
}  // namespace detail

// What f computes for such arguments. It is traced, and neither compiled nor run; sizes vary as mark_dynamic, the
// function's options or a spec say. Params and Buffers are inputs under their paths. Throws as a call of f does, and
// Error where f calls the host, reads a value, draws from the default generator or changes a number of C++.
template <class F, class R, class... T, class... First, class... P, class... A>
ExportedGraph export_graph(const Compiled<F, R, Bound<T...>, detail::TypeList<First...>, detail::TypeList<P...>>& f,
                           A&&... argument) {
  return f.bound().apply([&](T&... bound) {
    return [&](P... given) {
      return detail::export_graph<R, First..., P...>(f.function(), f.plain(), bound..., given...);
    }(std::forward<A>(argument)...);
  });
}
// The same of a generic callable: the arguments' types are the call's.
template <class F, class... T, class... A>
ExportedGraph export_graph(const Compiled<F, void, Bound<T...>, void, void>& f, A&&... argument) {
  using R = std::remove_cvref_t<decltype(std::declval<F&>()(std::declval<T&>()...,
                                                            std::declval<detail::ExportedArgument<A>>()...))>;
  return f.bound().apply([&](T&... bound) {
    return detail::export_graph<R, T&..., detail::ExportedArgument<A>...>(f.function(), f.plain(), bound...,
                                                                          argument...);
  });
}
// Other callables are refused. The comment is a part of what the compiler says.
template <detail::NotCompiled F, class... A>
ExportedGraph export_graph(F&&, A&&...) = delete;  // weft: export_graph takes a compiled function: wrap it in
                                                   // weft::compile

}  // namespace weft
