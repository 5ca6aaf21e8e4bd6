// Gradients of embeddings that stay rows: what an optimizer makes of them is, bit for bit, what it makes of the dense
// gradient, for the rows that were read; the cost is that of these rows; what reads the gradient otherwise sees the
// dense one. PyTorch's numbers: golden_test.cpp.
#include <doctest/doctest.h>

#include <vector>

#include "base/storage.hpp"
#include "record/evaluate.hpp"
#include "record/row_gradients.hpp"
#include "tests/needs_compiler.hpp"
#include "tests/trace/support.hpp"
#include "weft/compile.hpp"
#include "weft/explain.hpp"
#include "weft/grad.hpp"
#include "weft/grad_scaler.hpp"
#include "weft/nn.hpp"
#include "weft/optim.hpp"

namespace weft {
namespace {

using trace_test::contains;
using trace_test::message_of;

template <class F>
void refused(F bad, const char* words) {
  const std::string message = message_of(bad);
  CAPTURE(message);
  CHECK(contains(message, words));
}
Tensor vector(std::vector<std::int64_t> numbers) {
  return constant(numbers, {static_cast<std::int64_t>(numbers.size())});
}
std::vector<double> numbers(const Tensor& x) {
  std::vector<double> result(static_cast<std::size_t>(x.element_count().constant()));
  cast(x, DType::f64).copy_to(result);
  return result;
}
bool same(const Tensor& a, const Tensor& b) { return a.dtype() == b.dtype() && numbers(a) == numbers(b); }
const void* place_of(const nn::Embedding& table) { return storage_of(table.weight)->data; }

nn::Embedding table_of(bool sparse, std::int64_t rows, std::int64_t width, Options options = {}) {
  nn::Embedding table(rows, width, {.sparse = sparse, .options = options});
  Generator generator(7);
  nn::initialize(table, generator);
  table.weight.tensor().eval();
  return table;
}
// A step on sum(sin(rows at index) * scale).
template <class Model, class Optimizer>
Tensor step_of(Model& model, Optimizer& optimizer, const Tensor& index, const Tensor& scale) {
  auto [loss, gradients] =
      value_and_grad([&](const Model& m) { return sum(sin(m(index)) * cast(scale, m.weight->dtype())); }, model);
  optimizer.update(model, gradients);
  return loss;
}

// Steps on each index lead to the same table with the gradient as rows and with the dense one; eager and compiled.
template <class Make>
void check_as_dense(Make make, const std::vector<Tensor>& indices, Options options, std::int64_t rows = 9,
                    std::int64_t width = 5) {
  CAPTURE(static_cast<int>(options.dtype));
  nn::Embedding dense = table_of(false, rows, width, options), sparse = table_of(true, rows, width, options),
                compiled = sparse, dynamic = sparse;
  auto of_dense = make(dense), of_sparse = make(sparse), of_compiled = make(compiled), of_dynamic = make(dynamic);
  using Optimizer = decltype(of_dense);
  auto step = compile(step_of<nn::Embedding, Optimizer>);
  auto any = compile(step_of<nn::Embedding, Optimizer>, {.dynamic = true});
  Generator generator(3);
  for (const Tensor& index : indices) {
    Shape shape = index.shape();
    shape.push_back(width);
    const Tensor scale = normal(shape, 0, 1, generator);
    const Tensor loss = step_of(dense, of_dense, index, scale);
    CHECK(same(step_of(sparse, of_sparse, index, scale), loss));
    step(compiled, of_compiled, index, scale);
    any(dynamic, of_dynamic, index, scale);
    CHECK(same(sparse.weight, dense.weight));
    CHECK(same(compiled.weight, dense.weight));
    CHECK(same(dynamic.weight, dense.weight));
  }
}

nn::Embedding gradient(const nn::Embedding& table) {
  return grad([](const nn::Embedding& m) { return sum(sin(m(vector({4, 1, 4})))); }, table);
}

const auto sgd = [](const auto& m) { return optim::SGD(m, {.lr = 0.25}); };
const auto adam = [](const auto& m) { return optim::Adam(m, {.lr = 0.1}); };
const auto adagrad = [](const auto& m) { return optim::Adagrad(m, {.lr = 0.1}); };

}  // namespace

TEST_CASE("SGD and Adagrad give what they give of the dense gradient: repeated rows, many axes, no rows, all dtypes") {
  const std::vector<Tensor> indices = {vector({4, 1, 4, 7, 4, 1}), reshape(vector({8, 0, 0, 3, 3, 3}), {2, 3}),
                                       vector({}), vector({5}), vector({6, 6})};
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    check_as_dense(sgd, indices, {dtype});
    check_as_dense(adagrad, indices, {dtype});
  }
  std::vector<std::int64_t> many;
  for (std::int64_t i = 0; i < 5000; ++i) many.push_back(i * i % 331);
  check_as_dense(sgd, {vector(many)}, {}, 331, 67);
}

