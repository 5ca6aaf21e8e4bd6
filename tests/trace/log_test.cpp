// WEFT_LOGS=guards,recompiles: a line a guard, and why a function is compiled again.
#include "base/log.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "weft/compile.hpp"
#include "weft/ops.hpp"  // with the function log beside the namespace logging

using namespace weft;

TEST_CASE("each recompilation is logged with its reason") {
  std::vector<std::string> lines;
  logging::set_sink(
      [](void* context, std::string_view line) { static_cast<std::vector<std::string>*>(context)->emplace_back(line); },
      &lines);
  logging::set_channels("recompiles,guards");
  const int line = __LINE__ + 1;
  auto f = compile([](const Tensor& x) { return log(x); });
  f(ones({64}));
  f(ones({32}));
  logging::set_channels("");
  logging::set_sink(nullptr, nullptr);
  std::string where = "compile at log_test.cpp:" + std::to_string(line) + ": ";
  CHECK(std::count(lines.begin(), lines.end(), "[weft:guards] " + where + "argument 0: f32[64]") == 1);
  CHECK(std::count(lines.begin(), lines.end(),
                   "[weft:recompiles] " + where + "argument 0: size of dimension 0 was 64, is 32") == 1);
}
