// Random programs that read numbers and memory on the host: compiled against plain, bit for bit, with each value that
// was read. All values are small integers, so that no rounding tells the two apart.
#include <random>

#include "tests/trace/support.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace trace_test;

namespace {

struct State {
  Tensor total = zeros({3, 4}, {.dtype = DType::f64});
  double last = 0;  // of the host's
};

std::vector<double> seen;  // what the programs have read

// What the program does follows from `seed` and from what it has read.
class Program {
 public:
  explicit Program(int seed) : choose_(static_cast<unsigned>(seed)) {}

  std::tuple<Tensor, Tensor, double> run(State& state, const Tensor& a, const Tensor& b) {
    pool_ = {a, b, state.total};
    const int statements = 2 + number(6);
    for (int i = 0; i < statements; ++i) statement(state);
    const double last = number(2) ? read(sum(any())) : 0;
    return {pool_.back(), any(), last};
  }

 private:
  int number(int below) { return static_cast<int>(choose_() % static_cast<unsigned>(below)); }
  const Tensor& any() { return pool_[static_cast<std::size_t>(number(static_cast<int>(pool_.size())))]; }
  static Tensor bounded(const Tensor& x) { return clamp(x, -9., 9.); }
  static double read(const Tensor& x) {
    seen.push_back(x.item());
    return seen.back();
  }

  Tensor operation() {
    const Tensor x = any(), y = any();
    switch (number(9)) {
      case 0: return bounded(x + y);
      case 1: return bounded(x * y);
      case 2: return where(x > y, x, y + 1);
      case 3: return expand(sum(x, 1, true), {3, 4}) * 1.;
      case 4: return floor(uniform({3, 4}, -4, 4, default_generator(), {.dtype = DType::f64}));
      case 5:
        return bounded(grad(
            [&](const Tensor& z) {
              const Tensor w = z * y;
              if (number(2)) return sum(w * z) * (1 + std::fmod(std::abs(read(sum(w))), 3));
              return sum(w * w);
            },
            x));
      case 6: return reshape(transpose(x), {3, 4});
      case 7: return bounded(cumsum(x, number(2)));
      default: return -abs(x);
    }
  }

  // Something of a value on the host.
  Tensor through_host() {
    const Tensor x = any(), y = any();
    switch (number(10)) {
      case 6: {  // which operand, by what was read
        const bool first = read(x[number(3)][number(4)]) > number(5) - 2.5;
        return bounded((first ? x : y) * 2);
      }
      case 0: return bounded(x + std::fmod(read(sum(y)), 5));
      case 1: return bounded(x * full({3, 4}, std::fmod(read(amax(y)), 3), {.dtype = DType::f64}));
      case 2: {
        std::vector<double> values;
        const auto known = y.data<double>();
        for (const double value : known) values.push_back(value > 0 ? -value : value + 1);
        seen.push_back(values[5]);
        return reshape(from_span<double>(values, {12}), {3, 4}) + x * 0;
      }
      case 3: return bounded(x + sum(masked_select(y, y > number(5) - 2)));
      case 4: return bounded(x + cast(sum(nonzero(y == x)), DType::f64));
      case 5: return bounded(x + amax(cast(unique(y).counts, DType::f64)));
      case 7: {  // how many it is, as a number
        const Tensor chosen = masked_select(y, y > number(5) - 2);
        const int count = static_cast<int>(chosen.size(0));
        seen.push_back(count);
        return bounded(x + sum(reshape(chosen, {count, 1}) * count));
      }
      case 8: {  // whether it is a number
        const int wanted = number(6);
        const Tensor chosen = masked_select(y, y > number(5) - 2);
        if (chosen.size(0) == wanted) return bounded(x + sum(chosen * arange(wanted, {.dtype = DType::f64})));
        return chosen.size(0) < 2 * wanted ? -x : bounded(x + sum(chosen));
      }
      default: {
        if (read(x[number(3)][number(4)]) > number(5) - 2.5) return y;
        return bounded(y + 1);
      }
    }
  }

  void statement(State& state) {
    switch (number(8)) {
      case 0: {
        if (any_of(any() > number(9))) pool_.push_back(operation());
        return;
      }
      case 1: {
        const std::size_t place = pool_.size();
        pool_.push_back(any());
        for (int rounds = 0; rounds < 4 && read(sum(pool_[place])) < 10 + 3 * rounds; ++rounds)
          pool_[place] = pool_[place] + 1;
        return;
      }
      case 2:
        state.total = bounded(state.total + any());
        state.last = std::fmod(read(sum(state.total)), 2);
        return;
      case 3:
      case 4: pool_.push_back(through_host()); return;
      default: pool_.push_back(operation());
    }
    if (pool_.size() > 6) pool_.erase(pool_.begin() + number(3));
  }
  static bool any_of(const Tensor& x) { return weft::any(x).item<bool>(); }

  std::mt19937 choose_;
  std::vector<Tensor> pool_;
};

std::tuple<Tensor, Tensor, double> program(State& state, int seed, const Tensor& a, const Tensor& b) {
  return Program(seed).run(state, a, b);
}

Tensor integers(std::mt19937& choose) {
  std::vector<double> numbers(12);
  for (double& number : numbers) number = static_cast<double>(choose() % 9) - 4;
  return reshape(from_span<double>(numbers, {12}), {3, 4}).eval();
}

void check_programs(int first, int last, const CompileOptions& options) {
  auto f = compile(program, options);
  for (int seed_number = first; seed_number < last; ++seed_number) {
    CAPTURE(seed_number);
    std::mt19937 choose(static_cast<unsigned>(seed_number) * 7919 + 1);
    State own, plain;
    for (int call = 0; call < 8; ++call) {
      CAPTURE(call);
      const Tensor a = integers(choose), b = integers(choose);
      seen.clear();
      seed(static_cast<std::uint64_t>(call));
      const auto [p, q, r] = program(plain, seed_number, a, b);
      const std::string next = text_of(uniform({2}));
      const std::vector<double> expected = std::exchange(seen, {});
      seed(static_cast<std::uint64_t>(call));
      const auto [x, y, z] = f(own, seed_number, a, b);
      CHECK(seen == expected);
      CHECK(text_of(uniform({2})) == next);
      CHECK(text_of(x) == text_of(p));
      CHECK(text_of(y) == text_of(q));
      CHECK(z == r);
      CHECK(text_of(own.total) == text_of(plain.total));
      CHECK(own.last == plain.last);
      if (call == 5) wait_compiled(f);
    }
  }
}

}  // namespace

TEST_CASE("random programs that read by the eager executor") {
  check_programs(0, 200, {.backend = Backend::eager, .recompile_limit = 1 << 30, .cache_size = 8});
}
TEST_CASE("random programs that read, compiled") {
  check_programs(200, 212, {.recompile_limit = 1 << 30, .cache_size = 8, .decision_limit = 1 << 30});
}
TEST_CASE("random programs that read, compiled in the background") {
  check_programs(212, 218, {.recompile_limit = 1 << 30, .cache_size = 8, .async = true});
}
