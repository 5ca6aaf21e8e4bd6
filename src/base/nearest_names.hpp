// The end of a message about a name that does not exist: which names there are.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// "a.weight, a.bias and b.weight"; of many, the eight that are nearest to `wanted`, in which * matches any
// characters: "encoder.weight, ..., head.bias and 30 more". Empty for no names.
std::string nearest_names(std::string_view wanted, std::vector<std::string> names);

}  // namespace weft
