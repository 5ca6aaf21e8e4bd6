#include "loop/stages.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>

#include "base/fail.hpp"

namespace weft::loop {

namespace {

Dim axis_dim(const std::vector<Axis>& axes, std::size_t a) { return dims::axis(static_cast<int>(a), axes[a].extent); }

// The kernel over other axes: its axis a is replacement[a].
Kernel over(Kernel kernel, std::vector<Axis> axes, const std::vector<Dim>& replacement) {
  replace_axes(kernel, std::move(axes), replacement);
  return kernel;
}

bool depends_on_columns(const Instruction& it, const std::vector<bool>& known) {
  if (it.kind == Kind::reduce && it.over_carried) return true;
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

// The kernel with one more buffer; its number.
std::int32_t add_buffer(Kernel& kernel, DType dtype, bool written, std::size_t partial_memory, const Stages& stages) {
  kernel.buffers.push_back({dtype, written, partial(partial_memory), stages.partials[partial_memory].elements});
  return static_cast<std::int32_t>(kernel.buffers.size()) - 1;
}
Instruction load_of(DType dtype, std::int32_t buffer, Dim index) {
  Instruction load;
  load.kind = Kind::load;
  load.dtype = dtype;
  load.buffer = buffer;
  load.index = index;
  return load;
}
// Of value i, into partial memory number p.
Instruction store_of(Kernel& kernel, std::size_t i, std::size_t p, Dim index, const Stages& stages) {
  Instruction store;
  store.kind = Kind::store;
  store.dtype = kernel.body[i].dtype;
  store.args[0] = static_cast<std::int32_t>(i);
  store.buffer = add_buffer(kernel, store.dtype, true, p, stages);
  store.index = index;
  return store;
}

// A reduction that is cut, and its memory: of a position, the greatest element comes first, then where it is.
struct CutReduction {
  int instruction;
  std::size_t memory;  // number of the first partial
};
std::vector<CutReduction> give_memory(const Kernel& kernel, const std::vector<int>& reductions, Dim elements,
                                      Stages& stages) {
  std::vector<CutReduction> cut;
  for (const int i : reductions) {
    const Instruction& it = kernel.body[static_cast<std::size_t>(i)];
    cut.push_back({i, stages.partials.size()});
    if (it.op == Op::argmax)
      stages.partials.push_back({kernel.body[static_cast<std::size_t>(it.args[0])].dtype, elements});
    stages.partials.push_back({it.dtype, elements});
  }
  return cut;
}

// Stores what the reductions give into their partial memory; what else is stored is what `stored` says of the
// original's instructions.
void store_partials(Kernel& kernel, const std::vector<CutReduction>& reductions, const std::vector<bool>& stored,
                    const Stages& stages, Dim place) {
  std::vector<bool> keep = stored;
  const auto emit = [&](Instruction it, bool root) {
    kernel.body.push_back(it);
    keep.push_back(root);
  };
  for (const CutReduction& cut : reductions) {
    const auto i = static_cast<std::size_t>(cut.instruction);
    std::size_t memory = cut.memory;
    if (kernel.body[i].op == Op::argmax) {
      Instruction best = kernel.body[i];
      best.op = Op::amax;
      best.dtype = kernel.body[static_cast<std::size_t>(best.args[0])].dtype;
      best.index = 0;
      emit(best, false);
      emit(store_of(kernel, kernel.body.size() - 1, memory++, place, stages), true);
    }
    emit(store_of(kernel, i, memory, place, stages), true);
  }
  keep_only(kernel, keep);
  settle(kernel);
}

// In place of the reductions: the partial results, joined over `blocks`, the last axis. Besides what `stored` says,
// results are stored at `result_place` into the memory that begins with number `results`, where that is not negative.
// `length`: of a row before it was cut.
class Joining {
 public:
  Joining(const Kernel& kernel, const std::vector<CutReduction>& reductions, const Stages& stages, Dim place,
          Dim length)
      : from_(kernel), reductions_(reductions), stages_(stages), place_(place), length_(length), result_(kernel) {
    result_.body.clear();
  }

  Kernel run(const std::vector<bool>& stored, Dim result_place = 0, int results = -1) {
    number_.resize(from_.body.size());
    for (std::size_t i = 0; i < from_.body.size(); ++i) {
      const Instruction& it = from_.body[i];
      const auto found = std::ranges::find(reductions_, static_cast<int>(i), &CutReduction::instruction);
      number_[i] = found == reductions_.end() ? emit(renumbered(it), stored[i]) : joined(it, found->memory);
      if (found == reductions_.end() || results < 0) continue;
      const auto memory = static_cast<std::size_t>(results + (found - reductions_.begin()));
      emit(store_of(result_, static_cast<std::size_t>(number_[i]), memory, result_place, stages_), true);
    }
    keep_only(result_, keep_);
    settle(result_);
    return std::move(result_);
  }

 private:
  std::int32_t emit(const Instruction& it, bool root = false) {
    result_.body.push_back(it);
    keep_.push_back(root);
    return static_cast<std::int32_t>(result_.body.size()) - 1;
  }
  std::int32_t apply(Op op, DType dtype, std::initializer_list<std::int32_t> args) {
    Instruction it;
    it.kind = Kind::apply;
    it.op = op;
    it.dtype = dtype;
    std::copy(args.begin(), args.end(), it.args);
    return emit(it);
  }
  std::int32_t load(std::size_t memory) {
    const auto [found, is_new] = loads_.try_emplace(memory);
    const DType dtype = stages_.partials[memory].dtype;
    if (is_new) found->second = emit(load_of(dtype, add_buffer(result_, dtype, false, memory, stages_), place_));
    return found->second;
  }
  Instruction renumbered(Instruction it) const {
    for (std::int32_t& arg : it.args)
      if (arg >= 0) arg = number_[static_cast<std::size_t>(arg)];
    it.index = dims::substitute(it.index, [&](const DimNode* atom) {
      return atom->kind == DimKind::value ? dims::value(number_[static_cast<std::size_t>(atom->number)], atom->extent)
                                          : Dim::from_node(atom);
    });
    return it;
  }

  std::int32_t joined(Instruction it, std::size_t memory) {
    it.over_carried = false;
    it.joins = true;
    if (it.online) return joined_online(it, memory);
    it.args[0] = load(memory);
    if (it.op == Op::argmax) it.index = dims::value(load(memory + 1), length_);
    return emit(it);
  }
  // The sum of a chunk is that of exp(x - own), own being its greatest element. A chunk of -inf alone has no sum and
  // adds 0, or NaN where the greatest element of all is infinite or NaN too: an online sum is NaN there.
  std::int32_t joined_online(Instruction it, std::size_t memory) {
    const auto greatest = static_cast<std::size_t>(it.args[1]);
    const std::int32_t all = number_[greatest], sum = load(memory),
                       own = load(std::ranges::find(reductions_, it.args[1], &CutReduction::instruction)->memory);
    Instruction lowest;
    lowest.dtype = it.dtype;
    const double infinity = -std::numeric_limits<double>::infinity();
    std::memcpy(&lowest.bits, &infinity, sizeof infinity);
    const std::int32_t scaled =
        apply(Op::mul, it.dtype, {apply(Op::exp, it.dtype, {apply(Op::sub, it.dtype, {own, all})}), sum});
    const std::int32_t has_any = apply(Op::less, DType::boolean, {emit(lowest), own});
    it.online = false;
    it.args[0] = apply(Op::where, it.dtype, {has_any, scaled, apply(Op::sub, it.dtype, {all, all})});
    it.args[1] = it.args[2] = -1;
    return emit(it);
  }

  const Kernel& from_;
  const std::vector<CutReduction>& reductions_;
  const Stages& stages_;
  const Dim place_, length_;
  Kernel result_;
  std::vector<std::int32_t> number_;
  std::vector<bool> keep_;
  std::map<std::size_t, std::int32_t> loads_;  // by partial memory
};

}  // namespace

bool can_cut(const Kernel& kernel) {
  int inner = 0;
  for (const Axis& axis : kernel.axes) inner += axis.inner;
  return inner == 1 && std::ranges::none_of(kernel.body, [](const Instruction& it) {
           return it.kind == Kind::scan || it.multiplies || (it.kind == Kind::reduce && (it.over_carried || it.joins));
         });
}

bool walks_once(const Kernel& kernel) {
  return std::ranges::all_of(kernel.body, [](const Instruction& it) {
    return it.kind == Kind::reduce ? it.phase <= 1 : it.level != Level::inner || it.phase == 0;
  });
}

namespace {

// Walk by walk: each is cut, its reductions are joined, and what comes after them reads their results from memory.
class Cutter {
 public:
  Cutter(const Kernel& kernel, std::int64_t chunk) : kernel_(kernel), chunk_(chunk) {
    while (!kernel.axes[cut_].inner) ++cut_;
    rows_ = kernel.vector_axis == static_cast<int>(cut_);
    const Dim length = kernel.axes[cut_].extent;
    whole_ = length / Dim(chunk);
    rest_ = length % Dim(chunk);
    blocks_ = rest_.same(Dim(0)) ? whole_ : whole_ + Dim(1);
    outer_ = kernel.outer_count();
  }

