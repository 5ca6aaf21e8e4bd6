// The loops of a kernel on the host: units that a pool of threads takes, walks over the inner axes, lanes.
#include <algorithm>

#include "base/fail.hpp"
#include "loop/nest.hpp"
#include "loop/product_nest.hpp"

namespace weft::loop {

namespace {

using Do = Statement::Kind;

class HostNest : Nester {
 public:
  // Short: rows of at most KeepLimits::elements. These may be kept even if their length is symbolic.
  HostNest(const Kernel& kernel, bool of_short_rows) : Nester(kernel) {
    const KeepLimits limits{.symbolic = of_short_rows};
    nest_.analysis = analyze(kernel, limits);
    short_rows_ = limits.symbolic && limits.elements <= row_chunk && !nest_.analysis.kept.empty();
    keep_values(Scope::shared);
    nest_.states.resize(kernel.body.size());
  }

  Nest run() {
    if (kernel_.predicate >= 0) add(Do::ask);
    uniform(true, 0);
    if (vector() < 0) return std::move(nest_);
    if (reads_across_rows()) {
      tiles();
    } else {
      loop(Role::pool, units(), [&] { unit(); });
    }
    return std::move(nest_);
  }

 private:
  int vector() const { return kernel_.vector_axis; }
  const Analysis& analysis() const { return nest_.analysis; }

  // Scalar statements outside of the walks: those of no axis run once, the others in each unit, phase by phase.
  void uniform(bool once, int phase) {
    for (int i = 0; i < size(); ++i)
      if (is_uniform(i) && facts(i).phase == phase && is_once(i) == once && !is_of_column(i)) compute(i);
  }
  bool is_of_column(int i) const { return analysis().narrow >= 0 && (facts(i).axes >> analysis().narrow & 1); }

  // A unit is a point of the outer axes, cut into blocks of the vector axis where that is an outer one.
  std::vector<LoopAxis> units() const {
    std::vector<LoopAxis> axes = walked(analysis().outer);
    const Dim size = extent(vector());
    const std::int64_t piece = block_of(kernel_);
    if (analysis().form != Form::rows && !dims::proves_less(size, Dim(piece + 1))) axes.push_back({vector(), piece});
    return axes;
  }

  void unit() {
    switch (analysis().form) {
      case Form::pointwise: uniform(false, 0); return loop(Role::lanes, {{vector()}}, [&] { on_lanes(0); });
      case Form::rows: return rows();
      case Form::columns: uniform(false, 0); return analysis().single_pass ? columns_at_once() : columns_by_strips();
    }
  }

  // Vector values outside of the walks, at their phase; stores last, after everything that reads what they overwrite.
  void on_lanes(int phase) {
    for (const bool stores : {false, true})
      for (int i = 0; i < size(); ++i) {
        const Facts& f = facts(i);
        if (!f.inner && f.vector && f.phase == phase && (at(i).kind == Kind::store) == stores) compute(i);
      }
  }

  // Whether the lanes stride over memory that the rows walk closely, as in a transposed operand: then a cache line
  // serves neighbouring rows, and not the next vector of the same row.
  bool reads_across_rows() const {
    if (analysis().form != Form::pointwise || analysis().outer.empty()) return false;
    const int row = analysis().outer.back();
    for (int i = 0; i < size(); ++i)
      if (runs_across(kernel_, analysis(), i, row)) return true;
    return false;
  }

  // 16 rows at a time, vector by vector. A unit is a row within a block, so that neighbouring units are neighbouring
  // rows.
  void tiles() {
    const int row = analysis().outer.back();
    std::vector<LoopAxis> axes = units();
    axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(analysis().outer.size()) - 1);
    axes.push_back({row, 16});
    loop(Role::pool, axes, [&] {
      loop(Role::lanes, {{vector()}}, [&] {
        loop(Role::serial, {{row}}, [&] {
          uniform(false, 0);
          on_lanes(0);
        });
      });
    });
  }

