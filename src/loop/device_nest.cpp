// The loops of a kernel on a device: teams of threads that take units, packs of neighbouring elements.
#include <algorithm>

#include "loop/device_team.hpp"
#include "loop/product_nest.hpp"

namespace weft::loop {

namespace {

using Do = Statement::Kind;

class DeviceNest : Nester {
 public:
  explicit DeviceNest(const Kernel& kernel) : Nester(kernel) {
    ChosenTeam chosen = choose_team(kernel);
    nest_.analysis = std::move(chosen.analysis);
    nest_.team = chosen.team;
    nest_.held_walks = std::move(chosen.held_walks);
    fetched_ = std::move(chosen.fetched);
    keep_values(Scope::registers);
    std::vector<LoopAxis> row = walked(analysis().inner);
    if (vector() >= 0) row.push_back({vector(), 1});
    for (const int i : fetched_) nest_.locals.push_back({i, Scope::shared, row, true});
    nest_.states.resize(kernel.body.size());
    for (int i = 0; i < size(); ++i) loads_outside_ |= at(i).kind == Kind::load && !facts(i).inner;
  }

  Nest run() {
    if (kernel_.predicate >= 0) add(Do::ask);
    for (const bool stores : {false, true})
      for (int i = 0; i < size(); ++i)
        if (is_once(i) && (at(i).kind == Kind::store) == stores) compute(i);
    if (vector() < 0) return std::move(nest_);
    const Form form = analysis().form;
    std::vector<LoopAxis> axes = walked(analysis().outer);
    if (team().tile > 0) return tiles(), std::move(nest_);
    if (form == Form::pointwise) axes.push_back({vector(), nest_.team.width});
    if (form == Form::columns) axes.push_back({vector(), nest_.team.columns});
    loop(Role::grid, std::move(axes), [&] {
      switch (form) {
        case Form::pointwise: return pointwise();
        case Form::rows: return rows();
        case Form::columns: return columns();
      }
    });
    return std::move(nest_);
  }

 private:
  int vector() const { return kernel_.vector_axis; }
  const Analysis& analysis() const { return nest_.analysis; }
  const Team& team() const { return nest_.team; }

  // Transposed operands pass through shared memory, a tile at a time: threads are neighbours on one of its
  // axes where they read or write across, on the other where they do all else.
  void tiles() {
    const int row = team().across;
    const LoopAxis down{row, team().tile}, along{vector(), team().tile};
    std::vector<LoopAxis> axes;
    for (const int axis : analysis().outer)
      if (axis != row) axes.push_back({axis, 1});
    axes.insert(axes.end(), {down, along});
    std::vector<int> loads, stores, others;
    for (int i = 0; i < size(); ++i) {
      if (facts(i).axes == 0) continue;
      const bool across = is_turned(i);
      (!across ? others : at(i).kind == Kind::load ? loads : stores).push_back(i);
    }
    const auto hold_tile = [&](int i) {
      if (!nest_.local(i)) nest_.locals.push_back({i, Scope::shared, {down, along}, false});
    };
    for (const int i : loads) hold_tile(i);
    for (const int i : stores) hold_tile(at(i).args[0]);
    loop(Role::grid, std::move(axes), [&] {
      if (!loads.empty()) {
        packs_of(along, down, [&] {
          for (const int i : loads) {
            compute(i);
            add(Do::keep, i);
          }
        });
        add(Do::barrier);
      }
      // Values that are the same for a whole pack are computed before it: loads may use them as indices.
      const auto some = [&](bool lanes, bool last) {
        for (const int i : others)
          if (facts(i).vector == lanes && (at(i).kind == Kind::store) == last) compute(i);
      };
      loop(Role::team, {down, along}, [&] {
        some(false, false);
        loop(Role::lanes, {{vector()}}, [&] {
          for (const int i : loads) add(Do::recall, i);
          some(true, false);
          some(true, true);
          for (const int i : stores)
            if (at(at(i).args[0]).kind != Kind::load || !is_turned(at(i).args[0])) add(Do::keep, at(i).args[0]);
        });
        some(false, true);
      });
      add(Do::barrier);
      if (stores.empty()) return;
      packs_of(along, down, [&] {
        std::vector<int> recalled;
        for (const int i : stores) {
          const int value = at(i).args[0];
          if (std::find(recalled.begin(), recalled.end(), value) == recalled.end()) add(Do::recall, value);
          recalled.push_back(value);
          compute(i);
        }
      });
      add(Do::barrier);
    });
  }
  template <class Body>
  void packs_of(LoopAxis slow, LoopAxis fast, Body body) {
    loop(Role::team, {slow, fast}, [&] { loop(Role::lanes, {{fast.axis}}, body); });
  }
  bool is_turned(int i) const { return turns(kernel_, analysis(), i, team().across); }

  void pointwise() {
    std::vector<Step> all;
    for (int i = 0; i < size(); ++i)
      if (facts(i).axes != 0) all.push_back({Step::How::compute, i, -1});
    pack(all, {});
  }

