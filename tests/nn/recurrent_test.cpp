// RNN, LSTM and GRU against PyTorch's: results and all gradients, compiled and eager.
#include "tests/loops/support.hpp"
#include "tests/record/refused.hpp"

using namespace weft;
using weft::test::refused;

namespace {

const std::vector<double> golden[] = {
#include "tests/nn/recurrent_golden.inc"
};

Tensor wave(const Sizes& sizes, int seed) {
  std::int64_t count = 1;
  for (const Dim size : sizes.shape()) count *= static_cast<std::int64_t>(size);
  return reshape(sin(cast(arange(count), DType::f64) * 0.7 + seed) * 0.6, sizes);
}

constexpr std::int64_t steps = 4, in = 3, hidden = 2;

template <class Layer>
struct Case {
  Layer layer;
  Tensor x, h_0, c_0;
};

std::vector<Tensor> values_of(const Case<nn::LSTM>& c) {
  const nn::LstmResult result = c.layer(c.x, c.h_0, c.c_0);
  return {result.output, result.h_n, result.c_n};
}
template <class Layer>
std::vector<Tensor> values_of(const Case<Layer>& c) {
  const nn::RecurrentResult result = c.layer(c.x, c.h_0);
  return {result.output, result.h_n};
}

// The results, and the gradients of their sum with other waves, in PyTorch's order of parameters.
template <class Layer>
std::vector<Tensor> results_and_gradients(const Case<Layer>& c) {
  std::vector<Tensor> values = values_of(c), inputs{c.x, c.h_0};
  if (c.c_0.defined()) inputs.push_back(c.c_0);
  for (const auto& parameter : nn::parameters(c.layer)) inputs.push_back(parameter.value);
  const std::vector<Tensor> gradients = grad(
      [&](const std::vector<Tensor>& inputs) {
        Case<Layer> moved = c;
        moved.x = inputs[0], moved.h_0 = inputs[1];
        std::size_t next = 2;
        if (c.c_0.defined()) moved.c_0 = inputs[next++];
        for (auto& parameter : nn::parameters(moved.layer)) parameter.value = Param(inputs[next++]);
        const std::vector<Tensor> values = values_of(moved);
        Tensor loss = full({}, 0, {DType::f64});
        for (std::size_t i = 0; i < values.size(); ++i)
          loss = loss + sum(values[i] * wave(values[i].shape(), 50 + static_cast<int>(i)));
        return loss;
      },
      inputs);
  values.insert(values.end(), gradients.begin(), gradients.end());
  return values;
}

template <class Layer>
void check(std::size_t number, Layer layer, const nn::RecurrentOptions& options, std::int64_t batch) {
  CAPTURE(number);
  int seed = 0;
  for (auto& parameter : nn::parameters(layer)) parameter.value.tensor() = wave(parameter.value->shape(), seed++);
  const std::int64_t places = options.num_layers * (options.bidirectional ? 2 : 1);
  const Sizes states = batch ? Sizes{places, batch, hidden} : Sizes{places, hidden};
  Case<Layer> c{layer, {}, wave(states, 40), {}};
  c.x = wave(batch == 0            ? Sizes{steps, in}
             : options.batch_first ? Sizes{batch, steps, in}
                                   : Sizes{steps, batch, in},
             30);
  if (std::is_same_v<Layer, nn::LSTM>) c.c_0 = wave(states, 41);
  for (const Backend backend : {Backend::compiled, Backend::eager}) {
    std::vector<double> numbers;
    for (const Tensor& value : compile(results_and_gradients<Layer>, {.backend = backend})(c))
      for (const double each : value.data<double>()) numbers.push_back(each);
    REQUIRE(numbers.size() == golden[number].size());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      CAPTURE(i);
      CHECK(numbers[i] == doctest::Approx(golden[number][i]).epsilon(1e-9));
    }
  }
}

nn::RecurrentOptions with(std::int64_t layers, bool bias, bool batch_first, bool bidirectional) {
  return {layers, bias, batch_first, bidirectional, {DType::f64}};
}

}  // namespace

