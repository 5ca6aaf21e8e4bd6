// Patterns of names, in which * matches any characters.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

namespace weft {

// What each star of the pattern matches in `text`, as little as fits; the last one takes the rest. Nothing where the
// text does not match the pattern.
std::optional<std::vector<std::string_view>> match_stars(std::string_view pattern, std::string_view text);

}  // namespace weft
