// Where somebody speaks in a recording: Silero VAD over all of its windows, a part at a time, and what is left of their
// probabilities: stretches of speech.
#pragma once
#include "examples/models/silero_vad.hpp"
#include "examples/support/wav.hpp"

namespace support {

// The probability of each window of 32 ms; the last is filled up with silence. `most`: the windows of a part; a part
// begins with the state that the one before it left. Two compilations serve all lengths: for a part of one window,
// whose size is a number, and for parts of several.
inline std::vector<float> speech_probabilities(const models::SileroVad& model, const std::vector<float>& samples,
                                               std::size_t most = 256) {
  using Vad = models::SileroVad;
  constexpr std::size_t window = Vad::window, context = Vad::context;
  const Device device = model.conv1.weight->device();
  const auto listen =
      compile([](const Vad& model, const Tensor& x, Vad::State& state) { return model(x, state); }, {.dynamic = true});
  Vad::State state = model.make_state();
  std::vector<float> padded(context, 0), probabilities;
  padded.insert(padded.end(), samples.begin(), samples.end());
  padded.resize(context + (samples.size() + window - 1) / window * window);
  const std::size_t windows = (padded.size() - context) / window;
  for (std::size_t first = 0; first < windows; first += most) {
    const std::size_t count = std::min(most, windows - first);
    std::vector<float> part;
    for (std::size_t i = first; i < first + count; ++i)
      part.insert(part.end(), padded.begin() + static_cast<std::ptrdiff_t>(i * window),
                  padded.begin() + static_cast<std::ptrdiff_t>(i * window + context + window));
    const Tensor x = to(from_span(part, {count, context + window}), device);
    const Tensor found = to(listen(model, cast(x, model.conv1.weight->dtype()), state), Device::cpu());
    for (const float p : cast(found, DType::f32).eval().data<float>()) probabilities.push_back(p);
  }
  return probabilities;
}

struct Stretch {
  double begin, end;  // seconds
};
// Speech begins at a window of `threshold`, and ends where the windows are below `threshold - 0.15` for 100 ms. What is
// shorter than 250 ms is left out; 30 ms are added at both ends, or half of the pause.
inline std::vector<Stretch> speech(const std::vector<float>& probabilities, double length, double threshold = 0.5) {
  constexpr double window = static_cast<double>(models::SileroVad::window) / models::SileroVad::rate, pause = 0.1,
                   shortest = 0.25, added = 0.03;
  std::vector<Stretch> all;
  double begin = -1, quiet = -1;
  const auto end_at = [&](double end) {
    if (end - begin > shortest) all.push_back({begin, end});
    begin = quiet = -1;
  };
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    const double now = static_cast<double>(i) * window, p = static_cast<double>(probabilities[i]);
    if (p >= threshold) quiet = -1;
    if (p >= threshold && begin < 0) begin = now;
    if (begin < 0 || p >= std::max(threshold - 0.15, 0.01)) continue;
    if (quiet < 0) quiet = now;
    if (now - quiet >= pause) end_at(quiet);
  }
  if (begin >= 0) end_at(length);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i == 0) all[i].begin = std::max(0.0, all[i].begin - added);
    const bool last = i + 1 == all.size();
    const double room = last ? added : std::min(added, (all[i + 1].begin - all[i].end) / 2);
    all[i].end = std::min(length, all[i].end + room);
    if (!last) all[i + 1].begin -= room;
  }
  return all;
}

}  // namespace support