TEST_CASE("RNN, LSTM and GRU give PyTorch's results and gradients") {
  const auto rnn = [](std::size_t number, nn::RNN::Nonlinearity which, const nn::RecurrentOptions& options, int batch) {
    check(number, nn::RNN(in, hidden, which, options), options, batch);
  };
  rnn(0, nn::RNN::Nonlinearity::tanh, with(1, true, false, false), 2);
  rnn(1, nn::RNN::Nonlinearity::relu, with(2, true, true, false), 3);
  rnn(2, nn::RNN::Nonlinearity::tanh, with(1, false, false, true), 0);
  const auto lstm = [](std::size_t number, const nn::RecurrentOptions& options, int batch) {
    check(number, nn::LSTM(in, hidden, options), options, batch);
  };
  lstm(3, with(1, true, false, false), 2);
  lstm(4, with(2, true, false, true), 2);
  lstm(5, with(1, false, true, false), 3);
  const auto gru = [](std::size_t number, const nn::RecurrentOptions& options, int batch) {
    check(number, nn::GRU(in, hidden, options), options, batch);
  };
  gru(6, with(1, true, false, false), 2);
  gru(7, with(2, true, true, true), 2);
  gru(8, with(3, true, false, false), 0);
}

TEST_CASE("recurrent layers: initial values, states that are zeros, and what is refused") {
  nn::GRU layer(5, 4, {.num_layers = 2, .bidirectional = true});
  for (const auto& parameter : nn::parameters(layer)) CHECK(max(abs(parameter.value)).item() <= 0.5);
  CHECK(layer.layers.weights[2].weight_ih->shape() == Shape::of(12, 8));
  Generator first(1), second(1);
  nn::initialize(layer, first);
  nn::GRU other(5, 4, {.num_layers = 2, .bidirectional = true});
  nn::initialize(other, second);
  const Tensor x = uniform({7, 2, 5});
  loops_test::check_close(layer(x).output, other(x, zeros({4, 2, 4})).output, 0);
  CHECK(layer(x).output.shape() == Shape::of(7, 2, 8));
  refused([&] { layer(ones({7, 2, 4})); }, "[GRU] takes [L, N, 5]");
  refused([&] { layer(x, ones({4, 3, 4})); }, "h_0 is f32[4,3,4], not [4, 2, 4]");
  refused([&] { nn::LSTM(0, 4); }, "[LSTM] sizes must be positive");
}

TEST_CASE("recurrent layers: dtypes of input, weights and states promote, as those of Linear do") {
  const auto check = [](const auto& layer, const Tensor& x, DType wanted) {
    const auto narrow = layer(x);
    const auto wide = layer(cast(x, wanted));
    CHECK(narrow.output.dtype() == wanted);
    CHECK(narrow.h_n.dtype() == wanted);
    loops_test::check_close(narrow.output, wide.output, 0);
  };
  const Tensor x = uniform({4, 3, 2});
  const nn::LSTM lstm(2, 3, {.num_layers = 2, .bidirectional = true});
  for (const DType dtype : {DType::bf16, DType::f16}) {
    check(lstm, cast(x, dtype), DType::f32);
    check(nn::GRU(2, 3), cast(x, dtype), DType::f32);
    check(nn::RNN(2, 3), cast(x, dtype), DType::f32);
    check(nn::GRU(2, 3, {.options = {dtype}}), x, DType::f32);
    CHECK(lstm(cast(x, dtype)).c_n.dtype() == DType::f32);
    CHECK(nn::LSTM(2, 3, {.options = {dtype}})(cast(x, dtype)).output.dtype() == dtype);
  }
  check(lstm, cast(x, DType::f64), DType::f64);
  const Tensor start = zeros({4, 3, 3}, {DType::bf16});
  loops_test::check_close(lstm(x, start, start).output, lstm(x).output, 0);
  CHECK(nn::GRU(2, 3)(x, zeros({1, 3, 3}, {DType::f64})).output.dtype() == DType::f64);
}
