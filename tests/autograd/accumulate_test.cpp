// accumulate: what a loop over microbatches gives, in the memory of one.
#include "weft/accumulate.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>
#include <string>

#include "tests/on_the_host.hpp"
#include "tests/record/refused.hpp"
#include "weft/compile.hpp"
#include "weft/explain.hpp"
#include "weft/nn.hpp"
#include "weft/optim.hpp"

using namespace weft;
using weft::test::refused;

namespace {

struct Net {
  nn::Linear first{6, 16}, second{16, 3};
  Buffer seen = zeros({});
  Scalar calls = 0;
  Tensor operator()(const Tensor& x) const { return second(relu(first(x))); }
};
Tensor loss_of(const Net& net, const Tensor& x, const Tensor& y) { return nn::cross_entropy(net(x), y); }
Tensor counted_loss(Net& net, const Tensor& x, const Tensor& y) {
  net.seen = net.seen + sum(x);
  net.calls += 1;
  return nn::cross_entropy(net(x), y);
}
struct Data {
  Tensor x, y;
};
// Bytes of temporaries, outside loops and in a loop's body, as a schedule says where they lie.
struct Planned {
  std::int64_t outside = 0, inside = 0;
};
Planned planned(const std::string& schedule) {
  Planned result;
  std::istringstream lines(schedule);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find("temporary at ");
    if (at == std::string::npos) continue;
    const std::size_t count = line.find(" x ", at);
    const std::int64_t end = std::stoll(line.substr(at + 13)) + 4 * std::stoll(line.substr(count + 3));
    std::int64_t& bytes = line[0] == ' ' ? result.inside : result.outside;
    bytes = std::max(bytes, end);
  }
  return result;
}
struct Deep {
  std::vector<nn::Linear> layers = std::vector<nn::Linear>(4, nn::Linear(64, 64));
};
Tensor deep_loss(const Deep& m, const Tensor& x) {
  Tensor y = x;
  for (const nn::Linear& layer : m.layers) y = tanh(layer(y));
  return mean(square(y));
}
Data data(std::int64_t size) {
  seed(3);
  const Tensor x = normal({size, 6});
  return {x, argmax(slice(x, 1, 0, 3), 1)};
}
Net net_of(DType dtype = DType::f32) {
  seed(1);
  Net net;
  nn::to(net, dtype);
  return net;
}
double distance(const Net& a, const Net& b) {
  double result = 0;
  tree::for_each(a, b, [&](const Param& p, const Param& q) {
    result = std::max(result, max(abs(cast(p, DType::f64) - cast(q, DType::f64))).item());
  });
  return result;
}

}  // namespace

TEST_CASE("accumulate gives the loss and the gradients of the whole batch, or sums, eagerly and compiled") {
  const Net net = net_of(DType::f64);
  const Data d{cast(data(24).x, DType::f64), data(24).y};
  const auto whole = value_and_grad([&](const Net& n) { return loss_of(n, d.x, d.y); }, net);
  const auto mean = [](const Net& net, const Tensor& x, const Tensor& y) { return accumulate(8, loss_of, net, x, y); };
  const auto sum = [](const Net& net, const Tensor& x, const Tensor& y) {
    return accumulate({8, Accumulation::sum}, loss_of, net, x, y);
  };
  const auto check = [&](const auto& found, double factor) {
    CHECK(found.value.item() == doctest::Approx(factor * whole.value.item()).epsilon(1e-12));
    Net expected = whole.gradients;
    tree::for_each(expected, [&](Param& p) { p = p * factor; });
    CHECK(distance(found.gradients, expected) < 1e-12);
    CHECK(found.gradients.first.weight->dtype() == DType::f64);
    CHECK(!found.gradients.seen.tensor().defined());
  };
  check(mean(net, d.x, d.y), 1);
  check(compile(mean)(net, d.x, d.y), 1);
  check(sum(net, d.x, d.y), 8);
  check(compile(sum)(net, d.x, d.y), 8);
  check(accumulate(1, loss_of, net, d.x, d.y), 1);
  check(accumulate(
            4, [](const Net& n, const Data& d) { return loss_of(n, d.x, d.y); }, net, d),
        1);
}

TEST_CASE("accumulate: frozen parameters, and what f writes into the model is what the next part reads") {
  const Data d = data(24);
  Net one = net_of(), other = one, compiled = one;
  for (Net* net : {&one, &other, &compiled}) net->first.bias.frozen = true;
  Tensor loss = zeros({});
  for (int i = 0; i < 4; ++i)
    loss = loss + value_and_grad(
                      [&](Net& n) {
                        return counted_loss(n, slice(d.x, 0, 6 * i, 6 * i + 6), slice(d.y, 0, 6 * i, 6 * i + 6));
                      },
                      one)
                      .value;
  const auto found = accumulate(4, counted_loss, other, d.x, d.y);
  auto step =
      compile([](Net& net, const Tensor& x, const Tensor& y) { return accumulate(4, counted_loss, net, x, y); });
  const auto again = step(compiled, d.x, d.y);
  CHECK(!found.gradients.first.bias.tensor().defined());
  CHECK(found.gradients.first.bias.frozen);
  for (const Net* net : {&other, &compiled}) {
    CHECK(net->seen.tensor().item() == doctest::Approx(one.seen.tensor().item()));
    CHECK(net->calls.item() == 4);
    CHECK(distance(*net, one) == 0);
  }
  CHECK(again.value.item() == doctest::Approx(loss.item() / 4));
}

