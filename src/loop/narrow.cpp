#include "loop/narrow.hpp"

#include <algorithm>

namespace weft::loop {

namespace {

// With fewer rows, packing the elements costs more than it saves.
constexpr std::int64_t least_rows = 16;

bool is_simple(const Instruction& it) {
  if (it.kind == Kind::scan || !it.is(ReductionKind::whole)) return false;
  if (it.kind == Kind::reduce && (it.op == Op::argmax || it.phase != 1)) return false;
  return it.level != Level::inner || it.phase == 0;
}

bool qualifies(const Kernel& kernel) {
  if (kernel.vector_axis < 0 || kernel.axes.size() < 2 || !kernel.axes.back().inner) return false;
  const Axis& columns = kernel.axes[static_cast<std::size_t>(kernel.vector_axis)];
  if (columns.inner || !columns.extent.is_constant() || columns.extent.constant() < 2 ||
      columns.extent.constant() > narrow_columns)
    return false;
  const Dim rows = kernel.inner_count();
  if (rows.is_constant() && rows.constant() < least_rows) return false;
  return std::none_of(kernel.axes.begin(), kernel.axes.end(), [](const Axis& axis) { return axis.carried; }) &&
         std::any_of(kernel.body.begin(), kernel.body.end(),
                     [](const Instruction& it) { return it.kind == Kind::reduce; }) &&
         std::all_of(kernel.body.begin(), kernel.body.end(), is_simple);
}

// An instruction may exist twice: inside of the walk over rows and columns, where row and column follow from the vector
// axis, and outside of it, where the column is an axis of its own. One that depends on neither exists once.
class Narrowing {
 public:
  explicit Narrowing(const Kernel& before) : before_(before), after_(before) {
    const auto columns = static_cast<std::size_t>(before.vector_axis), rows = before.axes.size() - 1;
    after_.body.clear();
    after_.vector_axis = static_cast<int>(rows);
    after_.axes[columns].narrow = true;
    const Dim width = before.axes[columns].extent;
    after_.axes[rows].extent = before.axes[rows].extent * width;
    const Dim lane = dims::axis(after_.vector_axis, after_.axes[rows].extent);
    for (std::size_t a = 0; a < before.axes.size(); ++a)
      own_.push_back(dims::axis(static_cast<int>(a), before.axes[a].extent));
    of_lane_ = own_;
    of_lane_[columns] = lane % width;
    of_lane_[rows] = lane / width;
  }

  Kernel run() {
    for (const Instruction& it : before_.body) {
      const bool reduces = it.kind == Kind::reduce, inside = it.level == Level::inner;
      const std::int32_t within = reduces || it.phase > 0 ? -1 : put(it, inside_, of_lane_, inside);
      const std::int32_t without = inside                ? -1
                                   : is_same(it, within) ? within
                                                         : put(it, reduces ? inside_ : outside_, own_, true);
      inside_.push_back(within);
      outside_.push_back(without);
    }
    std::vector<bool> keep;
    for (std::size_t i = 0; i < after_.body.size(); ++i)
      keep.push_back(after_.body[i].kind == Kind::store && stored_[i]);
    keep_only(after_, keep);
    settle(after_);
    return std::move(after_);
  }

 private:
  using Numbers = std::vector<std::int32_t>;

  // Its operands are the same inside and outside of the walk.
  bool is_same(const Instruction& it, std::int32_t within) const {
    if (within < 0 || it.kind == Kind::store) return false;
    for (const std::int32_t arg : it.args)
      if (arg >= 0 && inside_[static_cast<std::size_t>(arg)] != outside_[static_cast<std::size_t>(arg)]) return false;
    return !dims::any_atom(it.index, [&](const DimNode& atom) {
      const auto number = static_cast<std::size_t>(atom.number);
      if (atom.kind == DimKind::axis) return atom.number == before_.vector_axis;
      return atom.kind == DimKind::value && inside_[number] != outside_[number];
    });
  }

  std::int32_t put(Instruction it, const Numbers& numbers, const std::vector<Dim>& axes, bool stores) {
    for (std::int32_t& arg : it.args)
      if (arg >= 0) arg = numbers[static_cast<std::size_t>(arg)];
    it.index = dims::substitute(it.index, [&](const DimNode* atom) {
      const auto number = static_cast<std::size_t>(atom->number);
      if (atom->kind == DimKind::axis) return axes[number];
      return atom->kind == DimKind::value ? dims::value(numbers[number], atom->extent) : Dim::from_node(atom);
    });
    after_.body.push_back(it);
    stored_.push_back(stores);
    return static_cast<std::int32_t>(after_.body.size()) - 1;
  }

  const Kernel& before_;
  Kernel after_;
  std::vector<Dim> own_, of_lane_;  // the replacement of each axis
  Numbers inside_, outside_;        // by instruction of the kernel before
  std::vector<bool> stored_;        // by instruction: a store in its right place
};

}  // namespace

void narrow_columns_on_lanes(Kernel& kernel) {
  if (qualifies(kernel)) kernel = Narrowing(kernel).run();
}

}  // namespace weft::loop