TEST_CASE("Adam gives what it gives of the dense gradient where each step has every row") {
  const std::vector<Tensor> indices = {vector({0, 1, 2, 3, 4, 5, 6, 7, 8}),
                                       vector({8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 8, 0}),
                                       vector({2, 1, 0, 5, 4, 3, 8, 7, 6})};
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) check_as_dense(adam, indices, {dtype});
}

TEST_CASE("rows that a step does not read keep their bits and their moments") {
  nn::Embedding table = table_of(true, 6, 4);
  auto optimizer = adam(table);
  auto step = compile(step_of<nn::Embedding, optim::Adam>);
  const auto row = [&](int i) { return numbers(table.weight.tensor()[i]); };
  step(table, optimizer, vector({1, 3}), ones({2, 4}));
  const auto first = row(1), third = row(3), other = row(2);
  step(table, optimizer, vector({3, 3, 5}), ones({3, 4}));
  CHECK(row(1) == first);  // a dense Adam would go on by the momentum
  CHECK(row(2) == other);
  CHECK(row(3) != third);
}

TEST_CASE("a step of rows writes where the table and the moments lie, and makes no table" *
          test::needs(test::a_compiler)) {
  constexpr std::int64_t rows = 1 << 16, width = 32;
  const auto check = [&](auto make) {
    nn::Embedding table = table_of(true, rows, width);
    auto optimizer = make(table);
    using Optimizer = decltype(optimizer);
    auto step = compile(step_of<nn::Embedding, Optimizer>);
    const Tensor index = vector({3, 70, 3, 60000}), scale = ones({4, width});
    step(table, optimizer, index, scale);
    const void* const place = place_of(table);
    step(table, optimizer, index, scale);
    CHECK(place_of(table) == place);
    CHECK(explain(step, table, optimizer, index, scale).arena_bytes < 1 << 16);  // the table has 8 MB
    // What somebody else holds stays as it was.
    const Tensor before = table.weight, copy = (before * 1).eval();
    step(table, optimizer, index, scale);
    CHECK(same(before, copy));
    CHECK(!same(table.weight, copy));

    nn::Embedding plain = table_of(true, rows, width);
    auto eager = make(plain);
    step_of(plain, eager, index, scale).eval();
    const void* const own = place_of(plain);
    step_of(plain, eager, index, scale).eval();
    CHECK(place_of(plain) == own);
  };
  check(sgd);
  check(adam);
  check(adagrad);
}

TEST_CASE("a gradient of rows is the dense one to all who read it, and looking at it changes no step") {
  nn::Embedding dense = table_of(false, 9, 5), sparse = table_of(true, 9, 5), seen = table_of(true, 9, 5);
  constexpr auto read = [](const nn::Embedding& table) {
    const Tensor g = gradient(table).weight;
    return std::vector{g, g + table.weight, sum(square(g), 0), transpose(g)[2], g * 0.5 + g};
  };
  const std::vector<Tensor> expected = read(dense), found = read(sparse), compiled = compile(read)(sparse);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(same(found[i], expected[i]));
    CHECK(same(compiled[i], expected[i]));
  }
  auto one = adam(sparse), other = adam(seen);
  for (int i = 0; i < 2; ++i) {
    one.update(sparse, gradient(sparse));
    nn::Embedding g = gradient(seen);
    CHECK(max(abs(g.weight)).item() > 0);
    other.update(seen, g);
    CHECK(same(seen.weight, sparse.weight));
  }
  // The derivative of the gradient.
  const auto twice = [&](const nn::Embedding& table) {
    return grad([&](const nn::Embedding& m) { return sum(pow(gradient(m).weight, 3)); }, table).weight.tensor();
  };
  CHECK(same(twice(sparse), twice(table_of(true, 9, 5))) == false);  // it has been trained
  CHECK(same(twice(table_of(true, 9, 5)), twice(dense)));
}

