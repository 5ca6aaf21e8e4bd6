#include "loop/analysis.hpp"

#include <algorithm>

#include "base/fail.hpp"

namespace weft::loop {

std::vector<int> values_in(Dim index) {
  std::vector<int> values;
  dims::any_atom(index, [&](const DimNode& node) {
    if (node.kind == DimKind::value && std::find(values.begin(), values.end(), node.number) == values.end())
      values.push_back(node.number);
    return false;
  });
  return values;
}
void mark_read(const Instruction& instruction, std::vector<bool>& read) {
  for (const std::int32_t arg : instruction.args)
    if (arg >= 0) read[static_cast<std::size_t>(arg)] = true;
  for (const int value : values_in(instruction.index)) read[static_cast<std::size_t>(value)] = true;
}

namespace {

std::uint32_t axes_in(Dim index) {
  std::uint32_t axes = 0;
  dims::any_atom(index, [&](const DimNode& node) {
    if (node.kind == DimKind::axis) axes |= 1u << node.number;
    return false;
  });
  return axes;
}

bool is_root(const Instruction& v) { return v.kind == Kind::store || v.kind == Kind::reduce; }

class Analyzer {
 public:
  Analyzer(const Kernel& kernel, const KeepLimits& limits) : kernel_(kernel), limits_(limits) {}

  Analysis run() {
    find_axes();
    find_facts();
    find_costs();
    for (int phase = 0; phase < result_.phases; ++phase) find_walk(phase);
    return std::move(result_);
  }

 private:
  const Instruction& at(int i) const { return kernel_.body[static_cast<std::size_t>(i)]; }
  Facts& facts(int i) { return result_.facts[static_cast<std::size_t>(i)]; }
  int size() const { return static_cast<int>(kernel_.body.size()); }

  void find_axes() {
    WEFT_CHECK(kernel_.axes.size() <= 32, kernel_.name, ": more than 32 axes");
    const bool vector_is_inner =
        kernel_.vector_axis >= 0 && kernel_.axes[static_cast<std::size_t>(kernel_.vector_axis)].inner;
    bool any_inner = false;
    for (int a = 0; a < static_cast<int>(kernel_.axes.size()); ++a) {
      const bool inner = kernel_.axes[static_cast<std::size_t>(a)].inner;
      if (inner) inner_bits_ |= 1u << a;
      if (kernel_.axes[static_cast<std::size_t>(a)].carried) carried_bits_ |= 1u << a;
      any_inner |= inner;
      if (a == kernel_.vector_axis) continue;
      if (kernel_.axes[static_cast<std::size_t>(a)].narrow) {
        result_.narrow = a;
        continue;
      }
      const bool carried = kernel_.axes[static_cast<std::size_t>(a)].carried;
      (carried ? result_.carried : inner ? result_.inner : result_.outer).push_back(a);
    }
    WEFT_CHECK(kernel_.vector_axis >= 0 || kernel_.axes.empty(), kernel_.name, ": axes, but none for the lanes");
    result_.form = vector_is_inner ? Form::rows : any_inner ? Form::columns : Form::pointwise;
    if (kernel_.vector_axis >= 0) vector_bit_ = 1u << kernel_.vector_axis;
    const Dim rows = kernel_.inner_count();
    result_.single_pass = result_.form == Form::columns && rows.is_constant() && rows.constant() <= 64;
  }

  void find_facts() {
    result_.facts.resize(kernel_.body.size());
    for (int i = 0; i < size(); ++i) {
      const Instruction& v = at(i);
      Facts& f = facts(i);
      const auto read = [&](int operand) {
        f.axes |= facts(operand).axes;
        f.phase = std::max(f.phase, facts(operand).phase);
        f.last |= facts(operand).last;
      };
      for (const std::int32_t arg : v.args)
        if (arg >= 0 && !is_found_beside(v, arg)) read(arg);
      f.axes |= axes_in(v.index);
      for (const int value : values_in(v.index)) read(value);
      if (v.is(ReductionKind::over_carried)) {
        WEFT_CHECK(result_.form == Form::rows, kernel_.name, ": v", i, " reduces no columns");
        f.axes = (f.axes & ~carried_bits_) | inner_bits_ | vector_bit_;  // each column has a result, though all be one
        f.last = true;
      } else if (v.kind == Kind::reduce) {
        f.axes &= ~inner_bits_;
        if (result_.form == Form::columns) f.axes |= vector_bit_;
        if (result_.narrow >= 0) f.axes |= 1u << result_.narrow;
        ++f.phase;
        result_.phases = std::max(result_.phases, f.phase);
      }
      if (v.kind == Kind::scan) f.axes |= inner_bits_ | vector_bit_;
      if (v.kind == Kind::store) f.phase = std::max(f.phase, static_cast<int>(v.phase));
      f.inner = (f.axes & inner_bits_) != 0;
      f.vector = (f.axes & vector_bit_) != 0;
      if (f.inner) result_.phases = std::max(result_.phases, f.phase + 1);
    }
  }

  // The cost of recomputing a value together with its inner operands.
  void find_costs() {
    constexpr int enough = 1000;
    costs_.resize(kernel_.body.size());
    for (int i = 0; i < size(); ++i) {
      if (!facts(i).inner) continue;
      int cost = weight(at(i));
      for (const std::int32_t arg : at(i).args)
        if (arg >= 0) cost += costs_[static_cast<std::size_t>(arg)];
      for (const int value : values_in(at(i).index)) cost += costs_[static_cast<std::size_t>(value)] + 4;
      costs_[static_cast<std::size_t>(i)] = std::min(cost, enough);
    }
  }

