#include "pipeline/node_times.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <mutex>

#include "base/fail.hpp"
#include "base/fork.hpp"
#include "base/lazy.hpp"
#include "base/log.hpp"
#include "ir/builder.hpp"
#include "ir/partition.hpp"
#include "providers/measured.hpp"
#include "runtime/parallel.hpp"
#include "runtime/watch.hpp"
#include "weft/error.hpp"

namespace weft {
namespace {

constexpr int rounds = 5;
constexpr double least_time = 0.1;    // seconds: of all rounds, so that one of them is not disturbed by other programs
constexpr double long_enough = 2e-4;  // seconds: a run that takes less is timed together with others
constexpr std::int64_t in_cache = std::int64_t{1} << 15;  // elements, for each thread
constexpr std::int64_t streamed = std::int64_t{1} << 25;  // elements: more than caches hold

bool is_function(Op op) { return is_pointwise(op) && info(op).cost > 1; }
bool is_timed_whole(Op op) {
  const OpKind kind = info(op).kind;
  return kind == OpKind::reduce || kind == OpKind::cumulative || kind == OpKind::contraction ||
         kind == OpKind::convolution;
}

Type of_shape(Type type, const Shape& shape) {
  type.shape = shape;
  return type;
}
Type at_hints(Type type, std::span<const DimSymbol> symbols) {
  for (int axis = 0; axis < type.shape.rank(); ++axis) type.shape[axis] = dims::at_hints(type.shape[axis], symbols);
  return type;
}

// One operation alone.
Graph trial_of(Op op, const Attributes& attributes, std::span<const Type> operands, const Type& result) {
  const Builder build({}, 0, 0);
  std::vector<Tensor> inputs;
  for (const Type& operand : operands) inputs.push_back(build.input(inputs.size(), operand));
  const Tensor made = build.make(op, inputs, attributes, result);
  return make_graph(inputs, {made}, {});
}
Graph whole_trial(const Node& node, std::span<const DimSymbol> symbols) {
  std::vector<Type> operands;
  for (const Tensor& operand : node.inputs()) operands.push_back(at_hints(type_of(operand), symbols));
  return trial_of(node.op, node.attributes(), operands, at_hints(node.type, symbols));
}
std::int64_t elements_in_cache() { return in_cache * num_threads(); }
Graph trial_in_cache(Op op, const Node& node) {
  const Shape shape = Shape::of(elements_in_cache());
  std::vector<Type> operands;
  for (const Tensor& operand : node.inputs()) operands.push_back(of_shape(type_of(operand), shape));
  return trial_of(op, {}, operands, of_shape(node.type, shape));
}
// An operation of as many operands that takes as long as memory does.
Op cheap_op(const Node& node) { return node.inputs().size() == 1 ? Op::neg : Op::add; }
Graph memory_trial() {
  const Type type = of_shape({}, Shape::of(streamed));
  return trial_of(Op::neg, {}, {{type}}, type);
}

// Seconds of a run, by trial.
std::vector<double> time(const std::vector<Graph>& trials, const PipelineOptions& asked) {
  PipelineOptions options;
  options.title = "a trial of an operation";
  options.level = asked.level;
  options.precision = asked.precision;
  options.float32_products = asked.float32_products;
  const auto executables = compile_graphs(trials, options);
  const runtime::Watching unwatched(nullptr);
  std::vector<double> all;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    std::vector<providers::TrialMemory> memory;
    std::vector<void*> arguments, results;
    const auto add = [&](const Tensor& value, bool read, std::vector<void*>& to) {
      memory.emplace_back(type_of(value).dtype, dims::at_hints(type_of(value).shape.element_count()), read);
      to.push_back(memory.back().data());
    };
    for (const Tensor& input : trials[i].inputs) add(input, true, arguments);
    for (const Tensor& output : trials[i].outputs) add(output, false, results);
    const auto seconds_of = [&](int runs) {
      const auto start = std::chrono::steady_clock::now();
      for (int run = 0; run < runs; ++run) runtime::run(executables[i]->plan, arguments, results, {});
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / runs;
    };
    const double first = seconds_of(1);  // may make what later runs find
    const int runs = std::max(1, static_cast<int>(long_enough / std::max(std::min(first, seconds_of(1)), 1e-6)));
    double least = std::numeric_limits<double>::infinity();
    double sum = 0;
    for (int round = 0; round < rounds || sum < least_time; ++round) {
      const double seconds = seconds_of(runs);
      least = std::min(least, seconds);
      sum += seconds * runs;
    }
    all.push_back(least);
    if (logging::enabled(logging::Channel::kernels))
      logging::write(logging::Channel::kernels,
                     concat_text("alone, for the memory budget: ", least * 1e6, " us\n", structure_text(trials[i])));
  }
  return all;
}

// Seconds by trial. Of threads that measure the same at once, the first to end is believed by all.
class Known {
 public:
  // As many seconds as trials.
  static std::vector<double> seconds(const std::vector<Graph>& trials, const PipelineOptions& options) {
    static constinit Lazy<Known> known;
    return known.get().seconds_of(trials, options);
  }

