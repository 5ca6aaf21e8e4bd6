#include "schedule/lower.hpp"

#include <algorithm>
#include <map>

#include "base/fail.hpp"
#include "loop/device_team.hpp"
#include "loop/nest.hpp"
#include "loop/online.hpp"
#include "loop/pick.hpp"
#include "loop/product.hpp"

namespace weft {
namespace {

// On a device the order of additions is the kernel's own, so that chunks are as long as serves it.
constexpr std::int64_t device_row_chunk = 32768, device_column_chunk = 32;

using loop::Instruction;
using loop::Kernel;
using loop::Kind;
using loop::Level;

class Lowering {
 public:
  Lowering(const LoweringContext& context, const Group& walked, int group)
      : context_(context), walked_(walked), group_(group) {
    for (int i = 0; i < walked.domain.rank(); ++i)
      kernel_.axes.push_back({walked.domain[i], walked.reduces && walked.inner[i]});
  }

  Kernel run(std::span<const StorePoint> stores) {
    for (const StorePoint& point : stores) {
      Instruction store;
      store.kind = Kind::store;
      store.dtype = point.dtype;
      store.args[0] = value_at(point.value, point.index);
      store.buffer = buffer(point.buffer, point.dtype, point.elements, true);
      store.index = point.target;
      store.node = point.value.node()->index;
      emit(store, point.value.node());
    }
    return std::move(kernel_);
  }

 private:
  int buffer(int value, DType dtype, Dim elements, bool written) {
    for (std::size_t b = 0; b < kernel_.buffers.size(); ++b)
      if (kernel_.buffers[b].value == value && kernel_.buffers[b].written == written) return static_cast<int>(b);
    kernel_.buffers.push_back({dtype, written, value, elements});
    return static_cast<int>(kernel_.buffers.size()) - 1;
  }

  // Where an index expression varies: over which axes, and with which loaded values.
  void raise(Instruction& instruction, Dim index) {
    dims::any_atom(index, [&](const DimNode& atom) {
      if (atom.kind == DimKind::axis) {
        Level level = kernel_.axes[static_cast<std::size_t>(atom.number)].inner ? Level::inner : Level::outer;
        instruction.level = std::max(instruction.level, level);
      } else if (atom.kind == DimKind::value) {
        raise(instruction, static_cast<int>(atom.number));
      }
      return false;
    });
  }
  void raise(Instruction& instruction, int arg) {
    const Instruction& operand = kernel_.body[static_cast<std::size_t>(arg)];
    instruction.level = std::max(instruction.level, operand.level);
    instruction.phase = std::max(instruction.phase, operand.phase);
  }

  int emit(Instruction instruction, const Node* node) {
    instruction.level = Level::once;
    instruction.phase = 0;
    for (std::int32_t arg : instruction.args)
      if (arg >= 0) raise(instruction, arg);
    raise(instruction, instruction.index);
    if (instruction.kind == Kind::reduce && !instruction.over_carried) {
      instruction.level = Level::outer;
      ++instruction.phase;
    }
    if (node) instruction.node = node->index;
    kernel_.body.push_back(instruction);
    return static_cast<int>(kernel_.body.size()) - 1;
  }

  int constant(DType dtype, double number, std::int64_t integer) {
    Instruction instruction;
    instruction.kind = Kind::constant;
    instruction.dtype = dtype;
    if (is_floating(dtype))
      std::memcpy(&instruction.bits, &number, sizeof number);
    else
      instruction.bits = static_cast<std::uint64_t>(integer);
    for (std::size_t i = 0; i < kernel_.body.size(); ++i) {
      const Instruction& other = kernel_.body[i];
      if (other.kind == Kind::constant && other.dtype == dtype && other.bits == instruction.bits)
        return static_cast<int>(i);
    }
    return emit(instruction, nullptr);
  }
  int cast(int value, DType dtype, const Node* node) {
    if (kernel_.body[static_cast<std::size_t>(value)].dtype == dtype) return value;
    Instruction instruction;
    instruction.kind = Kind::cast;
    instruction.dtype = dtype;
    instruction.args[0] = value;
    return emit(instruction, node);
  }
  int index_value(Dim index, DType dtype, const Node* node) {
    if (index.is_constant()) return constant(dtype, static_cast<double>(index.constant()), index.constant());
    Instruction instruction;
    instruction.kind = Kind::index;
    instruction.dtype = DType::i64;
    instruction.index = index;
    return cast(emit(instruction, node), dtype, node);
  }

