#include "schedule/common_sizes.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "loop/analysis.hpp"
#include "loop/device_team.hpp"

namespace weft {

using loop::Instruction;
using loop::Kernel;
using loop::Kind;

namespace {

constexpr std::int64_t lanes = 16;
// Loops up to longest_window are unrolled or walk 16 columns at a time. Strides up to largest_stride have loads of
// their own.
constexpr std::int64_t longest_window = 64, largest_stride = 4;

// In bytes plus operations. Kernels up to light_work take about as long as their launch. Units of long_row hide the
// cost of a row length that comes from a slot; units of long_unit also hide two divisions by slots.
constexpr std::int64_t light_work = 1 << 17, long_row = 1 << 11, long_unit = 1 << 14;

// At the smallest values of symbolic sizes. Nothing where one of them is a divisor, which may be 0 there.
std::optional<std::int64_t> at_smallest(Dim dim, const Kernel& kernel) {
  const Dim size = loop::over_symbols(dim, kernel);
  const bool divides = dims::any_atom(size, [](const DimNode& node) {
    return (node.kind == DimKind::floor_divide || node.kind == DimKind::modulo) && !node.right.is_constant();
  });
  return divides ? std::nullopt : std::optional(dims::at_hints(size, {}));
}

// Whether its loops use sizes in more places than bounds and indices.
bool holds_sizes(const Kernel& kernel) {
  return kernel.vector_axis < 0 ||
         std::ranges::any_of(kernel.axes, [](const loop::Axis& axis) { return axis.carried || axis.narrow; }) ||
         std::ranges::any_of(kernel.body, [](const Instruction& it) {
           return it.is(loop::ReductionKind::product) || it.is(loop::ReductionKind::join);
         });
}

// Which bounds of loops may be slots.
struct Allowed {
  bool bounds = false;      // all but those of short rows: units are long, or the kernel is light
  bool short_rows = false;  // these too
  Allowed operator&(Allowed other) const { return {bounds && other.bounds, short_rows && other.short_rows}; }
};
Allowed allowed_by_work(const Kernel& kernel) {
  const loop::Cost cost = loop::cost(kernel);
  const auto all = at_smallest(cost.bytes + cost.operations, kernel),
             count = at_smallest(loop::unit_count(kernel), kernel);
  if (!all || !count) return {};
  const std::int64_t work = *all, units = std::max<std::int64_t>(*count, 1);
  if (work <= light_work) return {true, true};
  const auto outer = std::ranges::count_if(kernel.axes, [](const loop::Axis& axis) { return !axis.inner; });
  const bool vector_is_outer = !kernel.axes[static_cast<std::size_t>(kernel.vector_axis)].inner;
  return {work / units >= (outer - vector_is_outer < 2 ? long_row : long_unit), false};
}

// An integer of the body that may come from a size.
bool is_size(const Instruction& it) {
  const auto number = static_cast<std::int64_t>(it.bits);
  return it.kind == Kind::constant && it.dtype == DType::i64 && std::abs(number / 2) < 1 << 30;
}

// A kernel with a slot for each number that may be one.
class General {
 public:
  General(const Kernel& kernel, Allowed allowed)
      : kernel_(kernel), allowed_(allowed), keeps_rows_(!loop::analyze(kernel).kept.empty()) {
    for (std::size_t a = 0; a < kernel.axes.size(); ++a) kernel_.axes[a].extent = extent(kernel.axes[a], a);
    for (Instruction& it : kernel_.body) {
      const bool is_number = is_size(it);
      it.index = with_slots(is_number ? Dim(static_cast<std::int64_t>(it.bits)) : it.index);
      if (!is_number) continue;
      if (it.index.is_constant())
        it.index = 0;
      else
        it.kind = Kind::index, it.bits = 0;
    }
    kernel_.shared = {};
  }
  // Of a device: a slot for the element that a load reads for all points alike. Indices stay as wide as they were.
  explicit General(const Kernel& kernel) : kernel_(kernel), keeps_rows_(false) {
    kernel_.small = loop::fits_32_bits(kernel);
    for (Instruction& it : kernel_.body)
      if (it.kind == Kind::load && it.index.is_constant()) it.index = with_slots(it.index);
    kernel_.shared = {};
  }
  const Kernel& kernel() const { return kernel_; }