TEST_CASE("a table that is read twice: both gradients' rows; beside a dense gradient, the dense sum") {
  struct Model {
    nn::Embedding table;
    bool tied;
    Tensor operator()(const Tensor& index) const {
      const Tensor rows = table(index) * 2 + table(index + 1);
      return tied ? matmul(rows, transpose(table.weight)) : rows;
    }
    WEFT_MEMBERS(table, tied)
  };
  const Tensor index = vector({1, 4, 1});
  for (const bool tied : {false, true}) {
    CAPTURE(tied);
    const auto trained = [&](bool sparse, bool compiled) {
      Model model{table_of(sparse, 9, 5, {DType::f64}), tied};
      // Small integers: sums are exact in any order.
      model.table.weight = cast(cast(model.table.weight * 3, DType::i64), DType::f64);
      auto optimizer = sgd(model);
      const auto f = [](Model& m, optim::SGD& optimizer, const Tensor& index) {
        optimizer.update(m, grad([&](const Model& m) { return sum(square(m(index))); }, m));
      };
      compiled ? compile(f)(model, optimizer, index) : f(model, optimizer, index);
      return model.table.weight.tensor();
    };
    const Tensor expected = trained(false, false);
    CHECK(same(trained(true, false), expected));
    CHECK(same(trained(true, true), expected));
  }
}

TEST_CASE("bags of rows, and a padding row, which stays") {
  const Tensor index = vector({4, 1, 4, 0, 2, 2, 8}), offsets = vector({0, 3, 3, 5});
  for (const nn::BagMode mode : {nn::BagMode::mean, nn::BagMode::sum, nn::BagMode::max}) {
    const auto trained = [&](bool sparse) {
      nn::EmbeddingBag bag(9, 5, {.mode = mode, .padding_idx = 2, .sparse = sparse});
      Generator generator(5);
      nn::initialize(bag, generator);
      auto optimizer = sgd(bag);
      auto step = compile([](nn::EmbeddingBag& bag, optim::SGD& optimizer, const Tensor& index, const Tensor& offsets) {
        optimizer.update(bag, grad([&](const nn::EmbeddingBag& m) { return sum(sin(m(index, offsets))); }, bag));
      });
      step(bag, optimizer, index, offsets);
      return bag.weight.tensor();
    };
    CHECK(same(trained(true), trained(false)));
    CHECK(max(abs(trained(true)[2])).item() == 0);
  }
  nn::Embedding table(9, 5, {.padding_idx = 4, .sparse = true});
  auto optimizer = adam(table);
  step_of(table, optimizer, index, ones({7, 5}));
  CHECK(max(abs(table.weight.tensor()[4])).item() == 0);
}

// A step on sum(sin(rows at index)) times a scale.
Tensor scaled_step_of(nn::Embedding& table, optim::SGD& optimizer, GradScaler& scaler, const Tensor& index) {
  auto [loss, gradients] =
      value_and_grad([&](const nn::Embedding& m) { return scaler.scale(sum(sin(m(index)))); }, table);
  gradients = scaler.unscale(gradients);
  scaler.step(optimizer, table, gradients);
  scaler.update();
  return loss;
}
TEST_CASE("a GradScaler leaves the rows of a gradient rows") {
  const Tensor index = vector({3, 1, 3});
  nn::Embedding dense = table_of(false, 9, 5), sparse = table_of(true, 9, 5), compiled = sparse;
  GradScaler scaler({.init_scale = 4});
  const auto gradients = grad([&](const nn::Embedding& m) { return scaler.scale(sum(sin(m(index)))); }, sparse);
  CHECK(is_row_gradient(*gradients.weight->node()));
  const auto unscaled = scaler.unscale(gradients);
  CHECK(is_row_gradient(*unscaled.weight->node()));
  CHECK(same(unscaled.weight, gradients.weight / 4));
  scaler.unscale(nn::Embedding{gradients}.weight / 0.0);
  CHECK(scaler.found_inf().item<bool>());

  optim::SGD of_dense(dense), of_sparse = of_dense, of_compiled = of_dense;
  GradScaler one({.init_scale = 4}), two = one, three = one;
  auto step = compile(scaled_step_of);
  for (int t = 0; t < 2; ++t) {
    scaled_step_of(dense, of_dense, one, index);
    scaled_step_of(sparse, of_sparse, two, index);
    step(compiled, of_compiled, three, index);
    CHECK(same(sparse.weight, dense.weight));
    CHECK(same(compiled.weight, dense.weight));
  }
  // An optimizer that would change other rows refuses these, so they have come to it.
  optim::SGD with_momentum(sparse, {.momentum = 0.5});
  refused([&] { scaled_step_of(sparse, with_momentum, two, index); }, "is rows alone (sparse), and a momentum");
  refused([&] { step(sparse, with_momentum, two, index); }, "is rows alone (sparse), and a momentum");
}

