// Reads a graph from the text that to_text() writes: to_text(parse_graph(text)) is `text` again. In: the text, and
// beside it what no text holds. Out: a graph, not verified. Locations, scopes, recomputations, symbols and decided
// conditions come back too; traces do not.
#pragma once
#include "ir/graph.hpp"

namespace weft {

// By order in the text, bodies included. Where one is missing, a data node has no contents and can't be computed, and
// an application of a scalar expression has no kernel.
struct BesideText {
  std::vector<Tensor> data;                               // of which the contents are shared
  std::vector<const ElementwiseDefinition*> definitions;  // of each call
  const char* operation = "parse_graph";                  // who reads, for the errors
};

// Throws Error that names the line and the column.
Graph parse_graph(std::string_view text, const BesideText& beside = {});

}  // namespace weft
