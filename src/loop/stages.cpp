#include "loop/stages.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "loop/analysis.hpp"
#include "loop/joining.hpp"
#include "loop/partial_memory.hpp"
#include "loop/scan_parts.hpp"

namespace weft::loop {

namespace {

Dim axis_dim(const std::vector<Axis>& axes, std::size_t a) { return dims::axis(static_cast<int>(a), axes[a].extent); }

// The kernel over other axes: its axis a is replacement[a].
Kernel over(Kernel kernel, std::vector<Axis> axes, const std::vector<Dim>& replacement) {
  replace_axes(kernel, std::move(axes), replacement);
  return kernel;
}

bool depends_on_columns(const Instruction& it, const std::vector<bool>& known) {
  if (it.is(ReductionKind::over_carried)) return true;
  for (const std::int32_t arg : it.args)
    if (arg >= 0 && known[static_cast<std::size_t>(arg)]) return true;
  return dims::any_atom(it.index, [&](const DimNode& atom) {
    return atom.kind == DimKind::value && known[static_cast<std::size_t>(atom.number)];
  });
}
// By instruction: whether it is a reduction over the rows, or reads one.
std::vector<bool> behind_columns(const Kernel& kernel) {
  std::vector<bool> behind(kernel.body.size());
  for (std::size_t i = 0; i < behind.size(); ++i) behind[i] = depends_on_columns(kernel.body[i], behind);
  return behind;
}

std::vector<bool> none_of(const Kernel& kernel) { return std::vector<bool>(kernel.body.size(), false); }

}  // namespace

namespace {

int inner_axes(const Kernel& kernel) {
  return static_cast<int>(std::ranges::count_if(kernel.axes, [](const Axis& axis) { return axis.inner; }));
}

bool can_cut_reductions(const Kernel& kernel) {
  bool scans = false, stores_rows = false;
  for (const Instruction& it : kernel.body) {
    if (is_cut(it) || it.is(ReductionKind::product) || it.is(ReductionKind::over_carried) || it.is(ReductionKind::join))
      return false;
    scans |= it.kind == Kind::scan;
    stores_rows |= it.kind == Kind::store && it.level != Level::inner && it.phase == 0;
  }
  return !(scans && stores_rows);  // no stage of scans alone stores once a row
}

}  // namespace

bool can_cut(const Kernel& kernel) { return inner_axes(kernel) == 1 && can_cut_reductions(kernel); }

bool can_cut_runs(const Kernel& kernel) {
  return inner_axes(kernel) > 1 && kernel.vector_axis >= 0 &&
         kernel.axes[static_cast<std::size_t>(kernel.vector_axis)].inner && can_cut_reductions(kernel) &&
         std::ranges::none_of(kernel.body, [](const Instruction& it) {
           return it.kind == Kind::scan ||
                  (it.kind == Kind::reduce && (it.op == Op::argmax || it.is(ReductionKind::online)));
         });
}

bool walks_once(const Kernel& kernel) {
  return std::ranges::all_of(kernel.body, [](const Instruction& it) {
    return it.kind == Kind::reduce ? it.phase <= 1 : it.level != Level::inner || it.phase == 0;
  });
}

namespace {

// Walk by walk: each is cut, its reductions are joined and its scans get their starts, and what comes after them reads
// these from memory.
class Cutter {
 public:
  Cutter(const Kernel& kernel, std::int64_t chunk) : kernel_(kernel), chunk_(chunk) {
    while (!kernel.axes[cut_].inner) ++cut_;
    rows_ = kernel.vector_axis >= 0 && kernel.axes[vector()].inner;
    const Dim length = kernel.axes[cut_].extent;
    whole_ = length / Dim(chunk);
    rest_ = length % Dim(chunk);
    blocks_ = rest_.same(Dim(0)) ? whole_ : whole_ + Dim(1);
    outer_ = kernel.outer_count();
    const bool scans = std::ranges::any_of(kernel.body, [](const Instruction& it) { return it.kind == Kind::scan; });
    turned_ = scans && !rows_ && dims::proves_less(kernel.axes[vector()].extent, Dim(full_block));
  }

  Stages run() {
    while (true) {
      const Walk next = next_walk();
      if (next.reductions.empty() && next.scans.empty()) {
        if (!kernel_.body.empty()) last_walk();
        return std::move(stages_);
      }
      walk(next);
    }
  }

 private:
  // Columns that fill the lanes of a block.
  static constexpr std::int64_t full_block = 128;