TEST_CASE("a step of SGD on rows has no check of a weight decay that is 0 from the start") {
  nn::Embedding table = table_of(true, 9, 5);
  const Tensor index = vector({1, 2}), scale = ones({2, 5});
  auto step = compile(step_of<nn::Embedding, optim::SGD>);
  const auto checks = [&](optim::SGD optimizer) {
    const std::string graph = explain(step, table, optimizer, index, scale).graph;
    int count = 0;
    for (std::size_t at = graph.find(" check"); at != std::string::npos; at = graph.find(" check", at + 1)) ++count;
    return count;
  };
  optim::SGD optimizer(table), decays(table, {.weight_decay = 0.1});
  decays.weight_decay = 0;
  CHECK(checks(optimizer) == 1);  // of the index
  CHECK(checks(decays) == 2);
  step(table, optimizer, index, scale);
  step(table, decays, index, scale);
  // One that comes later is refused as before, and leaves the table as it is.
  const Tensor before = (table.weight * 1).eval();
  optimizer.weight_decay = 0.1;
  refused([&] { step(table, optimizer, index, scale); }, "and weight decay would change the others too");
  CHECK(same(table.weight, before));
  optimizer.weight_decay = 0;
  step(table, optimizer, index, scale);
  CHECK(specialization_count(step) == 2);
}

TEST_CASE("what would change rows without a gradient is refused, and changes nothing") {
  nn::Embedding table = table_of(true, 9, 5);
  const Tensor index = vector({1, 2}), scale = ones({2, 5}), before = (table.weight * 1).eval();
  const auto check = [&](auto optimizer, const char* text) {
    using Optimizer = decltype(optimizer);
    refused([&] { step_of(table, optimizer, index, scale); }, text);
    auto step = compile(step_of<nn::Embedding, Optimizer>);
    refused([&] { step(table, optimizer, index, scale); }, text);
    CHECK(same(table.weight, before));
  };
  check(optim::SGD(table, {.momentum = 0.9}),
        "the gradient of parameter 0 (weight) is rows alone (sparse), and a momentum would change the others too");
  check(optim::SGD(table, {.weight_decay = 0.1}), "and weight decay would change the others too");
  check(optim::Adam(table, {.weight_decay = 0.1}), "and weight decay would change the others too");
  check(optim::AdamW(table), "and weight decay would change the others too");
  check(optim::AdamW(table, {.weight_decay = 0}, {{"weight", {.weight_decay = 0.1}}}), "and weight decay would change");
  check(optim::Adagrad(table, {.weight_decay = 0.1}), "and weight decay would change the others too");
  check(optim::RMSprop(table), "and this optimizer would change the others too: make the embedding dense");
  check(optim::Lion(table), "and this optimizer would change");
  check(optim::LAMB(table), "and this optimizer would change");
  check(optim::Adafactor(table), "and this optimizer would change");
  check(optim::Muon(table), "and this optimizer would change");

  // An index that is no row: neither the table nor the count of steps moves on.
  auto optimizer = adam(table);
  auto step = compile(step_of<nn::Embedding, optim::Adam>);
  refused([&] { step(table, optimizer, vector({1, 9}), scale); }, "[embedding] an index is out of range [0, 9)");
  refused([&] { step_of(table, optimizer, vector({-1, 2}), scale); }, "[embedding] an index is out of range [0, 9)");
  CHECK(same(table.weight, before));
  CHECK(optimizer.steps.item() == 0);
}

}  // namespace weft
