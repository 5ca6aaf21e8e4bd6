// Evaluation of what is pending: deep, wide, shared and failing graphs; what is severed and what is kept; threads.
#include <thread>

#include "record/run_graph.hpp"
#include "tests/eager/check.hpp"
#include "tests/small_stack.hpp"

using namespace weft;
using namespace weft::test;

namespace {

// A pending node, beside the bound that recording keeps.
Tensor pending(Op op, std::initializer_list<Tensor> operands) {
  Tensor node =
      make_node(op, std::span<const Tensor>(operands.begin(), operands.size()), {}, type_of(*operands.begin()), {});
  node.node()->pending = 1;
  return node;
}

}  // namespace

TEST_CASE("a million pending nodes in a chain: evaluated and destroyed on a small stack") {
  double result = 0;
  on_small_stack([&] {
    Tensor one = full({}, 1).eval(), x = one;
    for (int i = 0; i < 1000000; ++i) x = pending(Op::add, {x, one});
    result = x.item();
  });
  CHECK(result == 1000001);
}

TEST_CASE("a million pending nodes in a chain are destroyed without being computed") {
  Tensor one = full({}, 1).eval();
  bool computed = true;
  on_small_stack([&] {
    Tensor x = one;
    for (int i = 0; i < 1000000; ++i) x = pending(Op::add, {x, one});
    computed = x.node()->storage != nullptr;
  });
  CHECK_FALSE(computed);
  CHECK(one.node()->references == 1);  // of the million that held it none is left
}

TEST_CASE("a chain through the public functions is bounded while it is recorded") {
  double result = 0;
  on_small_stack([&] {
    Tensor x = full({}, 0);
    for (int i = 0; i < 200000; ++i) x = x + 1;
    result = x.item();
  });
  CHECK(result == 200000);
}

TEST_CASE("wide graphs: many operands, and a diamond that doubles its paths at each step") {
  double total = 0, diamond = 0;
  on_small_stack([&] {
    std::vector<Tensor> parts;
    for (int i = 0; i < 100000; ++i) parts.push_back(neg(full({1}, i % 7)));
    total = sum(concat(parts)).item();
    Tensor x = full({}, 1).eval();
    for (int i = 0; i < 100; ++i) x = pending(Op::add, {x, x});
    diamond = x.item();
  });
  double expected = 0;
  for (int i = 0; i < 100000; ++i) expected -= i % 7;
  CHECK(total == expected);
  CHECK(diamond == std::ldexp(1.0, 100));
}

TEST_CASE("operands are severed after evaluation, and kept while a differentiation level is open") {
  Tensor x = full({2}, 3).eval();
  Tensor y = x * x;
  y.eval();
  CHECK(y.node()->severed);
  CHECK(y.node()->operand_count == 0);
  const std::uint64_t oldest = x.node()->sequence;
  open_level(oldest);
  Tensor z = x * x;
  z.eval();
  CHECK_FALSE(z.node()->severed);
  CHECK(z.node()->operand_count == 2);
  open_level(oldest + 1);  // of another thread, say
  close_level(oldest + 1);
  CHECK_FALSE(z.node()->severed);
  close_level(oldest);
  CHECK(z.node()->severed);
  CHECK(z.node()->operand_count == 0);
  CHECK(z.data<float>()[0] == 9);
}

TEST_CASE("an error while evaluating leaves what is pending as it was") {
  Tensor table = arange(4).eval();
  Tensor bad = record(Op::gather, {table, from_list<std::int64_t>({9})}, {}, {}, {});
  Tensor good = table + 1, both = good + bad;
  CHECK_THROWS_AS(both.eval(), Error);
  CHECK_THROWS_AS(both.eval(), Error);
  CHECK(good.data<std::int64_t>()[3] == 4);
}

TEST_CASE("a traced value is not computed") {
  Trace trace;
  trace.id = new_trace_id();
  TraceScope scope(trace);
  Tensor x = record(Op::input, {}, Parameter{}, Type{DType::f32, false, {}, Shape::of(2)}, Loc::current());
  CHECK_THROWS_WITH_AS((x + 1).eval(), doctest::Contains("is not known in a function that is compiled"), Error);
  CHECK_THROWS_AS(x.item(), Error);
}

TEST_CASE("data from host memory in a trace is told apart by its contents, and needs constant()") {
  auto text_of = [](float value) {
    const float numbers[] = {value, 2};
    Function function = [&](std::span<const Tensor> x) {
      return x[0] + constant(std::span<const float>(numbers), {2});
    };
    Type type{DType::f32, false, {}, Shape::of(2)};
    return structure_text(graph_of(function, std::span(&type, 1)));
  };
  CHECK(text_of(1) == text_of(1));
  CHECK(text_of(1) != text_of(3));
  Trace trace;
  trace.id = new_trace_id();
  TraceScope scope(trace);
  CHECK_THROWS_WITH_AS(from_list<float>({1}), doctest::Contains("use constant()"), Error);
}

TEST_CASE("a whole graph runs eagerly, again and again, with symbolic sizes") {
  Trace trace;
  trace.id = new_trace_id();
  Graph graph;
  {
    TraceScope scope(trace);
    Dim n = trace.dims.new_symbol(3);
    Tensor x = record(Op::input, {}, Parameter{0}, Type{DType::f32, false, {}, Shape::of(n, 4)}, {});
    Tensor y = mean(relu(x), 0);
    graph = make_graph({x}, {y, transpose(x), x}, trace.effects);
    graph.symbols = trace.dims.symbols;
  }
  for (std::int64_t rows : {3, 5, 1}) {
    Tensor x = reshape(cast(arange(rows * 4), DType::f32), {rows, 4});
    std::vector<Tensor> results = run_eagerly(graph, std::span(&x, 1), std::span(&rows, 1), {});
    CHECK(results[0].data<float>()[3] == doctest::Approx(3 + 2 * static_cast<double>(rows - 1)));
    CHECK(results[1].size(1).constant() == rows);
    CHECK(results[1].data<float>()[static_cast<std::size_t>(rows)] == 1);
    CHECK(storage_of(results[2]) == storage_of(x));
  }
}

TEST_CASE("threads may evaluate the same pending values, and their own") {
  Tensor shared = full({1000}, 1);
  for (int i = 0; i < 50; ++i) shared = shared + 1;
  double sums[4] = {};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Tensor own = shared;
      for (int i = 0; i < 20; ++i) own = own * 1;
      sums[t] = sum(own).item() + sum(shared).item();
    });
  for (std::thread& thread : threads) thread.join();
  for (double s : sums) CHECK(s == 2 * 51000);
}
