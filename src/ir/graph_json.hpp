// A graph as JSON, for programs that do not read its text. In: a graph. Out: an object that holds what to_text() says;
// and from such an object the text, which ir/parse.hpp reads. Invariant: to_text() of what is read back is the text of
// the graph.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "ir/graph.hpp"

namespace weft {

nlohmann::ordered_json json_of(const Graph& graph);
// Throws Error, of `operation`, that names the place in the object.
std::string text_of_json(const nlohmann::ordered_json& json, const char* operation, Loc loc);

}  // namespace weft
