#include "trace/tracing.hpp"

#include <algorithm>
#include <optional>
#include <range/v3/view/concat.hpp>
#include <unordered_map>

#include "base/dim_conditions.hpp"
#include "base/fail.hpp"
#include "record/record.hpp"
#include "record/taps.hpp"
#include "trace/names.hpp"
#include "trace/symbols.hpp"

namespace weft::detail {

// The implementation of Tracer: one for the length of a trace.
class FunctionTracer final : public Tracer {
 public:
  FunctionTracer(const CallContext& call, std::span<const Guards::Symbol> symbols, const TakenWay& followed)
      : call_(call), layout_(call.layout()), symbols_(symbols), loc_(call.loc) {
    const CompileOptions& options = call.function.options;
    // Values of a device that need not be there can't be read.
    if (!options.fullgraph && !call.function.target) decisions_.emplace(trace_, options.backend.own, followed);
  }
  ~FunctionTracer();

  void begin_trace();
  void end_trace();
  struct InPlace {
    void* object;
    void (*list)(void*, LeafList&);
    std::vector<Tensor> tensors;
    std::vector<std::string> bytes;
  };
  std::vector<InPlace> in_place_objects;
  std::shared_ptr<void> owned_result;
  TracedPath take() { return std::move(path_); }

 private:
  void restore();
  Source source_of(const Tensor& value, const std::string& name);
  void collect_state();

