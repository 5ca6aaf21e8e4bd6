// RNN, LSTM and GRU, whole, of several lengths, and one step, against PyTorch's: results and all gradients, compiled
// and eager.
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
  Tensor x, h_0, c_0, lengths = {};
};

std::vector<Tensor> values_of(const Case<nn::LSTM>& c) {
  const nn::LstmResult result = nn::packed(c.layer, c.x, c.lengths, c.h_0, c.c_0);
  return {result.output, result.h_n, result.c_n};
}
std::vector<Tensor> values_of(const Case<nn::LSTMCell>& c) {
  const nn::LstmState next = c.layer(c.x, {c.h_0, c.c_0});
  return {next.h, next.c};
}
std::vector<Tensor> values_of(const Case<nn::RNNCell>& c) { return {c.layer(c.x, c.h_0)}; }
std::vector<Tensor> values_of(const Case<nn::GRUCell>& c) { return {c.layer(c.x, c.h_0)}; }
template <class Layer>
std::vector<Tensor> values_of(const Case<Layer>& c) {
  const nn::RecurrentResult result = nn::packed(c.layer, c.x, c.lengths, c.h_0);
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
void check_case(std::size_t number, const Case<Layer>& c) {
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

template <class Layer>
void check(std::size_t number, Layer layer, const nn::RecurrentOptions& options, std::int64_t batch,
           const std::vector<std::int64_t>& lengths = {}) {
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
  if (!lengths.empty()) c.lengths = from_span(std::span<const std::int64_t>(lengths), {batch});
  check_case(number, c);
}

template <class Cell>
void check_cell(std::size_t number, Cell cell, std::int64_t batch) {
  CAPTURE(number);
  int seed = 0;
  for (auto& parameter : nn::parameters(cell)) parameter.value.tensor() = wave(parameter.value->shape(), seed++);
  const auto sizes = [&](std::int64_t last) { return batch ? Sizes{batch, last} : Sizes{last}; };
  Case<Cell> c{cell, wave(sizes(in), 30), wave(sizes(hidden), 40), {}};
  if (std::is_same_v<Cell, nn::LSTMCell>) c.c_0 = wave(sizes(hidden), 41);
  check_case(number, c);
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

TEST_CASE("samples of several lengths: results and gradients of PyTorch's packed sequences") {
  const nn::RecurrentOptions plain = with(1, true, false, false), deep = with(2, true, false, true),
                             both = with(1, true, true, true);
  check(9, nn::RNN(in, hidden, nn::RNN::Nonlinearity::tanh, plain), plain, 3, {2, 4, 1});
  check(10, nn::LSTM(in, hidden, deep), deep, 3, {3, 1, 4});
  check(11, nn::GRU(in, hidden, both), both, 2, {2, 3});
}

TEST_CASE("RNNCell, LSTMCell and GRUCell give PyTorch's results and gradients") {
  const nn::CellOptions biased{true, {DType::f64}}, plain{false, {DType::f64}};
  check_cell(12, nn::RNNCell(in, hidden, nn::RNN::Nonlinearity::tanh, biased), 2);
  check_cell(13, nn::RNNCell(in, hidden, nn::RNN::Nonlinearity::relu, plain), 0);
  check_cell(14, nn::LSTMCell(in, hidden, biased), 3);
  check_cell(15, nn::LSTMCell(in, hidden, plain), 0);
  check_cell(16, nn::GRUCell(in, hidden, biased), 2);
  check_cell(17, nn::GRUCell(in, hidden, biased), 0);
}

TEST_CASE("what a sample has after its length changes nothing, not even where it is NaN") {
  nn::LSTM layer(in, hidden, {.num_layers = 2, .bidirectional = true});
  const Tensor lengths = from_list<std::int64_t>({2, 4}), x = uniform({steps, 2, in});
  const Tensor valid = unsqueeze(arange(steps), 1) < unsqueeze(lengths, 0);
  const auto with = [&](double end) { return where(unsqueeze(valid, -1), x, end); };
  for (const Backend backend : {Backend::compiled, Backend::eager}) {
    auto found = compile(
        [](const nn::LSTM& layer, const Tensor& x, const Tensor& lengths) {
          const auto loss = [&](const nn::LSTM& l) {
            const nn::LstmResult r = nn::packed(l, x, lengths);
            return sum(square(r.output)) + sum(r.h_n) + sum(r.c_n);
          };
          return value_and_grad(loss, layer);
        },
        {.backend = backend});
    const auto [value, gradients] = found(layer, with(0), lengths);
    const auto [other, others] = found(layer, with(NAN), lengths);
    CHECK(value.item() == other.item());
    for (std::size_t i = 0; i < layer.layers.weights.size(); ++i)
      loops_test::check_close(gradients.layers.weights[i].weight_ih, others.layers.weights[i].weight_ih, 0);
  }
  // Each sample alone, as long as it is.
  const nn::LstmResult all = nn::packed(layer, x, lengths);
  for (std::int64_t i = 0; i < 2; ++i) {
    const std::int64_t own = i == 0 ? 2 : 4;
    const nn::LstmResult alone = layer(slice(select(x, 1, i), 0, 0, own));
    loops_test::check_close(slice(select(all.output, 1, i), 0, 0, own), alone.output, 1e-6);
    loops_test::check_close(select(all.h_n, 1, i), alone.h_n, 1e-6);
  }
  CHECK(max(abs(slice(select(all.output, 1, 0), 0, 2, 4))).item() == 0);
  refused([&] { nn::packed(layer, x, from_list<std::int64_t>({0, 4})).output.eval(); }, "a length is not from 1");
  refused([&] { nn::packed(layer, x, from_list<std::int64_t>({2, 5})).output.eval(); }, "a length is not from 1");
  refused([&] { nn::packed(layer, x, from_list<std::int64_t>({2})); }, "[LSTM] lengths are integers [2] of a batch");
  refused([&] { nn::packed(layer, x, ones({2})); }, "they are f32[2]");
}

TEST_CASE("pad_sequence and unpad_sequence") {
  const std::vector<Tensor> samples = {uniform({2, 3}), uniform({4, 3}), uniform({0, 3})};
  const Tensor padded = nn::pad_sequence(samples, false, -1);
  CHECK(padded.shape() == Shape::of(4, 3, 3));
  CHECK(max(slice(select(padded, 1, 0), 0, 2, 4)).item() == -1);
  CHECK(nn::pad_sequence(samples, true).shape() == Shape::of(3, 4, 3));
  for (const bool batch_first : {false, true}) {
    const std::vector<Tensor> back = nn::unpad_sequence(nn::pad_sequence(samples, batch_first), {2, 4, 0}, batch_first);
    REQUIRE(back.size() == 3);
    for (std::size_t i = 0; i < 2; ++i) loops_test::check_close(back[i], samples[i], 0);
    CHECK(back[2].shape() == Shape::of(0, 3));
  }
  refused([&] { nn::pad_sequence({}); }, "[pad_sequence] there are no samples");
  refused([&] { nn::pad_sequence({ones({2, 3}), ones({2, 4})}); }, "they are f32[2,3] and f32[2,4]");
  refused([&] { nn::unpad_sequence(padded, {2, 4}); }, "[unpad_sequence] there are 2 lengths");
  refused([&] { nn::unpad_sequence(padded, {2, 5, 0}); }, "[unpad_sequence] length 1 is 5");
}

TEST_CASE("cells: a step of the layer, states that are zeros, and what is refused") {
  const nn::GRUCell cell(5, 4);
  const Tensor x = uniform({3, 5});
  loops_test::check_close(cell(x), cell(x, zeros({3, 4})), 0);
  refused([&] { cell(ones({3, 4})); }, "[GRUCell] takes [N, 5], or [5]: the input is f32[3,4]");
  refused([&] { cell(x, ones({2, 4})); }, "[GRUCell] h is f32[2,4], not [3,4]");
  refused([&] { nn::LSTMCell(5, 0); }, "[LSTMCell] sizes must be positive");
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
