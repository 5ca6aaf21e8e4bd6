// Launch plans: every kind of step, memory, symbols, threads, and that a call that repeats allocates nothing.
#include "runtime/plan.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <numeric>
#include <thread>

#include "runtime/host/steps.hpp"
#include "runtime/loop.hpp"
#include "runtime/plan_number.hpp"
#include "tests/runtime/support.hpp"
#include "weft/error.hpp"

using namespace weft;
using namespace weft::runtime;

static std::atomic<long> allocations = 0;
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size ? size : 1)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return std::malloc(size); }
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

using Int = std::int64_t;

// A stand-in for a compiled kernel: y[i] = 2 x[i] + parameters[0], a unit is 16 elements of parameters[1].
void twice_plus(void* const* buffers, const Int* parameters, Int begin, Int end) {
  const float* x = static_cast<const float*>(buffers[0]);
  float* y = static_cast<float*>(buffers[1]);
  for (Int i = begin * 16; i < end * 16 && i < parameters[1]; ++i) y[i] = 2 * x[i] + static_cast<float>(parameters[0]);
}

PlanBuffer argument(int index, DType dtype = DType::f32) { return {PlanBuffer::Kind::argument, index, dtype, 0, 0}; }
PlanBuffer result(int index, DType dtype = DType::f32) { return {PlanBuffer::Kind::result, index, dtype, 0, 0}; }
PlanBuffer temporary(Dim offset, DType dtype = DType::f32) {
  return {PlanBuffer::Kind::temporary, 0, dtype, 0, offset};
}

// A step from a function that makes it ready.
template <class Make>
struct Made final : Preparable {
  explicit Made(Make given) : make(given) {}
  std::unique_ptr<Runnable> prepare(const Preparation& preparation) const override { return make(preparation); }
  Make make;
};
template <class Make>
Launch step(std::vector<int> buffers, Make make) {
  return {"step", std::move(buffers), {}, std::make_shared<Made<Make>>(make)};
}

Launch kernel(std::vector<int> buffers, Dim plus, Dim n, Dim work, KernelFunction function = twice_plus) {
  Launch launch = step(std::move(buffers), [=](const Preparation& preparation) -> std::unique_ptr<Runnable> {
    return std::make_unique<HostKernel>(function, preparation, work, std::vector<Dim>{plus, n});
  });
  launch.entry.units = (n + Dim(15)) / Dim(16);
  return launch;
}

// Two kernels in a row through a temporary: y = 2 (2 x + 1) + n.
Plan chain(Dim n, Dim work, KernelFunction function = twice_plus) {
  Plan plan;
  plan.argument_count = plan.result_count = 1;
  plan.symbol_count = n.is_constant() ? 0 : 1;
  plan.buffers = {argument(0), temporary(64), result(0)};
  plan.launches = {kernel({0, 1}, 1, n, work, function), kernel({1, 2}, n, n, work, function)};
  plan.arena_bytes = n * Dim(4) + Dim(64);
  prepare(plan);
  return plan;
}

