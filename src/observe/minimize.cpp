// minimize(): from a graph that is wrong to a small one. In: the graphs of a call, with their inputs. Out: the part
// that is still wrong when everything that can be left out is, and the stage that makes it so. A part is a graph whose
// outputs are some of the values, over inputs that stand for others, with the values that these had.
#include "weft/minimize.hpp"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <ostream>
#include <unordered_map>
#include <unordered_set>

#include "base/fail.hpp"
#include "ir/callee.hpp"
#include "ir/host_function.hpp"
#include "ir/parse.hpp"
#include "ir/remade.hpp"
#include "observe/difference.hpp"
#include "pipeline.hpp"
#include "record/evaluate.hpp"
#include "record/record.hpp"
#include "record/run_graph.hpp"
#include "trace/function.hpp"
#include "trace/registry.hpp"
#include "trace/replay.hpp"
#include "weft/ops.hpp"

namespace weft {
namespace detail {
namespace {

// A graph and what it runs on.
struct Part {
  Graph graph;
  std::vector<Tensor> inputs;
  std::vector<std::int64_t> symbols;
  FunctionOptions function;

  PipelineOptions options() const {
    PipelineOptions options;
    static_cast<FunctionOptions&>(options) = function;
    options.verify = true;
    return options;
  }
};

std::vector<Tensor> reference_of(const Graph& graph, const Part& part) {
  return replay(graph, part.inputs, part.symbols, Backend::reference, {});
}

// How far roundings move the values of a part.
std::vector<RoundingSpread> spreads_of(const Part& part, std::span<const Tensor> expected) {
  std::vector<RoundingSpread> spreads(expected.size());
  for (unsigned seed = 0; seed < rounding_runs; ++seed) {
    const MovedRoundings moves(seed);
    try {
      const std::vector<Tensor> moved = reference_of(part.graph, part);
      for (std::size_t i = 0; i < moved.size(); ++i) spreads[i].add(expected[i], moved[i]);
    } catch (const OutOfMemory&) {
      throw;
    } catch (const Error&) {  // a moved index left its range
    }
  }
  return spreads;
}

// How the values differ from the part's, which are the reference's; empty where they do not.
std::string difference(const Part& part, std::span<const Tensor> found, std::span<const Tensor> expected) {
  std::vector<RoundingSpread> spreads;
  for (std::size_t i = 0; i < found.size(); ++i) {
    std::optional<Distance> distance = distance_of(found[i], expected[i]);
    if (!distance || distance->allowed) continue;
    if (spreads.empty()) spreads = spreads_of(part, expected);
    distance = distance_of(found[i], expected[i], &spreads[i]);
    if (distance && !distance->allowed)
      return concat_text("output ", i, " is ", distance->found, " at element ", distance->element,
                         ", the reference's is ", distance->expected);
  }
  return {};
}

struct Finding {
  std::string symptom, stage;
};

// The first pass that is wrong; empty where none is. What the reference itself refuses is no finding.
Finding wrong_pass(const Part& part, std::span<const Tensor> expected) {
  Finding found;
  std::string before = "the traced graph";
  PipelineOptions options = part.options();
  options.after = [&](const StageView& view) {
    if (!found.symptom.empty()) return;
    before = view.stage;
    found = {difference(part, reference_of(view.graph, part), expected), view.stage};
  };
  try {
    optimize(copy_graph(part.graph), options);
  } catch (const std::exception& error) {
    if (found.symptom.empty()) found = {concat_text("it throws: ", error.what()), "what follows " + before};
  }
  return found.symptom.empty() ? Finding() : found;
}

Finding finding_of(const Part& part) {
  const DecidedSizes sizes(part.graph);
  std::vector<Tensor> expected;
  try {
    expected = reference_of(part.graph, part);
  } catch (const std::exception&) {
    return {};
  }
  if (Finding found = wrong_pass(part, expected); !found.symptom.empty()) return found;
  try {
    const GraphData data{copy_graph(part.graph), part.function};
    std::string symptom =
        difference(part, view_of(std::make_shared<const GraphData>(data)).compiled()(part.inputs), expected);
    return symptom.empty() ? Finding() : Finding{std::move(symptom), "kernels"};
  } catch (const std::exception& error) {
    return {concat_text("it throws: ", error.what()), "kernels"};
  }
}

// The values of all nodes, by handle.
using Values = std::unordered_map<std::uint64_t, Tensor>;
Values values_of(const Part& part) {
  Values values;
  const WatchNode watch = [&](const Node& node, std::span<const Tensor> results) {
    for (unsigned i = 0; i < results.size(); ++i)
      values.insert_or_assign(Tensor(const_cast<Node*>(&node), i).word(), results[i]);
  };
  run_eagerly(part.graph, part.inputs, part.symbols, {}, &watch);
  return values;
}

// The part that gives these outputs, with inputs in the place of what `cut` gives.
Part part_of(const Part& whole, const Values& values, std::span<const Tensor> outputs,
             const std::unordered_set<const Node*>& cut) {
  const Graph& graph = whole.graph;
  std::vector<bool> needed(graph.nodes.size());
  for (const Tensor& output : outputs) needed[graph.number(output)] = true;
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = *graph.nodes[i].node();
    if (!needed[i] || cut.contains(&node)) continue;
    for (const Tensor& operand : node.inputs()) needed[graph.number(operand)] = true;
  }
  Part part{{}, {}, whole.symbols, whole.function};
  std::unordered_map<std::uint64_t, Tensor> made;
  std::vector<Tensor> inputs, nodes, operands;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!needed[i]) continue;
    const Node& node = *graph.nodes[i].node();
    const bool is_input = node.op == Op::input || node.op == Op::data || cut.contains(&node);
    operands.clear();
    Tensor copy;
    if (!is_input) {
      for (const Tensor& operand : node.inputs()) operands.push_back(made.at(operand.word()));
      copy = Builder::copy(node, operands);
    }
    for (unsigned k = 0; k < node.output_count; ++k) {
      const Tensor value(const_cast<Node*>(&node), k);
      if (is_input) {
        made[value.word()] = inputs.emplace_back(Builder(node).input(inputs.size(), type_of(value)));
        part.inputs.push_back(values.at(value.word()));
      } else {
        made[value.word()] = Tensor(copy.node(), k);
      }
    }
  }
  std::vector<Tensor> given;
  for (const Tensor& output : outputs) given.push_back(made.at(output.word()));
  // Inputs of results that nobody reads are not inputs.
  part.graph = remade(graph, std::move(inputs), std::move(given), {});
  return part;
}

