// Functions that are written as ONNX files: read back they compute the same; the example models run in ONNX Runtime,
// where Python has it.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/fail.hpp"
#include "onnx/file.hpp"
#include "tests/message_of.hpp"
#include "tests/models/small_models.hpp"
#include "tests/needs.hpp"
#include "weft/onnx.hpp"
#include "weft/precompile.hpp"
#include "weft/weft.hpp"

using namespace weft;
namespace fs = std::filesystem;

namespace {

using Tensors = std::vector<Tensor>;

// A folder that goes at the end.
struct Folder {
  fs::path path = fs::temp_directory_path() / concat_text("weft_onnx_export_", getpid());
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
};
bool same(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         allclose(a, b, {.rtol = 1e-4, .atol = 1e-5, .equal_nan = true}).item<bool>();
}
std::string operations_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<std::uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
  std::string all;
  for (const onnx::NodeData& node : onnx::parse_model(bytes, "", "", {}).graph.nodes) all += node.operation + " ";
  return all;
}
// The operations of the file of f(x), which read back gives what f gives.
template <class F, class... A>
std::string round_trip(F f, const A&... argument) {
  const Folder folder;
  const fs::path path = folder.path / "f.onnx";
  onnx::save(path.string(), compile(f), argument...);
  const Tensors got = onnx::load(path.string())(Tensors{argument...});
  CHECK(got.size() == 1);
  CHECK(same(got[0], f(argument...)));
  return operations_of(path);
}

std::string python() {
  const char* const given = std::getenv("WEFT_TEST_PYTHON");
  return given ? given : "python3";
}
std::string onnxruntime() {
  return std::system((python() + " -c 'import onnxruntime' >/dev/null 2>&1").c_str()) == 0
             ? ""
             : "Python has no onnxruntime";
}

struct Exported {
  Folder folder;
  int count = 0;
  // Writes the file, the inputs and what the model gives.
  template <class F, class Model, class... A>
  void add(const char* name, F f, Model model, const A&... argument) {
    CAPTURE(name);
    ++count;
    const auto compiled = compile(f);
    std::string failure;
    try {
      onnx::save((folder.path / name).string() + ".onnx", compiled, model, argument...);
    } catch (const Error& error) {
      failure = error.what();
    }
    CHECK(failure == "");
    if (!failure.empty()) return;
    std::vector<io::NamedTensor> values;
    int i = 0;
    (values.push_back({concat_text("input_", i++), argument}), ...);
    const Tensor wanted = f(model, argument...);
    values.push_back({"output", wanted});
    io::save_npz((folder.path / name).string() + ".npz", values);
    // Our own reader reads it too.
    CHECK(same(onnx::load((folder.path / name).string() + ".onnx")({argument...})[0], wanted));
  }
};
struct Numbered {
  Param v1 = Param(uniform({4}, 1)), v2 = Param(uniform({4}, 1));
  WEFT_MEMBERS(v1, v2)
};

}  // namespace

TEST_CASE("a function is written as ONNX's own operations where it has them, and read back to the same") {
  const Tensor x = uniform({3, 4, 8}, -1), w = uniform({8}, 0.5), b = uniform({8});
  CHECK(round_trip([](const Tensor& x, const Tensor& w, const Tensor& b) { return nn::layer_norm(x, w, b); }, x, w,
                   b) == "LayerNormalization Identity ");
  CHECK(round_trip([](const Tensor& x) { return gelu(x, Gelu::tanh); }, x) == "Gelu Identity ");
  CHECK(round_trip([](const Tensor& x) { return softmax(x, 1); }, x) == "Softmax Identity ");
  const Tensor q = uniform({2, 3, 5, 8}, -1), k = uniform({2, 3, 7, 8}, -1);
  CHECK(round_trip([](const Tensor& q, const Tensor& k) { return nn::scaled_dot_product_attention(q, k, k); }, q, k) ==
        "Attention Identity ");
  CHECK(round_trip([](const Tensor& x, const Tensor& w) { return relu(x * w + 1) / 2; }, x, w) ==
        "Mul Add Relu Div Identity ");
  round_trip([](const Tensor& x) { return silu(x) + mean(x, -1, true) + std::exp(1.0); }, x);
  round_trip([](const Tensor& x) { return concat({flip(x, 1), slice(x, 1, 0, 4, 2)}, 1); }, x);
  round_trip([](const Tensor& x) { return max_pool2d(pad(unsqueeze(x, 0), {1, 1, 1, 1}), 2); }, x);
  round_trip([](const Tensor& x) { return cast(argmax(x, -1), DType::f32) + sum(cumsum(x, 2), 2); }, x);
  round_trip([](const Tensor& x) { return gather(x, constant({2, 0, 1})) * cast(x > 0, DType::f32); }, x);
  round_trip([](const Tensor& x) { return where(isfinite(x) & (x != 0), floor_divide(x, 0.3), remainder(x, 0.3)); }, x);
  round_trip([](const Tensor& x) { return sort(x, -1, true).values + log1p(exp(x)); }, x);
}

