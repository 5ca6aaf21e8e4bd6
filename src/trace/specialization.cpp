#include "trace/specialization.hpp"

#include <cstring>

#include "base/fail.hpp"
#include "trace/names.hpp"

namespace weft::detail {

bool Guards::hold(const Words& call) const {
  if (call.size != words.size()) return false;
  if (mask.empty()) return std::memcmp(call.data(), words.data(), call.size * sizeof(std::uint64_t)) == 0;
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < call.size; ++i) wrong |= (call.data()[i] ^ words[i]) & mask[i];
  if (wrong) return false;
  for (const Symbol& symbol : symbols) {
    std::uint64_t first = call.data()[symbol.positions[0]];
    auto value = static_cast<std::int64_t>(first) >> 1;
    if (value < symbol.lower || value > symbol.upper) return false;
    for (std::size_t position : symbol.positions)
      if (call.data()[position] != first) return false;
  }
  for (const DimCondition& condition : conditions) {
    auto value = [&](Dim dim) {
      return dims::evaluate(dim, [&](const DimNode* atom) {
        return symbol_value(static_cast<std::size_t>(atom->number), call);
      });
    };
    std::int64_t left = value(condition.left), right = value(condition.right);
    if ((condition.kind == DimCondition::Kind::equal ? left == right : left < right) != condition.holds) return false;
  }
  return true;
}

std::vector<std::string> guard_texts(const Guards& guards, const CallSignature& signature, const LeafList& arguments) {
  std::vector<std::string> names = argument_names(signature, arguments);
  std::vector<std::size_t> positions = word_positions(arguments);
  auto size_text = [&](std::size_t word) {
    for (std::size_t symbol = 0; symbol < guards.symbols.size(); ++symbol)
      for (std::size_t position : guards.symbols[symbol].positions)
        if (position == word) return "s" + std::to_string(symbol);
    return std::to_string(static_cast<std::int64_t>(guards.words[word]) >> 1);
  };
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < arguments.leaves.size(); ++i) {
    const Leaf& leaf = arguments.leaves[i];
    std::uint64_t word = guards.words[positions[i]];
    std::string line = names[i] + ": ";
    if (holds_tensor(leaf.kind)) {
      line += meta_text(word);
      if (leaf.kind == LeafKind::tensor || rank_of(word)) {
        line += "[";
        for (int axis = 0; axis < rank_of(word); ++axis)
          line += (axis ? "," : "") + size_text(positions[i] + 1 + static_cast<std::size_t>(axis));
        line += "]";
      }
    } else if (leaf.kind == LeafKind::count) {
      line += "length " + std::to_string(word);
    } else if (leaf.kind == LeafKind::number) {
      line += "== " + value_text(leaf.number, word, leaf.size);
    } else if (leaf.kind == LeafKind::text) {
      line += "== \"" + std::string(static_cast<const char*>(leaf.address), leaf.size) + "\"";
    } else {
      line += "equal numbers (" + std::to_string(leaf.size) + " bytes)";
    }
    lines.push_back(line);
  }
  for (std::size_t symbol = 0; symbol < guards.symbols.size(); ++symbol) {
    const Guards::Symbol& s = guards.symbols[symbol];
    lines.push_back(concat_text("s", symbol, " >= ", s.lower) +
                    (s.upper == INT64_MAX ? "" : concat_text(", <= ", s.upper)));
  }
  for (const DimCondition& condition : guards.conditions) {
    const char* relation = condition.kind == DimCondition::Kind::equal ? (condition.holds ? " == " : " != ")
                                                                       : (condition.holds ? " < " : " >= ");
    std::string where = to_string(condition.loc);
    lines.push_back(dims::to_string(condition.left) + relation + dims::to_string(condition.right) +
                    (where.empty() ? "" : "  # " + where));
  }
  return lines;
}

std::string Traced::structure() const {
  std::string text = structure_text(graph);
  auto source_text = [](Source source) {
    const char* kinds[] = {"undefined", "output ", "argument "};
    return kinds[static_cast<int>(source.kind)] + (source.kind == Source::Kind::undefined ? "" : std::to_string(source.index));
  };
  for (const Source& source : results) text += "result " + source_text(source) + "\n";
  for (const State& state : states) text += "state of leaf " + std::to_string(state.leaf) + " " + source_text(state.source) + "\n";
  for (const Numbers& number : numbers) {
    text += "number of leaf " + std::to_string(number.leaf) + " ";
    for (char byte : number.bytes) text += std::to_string(static_cast<unsigned char>(byte)) + " ";
    text += "\n";
  }
  return text;
}

}  // namespace weft::detail