  // The reductions and scans of the next walk: those whose operands depend only on earlier ones.
  struct Walk {
    std::vector<int> reductions, scans;
    std::vector<bool> first, second, later;  // stores: in the walk, with its reductions, after it
  };
  Walk next_walk() const {
    Walk next{{}, {}, none_of(kernel_), none_of(kernel_), none_of(kernel_)};
    // By instruction: depends on a result of this walk or a later one; depends on a result of a later walk.
    std::vector<bool> waits = none_of(kernel_), waits_longer = waits;
    for (std::size_t i = 0; i < waits.size(); ++i) {
      const Instruction& it = kernel_.body[i];
      std::vector<bool> reads = none_of(kernel_);
      mark_read(it, reads);
      if (it.is(ReductionKind::online)) reads[static_cast<std::size_t>(it.args[1])] = false;  // found beside it
      bool after = false, long_after = false;
      for (std::size_t r = 0; r < i; ++r) {
        after |= reads[r] && waits[r];
        long_after |= reads[r] && waits_longer[r];
      }
      const bool scans = it.kind == Kind::scan && !is_cut(it);
      if (!after && scans) next.scans.push_back(static_cast<int>(i));
      if (!after && it.kind == Kind::reduce) next.reductions.push_back(static_cast<int>(i));
      waits[i] = after || scans || it.kind == Kind::reduce;
      waits_longer[i] = long_after || scans || (after && it.kind == Kind::reduce);
      if (it.kind != Kind::store) continue;
      const bool inner = it.level == Level::inner;
      (inner && !after ? next.first : !inner && !long_after ? next.second : next.later)[i] = true;
    }
    return next;
  }

  // The kernel over a chunk's number, the outer axes, and the elements of a chunk.
  struct Part {
    Kernel kernel;
    Dim number, block;  // of the outer point, of the chunk
  };
  Part part(Dim count, Dim size, Dim begin) const {
    std::vector<Axis> axes;
    std::vector<Dim> replacement(kernel_.axes.size());
    Dim number = 0, block = begin;
    int lanes = 0;
    if (turned_) {
      number = add_outer(axes, replacement, count);
      lanes = static_cast<int>(axes.size()) - 1;
      block = block + axis_dim(axes, axes.size() - 1) / kernel_.axes[vector()].extent;
    } else {
      axes.push_back({count});
      block = block + axis_dim(axes, 0);
      number = add_outer(axes, replacement);
      lanes = rows_ ? static_cast<int>(axes.size()) : behind_first(kernel_.vector_axis);
    }
    axes.push_back({size, true});
    replacement[cut_] = block * Dim(chunk_) + axis_dim(axes, axes.size() - 1);
    lanes += add_runs(axes, replacement, true);
    Kernel stage = over(kernel_, std::move(axes), replacement);
    stage.vector_axis = lanes;
    return {std::move(stage), number, block};
  }
  void fold(const std::vector<CutReduction>& reductions, const std::vector<CutScan>& scans,
            const std::vector<bool>& stored, Dim count, Dim size, Dim begin) {
    auto [stage, number, block] = part(count, size, begin);
    std::vector<bool> keep = stored;
    for (const CutScan& each : scans) {
      const std::size_t total = add_total(stage, each, stages_);
      keep.resize(stage.body.size(), false);
      stage.body.push_back(store_of(stage, total, each.totals, number * blocks_ + block, stages_));
      keep.push_back(true);
    }
    store_partials(stage, reductions, keep, stages_, place(number, block));
    stages_.kernels.push_back(std::move(stage));
  }
  std::size_t vector() const { return static_cast<std::size_t>(kernel_.vector_axis); }
  // The number of an outer axis where one more comes first.
  int behind_first(int axis) const { return axis < static_cast<int>(cut_) ? axis + 1 : axis; }
  // Outer axes are added; returns the number of the outer point. Few columns do not fill the lanes of a block: of
  // `copies` chunks they are one axis, the last one.
  Dim add_outer(std::vector<Axis>& axes, std::vector<Dim>& replacement, Dim copies = 0) const {
    Dim number = 0;
    const auto add = [&](std::size_t a, bool copied) {
      const Dim extent = kernel_.axes[a].extent;
      axes.push_back({copied ? extent * copies : extent});
      const Dim each = axis_dim(axes, axes.size() - 1);
      replacement[a] = copied ? each % extent : each;
      number = number * extent + replacement[a];
    };
    for (std::size_t a = 0; a < kernel_.axes.size(); ++a)
      if (!kernel_.axes[a].inner) add(a, !copies.same(Dim(0)) && a == vector());
    return number;
  }
  // The inner axes but the one that is cut; returns how many.
  int add_runs(std::vector<Axis>& axes, std::vector<Dim>& replacement, bool inner) const {
    int runs = 0;
    for (std::size_t a = cut_ + 1; a < kernel_.axes.size(); ++a)
      if (kernel_.axes[a].inner) {
        axes.push_back({kernel_.axes[a].extent, inner});
        replacement[a] = axis_dim(axes, axes.size() - 1);
        ++runs;
      }
    return runs;
  }
  Dim place(Dim number, Dim block) const { return rows_ ? number * blocks_ + block : block * outer_ + number; }

