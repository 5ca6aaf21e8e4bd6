#include "tests/nn/golden.hpp"

namespace nn_test {

const std::vector<double>& golden(const std::string& name) {
  static const std::map<std::string, std::vector<double>> all = {
#include "tests/nn/layers_golden.inc"
  };
  const auto found = all.find(name);
  REQUIRE_MESSAGE(found != all.end(), name);
  return found->second;
}

}  // namespace nn_test
