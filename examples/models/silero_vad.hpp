// Silero VAD (version 6, 16 kHz): the probability that somebody speaks, for windows of 32 ms in their order. Parameters
// have the names of its safetensors file.
#pragma once
#include <vector>

#include <weft/weft.hpp>

namespace models {

using namespace weft;

struct SileroVad {
  static constexpr std::int64_t rate = 16000, window = 512,
                                context = 64;  // samples; those before a window are its context

  struct State {  // of the recurrent layer, [1, 1, width]
    Tensor h, c;
    WEFT_MEMBERS(h, c)
  };

  SileroVad() : SileroVad(default_generator()) {}
  explicit SileroVad(Generator& g)
      : stft_conv(1, 2 * frequencies, 256, {.stride = 128, .bias = false}),
        conv1(frequencies, 128, 3, {.padding = 1}),
        conv2(128, 64, 3, {.stride = 2, .padding = 1}),
        conv3(64, 64, 3, {.stride = 2, .padding = 1}),
        conv4(64, width, 3, {.padding = 1}),
        lstm_cell(width, width),
        final_conv(width, 1, 1) {
    nn::initialize(*this, g);
  }

  // Windows of samples with their context, [windows, context + window], and the state before them, which becomes the
  // state after them: probabilities [windows].
  Tensor operator()(const Tensor& samples, State& state) const {
    const Tensor x = unsqueeze(pad(samples, {0, 64}, Pads::reflect), 1);
    const Tensor waves = stft_conv(x);  // cosines, then sines
    const Tensor real = slice(waves, 1, 0, frequencies), imaginary = slice(waves, 1, frequencies, 2 * frequencies);
    const Tensor magnitude = sqrt(square(real) + square(imaginary));
    const Tensor features = squeeze(relu(conv4(relu(conv3(relu(conv2(relu(conv1(magnitude)))))))), -1);
    auto [output, h, c] = lstm_cell(unsqueeze(features, 1), state.h, state.c);  // the windows are the sequence
    state = {h, c};
    return sigmoid(reshape(final_conv(relu(transpose(output, 1, 2))), {-1}));
  }
  State make_state() const {
    const Tensor zero = zeros({1, 1, width}, {conv1.weight->dtype(), conv1.weight->device()});
    return {zero, zero};
  }

  static constexpr std::int64_t frequencies = 129, width = 128;
  nn::Conv1d stft_conv, conv1, conv2, conv3, conv4;
  nn::LSTM lstm_cell;
  nn::Conv1d final_conv;
  WEFT_MEMBERS(stft_conv, conv1, conv2, conv3, conv4, lstm_cell, final_conv)
};

// For io::load of its file.
inline const std::vector<io::Renamed> silero_vad_names = {{"lstm_cell.layers.weights.0.*", "lstm_cell.*"}};

}  // namespace models
