// A grouped graph as steps: kernels of groups and of parts of concatenations, launches over tables of buffers, and what
// providers do whole; in order, with their names and comments.
#include "schedule/schedule.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <map>
#include <ranges>
#include <tuple>
#include <unordered_set>

#include "base/fail.hpp"
#include "ir/builder.hpp"
#include "ir/callee.hpp"
#include "ir/offload_mark.hpp"
#include "schedule/bodies.hpp"
#include "schedule/buffers.hpp"
#include "schedule/channels_last.hpp"
#include "schedule/epilogues.hpp"
#include "schedule/kernel_axes.hpp"
#include "schedule/late_gathers.hpp"
#include "schedule/lowered.hpp"
#include "schedule/order.hpp"
#include "schedule/places.hpp"
#include "schedule/recomputations.hpp"
#include "schedule/repeats.hpp"
#include "schedule/slices.hpp"

namespace weft {
namespace {

// Outputs that are arguments, or the same value twice, get a node of their own, a cast to their dtype: a result is
// fresh memory.
Graph with_fresh_outputs(Graph graph) {
  std::unordered_set<const Node*> taken;
  for (Tensor& output : graph.outputs) {
    const Node* base = memory_base(output).node();
    const bool fresh = base->op != Op::input && base->op != Op::data && taken.insert(base).second;
    if (fresh) continue;
    Tensor copy = Builder(*output.node()).make(Op::cast, {output}, {}, type_of(output));
    graph.add(copy);
    output = copy;
  }
  return graph;
}

// What a loop carries at first, where that is a constant: a node of its own, a cast to its dtype, for each carry. The
// loop updates it where it is; one constant for several carries would be copied for each.
std::vector<Tensor> with_own_constants(const Node& node, std::span<const Tensor> operands, Device device) {
  std::vector<Tensor> own(operands.begin(), operands.end());
  const std::int64_t carries = node.op == Op::scan         ? node.attributes<Scan>().carries
                               : node.op == Op::while_loop ? node.attributes<While>().carries
                                                           : 0;
  for (Tensor& operand : std::span(own).first(static_cast<std::size_t>(carries))) {
    const Type& type = type_of(operand);
    const Dim bytes = storage_bytes(info(type.dtype), type.shape.element_count());
    const Op op = operand.node()->op;
    const bool is_constant = info(op).kind == OpKind::leaf && op != Op::input && op != Op::data;
    if (is_constant && bytes.is_constant() && bytes.constant() >= least_shared(device))
      operand = Builder(node).make(Op::cast, {operand}, {}, type);
  }
  return own;
}

// Below, a value is a node. A node of several results, a call that somebody takes whole, gets one more for each of its
// further results, a cast to its dtype, in which it is read.
Graph with_further_results(const Graph& graph, Device device) {
  return rewrite(graph, [device](const Node& node, std::span<const Tensor> given) -> Rewritten {
    if (node.output_count == 1 && !is_loop(node.op)) return {};
    const std::vector<Tensor> operands = with_own_constants(node, given, device);
    if (node.output_count == 1) return Builder::copy(node, operands);
    std::vector<Tensor> results = results_of(Builder::copy(node, operands));
    for (Tensor& result : results | std::views::drop(1))
      result = Builder(node).make(Op::cast, {result}, {}, type_of(result));
    return results;
  });
}

// By node: whether it is one of these inputs, or computed of such and of numbers that the graph holds.
std::vector<bool> constant_values(const Graph& graph, std::span<const int> constant_inputs) {
  std::vector<bool> all(graph.nodes.size(), false), held = all;  // held: such numbers alone
  if (constant_inputs.empty()) return all;
  for (const int input : constant_inputs) {
    const std::uint32_t number = graph.number(graph.inputs[static_cast<std::size_t>(input)]);
    if (number != NodeNumbers::none) all[number] = true;
  }
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = *graph.nodes[i].node();
    const auto is_constant = [&](const Tensor& of) { return bool(all[graph.number(of)]); };
    const auto is_held = [&](const Tensor& of) { return bool(held[graph.number(of)]); };
    const auto is_known = [&](const Tensor& of) { return is_constant(of) || is_held(of); };
    const bool is_leaf = node.op == Op::constant || node.op == Op::data;
    held[i] = is_leaf || (is_view(node.op) && std::ranges::all_of(node.inputs(), is_held));
    if (node.operand_count > 0 && !is_effect(node))
      all[i] = std::ranges::all_of(node.inputs(), is_known) && std::ranges::any_of(node.inputs(), is_constant);
  }
  return all;
}

class Scheduler {
 public:
  Scheduler(const Graph& graph, Device device, const Providers& providers, ScheduleChoices choices,
            std::span<const int> constant_inputs, BodyScheduler& bodies, bool borders)
      : graph_(graph),
        device_(device),
        providers_(providers),
        choices_(choices),
        bodies_(bodies),
        grouping_(group_nodes(graph, device, providers, choices.fuses, borders)),
        buffers_(graph, grouping_, schedule_.buffers),
        lowered_({device, grouping_, [this](const Node& node) { return buffers_.of(node); },
                  [this](const Node& node) { return buffers_.elements_of(node); }, choices.elides_roundings},
                 choices.regions),
        is_constant_(constant_values(graph, constant_inputs)) {}

