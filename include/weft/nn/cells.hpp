// RNNCell, LSTMCell, GRUCell: one step of a recurrent layer, with the parameters of PyTorch's.
#pragma once
#include "weft/nn/recurrent.hpp"

namespace weft::nn {

// x [N, input_size], or [input_size] of no batch; states [N, hidden_size], or [hidden_size], zeros where they are
// undefined. Formulas, initial values, promotion and errors are those of the layers.

struct CellOptions {  // of RNNCell, LSTMCell and GRUCell
  bool bias = true;   // whether there are bias_ih and bias_hh
  Options options = {};
};

struct RNNCell {       // a step of RNN
  RNNCell() = delete;  // weft: it is made as nn::RNNCell(input_size, hidden_size)
  RNNCell(std::int64_t input_size, std::int64_t hidden_size, RNN::Nonlinearity nonlinearity = RNN::Nonlinearity::tanh,
          CellOptions options = {}, Loc loc = Loc::current());
  // The next state, of the shape of the last.
  Tensor operator()(At x, const Tensor& h = {}) const;

  RecurrentWeights weights;        // of the input and of the state
  RNN::Nonlinearity nonlinearity;  // the function of a step
  WEFT_MEMBERS(weights, nonlinearity)
};

struct LstmState {  // of LSTMCell
  Tensor h, c;      // [N, hidden_size]: the state, which is the output, and the cells
};
struct LSTMCell {       // a step of LSTM
  LSTMCell() = delete;  // weft: it is made as nn::LSTMCell(input_size, hidden_size)
  LSTMCell(std::int64_t input_size, std::int64_t hidden_size, CellOptions options = {}, Loc loc = Loc::current());
  // The next state.
  LstmState operator()(At x, const LstmState& state = {}) const;

  RecurrentWeights weights;  // of the input and of the state
  WEFT_MEMBERS(weights)
};

struct GRUCell {       // a step of GRU
  GRUCell() = delete;  // weft: it is made as nn::GRUCell(input_size, hidden_size)
  GRUCell(std::int64_t input_size, std::int64_t hidden_size, CellOptions options = {}, Loc loc = Loc::current());
  // The next state, of the shape of the last.
  Tensor operator()(At x, const Tensor& h = {}) const;

  RecurrentWeights weights;  // of the input and of the state
  WEFT_MEMBERS(weights)
};

}  // namespace weft::nn
