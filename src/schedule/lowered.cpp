#include "schedule/lowered.hpp"

#include <algorithm>

#include "base/fail.hpp"

namespace weft {

// All that lower() asks of a group, as words, and its buffers in the order of the walk.
class LoweredGroups::Walk {
 public:
  Walk(const LoweringContext& context, const Group& group, int id, std::span<const StorePoint> stores)
      : context_(context), group_(group), id_(id) {
    put_shape(group.domain);
    std::uint64_t bits = group.reduces | group.scans << 1 | group.carries << 2;
    for (const bool inner : group.inner) bits = bits << 1 | static_cast<std::uint64_t>(inner);
    put(bits);
    put(stores.size());
    for (const StorePoint& point : stores) {
      put_memory(*point.value.node(), point.buffer, point.elements);
      put(point.target.word());
      for (const Dim index : point.index) put(index.word());
      walk(point.value);
    }
    for (const std::uint32_t member : group.members) {  // for the name and the comments
      const Tensor& value = context_.grouping.graph->nodes[member];
      if (!put_if_seen(value)) put_words(value);
    }
  }

  Signature signature;
  std::vector<int> buffers;

 private:
  void put(std::uint64_t word) { signature.push_back(word); }
  void put_shape(const Shape& shape) {
    put(static_cast<std::uint64_t>(shape.rank()));
    for (const Dim size : shape) put(size.word());
  }
  void put_words(const Tensor& value) {
    const Node& node = *value.node();
    const Type& type = type_of(value);
    put(static_cast<std::uint64_t>(type.dtype) << 32 | static_cast<std::uint64_t>(type.weak) << 16 | value.output());
    put_shape(type.shape);
    put(static_cast<std::uint64_t>(node.op) << 32 | node.scope);
    put(reinterpret_cast<std::uintptr_t>(node.loc.file));
    put(static_cast<std::uint64_t>(node.loc.line));
  }
  void put_memory(const Node& node, int buffer, Dim elements) {
    const auto found = std::ranges::find(buffers, buffer);
    put(static_cast<std::uint64_t>(found - buffers.begin()));
    if (found == buffers.end()) buffers.push_back(buffer);
    put(elements.word());
    const BufferLayout& layout = context_.grouping.layouts[context_.grouping.number(node)];
    put(layout.strides.size() << 1 | static_cast<std::uint64_t>(node.layout != nullptr));
    for (const Dim stride : layout.strides) put(stride.word());
    put(layout.offset.word());
    if (!node.layout) return;
    put(static_cast<std::uint64_t>(node.layout->offset));
    for (const std::int64_t stride : node.layout->strides) put(static_cast<std::uint64_t>(stride));
  }
  bool put_if_seen(const Tensor& value) {
    const auto [found, fresh] = seen_.try_emplace(value.word(), seen_.size());
    put(fresh ? 0 : found->second + 1);
    return !fresh;
  }

  // Operands first to last, each value once.
  void walk(const Tensor& from) {
    std::vector<Tensor> open{from};
    while (!open.empty()) {
      const Tensor value = open.back();
      open.pop_back();
      if (put_if_seen(value)) continue;
      const Node& node = *value.node();
      put_words(value);
      if (has_memory(context_.grouping, value, id_, group_.depth)) {
        put(0);
        put_memory(node, context_.buffer_of(node), context_.elements_of(node));
        continue;
      }
      const Placement& placement = context_.grouping[value];
      const bool computed_here = placement.role == Role::grouped && placement.group == id_;
      put(1 | static_cast<std::uint64_t>(computed_here) << 1 | static_cast<std::uint64_t>(placement.column) << 2 |
          std::uint64_t{node.operand_count} << 32);
      node.attributes().each_word([this](std::uint64_t word) { put(word); });
      for (std::size_t i = node.operand_count; i-- > 0;) open.push_back(node.input(i));
    }
  }

  const LoweringContext& context_;
  const Group& group_;
  const int id_;
  std::unordered_map<std::uint64_t, std::size_t> seen_;
};

loop::Stages LoweredGroups::make(const Group& group, int id, std::span<const StorePoint> stores,
                                 const std::function<Words()>& words) const {
  loop::Stages made = lower(context_, group, id, stores);
  const auto [name, comments] = words();
  for (loop::Kernel& kernel : made.kernels) {
    kernel.name = name;
    kernel.comments.insert(kernel.comments.begin(), comments.begin(), comments.end());
    loop::verify(kernel);
    kernel.shared = std::make_shared<const std::string>(loop::shared_text(kernel));
  }
  return made;
}

static loop::Stages over(loop::Stages stages, const std::vector<int>& from, const std::vector<int>& to) {
  for (loop::Kernel& kernel : stages.kernels)
    for (loop::Buffer& buffer : kernel.buffers)
      if (buffer.value >= 0)
        buffer.value = to[static_cast<std::size_t>(std::ranges::find(from, buffer.value) - from.begin())];
  return stages;
}

#ifndef NDEBUG
static void check_same(const loop::Stages& a, const loop::Stages& b) {
  WEFT_CHECK(a.kernels.size() == b.kernels.size() && a.partials.size() == b.partials.size(), "groups that are alike");
  for (std::size_t k = 0; k < a.kernels.size(); ++k) {
    WEFT_CHECK(loop::to_text(a.kernels[k]) == loop::to_text(b.kernels[k]),
               "groups that are alike differ: ", loop::to_text(a.kernels[k]), loop::to_text(b.kernels[k]));
    WEFT_CHECK(a.kernels[k].comments == b.kernels[k].comments, "comments of groups that are alike");
    for (std::size_t i = 0; i < a.kernels[k].buffers.size(); ++i)
      WEFT_CHECK(a.kernels[k].buffers[i].value == b.kernels[k].buffers[i].value, "buffers of groups that are alike");
  }
}
#endif

loop::Stages LoweredGroups::operator()(const Group& group, int id, std::span<const StorePoint> stores,
                                       const std::function<Words()>& words) {
  if (!once_) return make(group, id, stores, words);
  Walk walk(context_, group, id, stores);
  const auto found = known_.find(walk.signature);
  if (found != known_.end()) {
    loop::Stages stages = over(found->second.stages, found->second.buffers, walk.buffers);
#ifndef NDEBUG
    check_same(stages, make(group, id, stores, words));
#endif
    return stages;
  }
  loop::Stages made = make(group, id, stores, words);
  known_.emplace(std::move(walk.signature), KnownStages{made, std::move(walk.buffers)});
  return made;
}

}  // namespace weft
