// What fusion counts in: bytes. In: sizes and types. Out: numbers to compare. A symbolic size counts as its hint, the
// size of the call that was traced: a decision needs an order, not a proof, and every choice computes the same.
#pragma once
#include "ir/graph.hpp"

namespace weft {

class Score {
 public:
  Score(const Graph& graph, Device device);
  double number(Dim dim) const;
  double elements(const Shape& shape) const { return number(shape.element_count()); }
  double bytes(const Node& node) const { return bytes(node, elements(node.type.shape)); }
  static double bytes(const Node& node, double elements) {
    return static_cast<double>(storage_bytes(info(node.type.dtype), static_cast<std::int64_t>(elements)));
  }
  // An operation of this weight for an element: vectors do about four additions in the time in which a byte is moved.
  static constexpr double work(double additions) { return additions / 4; }
  // Units of work among which so many bytes are best divided.
  double units(double bytes) const;
  // Whether each thread of a kernel computes what is inlined there, of one element too.
  bool inlines_in_each_thread() const { return !on_host_; }
  // Whether independent kernels of one text are one launch.
  bool launches_tables() const { return !on_host_; }
  // What one kernel less is worth: the time in which so many bytes are moved.
  double launch() const { return on_host_ ? 1 << 13 : 1 << 20; }

 private:
  std::vector<DimSymbol> symbols_;
  bool on_host_;
};

}  // namespace weft
