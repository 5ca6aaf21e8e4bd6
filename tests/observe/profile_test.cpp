// profile(f, args...): each step with its time, and what it did.
#include "weft/profile.hpp"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/host_memory.hpp"
#include "base/options.hpp"
#include "base/storage.hpp"
#include "eager/device.hpp"
#include "observe/step_times.hpp"
#include "pipeline.hpp"
#include "schedule/provider.hpp"
#include "tests/ir/support.hpp"
#include "tests/runtime/support.hpp"
#include "tests/trace/support.hpp"
#include "weft/linalg.hpp"
#include "weft/loops.hpp"
#include "weft/random.hpp"

using namespace weft;
using namespace trace_test;

namespace {

Tensor random(Sizes sizes) {
  Generator generator(1);
  return normal(sizes, 0, 1, generator);
}
const Profile::Step* find(const Profile& profile, const std::string& name) {
  for (const Profile::Step& step : profile.steps)
    if (contains(step.name, name)) return &step;
  return nullptr;
}

}  // namespace

TEST_CASE("every step with its time, its work and the user's line") {
  const int line = __LINE__ + 1;
  auto f = compile([](const Tensor& x, const Tensor& w) { return sum(exp(matmul(x, w)), 1); });
  const Tensor x = random({256, 128}), w = random({128, 512});
  const Profile profile = weft::profile(f, x, w);
  REQUIRE(profile.steps.size() >= 2);
  CHECK(profile.calls >= 3);
  CHECK(profile.compilations == 0);
  CHECK(specialization_count(f) == 1);
  CHECK(profile.machine_bandwidth > 1e8);
  CHECK(profile.seconds > 0);
  double sum = 0;
  for (const Profile::Step& step : profile.steps) {
    CHECK(step.seconds > 0);
    CHECK(step.runs == 1);
    CHECK(contains(step.function, "profile_test.cpp:" + std::to_string(line)));
    REQUIRE_FALSE(step.computes.empty());
    CHECK(contains(step.computes[0], "profile_test.cpp:" + std::to_string(line)));
    sum += step.seconds;
  }
  CHECK(sum == doctest::Approx(profile.seconds_in_steps).epsilon(0.5));
  const Profile::Step* product = find(profile, "matmul");
  REQUIRE(product);
  CHECK(product->operations == 2 * 256 * 128 * 512);
  CHECK(product->bytes == 4 * (256 * 128 + 128 * 512 + 256 * 512));
  CHECK(product->rate == doctest::Approx(static_cast<double>(product->operations) / product->seconds));
  CHECK(product->of_peak > 0);
  CHECK(std::ranges::is_sorted(profile.steps, std::greater{}, &Profile::Step::seconds));
  const std::string text = to_string(profile);
  CHECK(contains(text, "of bandwidth"));
  CHECK(contains(text, "matmul"));
  CHECK(contains(text, "profile_test.cpp:" + std::to_string(line)));
}

TEST_CASE("calls are real: state moves on, and what a call compiles at its first two calls is not measured") {
  struct Model {
    Param weight;
    int calls = 0;
  };
  auto step = compile([](Model& m, const Tensor& x) {
    m.weight = m.weight * 0.5f + x;
    return sum(m.weight.tensor());
  });
  Model model{full({4}, 1024.0f)};
  const Profile profile = weft::profile(step, model, zeros({4}));
  CHECK(profile.compilations == 0);
  CHECK(numbers_of(model.weight)[0] < 100);
  CHECK(profile.steps.size() == 1);
}

TEST_CASE("a function that calls compiled ones; calls that compile each time say so") {
  auto f = compile([](const Tensor& x) { return exp(x); });
  auto g = compile([](const Tensor& x) { return sum(x * x); });
  const Profile both = profile([&](const Tensor& x) { return g(f(x)); }, random({1000}));
  CHECK(both.steps.size() == 2);
  CHECK(both.steps[0].function != both.steps[1].function);

  auto always = compile([](const Tensor& x, double factor) { return x * factor; }, {.recompile_limit = 1000});
  double factor = 1;
  const Profile again = profile([&](const Tensor& x) { return always(x, factor += 1); }, random({10}));
  CHECK(again.compilations >= 6);
  CHECK(contains(to_string(again), "compiled " + std::to_string(again.compilations) + " times"));

  const Profile none = profile([](const Tensor& x) { return exp(x); }, random({10}));
  CHECK(none.steps.empty());
  CHECK(contains(to_string(none), "no compiled function ran"));
}