  // How many of the loops over inner axes a step is in: those down to the last axis that it depends on.
  int depth_of(int i) const {
    if (facts(i).vector) return static_cast<int>(analysis().inner.size());
    for (std::size_t d = analysis().inner.size(); d-- > 0;)
      if (facts(i).axes >> analysis().inner[d] & 1) return static_cast<int>(d) + 1;
    return 0;
  }
  // Steps that are in `depth` of the inner loops (any: -1), on the lanes or not.
  void steps(int phase, int depth, bool lanes) {
    for (const bool stores : {false, true})
      for (const Step& it : walk(phase)) {
        const int i = it.instruction;
        if (at(i).kind == Kind::reduce || (at(i).kind == Kind::store) != stores) continue;
        if (facts(i).vector == lanes && (depth < 0 || depth_of(i) == depth)) step(it);
      }
  }
  // A loop for each inner axis but the vector axis, with the uniform steps of each depth.
  template <class Body>
  void inner_loops(int phase, std::size_t depth, Body body) {
    if (depth == analysis().inner.size()) return body();
    loop(Role::serial, {{analysis().inner[depth]}}, [&] {
      if (phase >= 0) steps(phase, static_cast<int>(depth) + 1, false);
      inner_loops(phase, depth + 1, body);
    });
  }

  // ---- rows ----

  void rows() {
    if (analysis().narrow >= 0) return narrow_row();
    if (analysis().carried.empty()) return row();
    std::vector<int> columns;
    for (int i = 0; i < size(); ++i)
      if (at(i).is(ReductionKind::over_carried)) columns.push_back(i);
    for (const int i : columns) {
      hold(i, State::columns);
      add(Do::start, i);
    }
    loop(Role::serial, walked(analysis().carried), [&] { row(); });
    inner_loops(-1, 0, [&] {
      loop(Role::lanes, {{vector()}}, [&] {
        for (int i = 0; i < size(); ++i)
          if (facts(i).last) compute(i);
      });
    });
  }

  // A row of the lanes is all rows of the narrow columns; what follows their reductions is done column by column.
  void narrow_row() {
    uniform(false, 0);
    if (analysis().phases > 0) walk_row(0);
    loop(Role::serial, {{analysis().narrow}}, [&] {
      for (int phase = 0; phase <= analysis().phases; ++phase)
        for (int i = 0; i < size(); ++i)
          if (is_of_column(i) && facts(i).phase == phase) compute(i);
    });
  }

  void row() {
    uniform(false, 0);
    for (int phase = 0; phase < analysis().phases; ++phase) {
      walk_row(phase);
      uniform(false, phase + 1);
    }
  }

  // Whether the result depends on the order of additions. If so, a row of several runs is packed into one first.
  bool rounds(int i) const {
    return (at(i).op == Op::sum || at(i).op == Op::prod) && is_floating(at(at(i).args[0]).dtype);
  }

  void walk_row(int phase) {
    if (walk(phase).empty()) return;
    std::vector<int> rows, columns;
    for (const int i : reductions_of(phase)) (at(i).is(ReductionKind::over_carried) ? columns : rows).push_back(i);
    const bool single_run = analysis().inner.empty();
    for (const int i : rows) {
      const bool packed =
          !single_run && rounds(i) && !at(i).is(ReductionKind::join) && !at(i).is(ReductionKind::online);
      hold(i, analysis().narrow >= 0 ? State::narrow : packed ? State::packed : State::row);
      add(Do::start, i);
    }
    start_scans(phase, State::row);
    const auto close = [&] {
      for (const int i : rows)
        if (at(i).op != Op::argmax) add(Do::close, i);
    };
    const bool closes = std::any_of(rows.begin(), rows.end(), [&](int i) { return at(i).op != Op::argmax; });
    const auto lanes = [&] {
      loop(Role::lanes, {{vector()}}, [&] {
        steps(phase, -1, true);
        for (const int i : rows) add(Do::accumulate, i);
        for (const int i : columns) {
          add(Do::open, i);
          add(Do::accumulate, i);
          add(Do::put, i);
        }
      });
    };
    const Dim run = extent(vector());
    if (single_run && closes && !short_rows_ && analysis().narrow < 0 &&
        !(run.is_constant() && run.constant() <= row_chunk))
      return loop(Role::serial, {{vector(), row_chunk}}, [&] {
        lanes();
        close();
      });
    inner_loops(phase, 0, lanes);
    close();
  }

  // ---- columns ----