 private:
  Dim slot(std::int64_t number) {
    if (number < 0) return Dim(-1) * slot(-number);
    kernel_.parameters.emplace_back(number);
    return dims::symbol(static_cast<int>(kernel_.parameters.size()) - 1, 1);
  }
  Dim extent(const loop::Axis& axis, std::size_t number) {
    if (!axis.extent.is_constant()) return with_slots(axis.extent);
    const std::int64_t size = axis.extent.constant();
    if (static_cast<int>(number) == kernel_.vector_axis) return of_lanes(axis, size);
    const bool is_free = number == 0 && !axis.inner;  // no loop divides by it
    return size < 2 || (axis.inner && size <= longest_window) || !(is_free || allowed_.bounds) ? Dim(size) : slot(size);
  }
  // That a row is of whole vectors, shorter than one, or no longer than a block can still be proved.
  Dim of_lanes(const loop::Axis& axis, std::int64_t size) {
    if (size == 0 || !allowed_.bounds || (axis.inner && keeps_rows_)) return size;
    if (size < lanes) return allowed_.short_rows ? slot(size) % Dim(lanes) : Dim(size);
    const bool is_whole = size % lanes == 0;
    const Dim count = slot(is_whole ? size / lanes : size), step = is_whole ? lanes : 1;
    return step * (size < loop::block && kernel_.axes.size() > 1 ? count % (Dim(loop::block) / step) : count);
  }
  Dim with_slots(Dim dim) {
    if (dim.is_constant()) return dim.same(Dim(0)) ? dim : slot(dim.constant());
    const DimNode& node = *dim.node();
    switch (node.kind) {
      case DimKind::symbol: return dim;
      case DimKind::axis: return dims::axis(node.number, kernel_.axes[static_cast<std::size_t>(node.number)].extent);
      case DimKind::value: return dims::value(node.number, with_slots(node.extent));
      case DimKind::floor_divide: return with_slots(node.left) / divisor(node.right);
      case DimKind::modulo: return with_slots(node.left) % divisor(node.right);
      case DimKind::sum: break;
    }
    Dim total = 0;
    for (const DimTerm& term : node.terms) {
      const std::int64_t number = term.coefficient, size = std::abs(number);
      Dim product = size == 1 && !term.factors.empty()          ? Dim(number)
                    : size <= largest_stride && is_walked(term) ? Dim(number)
                                                                : slot(number);
      for (const DimNode* factor : term.factors) product = product * with_slots(Dim::from_node(factor));
      total = total + product;
    }
    return total;
  }
  Dim divisor(Dim dim) { return dim.is_constant() ? dim : with_slots(dim); }
  // Whether it differs from lane to lane, or from turn to turn of a loop inside.
  bool is_walked(const DimTerm& term) const {
    return std::ranges::any_of(term.factors, [&](const DimNode* factor) {
      return dims::any_atom(Dim::from_node(factor), [&](const DimNode& atom) {
        return atom.kind == DimKind::value ||
               (atom.kind == DimKind::axis &&
                (atom.number == kernel_.vector_axis || kernel_.axes[static_cast<std::size_t>(atom.number)].inner));
      });
    });
  }

  Kernel kernel_;
  const Allowed allowed_;
  const bool keeps_rows_;
};

// The kernel with other expressions in the places of its symbols from number `first` on.
Kernel with_symbols(Kernel kernel, std::size_t first, std::span<const Dim> symbols) {
  const auto replaced = [&](Dim dim) {
    const auto replace = [&](const auto& self, Dim it) -> Dim {
      return dims::substitute(it, [&](const DimNode* atom) {
        const auto number = static_cast<std::size_t>(atom->number);
        if (atom->kind == DimKind::symbol) return number < first ? Dim::from_node(atom) : symbols[number - first];
        if (atom->kind == DimKind::axis) return dims::axis(atom->number, kernel.axes[number].extent);
        return dims::value(atom->number, self(self, atom->extent));
      });
    };
    return replace(replace, dim);
  };
  for (loop::Axis& axis : kernel.axes) axis.extent = replaced(axis.extent);
  for (Instruction& it : kernel.body) it.index = replaced(it.index);
  return kernel;
}

bool same(const Kernel& a, const Kernel& b) {
  const auto number = [](const Instruction& it) {
    return is_size(it) ? Dim(static_cast<std::int64_t>(it.bits)) : it.index;
  };
  return std::ranges::equal(a.axes, b.axes, [](const auto& x, const auto& y) { return x.extent.same(y.extent); }) &&
         std::ranges::equal(a.body, b.body, [&](const auto& x, const auto& y) { return number(x).same(number(y)); });
}

// General kernels of one text as one, with as few slots as there are.
std::vector<std::optional<Kernel>> joined(std::span<const Kernel* const> kernels, std::span<const General> general) {
  const Kernel& first = general[0].kernel();
  const std::size_t given = kernels[0]->parameters.size(), count = first.parameters.size();
  const auto number = [&](std::size_t k, std::size_t slot) { return general[k].kernel().parameters[slot].constant(); };
  std::vector<Dim> symbols;        // in the place of those that are not given
  std::vector<std::size_t> slots;  // of the general kernel, that stay
  const auto times = [&](std::size_t slot,
                         std::size_t of) -> std::int64_t {  // slot == result * of, in all; 0: it is not
    const std::int64_t factor = number(0, slot) % number(0, of) ? 0 : number(0, slot) / number(0, of);
    if (factor != 1 && factor != lanes) return 0;
    for (std::size_t k = 0; k < kernels.size(); ++k)
      if (number(k, slot) != factor * number(k, of)) return 0;
    return factor;
  };
  for (std::size_t slot = given; slot < count; ++slot) {
    Dim symbol = number(0, slot);
    for (std::size_t k = 1; k < kernels.size(); ++k)
      if (number(k, slot) != number(0, slot)) symbol = Dim(0);
    for (std::size_t i = 0; i < slots.size() && symbol.same(Dim(0)); ++i)
      symbol = Dim(times(slot, slots[i])) * dims::symbol(static_cast<int>(given + i), 1);
    if (symbol.same(Dim(0))) {
      symbol = dims::symbol(static_cast<int>(given + slots.size()), 1);
      slots.push_back(slot);
    }
    symbols.push_back(symbol);
  }
  Kernel one = with_symbols(first, given, symbols);
  for (std::size_t i = 0; i < one.body.size(); ++i)
    if (kernels[0]->body[i].kind == Kind::constant && one.body[i].index.is_constant())
      one.body[i] = kernels[0]->body[i];
  std::vector<std::optional<Kernel>> all;
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    Kernel each = one;
    each.name = kernels[k]->name;
    each.comments = kernels[k]->comments;
    each.buffers = kernels[k]->buffers;
    each.parameters = kernels[k]->parameters;
    for (const std::size_t slot : slots) each.parameters.push_back(general[k].kernel().parameters[slot]);
    const std::span<const Dim> numbers = std::span(each.parameters).subspan(given);
    const bool is_it = same(with_symbols(each, given, numbers), *kernels[k]);
    all.push_back(is_it ? std::optional(std::move(each)) : std::nullopt);
  }
  return all;
}

// Puts into `all` the kernels that are alike, in their general forms, and that are several texts.
class Alike {
 public:
  void add(std::size_t number, const Kernel& kernel, const std::string& text, General general) {
    Class& its = classes_[loop::shared_text(general.kernel())];
    its.numbers.push_back(number);
    its.kernels.push_back(&kernel);
    its.texts.insert(text);
    its.general.push_back(std::move(general));
  }
  void join(std::vector<std::optional<Kernel>>& all) const {
    for (const auto& [text, its] : classes_) {
      if (its.texts.size() < 2) continue;
      std::vector<std::optional<Kernel>> made = joined(its.kernels, its.general);
      for (std::size_t i = 0; i < made.size(); ++i)
        if (made[i]) all[its.numbers[i]] = std::move(made[i]);
    }
  }