  Schedule run() {
    struct Item {
      bool after_checks;  // no check waits for it
      int depth;
      std::uint32_t node;  // first in recording order: a stable second key
      int group;
    };
    std::vector<Item> items;
    int deepest = 0;
    for (const Placement& placement : grouping_.nodes) deepest = std::max(deepest, placement.depth);
    const std::vector<bool> read = groups_read_by_others(), checked = read_by_checks();
    for (std::size_t g = 0; g < grouping_.groups.size(); ++g)
      if (grouping_.groups[g].merged_into < 0 && has_stores(static_cast<int>(g))) {
        const bool late = !read[g] && may_wait(grouping_.groups[g]);
        const std::uint32_t first = grouping_.groups[g].members.front();
        items.push_back({!checked[first], late ? deepest : grouping_.groups[g].depth, first, static_cast<int>(g)});
      }
    for (const Tensor& value : graph_.nodes) {
      const Placement& placement = grouping_[value];
      if (is_further_result(*value.node())) {
        further_results_[graph_.number(value.node()->input(0))].push_back(value.node());
        continue;
      }
      if (placement.role == Role::external || placement.role == Role::assembled)
        items.push_back({!checked[graph_.number(value)], placement.depth, graph_.number(value), -1});
    }
    // What is checked comes first: a call that fails has done little, and what it writes into memory of its arguments
    // comes after all checks.
    std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
      return std::tie(a.after_checks, a.depth, a.node) < std::tie(b.after_checks, b.depth, b.node);
    });
    const Item* before = nullptr;
    std::size_t checked_steps = 0;
    const std::vector<std::uint32_t> of_nodes = ranks_of_recomputations(graph_);
    std::vector<std::uint32_t> ranks;  // of steps
    for (const Item& item : items) {
      if (before && (item.depth != before->depth || item.after_checks != before->after_checks)) close_tables();
      before = &item;
      const Node& node = *graph_.nodes[item.node].node();
      if (item.group >= 0)
        add_group(item.group);
      else if (grouping_.nodes[item.node].role == Role::external)
        add_external(node);
      else
        add_assembled(node);
      if (!item.after_checks) checked_steps = schedule_.steps.size();
      if (!of_nodes.empty()) ranks.resize(schedule_.steps.size(), rank_of(item.group, item.node, of_nodes));
    }
    close_tables();
    if (!of_nodes.empty()) ranks.resize(schedule_.steps.size(), UINT32_MAX);
    order_steps(schedule_, checked_steps, ranks, Score(graph_, device_), device_);
    if (choices_.fuses) {
      join_products(schedule_, providers_, device_);
      join_epilogues(schedule_, providers_, device_);
      write_slices(schedule_, device_, providers_);
    }
    buffers_.drop_unread_constants(schedule_.steps);
    schedule_.decisions = std::move(grouping_.decisions);
    return std::move(schedule_);
  }

 private:
  std::uint32_t rank_of(int group, std::uint32_t node, std::span<const std::uint32_t> ranks) const {
    std::uint32_t rank = ranks[node];
    if (group >= 0)
      for (const std::uint32_t member : grouping_.groups[static_cast<std::size_t>(group)].members)
        rank = std::max(rank, ranks[member]);
    return rank;
  }
  // By node: whether a check, or a kernel that computes something for a check, reads it.
  std::vector<bool> read_by_checks() const {
    std::vector<bool> read(graph_.nodes.size(), false);
    std::vector<std::uint32_t> open;
    const auto add = [&](std::uint32_t node) {
      if (read[node]) return;
      read[node] = true;
      open.push_back(node);
    };
    for (const Tensor& value : graph_.nodes)
      if (is_effect(*value.node())) add(graph_.number(value));
    while (!open.empty()) {
      const std::uint32_t node = open.back();
      open.pop_back();
      for (const Tensor& operand : graph_.nodes[node].node()->inputs()) add(graph_.number(operand));
      const Placement& placement = grouping_.nodes[node];
      if (placement.role != Role::grouped) continue;
      for (const std::uint32_t member : grouping_.groups[static_cast<std::size_t>(placement.group)].members)
        add(member);
    }
    return read;
  }
  // By group: whether another step reads what it computes.
  std::vector<bool> groups_read_by_others() const {
    std::vector<bool> read(grouping_.groups.size(), false);
    for (const Tensor& value : graph_.nodes) {
      const Placement& reader = grouping_[value];
      for (const Tensor& operand : value.node()->inputs()) {
        const Placement& placement = grouping_[operand];
        if (placement.role == Role::grouped && (reader.role != Role::grouped || reader.group != placement.group))
          read[static_cast<std::size_t>(placement.group)] = true;
      }
    }
    return read;
  }
  // A small kernel that only gives results, as the update of a parameter is, may wait for others of its text: it is
  // launched with them. What it reads lives as long.
  bool may_wait(const Group& group) const {
    if (device_.type == Device::Type::cpu) return false;
    const Dim elements = group.domain.element_count();
    return elements.is_constant() && elements.constant() <= 1 << 20;
  }

  bool has_stores(int group) const {
    for (std::uint32_t member : grouping_.groups[static_cast<std::size_t>(group)].members)
      if (grouping_.nodes[member].realized) return true;
    return false;
  }

  // softmax_sum: what a person recognizes, made of our own words only. The pipeline makes it a unique symbol.
  std::string kernel_name(const std::vector<std::uint32_t>& members) {
    std::vector<std::string> words;
    for (std::uint32_t member : members) {
      const Node& node = *graph_.nodes[member].node();
      std::string word = node.scope ? interned_text(node.scope) : info(node.op).name;
      std::string clean;
      for (char c : word) clean += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
      if (std::find(words.begin(), words.end(), clean) == words.end()) words.push_back(clean);
    }
    std::string name;
    for (std::size_t i = 0; i < words.size() && i < 4; ++i) name += (i ? "_" : "") + words[i];
    return name;
  }

  // For people: an operation each, with the user's line.
  std::vector<std::string> comments_of(const std::vector<std::uint32_t>& members) const {
    std::vector<std::string> comments;
    for (std::uint32_t member : members) comments.push_back(operation_text(*graph_.nodes[member].node()));
    return comments;
  }

  loop::Stages lowered(const Group& group, int id, std::span<const StorePoint> stores) {
    return lowered_(group, id, stores, [&] {
      return LoweredGroups::Words{kernel_name(group.members), comments_of(group.members)};
    });
  }

  void note_regions(Step& step, std::span<const std::uint32_t> members) const {
    const auto region = [&](std::uint32_t member) { return region_of(*graph_.nodes[member].node()); };
    if (step.regions.empty() && std::ranges::none_of(members, region)) return;
    for (const std::uint32_t member : members)
      if (std::ranges::find(step.regions, region(member)) == step.regions.end()) step.regions.push_back(region(member));
  }

  Step& add_step(const loop::Kernel& kernel) {
    Step& step = schedule_.steps.emplace_back(Step{kernel.name, {}, {}, kernel.comments});
    for (const loop::Buffer& buffer : kernel.buffers) step.buffers.push_back(buffer.value);
    return step;
  }
  void add_kernel(loop::Kernel kernel, std::span<const std::uint32_t> members) {
    Step& step = add_step(kernel);
    note_regions(step, members);
    step.payload = providers_.generated({std::move(kernel)});
  }

  struct Table {
    std::size_t step = 0;
    std::vector<loop::Kernel> kernels;
  };
  // Kernels of one depth are independent: those of one text are one launch over a table of their buffers, at the place
  // of the first. What the launch is, is known when the table is closed: where the kernels differ in the extent of
  // their first axis, it is a slot.
  bool joins_table(loop::Kernel& kernel, std::span<const std::uint32_t> members) {
    const std::size_t most = providers_.most_sets(kernel, device_);
    if (most <= 1) return false;
    const std::optional<loop::Kernel> any = with_any_first_extent(kernel);
    // What is computed for two recomputations is wanted at two times.
    const std::uint32_t again = members.empty() ? 0 : graph_.nodes[members.front()].node()->recomputation;
    // What is made of constants is made once (runtime/constants.hpp), where nothing else is in its launch.
    const bool once = std::ranges::all_of(members, [&](std::uint32_t member) { return bool(is_constant_[member]); });
    Table& table = tables_[{loop::shared_text(any ? *any : kernel), again, once}];
    if (table.kernels.size() == most) close(table);
    if (table.kernels.empty()) {
      table.step = schedule_.steps.size();
      add_step(kernel);
    } else {
      Step& step = schedule_.steps[table.step];
      kernel.name = step.name;
      step.operations.insert(step.operations.end(), kernel.comments.begin(), kernel.comments.end());
      for (const loop::Buffer& buffer : kernel.buffers) step.buffers.push_back(buffer.value);
    }
    note_regions(schedule_.steps[table.step], members);
    table.kernels.push_back(std::move(kernel));
    return true;
  }
  void close(Table& table) {
    const auto differs = [&](const loop::Kernel& kernel) {
      return loop::shared_text(kernel) != loop::shared_text(table.kernels[0]);
    };
    if (table.kernels.size() > 1 && std::ranges::any_of(table.kernels, differs))
      for (loop::Kernel& kernel : table.kernels) kernel = *with_any_first_extent(kernel);
    schedule_.steps[table.step].payload = providers_.generated(std::move(table.kernels));
    table.kernels.clear();
  }
  void close_tables() {
    for (auto& [text, table] : tables_) close(table);
    tables_.clear();
  }

  void add_stages(loop::Stages stages, std::span<const std::uint32_t> members, bool independent = false) {
    const int first = static_cast<int>(schedule_.buffers.size());
    for (const loop::Stages::Partial& partial : stages.partials)
      buffers_.add_temporary(partial.dtype, partial.elements);
    if (independent && stages.kernels.size() == 1 && joins_table(stages.kernels[0], members)) return;
    for (loop::Kernel& kernel : stages.kernels) {
      for (loop::Buffer& buffer : kernel.buffers)
        if (buffer.value <= loop::partial(0)) buffer.value = first + (loop::partial(0) - buffer.value);
      add_kernel(std::move(kernel), members);
    }
  }

  void add_group(int id) {
    const Group& group = grouping_.groups[static_cast<std::size_t>(id)];
    std::vector<StorePoint> stores;
    for (std::uint32_t member : group.members) {
      if (!grouping_.nodes[member].realized) continue;
      const Tensor& value = graph_.nodes[member];
      const Node& node = *value.node();
      StorePoint point{value, {}, buffers_.of(node), node.type.dtype, buffers_.elements_of(node), 0};
      if (node.type.shape.element_count().same(Dim(0))) continue;  // nothing to write
      WEFT_CHECK(grouping_.nodes[member].column ? column_index(group, node.type.shape, point.index)
                                                : member_index(group, node.type.shape, point.index));
      point.target = grouping_.memory_index(node, point.index);
      stores.push_back(std::move(point));
    }
    if (!stores.empty()) add_stages(lowered(group, id, stores), group.members, true);
  }

  // A part of an assembled value: a kernel over the part's own index space.
  void add_part(const Node& node, const Tensor& part, const std::function<Dim(const IndexVector&)>& target) {
    Group walk;
    walk.domain = type_of(part).shape;
    if (walk.domain.element_count().same(Dim(0))) return;
    walk.depth = grouping_.nodes[graph_.number(node)].depth;
    walk.members.push_back(graph_.number(node));
    StorePoint point{part, domain_index(walk), buffers_.of(node), node.type.dtype, buffers_.elements_of(node), 0};
    point.target = target(point.index);
    add_stages(lowered(walk, -1, std::span(&point, 1)), walk.members);
  }

  void add_assembled(const Node& node) {
    const std::size_t axis = node.attributes<Along>().axis;
    Dim start = 0;
    int number = 0;
    for (const Tensor& part : node.inputs()) {
      ++number;
      if (!buffers_.is_written_in_place(part)) {
        grouping_.note(node, "starts a kernel: part " + std::to_string(number) +
                                 " is no kernel's own result, or is read elsewhere too, and is copied");
        add_part(node, part, [&](IndexVector index) {
          index[axis] = index[axis] + start;
          return grouping_.memory_index(node, index);
        });
      }
      start = start + type_of(part).shape[static_cast<int>(axis)];
    }
  }

  PlacedValue placed_result(const Node& node) const {
    const BufferLayout& layout = grouping_.layouts[graph_.number(node)];
    const bool plain = layout.is_contiguous();
    return {node.type, buffers_.of(node), plain ? Dim(0) : layout.offset,
            plain ? contiguous_strides(node.type.shape) : layout.strides};
  }

  // An operation that is done whole, by whoever offers it.
  void add_external(const Node& node) {
    Candidate candidate{node, device_, {}};
    candidate.choices = choices_;
    for (const Tensor& operand : node.inputs()) {
      PlacedValue value = buffers_.operand(operand, grouping_.nodes[graph_.number(node)].depth);
      if (node.op == Op::matmul) buffers_.pack_constant(value);
      value.is_constant = is_constant_[graph_.number(operand)];
      candidate.operands.push_back(std::move(value));
    }
    if (node.op != Op::check) {
      candidate.results.push_back(placed_result(node));
      for (const Type& type : node.more_types())
        candidate.results.push_back({type, -1, 0, contiguous_strides(type.shape)});
      for (const Node* further : further_results_[graph_.number(node)])
        candidate.results[further->input(0).output()] = placed_result(*further);
      for (PlacedValue& result : candidate.results)
        if (result.buffer < 0)  // nobody reads it
          result.buffer = buffers_.add_temporary(result.type.dtype, result.type.shape.element_count());
    }
    schedule_.steps.push_back({name_of(node), candidate.buffers(), bodies_.payload(node, providers_.best(candidate)),
                               comments_of({graph_.number(node)})});
    const std::uint32_t number = graph_.number(node);
    note_regions(schedule_.steps.back(), std::span(&number, 1));
  }

  const Graph& graph_;
  Device device_;
  const Providers& providers_;
  const ScheduleChoices choices_;
  BodyScheduler& bodies_;
  Grouping grouping_;
  std::map<std::uint32_t, std::vector<const Node*>> further_results_;  // by node: those of its further results
  Schedule schedule_;
  ScheduleBuffers buffers_;
  LoweredGroups lowered_;
  const std::vector<bool> is_constant_;
  // By the text of the kernel, of this depth, its recomputation, and whether it is of constants.
  std::map<std::tuple<std::string, std::uint32_t, bool>, Table> tables_;
};

