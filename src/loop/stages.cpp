#include "loop/stages.hpp"

#include <algorithm>

#include "base/fail.hpp"

namespace weft::loop {

namespace {

Dim axis_dim(const std::vector<Axis>& axes, std::size_t a) { return dims::axis(static_cast<int>(a), axes[a].extent); }

// The kernel over other axes: its axis a is replacement[a].
Kernel over(Kernel kernel, std::vector<Axis> axes, const std::vector<Dim>& replacement) {
  replace_axes(kernel, std::move(axes), replacement);
  return kernel;
}

bool depends_on_reduction(const Instruction& it, bool over_carried, const std::vector<bool>& known) {
  if (it.kind == Kind::reduce && it.over_carried == over_carried) return true;
  for (const std::int32_t arg : it.args)
    if (arg >= 0 && known[static_cast<std::size_t>(arg)]) return true;
  return dims::any_atom(it.index, [&](const DimNode& atom) {
    return atom.kind == DimKind::value && known[static_cast<std::size_t>(atom.number)];
  });
}
// By instruction: whether it is a reduction of this kind, or reads one.
std::vector<bool> behind_reductions(const Kernel& kernel, bool over_carried) {
  std::vector<bool> behind(kernel.body.size());
  for (std::size_t i = 0; i < behind.size(); ++i)
    behind[i] = depends_on_reduction(kernel.body[i], over_carried, behind);
  return behind;
}

std::vector<bool> none_of(const Kernel& kernel) { return std::vector<bool>(kernel.body.size(), false); }

// Stores what the reductions give into their partial memory; what else is stored is what `stored` says of the
// original's instructions.
void store_partials(Kernel& kernel, const std::vector<int>& reductions, const std::vector<bool>& stored,
                    const Stages& stages, Dim place) {
  std::vector<bool> keep = stored;
  for (std::size_t p = 0; p < reductions.size(); ++p) {
    const Instruction& reduction = kernel.body[static_cast<std::size_t>(reductions[p])];
    Instruction store;
    store.kind = Kind::store;
    store.dtype = reduction.dtype;
    store.args[0] = reductions[p];
    store.buffer = static_cast<std::int32_t>(kernel.buffers.size());
    store.index = place;
    kernel.buffers.push_back({reduction.dtype, true, partial(p), stages.partials[p].elements});
    kernel.body.push_back(store);
    keep.push_back(true);
  }
  keep_only(kernel, keep);
  settle(kernel);
}

// In place of the reductions: the partial results, joined over `blocks`, the last axis.
Kernel joining(const Kernel& kernel, const std::vector<int>& reductions, const Stages& stages, Dim place,
               const std::vector<bool>& stored) {
  Kernel result = kernel;
  result.body.clear();
  std::vector<std::int32_t> number(kernel.body.size());
  std::vector<bool> keep;
  const auto emit = [&](const Instruction& it, bool root) {
    result.body.push_back(it);
    keep.push_back(root);
    return static_cast<std::int32_t>(result.body.size()) - 1;
  };
  for (std::size_t i = 0; i < kernel.body.size(); ++i) {
    Instruction it = kernel.body[i];
    const auto found = std::find(reductions.begin(), reductions.end(), static_cast<int>(i));
    if (found != reductions.end()) {
      const auto p = static_cast<std::size_t>(found - reductions.begin());
      Instruction load;
      load.kind = Kind::load;
      load.dtype = it.dtype;
      load.buffer = static_cast<std::int32_t>(result.buffers.size());
      load.index = place;
      result.buffers.push_back({it.dtype, false, partial(p), stages.partials[p].elements});
      it.args[0] = emit(load, false);
      it.over_carried = false;
      it.joins = true;
    } else {
      for (std::int32_t& arg : it.args)
        if (arg >= 0) arg = number[static_cast<std::size_t>(arg)];
      it.index = dims::substitute(it.index, [&](const DimNode* atom) {
        return atom->kind == DimKind::value ? dims::value(number[static_cast<std::size_t>(atom->number)], atom->extent)
                                            : Dim::from_node(atom);
      });
    }
    number[i] = emit(it, stored[i]);
  }
  keep_only(result, keep);
  settle(result);
  return result;
}

}  // namespace

bool can_cut(const Kernel& kernel) {
  int inner = 0;
  for (const Axis& axis : kernel.axes) inner += axis.inner;
  if (inner != 1) return false;
  return std::all_of(kernel.body.begin(), kernel.body.end(), [](const Instruction& it) {
    if (it.kind == Kind::scan || it.online || it.multiplies ||
        (it.kind == Kind::reduce && (it.op == Op::argmax || it.phase > 1 || it.over_carried)))
      return false;
    return it.level != Level::inner || it.phase == 0;
  });
}

Stages cut_reductions(const Kernel& kernel, std::int64_t chunk) {
  WEFT_CHECK(can_cut(kernel), kernel.name, ": its reductions can't be cut");
  std::size_t cut = 0;
  while (!kernel.axes[cut].inner) ++cut;
  const bool rows = kernel.vector_axis == static_cast<int>(cut);
  const Dim length = kernel.axes[cut].extent, whole = length / Dim(chunk), rest = length % Dim(chunk);
  const Dim blocks = rest.same(Dim(0)) ? whole : whole + Dim(1), outer = kernel.outer_count();
  std::vector<int> reductions;
  Stages stages;
  for (std::size_t i = 0; i < kernel.body.size(); ++i)
    if (kernel.body[i].kind == Kind::reduce) {
      reductions.push_back(static_cast<int>(i));
      stages.partials.push_back({kernel.body[i].dtype, outer * blocks});
    }
  const std::vector<bool> behind = behind_reductions(kernel, false);
  std::vector<bool> first = none_of(kernel), second = none_of(kernel);
  for (std::size_t i = 0; i < behind.size(); ++i) {
    const Instruction& it = kernel.body[i];
    if (it.kind == Kind::store) (it.level == Level::inner ? first : second)[i] = true;
  }
  // Axis 0 is the chunk, then come the outer axes; a chunk's elements come last.
  const auto fold = [&](Dim count, Dim size, Dim begin) {
    std::vector<Axis> axes{{count}};
    std::vector<Dim> replacement(kernel.axes.size());
    Dim number = 0;
    for (std::size_t a = 0; a < kernel.axes.size(); ++a) {
      if (a == cut) continue;
      axes.push_back(kernel.axes[a]);
      replacement[a] = axis_dim(axes, axes.size() - 1);
      number = number * kernel.axes[a].extent + replacement[a];
    }
    axes.push_back({size, true});
    const Dim block = begin + axis_dim(axes, 0);
    replacement[cut] = block * Dim(chunk) + axis_dim(axes, axes.size() - 1);
    const int last = static_cast<int>(axes.size()) - 1;
    Kernel stage = over(kernel, std::move(axes), replacement);
    stage.vector_axis = rows ? last : kernel.vector_axis + (kernel.vector_axis < static_cast<int>(cut) ? 1 : 0);
    store_partials(stage, reductions, first, stages, rows ? number * blocks + block : block * outer + number);
    stages.kernels.push_back(std::move(stage));
  };
  if (!whole.same(Dim(0))) fold(whole, chunk, 0);
  if (!rest.same(Dim(0))) fold(1, rest, whole);

  std::vector<Axis> axes;
  std::vector<Dim> replacement(kernel.axes.size(), Dim(0));
  Dim number = 0;
  for (std::size_t a = 0; a < kernel.axes.size(); ++a) {
    if (a == cut) continue;
    axes.push_back(kernel.axes[a]);
    replacement[a] = axis_dim(axes, axes.size() - 1);
    number = number * kernel.axes[a].extent + replacement[a];
  }
  axes.push_back({blocks, true});
  const Dim block = axis_dim(axes, axes.size() - 1);
  const int last = static_cast<int>(axes.size()) - 1;
  Kernel stage = over(kernel, std::move(axes), replacement);
  stage.vector_axis = rows ? last : kernel.vector_axis - (kernel.vector_axis > static_cast<int>(cut) ? 1 : 0);
  stages.kernels.push_back(
      joining(stage, reductions, stages, rows ? number * blocks + block : block * outer + number, second));
  return stages;
}

Stages cut_columns(const Kernel& kernel, std::int64_t chunk) {
  std::vector<int> reductions;
  Stages stages;
  std::vector<std::size_t> outer, inner;
  for (std::size_t a = 0; a < kernel.axes.size(); ++a) (kernel.axes[a].inner ? inner : outer).push_back(a);
  const Dim length = kernel.outer_count(), whole = length / Dim(chunk), rest = length % Dim(chunk);
  const Dim blocks = rest.same(Dim(0)) ? whole : whole + Dim(1), columns = kernel.inner_count();
  for (std::size_t i = 0; i < kernel.body.size(); ++i)
    if (kernel.body[i].kind == Kind::reduce && kernel.body[i].over_carried) {
      reductions.push_back(static_cast<int>(i));
      stages.partials.push_back({kernel.body[i].dtype, columns * blocks});
    }
  const std::vector<bool> behind = behind_reductions(kernel, true);
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
    store_partials(stage, reductions, first, stages, block * columns + column);
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
  stages.kernels.push_back(joining(stage, reductions, stages, block * columns + column, second));
  return stages;
}

}  // namespace weft::loop
