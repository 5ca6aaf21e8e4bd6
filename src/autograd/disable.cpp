#include "record/disable.hpp"
#include "autograd/backward.hpp"
#include "autograd/call.hpp"
#include "record/host_values.hpp"

namespace weft {

void differentiate_disabled(const Pullback& p, const DisabledTape& tape) {
  const Node& node = p.node();
  std::vector<Tensor> operands, values, results, gradients, found;
  for (std::size_t i = 0; i < tape.variables.size(); ++i) operands.push_back(p.operand(i));
  for (std::size_t i = 0; i < p.gradients.size(); ++i) {
    if (!p.gradients[i].defined()) continue;
    operands.push_back(p.gradients[i]);
    values.push_back(known_value("grad", p.gradients[i], node.loc));
    results.push_back(tape.results[i]);
  }
  DisabledTape next{tape.level, tape.variables, {}};
  {
    const OutsideTraces outside;
    recorder().level_start = tape.level->start();
    for (Tensor& value : values) next.variables.push_back(value = record(Op::variable, {value}, {}, {}, node.loc));
    found = pull_back(results, values, tape.variables, "grad", node.loc);
  }
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!p.wanted[i] || !found[i].defined()) continue;
    positions.push_back(i);
    gradients.push_back(entered(found[i], node.loc));
    next.results.push_back(found[i]);
  }
  if (positions.empty()) return;
  gradients = with_tape(std::move(next), operands, gradients, node.loc);
  for (std::size_t i = 0; i < positions.size(); ++i) p.results[positions[i]] = gradients[i];
}

}  // namespace weft