  // Clamps an index to [0, size). The range check may run later; until it has, a bad index must not read out of bounds.
  int within(int value, Dim size) {
    auto [found, is_new] = clamped_.try_emplace({value, size.word()});
    if (!is_new) return found->second;
    Instruction instruction;
    instruction.kind = Kind::apply;
    instruction.dtype = DType::i64;
    instruction.op = Op::minimum;
    instruction.args[0] = value;
    instruction.args[1] = index_value(size - Dim(1), DType::i64, nullptr);
    instruction.args[0] = emit(instruction, nullptr);
    instruction.op = Op::maximum;
    instruction.args[1] = constant(DType::i64, 0, 0);
    return clamped_[{value, size.word()}] = emit(instruction, nullptr);
  }

  using Key = std::pair<std::uint64_t, std::vector<std::uint64_t>>;

  int value_at(Tensor value, IndexVector index) {
    // Views first, without recursion: their chain may be long.
    while (true) {
      const Node& node = *value.node();
      if (has_memory(value)) return load(node, index);
      if (is_view(node.op))
        index = map_through_view(node, index);
      else if (!reduces_nothing(node) || node.op == Op::argmax || adds_to_zero(node))
        break;
      if (reduces_nothing(node) && type_of(node.input(0)).dtype != node.type.dtype)
        return cast(value_at(node.input(0), index), node.type.dtype, &node);
      value = node.input(0);
    }
    Key key{value.word(), {}};
    for (Dim dim : index) key.second.push_back(dim.word());
    if (auto found = memo_.find(key); found != memo_.end()) return found->second;
    int result = compute(*value.node(), index);
    memo_.emplace(std::move(key), result);
    return result;
  }

  // A sum of one float starts from 0 as every sum does, so that -0 becomes 0.
  static bool adds_to_zero(const Node& node) { return node.op == Op::sum && is_floating(node.type.dtype); }

  // Memory that is complete when this kernel runs. A value of this very group is computed, not loaded.
  bool has_memory(const Tensor& value) const {
    const Placement& placement = context_.grouping[value];
    if (placement.role == Role::leaf) return true;
    if (!placement.realized) return false;
    return placement.role != Role::grouped || (placement.group != group_ && placement.depth < walked_.depth);
  }

  int load(const Node& node, const IndexVector& index) {
    Instruction instruction;
    instruction.kind = Kind::load;
    instruction.dtype = node.type.dtype;
    instruction.index = context_.grouping.memory_index(node, index);
    instruction.buffer = buffer(context_.buffer_of(node), node.type.dtype, context_.elements_of(node), false);
    auto key = std::pair(instruction.buffer, instruction.index.word());
    if (auto found = loads_.find(key); found != loads_.end()) return found->second;
    return loads_[key] = emit(instruction, &node);
  }

