// GraphView: a graph of operations as backends and passes see it (weft/backends.hpp).
//   std::cout << graph.text();
//   for (const Tensor& value : graph.nodes()) std::cout << NodeView(value).name() << " " << value.dtype() << "\n";
// Its values are tensors: dtype(), shape() and device() say what they are, and there is nothing to read in them. Sizes
// that vary are expressions (Dim); a call's tensors have numbers.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/tensor.hpp"

namespace weft {

struct Graph;
class GraphView;

namespace detail {
struct GraphData;  // a graph and what belongs to its function
const Graph& graph_of(const GraphView& view);
GraphView view_of(std::shared_ptr<const GraphData> data);
std::vector<std::int64_t> sizes_of_inputs(const GraphView& view, std::span<const Tensor> inputs, Loc loc);
}  // namespace detail

// The operation that gives a value of a graph.
class NodeView {
 public:
  explicit NodeView(Tensor value);  // throws Error where the value is undefined
  // "add", "matmul", "input", as weft/ops.def lists them. Of a composite its own name: "silu", "softmax".
  std::string_view name() const;
  bool is_composite() const;                 // a function that is kept whole: its body is a graph of primitives
  std::span<const Tensor> operands() const;  // what it reads, in order
  std::vector<Tensor> results() const;       // what it gives: one value, of few operations several
  std::string attributes() const;            // axes, numbers, bounds, as text() prints them
  // Of a constant whose elements are one number, that number.
  std::optional<double> number() const;
  std::vector<GraphView> bodies() const;  // of a composite and of a loop
  Loc line() const;                       // where it was written; the file is null where that is not known

 private:
  Tensor value_;
};

// A graph. It does not change; copies share it.
class GraphView {
 public:
  const std::vector<Tensor>& inputs() const;   // the function's tensors that it reads
  const std::vector<Tensor>& outputs() const;  // results, and the state that the function changes
  const std::vector<Tensor>& nodes() const;    // the first result of each operation, operands first
  // Whether an input is a Param or a Buffer that the function only reads: mostly the same value in all calls, as
  // Tensor::same() says. The program may replace it. Throws Error where there is no such input.
  bool is_constant(std::size_t input) const;
  std::size_t index(
      const Tensor& value) const;  // of its operation in nodes(). Throws Error where it is of another graph
  std::string text() const;        // a line an operation, with the user's lines: what explain() prints

  // The outputs for these inputs, computed operation by operation by the eager executor. Throws Error where the inputs
  // are not those of the graph, and what the operations throw.
  std::vector<Tensor> run(std::span<const Tensor> inputs, Loc loc = Loc::current()) const;
  // The same. `watch` is called after each operation, with what it has given: the values of this call.
  using Watch = std::function<void(const NodeView& node, std::span<const Tensor> results)>;
  std::vector<Tensor> run(std::span<const Tensor> inputs, const Watch& watch, Loc loc = Loc::current()) const;
  // The graph after Weft's passes and the registered ones: primitives alone, ready to be fused.
  GraphView optimized() const;
  // The same computation by generated kernels, compiled now. Throws CompileError where they can't be.
  std::function<std::vector<Tensor>(std::span<const Tensor>)> compiled() const;

  // What replaces an operation, recorded by the functions of Weft over its operands; undefined: it stays.
  using Replace = std::function<Tensor(const NodeView& node)>;
  // The graph with each operation that `replace` gives a value for replaced by it: operands first, in the bodies of
  // loops too. `replace` sees an operation with its operands already replaced. Throws Error, with the line of the
  // operation, where the replacement has another type, where the operation has several results, is an input or a
  // check, and where the replacement draws numbers, checks or asks a value.
  GraphView rewrite(const Replace& replace) const;

 private:
  explicit GraphView(std::shared_ptr<const detail::GraphData> data) : data_(std::move(data)) {}
  friend const Graph& detail::graph_of(const GraphView& view);
  friend GraphView detail::view_of(std::shared_ptr<const detail::GraphData> data);
  friend std::vector<std::int64_t> detail::sizes_of_inputs(const GraphView& view, std::span<const Tensor> inputs,
                                                           Loc loc);
  std::shared_ptr<const detail::GraphData> data_;
};

}  // namespace weft
