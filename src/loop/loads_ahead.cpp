#include "loop/loads_ahead.hpp"

#include <algorithm>

namespace weft::loop {

bool loads_words(const Kernel& kernel, const Analysis& analysis, const Team& team, int load) {
  const Instruction& it = kernel.body[static_cast<std::size_t>(load)];
  if (it.args[0] >= 0 || !is_contiguous(kernel, analysis, load) || pack_bytes(kernel, team, load) % 16 != 0)
    return false;
  const std::vector<DimTerm> first = dims::terms(access(kernel, analysis, it.index).rest);
  return std::ranges::all_of(first, [&](const DimTerm& term) { return term.coefficient % team.width == 0; });
}

std::vector<int> loads_ahead(const Kernel& kernel, const Analysis& analysis) {
  std::vector<int> loads;
  for (int i = 0; i < static_cast<int>(kernel.body.size()); ++i) {
    const Instruction& it = kernel.body[static_cast<std::size_t>(i)];
    const Facts& facts = analysis.facts[static_cast<std::size_t>(i)];
    const bool of_row = std::ranges::any_of(analysis.outer, [&](int axis) { return facts.axes >> axis & 1; });
    if (it.kind == Kind::load && facts.inner && of_row && values_in(it.index).empty()) loads.push_back(i);
  }
  return loads;
}

std::vector<int> loads_of_later_walks(const ChosenTeam& chosen, const Kernel& kernel) {
  constexpr std::int64_t most_packs = 4;  // of a thread, in registers
  const auto& [analysis, team, fetched, held_walks] = chosen;
  if (analysis.form != Form::rows || !analysis.outer.empty() || !analysis.carried.empty() || !analysis.inner.empty() ||
      team.turns == 0 || team.width == 1 || !fetched.empty() || has_scans(kernel))
    return {};
  std::vector<bool> known(kernel.body.size(), false);
  std::vector<int> loads;
  for (std::size_t walk = 0; walk < analysis.walks.size(); ++walk)
    for (const Step& step : analysis.walks[walk]) {
      const Instruction& it = kernel.body[static_cast<std::size_t>(step.instruction)];
      if (step.how != Step::How::compute || it.kind != Kind::load || known[static_cast<std::size_t>(step.instruction)])
        continue;
      known[static_cast<std::size_t>(step.instruction)] = true;
      if (walk > 0 && it.args[0] < 0 && values_in(it.index).empty() &&
          is_contiguous(kernel, analysis, step.instruction))
        loads.push_back(step.instruction);
    }
  return std::ssize(loads) * team.turns <= most_packs ? loads : std::vector<int>();
}

std::vector<int> loads_of_whole_row(const ChosenTeam& chosen, const Kernel& kernel) {
  constexpr std::int64_t most_bytes = 128;  // of a thread, in registers
  const auto& [analysis, team, fetched, held_walks] = chosen;
  if (analysis.form != Form::rows || analysis.outer.empty() || !analysis.carried.empty() || team.turns < 2 ||
      team.width == 1 || team.blocks > 0 || !fetched.empty() || has_scans(kernel) ||
      !(kernel.axes[static_cast<std::size_t>(kernel.vector_axis)].extent % Dim(team.width)).same(Dim(0)))
    return {};
  std::vector<int> loads;
  std::int64_t bytes = 0;
  for (const Step& step : analysis.walks[0]) {
    const int i = step.instruction;
    const Facts& facts = analysis.facts[static_cast<std::size_t>(i)];
    const bool of_row = std::ranges::any_of(analysis.outer, [&](int axis) { return facts.axes >> axis & 1; });
    const Instruction& it = kernel.body[static_cast<std::size_t>(i)];
    if (it.kind != Kind::load || !of_row || !loads_words(kernel, analysis, team, i) ||
        std::ranges::any_of(values_in(it.index),
                            [&](int value) { return analysis.facts[static_cast<std::size_t>(value)].inner; }))
      continue;
    loads.push_back(i);
    bytes += team.turns * pack_bytes(kernel, team, i);
  }
  return bytes <= most_bytes ? loads : std::vector<int>();
}

bool streams_rows(const Kernel& kernel) { return choose_team(kernel).team.ahead > 0; }

bool gains_by_reading_early(const Kernel& kernel) {
  const ChosenTeam chosen = choose_team(kernel);
  return chosen.team.ahead > 0 || !loads_of_later_walks(chosen, kernel).empty();
}

}  // namespace weft::loop