  void walk(const Walk& now) {
    const std::vector<CutReduction> cut = give_memory(kernel_, now.reductions, outer_ * blocks_, stages_);
    std::vector<CutScan> scans;
    for (const int i : now.scans) scans.push_back(give_memory(kernel_, i, outer_ * blocks_, stages_));
    const bool goes_on = std::ranges::find(now.later, true) != now.later.end();
    const std::size_t results = stages_.partials.size();
    if (goes_on)
      for (const int i : now.reductions)
        stages_.partials.push_back({kernel_.body[static_cast<std::size_t>(i)].dtype, outer_});
    if (!whole_.same(Dim(0))) fold(cut, scans, now.first, whole_, Dim(chunk_), 0);
    // Nothing comes after the last chunk: scans do not need its total.
    const bool stores_first = std::ranges::find(now.first, true) != now.first.end();
    if (!rest_.same(Dim(0)) && (!cut.empty() || stores_first)) fold(cut, {}, now.first, 1, rest_, whole_);
    if (!cut.empty()) join(cut, now.second, goes_on ? static_cast<int>(results) : -1);
    if (!scans.empty()) stages_.kernels.push_back(kernel_of_starts(kernel_, scans, outer_, blocks_, stages_));
    if (goes_on) read_results(now.reductions, results);
    std::vector<bool> later = now.later;
    for (std::size_t s = scans.size(); s-- > 0;) {
      begin_with_start(kernel_, scans[s], number_here() * blocks_ + axis_dim(kernel_.axes, cut_) / Dim(chunk_),
                       stages_);
      later.insert(later.begin() + scans[s].instruction, false);
    }
    keep_only(kernel_, later);
    settle(kernel_);
  }

  void join(const std::vector<CutReduction>& cut, const std::vector<bool>& stored, int results) {
    std::vector<Axis> axes;
    std::vector<Dim> replacement(kernel_.axes.size(), Dim(0));
    const Dim number = add_outer(axes, replacement);
    axes.push_back({blocks_, true});
    const Dim block = axis_dim(axes, axes.size() - 1);
    const int last = static_cast<int>(axes.size()) - 1;
    Kernel stage = over(kernel_, std::move(axes), replacement);
    stage.vector_axis = rows_ ? last : kernel_.vector_axis - (kernel_.vector_axis > static_cast<int>(cut_) ? 1 : 0);
    stages_.kernels.push_back(
        joined(stage, cut, stages_, {place(number, block), kernel_.axes[cut_].extent}, stored, {number, results}));
  }

  // The number of the outer point, over the kernel's own axes.
  Dim number_here() const {
    Dim number = 0;
    for (std::size_t a = 0; a < kernel_.axes.size(); ++a)
      if (!kernel_.axes[a].inner) number = number * kernel_.axes[a].extent + axis_dim(kernel_.axes, a);
    return number;
  }
  // Loads of the joined results replace the reductions.
  void read_results(const std::vector<int>& reductions, std::size_t results) {
    for (std::size_t r = 0; r < reductions.size(); ++r) {
      Instruction& it = kernel_.body[static_cast<std::size_t>(reductions[r])];
      it = load_of(it.dtype, add_buffer(kernel_, it.dtype, false, results + r, stages_), number_here());
    }
  }