void check_chain(const Plan& plan, Int n, std::vector<Int> symbols) {
  std::vector<float> x(static_cast<std::size_t>(n)), y(static_cast<std::size_t>(n), -1);
  std::iota(x.begin(), x.end(), 0.0F);
  void* const arguments[] = {x.data()};
  void* const results[] = {y.data()};
  run(plan, arguments, results, symbols);
  Int wrong = 0;
  for (Int i = 0; i < n; ++i) wrong += y[static_cast<std::size_t>(i)] != static_cast<float>(2 * (2 * i + 1) + n);
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("kernels, temporaries and slots, on one thread and on several") {
  const test::KeepOptions keep;
  for (const int threads : {1, 2, 3, 7}) {
    options().num_threads = threads;
    for (const Int n : {Int{0}, Int{1}, Int{100}, Int{100000}})
      for (const Int work : {Int{0}, Int{1000}, Int{1000000}}) check_chain(chain(n, work), n, {});
  }
}

TEST_CASE("what is small runs on one thread in one piece, what is large in several") {
  static std::atomic<int> pieces;
  const auto counted = [](void* const* buffers, const Int* parameters, Int begin, Int end) {
    ++pieces;
    twice_plus(buffers, parameters, begin, end);
  };
  const test::KeepOptions keep;
  options().num_threads = 4;
  for (const Int work : {Int{0}, Int{1000000}}) {
    const Plan plan = chain(100000, work, counted);
    pieces = 0;
    check_chain(plan, 100000, {});
    CAPTURE(work);
    if (work == 0)
      CHECK(pieces.load() == 2);  // one a kernel
    else
      CHECK(pieces.load() > 4);
  }
}

TEST_CASE("one plan serves sizes that grow and shrink") {
  const Dim n = dims::symbol(0, 1);
  const Plan plan = chain(n, n * Dim(100));
  for (const Int size : {Int{10}, Int{1000}, Int{1000}, Int{3}, Int{50000}, Int{10}}) check_chain(plan, size, {size});
}

TEST_CASE("a call that repeats, or changes sizes, allocates nothing") {
  const Dim n = dims::symbol(0, 1);
  const Plan plan = chain(n, 0);
  std::vector<float> x(100), y(100);
  void* const arguments[] = {x.data()};
  void* const results[] = {y.data()};
  for (const Int size : {Int{100}, Int{50}}) run(plan, arguments, results, std::vector<Int>{size});
  const Int sizes[] = {100, 50};
  const long start = allocations;
  for (int call = 0; call < 10; ++call) run(plan, arguments, results, std::span(sizes + call % 2, 1));
  CHECK(allocations == start);
}

TEST_CASE("with a queue, what a call touches knows the queue and the number of its last use there") {
  const Plan plan = chain(100, 0);
  const auto block = [] { return std::unique_ptr<Storage, void (*)(Storage*)>(allocate({}, 400), release); };
  const auto x = block(), y = block(), z = block();
  std::fill_n(static_cast<float*>(x->data), 100, 1.0F);
  const auto call = [&](Storage* from, Storage* to, Queue* queue) {
    Storage* const blocks[] = {from, to};
    void *const arguments[] = {from->data}, *const results[] = {to->data};
    run(plan, arguments, results, {}, queue, blocks);
  };
  Queue queue, other;
  call(x.get(), y.get(), nullptr);
  CHECK(x->queue.load() == nullptr);
  CHECK(x->last_use.load() == 0);
  call(x.get(), y.get(), &queue);
  CHECK(x->queue.load() == &queue);
  CHECK(y->queue.load() == &queue);
  CHECK(x->last_use.load() == 1);
  CHECK(y->last_use.load() == 1);
  call(x.get(), z.get(), &queue);
  CHECK(x->last_use.load() == 2);
  CHECK(y->last_use.load() == 1);
  CHECK(z->last_use.load() == 2);
  CHECK(queue.latest.load() == 2);
  call(x.get(), z.get(), &other);
  CHECK(x->queue.load() == &other);
  CHECK(x->last_use.load() == 1);
  Queue elsewhere;
  elsewhere.device = Device::cuda();
  CHECK_THROWS_AS(call(x.get(), y.get(), &elsewhere), InternalError);
}

TEST_CASE("calls at once have arenas of their own") {
  const Plan plan = chain(5000, 0);
  std::vector<std::thread> threads;
  std::atomic<Int> wrong = 0;
  for (int t = 0; t < 12; ++t)
    threads.emplace_back([&, t] {
      std::vector<float> x(5000, static_cast<float>(t)), y(5000);
      void* const arguments[] = {x.data()};
      void* const results[] = {y.data()};
      for (int call = 0; call < 50; ++call) {
        run(plan, arguments, results, {});
        for (const float value : y) wrong += value != static_cast<float>(2 * (2 * t + 1) + 5000);
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE(
    "temporaries and workspaces lie in a result until it is written; else a workspace lies past the temporaries") {
  struct Notes {
    std::vector<std::pair<void*, std::size_t>> workspaces;
    std::vector<void*> temporaries;
  };
  static Notes notes;
  struct Wanting final : Runnable {
    explicit Wanting(std::size_t wanted) : bytes(wanted) {}
    bool has_workspace() const override { return bytes > 0; }
    std::size_t workspace(std::span<const Int>) const override { return bytes; }
    void run(const StepCall& call) const override {
      notes.workspaces.emplace_back(call.workspace.data(), call.workspace.size());
      notes.temporaries.push_back(call.pointers[0]);
    }
    std::size_t bytes;
  };
  const auto wanting = [](std::vector<int> buffers, std::size_t bytes) {
    return step(std::move(buffers),
                [bytes](const Preparation&) -> std::unique_ptr<Runnable> { return std::make_unique<Wanting>(bytes); });
  };
  Plan plan;
  plan.argument_count = 1;
  plan.result_count = 2;
  plan.buffers = {{PlanBuffer::Kind::argument, 0, DType::f32, 1024},
                  {PlanBuffer::Kind::temporary, 0, DType::f32, 1024, 0},
                  {PlanBuffer::Kind::temporary, 0, DType::f32, 1024, 64},
                  {PlanBuffer::Kind::result, 0, DType::f32, 4096},
                  {PlanBuffer::Kind::result, 1, DType::f32, 4096}};
  plan.buffers[2].in_result = 0;
  plan.donations = {{0, 1}};  // the second result may be the argument: nothing lies there
  plan.launches = {wanting({1, 0}, 0), wanting({2, 1}, 8192), wanting({2, 1, 3}, 4096), wanting({1, 4}, 64)};
  plan.arena_bytes = 4096;
  prepare(plan);
  CHECK(workspace_bytes(plan, {}) == 4096);
  std::vector<std::byte> argument(4096), first(16384), second(16384), other(16384);
  for (std::vector<std::byte>* const result : {&first, &other, &first}) {
    notes = {};
    void* const arguments[] = {argument.data()};
    void* const results[] = {result->data(), second.data()};
    run(plan, arguments, results, {});
    const auto* const arena = static_cast<std::byte*>(notes.temporaries[0]);
    CHECK(notes.workspaces[0].second == 0);
    CHECK(notes.temporaries[1] == result->data() + 64);
    CHECK(notes.workspaces[1] == std::pair<void*, std::size_t>(result->data() + 4160, 8192));
    CHECK(notes.workspaces[2].first == arena + 4096);
    CHECK(notes.workspaces[2].second == 4096);
    CHECK(notes.workspaces[3].first == arena + 4096);
  }
}

TEST_CASE(
    "a workspace in the body of a loop lies where no temporary is, in every iteration, and nothing is allocated") {
  static std::vector<std::pair<void*, std::size_t>> workspaces;
  static std::vector<void*> temporaries;
  struct Wanting final : Runnable {
    explicit Wanting(std::size_t wanted) : bytes(wanted) {}
    bool has_workspace() const override { return bytes > 0; }
    std::size_t workspace(std::span<const Int>) const override { return bytes; }
    void run(const StepCall& call) const override {
      workspaces.emplace_back(call.workspace.data(), call.workspace.size());
      temporaries.push_back(call.pointers[0]);
    }
    std::size_t bytes;
  };
  const auto wanting = [](std::vector<int> buffers, std::size_t bytes) {
    return step(std::move(buffers),
                [bytes](const Preparation&) -> std::unique_ptr<Runnable> { return std::make_unique<Wanting>(bytes); });
  };
  constexpr std::size_t block = 65536;
  Plan body;
  body.argument_count = body.result_count = 1;
  body.buffers = {{PlanBuffer::Kind::argument, 0, DType::f32, block / 4},
                  {PlanBuffer::Kind::temporary, 0, DType::f32, block / 4, 0},
                  {PlanBuffer::Kind::temporary, 0, DType::f32, block / 4, block},
                  {PlanBuffer::Kind::result, 0, DType::f32, block / 4}};
  body.launches = {wanting({1, 0}, block / 2), wanting({2, 1}, 0), wanting({2, 3}, block)};
  body.arena_bytes = 2 * block;
  LoopDescription loop;
  loop.operands = loop.results = {{0, block}};
  loop.carries = 1;
  loop.in_place = {true};
  loop.length = 3;
  Plan plan;
  plan.argument_count = plan.result_count = 1;
  plan.buffers = {{PlanBuffer::Kind::argument, 0, DType::f32, block / 4},
                  {PlanBuffer::Kind::result, 0, DType::f32, block / 4}};
  plan.launches = {step({0, 1}, [&](const Preparation& preparation) -> std::unique_ptr<Runnable> {
    return std::make_unique<ScanStep>(loop, std::span(&body, 1), preparation.numbers);
  })};
  prepare(plan);
  CHECK(workspace_bytes(plan, {}) >= 2 * block);
  CHECK(workspace_bytes(plan, {}) < 2 * block + 1024);  // and the tables of pointers
  std::vector<float> from(block / 4, 1), to(block / 4);
  void *const arguments[] = {from.data()}, *const results[] = {to.data()};
  run(plan, arguments, results, {});
  workspaces.clear(), temporaries.clear();
  workspaces.reserve(9), temporaries.reserve(9);
  const long before = allocations;
  run(plan, arguments, results, {});
  CHECK(allocations == before);
  REQUIRE(workspaces.size() == 9);
  for (std::size_t i = 0; i < 9; i += 3) {
    auto* const arena = static_cast<std::byte*>(temporaries[i]);
    CHECK(workspaces[i] == std::pair<void*, std::size_t>(arena + block, block / 2));
    CHECK(workspaces[i + 1].second == 0);
    CHECK(workspaces[i + 2] == std::pair<void*, std::size_t>(arena, block));
  }
}

TEST_CASE("matmul of arguments with offsets, batches and a transposed operand") {
  const Dim m = dims::symbol(0, 1);
  Plan plan;
  plan.argument_count = 2;
  plan.result_count = 1;
  plan.symbol_count = 1;
  plan.buffers = {argument(0), argument(1), result(0)};
  Contraction c;
  c.batch = {Dim(2)};
  c.m = m, c.n = 3, c.k = 4;
  c.a_offset = 1, c.a_batch = {m * Dim(4)}, c.a_row = 4, c.a_column = 1;
  c.b_batch = {Dim(0)}, c.b_row = 1, c.b_column = 4;  // one b for both, transposed
  c.c_batch = {m * Dim(3)}, c.c_row = 3, c.c_column = 1;
  plan.launches = {step({0, 1, 2}, [c](const Preparation& preparation) -> std::unique_ptr<Runnable> {
    return std::make_unique<HostProduct>(c, preparation.numbers);
  })};
  prepare(plan);
  for (const Int rows : {Int{5}, Int{2}}) {
    std::vector<float> a(static_cast<std::size_t>(8 * rows + 1)), b(12), y(static_cast<std::size_t>(6 * rows));
    std::iota(a.begin(), a.end(), 0.0F);
    std::iota(b.begin(), b.end(), -5.0F);
    void* const arguments[] = {a.data(), b.data()};
    void* const results[] = {y.data()};
    run(plan, arguments, results, std::span(&rows, 1));
    for (Int i = 0; i < 2 * rows; ++i)
      for (Int j = 0; j < 3; ++j) {
        float sum = 0;
        for (Int l = 0; l < 4; ++l) sum += a[std::size_t(1 + i * 4 + l)] * b[std::size_t(j * 4 + l)];
        CHECK(y[std::size_t(i * 3 + j)] == sum);
      }
  }
}

TEST_CASE("scatter_add takes indices that come twice, in order, on any number of threads") {
  Plan plan;
  plan.argument_count = 2;
  plan.result_count = 1;
  plan.buffers = {argument(0, DType::i64), argument(1), result(0)};
  constexpr Int rows = 50, count = 3000, width = 37;
  plan.launches = {step({0, 1, 2}, [=](const Preparation& preparation) -> std::unique_ptr<Runnable> {
    return std::make_unique<HostScatter>(RowJoin::add, DType::f32, rows, count, width, preparation.numbers);
  })};
  prepare(plan);
  std::vector<Int> index(count);
  std::vector<float> updates(count * width), table(rows * width), wanted(rows * width, 0.0F);
  for (Int i = 0; i < count; ++i) index[std::size_t(i)] = i * i % 49;  // row 49 gets nothing
  for (std::size_t i = 0; i < updates.size(); ++i) updates[i] = 0.1F * static_cast<float>(i % 1001);
  for (Int i = 0; i < count; ++i)
    for (Int j = 0; j < width; ++j)
      wanted[std::size_t(index[std::size_t(i)] * width + j)] += updates[std::size_t(i * width + j)];
  void* const arguments[] = {index.data(), updates.data()};
  void* const results[] = {table.data()};
  const test::KeepOptions keep;
  for (const int threads : {1, 2, 3, 7}) {
    options().num_threads = threads;
    std::fill(table.begin(), table.end(), -1.0F);
    run(plan, arguments, results, {});
    CHECK(table == wanted);
  }
}

TEST_CASE("a check that fails stops the call with the user's words, and the next call works") {
  Plan plan;
  plan.argument_count = 2;
  plan.result_count = 1;
  plan.buffers = {argument(0, DType::boolean), argument(1), result(0)};
  plan.launches = {step({0},
                        [](const Preparation&) -> std::unique_ptr<Runnable> {
                          return std::make_unique<HostCheck>("[gather] index out of range, at model.cpp:7");
                        }),
                   kernel({1, 2}, 0, 16, 0)};
  prepare(plan);
  bool holds = false;
  std::vector<float> x(16, 1), y(16, -1);
  void* const arguments[] = {&holds, x.data()};
  void* const results[] = {y.data()};
  CHECK_THROWS_WITH_AS(run(plan, arguments, results, {}), "[gather] index out of range, at model.cpp:7", Error);
  CHECK(y[0] == -1);
  holds = true;
  run(plan, arguments, results, {});
  CHECK(y[0] == 2);
}

TEST_CASE("constants are the plan's own memory, whatever becomes of the plan") {
  Plan copy;
  {
    Plan plan;
    plan.result_count = 1;
    plan.buffers = {{PlanBuffer::Kind::constant, 0, DType::f32, 16, 0}, result(0)};
    const std::vector<float> numbers(16, 3);
    plan.constants.emplace_back(reinterpret_cast<const std::byte*>(numbers.data()),
                                reinterpret_cast<const std::byte*>(numbers.data() + 16));
    plan.launches = {kernel({0, 1}, 1, 16, 0)};
    prepare(plan);
    copy = plan;
  }
  std::vector<float> y(16);
  void* const results[] = {y.data()};
  run(copy, {}, results, {});
  CHECK(y[15] == 7);
}

TEST_CASE("a plan that does not fit its call, or is not prepared, is refused") {
  Plan plan = chain(16, 0);
  CHECK_THROWS_AS(run(plan, {}, {}, {}), InternalError);
  plan.prepared = nullptr;
  CHECK_THROWS_AS(run(plan, {}, {}, {}), InternalError);
  plan.launches[0].step = nullptr;
  CHECK_THROWS_AS(prepare(plan), InternalError);
}

TEST_CASE("numbers over symbols equal the expressions") {
  const Dim s = dims::symbol(0, 1), t = dims::symbol(1, 1);
  const std::vector<Dim> dims = {Dim(7),
                                 s,
                                 s * t * Dim(3) - t + Dim(5),
                                 (s + Dim(15)) / Dim(16),
                                 (s * t - Dim(100)) % Dim(7),
                                 ((s + t) / Dim(3)) * ((s - t) / Dim(4)) % Dim(11),
                                 Dim(0) - s};
  NumberTable table(2);
  const NumberTable::Range range = table.add(dims);
  std::vector<Int> numbers = table.constants();
  CHECK(numbers[0] == 7);
  for (const auto& [a, b] : {std::pair<Int, Int>{1, 1}, {64, 784}, {13, 1000000007}, {100, 3}}) {
    const Int symbols[] = {a, b};
    table.evaluate(symbols, numbers);
    for (std::size_t i = 0; i < dims.size(); ++i)
      CHECK(numbers[range.begin + i] == dims::evaluate(dims[i], std::span(symbols)));
  }
}