TEST_CASE("loops and choices are written as Scan, Loop and If") {
  const Tensor x = uniform({5, 4}, -1);
  const auto text = round_trip(
      [](const Tensor& x) { return scan([](Tensor s, const Tensor& row) { return s * 0.5 + row; }, zeros({4}), x); },
      x);
  CHECK(text.find("Scan") != std::string::npos);
  round_trip(
      [](const Tensor& x) {
        return cond(
            sum(x) > 0, [](const Tensor& y) { return y * 2; }, [](const Tensor& y) { return -y; }, x);
      },
      x);
  round_trip(
      [](const Tensor& x) {
        return while_loop([](const Tensor& s) { return sum(s) < 100; }, [](const Tensor& s) { return s * 1.5 + 1; }, x);
      },
      x);
  // A part of the state that an iteration replaces, at a place that it computes.
  const auto updates = [](const auto& f) {
    CHECK(round_trip(f, uniform({5, 4}, -1)).find("Scan") != std::string::npos);
  };
  updates([](const Tensor& x) {
    return fori(
        0, 4, [](Index i, Tensor s) { return update_slice(s, slice(s, 0, i, 2) * 2 + 1, 0, i); }, x);
  });
  updates([](const Tensor& x) {
    return fori(
        0, 4, [](Index i, Tensor s) { return update_slice(s, slice(s, 1, i, 1) * 2 + 1, 1, i); }, x);
  });
  // ONNX has no error for a limit: the loop ends there.
  const Folder folder;
  const std::string path = (folder.path / "limit.onnx").string();
  const auto counted = compile([](const Tensor& x) {
    return while_loop([](const Tensor& s) { return sum(s) > -1; }, [](const Tensor& s) { return s + 1; }, x,
                      {.limit = 9});
  });
  onnx::save(path, counted, zeros({2}));
  const onnx::Model model = onnx::load(path);
  CHECK(same(model({zeros({2})})[0], full({2}, 9)));
}

TEST_CASE("sizes that vary are names in the file, and computed where the graph needs them") {
  const Folder folder;
  const fs::path path = folder.path / "f.onnx";
  const auto f = [](const Tensor& x) { return reshape(x, {x.size(0) * x.size(1), 4}) / At(x.size(0)) + sum(x); };
  const Tensor x = uniform({3, 5, 4});
  mark_dynamic(x, 0), mark_dynamic(x, 1);
  onnx::save(path.string(), compile(f), x);
  const onnx::Model model = onnx::load(path.string());
  CHECK(onnx::inputs(model)[0].type == "f32[s0,s1,4]");
  for (const auto& [a, b] : {std::pair(3, 5), std::pair(7, 2)}) {
    const Tensor y = uniform({a, b, 4});
    CHECK(same(model({y})[0], f(y)));
  }
}

TEST_CASE("sizes that vary independently have names of their own, and quotients of them round down") {
  const Folder folder;
  const fs::path path = folder.path / "f.onnx";
  const auto check = [&](auto f, const Tensor& spec, std::initializer_list<Tensor> calls) {
    onnx::save(path.string(), compile(f), spec);
    const onnx::Model model = onnx::load(path.string());
    for (const Tensor& x : calls) CHECK(same(model({x})[0], f(x)));
  };
  check([](const Tensor& x) { return sum(x) / (x.size(0) * x.size(1)); }, tensor_spec({{2, 64}, {2, 64}}),
        {uniform({7, 7}), uniform({16, 8}), uniform({2, 33})});
  check([](const Tensor& x) { return median(reshape(x, {-1}), 0).values; }, tensor_spec({{2, 64}, 2}),
        {uniform({2, 2}), uniform({5, 2}), from_list<float>({2, 5, 1, 4}, {2, 2})});
  // A quotient of a size less 7, which may be negative.
  check([](const Tensor& x) { return x + (x.size(0) - 7) / Dim(2); }, tensor_spec({{2, 64}, 2}),
        {uniform({2, 2}), uniform({4, 2}), uniform({9, 2})});
}

