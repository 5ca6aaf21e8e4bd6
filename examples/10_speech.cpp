// Find where somebody speaks in a recording: Silero VAD with its published weights.
#include <filesystem>

#include "examples/support/speech.hpp"

using namespace weft;

int main(int count, char** arguments) {
  return support::guarded([&] {
    support::Run run;
    std::string folder = WEFT_WEIGHTS "/silero", path;
    double threshold = 0.5;
    bool windows = false;
    support::parse(count, arguments, run,
                   {{"--weights", folder, "FOLDER: what examples/fetch/weights silero has got"},
                    {"--file", path, "FILE: a WAV of 16 kHz"},
                    {"--threshold", threshold, "X: the probability from which a window is speech"},
                    {"--windows", windows, "show the probability of each window of 32 ms"}});
    if (path.empty()) support::fail("--file says which recording");
    const support::Sound sound = support::read_wav(path);
    if (sound.rate != models::SileroVad::rate)
      support::fail(path + " has " + std::to_string(sound.rate) + " samples a second: convert it to 16000 first");
    const std::string weights = folder + "/silero_vad_16k.safetensors";
    if (!std::filesystem::exists(weights))
      support::fail(folder + " has no silero_vad_16k.safetensors: run examples/fetch/weights silero");
    models::SileroVad model;
    io::load(weights, model, {.renames = models::silero_vad_names});
    nn::to(model, run.device());
    if (run.bf16) nn::to(model, DType::bf16);
    const std::vector<float> probabilities = support::speech_probabilities(model, sound.samples);
    if (windows)
      for (const float p : probabilities) std::printf("%.4f\n", static_cast<double>(p));
    const double length = static_cast<double>(sound.samples.size()) / models::SileroVad::rate;
    for (const support::Stretch& each : support::speech(probabilities, length, threshold))
      std::printf("%.2f s to %.2f s\n", each.begin, each.end);
  });
}
