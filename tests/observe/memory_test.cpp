// The memory that models of examples/models take, forward and in a training step: as much as was planned, and no more
// than eager execution takes, but for those that are listed.
#include <doctest/doctest.h>

#include <memory>

#include "base/host_memory.hpp"
#include "base/options.hpp"
#include "base/storage.hpp"
#include "bench/model_cases.hpp"
#include "tests/runtime/support.hpp"
#include "weft/memory.hpp"

using namespace weft;

namespace {

// Where a compiled call takes more than an eager one: at most so many times as much. Its results have memory from the
// start, and a library's products and convolutions have theirs beside it.
struct Above {
  const char* what;
  double most;
};
constexpr Above above[] = {{"resnet18, forward", 1.5}, {"gpt2, training", 1.15},   {"gpt2, forward", 1.35},
                           {"llama, forward", 1.35},   {"mixtral, training", 1.1}, {"mixtral, forward", 1.6},
                           {"bert, forward", 1.02},    {"vit, forward", 1.4},      {"whisper, forward", 1.75},
                           {"lstm, training", 1.25},   {"lstm, forward", 1.1}};
double most_of_eager(const std::string& what) {
  for (const Above& each : above)
    if (what == each.what) return each.most;
  return 1;
}

// The most that a call takes beside what was there before, once it has been made a few times.
template <class Call>
std::int64_t most_of(Call call) {
  MemoryMeter meter;
  for (int i = 0; i < 3; ++i) call();
  meter.reset_peak();
  call();
  return meter.peak();
}

// `make(backend)` compiles the function; `arguments` are in memory, but for what the first call makes of them.
template <class Make, class... A>
void check_memory(const char* name, const char* what, Make make, A&... argument) {
  const std::string about = std::string(name) + ", " + what;
  CAPTURE(about);
  const auto call = [&](auto& function) {
    function(argument...).eval();
    (bench::eval_all(argument), ...);
  };
  auto eager = make(Backend::eager);
  call(eager);
  const std::int64_t most_eager = most_of([&] { call(eager); });
  auto compiled = make(Backend::compiled);
  const std::int64_t most = most_of([&] { call(compiled); });
  const Explanation::Memory planned = explain(compiled, argument...).memory;
  const auto all = static_cast<double>(planned.taken + planned.constants);
  MESSAGE(about << ": planned " << all / 1048576 << " MiB, measured " << static_cast<double>(most) / 1048576
                << ", eager " << static_cast<double>(most_eager) / 1048576);
  CHECK(all >= 0.95 * static_cast<double>(most));
  CHECK(all <= 1.05 * static_cast<double>(most));
  CHECK(static_cast<double>(most) <= most_of_eager(about) * static_cast<double>(most_eager));
}

struct Checker {
  template <class M, class Outputs, class Loss>
  void operator()(const char* name, M (*make)(), const bench::Inputs& inputs, Outputs, Loss) {
    M model = make();
    bench::eval_all(model);
    bench::Inputs in = inputs;
    optim::AdamW optimizer(model, {.lr = 1e-4});
    const auto compiled = [](auto f) {
      return [f](Backend backend) { return compile(f, {.check = Check::never, .backend = backend}); };
    };
    check_memory(name, "training", compiled([](M& m, optim::AdamW& o, const bench::Inputs& in) {
                   auto [loss, gradients] = value_and_grad([&](M& m) { return Loss()(Outputs()(m, in), in); }, m);
                   o.update(m, gradients);
                   return loss;
                 }),
                 model, optimizer, in);
    nn::eval(model);
    check_memory(name, "forward", compiled([](M& m, const bench::Inputs& in) { return Outputs()(m, in); }), model, in);
  }
};

}  // namespace

TEST_CASE("models take the memory that was planned, and no more than eager execution") {
  Checker check;
  bench::each_model(check);
}

TEST_CASE("a meter counts what is in use since it was made, and the most; several count at once") {
  MemoryMeter whole;
  {
    const Tensor a = from_span(std::vector<float>(1000, 1), {1000});
    CHECK(whole.in_use() == 4000);
    MemoryMeter inner;
    {
      const Tensor b = tanh(a).eval();
      CHECK(inner.in_use() == 4000);
      CHECK(whole.in_use() == 8000);
    }
    CHECK(inner.in_use() == 0);
    CHECK(inner.peak() == 4000);
    inner.reset_peak();
    CHECK(inner.peak() == 0);
  }
  CHECK(whole.in_use() == 0);
  CHECK(whole.peak() == 8000);
}

TEST_CASE("a meter counts no block that was given before it, and says so where there are too many") {
  std::vector<std::unique_ptr<MemoryMeter>> meters;
  for (int i = 0; i < 16; ++i) meters.push_back(std::make_unique<MemoryMeter>());
  CHECK_THROWS_WITH_AS(MemoryMeter(), "[MemoryMeter] there are 16 already", Error);
  Tensor x = from_span(std::vector<float>(1000, 1), {1000});
  meters.pop_back();
  const MemoryMeter last;
  x = Tensor();
  CHECK(last.in_use() == -4000);
  CHECK(meters[0]->in_use() == 0);
}

TEST_CASE("a call that takes more than the limit says so before it starts: what it takes, and the values, with lines") {
  const int line = __LINE__ + 3;
  auto f = compile([](Tensor& state, const Tensor& x) {
    state = state + 1;
    return matmul(exp(x) * 0 + 2, transpose(x));
  });
  Tensor state = zeros({}).eval();
  const Tensor x = zeros({512, 2048}).eval();
  std::string said;
  {
    const test::KeepOptions keep;
    give_back_cached_memory();
    options().memory_limit = host_memory_held() + (std::uint64_t{2} << 20);
    try {
      f(state, x);
    } catch (const OutOfMemory& error) {
      said = error.what();
    }
  }
  CAPTURE(said);
  CHECK(said.find("(WEFT_MEMORY_LIMIT); the call at memory_test.cpp:") != std::string::npos);
  CHECK(said.find(" takes 5.00 MiB beside its arguments (temporaries 4.00 MiB, results 1.00 MiB") != std::string::npos);
  CHECK(said.find("f32[512,2048], memory_test.cpp:" + std::to_string(line)) != std::string::npos);
  CHECK(state.item() == 0);
  CHECK(f(state, x).size(0) == 512);
  CHECK(state.item() == 1);
}
