// threads N: calls a second of one compiled function by one thread and by N at once, each with an argument of its own
// (16 floats); and rounds a second of a loop that shares nothing, which says how many processors the machine really
// has. Prints a line of JSON: medians of nine turns.
#include <array>
#include <barrier>
#include <thread>

#include "support.hpp"

using namespace weft;

namespace {

constexpr double seconds = 0.2;  // of a turn

// Rounds a second of all threads together.
template <class Make>
double rate(int threads, Make make) {
  std::vector<double> rates(static_cast<std::size_t>(threads));
  std::barrier begin(threads);
  std::vector<std::thread> running;
  for (double& own : rates)
    running.emplace_back([&] {
      auto round = make();
      for (int i = 0; i < 1000; ++i) round();
      begin.arrive_and_wait();
      std::size_t rounds = 0;
      const auto start = bench::Clock::now();
      double taken = 0;
      while ((taken = bench::seconds_since(start)) < seconds)
        for (int i = 0; i < 1000; ++i, ++rounds) round();
      own = static_cast<double>(rounds) / taken;
    });
  for (std::thread& thread : running) thread.join();
  double sum = 0;
  for (const double each : rates) sum += each;
  return sum;
}

}  // namespace

int main(int count, char** arguments) {
  const int threads = count > 1 ? std::atoi(arguments[1]) : 0;
  if (threads < 1) {
    std::fprintf(stderr, "threads N\n");
    return 2;
  }
  const auto f = compile([](const Tensor& x) { return (x + 1) * 2; });
  const auto call = [&] { return [&, x = bench::random_normal({16}, 1)] { f(x).eval(); }; };
  // As many instructions a cycle as a call: a loop that waits for itself would run as fast on half a core.
  const auto loop = [] {
    return [numbers = std::array<std::uint64_t, 32>{1, 2, 3}]() mutable {
      for (int i = 0; i < 8; ++i)
        for (std::uint64_t& number : numbers) number = (number >> 7 ^ number) + 0x9e3779b9;
      asm volatile("" : : "g"(numbers.data()) : "memory");
    };
  };
  const auto add = [] { return [x = bench::random_normal({16}, 1)] { (x + 1).eval(); }; };
  std::vector<double> all, one, eager, one_eager, loops, one_loop;
  for (int turn = 0; turn < 9; ++turn) {
    one.push_back(rate(1, call));
    all.push_back(rate(threads, call));
    one_eager.push_back(rate(1, add));
    eager.push_back(rate(threads, add));
    one_loop.push_back(rate(1, loop));
    loops.push_back(rate(threads, loop));
  }
  std::printf("{\"threads\": %d", threads);
  for (const auto& [name, rates] :
       {std::pair("calls", &all), std::pair("calls_of_one", &one), std::pair("eager", &eager),
        std::pair("eager_of_one", &one_eager), std::pair("loops", &loops), std::pair("loops_of_one", &one_loop)})
    std::printf(", \"%s\": %.6g", name, bench::median(*rates));
  std::printf("}\n");
}
