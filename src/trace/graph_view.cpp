// GraphView: what users see of a graph, run, and rewrite.
#include "weft/graph.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "base/failed_checks.hpp"
#include "base/registered_code.hpp"
#include "base/storage.hpp"
#include "ir/callee.hpp"
#include "ir/match.hpp"
#include "record/evaluate.hpp"
#include "record/host_values.hpp"
#include "record/record.hpp"
#include "record/run_graph.hpp"
#include "record/size_checks.hpp"
#include "trace/registry.hpp"

namespace weft {

using detail::GraphData;

namespace detail {

const Graph& graph_of(const GraphView& view) { return view.data_->graph; }
GraphView view_of(std::shared_ptr<const GraphData> data) { return GraphView(std::move(data)); }

Type at_sizes(Type type, std::span<const std::int64_t> symbols) {
  for (int axis = 0; axis < type.shape.rank(); ++axis)
    if (!type.shape[axis].is_constant()) type.shape[axis] = dims::evaluate(type.shape[axis], symbols);
  return type;
}

ArgumentMemory::~ArgumentMemory() {
  for (Storage* const block : blocks_) weft::release(block);
}
void* ArgumentMemory::elements(const Tensor& value, Loc loc) {
  const Contiguous block = contiguous(value, loc);
  blocks_.push_back(block.storage);
  return static_cast<char*>(block.storage->data) + storage_bytes(type_of(value).dtype, block.offset);
}
Tensor new_result(const Tensor& output, std::span<const std::int64_t> symbols, Loc loc) {
  const Type type = at_sizes(type_of(output), symbols);
  const Tensor made = make_computed(type, loc);
  made.node()->storage = allocate(type.device, storage_bytes(type.dtype, type.shape.element_count().constant()));
  return made;
}

namespace {

GraphView with_graph(const GraphData& data, Graph graph) {
  GraphData made = data;
  made.graph = std::move(graph);
  return view_of(std::make_shared<const GraphData>(std::move(made)));
}

// The number of the symbol that a size is; -1 where it is something else.
int symbol_of(Dim size) {
  int symbol = -1;
  dims::any_atom(size, [&](const DimNode& atom) {
    if (atom.kind == DimKind::symbol && size.same(dims::symbol(atom.number, atom.lower.constant())))
      symbol = atom.number;
    return true;
  });
  return symbol;
}

// The sizes of a call, from the shapes of its inputs and, of sizes that no input is, from the call that this thread
// runs.
std::vector<std::int64_t> sizes_for(const Graph& graph, std::span<const Tensor> inputs, Loc loc) {
  std::vector<std::int64_t> symbols(graph.symbols.size(), -1);
  if (sizes_of_call.size() >= symbols.size()) std::copy_n(sizes_of_call.begin(), symbols.size(), symbols.begin());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Shape &wanted = type_of(graph.inputs[i]).shape, &given = type_of(inputs[i]).shape;
    for (int axis = 0; axis < std::min(wanted.rank(), given.rank()); ++axis)
      if (const int symbol = wanted[axis].is_constant() ? -1 : symbol_of(wanted[axis]); symbol >= 0)
        symbols[static_cast<std::size_t>(symbol)] = given[axis].constant();
  }
  if (std::ranges::find(symbols, -1) != symbols.end())
    fail("run", loc, "a size of the graph is that of no input: run it in the executable of a backend");
  return symbols;
}

// Throws where the elements of a constant are missing: an imported graph can be looked at without them.
void check_constants(const Graph& graph, Loc loc) {
  for (const Tensor& value : graph.nodes) {
    if (value.node()->op == Op::data && !value.node()->storage && !type_of(value).shape.element_count().same(Dim(0)))
      fail("run", loc, "a constant of the graph has no elements: ", to_string(type_of(value)));
    for (const auto& body : value.node()->bodies()) check_constants(*body, loc);
  }
}

// The sizes; throws where the inputs are not the graph's, or their sizes are of calls that it was not traced for.
std::vector<std::int64_t> check_inputs(const GraphData& data, std::span<const Tensor> inputs, Loc loc) {
  const Graph& graph = data.graph;
  if (inputs.size() != graph.inputs.size())
    fail("run", loc, "the graph has ", counted(static_cast<std::int64_t>(graph.inputs.size()), "input", "inputs"),
         ", and ", inputs.size(), " were given");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) fail("run", loc, "input ", i, " is an undefined tensor");
    if (inputs[i].node()->trace != 0) fail("run", loc, "input ", i, " is a value of a graph, which can't be read");
  }
  std::vector<std::int64_t> symbols = sizes_for(graph, inputs, loc);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Type wanted = at_sizes(type_of(graph.inputs[i]), symbols), &given = type_of(inputs[i]);
    if (given.dtype != wanted.dtype || given.device != wanted.device || !given.shape.same(wanted.shape))
      fail("run", loc, "input ", i, " is ", to_string(given), ", and the graph's is ", to_string(wanted));
  }
  check_guards(graph, symbols, "run", loc);
  if (data.is_imported) {
    check_constants(graph, loc);
    if (!symbols.empty()) check_sizes_at(graph, symbols, "run", loc);
  }
  return symbols;
}

