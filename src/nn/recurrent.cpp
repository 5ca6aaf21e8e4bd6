#include "weft/nn/recurrent.hpp"

#include <cmath>
#include <span>

#include "base/fail.hpp"
#include "base/number_checks.hpp"
#include "record/autocast.hpp"
#include "record/indexing.hpp"
#include "record/products.hpp"
#include "weft/loops.hpp"
#include "weft/nn/cells.hpp"
#include "weft/nn/dropout.hpp"
#include "weft/nn/packed.hpp"

namespace weft::nn {
namespace {

Tensor initial(const Sizes& sizes, std::int64_t hidden, Generator& generator, const Options& options, Loc loc) {
  const double bound = 1 / std::sqrt(static_cast<double>(hidden));
  return uniform(sizes, -bound, bound, generator, options, loc);
}

// x W^T + b over the last axis of [N, in], of 16-bit floats in f32: a step rounds its new state, and nothing before.
Tensor product(const char* name, const Tensor& x, const Param& weight, const Param& bias) {
  const Tensor y = accumulated_matmul(x, transpose(resolve(weight, name)), {});
  return bias.tensor().defined() ? y + bias : y;
}

struct HiddenState {
  Tensor h, c;  // c: of LSTM alone
};

// Block `which` of as many as `gates` has along the last axis.
Tensor gate(const Tensor& gates, std::int64_t hidden, std::int64_t which) {
  return slice(gates, -1, which * hidden, (which + 1) * hidden);
}

struct Shapes {
  bool batched;
  Dim batch;
  std::int64_t hidden;
};

// What a layer remembers at first: slice `place` of `given`, or zeros.
Tensor start(const Tensor& given, std::int64_t place, const Shapes& shapes, const Type& like, Loc loc) {
  if (!given.defined()) return zeros({shapes.batch, shapes.hidden}, {like.dtype, like.device}, loc);
  const Tensor own = cast(select(given, 0, place), like.dtype);
  return shapes.batched ? own : unsqueeze(own, 0);
}

void check_start(const char* name, const char* what, const Tensor& given, std::int64_t places, const Shapes& shapes,
                 Loc loc) {
  if (!given.defined()) return;
  const Shape& shape = type_of(given).shape;
  const int rank = shapes.batched ? 3 : 2;
  if (shape.rank() == rank && shape[0] == Dim(places) && shape[rank - 1] == Dim(shapes.hidden) &&
      (!shapes.batched || shape[1] == shapes.batch))
    return;
  fail(name, loc, what, " is ", to_string(type_of(given)), ", not [", places, shapes.batched ? ", " : "",
       shapes.batched ? dims::to_string(shapes.batch) : "", ", ", shapes.hidden, "]");
}

struct Outcome {
  Tensor output;
  std::vector<Tensor> h, c;
};

// What input, weights and states promote to: a state begins and ends a step in one dtype.
DType common_dtype(const char* name, std::span<const RecurrentWeights> weights, const Tensor& x, const Tensor& h_0,
                   const Tensor& c_0) {
  DType common = type_of(x).dtype;
  const auto join = [&](const Tensor& each) {
    if (!each.defined()) return;
    common = promote({common, false, false}, {autocast_dtype(name, type_of(each).dtype), false, false});
  };
  join(h_0), join(c_0);
  for (const RecurrentWeights& own : weights)
    for (const Param* each : {&own.weight_ih, &own.weight_hh, &own.bias_ih, &own.bias_hh}) join(each->tensor());
  return common;
}

// The next state of this dtype. `step` gives it from the gates of the input, those of the state, and the state.
template <class Step>
HiddenState next_state(const char* name, const RecurrentWeights& own, const Tensor& from_input,
                       const HiddenState& state, std::int64_t hidden, DType dtype, Step step) {
  const auto in = [](const Tensor& each, DType dtype) { return each.defined() ? cast(each, dtype) : each; };
  const DType wide = dtype_of_sums(dtype);
  const HiddenState next = step(from_input, product(name, state.h, own.weight_hh, own.bias_hh),
                                {in(state.h, wide), in(state.c, wide)}, hidden);
  return {in(next.h, dtype), in(next.c, dtype)};
}

// [L, N, 1] of lengths [N]: whether a step is one of the sample's. Undefined where there are no lengths.
Tensor valid_steps(const char* name, const Tensor& lengths, const Tensor& x, const Shapes& shapes, Loc loc) {
  if (!lengths.defined()) return {};
  const Type type = type_of(lengths);
  if (!is_integer(type.dtype) || type.shape.rank() != 1 || !shapes.batched || !(type.shape[0] == shapes.batch))
    fail(name, loc, "lengths are integers [", dims::to_string(shapes.batch), "] of a batch: they are ",
         to_string(type));
  const Dim steps = type_of(x).shape[0];
  const Tensor counts = cast(lengths, DType::i64);
  require(all((counts >= 1) & (counts <= steps)), name, loc, "a length is not from 1 to the number of steps");
  const Tensor at = reshape(arange(0, steps, 1, {DType::i64, type.device}, loc), {steps, 1, 1});
  return at < reshape(counts, {1, shapes.batch, 1});
}

template <class Step>
Outcome run(const char* name, const Recurrent& layers, At input, const Tensor& h_0, const Tensor& c_0,
            const Tensor& lengths, Loc loc, Step step) {
  Tensor x = resolve(input, name);
  Type type = type_of(x);
  const Type weights = type_of(layers.weights[0].weight_ih.tensor());
  const int rank = type.shape.rank();
  if ((rank != 2 && rank != 3) || !(type.shape[rank - 1] == weights.shape[1]))
    fail(name, loc, "takes [L, N, ", dims::to_string(weights.shape[1]),
         "], batch and steps in the order that batch_first says, or [L, ", dims::to_string(weights.shape[1]),
         "]: the input is ", to_string(type));
  type.dtype = common_dtype(name, layers.weights, x, h_0, c_0);
  x = cast(x, type.dtype);
  const bool batched = rank == 3;
  if (!batched) x = unsqueeze(x, 1);
  if (batched && layers.batch_first) x = transpose(x, 0, 1);
  const Shapes shapes{batched, type_of(x).shape[1],
                      static_cast<std::int64_t>(type_of(layers.weights[0].weight_hh.tensor()).shape[1])};
  const auto places = static_cast<std::int64_t>(layers.weights.size());
  check_start(name, "h_0", h_0, places, shapes, loc), check_start(name, "c_0", c_0, places, shapes, loc);
  const Tensor valid = valid_steps(name, lengths, x, shapes, loc);
  if (valid.defined()) x = where(valid, x, 0);
  const std::int64_t directions = layers.bidirectional ? 2 : 1;
  Outcome outcome;
  for (std::int64_t place = 0; place < places; place += directions) {
    std::vector<Tensor> outputs;
    for (std::int64_t direction = 0; direction < directions; ++direction) {
      const std::int64_t at = place + direction;
      const RecurrentWeights& own = layers.weights[static_cast<std::size_t>(at)];
      const Tensor gates = product(name, flatten(x, 0, 1), own.weight_ih, own.bias_ih);
      const Tensor all = reshape(gates, {type_of(x).shape[0], shapes.batch, gates.size(1)});
      HiddenState first{start(h_0, at, shapes, type, loc), {}};
      if (Step::has_cell) first.c = start(c_0, at, shapes, type, loc);
      struct Slice {
        Tensor gates, valid;  // [N, ...], [N, 1]
      };
      auto [last, hs] = scan(
          [&](HiddenState state, const Slice& slice) {
            const HiddenState next = next_state(name, own, slice.gates, state, shapes.hidden, type.dtype, step);
            if (!slice.valid.defined()) return std::pair{next, next.h};
            const Tensor output = where(slice.valid, next.h, 0);
            state.h = where(slice.valid, next.h, state.h);
            if (Step::has_cell) state.c = where(slice.valid, next.c, state.c);
            return std::pair{state, output};
          },
          first, Slice{all, valid}, {.reverse = direction == 1}, loc);
      outputs.push_back(hs);
      outcome.h.push_back(last.h), outcome.c.push_back(last.c);
    }
    x = directions == 1 ? outputs[0] : concat(outputs, -1);
    if (place + directions < places && layers.dropout > 0) x = weft::dropout(x, layers.dropout, layers.training);
  }
  outcome.output = !batched ? squeeze(x, 1) : layers.batch_first ? transpose(x, 0, 1) : x;
  if (!batched)
    for (std::vector<Tensor>* states : {&outcome.h, &outcome.c})
      for (Tensor& state : *states)
        if (state.defined()) state = squeeze(state, 0);
  return outcome;
}

struct RnnStep {
  static constexpr bool has_cell = false;
  RNN::Nonlinearity nonlinearity;
  HiddenState operator()(const Tensor& from_input, const Tensor& from_state, const HiddenState&, std::int64_t) const {
    const Tensor sum = from_input + from_state;
    return {nonlinearity == RNN::Nonlinearity::tanh ? tanh(sum) : relu(sum), {}};
  }
};
struct LstmStep {
  static constexpr bool has_cell = true;
  HiddenState operator()(const Tensor& from_input, const Tensor& from_state, const HiddenState& state,
                         std::int64_t hidden) const {
    const Tensor gates = from_input + from_state;
    const Tensor i = sigmoid(gate(gates, hidden, 0)), f = sigmoid(gate(gates, hidden, 1)),
                 g = tanh(gate(gates, hidden, 2)), o = sigmoid(gate(gates, hidden, 3));
    const Tensor c = f * state.c + i * g;
    return {o * tanh(c), c};
  }
};
struct GruStep {
  static constexpr bool has_cell = false;
  HiddenState operator()(const Tensor& from_input, const Tensor& from_state, const HiddenState& state,
                         std::int64_t hidden) const {
    const auto both = [&](std::int64_t which) {
      return gate(from_input, hidden, which) + gate(from_state, hidden, which);
    };
    const Tensor r = sigmoid(both(0)), z = sigmoid(both(1));
    const Tensor n = tanh(gate(from_input, hidden, 2) + r * gate(from_state, hidden, 2));
    return {n + z * (state.h - n), {}};
  }
};

}  // namespace

RecurrentWeights::RecurrentWeights(std::int64_t in, std::int64_t hidden, std::int64_t gates,
                                   const RecurrentOptions& options, Loc loc) {
  const auto made = [&](const Sizes& sizes) {
    return initial(sizes, hidden, default_generator(), options.options, loc);
  };
  weight_ih = made({gates * hidden, in}), weight_hh = made({gates * hidden, hidden});
  if (options.bias)
    bias_ih = made({gates * hidden}), bias_hh = made({gates * hidden});
  else
    bias_ih.frozen = bias_hh.frozen = true;
}
void RecurrentWeights::initialize(Generator& generator) {
  const auto hidden = static_cast<std::int64_t>(type_of(weight_hh.tensor()).shape[1]);
  for (Param* param : {&weight_ih, &weight_hh, &bias_ih, &bias_hh}) {
    if (!param->tensor().defined()) continue;
    const Type type = type_of(param->tensor());
    param->tensor() = initial(type.shape, hidden, generator, {type.dtype, type.device}, {});
  }
}

Recurrent::Recurrent(const char* name, std::int64_t input_size, std::int64_t hidden_size, std::int64_t gates,
                     const RecurrentOptions& options, Loc loc)
    : dropout(options.dropout), batch_first(options.batch_first), bidirectional(options.bidirectional) {
  LooseComposite call(name, loc);
  if (input_size < 1 || hidden_size < 1 || options.num_layers < 1)
    fail(name, call.loc(), "sizes must be positive: ", input_size, " in, ", hidden_size, " hidden, ",
         options.num_layers, " layers");
  detail::check_dropout(name, dropout, call.loc());
  const std::int64_t directions = bidirectional ? 2 : 1;
  for (std::int64_t layer = 0; layer < options.num_layers; ++layer)
    for (std::int64_t direction = 0; direction < directions; ++direction)
      weights.emplace_back(layer == 0 ? input_size : directions * hidden_size, hidden_size, gates, options, call.loc());
}

RNN::RNN(std::int64_t input_size, std::int64_t hidden_size, Nonlinearity nonlinearity, RecurrentOptions options,
         Loc loc)
    : layers("RNN", input_size, hidden_size, 1, options, loc), nonlinearity(nonlinearity) {
  check_choice("RNN", "Nonlinearity", nonlinearity, Nonlinearity::relu, loc);
}
RecurrentResult packed(const RNN& layer, At x, const Tensor& lengths, const Tensor& h_0) {
  LooseComposite call("RNN", x.loc);
  const Outcome outcome = run("RNN", layer.layers, x, h_0, {}, lengths, call.loc(), RnnStep{layer.nonlinearity});
  return {outcome.output, stack(outcome.h)};
}
RecurrentResult RNN::operator()(At x, const Tensor& h_0) const { return packed(*this, x, {}, h_0); }

LSTM::LSTM(std::int64_t input_size, std::int64_t hidden_size, RecurrentOptions options, Loc loc)
    : layers("LSTM", input_size, hidden_size, 4, options, loc) {}
LstmResult packed(const LSTM& layer, At x, const Tensor& lengths, const Tensor& h_0, const Tensor& c_0) {
  LooseComposite call("LSTM", x.loc);
  const Outcome outcome = run("LSTM", layer.layers, x, h_0, c_0, lengths, call.loc(), LstmStep());
  return {outcome.output, stack(outcome.h), stack(outcome.c)};
}
LstmResult LSTM::operator()(At x, const Tensor& h_0, const Tensor& c_0) const { return packed(*this, x, {}, h_0, c_0); }

GRU::GRU(std::int64_t input_size, std::int64_t hidden_size, RecurrentOptions options, Loc loc)
    : layers("GRU", input_size, hidden_size, 3, options, loc) {}
RecurrentResult packed(const GRU& layer, At x, const Tensor& lengths, const Tensor& h_0) {
  LooseComposite call("GRU", x.loc);
  const Outcome outcome = run("GRU", layer.layers, x, h_0, {}, lengths, call.loc(), GruStep());
  return {outcome.output, stack(outcome.h)};
}
RecurrentResult GRU::operator()(At x, const Tensor& h_0) const { return packed(*this, x, {}, h_0); }

// ---- one step ------------------------------------------------------------------------------------------------------

namespace {

RecurrentWeights cell_weights(const char* name, std::int64_t in, std::int64_t hidden, std::int64_t gates,
                              const CellOptions& options, Loc loc) {
  const Recurrent layers(name, in, hidden, gates, {.bias = options.bias, .options = options.options}, loc);
  return layers.weights[0];
}

template <class Step>
HiddenState run_cell(const char* name, const RecurrentWeights& weights, At input, Tensor h, Tensor c, Loc loc,
                     Step step) {
  Tensor x = resolve(input, name);
  const Dim in = type_of(weights.weight_ih.tensor()).shape[1];
  const auto hidden = static_cast<std::int64_t>(type_of(weights.weight_hh.tensor()).shape[1]);
  const Type type = type_of(x);
  const int rank = type.shape.rank();
  if ((rank != 1 && rank != 2) || !(type.shape[rank - 1] == in))
    fail(name, loc, "takes [N, ", dims::to_string(in), "], or [", dims::to_string(in), "]: the input is ",
         to_string(type));
  const DType dtype = common_dtype(name, std::span(&weights, 1), x, h, c);
  Shape shape = type.shape;
  shape[rank - 1] = hidden;
  const auto start = [&](const char* what, const Tensor& given) {
    if (given.defined() && !(type_of(given).shape == shape))
      fail(name, loc, what, " is ", to_string(type_of(given)), ", not ", to_string(shape));
    const Tensor own = given.defined() ? cast(given, dtype) : zeros(shape, {dtype, type.device}, loc);
    return rank == 1 ? unsqueeze(own, 0) : own;
  };
  HiddenState state{start("h", h), {}};
  if (Step::has_cell) state.c = start("c", c);
  x = cast(x, dtype);
  if (rank == 1) x = unsqueeze(x, 0);
  const Tensor from_input = product(name, x, weights.weight_ih, weights.bias_ih);
  state = next_state(name, weights, from_input, state, hidden, dtype, step);
  if (rank == 1)
    for (Tensor* each : {&state.h, &state.c})
      if (each->defined()) *each = squeeze(*each, 0);
  return state;
}

}  // namespace

RNNCell::RNNCell(std::int64_t input_size, std::int64_t hidden_size, RNN::Nonlinearity nonlinearity, CellOptions options,
                 Loc loc)
    : weights(cell_weights("RNNCell", input_size, hidden_size, 1, options, loc)), nonlinearity(nonlinearity) {
  check_choice("RNNCell", "Nonlinearity", nonlinearity, RNN::Nonlinearity::relu, loc);
}
Tensor RNNCell::operator()(At x, const Tensor& h) const {
  LooseComposite call("RNNCell", x.loc);
  return run_cell("RNNCell", weights, x, h, {}, call.loc(), RnnStep{nonlinearity}).h;
}

LSTMCell::LSTMCell(std::int64_t input_size, std::int64_t hidden_size, CellOptions options, Loc loc)
    : weights(cell_weights("LSTMCell", input_size, hidden_size, 4, options, loc)) {}
LstmState LSTMCell::operator()(At x, const LstmState& state) const {
  LooseComposite call("LSTMCell", x.loc);
  const HiddenState next = run_cell("LSTMCell", weights, x, state.h, state.c, call.loc(), LstmStep());
  return {next.h, next.c};
}

GRUCell::GRUCell(std::int64_t input_size, std::int64_t hidden_size, CellOptions options, Loc loc)
    : weights(cell_weights("GRUCell", input_size, hidden_size, 3, options, loc)) {}
Tensor GRUCell::operator()(At x, const Tensor& h) const {
  LooseComposite call("GRUCell", x.loc);
  return run_cell("GRUCell", weights, x, h, {}, call.loc(), GruStep()).h;
}

// ---- samples of several lengths ------------------------------------------------------------------------------------

Tensor pad_sequence(const std::vector<Tensor>& samples, bool batch_first, double padding_value, Loc loc) {
  LooseComposite call("pad_sequence", loc);
  if (samples.empty()) fail("pad_sequence", call.loc(), "there are no samples");
  Dim longest = 0;
  for (const Tensor& sample : samples) {
    const Type &type = type_of(resolve(At(sample, call.loc()), "pad_sequence")), &first = type_of(samples[0]);
    bool fits = type.dtype == first.dtype && type.shape.rank() == first.shape.rank() && type.shape.rank() > 0;
    for (int axis = 1; fits && axis < type.shape.rank(); ++axis) fits = type.shape[axis] == first.shape[axis];
    if (!fits)
      fail("pad_sequence", call.loc(), "samples are [L, ...] of one dtype and the same sizes after L: they are ",
           to_string(first), " and ", to_string(type));
    if (longest < type.shape[0]) longest = type.shape[0];
  }
  std::vector<Tensor> padded;
  for (const Tensor& sample : samples) {
    Shape rest = type_of(sample).shape;
    rest[0] = longest - rest[0];
    const Tensor end = full(rest, At(padding_value, call.loc()), {type_of(sample).dtype, type_of(sample).device});
    padded.push_back(concat({sample, end}, 0));
  }
  return stack(padded, batch_first ? 0 : 1);
}

std::vector<Tensor> unpad_sequence(At padded, const std::vector<std::int64_t>& lengths, bool batch_first) {
  LooseComposite call("unpad_sequence", padded.loc);
  const Tensor x = resolve(padded, "unpad_sequence");
  const Shape& shape = type_of(x).shape;
  if (shape.rank() < 2 || !(shape[batch_first ? 0 : 1] == Dim(static_cast<std::int64_t>(lengths.size()))))
    fail("unpad_sequence", call.loc(), "there are ", lengths.size(), " lengths, the samples are ",
         to_string(type_of(x)));
  std::vector<Tensor> samples;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 0 || shape[batch_first ? 1 : 0] < Dim(lengths[i]))
      fail("unpad_sequence", call.loc(), "length ", i, " is ", lengths[i], ", the samples are ", to_string(type_of(x)));
    samples.push_back(slice(select(x, batch_first ? 0 : 1, static_cast<std::int64_t>(i)), 0, 0, lengths[i]));
  }
  return samples;
}

}  // namespace weft::nn
