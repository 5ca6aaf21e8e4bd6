// Models that PyTorch exports (tests/onnx/torch_models) give what they give in PyTorch, where Python has torch and
// onnx.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>

#include "base/fail.hpp"
#include "tests/needs.hpp"
#include "weft/onnx.hpp"
#include "weft/weft.hpp"

using namespace weft;
namespace fs = std::filesystem;

namespace {

std::string python() {
  const char* const given = std::getenv("WEFT_TEST_PYTHON");
  return given ? given : "python3";
}
std::string torch() {
  return std::system((python() + " -c 'import torch, onnx' >/dev/null 2>&1").c_str()) == 0
             ? ""
             : "Python has no torch with onnx";
}

}  // namespace

TEST_CASE("models that PyTorch exported give its numbers, plain and compiled with sizes that vary" *
          weft::test::needs(torch)) {
  const fs::path folder = fs::temp_directory_path() / concat_text("weft_onnx_torch_", getpid());
  REQUIRE(std::system((python() + " " WEFT_SOURCE_DIR "/tests/onnx/torch_models " + folder.string()).c_str()) == 0);
  int count = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".onnx") continue;
    CAPTURE(entry.path().string());
    ++count;
    const onnx::Model model = onnx::load(entry.path().string());
    const auto values = io::load_npz(fs::path(entry.path()).replace_extension(".npz").string());
    const Tensor x = values[0].value, wanted = values[1].value;
    const auto agrees = [&](const Tensor& y) { return allclose(y, wanted, {.rtol = 1e-4, .atol = 1e-5}).item<bool>(); };
    CHECK(agrees(model({x})[0]));
    mark_dynamic(x, 0);
    const auto f =
        compile([](const onnx::Model& m, const std::vector<Tensor>& x) { return m(x); }, {.fullgraph = true});
    CHECK(agrees(f(model, {x})[0]));
    const Tensor more = concat({x, x}, 0);
    mark_dynamic(more, 0);
    CHECK(allclose(f(model, {more})[0], model({more})[0], {.rtol = 1e-4, .atol = 1e-5}).item<bool>());
    CHECK(specialization_count(f) == 1);
  }
  CHECK(count == 5);
  fs::remove_all(folder);
}
