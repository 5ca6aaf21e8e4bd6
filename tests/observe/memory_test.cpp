// The memory that models of examples/models take, forward and in a training step: as much as was planned, and no more
// than eager execution takes.
#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "base/host_memory.hpp"
#include "base/options.hpp"
#include "base/storage.hpp"
#include "bench/model_cases.hpp"
#include "runtime/host/isa.hpp"
#include "tests/runtime/support.hpp"
#include "weft/memory.hpp"

using namespace weft;

namespace {

// A compiled call takes no more than an eager one, but for a hundredth: results of some KiB have memory from the first
// step on, and gaps between temporaries are not always as large as a library's workspace.
constexpr double most_of_eager = 1.01;
// Our own products keep packed panels of both operands for each thread, 2 MiB in the training step of gpt2, which takes
// 1.03 of eager's so. Where oneDNN does the products, there are none.
std::int64_t room_for_panels(const Explanation::Memory& planned) {
  return host_isa() == Isa::avx512 ? 0 : planned.workspace;
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
  CHECK(static_cast<double>(most) <=
        most_of_eager * static_cast<double>(most_eager) + static_cast<double>(room_for_panels(planned)));
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

namespace {

constexpr std::int64_t side = 256, bytes = side * side * 4;
// Two values of the result's size are in memory before it is written.
Tensor chain(const Tensor& x, const Tensor& w) { return matmul(tanh(matmul(tanh(matmul(x, w)), w)), w); }
Tensor square_of(unsigned seed) { return (bench::random_normal({side, side}, seed) * 0.1).eval(); }
bool same(const Tensor& a, const Tensor& b) { return all(a == b).item<bool>(); }

}  // namespace

TEST_CASE("early temporaries lie in the memory of a result that is written later, in every call") {
  const Tensor w = square_of(1), x = square_of(2), y = square_of(3);
  auto f = compile(chain);
  const Explanation::Memory planned = explain(f, x, w).memory;
  CHECK(planned.temporaries == bytes);
  CHECK(planned.results == bytes);
  const Tensor of_x = f(x, w), of_y = f(y, w);
  CHECK(amax(abs(of_x - chain(x, w))).item<float>() < 1e-4F);
  CHECK(amax(abs(of_y - chain(y, w))).item<float>() < 1e-4F);
  const Tensor kept = (of_x + 0).eval();
  f(y, w).eval();
  CHECK(same(of_x, kept));
  CHECK(same(f(x, w), kept));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (const auto& [argument, result] : {std::pair(&x, &of_x), std::pair(&y, &of_y)})
    threads.emplace_back([&, argument, result] {
      for (int i = 0; i < 20; ++i) wrong += !same(f(*argument, w), *result);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("an error after temporaries were written into a result leaves the state, and the next call is right") {
  auto f = compile([](Tensor& state, const Tensor& x, const Tensor& w, const Tensor& at) {
    state = state + 1;
    const Tensor y = chain(x, w);
    const Tensor row = gather(w, reshape(cast(sum(y) * 0 + at, DType::i64), {1}));
    return matmul(tanh(y), w) + row;
  });
  const Tensor w = square_of(1), x = square_of(2);
  Tensor state = zeros({}).eval();
  const Tensor three = full({}, 3.0F).eval(), beyond = full({}, 1000.0F).eval();
  const Tensor right = (matmul(tanh(chain(x, w)), w) + slice(w, 0, 3, 4)).eval();
  CHECK(explain(f, state, x, w, three).memory.temporaries < 2 * bytes);
  for (int i = 0; i < 2; ++i) {
    const Tensor kept = f(state, x, w, three);
    CHECK_THROWS_AS(f(state, x, w, beyond), Error);
    CHECK(state.item() == i + 1);
    CHECK(amax(abs(kept - right)).item<float>() < 1e-4F);
  }
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

TEST_CASE("a concatenation of a tensor with itself takes its result alone") {
  const Tensor x = exp(arange(1 << 18) * 1e-6).eval();
  MemoryMeter meter;
  const Tensor twice = concat({x, x}).eval();
  CHECK(meter.peak() == meter.in_use());
  CHECK(meter.peak() <= (2 << 20) + 4096);
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
  CHECK(said.find(" MiB beside its arguments (temporaries 4.00 MiB, results 1.00 MiB") != std::string::npos);
  CHECK(said.find("f32[512,2048], memory_test.cpp:" + std::to_string(line)) != std::string::npos);
  CHECK(state.item() == 0);
  CHECK(f(state, x).size(0) == 512);
  CHECK(state.item() == 1);
}
