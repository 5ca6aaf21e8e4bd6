// Silero VAD: the windows' probabilities that PyTorch gives with the published weights.
#include <cmath>

#include "examples/support/speech.hpp"
#include "tests/weights/support.hpp"

using namespace weft;
using namespace weights_test;

static std::string weights() { return lack_of("silero"); }

TEST_CASE("a recording with the published weights: PyTorch's probabilities, whatever its length" *
          test::needs(weights)) {
  const std::string folder = folder_of("silero");
  models::SileroVad model;
  io::load(folder + "/silero_vad_16k.safetensors", model, {.renames = models::silero_vad_names});
  const support::Sound sound = support::read_wav(WEFT_SOURCE_DIR "/tests/weights/speech.wav");
  CHECK(sound.rate == 16000);
  const std::vector<double> expected = golden("silero.json").at("probabilities");
  const auto compare = [&](const std::vector<float>& found) {
    for (std::size_t i = 0; i + 1 < found.size(); ++i)  // the last may be filled up
      CHECK(std::abs(static_cast<double>(found[i]) - expected[i]) < 1e-4);
  };
  const std::vector<float> all = support::speech_probabilities(model, sound.samples);
  REQUIRE(all.size() == expected.size());
  compare(all);
  CHECK(std::abs(static_cast<double>(all.back()) - expected.back()) < 1e-4);
  for (const std::size_t length : {std::size_t{9000}, std::size_t{30000}})
    compare(support::speech_probabilities(
        model, {sound.samples.begin(), sound.samples.begin() + static_cast<std::ptrdiff_t>(length)}));
  CHECK(support::speech_probabilities(model, {}).empty());
}

TEST_CASE("a recording in parts: the probabilities of one call for all windows, of which each part goes on" *
          test::needs(weights)) {
  const std::string folder = folder_of("silero");
  models::SileroVad model;
  io::load(folder + "/silero_vad_16k.safetensors", model, {.renames = models::silero_vad_names});
  const std::vector<float> samples = support::read_wav(WEFT_SOURCE_DIR "/tests/weights/speech.wav").samples;
  const std::vector<float> whole = support::speech_probabilities(model, samples, samples.size());
  REQUIRE(whole.size() % 2 == 1);  // so that the last of the parts of two is a single window
  for (const std::size_t most : {std::size_t{1}, std::size_t{2}, std::size_t{7}}) {
    CAPTURE(most);
    const std::vector<float> parts = support::speech_probabilities(model, samples, most);
    REQUIRE(parts.size() == whole.size());
    for (std::size_t i = 0; i < whole.size(); ++i) {
      CAPTURE(i);
      CHECK(std::abs(static_cast<double>(parts[i] - whole[i])) < 1e-5);
    }
  }
  std::vector<float> longer = samples;  // more windows than a part has where none is said
  for (int i = 0; i < 2; ++i) longer.insert(longer.end(), samples.begin(), samples.end());
  const std::vector<float> by_default = support::speech_probabilities(model, longer),
                           at_once = support::speech_probabilities(model, longer, longer.size());
  REQUIRE(at_once.size() > 256);
  REQUIRE(by_default.size() == at_once.size());
  for (std::size_t i = 0; i < at_once.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(static_cast<double>(by_default[i] - at_once[i])) < 1e-5);
  }
}
