// Which names a message lists where one does not exist.
#include "base/nearest_names.hpp"

#include <doctest/doctest.h>

using namespace weft;

TEST_CASE("few names are listed in their order, of many the nearest") {
  CHECK(nearest_names("c", {}).empty());
  CHECK(nearest_names("c", {"head"}) == "head");
  CHECK(nearest_names("hed", {"weight", "bias", "head"}) == "weight, bias and head");
  std::vector<std::string> names;
  for (int i = 0; i < 12; ++i) names.push_back("layers[" + std::to_string(i) + "].weight");
  names.push_back("encoder.bias");
  names.push_back("head.bias");
  CHECK(nearest_names("encodr.*", names).starts_with("encoder.bias, "));
  CHECK(nearest_names("*.bas", names).starts_with("encoder.bias, head.bias, layers[0].weight, "));
  CHECK(nearest_names("layers[12].weight", names) ==
        "layers[1].weight, layers[2].weight, layers[10].weight, layers[11].weight, layers[0].weight, layers[3].weight, "
        "layers[4].weight, layers[5].weight and 6 more");
}
