// A language model of LSTM layers (Zaremba and others 2014), whose state goes on from one piece of text to the next.
// Parameters have the names of PyTorch's modules encoder, rnn and decoder.
#pragma once
#include <vector>

#include <weft/weft.hpp>

namespace models {

using namespace weft;

struct LstmLanguageModelConfig {
  std::int64_t vocab_size = 33278, width = 650, hidden = 650, layers = 2;
  double dropout = 0.5;
};

struct LstmLanguageModel {
  struct State {
    Tensor h, c;  // [layers, N, hidden]
  };

  explicit LstmLanguageModel(const LstmLanguageModelConfig& c = {})
      : config(c),
        encoder(c.vocab_size, c.width),
        drop(c.dropout),
        rnn(c.width, c.hidden, {.num_layers = c.layers, .dropout = c.dropout}),
        decoder(c.hidden, c.vocab_size) {
    encoder.weight = uniform({c.vocab_size, c.width}, -0.1, 0.1);
    decoder.weight = uniform({c.vocab_size, c.hidden}, -0.1, 0.1);
  }

  // Tokens, integers [L, N], and the state before them, which becomes the one after them: logits [L, N, vocab_size] of
  // the token after each. No gradient flows into an earlier call.
  Tensor operator()(const Tensor& tokens, State& state) const {
    auto [output, h, c] = rnn(drop(encoder(tokens)), stop_gradient(state.h), stop_gradient(state.c));
    state = {h, c};
    return decoder(drop(output));
  }
  State make_state(Dim batch) const {
    const Tensor zero =
        zeros({config.layers, batch, config.hidden}, {encoder.weight->dtype(), encoder.weight->device()});
    return {zero, zero};
  }

  LstmLanguageModelConfig config;
  nn::Embedding encoder;
  nn::Dropout drop;
  nn::LSTM rnn;
  nn::Linear decoder;
  WEFT_MEMBERS(config, encoder, drop, rnn, decoder)
};

// For io::load of PyTorch's files.
inline const std::vector<io::Renamed> lstm_language_model_names = {
    {"rnn.layers.weights.*.weight_ih", "rnn.weight_ih_l*"},
    {"rnn.layers.weights.*.weight_hh", "rnn.weight_hh_l*"},
    {"rnn.layers.weights.*.bias_ih", "rnn.bias_ih_l*"},
    {"rnn.layers.weights.*.bias_hh", "rnn.bias_hh_l*"}};

}  // namespace models
