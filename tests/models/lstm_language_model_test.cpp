#include "examples/models/lstm_language_model.hpp"

#include "tests/models/support.hpp"

namespace models_test {
namespace {

using Model = models::LstmLanguageModel;

TEST_CASE("LSTM language model: PyTorch's losses, logits, states and gradients, for texts of any length") {
  const auto loss = [](Model& model, const List& in) {
    Model::State state{in[1], in[2]};
    const Tensor text = in[0], logits = model(slice(text, 0, 0, -1), state);
    return std::pair{nn::cross_entropy(flatten(logits, 0, 1), flatten(slice(text, 0, 1, Dim::end()))),
                     concat({flatten(logits), flatten(state.h), flatten(state.c)}, 0)};
  };
  const auto inputs = [](std::int64_t length, std::int64_t batch) {
    return List{integers("tokens", {length, batch}, 19), values("h", {2, batch, 12}), values("c", {2, batch, 12})};
  };
  check_model("lstm_language_model", Model({.vocab_size = 19, .width = 10, .hidden = 12, .layers = 2, .dropout = 0}),
              inputs(8, 3), loss,
              {.renames = models::lstm_language_model_names, .others = {inputs(5, 2), inputs(13, 7), inputs(10, 4)}});
}

}  // namespace
}  // namespace models_test
