// What plans keep of their constant arguments: when it is made, for whom, and that a call with other values never reads
// it.
#include "runtime/constants.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include "runtime/host/steps.hpp"
#include "tests/runtime/support.hpp"

using namespace weft;
using namespace weft::runtime;

namespace {

using Int = std::int64_t;
constexpr Int depth = 48, columns = 64;

struct ProductStep final : Preparable {
  explicit ProductStep(Contraction given) : what(std::move(given)) {}
  std::unique_ptr<Runnable> prepare(const Preparation& preparation) const override {
    return std::make_unique<HostProduct>(what, preparation.numbers);
  }
  Contraction what;
};

// y[m, columns] = x[m, depth] w[columns, depth]^T, of any m. x is argument 0, w argument 1.
Plan product_plan(std::vector<int> constants = {1}) {
  Contraction c;
  c.m = dims::symbol(0, 8);
  c.n = columns, c.k = depth;
  c.a_row = depth, c.a_column = 1, c.b_row = 1, c.b_column = depth, c.c_row = columns, c.c_column = 1;
  Plan plan;
  plan.argument_count = 2;
  plan.result_count = 1;
  plan.symbol_count = 1;
  plan.buffers = {{PlanBuffer::Kind::argument, 0}, {PlanBuffer::Kind::argument, 1}, {PlanBuffer::Kind::result, 0}};
  plan.launches = {{"product", {0, 1, 2}, {}, std::make_shared<ProductStep>(c)}};
  plan.constant_arguments = std::move(constants);
  prepare(plan);
  return plan;
}

// A value with a key of its own, which counts who holds it.
struct Weight {
  std::vector<float> values;
  std::shared_ptr<int> owner = std::make_shared<int>();
  explicit Weight(unsigned seed) {
    std::mt19937 generator(seed);
    for (Int i = 0; i < columns * depth; ++i) values.push_back(std::uniform_real_distribution<float>(-1, 1)(generator));
  }
  long holders() const { return owner.use_count() - 1; }
};

std::shared_ptr<const void> hold(const void* context, std::size_t index) {
  CHECK(index == 0);
  return static_cast<const Weight*>(context)->owner;
}

std::vector<float> call(const Plan& plan, Weight& weight, Int rows = 8, bool known = true) {
  std::vector<float> x(static_cast<std::size_t>(rows * depth)), y(static_cast<std::size_t>(rows * columns));
  std::iota(x.begin(), x.end(), -100.0F);
  void* const arguments[] = {x.data(), weight.values.data()};
  void* const results[] = {y.data()};
  const void* const keys[] = {weight.owner.get()};
  run(plan, arguments, results, std::span(&rows, 1), nullptr, {}, false,
      known ? ConstantKeys{keys, hold, &weight} : ConstantKeys{});
  return y;
}
std::vector<float> expected(Weight& weight, Int rows = 8) { return call(product_plan({}), weight, rows); }

constexpr std::size_t packed = sizeof(float) * columns * depth;

}  // namespace

TEST_CASE("the second call with the same constants packs them, to the same bits, for all sizes") {
  const Plan plan = product_plan();
  Weight weight(1);
  CHECK(call(plan, weight) == expected(weight));
  CHECK(kept_bytes(plan) == 0);
  CHECK(weight.holders() == 0);
  CHECK(call(plan, weight) == expected(weight));
  CHECK(kept_bytes(plan) == packed);
  CHECK(weight.holders() > 0);
  for (const Int rows : {Int{8}, Int{2}, Int{100}, Int{1}, Int{8}})
    CHECK(call(plan, weight, rows) == expected(weight, rows));
}

TEST_CASE("what was packed is what a call reads") {
  const Plan plan = product_plan();
  Weight weight(1);
  const std::vector<float> before = expected(weight);
  for (int i = 0; i < 2; ++i) call(plan, weight);
  for (float& value : weight.values) value = 0;  // nobody may do that: it shows what is read
  CHECK(call(plan, weight) == before);
}