std::vector<Tensor> run_plan(const Executable& executable, const GraphData& data, std::span<const Tensor> inputs) {
  const Loc loc;
  const Graph& graph = data.graph;
  const std::vector<std::int64_t> symbols = check_inputs(data, inputs, loc);
  evaluate(inputs, loc);
  ArgumentMemory memory;
  std::vector<void*> arguments, results;
  std::vector<Tensor> outputs;
  std::vector<Storage*> on_device;
  const auto note = [&](Storage* block) {
    if (block->device.type == Device::Type::cpu) return;
    if (executable.plan.parts || block->device == executable.plan.device) on_device.push_back(block);
  };
  for (const Tensor& input : inputs) arguments.push_back(memory.elements(input, loc));
  for (Storage* const block : memory.blocks()) note(block);
  const std::size_t read = on_device.size();
  for (const Tensor& output : graph.outputs) {
    outputs.push_back(new_result(output, symbols, loc));
    results.push_back(outputs.back().node()->storage->data);
    note(outputs.back().node()->storage);
  }
  const std::span<Storage* const> blocks = on_device;
  if (!blocks.empty()) note_device_call(blocks.first(read), blocks.subspan(read));
  runtime::run(executable.plan, arguments, results, symbols, nullptr, on_device);
  return outputs;
}

PipelineOptions options_of(const GraphData& data) {
  PipelineOptions options;
  static_cast<FunctionOptions&>(options) = data.options;
  return options;
}

// ---- rewriting ------------------------------------------------------------------------------------------------------

// One trace: what replaces operations is recorded there, over copies of the operands.
class Rewriter {
 public:
  explicit Rewriter(const GraphView::Replace& replace) : replace_(replace) {}
  bool changed = false;

  Graph run(const Graph& graph) {
    Trace trace;
    trace.id = new_trace_id();
    trace.dims.symbols = graph.symbols;
    trace.dims.conditions = graph.conditions;
    const TraceScope scope(trace);
    recorder().autocast = DType::f32;
    Graph made = weft::rewrite(graph, [&](const Node& node, std::span<const Tensor> operands) -> Rewritten {
      const Tensor copy = Builder::copy(node, operands);
      copy.node()->trace = trace.id;
      if (is_loop(node.op)) rewrite_bodies(*copy.node());
      recorder().loc = node.loc;
      Tensor result = replace_(NodeView(copy));
      recorder().loc = {};
      if (!result.defined() || result.same(copy)) return copy;
      check(node, result, trace);
      mark_recomputation(node.recomputation, result, *copy.node(), trace.id);
      changed = true;
      return result;
    });
    if (trace.dims.conditions.size() != graph.conditions.size()) {
      const DimCondition& condition = trace.dims.conditions[graph.conditions.size()];
      fail("rewrite", condition.loc,
           "a replacement compares sizes that no guard holds: ", dims::to_string(condition.left), " and ",
           dims::to_string(condition.right));
    }
    return made;
  }