 private:
  std::vector<double> seconds_of(const std::vector<Graph>& trials, const PipelineOptions& options) {
    std::vector<std::string> names;
    for (const Graph& trial : trials)
      names.push_back(concat_text(static_cast<int>(options.precision), static_cast<int>(options.float32_products), " ",
                                  structure_text(trial)));
    std::map<std::string, Graph> unknown;
    {
      const std::lock_guard lock(process_mutex(LockOrder::rates));
      for (std::size_t i = 0; i < trials.size(); ++i)
        if (!seconds_.contains(names[i])) unknown.try_emplace(names[i], trials[i]);
    }
    std::vector<Graph> measured;
    for (const auto& [name, trial] : unknown) measured.push_back(trial);
    const std::vector<double> fresh = measured.empty() ? std::vector<double>() : time(measured, options);
    const std::lock_guard lock(process_mutex(LockOrder::rates));
    std::size_t at = 0;
    for (const auto& [name, trial] : unknown) seconds_.try_emplace(name, fresh[at++]);
    std::vector<double> all;
    for (const std::string& name : names) all.push_back(seconds_.at(name));
    return all;
  }

  std::map<std::string, double> seconds_;
};

}  // namespace

std::vector<double> measured_times(const Graph& graph, const PipelineOptions& options) {
  std::vector<double> times(graph.nodes.size(), -1);
  std::vector<Graph> trials{memory_trial()};
  std::vector<std::size_t> nodes;  // a trial each; of a function another one, whose time is subtracted
  for (std::size_t i = 0; i < times.size(); ++i) {
    const Node& node = *graph.nodes[i].node();
    if (!is_function(node.op) && !is_timed_whole(node.op)) continue;
    nodes.push_back(i);
    trials.push_back(is_function(node.op) ? trial_in_cache(node.op, node) : whole_trial(node, graph.symbols));
    if (is_function(node.op)) trials.push_back(trial_in_cache(cheap_op(node), node));
  }
  std::vector<double> seconds;
  try {
    seconds = Known::seconds(trials, options);
  } catch (const CompileError&) {
    return times;
  } catch (const OutOfMemory&) {
    return times;
  }
  const double of_byte = seconds[0] / (2.0 * static_cast<double>(streamed) * sizeof(float));
  const std::vector<double> estimated = times_of(graph);
  std::size_t at = 1;
  for (const std::size_t i : nodes) {
    const Node& node = *graph.nodes[i].node();
    const double taken = seconds[at++] / of_byte;
    times[i] = taken;
    if (!is_function(node.op)) continue;
    const double beyond = std::max(0.0, taken - seconds[at++] / of_byte);
    const auto elements = static_cast<double>(dims::at_hints(node.type.shape.element_count(), graph.symbols));
    times[i] = estimated[i] / info(node.op).cost + beyond * elements / static_cast<double>(elements_in_cache());
  }
  return times;
}

}  // namespace weft
