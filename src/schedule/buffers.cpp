#include "schedule/buffers.hpp"

#include <map>

#include "base/fail.hpp"
#include "ir/offload_mark.hpp"

namespace weft {

ScheduleBuffers::ScheduleBuffers(const Graph& graph, Grouping& grouping, std::vector<ScheduleBuffer>& buffers)
    : graph_(graph), grouping_(grouping), buffers_(buffers), buffer_(graph.nodes.size(), -1) {
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
    using Kind = ScheduleBuffer::Kind;
    if (buffer.kind == Kind::temporary || buffer.kind == Kind::result) buffer.what = operation_text(node);
    buffer.may_leave = buffer.kind == Kind::temporary && is_offloaded(node) && !node.recomputation;
    buffer_[graph_.number(node)] = static_cast<int>(buffers_.size());
    buffers_.push_back(std::move(buffer));
  }
  for (const Tensor& value : graph_.nodes) {
    const Node& node = *value.node();
    if (lies_in_window(node)) buffer_[graph_.number(node)] = of(owner(node));
    note_layout(node);
  }
}

bool ScheduleBuffers::lies_in_window(const Node& node) const {
  return grouping_.nodes[graph_.number(node)].realized && grouping_.layouts[graph_.number(node)].window_of >= 0;
}
bool ScheduleBuffers::is_written_in_place(Tensor part) const {
  while (is_view(part.node()->op)) part = part.node()->input(0);
  return lies_in_window(*part.node());
}
const Node& ScheduleBuffers::owner(const Node& node) const {
  return lies_in_window(node)
             ? *graph_.nodes[static_cast<std::size_t>(grouping_.layouts[graph_.number(node)].window_of)].node()
             : node;
}

void ScheduleBuffers::note_layout(const Node& node) {
  const BufferLayout& layout = grouping_.layouts[graph_.number(node)];
  if (!grouping_.nodes[graph_.number(node)].realized || layout.is_contiguous()) return;
  grouping_.note(node, layout.window_of >= 0
                           ? "is written where %" + std::to_string(layout.window_of) + " concat has it: no copy"
                       : layout.channels_last ? "lies with its channels last, as convolutions read it"
                                              : "is written in the order that its product reads: no copy");
}

int ScheduleBuffers::of(const Node& node) const {
  int buffer = buffer_[graph_.number(node)];
  WEFT_CHECK(buffer >= 0, "%", graph_.number(node), " ", info(node.op).name, " has no memory");
  return buffer;
}

int ScheduleBuffers::add_temporary(DType dtype, Dim elements) {
  ScheduleBuffer buffer;
  buffer.dtype = dtype;
  buffer.elements = elements;
  buffer.what = "partial results";
  buffers_.push_back(std::move(buffer));
  return static_cast<int>(buffers_.size()) - 1;
}

PlacedValue ScheduleBuffers::operand(const Tensor& value, int depth) const {
  PlacedValue result{type_of(value), -1, 0, {}};
  const Shape& shape = result.type.shape;
  IndexVector axes, index;
  for (int i = 0; i < shape.rank(); ++i) axes.push_back(dims::axis(i, shape[i]));
  index = axes;
  Tensor base = value;
  const auto has_memory = [&](const Tensor& value) {
    return grouping_[value].role != Role::inlined && grouping_[value].depth < depth;
  };
  while (is_view(base.node()->op) && !has_memory(base)) {
    index = map_through_view(*base.node(), index);
    base = base.node()->input(0);
  }
  if (const Placement& placement = grouping_[base]; placement.chosen && !placement.realized) {
    const Tensor index_of = base.node()->input(1);
    base = base.node()->input(0);
    WEFT_CHECK(grouping_[index_of].depth < depth, "%", graph_.number(index_of), " is read before it is written");
    result.chosen = of(*index_of.node());
    result.matrices = type_of(base).shape[0];
  }
  WEFT_CHECK(grouping_[base].depth < depth, "%", graph_.number(base), " ", info(base.node()->op).name,
             " is read before it is written");
  result.buffer = of(*base.node());
  Dim linear = grouping_.memory_index(*base.node(), index);
  result.offset = linear;
  for (Dim axis : axes) {
    dims::Linear part = dims::linear_in(linear, axis);
    WEFT_CHECK(part.linear);
    result.strides.push_back(part.coefficient);
    if (!axis.is_constant())
      result.offset = dims::substitute(
          result.offset, [&](const DimNode* atom) { return atom == axis.node() ? Dim(0) : Dim::from_node(atom); });
  }
  return result;
}

void ScheduleBuffers::pack_constant(PlacedValue& value) {
  const ScheduleBuffer& source = buffers_[static_cast<std::size_t>(value.buffer)];
  if (source.kind != ScheduleBuffer::Kind::constant || !value.offset.is_constant() || value.chosen >= 0) return;
  const Shape& shape = value.type.shape;
  const std::size_t rank = value.strides.size();
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const Dim stride = value.strides[axis];
    if (!shape[static_cast<int>(axis)].is_constant() || !stride.is_constant()) return;
    if (axis + 2 >= rank && (stride.same(Dim(1)) || shape[static_cast<int>(axis)].same(Dim(1)))) return;
  }
  ScheduleBuffer packed;
  packed.kind = ScheduleBuffer::Kind::packed;
  packed.dtype = source.dtype;
  packed.constant = source.constant;
  packed.packed_offset = value.offset.constant();
  packed.elements = 1;
  std::vector<Dim> ordered(rank, Dim(0));
  for (std::size_t axis = rank; axis-- > 0;) {
    const bool repeated = value.strides[axis].same(Dim(0));
    packed.packed_sizes.insert(packed.packed_sizes.begin(), repeated ? 1 : shape[static_cast<int>(axis)].constant());
    packed.packed_strides.insert(packed.packed_strides.begin(), value.strides[axis].constant());
    if (repeated) continue;
    ordered[axis] = packed.elements;
    packed.elements = packed.elements * shape[static_cast<int>(axis)];
  }
  value.buffer = static_cast<int>(buffers_.size());
  value.offset = 0;
  value.strides = std::move(ordered);
  buffers_.push_back(std::move(packed));
}

void ScheduleBuffers::drop_unread_constants(const std::vector<Step>& steps) {
  std::vector<bool> read(buffers_.size());
  for (const Step& step : steps)
    for (const int buffer : step.buffers) read[static_cast<std::size_t>(buffer)] = true;
  for (std::size_t i = 0; i < read.size(); ++i) {
    ScheduleBuffer& buffer = buffers_[i];
    if (read[i] || buffer.kind != ScheduleBuffer::Kind::constant) continue;
    buffer.constant = {};
    buffer.elements = 0;
  }
}

}  // namespace weft