  Stages run() {
    while (true) {
      std::vector<int> reductions;
      for (std::size_t i = 0; i < kernel_.body.size(); ++i)
        if (kernel_.body[i].kind == Kind::reduce && kernel_.body[i].phase == 1)
          reductions.push_back(static_cast<int>(i));
      if (reductions.empty()) {
        if (!kernel_.body.empty()) last_walk();
        return std::move(stages_);
      }
      walk(reductions);
    }
  }

 private:
  // The kernel over a chunk's number, the outer axes, and the elements of a chunk.
  void fold(const std::vector<CutReduction>& reductions, const std::vector<bool>& stored, Dim count, Dim size,
            Dim begin) {
    std::vector<Axis> axes{{count}};
    std::vector<Dim> replacement(kernel_.axes.size());
    const Dim number = add_outer(axes, replacement);
    axes.push_back({size, true});
    const Dim block = begin + axis_dim(axes, 0);
    replacement[cut_] = block * Dim(chunk_) + axis_dim(axes, axes.size() - 1);
    const int last = static_cast<int>(axes.size()) - 1;
    Kernel stage = over(kernel_, std::move(axes), replacement);
    stage.vector_axis = rows_ ? last : behind_first(kernel_.vector_axis);
    store_partials(stage, reductions, stored, stages_, place(number, block));
    stages_.kernels.push_back(std::move(stage));
  }
  // The number of an outer axis where one more comes first.
  int behind_first(int axis) const { return axis < static_cast<int>(cut_) ? axis + 1 : axis; }
  // Outer axes are added; returns the number of the outer point.
  Dim add_outer(std::vector<Axis>& axes, std::vector<Dim>& replacement) const {
    Dim number = 0;
    for (std::size_t a = 0; a < kernel_.axes.size(); ++a) {
      if (a == cut_) continue;
      axes.push_back(kernel_.axes[a]);
      replacement[a] = axis_dim(axes, axes.size() - 1);
      number = number * kernel_.axes[a].extent + replacement[a];
    }
    return number;
  }
  Dim place(Dim number, Dim block) const { return rows_ ? number * blocks_ + block : block * outer_ + number; }

