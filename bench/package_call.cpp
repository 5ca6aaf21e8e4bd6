// package_call [THREADS]: a call of a packaged function against one of the compiled function that was packaged, in one
// process: ten tensors of 16 floats and one that the package holds, whose sum it gives. As many threads call the same
// function at once, each with tensors of its own; 1 by default. Prints for `compiled`, `package` (C++) and `c`
// (weft_run.h) the nanoseconds of a call, the median of all threads' rounds, which take turns, and the heap allocations
// of one.
#include <unistd.h>

#include <array>
#include <barrier>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "allocations.hpp"
#include "support.hpp"
#include "weft/package.hpp"
#include "weft_run.h"

namespace {

using weft::Tensor;
using Ten = std::array<Tensor, 10>;
constexpr int calls = 2000, rounds = 101;
struct Held {  // by the package
  weft::Buffer tensor;
  WEFT_MEMBERS(tensor)
};

struct Case {
  const char* name;
  std::vector<double> times;
};
template <class F>
void measure(Case& one, const F& call) {
  const auto start = bench::Clock::now();
  for (int i = 0; i < calls; ++i) call();
  one.times.push_back(bench::seconds_since(start) * 1e9 / calls);
}
void require(bool holds) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", weft_run_message());
  std::exit(1);
}

}  // namespace

int main(int count, char** given) {
  const int threads = count > 1 ? std::max(1, std::atoi(given[1])) : 1;
  Held held{weft::Buffer(bench::random_normal({16}, 10))};
  const auto compiled = weft::compile(
      [](const Held& held, const Ten& x) {
        Tensor sum = held.tensor;
        for (std::size_t i = 0; i < x.size(); ++i) sum = sum + x[i];
        return sum;
      },
      weft::bind(held));
  const auto make = [] {
    Ten x;
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = bench::random_normal({16}, static_cast<unsigned>(i));
    return x;
  };
  const std::string path =
      std::filesystem::temp_directory_path() / ("weft-bench-" + std::to_string(getpid()) + ".weft");
  weft::package(path, {"sum", {.weights = true}}, compiled, make());
  const auto packaged = weft::load_package(path).function<Tensor(const Ten&)>("sum");
  weft_package* package = nullptr;
  weft_function* function = nullptr;
  require(weft_package_open(path.c_str(), &package) == WEFT_OK);
  std::filesystem::remove(path);
  require(weft_package_function(package, "sum", &function) == WEFT_OK);

  std::vector<std::array<Case, 3>> of_threads(static_cast<std::size_t>(threads),
                                              {Case{"compiled", {}}, {"package", {}}, {"c", {}}});
  double allocated[3] = {};
  std::barrier turn(threads);
  std::vector<std::thread> running;
  for (std::array<Case, 3>& cases : of_threads)
    running.emplace_back([&] {
      const Ten x = make();
      std::int64_t shape[] = {16};
      weft_tensor tensors[10] = {};
      const weft_tensor* arguments[10];
      for (std::size_t i = 0; i < 10; ++i) {
        void* const data = const_cast<float*>(x[i].data<float>().data());
        tensors[i] = {data, {1, 0}, 1, {2, 32, 1}, shape, nullptr, 0};
        arguments[i] = &tensors[i];
      }
      const auto call_compiled = [&] { compiled(x).eval(); };
      const auto call_packaged = [&] { packaged(x).eval(); };
      const auto call_from_c = [&] {
        weft_managed_tensor* result;
        require(weft_function_call(function, WEFT_ANY_KIND, arguments, 10, &result, 1) == WEFT_OK);
        result->deleter(result);
      };
      for (Case& one : cases) one.times.reserve(rounds);
      for (int i = 0; i < rounds; ++i)
        for (std::size_t which = 0; which < cases.size(); ++which) {
          turn.arrive_and_wait();
          const long before = allocations;
          if (which == 0) measure(cases[which], call_compiled);
          if (which == 1) measure(cases[which], call_packaged);
          if (which == 2) measure(cases[which], call_from_c);
          turn.arrive_and_wait();
          if (&cases == of_threads.data()) allocated[which] = static_cast<double>(allocations - before) / calls;
        }
    });
  for (std::thread& each : running) each.join();
  for (std::size_t which = 0; which < 3; ++which) {
    std::vector<double> times;
    for (const std::array<Case, 3>& cases : of_threads)
      times.insert(times.end(), cases[which].times.begin(), cases[which].times.end());
    std::printf("%s %.1f %g\n", of_threads[0][which].name, bench::median(times), allocated[which]);
  }
}
