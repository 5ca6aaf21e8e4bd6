// What programs share that load a model of sentences' embeddings and answer once: of one text of 16 tokens. In: the
// time (CLOCK_MONOTONIC, seconds) just before execve. Out: a line of JSON with the seconds from there to main, until
// the model is loaded, and to the answer.
#pragma once
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <vector>

#include "start_clock.hpp"

namespace bench {

struct FirstEmbedding {
  static constexpr std::size_t length = 16;
  double start, in_main = now(), loaded = 0;
  std::vector<std::int64_t> tokens = std::vector<std::int64_t>(length), mask = std::vector<std::int64_t>(length, 1);

  explicit FirstEmbedding(double before_execve) : start(before_execve) {
    std::iota(tokens.begin(), tokens.end(), 1000);
  }
  void is_loaded() { loaded = now(); }
  void is_answered(const float* values, std::size_t count) const {
    const double answered = now();
    double squares = 0;
    for (std::size_t i = 0; i < count; ++i) squares += static_cast<double>(values[i]) * values[i];
    std::printf("{\"seconds\":%.6f,\"main\":%.6f,\"load\":%.6f,\"call\":%.6f,\"length\":%.4f}\n", answered - start,
                in_main - start, loaded - in_main, answered - loaded, squares);
  }
};

}  // namespace bench