  // Few rows: 16 columns are walked from the first row to the last, with everything in registers.
  void columns_at_once() {
    loop(Role::lanes, {{vector()}}, [&] {
      on_lanes(0);
      for (int phase = 0; phase < analysis().phases; ++phase) {
        const std::vector<int> reductions = reductions_of(phase);
        for (const int i : reductions) {
          hold(i, State::lanes);
          add(Do::start, i);
        }
        start_scans(phase, State::lanes);
        inner_loops(-1, 0, [&] {
          steps(phase, -1, false);
          steps(phase, -1, true);
          for (const int i : reductions) add(Do::accumulate, i);
        });
        on_lanes(phase + 1);
      }
    });
  }

  // Many rows: strips of columns whose states lie in the first-level cache, 8 rows at a time, so that memory is read in
  // long runs.
  void columns_by_strips() {
    for (int phase = 0; phase < analysis().phases; ++phase)
      for (const std::vector<int>& held : {reductions_of(phase), scans_of(phase)})
        for (const int i : held) {
          if (nest_.states[static_cast<std::size_t>(i)] == State::columns) continue;  // a scan of an earlier walk
          hold(i, State::columns);
          add(Do::start, i);
        }
    loop(Role::serial, {{vector(), column_block}}, [&] {
      for (int phase = 0; phase <= analysis().phases; ++phase) {
        strip_stores(phase);
        if (phase < analysis().phases && !walk(phase).empty()) walk_strip(phase);
      }
    });
  }

  void walk_strip(int phase) {
    const std::vector<int> reductions = reductions_of(phase), scans = scans_of(phase);
    std::vector<int> held = reductions;
    held.insert(held.end(), scans.begin(), scans.end());
    const std::vector<LoopAxis> rows = walked(analysis().inner);
    const auto in_pieces = [&](std::int64_t piece) {
      std::vector<LoopAxis> pieces = rows;
      pieces.back().piece = piece;
      return pieces;
    };
    const auto group = [&] {
      loop(Role::lanes, {{vector()}}, [&] {
        strip_operands(phase);
        for (const int i : held) add(Do::open, i);
        loop(Role::serial, rows, [&] {
          steps(phase, -1, false);
          steps(phase, -1, true);
          for (const int i : reductions) add(Do::accumulate, i);
        });
        for (const int i : held) add(Do::put, i);
      });
    };
    for (const int i : held) add(Do::clear, i);
    if (reductions.empty()) return loop(Role::serial, in_pieces(8), group);
    loop(Role::serial, in_pieces(column_chunk), [&] {
      loop(Role::serial, in_pieces(8), group);
      for (const int i : reductions) add(Do::close, i);
    });
  }

  // The vector values outside of the walks that these instructions read, computed again in each loop over lanes.
  void strip_closure(std::vector<bool> needed) {
    std::vector<int> order;
    for (int i = size() - 1; i >= 0; --i) {
      if (!needed[static_cast<std::size_t>(i)] || facts(i).inner || !facts(i).vector) continue;
      order.push_back(i);
      if (at(i).kind != Kind::reduce) mark_read(at(i), needed);
    }
    for (std::size_t k = order.size(); k-- > 0;) compute(order[k]);
  }
  void strip_operands(int phase) {
    std::vector<bool> needed(kernel_.body.size(), false);
    for (const Step& it : walk(phase))
      if (it.how == Step::How::compute) mark_read(at(it.instruction), needed);
    strip_closure(std::move(needed));
  }
  void strip_stores(int phase) {
    std::vector<bool> needed(kernel_.body.size(), false);
    bool any = false;
    for (int i = 0; i < size(); ++i)
      if (at(i).kind == Kind::store && !facts(i).inner && facts(i).vector && facts(i).phase == phase)
        needed[static_cast<std::size_t>(i)] = any = true;
    if (any) loop(Role::lanes, {{vector()}}, [&] { strip_closure(std::move(needed)); });
  }

  bool short_rows_ = false;  // a row is one chunk at most
};

}  // namespace

Nest host_nest(const Kernel& kernel) {
  if (product_in(kernel) >= 0) return product_nest(kernel, host_tile, false);
  Nest nest = HostNest(kernel, true).run();
  if (!nest.locals.empty() && !kernel.inner_count().is_constant())
    nest.of_long_rows = std::make_shared<const Nest>(HostNest(kernel, false).run());
  return nest;
}

}  // namespace weft::loop
