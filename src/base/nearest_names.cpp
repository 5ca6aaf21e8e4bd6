#include "base/nearest_names.hpp"

#include <algorithm>
#include <utility>

#include "base/fail.hpp"

namespace weft {
namespace {

constexpr std::size_t most_shown = 8;

// The edit distance of Levenshtein (1966), where a star takes any characters at no cost.
std::size_t distance(std::string_view pattern, std::string_view text) {
  std::vector<std::size_t> row(text.size() + 1);
  for (std::size_t j = 0; j <= text.size(); ++j) row[j] = j;
  for (const char c : pattern) {
    std::size_t diagonal = row[0];  // of the row before, one to the left
    if (c != '*') ++row[0];
    for (std::size_t j = 1; j <= text.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = c == '*' ? std::min(above, row[j - 1])
                        : std::min({above + 1, row[j - 1] + 1, diagonal + (c == text[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[text.size()];
}

}  // namespace

std::string nearest_names(std::string_view wanted, std::vector<std::string> names) {
  if (names.size() > most_shown) {
    std::vector<std::pair<std::size_t, std::size_t>> order;  // distance, place
    for (std::size_t i = 0; i < names.size(); ++i) order.emplace_back(distance(wanted, names[i]), i);
    std::ranges::sort(order);
    std::vector<std::string> nearest;
    for (std::size_t i = 0; i < most_shown; ++i) nearest.push_back(names[order[i].second]);
    const std::size_t others = names.size() - most_shown;
    names = std::move(nearest);
    names.push_back(concat_text(others, " more"));
  }
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return text;
}

}  // namespace weft