TEST_CASE("other constants are seen at once, and packed by the second call that has them") {
  const Plan plan = product_plan();
  Weight first(1), second(2);
  for (int i = 0; i < 3; ++i) CHECK(call(plan, first) == expected(first));
  CHECK(call(plan, second) == expected(second));
  CHECK(second.holders() == 0);
  CHECK(call(plan, second) == expected(second));
  CHECK(second.holders() > 0);
  CHECK(first.holders() == 0);  // nothing of it is kept
  CHECK(call(plan, first) == expected(first));
}

TEST_CASE("of two sets of constants in turn one is kept") {
  const Plan plan = product_plan();
  Weight first(1), second(2);
  for (int i = 0; i < 2; ++i) call(plan, first);
  for (int i = 0; i < 5; ++i) {
    CHECK(call(plan, second) == expected(second));
    CHECK(call(plan, first) == expected(first));
  }
  CHECK(first.holders() > 0);
  CHECK(second.holders() == 0);
}

TEST_CASE("where nobody says what the constants are, nothing is kept") {
  const Plan plan = product_plan(), plain = product_plan({});
  Weight weight(1);
  for (int i = 0; i < 3; ++i) {
    CHECK(call(plan, weight, 8, false) == expected(weight));
    CHECK(call(plain, weight) == expected(weight));
  }
  CHECK(kept_bytes(plan) == 0);
  CHECK(kept_bytes(plain) == 0);
  CHECK(weight.holders() == 0);
}

TEST_CASE("plans that pack the same value alike share it, and the last one lets it go") {
  Weight weight(1);
  {
    const Plan one = product_plan(), other = product_plan();
    for (int i = 0; i < 2; ++i) call(one, weight);
    const std::vector<float> before = expected(weight);
    const std::vector<float> values = std::exchange(weight.values, std::vector<float>(weight.values.size(), 0.0F));
    for (int i = 0; i < 2; ++i) call(other, weight);
    CHECK(call(other, weight) == before);  // it is what the first one packed
    weight.values = values;
  }
  CHECK(weight.holders() == 0);
  for (float& value : weight.values) value += 1;
  const Plan later = product_plan();
  for (int i = 0; i < 3; ++i) CHECK(call(later, weight) == expected(weight));
}

namespace {

// A product that packs when another thread packs too.
std::atomic<int> packing = 0;
class MeetingProduct final : public PackingStep {
 public:
  MeetingProduct(const Contraction& what, NumberTable& numbers) : product_(what, numbers) {}
  bool fits(std::span<const Int> numbers, std::span<const Room> rooms) const override {
    return product_.fits(numbers, rooms);
  }
  bool has_workspace() const override { return true; }
  std::size_t workspace(std::span<const Int> numbers) const override { return product_.workspace(numbers); }
  void run(const StepCall& call) const override { product_.run(call); }
  std::size_t packed_bytes(std::size_t buffer) const override { return product_.packed_bytes(buffer); }
  Digest packed_as(std::size_t buffer) const override { return product_.packed_as(buffer); }
  void pack(std::size_t buffer, const StepCall& call, std::byte* to) const override {
    ++packing;
    for (int waited = 0; packing < 2 && waited < 5000; ++waited)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    product_.pack(buffer, call, to);
  }
  void run_packed(const StepCall& call, const std::byte* const* packed) const override {
    product_.run_packed(call, packed);
  }

 private:
  HostProduct product_;
};
struct MeetingStep final : Preparable {
  explicit MeetingStep(Contraction given) : what(std::move(given)) {}
  std::unique_ptr<Runnable> prepare(const Preparation& preparation) const override {
    return std::make_unique<MeetingProduct>(what, preparation.numbers);
  }
  Contraction what;
};
Plan meeting_plan() {
  Plan plan = product_plan();
  plan.launches[0].step = std::make_shared<MeetingStep>(dynamic_cast<const ProductStep&>(*plan.launches[0].step).what);
  prepare(plan);
  return plan;
}

}  // namespace

TEST_CASE("plans that pack the same value at once share what one of them has made") {
  const Plan one = meeting_plan(), other = meeting_plan();
  Weight weight(1);
  const std::vector<float> wanted = expected(weight);
  for (const Plan* plan : {&one, &other}) call(*plan, weight);
  std::vector<float> given[2];
  std::thread beside([&] { given[0] = call(one, weight); });
  given[1] = call(other, weight);
  beside.join();
  CHECK(packing == 2);
  CHECK(given[0] == wanted);
  CHECK(given[1] == wanted);
  CHECK(weight.holders() == 3);  // both plans, and what was packed, which is one
}

