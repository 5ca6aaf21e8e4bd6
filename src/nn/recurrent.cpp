#include "weft/nn/recurrent.hpp"

#include <cmath>

#include "base/number_checks.hpp"
#include "record/autocast.hpp"
#include "record/products.hpp"
#include "weft/loops.hpp"
#include "weft/nn/dropout.hpp"

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
DType common_dtype(const char* name, const Recurrent& layers, const Tensor& x, const Tensor& h_0, const Tensor& c_0) {
  DType common = type_of(x).dtype;
  const auto join = [&](const Tensor& each) {
    if (!each.defined()) return;
    common = promote({common, false, false}, {autocast_dtype(name, type_of(each).dtype), false, false});
  };
  join(h_0), join(c_0);
  for (const RecurrentWeights& own : layers.weights)
    for (const Param* each : {&own.weight_ih, &own.weight_hh, &own.bias_ih, &own.bias_hh}) join(each->tensor());
  return common;
}

// `step` gives the next state from the gates of the input, those of the state, and the state.
template <class Step>
Outcome run(const char* name, const Recurrent& layers, At input, const Tensor& h_0, const Tensor& c_0, Loc loc,
            Step step) {
  Tensor x = resolve(input, name);
  Type type = type_of(x);
  const Type weights = type_of(layers.weights[0].weight_ih.tensor());
  const int rank = type.shape.rank();
  if ((rank != 2 && rank != 3) || !(type.shape[rank - 1] == weights.shape[1]))
    fail(name, loc, "takes [L, N, ", dims::to_string(weights.shape[1]),
         "], batch and steps in the order that batch_first says, or [L, ", dims::to_string(weights.shape[1]),
         "]: the input is ", to_string(type));
  type.dtype = common_dtype(name, layers, x, h_0, c_0);
  x = cast(x, type.dtype);
  const bool batched = rank == 3;
  if (!batched) x = unsqueeze(x, 1);
  if (batched && layers.batch_first) x = transpose(x, 0, 1);
  const Shapes shapes{batched, type_of(x).shape[1],
                      static_cast<std::int64_t>(type_of(layers.weights[0].weight_hh.tensor()).shape[1])};
  const auto places = static_cast<std::int64_t>(layers.weights.size());
  check_start(name, "h_0", h_0, places, shapes, loc), check_start(name, "c_0", c_0, places, shapes, loc);
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
      auto [last, hs] = scan(
          [&](HiddenState state, const Tensor& from_input) {
            const auto in = [](const Tensor& each, DType dtype) { return each.defined() ? cast(each, dtype) : each; };
            const DType wide = dtype_of_sums(type.dtype);
            const HiddenState next = step(from_input, product(name, state.h, own.weight_hh, own.bias_hh),
                                          {in(state.h, wide), in(state.c, wide)}, shapes.hidden);
            state = {in(next.h, type.dtype), in(next.c, type.dtype)};
            return std::pair{state, state.h};
          },
          first, all, {.reverse = direction == 1}, loc);
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
RecurrentResult RNN::operator()(At x, const Tensor& h_0) const {
  LooseComposite call("RNN", x.loc);
  const Outcome outcome = run("RNN", layers, x, h_0, {}, call.loc(), RnnStep{nonlinearity});
  return {outcome.output, stack(outcome.h)};
}

LSTM::LSTM(std::int64_t input_size, std::int64_t hidden_size, RecurrentOptions options, Loc loc)
    : layers("LSTM", input_size, hidden_size, 4, options, loc) {}
LstmResult LSTM::operator()(At x, const Tensor& h_0, const Tensor& c_0) const {
  LooseComposite call("LSTM", x.loc);
  const Outcome outcome = run("LSTM", layers, x, h_0, c_0, call.loc(), LstmStep());
  return {outcome.output, stack(outcome.h), stack(outcome.c)};
}

GRU::GRU(std::int64_t input_size, std::int64_t hidden_size, RecurrentOptions options, Loc loc)
    : layers("GRU", input_size, hidden_size, 3, options, loc) {}
RecurrentResult GRU::operator()(At x, const Tensor& h_0) const {
  LooseComposite call("GRU", x.loc);
  const Outcome outcome = run("GRU", layers, x, h_0, {}, call.loc(), GruStep());
  return {outcome.output, stack(outcome.h)};
}

}  // namespace weft::nn
