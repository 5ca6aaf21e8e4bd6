// Graphs on several devices: the parts that they are cut into compute what the graph does, each on one device.
#include "pipeline/places.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

#include "interpret/reference.hpp"
#include "tests/message_of.hpp"
#include "tests/schedule/traced.hpp"
#include "weft/weft.hpp"

using namespace weft;
using test::Traced;

namespace {

constexpr Device first = Device::cuda(0), second = Device::cuda(1);

Literal literal(const Type& type, std::mt19937& random) {
  Literal value{type};
  const std::int64_t count = type.shape.element_count().constant();
  for (std::int64_t i = 0; i < count; ++i)
    if (is_floating(type.dtype))
      value.reals.push_back(std::uniform_real_distribution<double>(-1, 1)(random));
    else
      value.integers.push_back(static_cast<std::int64_t>(random() % 5));
  return value;
}

// The results of the parts, one after the other; each value must be there when it is read.
std::vector<Literal> run(const CutGraph& cut, std::span<const Literal> inputs, std::size_t outputs) {
  std::map<int, Literal> memory;
  for (std::size_t v = 0; v < cut.values.size(); ++v)
    if (cut.values[v].kind == CutValue::Kind::input)
      memory[static_cast<int>(v)] = inputs[static_cast<std::size_t>(cut.values[v].index)];
  for (const CutPart& part : cut.parts) {
    std::vector<Literal> read;
    for (const int value : part.inputs) {
      REQUIRE(memory.contains(value));
      read.push_back(memory.at(value));
    }
    if (!part.graph) {
      REQUIRE(part.inputs.size() == 1);
      REQUIRE(part.outputs.size() == 1);
      const Type &from = type_of(cut.values[static_cast<std::size_t>(part.inputs[0])].value),
                 &to = type_of(cut.values[static_cast<std::size_t>(part.outputs[0])].value);
      CHECK(from.device != to.device);
      CHECK(from.device.type == Device::Type::cuda);
      CHECK(to.device == part.device);
      memory[part.outputs[0]] = read[0];
      continue;
    }
    verify(*part.graph);
    const std::vector<Device> devices = devices_of(*part.graph);
    CHECK(devices.size() <= 1);
    if (!devices.empty()) CHECK(devices[0] == part.device);
    const std::vector<Literal> made = interpret(*part.graph, read, {});
    REQUIRE(made.size() == part.outputs.size());
    for (std::size_t i = 0; i < made.size(); ++i) memory[part.outputs[i]] = made[i];
  }
  std::vector<Literal> results(outputs);
  for (std::size_t v = 0; v < cut.values.size(); ++v)
    if (cut.values[v].kind == CutValue::Kind::output) {
      REQUIRE(memory.contains(static_cast<int>(v)));
      results[static_cast<std::size_t>(cut.values[v].index)] = memory.at(static_cast<int>(v));
    }
  return results;
}

void check_same(const Graph& graph, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Literal> inputs;
  for (const Tensor& input : graph.inputs) inputs.push_back(literal(type_of(input), random));
  const std::vector<Literal> expected = interpret(graph, inputs, {});
  const std::vector<Literal> found = run(cut_by_place(graph, {}), inputs, graph.outputs.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(found[i].reals == expected[i].reals);
    CHECK(found[i].integers == expected[i].integers);
  }
}

// "0: 2 -> 1; copy to 1: 1 -> 2; ..." in words of values.
std::string text_of(const CutGraph& cut) {
  std::string text;
  const auto add = [&](const std::vector<int>& list) {
    for (const int value : list) {
      const CutValue& it = cut.values[static_cast<std::size_t>(value)];
      text += it.kind == CutValue::Kind::input    ? " in" + std::to_string(it.index)
              : it.kind == CutValue::Kind::output ? " out" + std::to_string(it.index)
                                                  : " v";
    }
  };
  for (const CutPart& part : cut.parts) {
    text += (part.graph ? "" : "copy to ") + std::to_string(part.device.index) + ":";
    add(part.inputs);
    text += " ->";
    add(part.outputs);
    text += "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("a part ends where a value leaves it, and where one arrives: devices work side by side") {
  Traced t;
  const Tensor w0 = t.input(first, Shape::of(4)), w1 = t.input(second, Shape::of(4));
  std::vector<Tensor> results;
  for (int i = 0; i < 2; ++i) results.push_back(to(t.input(first, Shape::of(4)) * w0, second) + w1);
  const Graph graph = t.graph(results);
  CHECK(text_of(cut_by_place(graph, {})) ==
        "0: in0 in2 -> v\n"
        "copy to 1: v -> v\n"
        "0: in0 in3 -> v\n"
        "copy to 1: v -> v\n"
        "1: in1 v -> out0\n"
        "1: in1 v -> out1\n");
  check_same(graph, 1);
}

TEST_CASE(
    "a device sends what it can before it waits for answers, and what is done with an answer is done when it comes") {
  Traced t;
  const Tensor w = t.input(first, Shape::of(4)), v = t.input(second, Shape::of(4));
  std::vector<Tensor> inputs, forward, results;
  for (int i = 0; i < 3; ++i) inputs.push_back(t.input(first, Shape::of(4)));
  for (const Tensor& x : inputs) forward.push_back(to(sin(x) * w, second) * v);
  for (std::size_t i = forward.size(); i-- > 0;) results.push_back(to(cos(forward[i]), first) + cos(inputs[i]));
  const Graph graph = t.graph(results);
  CHECK(text_of(cut_by_place(graph, {})) ==
        "0: in0 in2 -> v\n"
        "copy to 1: v -> v\n"
        "1: in1 v -> v\n"
        "copy to 0: v -> v\n"
        "0: in0 in3 -> v\n"
        "copy to 1: v -> v\n"
        "1: in1 v -> v\n"
        "copy to 0: v -> v\n"
        "0: in0 in4 -> v\n"
        "copy to 1: v -> v\n"
        "1: in1 v -> v\n"
        "copy to 0: v -> v\n"
        "0: in2 v -> out2\n"
        "0: in3 v -> out1\n"
        "0: in4 v -> out0\n");
  check_same(graph, 5);
}

TEST_CASE("state is changed in the part that computes it") {
  Traced t;
  const Tensor w = t.input(first, Shape::of(4)), v = t.input(second, Shape::of(4));
  const Tensor y = to(w * 2.0, second) * v;
  const Graph graph = t.graph({w + to(y, first), v - y});
  const Update updates[] = {{0, 0}, {1, 1}};
  const CutGraph cut = cut_by_place(graph, updates);
  int found = 0;
  for (const CutPart& part : cut.parts)
    for (const Update& update : part.updates) {
      const auto of = [&](const std::vector<int>& list, int index) {
        return cut.values[static_cast<std::size_t>(list[static_cast<std::size_t>(index)])];
      };
      CHECK(of(part.inputs, update.input).index == of(part.outputs, update.output).index);
      ++found;
    }
  CHECK(found == 2);
  check_same(graph, 2);
}

TEST_CASE(
    "what is computed of the host's values is computed where it is read, and values reach the host from anywhere") {
  Traced t;
  const Tensor step = t.input(DType::i64, {}), x = t.input(first, Shape::of(3)), y = t.input(second, Shape::of(3));
  const Tensor next = step + 1, rate = 1.0 / cast(next, DType::f32);
  const Tensor sums = to(sum(x * rate), Device::cpu()) + to(sum(y * rate), Device::cpu());
  check_same(t.graph({next, x * rate, y * rate, sums, to(sums * 2.0, second) * y}), 3);
}

TEST_CASE("results that are arguments, moved arguments, numbers, and the same twice") {
  Traced t;
  const Tensor x = t.input(first, Shape::of(3)), moved = to(x, second), both = moved + 1.0, back = to(both, first);
  const Tensor ones_there = ones({3}, {.device = second});
  check_same(t.graph({x, moved, moved, both, both, back, back, ones_there, to(ones_there * 2.0, first), x}), 4);
}

TEST_CASE("an operation that has values on two devices is refused with its line") {
  Traced t;
  const Tensor x = t.input(first, Shape::of(3)), y = t.input(second, Shape::of(3));
  using State = std::tuple<Tensor, Tensor, Tensor>;
  const State last = while_loop([](const State& state) { return std::get<0>(state) < 3; },
                                [](const State& state) {
                                  const auto& [i, a, b] = state;
                                  return State(i + 1, a * 2.0, b + 1.0);
                                },
                                State(full({}, 0, {.dtype = DType::i64}), x, y));
  const Graph graph = t.graph({std::get<1>(last), std::get<2>(last)});
  const std::string message = test::message_of([&] { cut_by_place(graph, {}); });
  CAPTURE(message);
  CHECK(message.find("[compile] one operation has values on cuda:0 and cuda:1") == 0);
  CHECK(message.find("places_test.cpp:") != message.npos);
}

TEST_CASE("random graphs on the host and three devices") {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto pick = [&](std::size_t count) { return static_cast<std::size_t>(random() % count); };
    const Device places[] = {first, second, Device::cuda(2), Device::cpu()};
    Traced t;
    std::vector<Tensor> values;
    for (const Device place : places)
      for (int i = 0; i < 2; ++i) values.push_back(t.input(place, Shape::of(3)));
    const std::size_t count = 3 + pick(40);
    for (std::size_t i = 0; i < count; ++i) {
      const Tensor a = values[pick(values.size())], b = values[pick(values.size())];
      switch (pick(5)) {
        case 0: values.push_back(to(a, places[pick(4)])); break;
        case 1: values.push_back(sin(a)); break;
        case 2: values.push_back(full({3}, 0.5, {.device = places[pick(4)]})); break;
        default: values.push_back(a * to(b, a.device()) + 0.25);
      }
    }
    std::vector<Tensor> results;
    for (std::size_t i = 0; i < 1 + pick(6); ++i) results.push_back(values[pick(values.size())]);
    results.push_back(to(to(values[0], first) + to(values[2], first), second));  // several devices in any case
    check_same(t.graph(results), seed);
  }
}
