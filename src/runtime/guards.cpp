#include "runtime/guards.hpp"

#include <algorithm>

#include "base/dim_conditions.hpp"

namespace weft::runtime {

void Guards::add(std::uint64_t word, std::uint64_t bits) {
  words.push_back(word);
  mask.push_back(bits);
}

void Guards::add_size(Dim size) {
  if (size.is_constant()) return add(size.word());
  symbols[static_cast<std::size_t>(size.node()->number)].positions.push_back(words.size());
  add(0, 0);
}

bool Guards::hold(std::span<const std::uint64_t> call) const {
  if (mask.empty()) return std::ranges::equal(call, words);
  if (call.size() != words.size()) return false;
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < call.size(); ++i) wrong |= (call[i] ^ words[i]) & mask[i];
  if (wrong) return false;
  for (const Symbol& symbol : symbols)
    for (const std::size_t position : symbol.positions)
      if (call[position] != call[symbol.positions[0]]) return false;
  const auto value_of = [&](std::size_t symbol) { return symbol_value(symbol, call); };
  if (broken_range(symbols, value_of)) return false;
  if (broken_condition(conditions, value_of)) return false;
  return true;
}

bool Guards::holds(const DimCondition& condition, std::span<const std::uint64_t> call,
                   std::span<const std::int64_t> counts) const {
  return is_satisfied(condition, [&](std::size_t symbol) {
    return symbol < symbols.size() ? symbol_value(symbol, call) : counts[symbol - symbols.size()];
  });
}

}  // namespace weft::runtime