TEST_CASE("the steps of a loop's body, and the loop without them") {
  auto f = compile([](const Tensor& x, const Tensor& w) {
    return scan([&](const Tensor& h, const Tensor& row) { return std::pair(tanh(matmul(h, w) + row), sum(h)); },
                zeros({8, 64}), x);
  });
  const Profile profile = weft::profile(f, random({20, 8, 64}), random({64, 64}));
  const Profile::Step* product = find(profile, "matmul");
  REQUIRE(product);
  CHECK(product->runs == 20);
  CHECK(product->operations == 20 * 2 * 8 * 64 * 64);
  CHECK(product->loop == "scan");
  const Profile::Step* loop = find(profile, "scan");
  REQUIRE(loop);
  CHECK(loop->runs == 1);
  CHECK(loop->bytes == 0);
}

TEST_CASE("without memory to measure the machine the rest is there") {
  const auto f = compile([](const Tensor& x) { return matmul(x, x); });
  const Tensor x = cast(random({32, 32}), DType::f64);
  f(x).eval();
  const test::KeepOptions keep;
  options().memory_limit = std::uint64_t{1} << 40;
  CHECK_THROWS_AS(allocate(Device::cpu(), std::size_t{1} << 41), OutOfMemory);  // free lists are given back
  options().memory_limit = host_memory_held() + (std::uint64_t{2} << 20);       // a matrix that is measured has 4.5 MiB
  const Profile profile = weft::profile(f, x);
  REQUIRE(profile.steps.size() == 1);
  CHECK(profile.steps[0].seconds > 0);
  CHECK(profile.steps[0].rate > 0);
  CHECK(profile.steps[0].of_peak == 0);
}

TEST_CASE("what a call throws, profile() throws, and the next one works") {
  auto f = compile([](const Tensor& x, const Tensor& row) { return gather(x, 0, row); });
  const Tensor x = random({4});
  CHECK_THROWS_AS(weft::profile(f, x, from_list<std::int64_t>({9})), Error);
  CHECK(profile(f, x, from_list<std::int64_t>({3})).steps.size() >= 1);
  CHECK(contains(message_of([&] { profile([&] { return profile(f, x, from_list<std::int64_t>({1})); }); }),
                 "inside of what another profile() measures"));
}

TEST_CASE("the Chrome trace has every run of every step") {
  auto f = compile([](const Tensor& x) { return sum(exp(x), 0); });
  const Profile profile = weft::profile(f, random({64, 64}));
  const std::string path = (std::filesystem::temp_directory_path() / "weft_profile_test.json").string();
  profile.chrome_trace(path);
  std::ifstream in(path);
  const nlohmann::json trace = nlohmann::json::parse(in);
  std::filesystem::remove(path);
  const double runs = std::accumulate(profile.steps.begin(), profile.steps.end(), 0.0,
                                      [](double sum, const Profile::Step& step) { return sum + step.runs; });
  double microseconds = 0, seconds = 0;
  for (const Profile::Event& event : profile.events) seconds += event.seconds;
  REQUIRE(static_cast<double>(trace.at("traceEvents").size()) == runs * static_cast<double>(profile.calls));
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    CHECK(event.at("ph") == "X");
    CHECK(event.at("dur") > 0);
    microseconds += event.at("dur").get<double>();
    CHECK(contains(event.at("args").at("computes").dump(), "profile_test.cpp"));
  }
  CHECK(microseconds == doctest::Approx(seconds * 1e6));
  CHECK(contains(message_of([&] { profile.chrome_trace("/nonexistent/step.json"); }),
                 "the trace can't be written to /nonexistent/step.json"));
}