  // A pack of neighbouring elements: what is the same for all of them first; stores last. A scan is joined among the
  // threads as soon as its operand is known for the whole pack; what needs it is computed in a loop over the pack
  // after that, and with it again what both loops need.
  void pack(const std::vector<Step>& steps, const std::vector<int>& reductions) {
    const auto some = [&](bool lanes, bool stores) {
      for (const Step& it : steps) {
        const int i = it.instruction;
        if (at(i).kind != Kind::reduce && facts(i).vector == lanes && (at(i).kind == Kind::store) == stores) step(it);
      }
    };
    some(false, false);
    for (const Step& scan : steps) {
      if (at(scan.instruction).kind != Kind::scan || scan.how == Step::How::recall || scan.how == Step::How::reload)
        continue;
      const std::vector<bool> needed = below(steps, scan.instruction);
      loop(Role::lanes, {{vector()}}, [&] {
        for (const Step& it : steps)
          if (needed[static_cast<std::size_t>(it.instruction)] && facts(it.instruction).vector)
            step({it.how == Step::How::keep ? Step::How::compute : it.how, it.instruction, it.from});
        add(Do::accumulate, scan.instruction);
      });
      add(Do::join, scan.instruction);
    }
    loop(Role::lanes, {{vector()}}, [&] {
      some(true, false);
      for (const int i : reductions) add(Do::accumulate, i);
      some(true, true);
    });
    for (const int i : reductions)
      if (!at(i).is(ReductionKind::over_carried)) add(Do::close, i);
    some(false, true);
  }

  // The values of this walk that a scan's operand depends on.
  std::vector<bool> below(const std::vector<Step>& steps, int scan) const {
    std::vector<bool> needed(kernel_.body.size(), false);
    needed[static_cast<std::size_t>(at(scan).args[0])] = true;
    for (std::size_t s = steps.size(); s-- > 0;) {
      const Instruction& it = at(steps[s].instruction);
      if (!needed[static_cast<std::size_t>(steps[s].instruction)] || steps[s].how == Step::How::recall ||
          steps[s].how == Step::How::reload || it.kind == Kind::scan)
        continue;
      mark_read(it, needed);
    }
    return needed;
  }

  // The statements of a phase outside of the walks. Stores come last: other threads may still read what they overwrite.
  void level(int phase) {
    const auto here = [&](int i) { return !facts(i).inner && facts(i).phase == phase && !is_once(i); };
    for (int i = 0; i < size(); ++i)
      if (here(i) && at(i).kind == Kind::reduce && nest_.states[static_cast<std::size_t>(i)] == State::row)
        add(Do::join, i);
    for (int i = 0; i < size(); ++i)
      if (here(i) && at(i).kind != Kind::store) compute(i);
    bool first = true;
    for (int i = 0; i < size(); ++i) {
      if (!here(i) || at(i).kind != Kind::store) continue;
      if (first && loads_outside_) add(Do::barrier);
      first = false;
      compute(i);
    }
  }

  // The packs of a row.
  std::vector<LoopAxis> positions() const {
    std::vector<LoopAxis> axes = walked(analysis().inner);
    axes.push_back({vector(), nest_.team.width});
    return axes;
  }

  void rows() {
    const auto fetch = [&] {
      for (const int i : fetched_) add(Do::fetch, i);
    };
    fetch();
    if (analysis().carried.empty()) return row();
    for (int i = 0; i < size(); ++i) {
      if (at(i).kind != Kind::reduce || !at(i).is(ReductionKind::over_carried)) continue;
      hold(i, State::columns);
      add(Do::start, i);
    }
    loop(Role::serial, walked(analysis().carried), [&] {
      fetch();
      row();
    });
    loop(Role::team, positions(), [&] {
      loop(Role::lanes, {{vector()}}, [&] {
        for (int i = 0; i < size(); ++i)
          if (facts(i).last) compute(i);
      });
    });
  }

  void row() {
    level(0);
    if (!fetched_.empty()) add(Do::arrive);
    for (int phase = 0; phase < analysis().phases; ++phase) {
      const std::vector<int> reductions = reductions_of(phase);
      for (const int i : reductions) {
        if (at(i).is(ReductionKind::over_carried)) continue;
        hold(i, State::row);
        add(Do::start, i);
      }
      start_scans(phase, State::row);
      if (!walk(phase).empty() && team().held > 0)
        loop(Role::held, positions(), [&] { pack(nest_.held_walks[static_cast<std::size_t>(phase)], reductions); });
      if (!walk(phase).empty()) loop(Role::team, positions(), [&] { pack(walk(phase), reductions); });
      level(phase + 1);
    }
  }

  void columns() {
    level(0);
    for (int phase = 0; phase < analysis().phases; ++phase) {
      const std::vector<int> reductions = reductions_of(phase);
      for (const int i : reductions) {
        hold(i, State::lanes);
        add(Do::start, i);
      }
      start_scans(phase, State::lanes);
      if (!walk(phase).empty())
        loop(Role::team, walked(analysis().inner), [&] {
          if (team().width > 1) return pack(walk(phase), reductions);
          for (const Step& it : walk(phase))
            if (at(it.instruction).kind != Kind::store && at(it.instruction).kind != Kind::reduce) step(it);
          for (const int i : reductions) {
            add(Do::accumulate, i);
            add(Do::close, i);
          }
          for (const Step& it : walk(phase))
            if (at(it.instruction).kind == Kind::store) step(it);
        });
      level(phase + 1);
    }
  }

  std::vector<int> fetched_;
  bool loads_outside_ = false;
};

}  // namespace

Nest device_nest(const Kernel& kernel) {
  return product_in(kernel) >= 0 ? product_nest(kernel, device_tile, true) : DeviceNest(kernel).run();
}

}  // namespace weft::loop