  void walk(const std::vector<int>& reductions) {
    const std::vector<CutReduction> cut = give_memory(kernel_, reductions, outer_ * blocks_, stages_);
    std::vector<bool> first = none_of(kernel_), second = first, later = first;
    bool goes_on = false;
    for (std::size_t i = 0; i < first.size(); ++i) {
      const Instruction& it = kernel_.body[i];
      if (it.kind != Kind::store) continue;
      const bool inner = it.level == Level::inner;
      (inner && it.phase == 0 ? first : !inner && it.phase <= 1 ? second : later)[i] = true;
      goes_on |= later[i];
    }
    const std::size_t results = stages_.partials.size();
    if (goes_on)
      for (const int i : reductions)
        stages_.partials.push_back({kernel_.body[static_cast<std::size_t>(i)].dtype, outer_});
    if (!whole_.same(Dim(0))) fold(cut, first, whole_, Dim(chunk_), 0);
    if (!rest_.same(Dim(0))) fold(cut, first, 1, rest_, whole_);

    std::vector<Axis> axes;
    std::vector<Dim> replacement(kernel_.axes.size(), Dim(0));
    const Dim number = add_outer(axes, replacement);
    axes.push_back({blocks_, true});
    const Dim block = axis_dim(axes, axes.size() - 1);
    const int last = static_cast<int>(axes.size()) - 1;
    Kernel stage = over(kernel_, std::move(axes), replacement);
    stage.vector_axis = rows_ ? last : kernel_.vector_axis - (kernel_.vector_axis > static_cast<int>(cut_) ? 1 : 0);
    stages_.kernels.push_back(Joining(stage, cut, stages_, place(number, block), kernel_.axes[cut_].extent)
                                  .run(second, number, goes_on ? static_cast<int>(results) : -1));
    read_results(reductions, results);
    keep_only(kernel_, later);
    settle(kernel_);
  }

