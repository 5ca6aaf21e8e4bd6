// What needs no weights: the stretches of speech that Silero's own code makes of probabilities, and the reader of WAV
// files.
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
  CHECK(message_of([] {
          support::read_wav("/nonexistent.wav");
        }).starts_with("[read_text] /nonexistent.wav can't be opened: No such file or directory"));
}
