// Random programs as compiled functions inside a differentiation level: value, gradients and second derivatives, by the
// eager executor and by kernels. Each is held against the reference of the plain function's derivatives, with the bound
// of check.hpp, and it throws where the plain function does. And compiled around their derivatives, with sizes that
// become symbolic: these have the bits of the plain ones.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "base/fail.hpp"
#include "base/options.hpp"
#include "random/check.hpp"
#include "record/record.hpp"
#include "tests/cuda/device.hpp"
#include "tests/sanitized.hpp"
#include "weft/checkpoint.hpp"
#include "weft/compile.hpp"
#include "weft/explain.hpp"
#include "weft/grad.hpp"
#include "weft/loops.hpp"
#include "weft/transforms.hpp"

using namespace weft;
using namespace weft::testing;

namespace {

const Program* program = nullptr;  // that the compiled function is

using List = std::vector<Tensor>;
// `first` are the floating inputs of the program.
List run_program(const List& first, const List& others) {
  List inputs;
  std::size_t a = 0, b = 0;
  for (const ProgramInput& input : program->inputs)
    inputs.push_back(is_floating(input.dtype) ? first[a++] : others[b++]);
  return replay(*program, inputs);
}

Tensor loss_of(const List& results) {
  Tensor loss = zeros({});
  for (const Tensor& result : results)
    if (is_floating(result.dtype()) && result.element_count().constant() > 0)
      loss = loss + mean(cast(result, DType::f32));
  return loss;
}

// The value and its gradients; or the gradients of the sum of the gradients' squares.
template <class F>
List derivatives(const F& f, int order, const List& first, const List& others) {
  if (order == 1) {
    auto [value, gradients] = value_and_grad([&](const List& x) { return loss_of(f(x, others)); }, first);
    gradients.push_back(value);
    return gradients;
  }
  return grad(
      [&](const List& x) {
        Tensor sum_of_squares = zeros({});
        for (const Tensor& each : grad([&](const List& x) { return loss_of(f(x, others)); }, x))
          sum_of_squares = sum_of_squares + sum(square(cast(each, DType::f32)));
        return sum_of_squares;
      },
      first);
}

// The values of what `make` returns, or none and why.
template <class Make>
std::optional<std::vector<Literal>> literals_of(Make make, std::string& error) {
  try {
    std::vector<Literal> values;
    for (const Tensor& each : make()) values.push_back(literal_of(each));
    return values;
  } catch (const Error& thrown) {
    error = thrown.what();
    return std::nullopt;
  }
}
template <class F>
std::optional<std::vector<Literal>> values_of(const F& f, int order, const List& first, const List& others,
                                              std::string& error) {
  return literals_of([&] { return derivatives(f, order, first, others); }, error);
}

// The plain function's derivatives as a graph, over the floating inputs, then the others.
Graph trace_of(int order, std::span<const Literal> first, std::span<const Literal> others) {
  Trace trace;
  trace.id = new_trace_id();
  const TraceScope scope(trace);
  std::vector<Tensor> inputs;
  for (const auto& list : {first, others})
    for (const Literal& input : list)
      inputs.push_back(record(Op::input, {}, Parameter{static_cast<std::int64_t>(inputs.size())}, input.type, {}));
  const auto split = inputs.begin() + static_cast<std::ptrdiff_t>(first.size());
  std::vector<Tensor> outputs = derivatives(run_program, order, List(inputs.begin(), split), List(split, inputs.end()));
  return make_graph(inputs, outputs, trace.effects);
}

struct Counts {
  int compared = 0, thrown = 0, plain_differs = 0;  // derivatives
  Statistics elements;
};

void check_level(std::uint64_t seed, int count, const char* backend, Counts& counts) {
  for (int i = 0; i < count; ++i, ++seed) {
    const Program made = make_program(seed, 4 + static_cast<int>(seed % 20));
    program = &made;
    std::mt19937_64 random(seed);
    std::vector<Literal> all, others;
    List first, second;
    for (const ProgramInput& input : made.inputs) {
      const Literal value = random_input(input, random);
      (is_floating(input.dtype) ? all : others).push_back(value);
      (is_floating(input.dtype) ? first : second).push_back(tensor_of(value));
    }
    if (first.empty()) continue;
    const auto f = compile([](const List& first, const List& others) { return run_program(first, others); },
                           {.check = Check::never, .backend = backend});
    INFO("seed ", seed, "\n", to_text(made));
    for (const int order : {1, 2}) {
      CAPTURE(order);
      std::string plain_error, error;
      const auto plain = values_of(run_program, order, first, second, plain_error);
      const auto found = values_of(f, order, first, second, error);
      INFO("plain: ", plain_error, "\ncompiled: ", error);
      CHECK(plain.has_value() == found.has_value());
      if (!plain || !found) {
        ++counts.thrown;
        continue;
      }
      ++counts.compared;
      const Graph graph = trace_of(order, all, others);
      std::vector<Literal> inputs = all;
      inputs.insert(inputs.end(), others.begin(), others.end());
      Expected expected = expect(graph, inputs, {});
      // Executors against the reference are the subject of random_programs_test.cpp. Where the plain function's differs
      // the values in a level are held against its own.
      const bool plain_differs = !compare("plain", expected, *plain, counts.elements).empty();
      std::string differs = compare("in a level", expected, *found, counts.elements);
      if (plain_differs || !differs.empty()) {
        expected = expect(graph, inputs, {}, many_runs);
        if (!compare("plain", expected, *plain, counts.elements).empty()) {
          ++counts.plain_differs;
          expected.values = *plain;
        }
        differs = compare("in a level", expected, *found, counts.elements);
      }
      CHECK(differs == "");
    }
    CHECK(specialization_count(f) <= 1);
  }
  program = nullptr;
  MESSAGE(counts.compared, " derivatives compared, ", counts.thrown, " that throw, ", counts.plain_differs,
          " where the plain function differs from the reference; ", counts.elements.compared, " elements, ",
          counts.elements.undecided, " undecided");
}

// What a body computes of each floating input comes first: its derivative reads gradients that the program's makes.
List run_after_body(const List& first, const List& others) {
  List before;
  for (std::size_t i = 0; i < first.size(); ++i) switch ((program->seed + i) % 3) {
      case 0: before.push_back(checkpoint([](const Tensor& x) { return tanh(x); })(first[i])); break;
      case 1:
        before.push_back(fori(
            0, 2, [](Index, Tensor x) { return tanh(x); }, first[i]));
        break;
      default:
        before.push_back(custom_vjp([](const Tensor& x) { return tanh(x); },
                                    [](const Tensor& x) {
                                      return std::pair{tanh(x), x};
                                    },
                                    [](const Tensor& x, const Tensor& g) { return g * cos(x); })(first[i]));
    }
  return run_program(before, others);
}

bool has_products(const Program& made) {
  return std::ranges::any_of(made.instructions, [](const Instruction& each) {
    return each.op == Op::matmul || info(each.op).kind == OpKind::convolution;
  });
}

// A NaN is one, whichever.
bool same_bits(const std::vector<Literal>& a, const std::vector<Literal>& b) {
  const auto same = [](double x, double y) {
    return std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y) || (std::isnan(x) && std::isnan(y));
  };
  return std::ranges::equal(a, b, [&](const Literal& x, const Literal& y) {
    return x.integers == y.integers && std::ranges::equal(x.reals, y.reals, same);
  });
}