TEST_CASE("accumulate: what f returns beside the loss is that of each part") {
  struct Found {
    Tensor loss, logits, right;
    WEFT_MEMBERS(loss, logits, right)
  };
  const Net net = net_of();
  const Data d = data(24);
  static constexpr auto f = [](const Net& n, const Tensor& x, const Tensor& y) {
    const Tensor logits = n(x);
    return Found{nn::cross_entropy(logits, y), logits, sum(cast(argmax(logits, 1) == y, DType::i64))};
  };
  const auto parts = [](const Net& n, const Tensor& x, const Tensor& y) { return accumulate(4, f, n, x, y); };
  const auto alone = accumulate(4, loss_of, net, d.x, d.y);
  const auto compiled = compile(parts);
  for (const auto& found : {parts(net, d.x, d.y), compiled(net, d.x, d.y)}) {
    CHECK(found.value.loss.item() == doctest::Approx(alone.value.item()));
    CHECK(distance(found.gradients, alone.gradients) < 1e-6);
    CHECK(found.value.logits.shape() == Shape::of(4, 6, 3));
    CHECK(max(abs(reshape(found.value.logits, {24, 3}) - net(d.x))).item() < 1e-5);
    CHECK(sum(found.value.right).item<std::int64_t>() ==
          sum(cast(argmax(net(d.x), 1) == d.y, DType::i64)).item<std::int64_t>());
  }
  const auto [value, gradients] = accumulate(
      {2, Accumulation::sum},
      [](const Net& n, const Tensor& x) {
        return std::pair{sum(n(x)), mean(x)};
      },
      net, d.x);
  CHECK(value.first.item() == doctest::Approx(sum(net(d.x)).item()));
  CHECK(value.second.shape() == Shape::of(2));
}

TEST_CASE("accumulate: each part draws numbers of its own") {
  const Net net = net_of();
  const auto drawn = [](const Net& net, const Tensor& x) {
    const auto loss = [](const Net& n, const Tensor& x) {
      return sum(dropout(ones({64}), 0.5, true) * arange(64)) * sum(x) + sum(n.first.weight) * 0;
    };
    return accumulate({2, Accumulation::sum}, loss, net, x).value;
  };
  const Tensor x = from_list<float>({1, -1});  // of equal masks the sum is 0
  CHECK(drawn(net, x).item() != 0);
  CHECK(compile(drawn)(net, x).item() != 0);
}

TEST_CASE("accumulate: gradients of bf16 are added up in f32 and rounded once") {
  const Net net = net_of(DType::bf16);
  const Data d{cast(data(24).x, DType::bf16), data(24).y};
  const auto found = accumulate(8, loss_of, net, d.x, d.y);
  CHECK(found.gradients.first.weight->dtype() == DType::bf16);
  const auto whole = value_and_grad([&](const Net& n) { return loss_of(n, d.x, d.y); }, net);
  CHECK(distance(found.gradients, whole.gradients) < 4e-3);
}

TEST_CASE("accumulate: a training step plans the memory of one part, and the gradients") {
  Deep model;
  const Tensor x = normal({8 * 256, 64});
  auto parts = compile([](const Deep& m, const Tensor& x) { return accumulate(8, deep_loss, m, x); });
  auto one = compile(
      [](const Deep& m, const Tensor& x) { return value_and_grad([&](const Deep& m) { return deep_loss(m, x); }, m); });
  const Planned of_parts = planned(explain(parts, model, x).schedule),
                of_one = planned(explain(one, model, slice(x, 0, 0, 256)).schedule);
  const std::int64_t gradients = 4 * 4 * (64 * 64 + 64);
  // The loop holds what one part holds; around it are the sums, which begin as zeros in the same memory.
  CHECK(of_parts.inside > 0);
  CHECK(of_parts.inside <= of_one.outside + gradients);
  if (test::in_least_memory()) CHECK(of_parts.outside <= gradients + 512);  // the losses, in whole blocks of 64 bytes
}

TEST_CASE("accumulate: what adds gradients up has the user's line") {
  const Net net = net_of();
  const int line = __LINE__ + 1;
  auto f = compile([](const Net& n, const Tensor& x, const Tensor& y) { return accumulate(4, loss_of, n, x, y); });
  const std::string here = concat_text("accumulate_test.cpp:", line, " accumulate");
  const std::string graph = explain(f, net, data(8).x, data(8).y).graph;
  CAPTURE(graph);
  int sums = 0;
  for (std::size_t at = 0; (at = graph.find(" add(", at)) != std::string::npos; ++at)
    sums += graph.substr(at, graph.find('\n', at) - at).ends_with(here);
  CHECK(sums == 4);  // of two weights and two biases
}

TEST_CASE("accumulate refuses what it can't cut") {
  const Net net = net_of();
  const Data d = data(24);
  const auto product = [](const Net& n, const Tensor& x) { return sum(n(ones({1, 6})) * x); };
  refused([&] { accumulate(5, loss_of, net, d.x, d.y); },
          "[accumulate] a batch of 24 can't be cut into 5 microbatches of one size");
  refused([&] { accumulate(0, loss_of, net, d.x, d.y); }, "the count of microbatches must be positive, it is 0");
  refused([&] { accumulate(2, product, net, ones({})); },
          "[accumulate] a tensor of the batch is f32[]: it has no axis to be cut; let f capture it");
}