// Leaves out what can be, as long as the same stage is wrong.
class Shrinking {
 public:
  Shrinking(const Part& whole, Finding finding)
      : whole_(whole), finding_(std::move(finding)), values_(values_of(whole)) {}

  Part run() {
    Part best = part_of(whole_, values_, outputs_ = whole_.graph.outputs, cut_);
    if (whole_.graph.outputs.size() > 1)
      for (const Tensor& output : whole_.graph.outputs)
        if (attempt({output}, cut_, best)) break;
    // Up from the output, as long as an operand is wrong by itself.
    for (bool moved = outputs_.size() == 1; moved;) {
      moved = false;
      for (const Tensor& operand : outputs_[0].node()->inputs())
        if (operand.node()->op != Op::input && (moved = attempt({operand}, cut_, best))) break;
    }
    // Inputs in the place of operands, as near to the output as it stays wrong.
    std::vector<Tensor> open(outputs_.begin(), outputs_.end());
    std::unordered_set<const Node*> met;
    for (std::size_t i = 0; i < open.size(); ++i)
      for (const Tensor& operand : open[i].node()->inputs()) {
        const Node* const node = operand.node();
        if (node->op == Op::input || node->op == Op::data || node->op == Op::constant || !met.insert(node).second)
          continue;
        std::unordered_set<const Node*> more = cut_;
        more.insert(node);
        if (!attempt(outputs_, more, best)) open.push_back(operand);
      }
    simplify_inputs(best);
    return best;
  }
  const Finding& finding() const { return finding_; }