namespace {

std::atomic<int> doubled = 0;
// y[i] = 2 x[i]; parameters: how many.
void twice(void* const* buffers, const Int* parameters, Int, Int) {
  ++doubled;
  for (Int i = 0; i < parameters[0]; ++i)
    static_cast<float*>(buffers[1])[i] = 2 * static_cast<const float*>(buffers[0])[i];
}
struct KernelStep final : Preparable {
  explicit KernelStep(Dim n) : count(n) {}
  std::unique_ptr<Runnable> prepare(const Preparation& preparation) const override {
    return std::make_unique<HostKernel>(twice, preparation, 1, std::vector<Dim>{count});
  }
  std::string stored_as() const override { return StoredKernel::name; }
  void write(FieldWriter& to, const EntryPoint&) const override { to(KernelFields{2, {{count}}, {}}); }
  Dim count;
};
Launch kernel(std::vector<int> buffers, Dim count) {
  return {"twice", std::move(buffers), {}, std::make_shared<KernelStep>(count), {false, true}};
}

// y = x (2 (2 w))^T. The arena has both temporaries in one place, the second one over the first.
Plan scaled_plan(bool symbolic = false) {
  Plan plan = product_plan();
  const Dim count = symbolic ? dims::symbol(0, 8) * Dim(0) + Dim(columns * depth) : Dim(columns * depth);
  for (int i = 0; i < 2; ++i)
    plan.buffers.push_back({PlanBuffer::Kind::temporary, 0, DType::f32, columns * depth, Dim(i * 4 * columns * depth)});
  plan.buffers[1].elements = columns * depth;
  plan.arena_bytes = 8 * columns * depth;
  plan.launches[0].buffers = {0, 4, 2};
  plan.launches[0].writes = {false, false, true};
  plan.launches.insert(plan.launches.begin(), {kernel({1, 3}, count), kernel({3, 4}, count)});
  prepare(plan);
  return plan;
}
std::vector<float> expected_of_scaled(const Weight& weight, Int rows = 8) {
  Weight scaled = weight;
  for (float& value : scaled.values) value *= 4;
  return expected(scaled, rows);
}

}  // namespace

TEST_CASE("kernels of constants alone run once, and what they make is packed") {
  const Plan plan = scaled_plan();
  Weight weight(1), other(2);
  doubled = 0;
  CHECK(call(plan, weight) == expected_of_scaled(weight));
  CHECK(doubled == 2);
  CHECK(kept_bytes(plan) == 0);
  CHECK(call(plan, weight) == expected_of_scaled(weight));
  CHECK(doubled == 4);
  CHECK(kept_bytes(plan) == 3 * packed);
  for (const Int rows : {Int{8}, Int{2}, Int{100}, Int{8}})
    CHECK(call(plan, weight, rows) == expected_of_scaled(weight, rows));
  CHECK(doubled == 4);
  // Other values: the kernels run where the plan has their memory, then once more.
  for (int i = 0; i < 4; ++i) CHECK(call(plan, other) == expected_of_scaled(other));
  CHECK(doubled == 8);
  for (int i = 0; i < 3; ++i) {
    CHECK(call(plan, weight) == expected_of_scaled(weight));
    CHECK(call(plan, other) == expected_of_scaled(other));
    CHECK(call(plan, weight, 8, false) == expected_of_scaled(weight));
  }
}

TEST_CASE("frames of several threads, some of which have what is kept") {
  const Plan plan = scaled_plan();
  Weight weights[] = {Weight(1), Weight(2)};
  const std::vector<float> results[] = {expected_of_scaled(weights[0]), expected_of_scaled(weights[1])};
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const int which = (i / (10 + t)) % 2;
        wrong += call(plan, weights[which], 8, i % 13 != 0) != results[which];
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("threads that call at once, while constants change") {
  const Plan plan = product_plan();
  Weight weights[] = {Weight(1), Weight(2)};
  const std::vector<float> results[] = {expected(weights[0]), expected(weights[1])};
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        const int which = (i / (20 + t)) % 2;
        wrong += call(plan, weights[which]) != results[which];
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}
