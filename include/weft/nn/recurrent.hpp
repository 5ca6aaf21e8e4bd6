// Recurrent layers: RNN, LSTM, GRU, with the parameters, gates and initial values of PyTorch's. The products of the
// inputs are one for all steps, before the loop, which is a scan.
#pragma once
#include "weft/ops.hpp"
#include "weft/random.hpp"

namespace weft::nn {

struct RecurrentOptions {       // of RNN, LSTM and GRU
  std::int64_t num_layers = 1;  // each reads the output of the one before
  bool bias = true;             // whether there are bias_ih and bias_hh
  bool batch_first = false;     // input and output are [N, L, ...] in the place of [L, N, ...]
  bool bidirectional = false;   // a second set of weights runs from the last step to the first
  Options options = {};
  double dropout = 0;  // probability, in training, of what a layer gives to the next; by the default generator
};

// One direction of one layer. `gates` * hidden rows: a block of hidden rows for each gate.
struct RecurrentWeights {
  RecurrentWeights(std::int64_t in, std::int64_t hidden, std::int64_t gates, const RecurrentOptions& options, Loc loc);
  // Draws all anew, uniform within 1 / sqrt(hidden).
  void initialize(Generator& generator);

  Param weight_ih;  // [gates * hidden, in]: of the input
  Param weight_hh;  // [gates * hidden, hidden]: of the state
  Param bias_ih;    // [gates * hidden]; undefined and frozen where there is none
  Param bias_hh;    // [gates * hidden]; undefined and frozen where there is none
  WEFT_MEMBERS(weight_ih, weight_hh, bias_ih, bias_hh)
};

// What the three have in common: D directions (1 or 2), layers first: weights[layer * D + direction].
struct Recurrent {
  Recurrent(const char* name, std::int64_t input_size, std::int64_t hidden_size, std::int64_t gates,
            const RecurrentOptions& options, Loc loc);

  std::vector<RecurrentWeights> weights;  // of D * num_layers; both directions of a layer are neighbours
  double dropout;                         // probability, in training, of what a layer gives to the next
  bool batch_first;                       // input and output are [N, L, ...] in the place of [L, N, ...]
  bool bidirectional;                     // D is 2, not 1
  bool training = true;
  WEFT_MEMBERS(weights, dropout, batch_first, bidirectional, training)
};

// output [L, N, D * hidden]: of the last layer, all steps, both directions side by side; h_n [num_layers * D, N,
// hidden]: the last step of each. An input [L, in] of no batch gives results without N.
struct RecurrentResult {
  Tensor output;  // [L, N, D * hidden]; [N, L, D * hidden] with batch_first
  Tensor h_n;     // [num_layers * D, N, hidden]: the last state of each layer and direction
};
struct LstmResult {  // of LSTM
  Tensor output;     // as of RecurrentResult
  Tensor h_n;        // as of RecurrentResult
  Tensor c_n;        // the cells' last values, of the shape of h_n
};

// All start uniform within 1 / sqrt(hidden_size). x [L, N, input_size] ([N, L, input_size] with batch_first, [L,
// input_size] of no batch); h_0 and c_0 [num_layers * D, N, hidden_size], zeros where they are undefined. Dtypes of
// input, weights and states promote. Throw Error on sizes that are not positive, and on inputs of other shapes.

// h = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu of that.
struct RNN {
  enum class Nonlinearity : std::uint8_t { tanh, relu };  // the function of a step
  RNN() = delete;                                         // weft: it is made as nn::RNN(input_size, hidden_size)
  RNN(std::int64_t input_size, std::int64_t hidden_size, Nonlinearity nonlinearity = Nonlinearity::tanh,
      RecurrentOptions options = {}, Loc loc = Loc::current());
  // x [L, N, input_size], [N, L, input_size] with batch_first, or [L, input_size] of no batch; h_0 [num_layers * D, N,
  // hidden_size], zeros where it is undefined. Throws Error on other shapes.
  RecurrentResult operator()(At x, const Tensor& h_0 = {}) const;

  Recurrent layers;           // the weights, and what the options say
  Nonlinearity nonlinearity;  // the function of a step
  WEFT_MEMBERS(layers, nonlinearity)
};

// i, f, g, o in this order: c = sigmoid(f) c + sigmoid(i) tanh(g), h = sigmoid(o) tanh(c) (Hochreiter and Schmidhuber
// 1997).
struct LSTM {
  LSTM() = delete;  // weft: it is made as nn::LSTM(input_size, hidden_size)
  LSTM(std::int64_t input_size, std::int64_t hidden_size, RecurrentOptions options = {}, Loc loc = Loc::current());
  // x [L, N, input_size], [N, L, input_size] with batch_first, or [L, input_size] of no batch; h_0 and c_0 [num_layers
  // * D, N, hidden_size], zeros where they are undefined. Throws Error on other shapes.
  LstmResult operator()(At x, const Tensor& h_0 = {}, const Tensor& c_0 = {}) const;

  Recurrent layers;  // the weights, and what the options say
  WEFT_MEMBERS(layers)
};

// r, z, n in this order: n = tanh(W_in x + b_in + sigmoid(r) (W_hn h + b_hn)), h = (1 - sigmoid(z)) n + sigmoid(z) h
// (Cho and others 2014).
struct GRU {
  GRU() = delete;  // weft: it is made as nn::GRU(input_size, hidden_size)
  GRU(std::int64_t input_size, std::int64_t hidden_size, RecurrentOptions options = {}, Loc loc = Loc::current());
  // x [L, N, input_size], [N, L, input_size] with batch_first, or [L, input_size] of no batch; h_0 [num_layers * D, N,
  // hidden_size], zeros where it is undefined. Throws Error on other shapes.
  RecurrentResult operator()(At x, const Tensor& h_0 = {}) const;

  Recurrent layers;  // the weights, and what the options say
  WEFT_MEMBERS(layers)
};

}  // namespace weft::nn
