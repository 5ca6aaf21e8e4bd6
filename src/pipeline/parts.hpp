// A compilation whose values are on several devices: a compilation for each part of its graph, whose plans become one
// plan in parts.
#pragma once
#include "pipeline/compilation.hpp"
#include "pipeline/places.hpp"

namespace weft {

class JoinedParts {
 public:
  // Of an optimized graph.
  explicit JoinedParts(const Compilation& whole);
  struct Part {
    Device device;
    Compilation compilation;
  };
  // To be finished, each on its device. Their updates point into this object.
  std::vector<Part> compilations(const Compilation& whole);
  // Once the parts' plans are made.
  void join(Executable& whole) const;

 private:
  bool may_write_in_place(std::size_t part, int argument) const;

  std::shared_ptr<const CutGraph> cut_;
  std::vector<std::shared_ptr<Executable>> executables_;  // by part; null: a copy
  Device device_;
  std::string title_;
  int arguments_, results_;
  std::vector<DimSymbol> symbols_;
};

}  // namespace weft
