#include "loop/nest.hpp"

#include <algorithm>
#include <cstdlib>

namespace weft::loop {

const Local* Nest::local(int instruction) const {
  const auto found = std::find_if(locals.begin(), locals.end(), [&](const Local& local) {
    return local.instruction == instruction && !local.fetched;
  });
  return found == locals.end() ? nullptr : &*found;
}
bool Nest::is_fetched(int load) const {
  return std::any_of(locals.begin(), locals.end(),
                     [&](const Local& local) { return local.instruction == load && local.fetched; });
}

std::vector<LoopAxis> Nester::walked(const std::vector<int>& axes) {
  std::vector<LoopAxis> all;
  for (const int axis : axes) all.push_back({axis, 1});
  return all;
}

std::vector<int> Nester::reductions_of(int phase) const {
  std::vector<int> found;
  for (const Step& step : walk(phase))
    if (at(step.instruction).kind == Kind::reduce) found.push_back(step.instruction);
  return found;
}

std::vector<int> Nester::scans_of(int phase) const {
  std::vector<int> found;
  for (const Step& step : walk(phase))
    if (at(step.instruction).kind == Kind::scan && (step.how == Step::How::compute || step.how == Step::How::keep))
      found.push_back(step.instruction);
  return found;
}

void Nester::start_scans(int phase, State state) {
  for (const int i : scans_of(phase)) {
    const bool again = nest_.states[static_cast<std::size_t>(i)] != State::none;
    hold(i, state);
    add(again ? Statement::Kind::clear : Statement::Kind::start, i);
  }
}

void Nester::compute(int i) {
  const Kind kind = at(i).kind;
  add(kind == Kind::reduce  ? Statement::Kind::result
      : kind == Kind::store ? Statement::Kind::store
                            : Statement::Kind::value,
      i);
}

void Nester::step(const Step& step) {
  switch (step.how) {
    case Step::How::reload: return add(Statement::Kind::reload, step.instruction, step.from);
    case Step::How::recall: return add(Statement::Kind::recall, step.instruction);
    case Step::How::compute: return compute(step.instruction);
    case Step::How::keep: compute(step.instruction); return add(Statement::Kind::keep, step.instruction);
  }
}

// By the loops around it: those down to the last axis on which it depends, which are all if it differs from lane to
// lane.
void Nester::keep_values(Scope scope) {
  for (const int i : nest_.analysis.kept) {
    Local local{i, scope, walked(nest_.analysis.inner), false};
    if (facts(i).vector)
      local.over.push_back({kernel_.vector_axis, 1});
    else
      while (!local.over.empty() && !(facts(i).axes >> local.over.back().axis & 1)) local.over.pop_back();
    nest_.locals.push_back(std::move(local));
  }
}

bool runs_across(const Kernel& kernel, const Analysis& analysis, int instruction, int axis) {
  const Instruction& it = kernel.body[static_cast<std::size_t>(instruction)];
  if ((it.kind != Kind::load && it.kind != Kind::store) ||
      !analysis.facts[static_cast<std::size_t>(instruction)].vector)
    return false;
  const Access found = access(kernel, analysis, it.index);
  const Dim extent = kernel.axes[static_cast<std::size_t>(axis)].extent;
  const dims::Linear along = dims::linear_in(it.index, dims::axis(axis, extent));
  if (found.kind != Access::Kind::strided || !along.linear || !along.coefficient.is_constant()) return false;
  const std::int64_t step = std::abs(along.coefficient.constant());
  return step > 0 && step <= 8 && (!found.stride.is_constant() || std::abs(found.stride.constant()) > 2 * step);
}

bool is_contiguous(const Kernel& kernel, const Analysis& analysis, int instruction) {
  const Instruction& it = kernel.body[static_cast<std::size_t>(instruction)];
  if (it.kind == Kind::load && it.args[0] >= 0 && analysis.facts[static_cast<std::size_t>(it.args[0])].vector)
    return false;
  return (it.kind == Kind::load || it.kind == Kind::store) &&
         analysis.facts[static_cast<std::size_t>(instruction)].vector &&
         access(kernel, analysis, it.index).kind == Access::Kind::contiguous;
}

bool is_reversed(const Kernel& kernel, const Analysis& analysis, int instruction) {
  const Instruction& it = kernel.body[static_cast<std::size_t>(instruction)];
  if (analysis.form != Form::rows || !analysis.facts[static_cast<std::size_t>(instruction)].vector ||
      (it.kind != Kind::load && it.kind != Kind::store) || (it.kind == Kind::load && it.args[0] >= 0))
    return false;
  const Access found = access(kernel, analysis, it.index);
  return found.kind == Access::Kind::strided && found.stride.same(Dim(-1));
}

namespace {

std::string axes_text(const std::vector<LoopAxis>& axes) {
  std::string text;
  for (const LoopAxis& each : axes) {
    text += " i" + std::to_string(each.axis);
    if (each.piece > 1) text += " by " + std::to_string(each.piece);
  }
  return text;
}

void write(const Kernel& kernel, const std::vector<Statement>& block, const std::string& indent, std::string& text) {
  static constexpr const char* roles[] = {"pool", "grid", "team", "held", "serial", "lanes"};
  static constexpr const char* verbs[] = {
      "",     "value ", "reload ", "recall ", "keep ",   "store ", "start ", "clear ", "open ",    "accumulate ",
      "put ", "close ", "join ",   "result ", "barrier", "ask",    "fetch ", "arrive", "multiply "};
  for (const Statement& it : block) {
    text += indent;
    if (it.kind != Statement::Kind::loop) {
      text += verbs[static_cast<int>(it.kind)];
      if (it.instruction >= 0) text += "v" + std::to_string(it.instruction);
      if (it.from >= 0) text += " from v" + std::to_string(it.from);
      text += "\n";
      continue;
    }
    text += roles[static_cast<int>(it.role)] + axes_text(it.axes) + "\n";
    write(kernel, it.body, indent + "  ", text);
  }
}

}  // namespace

std::string to_text(const Kernel& kernel, const Nest& nest) {
  static constexpr const char* scopes[] = {"registers", "shared"};
  std::string text;
  for (const Local& local : nest.locals) {
    text += std::string("  ") + scopes[static_cast<int>(local.scope)] + " v" + std::to_string(local.instruction);
    text += axes_text(local.over) + (local.fetched ? " fetched\n" : "\n");
  }
  write(kernel, nest.body, "  ", text);
  return text;
}

}  // namespace weft::loop