  int compute(const Node& node, const IndexVector& index) {
    switch (node.op) {
      case Op::constant: {
        const auto& number = node.attributes<Constant>();
        if (number.is_size()) return index_value(number.size, node.type.dtype, &node);
        return constant(node.type.dtype, number.as_number(node.type.dtype), number.as_integer());
      }
      case Op::iota: return index_value(index[node.attributes<Along>().axis], node.type.dtype, &node);
      case Op::cast: return cast(value_at(node.input(0), index), node.type.dtype, &node);
      case Op::bitcast: {
        Instruction instruction;
        instruction.kind = Kind::bitcast;
        instruction.dtype = node.type.dtype;
        instruction.args[0] = value_at(node.input(0), index);
        return emit(instruction, &node);
      }
      case Op::random_bits: {
        Instruction instruction;
        instruction.kind = Kind::random_bits;
        instruction.dtype = DType::i64;
        instruction.args[0] = value_at(node.input(0), {});
        instruction.args[1] = value_at(node.input(1), {});
        instruction.index = linear_index(node.type.shape, index);
        return cast(emit(instruction, &node), node.type.dtype, &node);
      }
      case Op::gather: {
        auto lead = static_cast<std::ptrdiff_t>(type_of(node.input(1)).shape.rank());
        int row = value_at(node.input(1), IndexVector(index.begin(), index.begin() + lead));
        Dim rows = type_of(node.input(0)).shape[0];
        if (rows.same(Dim(0))) return constant(node.type.dtype, 0, 0);  // no index is right: the check will say so
        IndexVector table{dims::value(within(row, rows), rows)};
        table.insert(table.end(), index.begin() + lead, index.end());
        return value_at(node.input(0), table);
      }
      case Op::argmax:
        if (reduces_nothing(node)) return constant(DType::i64, 0, 0);
        return reduce(node, index);
      case Op::sum: {
        if (!reduces_nothing(node)) return reduce(node, index);
        Instruction instruction;
        instruction.kind = Kind::apply;
        instruction.op = Op::add;
        instruction.dtype = node.type.dtype;
        instruction.args[0] = value_at(node.input(0), index);
        instruction.args[1] = constant(node.type.dtype, 0, 0);
        return emit(instruction, &node);
      }
      default: break;
    }
    if (is_reduce(node.op)) return reduce(node, index);
    WEFT_CHECK(info(node.op).kind == OpKind::pointwise, "%", node.index, " ", info(node.op).name,
               " has no memory and no formula");
    Instruction instruction;
    instruction.kind = Kind::apply;
    instruction.op = node.op;
    instruction.dtype = node.type.dtype;
    for (std::size_t i = 0; i < node.operand_count; ++i) instruction.args[i] = value_at(node.input(i), index);
    return emit(instruction, &node);
  }

  int reduce(const Node& node, const IndexVector& index) {
    WEFT_CHECK(context_.grouping.nodes[node.index].group == group_ && group_ >= 0, "%", node.index, " ",
               info(node.op).name, " is read by another kernel but has no memory");
    const bool column = context_.grouping.nodes[node.index].column;
    IndexVector own;
    WEFT_CHECK(column ? column_index(walked_, node.type.shape, own) : member_index(walked_, node.type.shape, own));
    for (std::size_t i = 0; i < own.size(); ++i) WEFT_CHECK(own[i].same(index[i]), "a reduction read at another index");
    IndexVector inside;
    const Type& from = type_of(node.input(0));
    WEFT_CHECK(member_index(walked_, from.shape, inside));
    Instruction instruction;
    instruction.kind = Kind::reduce;
    instruction.op = node.op;
    DType dtype = node.op == Op::argmax ? from.dtype : node.type.dtype;
    instruction.args[0] = cast(value_at(node.input(0), inside), computed_in(dtype), &node);
    instruction.over_carried = column;
    instruction.dtype = node.op == Op::argmax ? DType::i64 : computed_in(dtype);
    if (node.op == Op::argmax) {
      for (int i = 0; i < from.shape.rank(); ++i)
        if (node.attributes<Reduce>().axes[i] && !inside[static_cast<std::size_t>(i)].is_constant())
          instruction.index = inside[static_cast<std::size_t>(i)];
    }
    return cast(emit(instruction, &node), node.type.dtype, &node);
  }