// Whether it expands by what it finds the sizes of its values to be: at another size it would be another program.
bool asks_for_sizes(const Program& made) {
  return std::ranges::any_of(made.instructions,
                             [](const Instruction& each) { return each.op == Op::expand && each.numbers[2] % 2; });
}

// The inputs' sizes that are `from` become `to`.
std::vector<ProgramInput> resized(std::vector<ProgramInput> inputs, std::int64_t from, std::int64_t to) {
  for (ProgramInput& input : inputs) std::ranges::replace(input.sizes, from, to);
  return inputs;
}

// loss_of() leaves such a result out, where the size is a number: with a symbol the function has to be another one.
bool has_empty_result(const List& first, const List& others) {
  try {
    return std::ranges::any_of(run_after_body(first, others), [](const Tensor& result) {
      return is_floating(result.dtype()) && result.element_count().constant() == 0;
    });
  } catch (const Error&) {
    return false;
  }
}

// At the program's own sizes, then where a size of the first input is 1, then another one.
void check_symbolic(std::uint64_t seed, int count, const char* backend, Counts& counts) {
  for (int i = 0; i < count; ++i, ++seed) {
    const Program made = make_program(seed, 4 + static_cast<int>(seed % 20));
    if (has_products(made)) continue;
    program = &made;
    std::mt19937_64 random(seed);
    const auto f = compile([](const List& first, const List& others,
                              int order) { return derivatives(run_after_body, order, first, others); },
                           {.check = Check::never, .backend = backend});
    std::vector<std::vector<ProgramInput>> all{made.inputs};
    const std::vector<std::int64_t>& sizes = made.inputs[0].sizes;
    if (!asks_for_sizes(made) && !sizes.empty() && sizes.back() > 1)
      for (const std::int64_t to : {std::int64_t{1}, sizes.back() + 1})
        all.push_back(resized(made.inputs, sizes.back(), to));
    INFO("seed ", seed, "\n", to_text(made));
    for (std::size_t at = 0; at < all.size(); ++at) {
      CAPTURE(at);
      List first, second;
      for (const ProgramInput& input : all[at])
        (is_floating(input.dtype) ? first : second).push_back(tensor_of(random_input(input, random)));
      if (first.empty() || has_empty_result(first, second)) continue;
      for (const int order : {1, 2}) {
        CAPTURE(order);
        std::string plain_error, error;
        const auto plain = values_of(run_after_body, order, first, second, plain_error);
        const auto compiled = [&](const List& x, const List& others) { return f(x, others, order); };
        const auto found = literals_of([&] { return compiled(first, second); }, error);
        INFO("plain: ", plain_error, "\ncompiled: ", error);
        CHECK(plain.has_value() == found.has_value());
        if (!plain || !found) {
          ++counts.thrown;
          continue;
        }
        ++counts.compared;
        CHECK(same_bits(*plain, *found));
      }
    }
  }
  program = nullptr;
  MESSAGE(counts.compared, " derivatives compared, ", counts.thrown, " that throw");
}

}  // namespace

