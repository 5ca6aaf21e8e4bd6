#include "schedule/kernel_axes.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/fail.hpp"
#include "loop/loads_ahead.hpp"

namespace weft {

using loop::Instruction;
using loop::Kernel;
using loop::Kind;

static Dim axis_dim(const Kernel& kernel, std::size_t a) {
  return dims::axis(static_cast<int>(a), kernel.axes[a].extent);
}

namespace {

// How far apart in memory what a kernel stores lies along each axis, by its stores: the first one that does not walk
// the axes as they are numbered. Nothing where all do, or where a step is a symbol.
std::vector<std::int64_t> steps_of_stores(const Kernel& kernel) {
  for (const Instruction& it : kernel.body) {
    if (it.kind != Kind::store) continue;
    std::vector<std::int64_t> steps;
    std::int64_t before = INT64_MAX;
    bool turned = false;
    for (std::size_t a = 0; a < kernel.axes.size(); ++a) {
      if (kernel.axes[a].inner || kernel.axes[a].extent.same(Dim(1))) {
        steps.push_back(0);
        continue;
      }
      const dims::Linear along = dims::linear_in(it.index, axis_dim(kernel, a));
      if (!along.linear || !along.coefficient.is_constant()) return {};
      steps.push_back(along.coefficient.constant());
      turned |= steps.back() > before;
      before = steps.back();
    }
    if (turned) return steps;
  }
  return {};
}

}  // namespace

void order_axes(Kernel& kernel) {
  std::vector<loop::Axis> axes;
  std::vector<Dim> replacement(kernel.axes.size(), Dim(0));
  std::vector<std::size_t> order(kernel.axes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (const std::vector<std::int64_t> steps = steps_of_stores(kernel); !steps.empty())
    std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t a) { return steps[a]; });
  for (bool inner : {false, true})
    for (const std::size_t a : order) {
      if (kernel.axes[a].inner != inner || kernel.axes[a].extent.same(Dim(1))) continue;
      replacement[a] = dims::axis(static_cast<int>(axes.size()), kernel.axes[a].extent);
      axes.push_back(kernel.axes[a]);
    }
  loop::replace_axes(kernel, std::move(axes), replacement);
}

bool reads_along_outer(const Kernel& kernel) {
  int last = -1;  // outer one
  for (std::size_t a = 0; a < kernel.axes.size(); ++a)
    if (!kernel.axes[a].inner) last = static_cast<int>(a);
  bool outer = false;
  for (const Instruction& it : kernel.body) {
    if (it.kind != Kind::load) continue;
    int side_by_side = -1;
    bool walks_inner = false;
    for (std::size_t a = 0; a < kernel.axes.size(); ++a) {
      const dims::Linear along = dims::linear_in(it.index, axis_dim(kernel, a));
      if (!along.linear || along.coefficient.same(Dim(0))) continue;
      walks_inner |= kernel.axes[a].inner;
      if (along.coefficient.same(Dim(1))) side_by_side = static_cast<int>(a);
    }
    if (side_by_side < 0 || !walks_inner) continue;
    if (side_by_side != last) return false;
    outer = true;
  }
  return outer;
}

namespace {

// A test of the first axis as one of both: t is negative where t * extent + second is. Where rows are short this is
// worth a mask; a test of long ones is one for a row.
Dim over_both(const Instruction& it, Dim first, Dim second, Dim extent) {
  constexpr std::int64_t long_row = 256;
  if (it.kind != Kind::test || !extent.is_constant() || extent.constant() >= long_row ||
      dims::depends_on(it.index, second))
    return it.index;
  const dims::Linear along = dims::linear_in(it.index, first);
  if (along.linear && along.coefficient.same(Dim(1))) return it.index * extent + second;
  if (along.linear && along.coefficient.same(Dim(-1))) return it.index * extent + extent - Dim(1) - second;
  return it.index;
}

// Axes a and a+1 are one when every access steps through them as through one.
bool mergeable(const Kernel& kernel, std::size_t a) {
  if (kernel.axes[a].inner != kernel.axes[a + 1].inner || kernel.axes[a + 1].extent.same(Dim(0))) return false;
  Dim first = axis_dim(kernel, a), second = axis_dim(kernel, a + 1), extent = kernel.axes[a + 1].extent;
  for (const Instruction& instruction : kernel.body) {
    if (instruction.index.is_constant()) continue;
    const Dim index = over_both(instruction, first, second, extent);
    dims::Linear x = dims::linear_in(index, first), y = dims::linear_in(index, second);
    if (!x.linear || !y.linear || !x.coefficient.same(y.coefficient * extent)) return false;
  }
  return true;
}

}  // namespace