 private:
  struct Class {
    std::vector<std::size_t> numbers;
    std::vector<const Kernel*> kernels;
    std::set<std::string> texts;
    std::vector<General> general;
  };
  std::map<std::string, Class> classes_;
};

}  // namespace

std::vector<std::optional<Kernel>> with_common_sizes(std::span<const Kernel* const> kernels) {
  std::vector<std::optional<Kernel>> all(kernels.size());
  std::vector<std::string> texts;  // of the functions so far
  const auto join = [&](const auto& allowed) {
    Alike alike;
    for (std::size_t k = 0; k < kernels.size(); ++k)
      if (!holds_sizes(*kernels[k])) alike.add(k, *kernels[k], texts[k], General(*kernels[k], allowed(k)));
    alike.join(all);
  };
  for (const Kernel* const kernel : kernels) texts.push_back(loop::shared_text(*kernel));
  join([](std::size_t) { return Allowed(); });
  // A function is bounded by slots where none of those that call it is slower for it.
  std::map<std::string, Allowed> by_text;
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    if (all[k]) texts[k] = loop::shared_text(*all[k]);
    if (holds_sizes(*kernels[k])) continue;
    const Allowed own = allowed_by_work(*kernels[k]);
    const auto [found, fresh] = by_text.emplace(texts[k], own);
    if (!fresh) found->second = found->second & own;
  }
  join([&](std::size_t k) { return by_text.at(texts[k]); });
  return all;
}

std::vector<std::optional<Kernel>> with_common_elements(std::span<const Kernel* const> kernels) {
  std::vector<std::optional<Kernel>> all(kernels.size());
  Alike alike;
  const auto reads_one = [](const Instruction& it) {
    return it.kind == Kind::load && it.index.is_constant() && !it.index.same(Dim(0));
  };
  for (std::size_t k = 0; k < kernels.size(); ++k)
    if (std::ranges::any_of(kernels[k]->body, reads_one))
      alike.add(k, *kernels[k], loop::shared_text(*kernels[k]), General(*kernels[k]));
  alike.join(all);
  return all;
}

void share_functions(std::span<Schedule* const> schedules, Device device, const Providers& providers) {
  std::vector<Step*> steps;
  std::vector<const Kernel*> kernels;
  for (Schedule* const schedule : schedules)
    for (Step& step : schedule->steps) {
      const Kernel* const kernel = step.payload->kernel();
      if (!kernel || kernel->buffers.size() != step.buffers.size()) continue;  // a table has more of them
      steps.push_back(&step);
      kernels.push_back(kernel);
    }
  std::vector<std::optional<Kernel>> shared =
      device.type == Device::Type::cpu ? with_common_sizes(kernels) : with_common_elements(kernels);
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (shared[i]) steps[i]->payload = providers.generated({*std::move(shared[i])});
}

}  // namespace weft
