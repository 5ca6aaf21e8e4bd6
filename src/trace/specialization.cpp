#include "trace/specialization.hpp"

#include <algorithm>

#include "base/dim_conditions.hpp"
#include "base/fail.hpp"
#include "trace/names.hpp"

namespace weft::detail {

std::uint64_t new_id() {
  static constinit std::atomic<std::uint64_t> last = 0;
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

bool Branch::holds(const Guards& guards, const Words& words, std::span<const std::int64_t> counts) const {
  return std::ranges::all_of(conditions,
                             [&](const DimCondition& condition) { return guards.holds(condition, words, counts); });
}

const Branch* Branch::find(std::int64_t outcome, const Guards& guards, const Words& words) const {
  for (const Branch* each = first.load(std::memory_order_acquire); each; each = each->next)
    if (each->outcome == outcome && each->holds(guards, words)) return each;
  return nullptr;
}
const Branch* Branch::select(const Guards& guards, const Words& words) const {
  for (const Branch* each = selected.load(std::memory_order_acquire); each; each = each->next)
    if (each->holds(guards, words) && each->segment->is_ready()) return each;
  return nullptr;
}

namespace {
void add_branches(std::vector<const Branch*>& way, const DecisionText& more, std::vector<std::string>& lines) {
  constexpr std::size_t most = 64;
  const Branch& from = *way.back();
  const Segment& segment = *from.segment;
  if (!segment.traced.decision) return;
  std::vector<const Branch*> list;
  for (const Branch* each = from.first.load(std::memory_order_acquire); each; each = each->next) list.push_back(each);
  std::ranges::reverse(list);  // in the order in which they were traced
  for (const Branch* each : list) {
    if (lines.size() == most) lines.push_back("...");
    if (lines.size() > most) return;
    const Decision& decision = *segment.traced.decision;
    const std::string both = each == list[0] ? more(way) : "";
    lines.push_back(concat_text(std::string(2 * std::min<std::size_t>(way.size() - 1, 20), ' '),
                                to_string(decision.loc), ": ", answer_text(decision.asked, each->outcome), ", ",
                                counted(static_cast<std::int64_t>(each->calls.load()), "call", "calls"),
                                each->segment->traced.decision ? ", then a decision" : ", then the results",
                                both.empty() ? "" : "; ", both));
    way.push_back(each);
    add_branches(way, more, lines);
    way.pop_back();
  }
}
}  // namespace

std::vector<std::string> decision_texts(const Specialization& specialization, const DecisionText& more) {
  std::vector<std::string> lines;
  if (!specialization.resumable) {
    std::vector<const Branch*> way{&specialization.root};
    add_branches(way, more, lines);
    return lines;
  }
  lines.push_back("each call runs the function's code, since it reads values that are no booleans or integers");
  for (const Branch* each = specialization.root.first.load(std::memory_order_acquire); each; each = each->next) {
    std::vector<const Branch*> way{each};
    add_branches(way, more, lines);
  }
  return lines;
}

namespace {
// Whether it is, or is below, 0 or 1.
bool asks_for_one(const DimCondition& condition) {
  const auto is_small = [](Dim side) { return side.same(Dim(0)) || side.same(Dim(1)); };
  return is_small(condition.left) || is_small(condition.right);
}
// `model.cpp:12`, or `after model.cpp:12`: see DimCondition.
std::string place_text(const DimCondition& condition) {
  return (condition.after ? "after " : "") + to_string(condition.loc);
}
}  // namespace

Difference violation(const Guards& guards, const CallLayout& layout, const Words& call) {
  if (Difference found = difference(layout, guards.words, guards.mask, call); !found.text.empty()) return found;
  auto size_at = [&](std::size_t word) { return static_cast<std::int64_t>(call.data()[word]); };
  for (const Guards::Symbol& symbol : guards.symbols) {
    std::size_t first = symbol.positions[0];
    for (std::size_t position : symbol.positions) {
      std::int64_t size = size_at(position);
      if (size < symbol.lower || size > symbol.upper)
        return {concat_text(layout.size_name(position), " is ", size,
                            size < symbol.lower ? ", must be at least " : ", must be at most ",
                            size < symbol.lower ? symbol.lower : symbol.upper),
                false, size < 2 && size < symbol.lower};
      if (size != size_at(first))
        return {concat_text(layout.size_name(position), " is ", size, ", must be ", size_at(first), " as of ",
                            layout.size_name(first)),
                false, size < 2 || size_at(first) < 2};
    }
  }
  for (const DimCondition& condition : guards.conditions) {
    if (guards.holds(condition, call)) continue;
    std::string text = condition_text(condition);
    if (condition.loc.file) text += concat_text(", decided ", condition.after ? "" : "at ", place_text(condition), ",");
    text += " does not hold any more";
    std::vector<std::string> sizes;
    for (std::size_t symbol = 0; symbol < guards.symbols.size(); ++symbol)
      if (names_symbol(condition, symbol))
        sizes.push_back(concat_text("s", symbol, " = ", guards.symbol_value(symbol, call), " (",
                                    layout.size_name(guards.symbols[symbol].positions[0]), ")"));
    return {text + " for " + few_of(sizes), false, asks_for_one(condition)};
  }
  return {};
}

Likeness likeness(const Guards& guards, const CallLayout& layout, const Words& call) {
  if (guards.words.size() != call.size) return Likeness::other_arguments;
  bool by_one = false;
  for (std::size_t word = 0; word < call.size; ++word) {
    const std::uint64_t was = guards.words[word], is = call.data()[word];
    if (was == is) continue;
    if (!layout.size_at(word)) return Likeness::other_arguments;
    by_one |= (guards.mask.empty() || guards.mask[word]) && (was < 2 || is < 2);
  }
  for (const Guards::Symbol& symbol : guards.symbols) {
    const std::uint64_t first = call.data()[symbol.positions[0]];
    for (const std::size_t position : symbol.positions) {
      const std::uint64_t size = call.data()[position];
      by_one |=
          (size < 2 && static_cast<std::int64_t>(size) < symbol.lower) || (size != first && (size < 2 || first < 2));
    }
  }
  for (const DimCondition& condition : guards.conditions) {
    if (by_one) break;
    if (!guards.holds(condition, call)) return asks_for_one(condition) ? Likeness::all_but_ones : Likeness::other_sizes;
  }
  return by_one ? Likeness::all_but_ones : Likeness::other_sizes;
}

std::vector<std::string> guard_texts(const Guards& guards, const CallLayout& layout) {
  auto size_text = [&](std::size_t word) {
    for (std::size_t symbol = 0; symbol < guards.symbols.size(); ++symbol)
      for (std::size_t position : guards.symbols[symbol].positions)
        if (position == word) return "s" + std::to_string(symbol);
    return std::to_string(static_cast<std::int64_t>(guards.words[word]));
  };
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < layout.leaf_count(); ++i) {
    const Leaf& leaf = layout.leaf(i);
    std::uint64_t word = guards.words[layout.word(i)];
    std::string line = layout.name(i) + ": ";
    if (holds_tensor(leaf.kind)) {
      line += meta_text(word);
      if (leaf.kind == LeafKind::tensor || rank_of(word)) {
        line += "[";
        for (int axis = 0; axis < rank_of(word); ++axis)
          line += (axis ? "," : "") + size_text(layout.word(i) + 1 + static_cast<std::size_t>(axis));
        line += "]";
      }
    } else if (is_count(leaf.kind)) {
      line += count_text(leaf, word);
    } else if (leaf.kind == LeafKind::number) {
      line += "== " + value_text(leaf.number, word, leaf.size);
    } else if (leaf.kind == LeafKind::text) {
      line += "== \"" + std::string(static_cast<const char*>(leaf.address), leaf.size) + "\"";
    } else {
      line += "equal numbers (" + std::to_string(leaf.size) + " bytes)";
    }
    lines.push_back(line);
  }
  // One line for symbols in a row with the same bounds, where they are many.
  for (std::size_t begin = 0, end; begin < guards.symbols.size(); begin = end) {
    const Guards::Symbol& s = guards.symbols[begin];
    end = begin + 1;
    while (end < guards.symbols.size() && guards.symbols[end].lower == s.lower && guards.symbols[end].upper == s.upper)
      ++end;
    if (end - begin < 4) end = begin + 1;
    lines.push_back(concat_text("s", begin, end - begin > 1 ? concat_text(" to s", end - 1) : "", " >= ", s.lower) +
                    (s.upper == INT64_MAX ? "" : concat_text(", <= ", s.upper)));
  }
  for (const DimCondition& condition : guards.conditions) {
    lines.push_back(condition_text(condition) + (condition.loc.file ? "  # " + place_text(condition) : ""));
  }
  return lines;
}

std::string TraceResult::structure(bool whole) const {
  std::string text = structure_text(graph);
  auto source_text = [](Source source) {
    const char* kinds[] = {"undefined", "output ", "argument "};
    return kinds[static_cast<int>(source.kind)] +
           (source.kind == Source::Kind::undefined ? "" : std::to_string(source.index));
  };
  for (const std::uint32_t leaf : inputs)
    text += is_kept(leaf) ? concat_text("input kept ", kept_index(leaf), "\n") : concat_text("input leaf ", leaf, "\n");
  if (decision)
    text += concat_text("decision ", static_cast<int>(decision->asked), " ", source_text(decision->value), "\n");
  for (const Source& source : kept) text += "kept " + source_text(source) + "\n";
  for (const Source& source : results) text += "result " + source_text(source) + "\n";
  if (whole) text += plain_results;
  if (generator.kind != Source::Kind::undefined) text += "generator " + source_text(generator) + "\n";
  for (const StateTensor& state : states)
    text += "state of leaf " + std::to_string(state.leaf) + " " + source_text(state.source) + "\n";
  for (const StateNumbers& number : numbers) {
    text += "number of leaf " + std::to_string(number.leaf) + " ";
    for (char byte : whole ? number.bytes : std::string())
      text += std::to_string(static_cast<unsigned char>(byte)) + " ";
    text += "\n";
  }
  return text;
}

}  // namespace weft::detail
