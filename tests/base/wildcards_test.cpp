#include "base/wildcards.hpp"

#include <doctest/doctest.h>

namespace weft {
namespace {

using Found = std::optional<std::vector<std::string_view>>;

TEST_CASE("match_stars: what each star matches") {
  CHECK(match_stars("a.b", "a.b") == Found(std::vector<std::string_view>{}));
  CHECK(match_stars("a.b", "a.bc") == Found());
  CHECK(match_stars("*", "") == Found({""}));
  CHECK(match_stars("blocks.*.norm.*", "blocks.3.norm.weight") == Found({"3", "weight"}));
  // As little as fits; the last star takes the rest.
  CHECK(match_stars("*.*", "a.b.c") == Found({"a", "b.c"}));
  CHECK(match_stars("*.weight", "a.weight.weight") == Found({"a.weight"}));
  CHECK(match_stars("**", "ab") == Found({"", "ab"}));
  // What one star took is not there for the next.
  CHECK(match_stars("*ab*ba", "aba") == Found());
  CHECK(match_stars("ab*ba", "aba") == Found());
  CHECK(match_stars("a*", "ba") == Found());
  CHECK(match_stars("*a*b*", "xxbyyazz") == Found());
}

}  // namespace
}  // namespace weft