  // A store of an earlier walk, in the same loops, from which value `i` can be reloaded unrounded.
  int store_of(int i, int phase) {
    for (int s = i + 1; s < size(); ++s)
      if (at(s).kind == Kind::store && at(s).args[0] == i && facts(s).phase < phase && facts(s).axes == facts(i).axes)
        return s;
    return -1;
  }

  bool can_keep() {
    const Dim count = kernel_.inner_count();
    return result_.form == Form::rows &&
           (count.is_constant() ? count.constant() <= limits_.elements : limits_.symbolic) &&
           static_cast<int>(result_.kept.size()) < limits_.buffers;
  }

  bool may_keep(const Instruction& v) {
    switch (limits_.what) {
      case KeepLimits::What::values: return v.kind != Kind::load;
      case KeepLimits::What::values_and_loads: return true;
      case KeepLimits::What::packs: break;
    }
    // Packs are fetched before anything is computed, so neither address nor predicate may depend on a computed value.
    return v.kind == Kind::load && v.args[0] < 0 && values_in(v.index).empty() &&
           access(kernel_, result_, v.index).kind == Access::Kind::contiguous;
  }

  // Instructions are in SSA form, so one sweep from the end meets every user before its operands.
  void find_walk(int phase) {
    std::vector<bool> needed(kernel_.body.size(), false);
    std::vector<Step> walk;
    for (int i = size() - 1; i >= 0; --i) {
      const Instruction& v = at(i);
      if (is_root(v)) {
        bool here = facts(i).inner && facts(i).phase == phase && !facts(i).last;
        if (v.kind == Kind::reduce)
          here = v.is(ReductionKind::over_carried) ? facts(i).phase == phase : facts(i).phase == phase + 1;
        if (here) {
          walk.push_back({Step::How::compute, i, -1});
          mark_read(v, needed);
        }
        continue;
      }
      if (!needed[static_cast<std::size_t>(i)] || !facts(i).inner) continue;
      Step step{Step::How::compute, i, -1};
      const bool known = seen_.size() > static_cast<std::size_t>(i) && seen_[static_cast<std::size_t>(i)];
      if (known && may_keep(v)) {
        const bool kept = std::find(result_.kept.begin(), result_.kept.end(), i) != result_.kept.end();
        const int store = store_of(i, phase);
        const bool is_worth_it = costs_[static_cast<std::size_t>(i)] >= 8 || v.kind == Kind::load || store >= 0;
        if (store >= 0 && limits_.reloads) {
          step = {Step::How::reload, i, store};
        } else if (kept || (is_worth_it && can_keep())) {
          if (!kept) keep(i);
          step.how = Step::How::recall;
        }
      }
      walk.push_back(step);
      if (step.how == Step::How::compute) mark_read(v, needed);
    }
    seen_.resize(kernel_.body.size(), false);
    for (const Step& step : walk) seen_[static_cast<std::size_t>(step.instruction)] = true;
    std::reverse(walk.begin(), walk.end());
    result_.walks.push_back(std::move(walk));
  }

  // The first walk that has the value stores it.
  void keep(int i) {
    result_.kept.push_back(i);
    for (std::vector<Step>& walk : result_.walks)
      for (Step& step : walk)
        if (step.instruction == i && step.how == Step::How::compute) {
          step.how = Step::How::keep;
          return;
        }
  }

  const Kernel& kernel_;
  const KeepLimits limits_;
  Analysis result_;
  std::uint32_t inner_bits_ = 0, carried_bits_ = 0, vector_bit_ = 0;
  std::vector<int> costs_;
  std::vector<bool> seen_;  // computed in an earlier walk
};

}  // namespace

Analysis analyze(const Kernel& kernel, const KeepLimits& limits) { return Analyzer(kernel, limits).run(); }

bool differs(const Kernel& kernel, const Analysis& analysis, const DimNode& atom) {
  if (atom.kind == DimKind::axis) return atom.number == kernel.vector_axis;
  return atom.kind == DimKind::value && analysis.facts[static_cast<std::size_t>(atom.number)].vector;
}

Access access(const Kernel& kernel, const Analysis& analysis, Dim index) {
  const auto by_lane = [&](const DimNode& atom) { return differs(kernel, analysis, atom); };
  if (!dims::any_atom(index, by_lane)) return {Access::Kind::uniform, 0, index};
  const Dim extent = kernel.axes[static_cast<std::size_t>(kernel.vector_axis)].extent;
  const Dim axis = dims::axis(kernel.vector_axis, extent);
  const dims::Linear linear = dims::linear_in(index, axis);
  if (!linear.linear || dims::any_atom(linear.coefficient, by_lane)) return {Access::Kind::general, 0, index};
  const Dim rest = index - linear.coefficient * axis;
  if (dims::any_atom(rest, by_lane)) return {Access::Kind::general, 0, index};
  return {linear.coefficient.same(Dim(1)) ? Access::Kind::contiguous : Access::Kind::strided, linear.coefficient, rest};
}

Dim extent_of(const Kernel& kernel, const std::vector<int>& axes) {
  Dim count = 1;
  for (const int axis : axes) count = count * kernel.axes[static_cast<std::size_t>(axis)].extent;
  return count;
}

}  // namespace weft::loop
