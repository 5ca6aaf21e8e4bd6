#include "schedule/layout.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "schedule/channels_last.hpp"
#include "schedule/group.hpp"

namespace weft {
namespace {

class LayoutChooser {
 public:
  LayoutChooser(const Graph& graph, const Providers& providers, Device device)
      : graph_(graph),
        providers_(providers),
        device_(device),
        layouts_(graph.nodes.size()),
        uses_(graph.nodes.size(), 0),
        in_memory_(graph.nodes.size()),
        sent_(graph.nodes.size()) {
    for (const Tensor& value : graph.nodes)
      for (const Tensor& operand : value.node()->inputs()) {
        if (operand.output() > 0) continue;  // by a node of its own, as which it is read
        ++uses_[graph_.number(operand)];
        if (may_lie_as_read(*operand.node())) readers_[operand.node()].push_back(value.node());
      }
    for (const Tensor& output : graph.outputs) {
      ++uses_[graph_.number(output)];
      in_memory_[graph_.number(memory_base(output))] = true;
      readers_[memory_base(output).node()].push_back(nullptr);
    }
  }

  // Readers first: a concatenation knows where it lies before its parts do.
  std::vector<BufferLayout> run() {
    for (std::size_t i = graph_.nodes.size(); i-- > 0;) {
      const Node& node = *graph_.nodes[i].node();
      if (is_library_step(node)) {
        for (const Tensor& operand : node.inputs()) {
          in_memory_[graph_.number(below_views(operand))] = true;
          if (info(node.op).kind == OpKind::collective) sent_[graph_.number(below_views(operand))] = true;
        }
      }
      if (call_of(node)) order_as_read(node);
      if (node.op == Op::concat) choose_concat(node);
      if (node.op == Op::matmul)
        for (const Tensor& operand : node.inputs()) order_for_product(operand);
    }
    const std::vector<bool> last = channels_last_values(graph_, providers_, device_);
    for (std::size_t i = 0; i < last.size(); ++i)
      if (last[i] && layouts_[i].is_contiguous()) {
        layouts_[i].strides = channels_last_strides(graph_.nodes[i].node()->type.shape);
        layouts_[i].channels_last = true;
      }
    return std::move(layouts_);
  }

 private:
  bool is_read_once(const Tensor& value) const { return uses_[graph_.number(value)] == 1; }
  BufferLayout& at(const Node& node) { return layouts_[graph_.number(node)]; }

  static Tensor below_views(Tensor value) {
    while (is_view(value.node()->op)) value = value.node()->input(0);
    return value;
  }
  // The call of which the node is a result; null where it is none.
  static const Node* call_of(const Node& node) {
    const Node& source = is_further_result(node) ? *node.input(0).node() : node;
    return source.op == Op::call ? &source : nullptr;
  }

  static bool may_lie_as_read(const Node& node) { return node.op == Op::concat || call_of(node); }

  // Who writes a part of a concatenation where it will lie, and in which layout: the kernel or the product that it is
  // the result of, or below views of it a call that writes in any order. Null where it has to be copied.
  struct Written {
    const Node* node = nullptr;
    BufferLayout layout = {};
  };
  Written written_in_place(const Tensor& part, const BufferLayout& window) const {
    if (!is_read_once(part)) return {};
    const Node& node = *part.node();
    if (is_computed_by_kernel(node) || node.op == Op::matmul || node.op == Op::concat) return {&node, window};
    BufferLayout layout = window;
    Tensor base = part;
    while (is_view(base.node()->op)) {
      std::optional<std::vector<Dim>> below = strides_below(*base.node(), layout.strides);
      if (!below) return {};
      layout.strides = *std::move(below);
      base = base.node()->input(0);
      if (!is_read_once(base)) return {};
    }
    const Node* const call = call_of(*base.node());
    if (!call || !providers_.writes_in_any_order(*call, device_) ||
        !providers_.reads(*call, device_, type_of(base).shape, layout.offset, layout.strides))
      return {};
    return {base.node(), std::move(layout)};
  }
  // The strides of a view's operand, of which the view has these; nothing where it is no permutation that joins axes.
  static std::optional<std::vector<Dim>> strides_below(const Node& view, const std::vector<Dim>& strides) {
    const Shape &to = view.type.shape, from = type_of(view.input(0)).shape;
    if (from.same(to) && view.op != Op::permute) return strides;
    std::vector<Dim> below(static_cast<std::size_t>(from.rank()), Dim(0));
    if (view.op == Op::permute) {
      const auto& axes = view.attributes<Permute>().axes;
      for (std::size_t i = 0; i < strides.size(); ++i) below[static_cast<std::size_t>(axes[i])] = strides[i];
      return below;
    }
    if (view.op != Op::reshape) return {};
    int next = from.rank() - 1;  // an axis of the view has the last of the operand's that are left
    for (int i = to.rank() - 1; i >= 0; --i)
      for (Dim joined = 1; !joined.same(to[i]); --next) {
        if (next < 0) return {};
        below[static_cast<std::size_t>(next)] = strides[static_cast<std::size_t>(i)] * joined;
        joined = joined * from[next];
      }
    for (; next >= 0; --next)
      if (!from[next].same(Dim(1))) return {};
    return below;
  }