  // What is stored after all reductions and with all starts. Where nothing is scanned its points are independent.
  void last_walk() {
    if (std::ranges::any_of(kernel_.body, is_cut)) {
      if (!whole_.same(Dim(0))) last_parts(whole_, Dim(chunk_), 0);
      if (!rest_.same(Dim(0))) last_parts(1, rest_, whole_);
      return;
    }
    std::vector<Axis> axes;
    std::vector<Dim> replacement(kernel_.axes.size());
    const auto add_cut = [&] {
      axes.push_back({kernel_.axes[cut_].extent});
      replacement[cut_] = axis_dim(axes, axes.size() - 1);
    };
    if (!rows_) add_cut();
    add_outer(axes, replacement);
    if (rows_) add_cut();
    add_runs(axes, replacement, false);
    Kernel stage = over(kernel_, axes, replacement);
    stage.vector_axis = rows_ ? static_cast<int>(axes.size()) - 1 : behind_first(kernel_.vector_axis);
    settle(stage);
    stages_.kernels.push_back(std::move(stage));
  }
  void last_parts(Dim count, Dim size, Dim begin) {
    Kernel stage = part(count, size, begin).kernel;
    settle(stage);
    stages_.kernels.push_back(std::move(stage));
  }

  Kernel kernel_;  // what is left of it
  const std::int64_t chunk_;
  std::size_t cut_ = 0;
  bool rows_ = false, turned_ = false;  // turned: few columns, of several chunks on the lanes
  Dim whole_ = 0, rest_ = 0, blocks_ = 0, outer_ = 0;
  Stages stages_;
};

}  // namespace

Stages cut_reductions(const Kernel& kernel, std::int64_t chunk) {
  WEFT_CHECK(can_cut(kernel) || can_cut_runs(kernel), kernel.name, ": its reductions and scans can't be cut");
  return Cutter(kernel, chunk).run();
}

Stages cut_columns(const Kernel& kernel, std::int64_t chunk) {
  std::vector<int> reductions;
  Stages stages;
  std::vector<std::size_t> outer, inner;
  for (std::size_t a = 0; a < kernel.axes.size(); ++a) (kernel.axes[a].inner ? inner : outer).push_back(a);
  const Dim length = kernel.outer_count(), whole = length / Dim(chunk), rest = length % Dim(chunk);
  const Dim blocks = rest.same(Dim(0)) ? whole : whole + Dim(1), columns = kernel.inner_count();
  for (std::size_t i = 0; i < kernel.body.size(); ++i)
    if (kernel.body[i].is(ReductionKind::over_carried)) reductions.push_back(static_cast<int>(i));
  const std::vector<CutReduction> cut = give_memory(kernel, reductions, columns * blocks, stages);
  const std::vector<bool> behind = behind_columns(kernel);
  std::vector<bool> first = none_of(kernel), second = none_of(kernel);
  for (std::size_t i = 0; i < behind.size(); ++i)
    if (kernel.body[i].kind == Kind::store) (behind[i] ? second : first)[i] = true;

  // Axis 0 is the chunk of rows, axis 1 the row in it; then come the elements of a row.
  const auto fold = [&](Dim count, Dim size, Dim begin) {
    std::vector<Axis> axes{{count}, {size, false, true}};
    std::vector<Dim> replacement(kernel.axes.size());
    const Dim block = begin + axis_dim(axes, 0), row = block * Dim(chunk) + axis_dim(axes, 1);
    Dim below = 1, column = 0;
    for (std::size_t k = outer.size(); k-- > 0;) {
      const Dim extent = kernel.axes[outer[k]].extent, above = row / below;
      replacement[outer[k]] = k == 0 ? above : above % extent;
      below = below * extent;
    }
    for (const std::size_t a : inner) {
      axes.push_back(kernel.axes[a]);
      replacement[a] = axis_dim(axes, axes.size() - 1);
      column = column * kernel.axes[a].extent + replacement[a];
    }
    const int last = static_cast<int>(axes.size()) - 1;
    Kernel stage = over(kernel, std::move(axes), replacement);
    stage.vector_axis = last;
    store_partials(stage, cut, first, stages, block * columns + column);
    stages.kernels.push_back(std::move(stage));
  };
  if (!whole.same(Dim(0))) fold(whole, chunk, 0);
  if (!rest.same(Dim(0))) fold(1, rest, whole);

  std::vector<Axis> axes;
  std::vector<Dim> replacement(kernel.axes.size(), Dim(0));
  Dim column = 0;
  for (const std::size_t a : inner) {
    axes.push_back({kernel.axes[a].extent});
    replacement[a] = axis_dim(axes, axes.size() - 1);
    column = column * kernel.axes[a].extent + replacement[a];
  }
  axes.push_back({blocks, true});
  const Dim block = axis_dim(axes, axes.size() - 1);
  Kernel stage = over(kernel, axes, replacement);
  stage.vector_axis = static_cast<int>(axes.size()) - 2;
  stages.kernels.push_back(joined(stage, cut, stages, {block * columns + column, length}, second));
  return stages;
}

}  // namespace weft::loop
