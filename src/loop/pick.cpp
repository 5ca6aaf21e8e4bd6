#include "loop/pick.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <span>

namespace weft::loop {

namespace {

class Picker {
 public:
  explicit Picker(Kernel& kernel) : kernel_(kernel) {}

  void run() {
    if (!find_axis()) return;
    std::vector<Instruction> before = std::move(kernel_.body);
    kernel_.body.clear();
    before_ = before;
    for (std::size_t i = 0; i < before.size(); ++i) {
      const std::optional<Term> term = single_term(before[i]);
      place_.push_back(term ? pick(*term) : emit(at_new_places(before[i])));
    }
    if (!picked_) return;
    std::vector<bool> stores;
    for (const Instruction& it : kernel_.body) stores.push_back(it.kind == Kind::store);
    keep_only(kernel_, stores);
    settle(kernel_);
  }

 private:
  // i == number ? value : zero
  struct Term {
    std::int32_t number, value, zero;
  };

  // The one inner axis.
  bool find_axis() {
    for (std::size_t a = 0; a < kernel_.axes.size(); ++a) {
      if (kernel_.axes[a].carried || (kernel_.axes[a].inner && axis_ >= 0)) return false;
      if (kernel_.axes[a].inner) axis_ = static_cast<int>(a);
    }
    return axis_ >= 0 && !extent().same(Dim(0));
  }
  Dim extent() const { return kernel_.axes[static_cast<std::size_t>(axis_)].extent; }
  Dim axis() const { return dims::axis(axis_, extent()); }
  const Instruction& old(std::int32_t i) const { return before_[static_cast<std::size_t>(i)]; }
  bool is(std::int32_t i, Op op) const { return old(i).kind == Kind::apply && old(i).op == op; }

  std::optional<Term> single_term(const Instruction& it) const {
    if (it.kind != Kind::reduce || it.op != Op::sum || it.is(ReductionKind::join) ||
        it.is(ReductionKind::over_carried) || !is(it.args[0], Op::where))
      return std::nullopt;
    const auto& [condition, value, zero] = old(it.args[0]).args;
    if (old(zero).kind != Kind::constant || old(zero).bits != 0 || !is(condition, Op::equal)) return std::nullopt;
    for (const int side : {0, 1}) {
      const std::int32_t position = old(condition).args[side], number = old(condition).args[1 - side];
      if (old(position).kind == Kind::index && old(position).index.same(axis()) && old(number).level != Level::inner &&
          old(number).dtype == DType::i64)
        return Term{number, value, zero};
    }
    return std::nullopt;
  }

  std::int32_t emit(Instruction instruction) {
    kernel_.body.push_back(instruction);
    return static_cast<std::int32_t>(kernel_.body.size()) - 1;
  }
  Instruction at_new_places(Instruction it) const {
    for (std::int32_t& arg : it.args)
      if (arg >= 0) arg = place_[static_cast<std::size_t>(arg)];
    it.index = at_new_places(it.index);
    return it;
  }
  Dim at_new_places(Dim index) const {
    return dims::substitute(index, [&](const DimNode* atom) {
      return atom->kind == DimKind::value ? dims::value(place_[static_cast<std::size_t>(atom->number)], atom->extent)
                                          : Dim::from_node(atom);
    });
  }
  std::int32_t apply(Op op, DType dtype, std::initializer_list<std::int32_t> args) {
    Instruction it;
    it.kind = Kind::apply;
    it.op = op;
    it.dtype = dtype;
    std::copy(args.begin(), args.end(), it.args);
    return emit(it);
  }

  std::int32_t pick(const Term& term) {
    picked_ = true;
    const std::int32_t number = place_[static_cast<std::size_t>(term.number)];
    Instruction last, first;
    last.dtype = DType::i64;
    last.kind = Kind::index;
    last.index = extent() - Dim(1);
    first.dtype = DType::i64;
    const std::int32_t below = apply(Op::minimum, DType::i64, {number, emit(last)});
    const std::int32_t within = apply(Op::maximum, DType::i64, {below, emit(first)});
    element_ = dims::value(within, extent());
    at_element_.clear();
    const std::int32_t value = value_at_element(term.value), zero = place_[static_cast<std::size_t>(term.zero)];
    const DType dtype = old(term.value).dtype;
    const std::int32_t there = apply(Op::equal, DType::boolean, {number, within});
    const std::int32_t one = apply(Op::where, dtype, {there, value, zero});
    return apply(Op::add, dtype, {one, zero});  // a sum starts from 0: of -0 alone it is 0
  }

  // Instruction i where the inner axis is at the element.
  std::int32_t value_at_element(std::int32_t i) {
    const Instruction& it = old(i);
    if (it.level != Level::inner) return place_[static_cast<std::size_t>(i)];
    if (const auto found = at_element_.find(i); found != at_element_.end()) return found->second;
    Instruction copy = it;
    for (std::int32_t& arg : copy.args)
      if (arg >= 0) arg = value_at_element(arg);
    copy.index = dims::substitute(it.index, [&](const DimNode* atom) {
      if (Dim::from_node(atom).same(axis())) return element_;
      if (atom->kind == DimKind::value) return dims::value(value_at_element(atom->number), atom->extent);
      return Dim::from_node(atom);
    });
    return at_element_[i] = emit(copy);
  }

  Kernel& kernel_;
  std::span<const Instruction> before_;
  std::vector<std::int32_t> place_;  // of each instruction in the new body
  int axis_ = -1;
  Dim element_ = 0;
  std::map<std::int32_t, std::int32_t> at_element_;
  bool picked_ = false;
};

}  // namespace

void pick_single_terms(Kernel& kernel) { Picker(kernel).run(); }

}  // namespace weft::loop
