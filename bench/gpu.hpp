// What the programs that measure on a CUDA device share: cases by name, each many calls between two synchronizations; a
// line of JSON a case, or turns with the peers (support.hpp). The word `tiny` before the others runs the same on the
// CPU with sides of at most 32, to see whether a case works.
#pragma once
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "runtime/cuda/device.hpp"
#include "support.hpp"

namespace bench {

using weft::DType;
using weft::Tensor;
using Call = std::function<void()>;

inline bool tiny = false;
inline weft::Device device = weft::Device::cuda();
inline const weft::CompileOptions unchecked = [] {
  const char *const level = std::getenv("WEFT_BENCH_LEVEL"), *const budget = std::getenv("WEFT_BENCH_BUDGET");
  return weft::CompileOptions{.check = weft::Check::never,
                              .level = level ? static_cast<weft::Level>(std::atoi(level)) : weft::Level::O2,
                              .memory_budget = budget ? std::strtod(budget, nullptr) : 1};
}();

inline std::int64_t sized(std::int64_t full) { return tiny ? std::min<std::int64_t>(full, 32) : full; }
inline weft::Options f32() { return {DType::f32, device}; }
inline weft::Options bf16() { return {DType::bf16, device}; }
inline void finish() {
  if (!tiny) weft::runtime::cuda::synchronize(device);
}

// Many calls, until everything is done, and how many: about 20 ms of them.
struct Repeated {
  explicit Repeated(Call given) : call(std::move(given)) {
    const auto begin = Clock::now();
    call();  // traces and compiles
    finish();
    const double first = seconds_since(begin);
    for (int i = 1; i < 20 && seconds_since(begin) < first + 3; ++i) {
      call();
      finish();
    }
    const auto start = Clock::now();
    operator()();
    calls = std::clamp(static_cast<int>(20e-3 / seconds_since(start)), 2, 200);
  }
  void operator()() const {
    for (int i = 0; i < calls; ++i) call();
    finish();
  }
  Call call;
  int calls = 1;
};

inline weft::Sizes sized(std::vector<std::int64_t> sizes) {
  for (std::int64_t& size : sizes) size = sized(size);
  return sizes;
}
inline Tensor sample(const std::vector<std::int64_t>& sizes, std::uint64_t seed, DType dtype = DType::f32) {
  weft::Generator generator(seed);
  return weft::normal(sized(sizes), 0, 1, generator, {dtype, device}).eval();
}
inline Tensor labels(const std::vector<std::int64_t>& sizes, std::int64_t classes, std::uint64_t seed) {
  weft::Generator generator(seed);
  return cast(weft::uniform(sized(sizes), 0, static_cast<double>(sized(classes)), generator, f32()), DType::i64).eval();
}

// A function of tensors, compiled or, with `eager`, as it is.
template <class F, class... Arguments>
Call of(const weft::CompileOptions& options, F f, Arguments... argument) {
  return [compiled = weft::compile(f, options), argument...] {
    auto result = compiled(argument...);
    eval_all(result);
  };
}
template <class F, class... Arguments>
Call of(F f, Arguments... argument) {
  return of(unchecked, std::move(f), std::move(argument)...);
}
template <class F, class... Arguments>
Call eager(F f, Arguments... argument) {
  return [=] { f(argument...).eval(); };
}

struct Case {
  std::string name, of;
  std::function<Call()> make;
  double bytes = 0;  // moved, where nothing else limits
};

inline void report(const Case& one, double milliseconds) {
  std::printf(
      "{\"name\":\"%s\",\"case\":\"%s\",\"value\":%.5f,\"unit\":\"ms\",\"baseline\":null,\"baseline_value\":null,"
      "\"ratio\":null",
      one.name.c_str(), one.of.c_str(), milliseconds);
  if (one.bytes > 0) std::printf(",\"terabytes_per_second\":%.3f", one.bytes / milliseconds / 1e9);
  std::puts("}");
  std::fflush(stdout);
}

inline double milliseconds(const Repeated& repeated) {
  std::vector<double> rounds;
  for (int round = 0; round < (tiny ? 1 : 9); ++round) {
    const auto start = Clock::now();
    repeated();
    rounds.push_back(seconds_since(start) * 1e3 / repeated.calls);
  }
  return median(rounds);
}

// Takes the word `tiny` from the arguments. False, with a message, where there is no device.
inline bool has_device(int& count, char**& arguments) {
  tiny = count > 1 && !std::strcmp(arguments[1], "tiny");
  if (tiny) {
    device = weft::Device();
    --count, ++arguments;
    return true;
  }
  try {
    std::fprintf(stderr, "%s\n", weft::runtime::cuda::use(device).name.c_str());
    return true;
  } catch (const weft::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return false;
  }
}

// main of [NAME [CASE]]: all cases, those of a name, or one that takes turns. A case that throws says so, and the
// others go on.
inline int run_cases(const std::vector<Case>& cases, int count, char** arguments) {
  int failed = 0;
  for (const Case& one : cases) {
    if (count > 1 && one.name != arguments[1]) continue;
    if (count > 2 && one.of != arguments[2]) continue;
    try {
      const Repeated repeated(one.make());
      if (count > 2)
        take_turns(repeated, repeated.calls);
      else
        report(one, milliseconds(repeated));
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s %s: %s\n", one.name.c_str(), one.of.c_str(), error.what());
      failed = 1;
    }
  }
  return failed;
}

}  // namespace bench
