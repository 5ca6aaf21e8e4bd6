// The sizes of a plan as one table of integers. In: expressions over size symbols. Out: their values, the known ones
// computed once, the others by small stack programs, without allocation, whenever symbols change.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/dim_expression.hpp"

namespace weft::runtime {

class NumberTable {
 public:
  // Of numbers over so many symbols.
  explicit NumberTable(std::size_t symbols) : symbols_(symbols) {}

  // Where a list of numbers lies in the table.
  struct Range {
    std::size_t begin = 0, count = 0;
  };
  // Throws InternalError where a number depends on another symbol, or on anything else.
  Range add(std::span<const Dim> dims);
  Range add(std::initializer_list<Dim> dims) { return add(std::span(dims.begin(), dims.size())); }

  // The table with zeros where a number depends on symbols.
  const std::vector<std::int64_t>& constants() const { return constants_; }
  void evaluate(std::span<const std::int64_t> symbols, std::vector<std::int64_t>& table) const;

 private:
  enum class Code : std::uint8_t { number, symbol, add, multiply, floor_divide, modulo, store };
  struct Step {
    Code code;
    std::int64_t operand;  // the number, the symbol, or the place in the table
  };
  void compile(Dim dim);
  void push(Code code, std::int64_t operand, int change);

  std::vector<std::int64_t> constants_;
  std::vector<Step> program_;
  std::size_t symbols_;
  int depth_ = 0;
};

}  // namespace weft::runtime
