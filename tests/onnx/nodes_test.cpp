// The node tests of the onnx package (onnx/backend/test/data/node of its wheel), which WEFT_ONNX_NODE_TESTS names;
// skipped without it. Each is run as it is and compiled; WEFT_ONNX_REPORT is a file for what failed, and why.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "onnx/program.hpp"
#include "tests/needs.hpp"
#include "weft/weft.hpp"

using namespace weft;
namespace fs = std::filesystem;

namespace {

std::vector<std::uint8_t> bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
Tensor tensor_of(const fs::path& path) {
  const onnx::TensorData data = onnx::parse_tensor(bytes_of(path), path.filename(), {});
  if (!onnx::has_dtype(data.type)) throw Error(onnx::element_name(data.type));
  return onnx::constant_of(data, Device::cpu(), {});
}
// Why they differ by more than the package's own test allows; empty where they do not.
std::string difference(const Tensor& got, const Tensor& wanted) {
  const auto text = [](const Tensor& t) { return concat_text(info(t.dtype()).name, t.shape()); };
  if (got.dtype() == DType::bf16 && wanted.dtype() == DType::u16) return difference(got, bitcast(wanted, DType::bf16));
  if (got.dtype() != wanted.dtype() || !(got.shape() == wanted.shape()))
    return "is " + text(got) + " in the place of " + text(wanted);
  if (wanted.element_count() == Dim(0)) return {};
  const Tensor a = flatten(cast(got, DType::f64)), b = flatten(cast(wanted, DType::f64));
  const double rtol = wanted.dtype() == DType::bf16 ? 1e-2 : 1e-3;
  if (allclose(a, b, {.rtol = rtol, .atol = 1e-7, .equal_nan = true}).item<bool>()) return {};
  return concat_text("differs by ", amax(abs(a - b)).item());
}

struct Outcome {
  int passed = 0, other_kinds = 0;
  std::map<std::string, std::string> failed;
};
// `run` gives the outputs of a model.
template <class Run>
Outcome outcome_of(const fs::path& folder, std::span<const fs::path> tests, Run run) {
  Outcome all;
  for (const fs::path& test : tests) {
    try {
      onnx::Model model;
      std::vector<DType> types;
      try {
        const auto bytes = bytes_of(folder / test / "model.onnx");
        const onnx::ModelData data = onnx::parse_model(bytes, "model.onnx", "", {});
        bool numeric = true;
        for (const auto* ports : {&data.graph.inputs, &data.graph.outputs})
          for (const onnx::ValueData& port : *ports) numeric = numeric && onnx::has_dtype(port.type);
        for (const onnx::NodeData& node : data.graph.nodes)
          numeric = numeric && (node.domain.empty() || node.domain == "ai.onnx");
        for (const onnx::ValueData& port : data.graph.inputs)
          if (onnx::has_dtype(port.type)) types.push_back(onnx::dtype_of_element(port.type));
        if (!numeric) {
          ++all.other_kinds;
          continue;
        }
        model = onnx::load((folder / test / "model.onnx").string());
      } catch (const Error& error) {
        all.failed[test] = error.what();
        continue;
      }
      const fs::path set = folder / test / "test_data_set_0";
      std::vector<Tensor> inputs, wanted;
      for (int i = 0; fs::exists(set / concat_text("input_", i, ".pb")); ++i)
        inputs.push_back(tensor_of(set / concat_text("input_", i, ".pb")));
      // Files of older versions of the package say u16 for bf16.
      for (std::size_t i = 0; i < inputs.size() && i < types.size(); ++i)
        if (types[i] == DType::bf16 && inputs[i].dtype() == DType::u16) inputs[i] = bitcast(inputs[i], DType::bf16);
      for (int i = 0; fs::exists(set / concat_text("output_", i, ".pb")); ++i)
        wanted.push_back(tensor_of(set / concat_text("output_", i, ".pb")));
      const std::vector<Tensor> got = run(model, inputs);
      std::string why = got.size() < wanted.size() ? "gives too few outputs" : "";
      for (std::size_t i = 0; i < wanted.size() && why.empty(); ++i)
        if (const std::string each = difference(got[i], wanted[i]); !each.empty())
          why = concat_text("output ", i, " ", each);
      if (why.empty())
        ++all.passed;
      else
        all.failed[test] = why;
    } catch (const std::exception& error) {
      all.failed[test] = error.what();
    }
  }
  return all;
}

// Those that fail, of version 1.19.1, and why (docs/onnx.md): a name, or how names begin.
constexpr const char* failing[] = {
    "test_attention_3d_with_past_and_present_qk_matmul_softcap",
    "test_attention_4d_with_qk_matmul_softcap",
    "test_bernoulli*",
    "test_dft",
    "test_dft_axis",
    "test_dft_axis_opset19",
    "test_dft_opset19",
    "test_image_decoder_*",
    "test_l2normalization_axis_0",
    "test_qlinearmatmul_2D_int8_*",
    "test_qlinearmatmul_3D_int8_*",
    "test_roialign_mode_max",
    "test_scan_sum",
    "test_tensorscatter*",
    "test_training_dropout*",
};
bool may_fail(const std::string& test) {
  return std::ranges::any_of(failing, [&](std::string_view row) {
    return row.ends_with('*') ? test.starts_with(row.substr(0, row.size() - 1)) : test == row;
  });
}

void check(const char* how, const Outcome& outcome) {
  const std::size_t count = outcome.failed.size() + static_cast<std::size_t>(outcome.passed);
  const std::string summary = concat_text(how, ": ", outcome.passed, " of ", count, " numeric node tests pass, and ",
                                          outcome.other_kinds, " are of other kinds");
  MESSAGE(summary);
  if (const char* const report = std::getenv("WEFT_ONNX_REPORT")) {
    std::ofstream file(report, std::ios::app);
    file << summary << "\n";
    for (const auto& [test, why] : outcome.failed) file << how << " " << test << ": " << why << "\n";
  }
  CHECK(count > 0);
  for (const auto& [test, why] : outcome.failed)
    if (!may_fail(test)) FAIL_CHECK(concat_text(how, " ", test, ": ", why));
}

std::string node_tests() { return std::getenv("WEFT_ONNX_NODE_TESTS") ? "" : "WEFT_ONNX_NODE_TESTS names no folder"; }

}  // namespace

