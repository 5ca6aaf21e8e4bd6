#include "examples/models/whisper.hpp"

#include "tests/models/support.hpp"

namespace models_test {
namespace {

TEST_CASE("Whisper: Hugging Face's losses, logits and gradients, for any number of sounds of any length") {
  const auto loss = [](models::Whisper& model, const List& in) {
    const Tensor text = in[1], logits = model(in[0], slice(text, 1, 0, -1));
    return std::pair{nn::cross_entropy(flatten(logits, 0, 1), flatten(slice(text, 1, 1, Dim::end()))), logits};
  };
  const models::WhisperConfig config{
      .vocab_size = 19, .mel_bins = 6, .frames = 20, .context = 12, .width = 16, .layers = 2, .heads = 4};
  const auto inputs = [](std::int64_t batch, std::int64_t frames, std::int64_t length) {
    return List{values("spectrogram", {batch, 6, frames}), integers("tokens", {batch, length}, 19)};
  };
  check_model("whisper", models::Whisper(config), inputs(2, 20, 9), loss,
              {.renames = models::whisper_names, .others = {inputs(3, 12, 5), inputs(5, 18, 11), inputs(4, 8, 10)}});
}

}  // namespace
}  // namespace models_test
