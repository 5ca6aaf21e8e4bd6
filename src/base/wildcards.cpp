#include "base/wildcards.hpp"

namespace weft {

std::optional<std::vector<std::string_view>> match_stars(std::string_view pattern, std::string_view text) {
  std::vector<std::string_view> found;
  std::size_t star = pattern.find('*');
  if (!text.starts_with(pattern.substr(0, star))) return {};
  if (star == std::string_view::npos) return text == pattern ? std::optional(found) : std::nullopt;
  text.remove_prefix(star);
  while (star != std::string_view::npos) {
    pattern.remove_prefix(star + 1);
    star = pattern.find('*');
    const std::string_view next = pattern.substr(0, star);
    const std::size_t at = star != std::string_view::npos ? text.find(next)
                           : text.ends_with(next)         ? text.size() - next.size()
                                                          : std::string_view::npos;
    if (at == std::string_view::npos) return {};
    found.push_back(text.substr(0, at));
    text.remove_prefix(at + next.size());
  }
  return found;
}

}  // namespace weft
