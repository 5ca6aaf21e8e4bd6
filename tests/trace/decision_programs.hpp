// Random programs that decide: compiled against plain, on arguments that take different ways, bit for bit. All values
// are small integers, so that no rounding tells the two apart.
#pragma once
#include <cstdlib>
#include <random>

#include "tests/trace/support.hpp"
#include "weft/grad.hpp"
#include "weft/indexing.hpp"
#include "weft/random.hpp"

namespace decision_programs {

using namespace weft;
using namespace trace_test;

struct State {
  Tensor total = zeros({3, 4}, {.dtype = DType::f64}), count = zeros({}, {.dtype = DType::f64});
};

// Programs from this seed on are short, have no loops, and have the operations that a side of a select may hold.
constexpr int cheap_programs = 100000;

// What the program does follows from `seed` and from what it has decided.
class Program {
 public:
  explicit Program(int seed) : cheap_(seed >= cheap_programs), choose_(static_cast<unsigned>(seed)) {}

  std::vector<Tensor> run(State& state, const Tensor& a, const Tensor& b) {
    pool_ = {a, b, state.total};
    const int statements = cheap_ ? 1 + number(3) : 3 + number(6);
    for (int i = 0; i < statements; ++i) statement(state, cheap_ ? 1 : 2);
    if (!cheap_ && number(3) == 0) return {pool_.back()};
    return {pool_.back(), any(), state.count + 1};
  }

 private:
  int number(int below) { return static_cast<int>(choose_() % static_cast<unsigned>(below)); }
  const Tensor& any() { return pool_[static_cast<std::size_t>(number(static_cast<int>(pool_.size())))]; }
  static Tensor bounded(const Tensor& x) { return clamp(x, -9., 9.); }

  Tensor operation() {
    const Tensor x = any(), y = any();
    int operation = number(14);
    if (cheap_ && (operation == 7 || operation == 8 || operation == 9 || operation == 12)) operation = 6;
    switch (operation) {
      case 0: return bounded(x + y);
      case 1: return bounded(x * y);
      case 2: return x - bounded(y * 2);
      case 3: return reshape(transpose(x), {3, 4});
      case 4: return expand(sum(x, 1, true), {3, 4}) * 1.;
      case 5: return bounded(cumsum(x, number(2)));
      case 6: return where(x > y, x, y + 1);
      case 7: return bounded(matmul(x, matmul(transpose(y), y)) * 0 + amax(y));
      case 8: return index_select(x, 0, slice(cast(clamp(y[0], 0., 2.), DType::i64), 0, 0, 3));
      case 9: return floor(uniform({3, 4}, -4, 4, default_generator(), {.dtype = DType::f64}));
      case 10: return concat({slice(x, 0, 1, 3), slice(y, 0, 0, 1)}, 0);
      case 11: return bounded(grad([&](const Tensor& z) { return loss(z, y); }, x));
      case 12: return sort(x, number(2)).values;
      default: return -abs(x);
    }
  }
  Tensor loss(const Tensor& z, const Tensor& y) {
    Tensor w = z * y;
    if (number(2) && (sum(w) > number(9) - 4).item<bool>()) w = w + z;
    return sum(w * z);
  }
  bool ask() {
    const Tensor x = any();
    switch (number(4)) {
      case 0: return (sum(x) > number(20) - 10).item<bool>();
      case 1: return x[number(3)][number(4)].item<bool>();
      case 2: return cast(amax(x), DType::i32).item<int>() % 2 == 0;
      default: return any_of(x > number(10)).item<bool>();
    }
  }
  static Tensor any_of(const Tensor& x) { return weft::any(x); }

  void statement(State& state, int depth) {
    int kind = depth > 0 ? number(7) : 0;
    if (cheap_ && depth > 0 && kind != 6) kind = 4;
    switch (kind) {
      case 4: {
        const bool yes = ask();
        const std::mt19937 after = choose_;
        for (int i = 0; i < (yes ? 2 : 1); ++i) statement(state, depth - 1);
        if (cheap_) choose_ = after;  // both sides go on alike
        return;
      }
      case 5: {
        const std::size_t place = pool_.size();
        pool_.push_back(any());
        for (int rounds = 0; rounds < 6 && (sum(pool_[place]) < 20 + rounds).item<bool>(); ++rounds) {
          pool_[place] = pool_[place] + 1;
          if (number(2)) statement(state, 0);
        }
        return;
      }
      case 6:
        if (number(2)) state.count = state.count + 1;
        state.total = bounded(state.total + any());
        return;
      default: pool_.push_back(operation());
    }
    if (pool_.size() > 6) pool_.erase(pool_.begin() + number(3));
  }

  bool cheap_;
  std::mt19937 choose_;
  std::vector<Tensor> pool_;
};

inline std::vector<Tensor> program(State& state, int seed, const Tensor& a, const Tensor& b) {
  return Program(seed).run(state, a, b);
}

inline Tensor integers(std::mt19937& choose) {
  std::vector<double> numbers(12);
  for (double& number : numbers) number = static_cast<double>(choose() % 9) - 4;
  return reshape(from_span<double>(numbers, {12}), {3, 4}).eval();
}

inline void check_programs(int first, int last, const CompileOptions& options) {
  auto f = compile(program, options);
  std::size_t branches = 0, selected = 0;
  for (int seed_number = first; seed_number < last; ++seed_number) {
    CAPTURE(seed_number);
    std::mt19937 choose(static_cast<unsigned>(seed_number) * 7919 + 1);
    State own, plain;
    for (int call = 0; call < (seed_number < cheap_programs ? 6 : 40); ++call) {
      CAPTURE(call);
      const Tensor a = integers(choose), b = integers(choose);
      seed(static_cast<std::uint64_t>(call));
      const std::vector<Tensor> expected = program(plain, seed_number, a, b);
      const std::string next = text_of(uniform({2}));
      seed(static_cast<std::uint64_t>(call));
      const std::vector<Tensor> found = f(own, seed_number, a, b);
      CHECK(text_of(uniform({2})) == next);
      REQUIRE(found.size() == expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) CHECK(text_of(found[i]) == text_of(expected[i]));
      CHECK(text_of(own.total) == text_of(plain.total));
      CHECK(text_of(own.count) == text_of(plain.count));
    }
    const Explanation e = explain(f, own, seed_number, integers(choose), integers(choose));
    branches += e.decisions.size();
    for (const std::string& line : e.decisions) selected += contains(line, "both sides are computed");
  }
  MESSAGE(branches << " branches, " << selected << " of them with both sides computed, in " << last - first
                   << " programs");
  CHECK((selected > 0) == options.auto_select);
  CHECK(branches > static_cast<std::size_t>(last - first));
}

}  // namespace decision_programs