 private:
  bool is_wrong(const Part& part) {
    if (tries_++ == most_tries) return false;
    Finding found = finding_of(part);
    if (found.symptom.empty() || found.stage != finding_.stage) return false;
    finding_ = std::move(found);
    return true;
  }
  bool attempt(std::vector<Tensor> outputs, std::unordered_set<const Node*> cut, Part& best) {
    if (tries_ >= most_tries) return false;
    Part part = part_of(whole_, values_, outputs, cut);
    if (!is_wrong(part)) return false;
    best = std::move(part);
    outputs_ = std::move(outputs);
    cut_ = std::move(cut);
    return true;
  }
  // Ones, or 1, 2, 3, ..., where these will do.
  void simplify_inputs(Part& best) {
    for (Tensor& input : best.inputs) {
      const Type type = type_of(input);
      const std::int64_t count = type.shape.element_count().constant();
      const Tensor saved = input;
      const Tensor ones = to(full(type.shape, 1, {.dtype = type.dtype}), type.device);
      const Tensor steps =
          to(cast(reshape(arange(count, {.dtype = DType::i64}), type.shape) + 1, type.dtype), type.device);
      for (const Tensor& simple : {ones, steps}) {
        if (type.dtype == DType::boolean || count == 0) continue;
        input = simple;
        input.eval();
        if (is_wrong(best)) break;
        input = saved;
      }
    }
  }

  static constexpr int most_tries = 400;
  const Part& whole_;
  Finding finding_;
  const Values values_;
  std::vector<Tensor> outputs_;
  std::unordered_set<const Node*> cut_;
  int tries_ = 0;
};

std::string input_text(const Tensor& input) {
  const Type& type = type_of(input);
  const bool floating = is_floating(type.dtype);
  std::string text =
      concat_text("    weft::cast(weft::from_span(std::vector<", floating ? "double" : "std::int64_t", ">{");
  const std::size_t count = static_cast<std::size_t>(type.shape.element_count().constant());
  if (floating) {
    std::vector<double> elements(count);
    cast(input, DType::f64).copy_to<double>(elements);
    for (std::size_t i = 0; i < count; ++i) {
      const double x = elements[i];
      text += i ? ", " : "";
      text += std::isnan(x) ? "NAN" : std::isinf(x) ? (x > 0 ? "INFINITY" : "-INFINITY") : concat_text(x);
    }
  } else {
    std::vector<std::int64_t> elements(count);
    cast(input, DType::i64).copy_to<std::int64_t>(elements);
    for (std::size_t i = 0; i < count; ++i) text += (i ? ", " : "") + std::to_string(elements[i]);
  }
  text += "}, {";
  for (int axis = 0; axis < type.shape.rank(); ++axis) text += (axis ? ", " : "") + dims::to_string(type.shape[axis]);
  text += concat_text("}), weft::DType::", type.dtype == DType::boolean ? "boolean" : info(type.dtype).name, ")");
  if (type.device.type != Device::Type::cpu)
    text = concat_text("    weft::to(", text.substr(4), ", weft::Device::cuda(", static_cast<int>(type.device.index),
                       "))");
  return text;
}

std::string program_of(const Part& part, const std::string& graph) {
  std::string text =
      "#include <cmath>\n#include <iostream>\n#include <weft/minimize.hpp>\n#include <weft/weft.hpp>\n\nint main() {\n"
      "  const char* graph = R\"weft(" +
      graph + ")weft\";\n  const std::vector<weft::Tensor> inputs = {\n";
  for (const Tensor& input : part.inputs) text += input_text(input) + ",\n";
  constexpr const char* regions[] = {"automatic", "never"};
  const CompileOptions standard;
  std::string options;
  if (part.function.level != standard.level)
    options += concat_text(".level = weft::Level::O", static_cast<int>(part.function.level));
  if (part.function.region != standard.region)
    options += concat_text(options.empty() ? "" : ", ",
                           ".region = weft::Region::", regions[static_cast<int>(part.function.region)]);
  if (part.function.precision != standard.precision)
    options += std::string(options.empty() ? "" : ", ") + ".precision = weft::Precision::fused";
  if (part.function.float32_products != standard.float32_products)
    options += std::string(options.empty() ? "" : ", ") + ".float32_products = weft::Float32Products::tf32";
  if (part.function.memory_budget != standard.memory_budget)
    options += concat_text(options.empty() ? "" : ", ", ".memory_budget = ", part.function.memory_budget);
  if (!options.empty()) options = ", {" + options + "}";
  return text + "  };\n  std::cout << weft::check_graph(graph, inputs" + options + ") << \"\\n\";\n}\n";
}

