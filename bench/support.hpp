// What the benchmark programs share: random data, and the protocol by which tools/measure lets two programs take turns
// on one machine: each line on standard input is a number of seconds; the program repeats its step for so long and
// answers with the median of one step, in milliseconds.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <span>
#include <vector>

#include <weft/weft.hpp>

namespace bench {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

inline double median(std::vector<double> values) {
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Normal with mean 0 and deviation 1, as a tensor in memory: drawing it is no part of what is measured.
inline weft::Tensor random_normal(weft::Sizes sizes, unsigned seed) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(sizes.shape().element_count().constant()));
  for (float& value : values) value = normal(bits);
  return weft::from_span(std::span<const float>(values), sizes);
}

inline weft::Tensor random_labels(std::int64_t count, std::int64_t classes, unsigned seed) {
  std::mt19937 bits(seed);
  std::uniform_int_distribution<std::int64_t> label(0, classes - 1);
  std::vector<std::int64_t> values(static_cast<std::size_t>(count));
  for (std::int64_t& value : values) value = label(bits);
  return weft::from_span(std::span<const std::int64_t>(values), {count});
}

// Computes every tensor in a model or an optimizer: an eager update is pending until something asks for it.
template <class T>
void eval_all(T& object) {
  weft::detail::LeafList list;
  weft::detail::flatten(object, list);
  for (const weft::detail::Leaf& leaf : list.leaves)
    if (holds_tensor(leaf.kind) && leaf.tensor().defined()) leaf.tensor().eval();
}

// `step` must leave nothing pending. The first calls (traces, compilation, the sampled checks) are not counted. Where
// it repeats what is measured, `repeats` says how often. The first line is "ready" and the seconds of the first call.
template <class Step>
void take_turns(Step step, int repeats = 1) {
  const auto begin = Clock::now();
  step();
  const double first = seconds_since(begin);
  for (int i = 1; i < (repeats > 1 ? 1 : 20) && seconds_since(begin) < first + 5; ++i) step();
  std::printf("ready %.6f\n", first);
  std::fflush(stdout);
  double seconds = 0;
  while (std::scanf("%lf", &seconds) == 1) {
    std::vector<double> times;
    for (auto start = Clock::now(); seconds_since(start) < seconds || times.size() < 5;) {
      auto before = Clock::now();
      step();
      times.push_back(seconds_since(before) * 1e3 / repeats);
    }
    std::printf("%.6g\n", median(times));
    std::fflush(stdout);
  }
}

}  // namespace bench
