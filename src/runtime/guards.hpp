// Guards, as data: what the arguments of a call must be for a specialization to serve it. In: the call as 64-bit words,
// one or more for each argument, written by whoever takes the call: of a compiled function by trace/key.hpp, of a call
// in C by run/call.cpp. Out: whether they satisfy the guards. All callers decide by hold(); nothing here allocates.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/dim_expression.hpp"

namespace weft::runtime {

// Equal words where the mask has bits (no mask: everywhere), then symbols and conditions on sizes.
struct Guards {
  std::vector<std::uint64_t> words;
  std::vector<std::uint64_t> mask;
  struct Symbol {
    std::vector<std::size_t> positions;  // the words of the sizes that this symbol is, equal to each other
    std::int64_t lower, upper;
    bool marked = false;        // mark_dynamic asked for it
    std::int64_t greatest = 0;  // of this size in the calls that were compiled for
  };
  std::vector<Symbol> symbols;
  std::vector<DimCondition> conditions;

  // Appends a word, and one that is a size: a number, or a symbol that is there already.
  void add(std::uint64_t word, std::uint64_t bits = ~std::uint64_t{0});
  void add_size(Dim size);

  bool hold(std::span<const std::uint64_t> call) const;
  // `counts`: values of the symbols after those of arguments.
  bool holds(const DimCondition& condition, std::span<const std::uint64_t> call,
             std::span<const std::int64_t> counts = {}) const;
  std::int64_t symbol_value(std::size_t symbol, std::span<const std::uint64_t> call) const {
    return static_cast<std::int64_t>(call[symbols[symbol].positions[0]]);
  }
};

}  // namespace weft::runtime