 private:
  void rewrite_bodies(Node& node) {
    for (auto& body : node.more->bodies) {
      Rewriter inner(replace_);
      Graph made = inner.run(copy_graph(*body));
      if (!inner.changed) continue;
      body = std::make_shared<const Graph>(std::move(made));
      node.more->extends = {};
      changed = true;
    }
  }

  static void check(const Node& node, const Tensor& result, const Trace& trace) {
    const auto refuse = [&](const auto&... words) { fail("rewrite", node.loc, name_of(node), " ", words...); };
    if (node.op == Op::input) refuse("is an input, which stays");
    if (is_effect(node)) refuse("checks something, or talks to other processes: it stays");
    if (node.output_count > 1) refuse("has several results: it can't be replaced");
    if (result.node()->trace != trace.id) refuse("is replaced by a tensor from outside: use constant()");
    if (!type_of(result).same(node.type))
      refuse("gives ", to_string(node.type), ", and what replaces it ", to_string(type_of(result)));
    if (!trace.effects.empty()) refuse("is replaced by what checks something, such as an index");
    if (trace.generator_input.defined()) refuse("is replaced by what draws from the default generator");
  }

  // What was recorded for a value that is to be computed again is computed again too.
  static void mark_recomputation(std::uint32_t recomputation, const Tensor& result, const Node& replaced,
                                 std::uint32_t trace) {
    if (recomputation == 0) return;
    std::vector<Node*> open{result.node()};
    while (!open.empty()) {
      Node& node = *open.back();
      open.pop_back();
      if (node.trace != trace || node.sequence <= replaced.sequence || node.recomputation == recomputation) continue;
      node.recomputation = recomputation;
      for (const Tensor& operand : node.inputs()) open.push_back(operand.node());
    }
  }

  const GraphView::Replace& replace_;
};

}  // namespace

std::vector<std::int64_t> sizes_of_inputs(const GraphView& view, std::span<const Tensor> inputs, Loc loc) {
  return check_inputs(*view.data_, inputs, loc);
}

std::function<Graph(const Graph&)> checked_pass(std::string_view name, GraphPass pass) {
  return [name = std::string(name), pass = std::move(pass)](const Graph& graph) {
    const GraphView made = naming_registered(
        "pass", name, [&] { return pass(view_of(std::make_shared<const GraphData>(GraphData{graph}))); });
    const Graph& after = graph_of(made);
    const auto same = [](const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
      return std::ranges::equal(a, b, [](const Tensor& x, const Tensor& y) { return type_of(x).same(type_of(y)); });
    };
    if (!same(after.inputs, graph.inputs) || !same(after.outputs, graph.outputs))
      fail("compile", {}, "the pass \"", name, "\" gave a graph of other inputs or outputs");
    return after;
  };
}

}  // namespace detail

// ---- NodeView -------------------------------------------------------------------------------------------------------

NodeView::NodeView(Tensor value) : value_(std::move(value)) {
  if (!value_.defined()) fail("NodeView", {}, "an undefined tensor is the value of no operation");
}
std::string_view NodeView::name() const { return name_of(*value_.node()); }
bool NodeView::is_composite() const { return value_.node()->op == Op::call; }
std::span<const Tensor> NodeView::operands() const { return value_.node()->inputs(); }
std::vector<Tensor> NodeView::results() const { return results_of(value_); }
std::string NodeView::attributes() const { return value_.node()->attributes().to_text(value_.node()->type.dtype); }
std::optional<double> NodeView::number() const {
  if (!is_uniform(value_)) return {};
  return value_.node()->attributes<Constant>().as_number(value_.node()->type.dtype);
}
std::vector<GraphView> NodeView::bodies() const {
  std::vector<GraphView> all;
  for (const auto& body : value_.node()->bodies())
    all.push_back(detail::view_of(std::make_shared<const GraphData>(GraphData{*body})));
  return all;
}
Loc NodeView::line() const { return value_.node()->loc; }