  const LoweringContext& context_;
  const Group& walked_;
  int group_;
  Kernel kernel_;
  std::map<Key, int> memo_;
  std::map<std::pair<std::int32_t, std::uint64_t>, int> loads_;
  std::map<std::pair<int, std::uint64_t>, int> clamped_;
};

// ---- finishing: order, merge and parametrize axes -------------------------------------------------------------------

Dim axis_dim(const Kernel& kernel, std::size_t a) { return dims::axis(static_cast<int>(a), kernel.axes[a].extent); }

// Outer axes first (stable), then inner ones; axes of size 1 go.
void order_axes(Kernel& kernel) {
  std::vector<loop::Axis> axes;
  std::vector<Dim> replacement(kernel.axes.size(), Dim(0));
  for (bool inner : {false, true})
    for (std::size_t a = 0; a < kernel.axes.size(); ++a) {
      if (kernel.axes[a].inner != inner || kernel.axes[a].extent.same(Dim(1))) continue;
      replacement[a] = dims::axis(static_cast<int>(axes.size()), kernel.axes[a].extent);
      axes.push_back(kernel.axes[a]);
    }
  loop::replace_axes(kernel, std::move(axes), replacement);
}

// Axes a and a+1 are one when every access steps through them as through one.
bool mergeable(const Kernel& kernel, std::size_t a) {
  if (kernel.axes[a].inner != kernel.axes[a + 1].inner || kernel.axes[a + 1].extent.same(Dim(0))) return false;
  Dim first = axis_dim(kernel, a), second = axis_dim(kernel, a + 1), extent = kernel.axes[a + 1].extent;
  for (const Instruction& instruction : kernel.body) {
    if (instruction.index.is_constant()) continue;
    dims::Linear x = dims::linear_in(instruction.index, first), y = dims::linear_in(instruction.index, second);
    if (!x.linear || !y.linear || !x.coefficient.same(y.coefficient * extent)) return false;
  }
  return true;
}

void merge_axes(Kernel& kernel) {
  for (std::size_t a = kernel.axes.size(); a-- > 1;) {
    if (!mergeable(kernel, a - 1)) continue;
    Dim extent = kernel.axes[a].extent;
    std::vector<loop::Axis> axes = kernel.axes;
    axes[a - 1].extent = axes[a - 1].extent * extent;
    axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(a));
    std::vector<Dim> replacement;
    for (std::size_t b = 0; b < kernel.axes.size(); ++b) {
      if (b < a - 1) replacement.push_back(axis_dim(kernel, b));
      if (b > a) replacement.push_back(dims::axis(static_cast<int>(b) - 1, kernel.axes[b].extent));
      if (b == a - 1) replacement.push_back(dims::axis(static_cast<int>(b), axes[b].extent) / extent);
      if (b == a) replacement.push_back(dims::axis(static_cast<int>(b) - 1, axes[b - 1].extent) % extent);
    }
    loop::replace_axes(kernel, std::move(axes), replacement);
  }
}

// The axis that lanes run over: the last one in the order of the domain, so that neighbours in memory are neighbours in
// lanes. Decided before axes are reordered; returned as "is it an inner axis".
bool vector_is_inner(const Group& walked) {
  for (int i = walked.domain.rank() - 1; i >= 0; --i)
    if (!walked.domain[i].same(Dim(1))) return walked.reduces && walked.inner[i];
  return false;
}

// A loop over one axis does not show its extent anywhere but in its bound: make it a slot, and kernels of all sizes are
// the same text. Symbolic sizes get slots in order of appearance.
void parametrize(Kernel& kernel) {
  if (kernel.axes.size() == 1 && !kernel.axes[0].inner && kernel.axes[0].extent.is_constant()) {
    Dim size = kernel.axes[0].extent, slot = dims::symbol(0, 2);
    bool plain = size.constant() >= 2;
    for (const Instruction& instruction : kernel.body)
      plain = plain && dims::linear_in(instruction.index, axis_dim(kernel, 0)).linear &&
              !dims::any_atom(instruction.index, [](const DimNode& atom) { return atom.kind == DimKind::symbol; });
    if (plain) {
      kernel.parameters = {size};
      loop::replace_axes(kernel, {{slot, false}}, {dims::axis(0, slot)});
      return;
    }
  }
  std::vector<const DimNode*> seen;
  auto collect = [&](Dim dim) {
    dims::any_atom(dim, [&](const DimNode& atom) {
      if (atom.kind == DimKind::symbol && std::find(seen.begin(), seen.end(), &atom) == seen.end())
        seen.push_back(&atom);
      return false;
    });
  };
  for (const loop::Axis& axis : kernel.axes) collect(axis.extent);
  for (const Instruction& instruction : kernel.body) collect(instruction.index);
  if (seen.empty()) return;
  auto slot_of = [&](const DimNode* atom) {
    auto found = std::find(seen.begin(), seen.end(), atom);
    return dims::symbol(static_cast<int>(found - seen.begin()), atom->lower.constant());
  };
  auto rename = [&](Dim dim) {
    return dims::substitute(
        dim, [&](const DimNode* atom) { return atom->kind == DimKind::symbol ? slot_of(atom) : Dim::from_node(atom); });
  };
  std::vector<loop::Axis> axes = kernel.axes;
  for (loop::Axis& axis : axes) axis.extent = rename(axis.extent);
  for (Instruction& instruction : kernel.body)
    instruction.index = dims::substitute(instruction.index, [&](const DimNode* atom) {
      if (atom->kind == DimKind::symbol) return slot_of(atom);
      if (atom->kind == DimKind::axis)
        return dims::axis(atom->number, axes[static_cast<std::size_t>(atom->number)].extent);
      if (atom->kind == DimKind::value) return dims::value(atom->number, rename(atom->extent));
      return Dim::from_node(atom);
    });
  kernel.axes = std::move(axes);
  for (const DimNode* symbol : seen) kernel.parameters.push_back(Dim::from_node(symbol));
}

}  // namespace