void merge_axes(Kernel& kernel) {
  for (std::size_t a = kernel.axes.size(); a-- > 1;) {
    if (!mergeable(kernel, a - 1)) continue;
    Dim extent = kernel.axes[a].extent;
    for (Instruction& it : kernel.body) it.index = over_both(it, axis_dim(kernel, a - 1), axis_dim(kernel, a), extent);
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

namespace {

// Of symbols in an expression and in the ranges of its values. A range may have symbols that are nowhere else: where
// another stage keeps a value within it.
bool any_symbol(Dim dim, const std::function<bool(const DimNode&)>& predicate) {
  return dims::any_atom(dim, [&](const DimNode& atom) {
    return (atom.kind == DimKind::symbol && predicate(atom)) ||
           (atom.kind == DimKind::value && any_symbol(atom.extent, predicate));
  });
}

}  // namespace

bool is_small(const Kernel& kernel) {
  const DimEnvironment* const sizes = DimEnvironment::current();
  bool is_symbolic = false;
  const auto bound = [&](const DimNode& symbol) -> std::optional<double> {
    is_symbolic = true;
    const auto number = static_cast<std::size_t>(symbol.number);
    if (!sizes || number >= sizes->symbols.size() || sizes->symbols[number].upper == INT64_MAX) return std::nullopt;
    return std::max(1.0, static_cast<double>(sizes->symbols[number].upper));  // parts of a product of 0 may be large
  };
  return loop::fits_32_bits(kernel, bound) && is_symbolic;
}

// A loop over one axis does not show its extent anywhere but in its bound: make it a slot, and kernels of all sizes are
// the same text. Symbolic sizes get slots in order of appearance.
void parametrize(Kernel& kernel) {
  if (kernel.axes.size() == 1 && !kernel.axes[0].inner && kernel.axes[0].extent.is_constant()) {
    Dim size = kernel.axes[0].extent, slot = dims::symbol(0, 2);
    bool plain = size.constant() >= 2;
    for (const Instruction& instruction : kernel.body)
      plain = plain && dims::linear_in(instruction.index, axis_dim(kernel, 0)).linear &&
              !any_symbol(instruction.index, [](const DimNode&) { return true; });
    if (plain) {
      kernel.parameters = {size};
      loop::replace_axes(kernel, {{slot, false}}, {dims::axis(0, slot)});
      return;
    }
  }
  std::vector<const DimNode*> seen;
  auto collect = [&](Dim dim) {
    any_symbol(dim, [&](const DimNode& atom) {
      if (std::find(seen.begin(), seen.end(), &atom) == seen.end()) seen.push_back(&atom);
      return false;
    });
  };
  for (const loop::Axis& axis : kernel.axes) collect(axis.extent);
  for (const Instruction& instruction : kernel.body) collect(instruction.index);
  if (seen.empty()) return;
  auto slot_of = [&](const DimNode* atom) {
    auto found = std::find(seen.begin(), seen.end(), atom);
    WEFT_CHECK(found != seen.end(), "a size without a slot");
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

std::optional<Kernel> with_any_first_extent(const Kernel& kernel) {
  if (kernel.axes.size() < 2 || kernel.vector_axis == 0 || !kernel.parameters.empty()) return {};
  bool has_inner = false;
  for (const loop::Axis& axis : kernel.axes) {
    if (axis.carried || axis.narrow) return {};
    has_inner |= axis.inner;
  }
  if (has_inner && (kernel.axes[0].inner || !kernel.axes[1].inner || !loop::streams_rows(kernel))) return {};
  const Dim size = kernel.axes[0].extent, first = axis_dim(kernel, 0);
  if (!size.is_constant() || size.constant() < 2) return {};
  for (const Instruction& instruction : kernel.body)
    if (!dims::linear_in(instruction.index, first).linear) return {};
  Kernel any = kernel;
  any.shared = {};
  any.small = kernel.small || loop::fits_32_bits(kernel);
  any.parameters = {size};
  any.axes[0].extent = dims::symbol(0, has_inner ? loop::least_streamed_rows : 2);
  std::vector<Dim> replacement;
  for (std::size_t a = 0; a < any.axes.size(); ++a) replacement.push_back(axis_dim(any, a));
  loop::replace_axes(any, any.axes, replacement);
  return any;
}

}  // namespace weft