  // In place of the reductions: what the join has stored.
  void read_results(const std::vector<int>& reductions, std::size_t results) {
    if (results == stages_.partials.size()) return;  // nothing is left
    Dim number = 0;
    for (std::size_t a = 0; a < kernel_.axes.size(); ++a)
      if (a != cut_) number = number * kernel_.axes[a].extent + axis_dim(kernel_.axes, a);
    for (std::size_t r = 0; r < reductions.size(); ++r) {
      Instruction& it = kernel_.body[static_cast<std::size_t>(reductions[r])];
      it = load_of(it.dtype, add_buffer(kernel_, it.dtype, false, results + r, stages_), number);
    }
  }

  // What is stored after all reductions: its points are independent.
  void last_walk() {
    std::vector<Axis> axes;
    std::vector<Dim> replacement(kernel_.axes.size());
    const auto add_cut = [&] {
      axes.push_back({kernel_.axes[cut_].extent});
      replacement[cut_] = axis_dim(axes, axes.size() - 1);
    };
    if (!rows_) add_cut();
    add_outer(axes, replacement);
    if (rows_) add_cut();
    Kernel stage = over(kernel_, axes, replacement);
    stage.vector_axis = rows_ ? static_cast<int>(axes.size()) - 1 : behind_first(kernel_.vector_axis);
    settle(stage);
    stages_.kernels.push_back(std::move(stage));
  }

  Kernel kernel_;  // what is left of it
  const std::int64_t chunk_;
  std::size_t cut_ = 0;
  bool rows_ = false;
  Dim whole_ = 0, rest_ = 0, blocks_ = 0, outer_ = 0;
  Stages stages_;
};

}  // namespace

Stages cut_reductions(const Kernel& kernel, std::int64_t chunk) {
  WEFT_CHECK(can_cut(kernel), kernel.name, ": its reductions can't be cut");
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
    if (kernel.body[i].kind == Kind::reduce && kernel.body[i].over_carried) reductions.push_back(static_cast<int>(i));
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
  stages.kernels.push_back(Joining(stage, cut, stages, block * columns + column, length).run(second));
  return stages;
}

}  // namespace weft::loop