loop::Stages lower(const LoweringContext& context, const Group& walked, int group, std::span<const StorePoint> stores) {
  Kernel kernel = Lowering(context, walked, group).run(stores);
  bool inner = vector_is_inner(walked);
  order_axes(kernel);
  merge_axes(kernel);
  for (std::size_t a = 0; a < kernel.axes.size(); ++a)
    if (kernel.axes[a].inner == inner) kernel.vector_axis = static_cast<int>(a);
  loop::pick_single_terms(kernel);
  loop::find_product(kernel);
  const bool on_host = context.device.type == Device::Type::cpu;
  if (!on_host && inner && !loop::holds_row(kernel)) loop::sum_online(kernel);
  const bool columns = std::any_of(kernel.body.begin(), kernel.body.end(),
                                   [](const Instruction& it) { return it.kind == Kind::reduce && it.over_carried; });
  loop::Stages stages;
  if (columns)
    stages = loop::cut_columns(kernel, on_host ? column_chunk : device_column_chunk);
  else if (group >= 0 && is_serial(walked) && loop::can_cut(kernel))
    stages = loop::cut_reductions(kernel, !inner || !on_host ? inner ? device_row_chunk : column_chunk : row_chunk);
  else
    stages.kernels.push_back(std::move(kernel));
  for (Kernel& stage : stages.kernels) parametrize(stage);
  return stages;
}

Kernel lower_zeros(DType dtype, int buffer, Dim elements) {
  Kernel kernel;
  kernel.axes.push_back({elements, false});
  kernel.vector_axis = 0;
  kernel.buffers.push_back({dtype, true, buffer, elements});
  Instruction zero;
  zero.dtype = dtype;
  Instruction store;
  store.kind = Kind::store;
  store.dtype = dtype;
  store.args[0] = 0;
  store.buffer = 0;
  store.index = axis_dim(kernel, 0);
  store.level = store.index.is_constant() ? Level::once : Level::outer;
  kernel.body = {zero, store};
  parametrize(kernel);
  return kernel;
}

}  // namespace weft
