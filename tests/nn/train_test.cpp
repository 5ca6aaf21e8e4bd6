// A whole training step, forward, backward and update, with dropout: compiled it does what it does eagerly.
#include <doctest/doctest.h>

#include <cmath>

#include "weft/weft.hpp"

namespace weft {
namespace {

struct Network {
  nn::Linear in{12, 16}, out{16, 3};
  Tensor operator()(const Tensor& x, Generator& generator) const { return out(dropout(gelu(in(x)), 0.25, generator)); }
};

template <class Optimizer>
Tensor train_step(Network& network, Optimizer& optimizer, const Tensor& x, const Tensor& y, Generator& generator) {
  auto [loss, gradients] =
      value_and_grad([&](const Network& n) { return nn::cross_entropy(n(x, generator), y); }, network);
  optimizer.update(network, gradients);
  return loss;
}

template <class Optimizer>
void check_training(typename std::type_identity<Optimizer>::type make(const Network&)) {
  Network eager, compiled;
  Generator initial(3), again(3);
  nn::initialize(eager, initial);
  nn::initialize(compiled, again);
  Optimizer eager_optimizer = make(eager), compiled_optimizer = make(compiled);
  Generator eager_generator(5), compiled_generator(5), data(7);
  auto step = compile([](Network& network, Optimizer& optimizer, const Tensor& x, const Tensor& y,
                         Generator& generator) { return train_step(network, optimizer, x, y, generator); },
                      {.on_compile_error = OnFailure::raise});
  Tensor x = normal({32, 12}, 0, 1, data), y = argmax(slice(x, 1, 0, 3));
  double first = 0, last = 0;
  for (int i = 0; i < 40; ++i) {
    if (i == 20) eager_optimizer.lr = compiled_optimizer.lr = 0.01;
    double one = train_step(eager, eager_optimizer, x, y, eager_generator).item();
    double two = step(compiled, compiled_optimizer, x, y, compiled_generator).item();
    CHECK(two == doctest::Approx(one).epsilon(2e-4));  // f32, over up to 40 steps that build on each other
    if (i == 0) CHECK(two == doctest::Approx(one).epsilon(1e-6));
    if (i == 0) first = two;
    last = two;
  }
  CHECK(last < first * 0.7);
  CHECK(specialization_count(step) == 1);  // another learning rate is another value of a Scalar
  Tensor distance = amax(abs(eager.in.weight - compiled.in.weight));
  CHECK(distance.item() < 1e-4);
}

TEST_CASE("AdamW, Adam and SGD train the same eagerly and compiled") {
  check_training<optim::AdamW>([](const Network& n) { return optim::AdamW(n, {.lr = 0.02}); });
  check_training<optim::Adam>([](const Network& n) { return optim::Adam(n, {.lr = 0.02, .weight_decay = 1e-3}); });
  check_training<optim::SGD>([](const Network& n) {
    return optim::SGD(n, {.lr = 0.3, .momentum = 0.9, .weight_decay = 1e-3, .nesterov = true});
  });
}

// The surface's first program, as it is written there.
struct Mlp {
  nn::Linear in{784, 256}, out{256, 10};
  Tensor operator()(const Tensor& x) const { return out(relu(in(x))); }
};
struct Out {
  Tensor loss, logits;
};

TEST_CASE("a step that returns its loss and its logits, under a schedule") {
  Mlp model;
  optim::AdamW opt(model, {.lr = 1e-3});
  auto step = compile([](Mlp& m, optim::AdamW& opt, const Tensor& x, const Tensor& y) {
    auto [o, g] = value_and_grad(
        [&](const Mlp& m) {
          auto z = m(x);
          return Out{nn::cross_entropy(z, y), z};
        },
        m);
    opt.update(m, g);
    return o;
  });
  Generator data(11);
  const Tensor x = uniform({32, 784}, 0, 1, data), y = randint({32}, 0, 10, data);
  double first = 0, last = 0;
  for (int i = 0; i < 8; ++i) {
    const Tensor before = model(x).eval();
    opt.lr = 1e-3 / (i + 1);
    Out o = step(model, opt, x, y);
    CHECK(amax(abs(o.logits - before)).item() <= 1e-5);
    CHECK(o.loss.item() == doctest::Approx(nn::cross_entropy(before, y).item()).epsilon(1e-5));
    (i == 0 ? first : last) = o.loss.item();
  }
  CHECK(last < first * 0.9);
  CHECK(specialization_count(step) == 1);
}

TEST_CASE("the default generator advances over compiled calls as it does eagerly") {
  auto draw = compile([](const Tensor& x) { return dropout(x, 0.5); });
  auto values = [](const Tensor& t) {
    View<const float> view = t.data<float>();
    return std::vector<float>(view.begin(), view.end());
  };
  Tensor x = ones({64});
  seed(4);
  std::vector<float> first = values(dropout(x, 0.5)), second = values(dropout(x, 0.5));
  seed(4);
  CHECK(values(draw(x)) == first);
  CHECK(values(draw(x)) == second);
  CHECK(first != second);
  // A draw that nothing uses advances too.
  auto wasteful = compile([](const Tensor& x) {
    Tensor unused = uniform({3});
    return dropout(x, 0.5);
  });
  seed(4);
  CHECK(values(wasteful(x)) == second);
}

TEST_CASE("frozen layers stay as they are inside a compiled step") {
  Network network;
  nn::freeze(network.in);
  Tensor before = network.in.weight, out_before = network.out.weight;
  optim::SGD optimizer(network, {.lr = 0.1});
  Generator generator(1);
  auto step = compile([](Network& n, optim::SGD& o, const Tensor& x, const Tensor& y, Generator& g) {
    return train_step(n, o, x, y, g);
  });
  step(network, optimizer, ones({4, 12}), arange(4) - arange(4), generator);
  CHECK(amax(abs(network.in.weight - before)).item() == 0);
  CHECK(amax(abs(network.out.weight - out_before)).item() > 0);
}

}  // namespace
}  // namespace weft
