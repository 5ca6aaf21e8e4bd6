// value_and_grad and grad as users meet them: what is differentiated, what comes back, and what is refused.
#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <tuple>

#include "passes/regions.hpp"
#include "record/evaluate.hpp"
#include "tests/autograd/support.hpp"
#include "tests/message_of.hpp"
#include "weft/nn.hpp"

namespace weft::test {
namespace {

std::vector<double> values(const Tensor& tensor) {
  Tensor reals = cast(tensor, DType::f64);
  View<const double> view = reals.data<double>();
  return {view.begin(), view.end()};
}
using Numbers = std::vector<double>;

Tensor vector(std::initializer_list<double> numbers) {
  return from_list<double>(numbers, {static_cast<std::int64_t>(numbers.size())});
}

struct Layer {
  Param weight, bias;
};
struct Model {
  Layer first, second;
  Buffer count;
  Tensor scale;
};
Model make_model() {
  return {
      {vector({1, 2}), vector({3, 4})}, {vector({5, 6}), vector({7, 8})}, full({}, 0, {DType::f64}), vector({2, 2})};
}
Tensor loss_of(const Model& m) { return sum(m.first.weight * m.second.weight * m.scale) + sum(square(m.first.bias)); }

TEST_CASE("a parameter that is undefined has no gradient, frozen or not") {
  struct Layer {
    Param weight = full({2}, 3), bias;
  } layer;
  const auto gradients = grad(
      [](const Layer& l) {
        CHECK(!l.bias.tensor().defined());
        return sum(l.weight * l.weight);
      },
      layer);
  CHECK(gradients.weight.tensor()[0].item() == 6);
  CHECK(!gradients.bias.tensor().defined());
  struct Empty {
    Param bias;
  } empty;
  CHECK_THROWS_AS(grad([](const Empty&) { return full({}, 1); }, empty), Error);
}

TEST_CASE("gradients have the model's own type") {
  Model model = make_model();
  auto [loss, gradients] = value_and_grad(loss_of, model);
  CHECK(loss.item() == 2 * (5 + 12) + 9 + 16);
  CHECK(values(gradients.first.weight) == Numbers{10, 12});
  CHECK(values(gradients.second.weight) == Numbers{2, 4});
  CHECK(values(gradients.first.bias) == Numbers{6, 8});
  CHECK(values(gradients.second.bias) == Numbers{0, 0});  // does not reach the loss
  CHECK(!gradients.count.tensor().defined());
  CHECK(!gradients.scale.defined());
}

TEST_CASE("frozen parameters get no gradient and no work") {
  Model model = make_model();
  model.first.weight.frozen = true;
  Model gradients = grad(loss_of, model);
  CHECK(!gradients.first.weight.tensor().defined());
  CHECK(gradients.first.weight.frozen);
  CHECK(values(gradients.second.weight) == Numbers{2, 4});
}

TEST_CASE("the places are as before, also when f throws, and buffers keep what f wrote") {
  Model model = make_model();
  Tensor weight = model.first.weight;
  auto f = [](Model& m) {
    m.count = m.count + 1;
    m.first.weight = m.first.weight * 2;
    return loss_of(m);
  };
  Model gradients = grad(f, model);
  CHECK(model.first.weight.tensor().same(weight));
  CHECK(values(gradients.first.weight) == Numbers{20, 24});
  CHECK(model.count.tensor().item() == 1);

  auto throws = [](Model& m) -> Tensor {
    m.second.weight = m.first.weight * 2;
    throw std::runtime_error("mine");
  };
  CHECK_THROWS_WITH(value_and_grad(throws, model), "mine");
  CHECK(model.first.weight.tensor().same(weight));
  CHECK(values(model.second.weight) == Numbers{5, 6});
  CHECK(values(grad(loss_of, model).first.weight) == Numbers{10, 12});  // and the next one works
}

TEST_CASE("a model that is const is copied") {
  const Model model = make_model();
  CHECK(values(grad([](const Model& m) { return loss_of(m); }, model).first.weight) == Numbers{10, 12});
  CHECK(values(grad(loss_of, make_model()).first.weight) == Numbers{10, 12});
}

TEST_CASE("tensors, parameters, scalars, vectors and tuples") {
  Tensor x = vector({1, 2, 3});
  CHECK(values(grad([](const Tensor& v) { return sum(v * v); }, x)) == Numbers{2, 4, 6});
  Param p = x;
  CHECK(values(grad([](const Tensor& v) { return sum(v * v); }, p)) == Numbers{2, 4, 6});
  CHECK(grad([](const Scalar& s) { return s.tensor() * s; }, Scalar(3.0)).item() == 6);
  std::vector<Tensor> several = {x, x * 2};
  std::vector<Tensor> gradients = grad([](const std::vector<Tensor>& v) { return sum(v[0] * v[1]); }, several);
  CHECK(values(gradients[0]) == Numbers{2, 4, 6});
  CHECK(values(gradients[1]) == Numbers{1, 2, 3});
  auto [a, b] =
      grad([](const std::tuple<Tensor, Tensor>& t) { return sum(get<0>(t) * get<1>(t)); }, std::tuple(x, x * 3));
  CHECK(values(a) == Numbers{3, 6, 9});
  CHECK(values(b) == Numbers{1, 2, 3});
}

struct Result {
  Tensor loss, doubled;
  int steps;
};
TEST_CASE("f may return more than the loss") {
  Tensor x = vector({1, 2});
  auto [result, gradient] = value_and_grad([](const Tensor& v) { return Result{sum(v * v), v * 2, 7}; }, x);
  CHECK(result.loss.item() == 5);
  CHECK(values(result.doubled) == Numbers{2, 4});
  CHECK(result.steps == 7);
  CHECK(values(gradient) == Numbers{2, 4});
  auto [pair, again] = value_and_grad([](const Tensor& v) { return std::tuple{sum(v), v}; }, x);
  CHECK(get<0>(pair).item() == 3);
  CHECK(values(again) == Numbers{1, 1});
}

TEST_CASE("a value that is used again gets the sum of its gradients") {
  Tensor x = vector({1, 2});
  auto f = [](const Tensor& v) {
    Tensor h = v * 3;
    return sum(h * h) + sum(h) + sum(v * h);
  };
  CHECK(values(grad(f, x)) == Numbers{18 + 3 + 6, 36 + 3 + 12});
  // The same tensor in two places: each has a gradient of its own, and two arguments of one operation add up.
  std::vector<Tensor> twice = {x, x};
  std::vector<Tensor> gradients = grad([](const std::vector<Tensor>& v) { return sum(v[0] * v[0] * v[1]); }, twice);
  CHECK(values(gradients[0]) == Numbers{2, 8});
  CHECK(values(gradients[1]) == Numbers{1, 4});
}

TEST_CASE("each factor of a product gets the other one transposed, also where any order of axes would fit") {
  Tensor a = reshape(vector({1, 2, 3, 4}), {2, 2}), b = reshape(vector({5, 6, 7, 8}), {2, 2});
  Tensor first = reshape(vector({1, 0, 0, 0}), {2, 2});  // the loss is a00 b00 + a01 b10
  CHECK(values(grad([&](const Tensor& v) { return sum(matmul(v, b) * first); }, a)) == Numbers{5, 7, 0, 0});
  CHECK(values(grad([&](const Tensor& v) { return sum(matmul(a, v) * first); }, b)) == Numbers{1, 0, 2, 0});
}

TEST_CASE("gradients do not accumulate over calls") {
  Tensor x = vector({1, 2});
  auto f = [](const Tensor& v) { return sum(v * v); };
  CHECK(values(grad(f, x)) == values(grad(f, x)));
}

TEST_CASE("a value that is rebound after it was used keeps the gradient of what was used") {
  Tensor x = vector({1, 2});
  auto f = [](const Tensor& v) {
    Tensor h = v * v;
    Tensor e = exp(h);
    h += 100;
    return sum(e) + 0 * sum(h);
  };
  Numbers gradient = values(grad(f, x));
  CHECK(gradient[0] == doctest::Approx(2 * std::exp(1)));
  CHECK(gradient[1] == doctest::Approx(4 * std::exp(4)));
}

TEST_CASE("evaluation inside a level changes nothing") {
  Tensor x = vector({1, 2});
  auto f = [](const Tensor& v) {
    Tensor h = exp(v);
    h.eval();
    Tensor loss = sum(h * h);
    CHECK(loss.item() == doctest::Approx(std::exp(2) + std::exp(4)));
    return loss;
  };
  Numbers gradient = values(grad(f, x));
  CHECK(gradient[0] == doctest::Approx(2 * std::exp(2)));
  CHECK(gradient[1] == doctest::Approx(2 * std::exp(4)));
  CHECK(recorder().level_start == UINT64_MAX);
}

TEST_CASE("levels nest: second and third derivatives") {
  Tensor x = vector({2});
  auto cube = [](const Tensor& v) { return sum(v * v * v); };
  auto second = [&](const Tensor& v) { return sum(grad(cube, v)); };
  auto third = [&](const Tensor& v) { return sum(grad(second, v)); };
  CHECK(values(grad(cube, x)) == Numbers{12});
  CHECK(values(grad(second, x)) == Numbers{12});
  CHECK(values(grad(third, x)) == Numbers{6});
  // Evaluated on the way: the outer level still sees through.
  auto evaluated = [&](const Tensor& v) {
    Tensor g = grad(cube, v);
    g.eval();
    return sum(g * v);
  };
  CHECK(values(grad(evaluated, x)) == Numbers{3 * 3 * 4});
}

TEST_CASE("an inner level differentiates by its own variables only") {
  Tensor x = vector({3}), y = vector({5});
  auto f = [&](const Tensor& a) {
    Tensor inner = grad([&](const Tensor& b) { return sum(a * b * b); }, y);  // 2 a b
    return sum(inner * a);                                                    // 2 a^2 b
  };
  CHECK(values(grad(f, x)) == Numbers{4 * 3 * 5});
}

TEST_CASE("stop_gradient is a wall, and what does not depend gets zeros") {
  Tensor x = vector({1, 2});
  CHECK(values(grad([](const Tensor& v) { return sum(v * stop_gradient(v)); }, x)) == Numbers{1, 2});
  CHECK(values(grad([](const Tensor& v) { return sum(floor(v) + sign(v)); }, x)) == Numbers{0, 0});
}

struct Partly {
  Param used{vector({1, 2})}, idle{vector({1, 2, 3})};
  std::vector<Param> list{Param(vector({1})), Param(vector({2}))};
};

TEST_CASE("strict: what does not reach the loss is an error that names it") {
  Partly model;
  const auto loss = [](const Partly& m) { return sum(m.used) + sum(stop_gradient(m.list[1])) + sum(m.list[0]); };
  CHECK(values(grad(loss, model).idle) == Numbers{0, 0, 0});
  const std::string message = message_of([&] { grad(loss, model, {.strict = true}); });
  CHECK(message.find("[grad] the loss does not depend on idle, which is an error under strict") == 0);
  CHECK(message.find("grad_test.cpp:") != std::string::npos);
  const auto more = [&](const Partly& m) { return loss(m) + sum(m.idle); };
  CHECK(message_of([&] {
          value_and_grad(more, model, {.strict = true});
        }).find("[value_and_grad] the loss does not depend on list.1") == 0);
  nn::freeze(model.list[1]);
  CHECK(values(grad(more, model, {.strict = true}).idle) == Numbers{1, 1, 1});
  // A gradient that is zero is one.
  CHECK(values(grad([](const Tensor& a) { return sum(a * 0); }, vector({1, 2}), {.strict = true})) == Numbers{0, 0});
}

TEST_CASE("kinks, as PyTorch has them") {
  auto at = [](double x, auto f) { return values(grad([&](const Tensor& v) { return sum(f(v)); }, vector({x})))[0]; };
  CHECK(at(0, [](const Tensor& v) { return relu(v); }) == 0);
  CHECK(at(0, [](const Tensor& v) { return abs(v); }) == 0);
  CHECK(at(0, [](const Tensor& v) { return pow(v, 0.0); }) == 0);
  CHECK(at(0, [](const Tensor& v) { return pow(v, 1.0); }) == 1);
  CHECK(at(0, [](const Tensor& v) { return pow(v, 2.0); }) == 0);
  CHECK(at(0, [](const Tensor& v) { return pow(full({1}, 0, {DType::f64}), v); }) == 0);
  CHECK(at(0, [](const Tensor& v) { return maximum(v, 0.0); }) == 0.5);
  CHECK(at(1, [](const Tensor& v) { return clamp(v, 0.0, 2.0); }) == 1);
  CHECK(std::isinf(at(0, [](const Tensor& v) { return sqrt(v); })));

  Tensor ties = vector({3, 1, 3, 3});
  CHECK(values(grad([](const Tensor& v) { return amax(v); }, ties)) == Numbers{1. / 3, 0, 1. / 3, 1. / 3});
  CHECK(values(grad([](const Tensor& v) { return amin(v); }, ties)) == Numbers{0, 1, 0, 0});
  CHECK(values(grad([](const Tensor& v) { return prod(v); }, vector({2, 0, 5}))) == Numbers{0, 10, 0});
}

TEST_CASE("a product of 16-bit floats: that of some of the others may leave their range") {
  const Tensor x = cast(from_list<float>({0.001f, 300, 300, 0.5f}), DType::f16);
  const Tensor gradient = grad([](const Tensor& v) { return prod(v); }, x);
  CHECK(gradient.dtype() == DType::f16);
  CHECK(values(cast(gradient, DType::f64)) == Numbers{45000 - 8, 0.1500244140625, 0.1500244140625, 90.0625});
}

TEST_CASE("empty tensors") {
  Tensor nothing = full({0, 3}, 1, {DType::f64});
  Tensor gradient = grad([](const Tensor& v) { return sum(exp(v)) + prod(v); }, nothing);
  CHECK(gradient.shape().same(Shape::of(0, 3)));
}

TEST_CASE("dtypes: gradients come back in the dtype of what they belong to") {
  Tensor single = from_list<float>({1, 2}), real = vector({3, 4});
  auto [a, b] =
      grad([](const std::tuple<Tensor, Tensor>& t) { return sum(get<0>(t) * get<1>(t)); }, std::tuple(single, real));
  CHECK(a.dtype() == DType::f32);
  CHECK(b.dtype() == DType::f64);
  CHECK(values(a) == Numbers{3, 4});
  Tensor whole = from_list<std::int64_t>({2, 3});
  CHECK(values(grad([&](const Tensor& v) { return sum(v * whole); }, real)) == Numbers{2, 3});
}

TEST_CASE("what is refused, with the user's line") {
  Tensor x = vector({1, 2, 3});
  auto contains = [](const std::string& text, const std::string& part) {
    CAPTURE(text);
    CHECK(text.find(part) != std::string::npos);
    CHECK(text.find("grad_test.cpp:") != std::string::npos);
  };
  contains(message_of([&] { grad([](const Tensor& v) { return v * 2; }, x); }), "must be one number, it is f64[3]");
  contains(message_of([&] { grad([](const Tensor& v) { return sum(cast(v, DType::i64)); }, x); }),
           "must be a floating number, it is i64[]");
  contains(message_of([&] { grad([](const Tensor& v) { return sum(v); }, arange(3)); }),
           "the argument is i64[3]: only floating");
  const Tensor copy = x;
  contains(message_of([&] { grad([&](const Tensor&) { return sum(copy); }, x); }),
           "does not depend on what it is differentiated");
  contains(message_of([&] { grad([&](const Tensor&) { return sum(x); }, x); }), "use the argument");
  contains(message_of([&] { grad([&](const Tensor& v) { return sum(stop_gradient(v)); }, x); }), "does not depend");
  contains(message_of([&] { grad([](const Tensor&) { return Tensor(); }, x); }), "the loss is an undefined tensor");
  contains(message_of([&] { grad([](const Tensor& v) { return sum(v); }, Tensor()); }),
           "the argument is an undefined tensor");
  contains(message_of([&] { grad([](const Tensor& v) { return std::vector<Tensor>{v}; }, x); }), "must be the loss");
  std::vector<Param> grown = {x};
  auto grows = [](std::vector<Param>& v) {
    Tensor loss = sum(v[0].tensor());
    v.clear();
    return loss;
  };
  contains(message_of([&] { grad(grows, grown); }), "added, removed or froze");
  Layer layer{x, arange(3)};
  contains(message_of([&] { grad([](const Layer& l) { return sum(l.weight.tensor()); }, layer); }), "bias is i64[3]");
  Layer frozen{x, x};
  frozen.weight.frozen = frozen.bias.frozen = true;
  contains(message_of([&] { grad([](const Layer& l) { return sum(l.weight.tensor()); }, frozen); }),
           "nothing to differentiate");
}

TEST_CASE("the gradient of a severed value is an error, never zero") {
  Tensor x = vector({1, 2, 3});
  // A value that depends on a variable and lost its operands where no level was open.
  auto f = [&](const Tensor& v) {
    Tensor h = v * v;
    const std::uint64_t start = recorder().level_start;
    close_level(start);
    h.eval();
    open_level(start);
    return sum(h);
  };
  std::string text = message_of([&] { grad(f, x); });
  CAPTURE(text);
  CHECK(text.find("no gradient passes through f64[3] (mul)") != std::string::npos);
  CHECK(values(grad([](const Tensor& v) { return sum(v * v); }, x)) == Numbers{2, 4, 6});
}

TEST_CASE("backward work stays with what depends, and has the user's lines") {
  Literal x = numbers(Shape::of(3), -1, 1, 1), constant = numbers(Shape::of(3), -1, 1, 2);
  auto f = [](const std::vector<Tensor>& v) {
    Tensor independent = exp(sin(v[1]));
    Tensor loss = sum(v[0] * independent);
    return std::vector<Tensor>{grad([&](const Tensor& variable) { return sum(gelu(variable) * independent); }, v[0]),
                               loss};
  };
  std::vector<Literal> inputs = {x, constant};
  Graph graph = inline_calls(trace(f, inputs));
  std::string text = to_text(graph);
  CAPTURE(text);
  int cosines = 0, forward_lines = 0;
  for (const Tensor& value : graph.nodes) {
    cosines += value.node()->op == Op::cos;
    CHECK(std::string(value.node()->loc.file ? value.node()->loc.file : "").find("rules.cpp") == std::string::npos);
    forward_lines += value.node()->scope != 0;
  }
  CHECK(cosines == 0);
  CHECK(forward_lines > 8);  // forward and backward of gelu are both named after it
}

TEST_CASE("what is pending may be evaluated while the backward pass records") {
  Tensor x = vector({0.5});
  for (int length : {100, 500, 1000, 1500, 2000, 4000}) {
    auto f = [&](const Tensor& v) {
      Tensor h = v;
      for (int i = 0; i < length; ++i) h = sin(h) + h * 0.1;
      return sum(h);
    };
    double value = 0.5, slope = 1;
    for (int i = 0; i < length; ++i) {
      slope *= std::cos(value) + 0.1;
      value = std::sin(value) + value * 0.1;
    }
    CHECK(values(grad(f, x))[0] == doctest::Approx(slope).epsilon(1e-9));
  }
}

TEST_CASE("deep graphs: iterative, and linear in time") {
  Tensor x = vector({1});
  auto chain = [](const Tensor& v) {
    Tensor h = v;
    for (int i = 0; i < 200000; ++i) h = h * 0.999999;
    return sum(h);
  };
  CHECK(values(grad(chain, x))[0] == doctest::Approx(std::pow(0.999999, 200000)));
  auto wide = [](const Tensor& v) {
    Tensor total = v * 0.0;
    for (int i = 0; i < 50000; ++i) total = total + v * static_cast<double>(i % 3);
    return sum(total);
  };
  CHECK(values(grad(wide, x))[0] == doctest::Approx(49999));
}

}  // namespace
}  // namespace weft::test