// ---- GraphView ------------------------------------------------------------------------------------------------------

const std::vector<Tensor>& GraphView::inputs() const { return data_->graph.inputs; }
const std::vector<Tensor>& GraphView::outputs() const { return data_->graph.outputs; }
const std::vector<Tensor>& GraphView::nodes() const { return data_->graph.nodes; }
bool GraphView::is_constant(std::size_t input) const {
  if (input >= inputs().size()) fail("is_constant", {}, "the graph has no input ", input);
  return std::ranges::binary_search(data_->constants, static_cast<int>(input));
}
std::size_t GraphView::index(const Tensor& value) const {
  const std::uint32_t number = value.defined() ? data_->graph.number(value) : NodeNumbers::none;
  if (number == NodeNumbers::none) fail("index", {}, "the value is of another graph");
  return number;
}
std::string GraphView::text() const { return to_text(data_->graph); }

std::vector<Tensor> GraphView::run(std::span<const Tensor> inputs, Loc loc) const {
  return run_eagerly(data_->graph, inputs, detail::check_inputs(*data_, inputs, loc), loc);
}
std::vector<Tensor> GraphView::run(std::span<const Tensor> inputs, const Watch& watch, Loc loc) const {
  const Graph& graph = data_->graph;
  const WatchNode of_node = [&](const Node& node, std::span<const Tensor> results) {
    watch(NodeView(graph.nodes[graph.number(node)]), results);
  };
  return run_eagerly(graph, inputs, detail::check_inputs(*data_, inputs, loc), loc, &of_node);
}
GraphView GraphView::optimized() const {
  const DecidedSizes sizes(data_->graph);
  return detail::with_graph(*data_, optimize(data_->graph, detail::options_of(*data_)));
}
std::function<std::vector<Tensor>(std::span<const Tensor>)> GraphView::compiled() const {
  detail::check_constants(data_->graph, {});
  std::shared_ptr<const Executable> made = compile_graph(data_->graph, detail::options_of(*data_));
  return [made = std::move(made), data = data_](std::span<const Tensor> inputs) {
    return detail::run_plan(*made, *data, inputs);
  };
}
GraphView GraphView::rewrite(const Replace& replace) const {
  detail::Rewriter rewriter(replace);
  Graph made = rewriter.run(data_->graph);
  return rewriter.changed ? detail::with_graph(*data_, std::move(made)) : *this;
}

// ---- patterns -------------------------------------------------------------------------------------------------------

const Tensor& PatternMatch::operator[](const pattern::Expression& letter) const {
  const Tensor* const value = bound_[letter.terms[0].letter];
  if (!value) fail("register_rewrite", {}, "the pattern has no letter ", pattern::letters[letter.terms[0].letter]);
  return *value;
}

struct PatternPass {
  pattern::Expression from;
  std::function<Tensor(const PatternMatch&)> make;

  GraphView operator()(const GraphView& graph) const {
    return graph.rewrite([&](const NodeView& view) -> Tensor {
      const Node& node = *view.results()[0].node();
      Bindings bindings;
      for (unsigned order = 0; order < order_count(from); ++order) {
        if (!fits(from, node, node.inputs(), order, bindings)) continue;
        PatternMatch match(view);
        std::ranges::copy(bindings.values, match.bound_);
        if (Tensor result = make(match); result.defined()) return result;
      }
      return {};
    });
  }
};

void register_rewrite(PassStage stage, std::string_view name, std::string_view version, const pattern::Expression& from,
                      std::function<Tensor(const PatternMatch&)> make, Loc loc) {
  if (from.size == 0 || from.terms[0].kind != pattern::Term::Kind::operation)
    fail("register_rewrite", loc, "the pattern of \"", name, "\" is no operation");
  if (!make) fail("register_rewrite", loc, "what replaces the pattern of \"", name, "\" is no function");
  register_pass(stage, name, version, PatternPass{from, std::move(make)}, loc);
}

}  // namespace weft