  const CallContext& call_;
  const CallLayout& layout_;
  std::span<const Guards::Symbol> symbols_;
  Loc loc_;
  Trace trace_;
  std::optional<TraceScope> scope_;
  std::vector<Tensor> inputs_;      // by leaf; undefined where the leaf is no tensor
  std::vector<std::string> bytes_;  // by leaf: numbers of state before the function ran
  std::vector<Tensor> outputs_;
  std::unordered_map<std::uint64_t, std::uint32_t> output_indices_;  // by handle
  std::vector<Dim> sizes_;                                           // by symbol
  TraceResult traced_;
  std::optional<Decisions> decisions_;
  TracedPath path_;
};

namespace {

FunctionTracer& whole(Tracer* tracer) { return static_cast<FunctionTracer&>(*tracer); }

bool holds_bytes(LeafKind kind) {
  return kind == LeafKind::number || kind == LeafKind::bytes || kind == LeafKind::text;
}
std::string bytes_of(const Leaf& leaf) {
  return {static_cast<const char*>(leaf.address), static_cast<std::size_t>(leaf.size)};
}

// What is no tensor in a result, which every call gives back as it was when the function was traced.
std::string plain_text(const Leaf& leaf, const std::string& name) {
  if (is_count(leaf.kind)) return name + " is " + count_text(leaf, leaf.size) + "\n";
  if (leaf.kind == LeafKind::param) return leaf.flag ? name + " is frozen\n" : "";
  if (!holds_bytes(leaf.kind)) return "";
  std::string text = name + " is";
  for (const char byte : bytes_of(leaf)) text += concat_text(" ", static_cast<int>(static_cast<unsigned char>(byte)));
  return text + "\n";
}

// A node of the graph that somebody besides the graph holds: a handle was kept in a global, say.
void refuse_escaped(const Graph& graph, Loc loc) {
  std::vector<std::uint32_t> expected(graph.nodes.size(), 1);
  auto count = [&](const Tensor& value) { ++expected[graph.number(value)]; };
  for (const Tensor& value : graph.nodes)
    for (const Tensor& operand : value.node()->inputs()) count(operand);
  for (const Tensor& value : ranges::views::concat(graph.inputs, graph.outputs, graph.effects)) count(value);
  for (auto value = graph.nodes.rbegin(); value != graph.nodes.rend(); ++value) {
    const Node& node = *value->node();
    if (node.op == Op::data || node.references <= expected[graph.number(node)]) continue;
    fail("compile", node.op == Op::input ? loc : node.loc, "a tensor (", to_string(node.type),
         ") of the compiled function, or one computed from it, is still held after the function returned: it has no "
         "value outside the trace; return it instead");
  }
}

}  // namespace

bool moves_to_device(const Function& function, const LeafList& arguments) {
  return function.target && std::ranges::none_of(arguments.leaves, [](const Leaf& leaf) {
           return holds_tensor(leaf.kind) && leaf.tensor().defined() &&
                  type_of(leaf.tensor()).device.type != Device::Type::cpu;
         });
}
Device traced_device(bool moves, const Leaf& leaf) {
  const bool is_number = leaf.kind == LeafKind::scalar || leaf.kind == LeafKind::index;
  return moves && !is_number ? Device::cuda() : type_of(leaf.tensor()).device;
}

void Tracer::remember(void* object, void (*list)(void*, LeafList&)) {
  FunctionTracer::InPlace saved{object, list, {}, {}};
  LeafList leaves;
  list(object, leaves);
  for (const Leaf& leaf : leaves.leaves) {
    if (holds_tensor(leaf.kind))
      saved.tensors.push_back(leaf.tensor());
    else if (holds_bytes(leaf.kind))
      saved.bytes.push_back(bytes_of(leaf));
  }
  whole(this).in_place_objects.push_back(std::move(saved));
}
void Tracer::own(void* result, void (*destroy)(void*)) { whole(this).owned_result = {result, destroy}; }
void Tracer::begin() { whole(this).begin_trace(); }
void Tracer::end() { whole(this).end_trace(); }

FunctionTracer::~FunctionTracer() {
  scope_.reset();
  restore();
}

void FunctionTracer::restore() {
  for (InPlace& saved : in_place_objects) {
    LeafList leaves;
    saved.list(saved.object, leaves);
    std::size_t tensor = 0, bytes = 0;
    for (const Leaf& leaf : leaves.leaves) {
      if (holds_tensor(leaf.kind) && tensor < saved.tensors.size())
        leaf.tensor() = saved.tensors[tensor++];
      else if (holds_bytes(leaf.kind) && bytes < saved.bytes.size()) {
        const std::string& from = saved.bytes[bytes++];
        if (from.size() == leaf.size && !leaf.flag)
          std::copy(from.begin(), from.end(), static_cast<char*>(leaf.address));
      }
    }
  }
  in_place_objects.clear();
}

void FunctionTracer::begin_trace() {
  trace_.id = new_trace_id();
  inputs_.resize(arguments.leaves.size());
  bytes_.resize(arguments.leaves.size());
  for (const Guards::Symbol& symbol : symbols_) {
    const auto size = static_cast<std::int64_t>(call_.scratch.words.data()[symbol.positions[0]]);
    sizes_.push_back(trace_.dims.new_symbol(size, symbol.lower, symbol.upper));
  }
  const bool moves = moves_to_device(call_.function, arguments);
  for (std::size_t i = 0; i < arguments.leaves.size(); ++i) {
    const Leaf& leaf = arguments.leaves[i];
    if (leaf.access == Access::state && holds_bytes(leaf.kind)) bytes_[i] = bytes_of(leaf);
    if (!holds_tensor(leaf.kind) || !leaf.tensor().defined()) continue;
    Type type = type_of(leaf.tensor());
    type.device = traced_device(moves, leaf);
    if (symbolize(type, layout_, i, symbols_, [&](std::size_t number) { return sizes_[number]; }))
      trace_.dims.given.push_back({DimCondition::Kind::less, type.shape.element_count(), Dim(count_limit), true});
    Tensor input = Builder(loc_, 0, trace_.id).input(trace_.inputs.size(), type);
    if (decisions_) decisions_->values.push_back(leaf.tensor());
    trace_.inputs.push_back(input);
    traced_.inputs.push_back(static_cast<std::uint32_t>(i));
    inputs_[i] = input;
    leaf.tensor() = std::move(input);
  }
  if (decisions_) trace_.decider = &*decisions_;
  scope_.emplace(trace_);
  recorder().level_start = UINT64_MAX;  // levels around the call are no levels of the trace
}

Source FunctionTracer::source_of(const Tensor& value, const std::string& name) {
  if (!value.defined()) return {};
  const Node& node = *value.node();
  if (node.trace != trace_.id)
    fail("compile", node.loc.file ? node.loc : loc_, name, " is a tensor from outside the trace (",
         to_string(type_of(value)), "): pass it as an argument, or use constant()");
  if (node.op == Op::input)
    return {Source::Kind::argument, traced_.inputs[static_cast<std::size_t>(node.attributes<Parameter>().slot)]};
  auto [found, added] = output_indices_.emplace(value.word(), static_cast<std::uint32_t>(outputs_.size()));
  if (added) outputs_.push_back(value);
  return {Source::Kind::computed, found->second};
}

// The state after the function, held against the state before it, leaf by leaf.
void FunctionTracer::collect_state() {
  std::size_t next = 0;
  for (std::size_t i = 0; i < arguments.leaves.size(); ++i) {
    const Leaf& before = arguments.leaves[i];
    if (before.access != Access::state) continue;
    bool comparable = next < finals.leaves.size() && finals.leaves[next].kind == before.kind;
    const Leaf after = comparable ? finals.leaves[next++] : before;
    if (!comparable || (!holds_tensor(after.kind) && after.size != before.size)) {
      const auto text = [](const Leaf& leaf) {
        return is_count(leaf.kind) ? count_text(leaf, leaf.size) : std::to_string(leaf.size);
      };
      fail("compile", loc_, layout_.name(i),
           ": a compiled function must not change lengths, presence, alternatives or classes in its state (was ",
           text(before), ", is ", text(after), ")");
    }
    if (holds_tensor(after.kind)) {
      if (after.flag != before.flag)
        fail("compile", loc_, layout_.name(i), ": freeze and unfreeze outside the compiled function");
      if (after.shard() != before.shard())
        fail("compile", loc_, layout_.name(i), ": what a process holds a part of must stay so in a compiled function");
      const Tensor& value = after.tensor();
      if (value.same(inputs_[i])) continue;
      traced_.states.push_back({static_cast<std::uint32_t>(i), source_of(value, layout_.name(i))});
    } else if (holds_bytes(after.kind) && bytes_of(after) != bytes_[i]) {
      if (after.flag)
        fail("compile", loc_, layout_.name(i), ": a compiled function must not change the keys of its state");
      traced_.numbers.push_back({static_cast<std::uint32_t>(i), bytes_of(after)});
    }
  }
  if (next != finals.leaves.size())
    fail("compile", loc_,
         "a compiled function must not change lengths, presence, alternatives or classes in its state");
}

void FunctionTracer::end_trace() {
  std::vector<std::string> names = result_names(call_.signature, results);
  for (std::size_t i = 0; i < results.leaves.size(); ++i) {
    const Leaf& leaf = results.leaves[i];
    if (holds_tensor(leaf.kind)) traced_.results.push_back(source_of(leaf.tensor(), names[i]));
    traced_.plain_results += plain_text(leaf, names[i]);
  }
  collect_state();
  const std::vector<std::uint32_t> leaves = traced_.inputs;  // by slot, without the generator's
  if (trace_.generator_input.defined()) {
    trace_.generator_input.node()->attributes_ = Parameter{static_cast<std::int64_t>(trace_.inputs.size())};
    trace_.inputs.push_back(trace_.generator_input);
    traced_.inputs.push_back(generator_leaf);
    traced_.generator = source_of(trace_.generator_value, "the default generator");
  }
  scope_.reset();
  trace_.decider = nullptr;
  traced_.prototype = std::move(owned_result);
  if (decisions_ && decisions_->any()) {
    traced_.inputs.clear();
    path_ = decisions_->path(std::move(traced_), outputs_, leaves);
    outputs_.clear();
    trace_.inputs.clear();
    trace_.effects.clear();
  } else {
    traced_.graph = make_graph(std::move(trace_.inputs), std::move(outputs_), std::move(trace_.effects));
    traced_.graph.symbols = trace_.dims.symbols;
    traced_.graph.conditions = guarded(trace_.dims);
    path_.steps.emplace_back().traced = std::move(traced_);
  }
  decisions_.reset();
  inputs_.clear();
  trace_.generator_input = trace_.generator_value = Tensor();
  trace_.plain_ones.clear();
  for (const Leaf& leaf : results.leaves)
    if (holds_tensor(leaf.kind)) leaf.tensor() = Tensor();
  restore();
}

TracedPath take_trace(const CallContext& call, std::span<const Guards::Symbol> symbols, const TakenWay& followed) {
  WEFT_CHECK(recorder().traces.empty(), "a trace inside a trace");
  const NoTaps no_taps;
  FunctionTracer tracer(call, symbols, followed);
  call.body(call.body_context, tracer);
  TracedPath path = tracer.take();
  if (!path.resumable) refuse_escaped(path.graph(), call.loc);
  return path;
}

}  // namespace weft::detail
