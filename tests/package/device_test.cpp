// Packages for devices, made where there is none: what the file holds, what is read back, and what is refused. Running
// them is tests/cuda/package_test.cpp.
#include <random>

#include "package/forged.hpp"
#include "runtime/cuda/libraries.hpp"
#include "runtime/cuda/package_code.hpp"
#include "runtime/cuda/stored_steps.hpp"
#include "runtime/steps.hpp"
#include "tests/needs_compiler.hpp"
#include "tests/needs_nvrtc.hpp"
#include "weft/explain.hpp"
#include "weft/fft.hpp"
#include "weft/linalg.hpp"
#include "weft/precompile.hpp"

using namespace package_test;
using weft::test::needs;
using weft::test::nvrtc;

namespace {

std::string nvrtc_and_no_device() {
  try {
    runtime::cuda::use(Device::cuda());
    return "there is a device";
  } catch (const Error&) {
    return nvrtc();
  }
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::shared_ptr<const runtime::Preparable> any_step(const std::string& name, runtime::FieldReader& from) {
  auto step = runtime::read_step(name, from);
  return step ? step : runtime::cuda::read_step(name, from);
}

Tensor pointwise(const Tensor& x, const Tensor& y) { return tanh(x) * y + 0.5; }
Tensor normalized(const Tensor& x) { return softmax(x * 2, -1); }
Tensor forward(const Mlp& model, const Tensor& x) { return softmax(model(x), -1); }
Tensor train_step(Mlp& model, optim::Adam& opt, const Tensor& x, const Tensor& y) {
  auto [loss, grads] = value_and_grad([&](const Mlp& m) { return nn::cross_entropy(m(x), y); }, model);
  opt.update(model, grads);
  return loss;
}
Tensor looked_up(const Tensor& table, const Tensor& index) {
  return grad([&](const Tensor& table) { return sum(square(gather(table, index))); }, table);
}
Tensor attended(const Tensor& query, const Tensor& keys, const Tensor& mask) {
  return nn::scaled_dot_product_attention(query, keys, keys, {.attn_mask = mask, .enable_gqa = true});
}
Tensor few_rows(const Tensor& x, const Tensor& weights) { return matmul(x, transpose(weights)); }
Tensor few_rows_gated(const Tensor& x, const Tensor& gate, const Tensor& up) {
  return silu(few_rows(x, gate)) * few_rows(x, up);
}
std::vector<Tensor> few_rows_of_three(const Tensor& x, const std::vector<Tensor>& weights) {
  return {few_rows(x, weights[0]), few_rows(x, weights[1]), few_rows(x, weights[2])};
}
std::pair<Tensor, Tensor> sorted(const Tensor& x) {
  const Tensor order = argsort(x, -1);
  return {order, gather(x, 1, order)};
}
// As an optimizer has a number for each parameter.
std::vector<Tensor> scaled(const std::vector<Tensor>& x, const Tensor& numbers) {
  std::vector<Tensor> all;
  for (std::size_t i = 0; i < x.size(); ++i) all.push_back(x[i] * numbers[static_cast<std::int64_t>(i) + 1]);
  return all;
}
Tensor scanned(const Tensor& x) {
  return scan([](const Tensor& h, const Tensor& row) { return tanh(h * 0.5 + row); }, x[0], x);
}

const EntryOptions for_two{.devices = {"sm_90a", "compute_80"}};

// Written again as it was read, by who knows the steps and by who does not.
void hold_fields(const std::string& path) {
  const std::string bytes = read(path);
  for (const runtime::StepReader& reader : {runtime::StepReader(any_step), runtime::StepReader([](auto&, auto&) {
                                              return std::shared_ptr<const runtime::Preparable>();
                                            })}) {
    const runtime::PackageFile file = runtime::parse_package(bytes, reader);
    std::string refusal;
    CHECK(runtime::write_package(file, refusal) == bytes);
    CHECK(refusal == "");
  }
}

std::vector<std::string> steps_of(const std::string& path) {
  std::vector<std::string> names;
  const runtime::PackageFile file = runtime::parse_package(read(path), any_step);
  for (const runtime::Launch& launch : file.entries.at(0).specializations.at(0).plan.launches)
    names.push_back(launch.step->stored_as());
  return names;
}
bool has_step(const std::string& path, const std::string& name) {
  const std::vector<std::string> names = steps_of(path);
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

TEST_CASE("kernels that differ in an element that all points read are one function" * needs(nvrtc)) {
  const Folder folder;
  const std::string path = folder.file("f.weft");
  package(path, {"f", {.devices = {"sm_90"}}}, compile(scaled), std::vector{ones({33}), ones({70}), ones({9})},
          ones({4}));
  const runtime::PackageFile file = runtime::parse_package(read(path), any_step);
  const runtime::Plan& plan = file.entries.at(0).specializations.at(0).plan;
  CHECK(plan.launches.size() == 3);
  runtime::FieldReader from(file.libraries.at(0).bytes);
  CHECK(from.take<runtime::cuda::CodeImages>().functions.size() == 1);
}

TEST_CASE("a package for devices holds code and PTX of each function, and a plan of cuda:0" * needs(nvrtc)) {
  const Folder folder;
  const std::string path = folder.file("f.weft");
  package(path, {"f", for_two}, compile(pointwise), ones({33, 7}), ones({33, 7}));
  const runtime::PackageFile file = runtime::parse_package(read(path), any_step);
  REQUIRE(file.entries.at(0).specializations.size() == 2);
  REQUIRE(file.libraries.size() == 2);
  for (const runtime::PackageSpecialization& each : file.entries[0].specializations) {
    CHECK(each.plan.device == Device::cuda());
    for (const runtime::PackageLeaf& leaf : each.arguments) CHECK(leaf.device == Device::cuda());
    for (const runtime::PackageOutput& output : each.outputs) CHECK(output.device == Device::cuda());
    runtime::FieldReader from(file.libraries.at(each.library).bytes);
    const auto code = from.take<runtime::cuda::CodeImages>();
    CHECK(from.at_end());
    REQUIRE(code.images.size() == 1);
    REQUIRE(code.functions.size() == 1);
    CHECK(has(code.images[0], code.functions[0]));
    CHECK(code.functions[0] == each.plan.launches.at(0).entry.name);
    if (each.isa == "sm_90a")
      CHECK(code.images[0].starts_with("\177ELF"));
    else
      CHECK((each.isa == "compute_80" && has(code.images[0], ".target sm_80")));
  }
  hold_fields(path);
  const std::string text = describe_package(path);
  CHECK_MESSAGE(has(text, "for compute_80, sm_90a of CUDA"), text);
  CHECK_MESSAGE(has(text, "argument 0: f32[33,7] on cuda:0"), text);
}

TEST_CASE("steps of a device are written and read back" * needs(nvrtc)) {
  const Folder folder;
  const EntryOptions one{.devices = {"sm_80"}};
  Mlp mlp;
  optim::Adam adam(mlp, {.lr = 1e-2});
  const Tensor x = normal({5, 6}), y = from_list<std::int64_t>({0, 2, 1, 1, 0});
  const auto hold = [&](const char* step, const auto& f, auto&... arguments) {
    CAPTURE(std::string(step));
    const std::string path = folder.file("step.weft");
    package(path, {"f", one}, f, arguments...);
    hold_fields(path);
    CHECK(has_step(path, step));
  };
  const Tensor rows = normal({4, 3}), table = normal({40, 8}), index = from_list<std::int64_t>({3, 0, 3, 1});
  hold("kernel", compile(normalized), rows);
  hold("cublaslt_matmul", compile(forward), mlp, x);
  hold("cublaslt_matmul", compile(forward, {.dynamic = true}), mlp, x);
  hold("check", compile(train_step), mlp, adam, x, y);
  hold("argsort", compile(sorted), rows);
  hold("loop", compile(scanned), rows);
  const Tensor query = cast(normal({2, 4, 1, 64}), DType::bf16), keys = cast(normal({2, 2, 100, 64}), DType::bf16),
               mask = normal({1, 100});
  hold("split_attention", compile(attended), query, keys, mask);
  const Tensor few = cast(ones({5, 2048}), DType::bf16), weights = cast(ones({2056, 2048}), DType::bf16),
               more = cast(ones({17, 2048}), DType::bf16);
  hold("few_rows_product", compile(few_rows), few, weights);
  hold("cublaslt_matmul", compile(few_rows), more, weights);  // too many rows
  hold("few_rows_product", compile(few_rows_gated), few, weights, weights);
  CHECK(steps_of(folder.file("step.weft")) == std::vector<std::string>{"few_rows_product"});
  const std::vector<Tensor> three = {weights, (weights * 2).eval(), (weights * 3).eval()};
  hold("few_rows_product", compile(few_rows_of_three), few, three);
  CHECK(steps_of(folder.file("step.weft")) == std::vector<std::string>{"few_rows_product"});
  const std::string path = folder.file("rows.weft");
  package(path, {"f", one}, compile(looked_up), table, index);
  hold_fields(path);
}

TEST_CASE("explain_for: what runs on a device that is not there" * needs(nvrtc)) {
  const auto spec = [](SpecSize rows) { return tensor_spec({rows, 2048}, DType::bf16, Device::cuda()); };
  const auto gated = compile(few_rows_gated);
  const Explanation found = explain_for("sm_90a", gated, spec(5), spec(2056), spec(2056));
  CHECK_MESSAGE(has(found.schedule, "gated"), found.schedule);
  CHECK(found.fallback == "");
  CHECK(specialization_count(gated) == 0);
  // Tensors of the host lie on the device; a generic function, and what is bound.
  Mlp mlp;
  const Explanation of_host = explain_for("sm_80", compile(forward, bind(mlp)), normal({5, 6}));
  REQUIRE(!of_host.kernels.empty());
  CHECK(has(of_host.kernels[0].source, "__global__"));
  const auto generic = compile([](const auto& x) { return exp(x) * 2; });
  CHECK(has(explain_for("compute_80", generic, spec(3)).kernels.at(0).source, "__global__"));
  CHECK(has(message_of([&] { explain_for("sm_1", generic, spec(3)); }),
            "[explain_for] there is no target \"sm_1\": there are sm_80, "));
}

TEST_CASE("explain of arguments on a device that is not there says what does it" * needs(nvrtc_and_no_device)) {
  const auto f = compile([](const Tensor& x) { return exp(x) * 2; });
  const std::string text = message_of([&] { explain(f, tensor_spec({4, 8}, DType::f32, Device::cuda())); });
  CHECK_MESSAGE(has(text, "explain_for"), text);
}

TEST_CASE("weights go into a package for devices" * needs(nvrtc)) {
  const Folder folder;
  const std::string path = folder.file("f.weft");
  Mlp mlp;
  package(path, {"forward", {.weights = true, .devices = {"sm_80"}}}, compile(forward, bind(mlp)), normal({5, 6}));
  const runtime::PackageFile file = runtime::parse_package(read(path), any_step);
  CHECK(file.weights.size() == 4);
  CHECK(file.entries.at(0).specializations.at(0).arguments.size() == 1);
}

TEST_CASE("a package for the CPU and for devices runs where there is no device" * needs(nvrtc)) {
  const Folder folder;
  const std::string path = folder.file("f.weft");
  const Tensor x = normal({5, 6});
  const std::string isa(name(InstructionSet(host_isa())));
  package(path, {"f", {.isa = {isa}, .devices = {"sm_80"}}}, compile(normalized), x);
  const auto f = load_package(path).function<Tensor(const Tensor&)>("f");
  CHECK(bits_of(f(x)) == bits_of(compile(normalized)(x)));
}

TEST_CASE("a package for devices alone is refused in a sentence where there is none" * needs(nvrtc_and_no_device)) {
  const Folder folder;
  const std::string path = folder.file("f.weft");
  package(path, {"f", for_two}, compile(normalized), ones({2, 3}));
  const std::string text = message_of([&] { load_package(path); });
  CHECK_MESSAGE(has(text, "was made for compute_80, sm_90a of CUDA, this machine has "), text);
  CHECK_MESSAGE(has(text, "no device of CUDA"), text);
  // As weft_run does, which runs none.
  runtime::PackageFile file = runtime::parse_package(read(path), runtime::read_step);
  try {
    prepare(file);
    FAIL("it was made ready");
  } catch (const runtime::PackageRefusal& refusal) {
    CHECK_MESSAGE(has(refusal.why, "this program runs packages on the CPU alone"), refusal.why);
  }
}

TEST_CASE("what can't be packaged for a device is refused by its name" * needs(nvrtc)) {
  const Folder folder;
  const std::string path = folder.file("f.weft");
  const auto says = [&](const char* device, const auto& f, const Tensor& x, const char* part) {
    const std::string text = message_of([&] { package(path, {"f", {.devices = {device}}}, compile(f), x); });
    CHECK_MESSAGE(has(text, part), text);
    CHECK_FALSE(std::filesystem::exists(path));
  };
  says("sm_70", normalized, ones({2, 3}), "can't be made for the device \"sm_70\": there are sm_80, ");
  says(
      "sm_80", [](const Tensor& x) { return linalg::qr(x).q; }, ones({4, 3}),
      "can't be packaged: the step factorization (");
  says(
      "sm_80", [](const Tensor& x) { return fft::rfft(x).real; }, ones({4, 8}), "for a device");
  says(
      "sm_80",
      [](const Tensor& x) {
        return x + constant({1.0F, 2.0F, 3.0F});
      },
      ones({2, 3}), "different devices");
  const auto read_value = [](const Tensor& x) { return sum(x).item() > 0 ? x : -x; };
  says("sm_80", read_value, ones({2, 3}), "item");
}

TEST_CASE("forged packages for a device are refused when they are read" * needs(nvrtc)) {
  const Folder folder;
  const std::string path = folder.file("f.weft");
  const auto numbered = [](const Tensor& x, const Scalar& scale) { return tanh(softmax(x, -1) * scale) + sum(x); };
  package(path, {"f", {.devices = {"sm_80"}}}, compile(numbered), normal({4, 3}), Scalar(2.0));
  const std::string whole = read(path);
  int number = 0;
  const auto refused = [&](const std::function<void(runtime::PackageSpecialization&)>& change) {
    CAPTURE(++number);  // of the change, in the order in which they are here
    runtime::PackageFile file = runtime::parse_package(whole, any_step);
    change(file.entries.at(0).specializations.at(0));
    std::string refusal;
    const std::string bytes = runtime::write_package(file, refusal);
    CHECK(refusal == "");
    try {
      runtime::parse_package(bytes, any_step);
      FAIL_CHECK("it was read");
    } catch (const runtime::PackageRefusal& why) {
      CHECK(has(why.why, "damaged"));
    }
  };
  using Made = runtime::PackageSpecialization;
  using Kind = runtime::PlanBuffer::Kind;
  const auto buffer = [](Made& made, Kind kind, bool host) -> runtime::PlanBuffer& {
    return *std::ranges::find_if(
        made.plan.buffers, [&](const runtime::PlanBuffer& each) { return each.kind == kind && each.host == host; });
  };
  refused([](Made& made) { made.isa = "sm_70"; });
  refused([](Made& made) { made.isa = "avx2"; });
  refused([](Made& made) { made.plan.device.index = 1; });
  refused([](Made& made) { made.plan.device = Device::cpu(); });
  refused([](Made& made) { made.arguments.at(0).device = Device::cpu(); });
  refused([](Made& made) { made.arguments.at(0).device = Device::cuda(1); });
  refused([](Made& made) { made.outputs.at(0).device = Device::cpu(); });
  refused([](Made& made) { made.outputs.at(0).device = Device::cuda(3); });
  refused([&](Made& made) { buffer(made, Kind::argument, false).host = true; });
  refused([&](Made& made) { buffer(made, Kind::argument, true).host = false; });
  refused([&](Made& made) { buffer(made, Kind::result, false).host = true; });
  refused([&](Made& made) { buffer(made, Kind::argument, false).elements = 1000; });
  refused([&](Made& made) { buffer(made, Kind::result, false).elements = 1; });
  refused([](Made& made) { made.plan.launches.at(0).entry.name = "another"; });
  refused([](Made& made) { made.plan.launches.at(0).entry.units = 1000; });
  refused([](Made& made) { made.plan.launches.at(0).entry.threads = 1 << 20; });
  refused([](Made& made) { made.plan.launches.at(0).entry.shared = -1; });
  refused([](Made& made) { made.plan.launches.at(0).buffers.pop_back(); });
  refused([](Made& made) {  // another of the plan's, since the writer looks it up
    int& first = made.plan.launches.at(0).buffers.at(0);
    first = (first + 1) % static_cast<int>(made.plan.buffers.size());
  });
  refused([](Made& made) {
    auto kernel = dynamic_cast<const runtime::cuda::StoredKernel&>(*made.plan.launches.at(0).step);
    kernel.what.parameters.at(0).push_back(7);
    made.plan.launches.at(0).step = std::make_shared<runtime::cuda::StoredKernel>(kernel);
  });
}

TEST_CASE("damage of a package for a device is a sentence" * needs(nvrtc)) {
  const Folder folder;
  const std::string path = folder.file("f.weft");
  package(path, {"f", {.devices = {"sm_80"}}}, compile(scanned), normal({4, 3}));
  const std::string whole = read(path);
  const PlansPart plans = plans_of(whole);
  std::mt19937 random(7);
  int refused = 0;
  for (int i = 0; i < 400; ++i) {
    std::string other = whole;
    other[plans.offset + random() % plans.size] = static_cast<char>(random());
    try {
      runtime::parse_package(sealed(other), any_step);
    } catch (const runtime::PackageRefusal&) {
      ++refused;
    }
  }
  CHECK(refused > 100);
}
