#include "trace/unread.hpp"

#include <algorithm>
#include <cctype>

#include "ir/size_marks.hpp"
#include "trace/symbols.hpp"

namespace weft::detail {
namespace {

// By node: whether another node or the result reads it.
std::vector<bool> read_nodes(const Graph& graph) {
  std::vector<bool> read(graph.nodes.size());
  for (const Tensor& value : graph.nodes)
    for (const Tensor& operand : value.node()->inputs()) read[graph.number(operand)] = true;
  for (const Tensor& output : graph.outputs) read[graph.number(output)] = true;
  return read;
}

// The words of unread sizes that are guarded, and may vary.
std::vector<std::size_t> unread_words(const CallContext& call, const TraceResult& traced,
                                      const std::vector<Guards::Symbol>& symbols) {
  const CallLayout& layout = call.layout();
  const std::vector<bool> read = read_nodes(traced.graph);
  std::vector<std::size_t> words;
  for (std::size_t i = 0; i < traced.inputs.size(); ++i) {
    if (traced.inputs[i] == generator_leaf || read[traced.graph.number(traced.graph.inputs[i])]) continue;
    const Leaf& leaf = layout.leaf(traced.inputs[i]);
    if (leaf.kind != LeafKind::tensor) continue;  // a parameter's sizes are numbers
    for (const CallLayout::Size& size : layout.sizes_of(traced.inputs[i])) {
      const std::size_t word = size.word;
      const bool free = std::ranges::any_of(symbols, [&](const Guards::Symbol& symbol) {
        return symbol.positions == std::vector{word} && symbol.lower <= 0 && symbol.upper == INT64_MAX;
      });
      if (!free && !size_mark(leaf.tensor(), size.axis)) words.push_back(word);
    }
  }
  return words;
}

// The symbols with one of its own for each of the words. Those that were there keep their numbers.
std::vector<Guards::Symbol> with_own(std::vector<Guards::Symbol> symbols, const std::vector<std::size_t>& words,
                                     const Words& sizes) {
  for (const std::size_t word : words) {
    const auto found = std::ranges::find_if(symbols, [&](const Guards::Symbol& symbol) {
      return std::ranges::find(symbol.positions, word) != symbol.positions.end();
    });
    const Guards::Symbol own{{word}, 0, INT64_MAX, false, static_cast<std::int64_t>(sizes.data()[word])};
    if (found != symbols.end() && found->positions.size() == 1) {
      *found = own;
      continue;
    }
    if (found != symbols.end()) std::erase(found->positions, word);
    symbols.push_back(own);
  }
  return symbols;
}

bool names(const std::string& text, const std::string& symbol) {
  for (std::size_t at = text.find(symbol); at != std::string::npos; at = text.find(symbol, at + 1)) {
    const std::size_t end = at + symbol.size();
    const auto is_part = [&](std::size_t i) { return std::isalnum(static_cast<unsigned char>(text[i])) != 0; };
    if (!(at > 0 && is_part(at - 1)) && !(end < text.size() && is_part(end))) return true;
  }
  return false;
}

// Whether the function took notice of the symbol: a guard, or anything but an unread input, names it.
bool is_noticed(const TraceResult& traced, std::size_t symbol) {
  const std::string name = "s" + std::to_string(symbol);
  for (const DimCondition& condition : traced.graph.conditions)
    if (names(dims::to_string(condition.left), name) || names(dims::to_string(condition.right), name)) return true;
  const std::vector<bool> read = read_nodes(traced.graph);
  std::string text = traced.structure();
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    const bool is_unread = std::ranges::any_of(traced.graph.inputs, [&](const Tensor& input) {
      const std::uint32_t number = traced.graph.number(input);
      return !read[number] && line.starts_with("%" + std::to_string(number) + " ");
    });
    if (!is_unread && names(line, name)) return true;
  }
  return false;
}

}  // namespace

void free_unread_sizes(const CallContext& call, std::vector<Guards::Symbol>& symbols, TraceResult& traced,
                       const std::function<TraceResult(const std::vector<Guards::Symbol>&)>& trace) {
  if (call.function.options.dynamic.sizes == Dynamic::Sizes::none) return;
  std::vector<std::size_t> words = unread_words(call, traced, symbols);
  while (!words.empty()) {
    std::vector<Guards::Symbol> more = with_own(symbols, words, call.scratch.words);
    TraceResult again;
    try {
      again = trace(more);
    } catch (const Error&) {  // of a size that must be a number
      return;
    }
    const std::size_t tried = words.size();
    for (std::size_t i = 0; i < more.size(); ++i)
      if (is_noticed(again, i)) std::erase(words, more[i].positions[0]);
    if (words.size() < tried) continue;
    symbols = std::move(more);
    traced = std::move(again);
    return;
  }
}

}  // namespace weft::detail