  // A concatenation is a formula, one part or the other, which is computed where it is read. It is assembled in memory
  // where it needs memory anyway and a part can be written in place; and where it has many parts, since each of them
  // would be asked for at each element. On a device what is sent is one kernel of more parts: the kernels of each part
  // would be small, and beside those of the step.
  void choose_concat(const Node& concat) {
    const bool is_sent = device_.type != Device::Type::cpu && sent_[graph_.number(concat)];
    const std::size_t most_parts = is_sent ? 16 : 4;
    const auto parts = concat.inputs();
    BufferLayout whole = at(concat);
    if (whole.is_contiguous())
      if (std::optional<std::vector<Dim>> strides = strides_as_read(concat)) whole.strides = *std::move(strides);
    const std::vector<Written> written = written_parts(concat, whole);
    const bool in_place = std::ranges::any_of(written, [](const Written& part) { return part.node != nullptr; });
    const bool in_memory = in_memory_[graph_.number(concat)] || at(concat).window_of >= 0;
    if (!(in_memory && in_place) && parts.size() <= most_parts) return;
    at(concat) = std::move(whole);
    at(concat).assembled = true;
    for (const Written& part : written)
      if (part.node) at(*part.node) = part.layout;
  }

  // By part, where it lies in a concatenation of this layout.
  std::vector<Written> written_parts(const Node& concat, BufferLayout whole) const {
    if (whole.is_contiguous()) whole.strides = contiguous_strides(concat.type.shape);
    if (whole.window_of < 0) whole.window_of = static_cast<int>(graph_.number(concat));
    whole.assembled = false;
    const std::size_t axis = concat.attributes<Along>().axis;
    std::vector<Written> parts;
    Dim start = 0;
    for (const Tensor& part : concat.inputs()) {
      BufferLayout window = whole;
      window.offset = whole.offset + start * whole.strides[axis];
      parts.push_back(written_in_place(part, window));
      start = start + type_of(part).shape[static_cast<int>(axis)];
    }
    return parts;
  }

  // A product copies an operand that has unit stride along neither of its axes. Where a kernel computes the value for
  // this product alone, it writes it in the product's order instead.
  void order_for_product(const Tensor& operand) {
    const Shape& shape = type_of(operand).shape;
    const auto rank = static_cast<std::size_t>(shape.rank());
    std::vector<std::size_t> base_axis(rank);  // of each axis of the operand
    for (std::size_t i = 0; i < rank; ++i) base_axis[i] = i;
    Tensor base = operand;
    while (base.node()->op == Op::permute && is_read_once(base)) {
      for (std::size_t& axis : base_axis) axis = base.node()->attributes<Permute>().axes[axis];
      base = base.node()->input(0);
    }
    const Node& node = *base.node();
    if (base.node() == operand.node() || !is_read_once(base) || !is_computed_by_kernel(node)) return;
    const std::vector<Dim> as_recorded = contiguous_strides(node.type.shape), wanted = contiguous_strides(shape);
    for (std::size_t i = rank - 2; i < rank; ++i)
      if (as_recorded[base_axis[i]].same(Dim(1)) || shape[static_cast<int>(i)].same(Dim(1))) return;
    BufferLayout layout;
    layout.strides.resize(rank, Dim(0));
    for (std::size_t i = 0; i < rank; ++i) layout.strides[base_axis[i]] = wanted[i];
    at(node) = std::move(layout);
  }

  // A result of a call, as all of its readers permute it; other calls read it in any order.
  void order_as_read(const Node& result) {
    if (at(result).window_of >= 0 || !providers_.writes_in_any_order(*call_of(result), device_)) return;
    if (std::optional<std::vector<Dim>> strides = strides_as_read(result)) at(result).strides = *std::move(strides);
  }
  // The order of axes in which all readers but calls permute a value, and leave the last axis where it is.
  std::optional<std::vector<Dim>> strides_as_read(const Node& value) const {
    const auto found = readers_.find(&value);
    if (found == readers_.end()) return {};
    const Node* permuted = nullptr;
    for (const Node* reader : found->second) {
      if (!reader) return {};  // a result of the graph
      if (reader->op == Op::call) continue;
      if (reader->op != Op::permute) return {};
      if (permuted && !(permuted->attributes() == reader->attributes())) return {};
      permuted = reader;
    }
    if (!permuted) return {};
    const Permute& order = permuted->attributes<Permute>();
    const int rank = value.type.shape.rank();
    if (order.axes[static_cast<std::size_t>(rank) - 1] != rank - 1) return {};
    const std::vector<Dim> wanted = contiguous_strides(permuted->type.shape);
    std::vector<Dim> strides(wanted.size(), Dim(0));
    for (std::size_t i = 0; i < wanted.size(); ++i) strides[order.axes[i]] = wanted[i];
    return strides;
  }

  const Graph& graph_;
  const Providers& providers_;
  const Device device_;
  std::map<const Node*, std::vector<const Node*>> readers_;  // of what may lie as read; null: the graph's caller
  std::vector<BufferLayout> layouts_;
  std::vector<int> uses_;
  std::vector<bool> in_memory_;  // by node: a result, or what a library step reads
  std::vector<bool> sent_;       // by node: what a collective reads
};

}  // namespace

Dim memory_index(const Node& node, const BufferLayout& layout, const IndexVector& index) {
  const bool planned = !layout.is_contiguous(), eager = node.layout != nullptr;
  if (!planned && !eager) return linear_index(node.type.shape, index);
  Dim offset = planned ? layout.offset : Dim(node.layout->offset);
  for (std::size_t i = 0; i < index.size(); ++i)
    offset = offset + index[i] * (planned ? layout.strides[i] : Dim(node.layout->strides[i]));
  return offset;
}

std::vector<Dim> contiguous_strides(const Shape& shape) {
  std::vector<Dim> strides(static_cast<std::size_t>(shape.rank()), Dim(1));
  for (int i = shape.rank() - 2; i >= 0; --i)
    strides[static_cast<std::size_t>(i)] = strides[static_cast<std::size_t>(i) + 1] * shape[i + 1];
  return strides;
}

std::vector<BufferLayout> choose_layouts(const Graph& graph, const Providers& providers, Device device) {
  return LayoutChooser(graph, providers, device).run();
}

}  // namespace weft
