// Silero VAD: the windows' probabilities that PyTorch gives with the published weights, the stretches of speech that
// Silero's own code makes of them, and the reader of WAV files.
#include <cmath>
#include <cstring>

#include "examples/support/speech.hpp"
#include "tests/weights/support.hpp"

using namespace weft;
using namespace weights_test;

namespace {

template <class T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}
std::string wav(std::uint16_t format, std::uint16_t channels, std::uint32_t rate, std::uint16_t bits,
                const std::string& data) {
  const std::string head = bytes_of(format) + bytes_of(channels) + bytes_of(rate) +
                           bytes_of<std::uint32_t>(rate * channels * bits / 8) +
                           bytes_of(static_cast<std::uint16_t>(channels * bits / 8)) + bytes_of(bits);
  const std::string chunks = "LIST" + bytes_of(3u) + "abc" + std::string(1, '\0') + "fmt " + bytes_of(16u) + head +
                             "data" + bytes_of(static_cast<std::uint32_t>(data.size())) + data;
  return "RIFF" + bytes_of(static_cast<std::uint32_t>(chunks.size() + 4)) + "WAVE" + chunks;
}
std::vector<float> samples_of(const std::string& contents) {
  const TemporaryFile file(contents);
  return support::read_wav(file.path).samples;
}
std::string refused(const std::string& contents) {
  const TemporaryFile file(contents);
  const std::string text = message_of([&] { support::read_wav(file.path); });
  return text.starts_with(file.path) ? text.substr(file.path.size()) : text;
}

}  // namespace

TEST_CASE("a recording with the published weights: PyTorch's probabilities, whatever its length") {
  const std::string folder = folder_of("silero");
  if (folder.empty()) return;
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
  std::vector<float> twice = sound.samples;  // more windows than are computed at once
  for (int i = 0; i < 2; ++i) twice.insert(twice.end(), sound.samples.begin(), sound.samples.end());
  CHECK(support::speech_probabilities(model, twice).size() == (twice.size() + 511) / 512);
}

TEST_CASE("stretches of speech are those of Silero's own code") {
  const nlohmann::json expected = golden("silero.json");
  const std::vector<float> probabilities = expected.at("probabilities");
  const support::Sound sound = support::read_wav(WEFT_SOURCE_DIR "/tests/weights/speech.wav");
  const std::vector<support::Stretch> found =
      support::speech(probabilities, static_cast<double>(sound.samples.size()) / 16000);
  REQUIRE(found.size() == expected.at("stretches").size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CHECK(found[i].begin == doctest::Approx(expected.at("stretches")[i][0].get<double>()).epsilon(1e-4));
    CHECK(found[i].end == doctest::Approx(expected.at("stretches")[i][1].get<double>()).epsilon(1e-4));
  }
  CHECK(support::speech({}, 0).empty());
  CHECK(support::speech({0.9f, 0.9f}, 0.064).empty());  // too short
  const auto open = support::speech(std::vector<float>(20, 0.9f), 0.6);
  REQUIRE(open.size() == 1);
  CHECK(open[0].begin == 0);
  CHECK(open[0].end == 0.6);
}

TEST_CASE("WAV files of every kind") {
  const auto i16 = [](std::initializer_list<std::int16_t> values) {
    std::string all;
    for (const std::int16_t v : values) all += bytes_of(v);
    return all;
  };
  CHECK(samples_of(wav(1, 1, 8000, 16, i16({0, 16384, -32768}))) == std::vector<float>{0, 0.5f, -1});
  CHECK(samples_of(wav(1, 2, 8000, 16, i16({16384, 0, -16384, -16384}))) == std::vector<float>{0.25f, -0.5f});
  CHECK(samples_of(wav(1, 1, 8000, 8, std::string("\x80\xc0\x00", 3))) == std::vector<float>{0, 0.5f, -1});
  CHECK(samples_of(wav(1, 1, 8000, 24, std::string("\x00\x00\x40\x00\x00\x80", 6))) == std::vector<float>{0.5f, -1});
  CHECK(samples_of(wav(1, 1, 8000, 32, bytes_of(1 << 30))) == std::vector<float>{0.5f});
  CHECK(samples_of(wav(3, 1, 8000, 32, bytes_of(0.25f))) == std::vector<float>{0.25f});
  CHECK(samples_of(wav(3, 1, 8000, 64, bytes_of(-0.25))) == std::vector<float>{-0.25f});
  CHECK(samples_of(wav(1, 1, 8000, 16, "")).empty());
}

TEST_CASE("files that are no WAV, cut, or of another kind") {
  const std::string whole = wav(1, 1, 16000, 16, std::string(100, 'a'));
  CHECK(refused("") == " is no WAV file");
  CHECK(refused("RIFF") == " is no WAV file");
  CHECK(refused("an MP3 file, say, or a text") == " is no WAV file");
  for (const std::size_t cut : {13u, 30u, 40u, 60u, 100u}) {
    CAPTURE(cut);
    const std::string why = refused(whole.substr(0, cut));
    CHECK((why == " ends too early" || why == " has no sound in it"));
  }
  CHECK(refused(wav(2, 1, 16000, 4, "abcd")) == " holds sound in a format that is not read");
  CHECK(refused(wav(1, 0, 16000, 16, "abcd")) == " holds sound in a format that is not read");
  CHECK(refused(wav(1, 1, 16000, 12, "abcd")) == " holds sound in a format that is not read");
  CHECK(message_of([] { support::read_wav("/nonexistent.wav"); }) == "/nonexistent.wav can't be read");
}