TEST_CASE("so are those that the function's options say") {
  const Folder folder;
  const std::string path = (folder.path / "f.onnx").string();
  const auto f = [](const Tensor& x) { return relu(x) + sum(x); };
  onnx::save(path, compile(f, {.dynamic = true}), uniform({3, 5}, -1));
  const onnx::Model model = onnx::load(path);
  CHECK(onnx::inputs(model)[0].type == "f32[s0,s1]");
  const Tensor x = uniform({4, 2}, -1);
  CHECK(same(model({x})[0], f(x)));
}

TEST_CASE("values have other names than the function's tensors") {
  const Folder folder;
  const std::string path = (folder.path / "f.onnx").string();
  const auto f = [](const Numbered& m, const Tensor& x) { return exp(x * m.v1) - x / m.v2; };
  const Numbered model;
  const Tensor x = uniform({3, 4}, -1);
  onnx::save(path, compile(f), model, x);
  const onnx::Model loaded = onnx::load(path);
  CHECK(loaded.parameters.contains("v1"));
  CHECK(same(loaded({x})[0], f(model, x)));
}

namespace {
struct Scores {
  Tensor logits, probabilities;
  WEFT_MEMBERS(logits, probabilities)
};
std::string names_of(const std::vector<onnx::Port>& ports) {
  std::string names;
  for (const onnx::Port& port : ports) names += port.name + " ";
  return names;
}
}  // namespace

TEST_CASE("inputs and outputs are named after members, arguments' numbers, or as the options say") {
  const Folder folder;
  const std::string path = (folder.path / "f.onnx").string();
  const auto f = compile([](const Numbered& m, const Tensor& x, const Tensor& y) {
    return Scores{x * m.v1 + y, softmax(x * m.v2, -1)};
  });
  const Numbered model;
  const Tensor x = uniform({3, 4}, -1);
  const auto names = [&](onnx::SaveOptions options) {
    onnx::save({path, std::move(options)}, f, model, x, x);
    const onnx::Model loaded = onnx::load(path);
    CHECK(same(loaded({x, x})[1], softmax(x * model.v2, -1)));
    return names_of(onnx::inputs(loaded)) + names_of(onnx::outputs(loaded));
  };
  CHECK(names({}) == "input_1 input_2 logits probabilities ");
  CHECK(names({.input_names = {"image", "v1"}}) == "image v1 logits probabilities ");
  CHECK(names({.output_names = {"a", "b"}}) == "input_1 input_2 a b ");
  CHECK(test::message_of([&] {
          names({.input_names = {"image"}});
        }).find("f.onnx: SaveOptions::input_names has 1, and the function has 2") != std::string::npos);
  CHECK(test::message_of([&] {
          names({.output_names = {"a", "a"}});
        }).find("SaveOptions gives the name a twice") != std::string::npos);
}

TEST_CASE("what ONNX can't say is refused with its line") {
  const Folder folder;
  const std::string path = (folder.path / "f.onnx").string();
  const auto refusal = [&](auto f, const Tensor& x) {
    return test::message_of([&] { onnx::save(path, compile(f), x); });
  };
  Tensor x = uniform({3, 3});
  CHECK(refusal([](const Tensor& x) { return linalg::inv(x); }, x).find("ONNX has no operation for lu") !=
        std::string::npos);
  CHECK(refusal(
            [](const Tensor& x) {
              return x + uniform({3, 3});
            },
            x)
            .find("the function draws numbers") != std::string::npos);
  const std::string read = refusal([](const Tensor& x) { return sum(x).item<bool>() ? x : -x; }, x);
  CAPTURE(read);
  CHECK(read.find("is not known in a function that onnx::save exports (export_test.cpp:") != std::string::npos);
  const std::string text = test::message_of([&] { onnx::save(path, compile([](Tensor& x) { x = x + 1; }), x); }),
                    line = concat_text("export_test.cpp:", __LINE__ - 1);
  CAPTURE(text);
  CHECK(text.find("the function changes its arguments") != std::string::npos);
  CHECK(text.find(line) != std::string::npos);
  CHECK(!fs::exists(path));
}

TEST_CASE("example models are written, and read back to the same") {
  Exported all;
  small_models::add_small_models(all);
  CHECK(all.count == 14);
}

TEST_CASE("example models run in ONNX Runtime to 1e-4" * test::needs(onnxruntime)) {
  Exported all;
  small_models::add_small_models(all);
  const std::string command = python() + " " WEFT_SOURCE_DIR "/tests/onnx/run_onnxruntime " + all.folder.path.string();
  CHECK(std::system(command.c_str()) == 0);
}