std::size_t operations_of(const Graph& graph) {
  return static_cast<std::size_t>(
      std::ranges::count_if(graph.nodes, [](const Tensor& value) { return value.node()->op != Op::input; }));
}

// Without what happens besides computing.
Graph without_effects(const Graph& graph) { return remade(graph, graph.inputs, graph.outputs, {}); }

}  // namespace

struct GraphKeeper::State {
  std::mutex mutex;
  std::vector<Part> parts;
  FunctionHandle function;
};

GraphKeeper::GraphKeeper(const Function* like)
    : state_(new State{{}, {}, FunctionHandle(make_function(like->options, Loc()))}) {
  const CompileOptions options = like->options;
  const std::optional<Device::Type> device = like->chosen.device;
  State* const state = state_;
  const auto keep = [=](const GraphView& view, std::span<const Tensor>) -> BackendExecutable {
    return [=](std::span<const Tensor> inputs) {
      {
        const std::lock_guard lock(state->mutex);
        state->parts.push_back(
            {without_effects(copy_graph(graph_of(view))),
             {inputs.begin(), inputs.end()},
             {sizes_of_call.begin(), sizes_of_call.end()},
             {"minimize", registered_passes(current_passes.load()), device, options.level, options.region,
              options.precision, options.float32_products, options.mode, options.memory_budget}});
      }
      return view.run(inputs);
    };
  };
  Function& function = *state_->function.get();
  function.options.async = false;
  function.options.backend = Backend::eager;
  function.options.auto_select = false;
  function.chosen = {
      Backend::eager, {}, std::make_shared<const RegisteredBackend>(RegisteredBackend{"minimize", keep})};
}
GraphKeeper::~GraphKeeper() { delete state_; }
const FunctionHandle& GraphKeeper::function() const { return state_->function; }

Minimization GraphKeeper::minimize() const {
  const OutsideTraces outside;
  Minimization result;
  std::erase_if(state_->parts, [](const Part& part) { return calls_host(part.graph); });  // it would call again
  for (const Part& part : state_->parts) result.operations_all += operations_of(part.graph);
  for (const Part& part : state_->parts) {
    Finding finding = finding_of(part);
    if (finding.symptom.empty()) continue;
    Shrinking shrinking(part, std::move(finding));
    const Part small = shrinking.run();
    result.symptom = shrinking.finding().symptom;
    result.stage = shrinking.finding().stage;
    result.graph = to_text(small.graph);
    result.inputs = small.inputs;
    result.operations = operations_of(small.graph);
    result.program = program_of(small, result.graph);
    break;
  }
  return result;
}

}  // namespace detail

std::string check_graph(std::string_view text, const std::vector<Tensor>& inputs, const CompileOptions& options,
                        Loc loc) {
  using namespace detail;
  Part part{parse_graph(text),
            inputs,
            {},
            {"minimize",
             registered_passes(current_passes.load()),
             {},
             with_level_of_mode(options, loc).level,
             options.region,
             options.precision,
             options.float32_products,
             options.mode,
             options.memory_budget}};
  for (const DimSymbol& symbol : part.graph.symbols) part.symbols.push_back(symbol.hint);
  if (part.graph.inputs.size() != inputs.size())
    fail("check_graph", loc, "the graph has ", part.graph.inputs.size(), " inputs, given are ", inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Type &type = type_of(inputs[i]), &wanted = type_of(part.graph.inputs[i]);
    if (type.dtype != wanted.dtype || type.shape.rank() != wanted.shape.rank())
      fail("check_graph", loc, "input ", i, " is ", to_string(type), ", the graph's is ", to_string(wanted));
  }
  const Finding found = finding_of(part);
  return found.symptom.empty() ? "" : concat_text(found.symptom, " (", found.stage, ")");
}

std::string to_string(const Minimization& m) {
  if (!m.found()) return concat_text("nothing is wrong in ", m.operations_all, " operations\n");
  return concat_text(m.symptom, "\nfirst wrong after: ", m.stage, "\n", m.operations, " of ", m.operations_all,
                     " operations are left:\n", m.graph, "---- program ----\n", m.program);
}
std::ostream& operator<<(std::ostream& out, const Minimization& minimization) { return out << to_string(minimization); }

}  // namespace weft
