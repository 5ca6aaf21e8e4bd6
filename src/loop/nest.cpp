#include "loop/nest.hpp"

namespace weft::loop {

std::vector<Walked> Nester::walked(const std::vector<int>& axes) {
  std::vector<Walked> all;
  for (const int axis : axes) all.push_back({axis, 1});
  return all;
}

std::vector<int> Nester::reductions_of(int phase) const {
  std::vector<int> found;
  for (const Step& step : walk(phase))
    if (at(step.instruction).kind == Kind::reduce) found.push_back(step.instruction);
  return found;
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

bool is_contiguous(const Kernel& kernel, const Analysis& analysis, int instruction) {
  const Instruction& it = kernel.body[static_cast<std::size_t>(instruction)];
  if (it.kind == Kind::load && it.args[0] >= 0 && analysis.facts[static_cast<std::size_t>(it.args[0])].vector)
    return false;
  return (it.kind == Kind::load || it.kind == Kind::store) &&
         analysis.facts[static_cast<std::size_t>(instruction)].vector &&
         access(kernel, analysis, it.index).kind == Access::Kind::contiguous;
}

namespace {

void write(const Kernel& kernel, const std::vector<Statement>& block, const std::string& indent, std::string& text) {
  static constexpr const char* roles[] = {"pool", "grid", "team", "serial", "lanes"};
  static constexpr const char* verbs[] = {"",       "value ",  "reload ", "recall ",     "keep ",  "store ",
                                          "start ", "clear ",  "open ",   "accumulate ", "put ",   "close ",
                                          "join ",  "result ", "barrier", "ask",         "fetch ", "arrive"};
  for (const Statement& it : block) {
    text += indent;
    if (it.kind != Statement::Kind::loop) {
      text += verbs[static_cast<int>(it.kind)];
      if (it.instruction >= 0) text += "v" + std::to_string(it.instruction);
      if (it.from >= 0) text += " from v" + std::to_string(it.from);
      text += "\n";
      continue;
    }
    text += roles[static_cast<int>(it.role)];
    for (const Walked& each : it.axes) {
      text += " i" + std::to_string(each.axis);
      if (each.piece > 1) text += " by " + std::to_string(each.piece);
    }
    text += "\n";
    write(kernel, it.body, indent + "  ", text);
  }
}

}  // namespace

std::string to_text(const Kernel& kernel, const Nest& nest) {
  std::string text;
  write(kernel, nest.body, "  ", text);
  return text;
}

}  // namespace weft::loop
