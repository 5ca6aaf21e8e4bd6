// Checks of a graph's sizes in one call, for graphs that no recorder has made or that run without guards.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "ir/graph.hpp"

namespace weft {

// Throws Error where the symbols have values outside of their ranges, or a condition of the graph does not hold.
void check_guards(const Graph& graph, std::span<const std::int64_t> symbols, const char* operation, Loc loc);

// Throws Error where, with these values of the symbols, a value has a negative size or too many elements, or an
// operation reads outside of its operands. Bodies with symbols of their own are left out.
void check_sizes_at(const Graph& graph, std::span<const std::int64_t> symbols, const char* operation, Loc loc);

// Sizes that one name stands for must be equal. In a compiled function a symbolic size is compared as the program
// itself would compare it.
class EqualSizes {
 public:
  // `of`: whose names they are, "the file".
  EqualSizes(const char* operation, const char* of, Loc loc) : operation_(operation), of_(of), loc_(loc) {}
  // The size of an axis of the input. Throws Error where the name stood for another size.
  void add(const std::string& name, const std::string& input, int axis, Dim size);

 private:
  struct First {
    std::string place;
    Dim size;
  };
  const char *const operation_, *const of_;
  const Loc loc_;
  std::map<std::string, First> sizes_;
};

}  // namespace weft