// Of how many programs one is run. On a device each kind of eager operation is a program of its own to compile.
static int share() { return test::on_device() ? 20 : test::less_when_sanitized; }

TEST_CASE("random programs inside a level, by the eager executor") {
  Counts counts;
  check_level(5001, 300 / share(), "eager", counts);
  CHECK(counts.compared > 100 / share());
  CHECK(counts.elements.compared > 3 * counts.elements.undecided);
  CHECK(counts.plain_differs * 100 <= counts.compared);
}

TEST_CASE("random programs inside a level, by kernels") {
  options().kernel_optimization = 1;  // as the other random programs
  Counts counts;
  check_level(7001, 24 / share(), test::on_device() ? "cuda" : "cpu", counts);
  CHECK(counts.compared > 8 / share());
}

TEST_CASE("random programs whose derivative is compiled with symbolic sizes, by the eager executor") {
  Counts counts;
  check_symbolic(9001, 150 / share(), "eager", counts);
  CHECK(counts.compared > 200 / share());
}

TEST_CASE("random programs whose derivative is compiled with symbolic sizes, by kernels") {
  options().kernel_optimization = 1;
  Counts counts;
  check_symbolic(11001, 8, test::on_device() ? "cuda" : "cpu", counts);
  CHECK(counts.compared > 10);
}
