// What of a source a cubin is cached under: no device is needed.
#include "runtime/cuda/code.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "base/options.hpp"
#include "tests/needs_nvrtc.hpp"
#include "tests/runtime/support.hpp"

using namespace weft;
using namespace weft::test;

TEST_CASE("code that differs in comments alone is compiled once" * needs(nvrtc)) {
  const Folder folder;
  const KeepOptions keep;
  options().cache_directory = folder.path();
  options().cache = true;
  const auto compiled = [&](const char* comment, const char* factor) {
    const std::vector<std::string> units = {
        std::string("// mul f32") + comment +
        "\nextern \"C\" __global__ void scaled(float* x) {\n  x[threadIdx.x] *= " + factor + ";\n}\n"};
    const std::string cubin = runtime::cuda::compile_units(units, "sm_90", runtime::cuda::Effort::check).at(0);
    CHECK(!cubin.empty());
    return folder.names_with(".weft").size();
  };
  CHECK(compiled("[768], model.hpp:12", "2") == 1);
  CHECK(compiled("[50304,768], model.hpp:40", "2") == 1);
  CHECK(compiled("[768], model.hpp:12", "3") == 2);
}

TEST_CASE("it is said of each unit whether it was compiled or found in the cache" * needs(nvrtc)) {
  const Folder folder;
  const KeepOptions keep;
  options().cache_directory = folder.path();
  options().cache = true;
  const auto unit = [](const char* factor) {
    return std::string("extern \"C\" __global__ void scaled(float* x) {\n  x[threadIdx.x] *= ") + factor + ";\n}\n";
  };
  const auto compiled = [](const std::vector<std::string>& units) {
    std::vector<bool> each;
    CHECK(runtime::cuda::compile_units(units, "sm_90", runtime::cuda::Effort::check, &each).size() == units.size());
    return each;
  };
  CHECK(compiled({unit("2"), unit("3")}) == std::vector<bool>{true, true});
  CHECK(compiled({unit("2"), unit("4"), unit("3")}) == std::vector<bool>{false, true, false});
  CHECK(compiled({unit("4"), unit("2")}) == std::vector<bool>{false, false});
}
