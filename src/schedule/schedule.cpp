#include "schedule/schedule.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <ranges>
#include <tuple>
#include <unordered_set>

#include "base/fail.hpp"
#include "ir/builder.hpp"
#include "ir/callee.hpp"
#include "schedule/lower.hpp"
#include "schedule/order.hpp"

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

// Below, a value is a node. A node of several results, a call that somebody takes whole, gets one more for each of its
// further results, a cast to its dtype, in which it is read.
Graph with_further_results(const Graph& graph) {
  return rewrite(graph, [](const Node& node, std::span<const Tensor> operands) -> Rewritten {
    if (node.output_count == 1) return {};
    std::vector<Tensor> results = results_of(Builder::copy(node, operands));
    for (Tensor& result : results | std::views::drop(1))
      result = Builder(node).make(Op::cast, {result}, {}, type_of(result));
    return results;
  });
}

class Scheduler {
 public:
  Scheduler(const Graph& graph, Device device, const Providers& providers)
      : graph_(graph),
        device_(device),
        providers_(providers),
        grouping_(group_nodes(graph, device, providers)),
        buffer_(graph.nodes.size(), -1) {}

  Schedule run() {
    make_buffers();
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
    }
    close_tables();
    order_steps(schedule_, checked_steps, Score(graph_, device_), device_);
    drop_unread_constants();
    schedule_.decisions = std::move(grouping_.decisions);
    return std::move(schedule_);
  }

 private:
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

  // Those of which only packed copies are read.
  void drop_unread_constants() {
    std::vector<bool> read(schedule_.buffers.size());
    for (const Step& step : schedule_.steps)
      for (const int buffer : step.buffers) read[static_cast<std::size_t>(buffer)] = true;
    for (std::size_t i = 0; i < read.size(); ++i) {
      ScheduleBuffer& buffer = schedule_.buffers[i];
      if (read[i] || buffer.kind != ScheduleBuffer::Kind::constant) continue;
      buffer.constant = {};
      buffer.elements = 0;
    }
  }

  bool has_stores(int group) const {
    for (std::uint32_t member : grouping_.groups[static_cast<std::size_t>(group)].members)
      if (grouping_.nodes[member].realized) return true;
    return false;
  }

  void make_buffers() {
    std::map<std::uint32_t, int> result_of;
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i)
      result_of[graph_.number(memory_base(graph_.outputs[i]))] = static_cast<int>(i);
    for (const Tensor& value : graph_.nodes) {
      const Node& node = *value.node();
      const Placement& placement = grouping_[value];
      if (placement.role != Role::leaf && !placement.realized) continue;
      if (node.op == Op::check || lies_in_window(node)) continue;
      ScheduleBuffer buffer;
      buffer.dtype = node.type.dtype;
      buffer.elements = node.type.shape.element_count();
      buffer.strides = grouping_.layouts[graph_.number(node)].strides;
      if (node.op == Op::input) {
        buffer.kind = ScheduleBuffer::Kind::argument;
        buffer.index = static_cast<int>(node.attributes<Parameter>().slot);
      } else if (node.op == Op::data) {
        buffer.kind = ScheduleBuffer::Kind::constant;
        buffer.constant = value;
      } else if (auto found = result_of.find(graph_.number(node)); found != result_of.end()) {
        buffer.kind = ScheduleBuffer::Kind::result;
        buffer.index = found->second;
      }
      buffer_[graph_.number(node)] = static_cast<int>(schedule_.buffers.size());
      schedule_.buffers.push_back(std::move(buffer));
    }
    for (const Tensor& value : graph_.nodes) {
      const Node& node = *value.node();
      if (lies_in_window(node)) buffer_[graph_.number(node)] = buffer_of(owner(node));
      note_layout(node);
    }
  }

  bool lies_in_window(const Node& node) const {
    return grouping_.nodes[graph_.number(node)].realized && grouping_.layouts[graph_.number(node)].window_of >= 0;
  }
  // Whose buffer a value's memory is part of, or all of.
  const Node& owner(const Node& node) const {
    return lies_in_window(node)
               ? *graph_.nodes[static_cast<std::size_t>(grouping_.layouts[graph_.number(node)].window_of)].node()
               : node;
  }
  Dim elements_of(const Node& node) const { return owner(node).type.shape.element_count(); }

  void note_layout(const Node& node) {
    const BufferLayout& layout = grouping_.layouts[graph_.number(node)];
    if (!grouping_.nodes[graph_.number(node)].realized || layout.is_contiguous()) return;
    grouping_.note(node, layout.window_of >= 0
                             ? "is written where %" + std::to_string(layout.window_of) + " concat has it: no copy"
                             : "is written in the order that its product reads: no copy");
  }

  int buffer_of(const Node& node) const {
    int buffer = buffer_[graph_.number(node)];
    WEFT_CHECK(buffer >= 0, "%", graph_.number(node), " ", info(node.op).name, " has no memory");
    return buffer;
  }

  LoweringContext context() const {
    return {device_, grouping_, [this](const Node& node) { return buffer_of(node); },
            [this](const Node& node) { return elements_of(node); }};
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
    for (std::uint32_t member : members) {
      const Node& node = *graph_.nodes[member].node();
      std::string where = to_string(node.loc);
      std::string comment = std::string(info(node.op).name) + " " + to_string(node.type);
      if (node.scope) comment += " of " + interned_text(node.scope);
      if (!where.empty()) comment += ", " + where;
      comments.push_back(std::move(comment));
    }
    return comments;
  }

  Step& add_step(loop::Kernel& kernel, const std::vector<std::uint32_t>& members) {
    kernel.name = kernel_name(members);
    kernel.comments = comments_of(members);
    loop::verify(kernel);
    Step& step = schedule_.steps.emplace_back(Step{kernel.name, {}, {}, kernel.comments});
    for (const loop::Buffer& buffer : kernel.buffers) step.buffers.push_back(buffer.value);
    return step;
  }
  void add_kernel(loop::Kernel kernel, const std::vector<std::uint32_t>& members) {
    Step& step = add_step(kernel, members);
    step.payload = providers_.generated({std::move(kernel)});
  }

  struct Table {
    std::size_t step = 0;
    std::vector<loop::Kernel> kernels;
  };
  // Kernels of one depth are independent: those of one text are one launch over a table of their buffers, at the place
  // of the first. What the launch is, is known when the table is closed.
  bool joins_table(loop::Kernel& kernel, const std::vector<std::uint32_t>& members) {
    const std::size_t most = providers_.most_sets(kernel, device_);
    if (most <= 1) return false;
    Table& table = tables_[loop::shared_text(kernel)];
    if (table.kernels.size() == most) close(table);
    if (table.kernels.empty()) {
      table.step = schedule_.steps.size();
      add_step(kernel, members);
    } else {
      Step& step = schedule_.steps[table.step];
      kernel.name = step.name;
      kernel.comments = comments_of(members);
      step.operations.insert(step.operations.end(), kernel.comments.begin(), kernel.comments.end());
      for (const loop::Buffer& buffer : kernel.buffers) step.buffers.push_back(buffer.value);
    }
    table.kernels.push_back(std::move(kernel));
    return true;
  }
  void close(Table& table) {
    schedule_.steps[table.step].payload = providers_.generated(std::move(table.kernels));
    table.kernels.clear();
  }
  void close_tables() {
    for (auto& [text, table] : tables_) close(table);
    tables_.clear();
  }

  void add_stages(loop::Stages stages, const std::vector<std::uint32_t>& members, bool independent = false) {
    const int first = static_cast<int>(schedule_.buffers.size());
    for (const loop::Stages::Partial& partial : stages.partials) {
      ScheduleBuffer buffer;
      buffer.dtype = partial.dtype;
      buffer.elements = partial.elements;
      schedule_.buffers.push_back(std::move(buffer));
    }
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
      StorePoint point{value, {}, buffer_of(node), node.type.dtype, elements_of(node), 0};
      if (node.type.shape.element_count().same(Dim(0))) continue;  // nothing to write
      WEFT_CHECK(grouping_.nodes[member].column ? column_index(group, node.type.shape, point.index)
                                                : member_index(group, node.type.shape, point.index));
      point.target = grouping_.memory_index(node, point.index);
      stores.push_back(std::move(point));
    }
    if (!stores.empty()) add_stages(lower(context(), group, id, stores), group.members, true);
  }

  // A part of an assembled value: a kernel over the part's own index space.
  void add_part(const Node& node, const Tensor& part, const std::function<Dim(const IndexVector&)>& target) {
    Group walk;
    walk.domain = type_of(part).shape;
    if (walk.domain.element_count().same(Dim(0))) return;
    walk.depth = grouping_.nodes[graph_.number(node)].depth;
    StorePoint point{part, domain_index(walk), buffer_of(node), node.type.dtype, elements_of(node), 0};
    point.target = target(point.index);
    add_stages(lower(context(), walk, -1, std::span(&point, 1)), {graph_.number(node)});
  }

  void add_assembled(const Node& node) {
    const std::size_t axis = node.attributes<Along>().axis;
    Dim start = 0;
    int number = 0;
    for (const Tensor& part : node.inputs()) {
      ++number;
      if (!lies_in_window(*part.node())) {
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

  // The operand's strides over the memory below its views. A view that is a result may be copied only later than the
  // step runs, at a depth that is not less than the step's: then that is not its memory yet.
  void read_operand(const Tensor& operand, int depth, int& buffer, Dim& offset, std::vector<Dim>& strides) {
    const Shape& shape = type_of(operand).shape;
    IndexVector axes, index;
    for (int i = 0; i < shape.rank(); ++i) axes.push_back(dims::axis(i, shape[i]));
    index = axes;
    Tensor base = operand;
    const auto has_memory = [&](const Tensor& value) {
      return grouping_[value].role != Role::inlined && grouping_[value].depth < depth;
    };
    while (is_view(base.node()->op) && !has_memory(base)) {
      index = map_through_view(*base.node(), index);
      base = base.node()->input(0);
    }
    WEFT_CHECK(grouping_[base].depth < depth, "%", graph_.number(base), " ", info(base.node()->op).name,
               " is read before it is written");
    buffer = buffer_of(*base.node());
    Dim linear = grouping_.memory_index(*base.node(), index);
    offset = linear;
    for (Dim axis : axes) {
      dims::Linear part = dims::linear_in(linear, axis);
      WEFT_CHECK(part.linear);
      strides.push_back(part.coefficient);
      if (!axis.is_constant())
        offset = dims::substitute(
            offset, [&](const DimNode* atom) { return atom == axis.node() ? Dim(0) : Dim::from_node(atom); });
    }
  }

  // A constant that has unit stride along neither axis of a product would be put in order by each call: once is enough.
  void pack_constant(const Shape& shape, int& buffer, Dim& offset, std::vector<Dim>& strides) {
    const ScheduleBuffer& source = schedule_.buffers[static_cast<std::size_t>(buffer)];
    if (source.kind != ScheduleBuffer::Kind::constant || !offset.is_constant()) return;
    const std::size_t rank = strides.size();
    for (std::size_t axis = 0; axis < rank; ++axis) {
      if (!shape[static_cast<int>(axis)].is_constant() || !strides[axis].is_constant()) return;
      if (axis + 2 >= rank && (strides[axis].same(Dim(1)) || shape[static_cast<int>(axis)].same(Dim(1)))) return;
    }
    ScheduleBuffer packed;
    packed.kind = ScheduleBuffer::Kind::packed;
    packed.dtype = source.dtype;
    packed.constant = source.constant;
    packed.packed_offset = offset.constant();
    packed.elements = 1;
    std::vector<Dim> ordered(rank, Dim(0));
    for (std::size_t axis = rank; axis-- > 0;) {
      const bool repeated = strides[axis].same(Dim(0));
      packed.packed_sizes.insert(packed.packed_sizes.begin(), repeated ? 1 : shape[static_cast<int>(axis)].constant());
      packed.packed_strides.insert(packed.packed_strides.begin(), strides[axis].constant());
      if (repeated) continue;
      ordered[axis] = packed.elements;
      packed.elements = packed.elements * shape[static_cast<int>(axis)];
    }
    buffer = static_cast<int>(schedule_.buffers.size());
    offset = 0;
    strides = std::move(ordered);
    schedule_.buffers.push_back(std::move(packed));
  }

  PlacedValue placed(const Tensor& value, int depth) {
    PlacedValue result{type_of(value), -1, 0, {}};
    read_operand(value, depth, result.buffer, result.offset, result.strides);
    return result;
  }

  // Memory of a result that nobody reads.
  int unread(const Type& type) {
    ScheduleBuffer buffer;
    buffer.dtype = type.dtype;
    buffer.elements = type.shape.element_count();
    schedule_.buffers.push_back(std::move(buffer));
    return static_cast<int>(schedule_.buffers.size()) - 1;
  }

  // An operation that is done whole, by whoever offers it.
  void add_external(const Node& node) {
    Candidate candidate{node, device_, {}};
    for (const Tensor& operand : node.inputs()) {
      PlacedValue value = placed(operand, grouping_.nodes[graph_.number(node)].depth);
      if (node.op == Op::matmul) pack_constant(value.type.shape, value.buffer, value.offset, value.strides);
      candidate.operands.push_back(std::move(value));
    }
    if (!is_effect(node.op)) {
      const BufferLayout& layout = grouping_.layouts[graph_.number(node)];
      const bool plain = layout.is_contiguous();
      candidate.results.push_back({node.type, buffer_of(node), plain ? Dim(0) : layout.offset,
                                   plain ? contiguous_strides(node.type.shape) : layout.strides});
      for (const Type& type : node.more_types())
        candidate.results.push_back({type, -1, 0, contiguous_strides(type.shape)});
      for (const Node* further : further_results_[graph_.number(node)])
        candidate.results[further->input(0).output()].buffer = buffer_of(*further);
      for (PlacedValue& result : candidate.results)
        if (result.buffer < 0) result.buffer = unread(result.type);
    }
    schedule_.steps.push_back(
        {name_of(node), candidate.buffers(), providers_.best(candidate).payload, comments_of({graph_.number(node)})});
  }

  const Graph& graph_;
  Device device_;
  const Providers& providers_;
  Grouping grouping_;
  std::vector<int> buffer_;
  std::map<std::uint32_t, std::vector<const Node*>> further_results_;  // by node: the nodes that are them
  Schedule schedule_;
  std::map<std::string, Table> tables_;  // by the text of the kernel, of this depth
};

}  // namespace

Schedule make_schedule(const Graph& graph, Device device, const Providers& providers) {
  Graph fresh = with_fresh_outputs(with_further_results(graph));
  return Scheduler(fresh, device, providers).run();
}

}  // namespace weft