// What a schedule moves, with what its launches are worth.
double bytes_of(const Schedule& schedule, const Score& score) {
  double bytes = 0;
  for (const Step& step : schedule.steps) bytes += score.number(step.payload->cost().bytes) + score.launch();
  return bytes;
}

// The schedule whose kernels end at the borders of regions, where that is worth it.
Schedule chosen_at_borders(Schedule over, Schedule up_to, const Score& score) {
  const Code code = code_of(over), less = code_of(up_to);
  const double more = bytes_of(up_to, score) / std::max(bytes_of(over, score), 1.0) - 1;
  char share[32];
  std::snprintf(share, sizeof share, "%.1f", 100 * more);
  const bool ends = 10 * less.work() <= 9 * code.work() && more <= border_share;
  Schedule& chosen = ends ? up_to : over;
  chosen.borders =
      concat_text(ends ? "kernels end" : "kernels do not end", " at the borders of regions: ", less.functions,
                  " functions of ", less.instructions, " instructions in the place of ", code.functions, " of ",
                  code.instructions, ", ", share, " % more bytes");
  return std::move(chosen);
}

}  // namespace

Schedule make_schedule(const Graph& graph, Device device, const Providers& providers, ScheduleChoices choices,
                       std::span<const int> constant_inputs) {
  Graph fresh = with_fresh_outputs(with_further_results(with_late_gathers(graph), device));
  if (choices.fuses) fresh = with_channels_last(fresh, providers, device);
  BodyScheduler bodies(device, providers, choices);
  const auto made = [&](bool borders) {
    return Scheduler(fresh, device, providers, choices, constant_inputs, bodies, borders).run();
  };
  Schedule over = made(false);
  if (!choices.fuses || !choices.regions || !uses_differ(over)) return over;
  return chosen_at_borders(std::move(over), made(true), Score(fresh, device));
}

}  // namespace weft