TEST_CASE("the node tests of the onnx package pass, as they are and compiled" * weft::test::needs(node_tests)) {
  const char* const given = std::getenv("WEFT_ONNX_NODE_TESTS");
  const char* const only = std::getenv("WEFT_ONNX_ONLY");  // a part of names
  const char* const mode = std::getenv("WEFT_ONNX_MODE");  // one of the two
  std::vector<fs::path> tests;
  for (const auto& entry : fs::directory_iterator(given))
    if (fs::exists(entry.path() / "model.onnx") && (!only || entry.path().string().find(only) != std::string::npos))
      tests.push_back(entry.path().filename());
  std::ranges::sort(tests);
  using Tensors = std::vector<Tensor>;
  if (!mode || mode == std::string_view("eager"))
    check("plain", outcome_of(given, tests, [](const onnx::Model& model, const Tensors& inputs) {
            Tensors outputs = model(inputs);
            for (const Tensor& each : outputs) each.eval();
            return outputs;
          }));
  if (!mode || mode == std::string_view("compiled"))
    check("compiled", outcome_of(given, tests, [](const onnx::Model& model, const Tensors& inputs) {
            const auto f = compile([](const onnx::Model& m, const Tensors& x) { return m(x); }, {.level = Level::O1});
            return f(model, inputs);
          }));
  if (mode && mode == std::string_view("traced"))
    check("traced", outcome_of(given, tests, [](const onnx::Model& model, const Tensors& inputs) {
            const auto f =
                compile([](const onnx::Model& m, const Tensors& x) { return m(x); }, {.backend = "aot_eager"});
            return f(model, inputs);
          }));
}