TEST_CASE("runs are in the order of their begin: a loop before the steps in its body") {
  auto f = compile([](const Tensor& x) {
    return scan([](const Tensor& h, const Tensor& row) { return std::pair(matmul(h, h) + row, sum(h)); },
                zeros({16, 16}), x);
  });
  const Profile profile = weft::profile(f, random({20, 16, 16}));
  REQUIRE(profile.events.size() > 20);
  CHECK(std::ranges::is_sorted(profile.events, {}, &Profile::Event::begin));
}

// A device runs eager operations by plans too; the host can be asked to.
TEST_CASE("what runs eagerly is not seen, also where it runs by a plan") {
  const auto f = compile([](const Tensor& x) { return sum(x * x); });
  const Tensor x = random({100});
  const auto eagerly = [&] {
    const eager::Value operand = eager::make_value(type_of(x));
    std::memset(operand.data(), 0, 400);
    eager::execute_on_device(Op::exp, {}, type_of(x), std::span(&operand, 1), {});
  };
  const Profile profile = weft::profile([&] {
    eagerly();
    return f(x);
  });
  REQUIRE(profile.steps.size() == 1);
  CHECK(contains(profile.steps[0].function, "profile_test.cpp"));
  CHECK(weft::profile(eagerly).steps.empty());
  detail::StepTimes times;  // a whole call ends when the devices that it gave work to have done it
  {
    const runtime::Watching watching(&times);
    eagerly();
  }
  CHECK(times.calls.empty());
  CHECK(times.devices == std::vector{Device::cpu()});
}

TEST_CASE("the steps of a plan are not those of another that ran before it, and a plan is held once") {
  using detail::StepTimes;
  const auto plan_of = [](auto make) {
    graph_test::Recording r;
    const Tensor x = r.input(DType::f32, Shape::of(16, 16));
    return compile_graph(r.graph({make(x)}), {});
  };
  const auto other = plan_of([](const Tensor& x) { return exp(x); });
  const auto one = plan_of([](const Tensor& x) { return exp(matmul(x, x)); });
  REQUIRE(one->plan.launches.size() == 2);
  std::vector<float> in(256), out(256);
  void *const argument = in.data(), *const result = out.data();
  StepTimes times;
  const auto run = [&](const Executable& executable) {
    const runtime::Watching watching(&times);
    runtime::run(executable.plan, std::span(&argument, 1), std::span(&result, 1), {});
  };
  run(*other);
  CHECK(times.first_call_of(one->plan).empty());
  run(*one);
  CHECK(times.first_call_of(one->plan).size() == 2);
  CHECK(times.first_call_of(other->plan).size() == 1);
  const long before = one->plan.prepared.use_count();
  for (int i = 0; i < 100; ++i) run(*one);
  CHECK(one->plan.prepared.use_count() == before);
}

TEST_CASE("who does a step is what its payload says, and nothing that is read out of its text") {
  class Typed final : public Payload {
   public:
    std::string details() const override { return " of rows by hand"; }
    loop::Cost cost() const override { return {}; }
    std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation&) const override { return nullptr; }
  };
  runtime::Launch launch;
  launch.step = std::make_shared<Typed>();
  CHECK(work_of(launch, {}).by.empty());

  const auto f = compile([](const Tensor& x) { return std::pair(linalg::cholesky(x), argsort(sum(x, 0))); });
  const Tensor x = random({8, 8});
  const Profile profile = weft::profile(f, matmul(x, transpose(x, 0, 1)) + 8 * eye(8));
  REQUIRE(find(profile, "cholesky"));
  CHECK(find(profile, "cholesky")->by == "Eigen");
  CHECK_FALSE(find(profile, "cholesky")->generated);
  REQUIRE(find(profile, "argsort"));
  CHECK(find(profile, "argsort")->by.empty());
  CHECK_FALSE(find(profile, "argsort")->generated);
  CHECK(contains(to_string(profile), "cholesky by Eigen"));
}

TEST_CASE("profile() inside a compiled function is refused") {
  static const auto inner = compile([](const Tensor& x) { return x + 1; });
  const auto outer = compile([](const Tensor& x) {
    (void)profile(inner, x);
    return x;
  });
  CHECK_THROWS_WITH_AS(outer(ones({2})), doctest::Contains("[profile] profile() inside a compiled function"), Error);
}
