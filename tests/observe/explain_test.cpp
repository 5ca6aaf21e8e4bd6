// explain(f, args...): what would run, without running it.
#include <sstream>

#include "base/fail.hpp"
#include "tests/runtime/support.hpp"
#include "tests/trace/support.hpp"
#include "weft/grad.hpp"

using namespace weft;
using namespace trace_test;

namespace {
struct Model {
  Param weight;
  float slope = 0.5f;
};
}  // namespace

TEST_CASE("graph with lines, guards, recompiles; state stays as it is") {
  const int line = __LINE__ + 2;
  auto f = compile([](Model& m, const Tensor& x, Index shift) {
    m.weight = m.weight * x;
    return relu(m.weight.tensor() + shift);
  });
  Model model{vector_of({1, 2})};
  Explanation e = explain(f, model, vector_of({3, 4}), 1);
  CHECK(numbers_of(model.weight) == Numbers{1, 2});
  CHECK(contains(e.graph, "relu"));
  CHECK(contains(e.graph, "explain_test.cpp:" + std::to_string(line)));
  CHECK(e.guards == std::vector<std::string>{"argument 0 (weight): f32[2]", "argument 0 (slope): == 0.5",
                                             "argument 1: f32[2]", "argument 2: i64 number"});
  CHECK(e.recompiles.empty());
  CHECK(e.specializations == 1);
  f(model, vector_of({3, 4}), 1);
  CHECK(specialization_count(f) == 1);
  CHECK(is_compiled(f, model, vector_of({5, 6}), 7));
  CHECK_FALSE(is_compiled(f, model, vector_of({5}), 7));
  e = explain(f, model, vector_of({3}), 1);
  CHECK(e.recompiles == std::vector<std::string>{"argument 1: size of dimension 0 was 2, is 1"});
  std::ostringstream text;
  text << e;
  CHECK(contains(text.str(), "---- guards ----"));
  CHECK(contains(text.str(), "argument 1: size of dimension 0 was 2, is 1"));
}

TEST_CASE("symbolic sizes and what was decided on them are shown, with the line that decided or the call before it") {
  const int line = __LINE__ + 3;
  auto f = compile(
      [](const Tensor& x, const Tensor& y, const Tensor& twice) {
        const Dim rows = x.size(0), columns = x.size(1);
        const Tensor z = rows < Dim(10) ? x + y : x;
        const auto scale = static_cast<double>(rows);
        const Tensor column = sum(z * scale, 1), left = unsqueeze(concat({column, column}), 1);
        const Tensor right = unsqueeze(twice, 1), eight = concat({twice, ones({2})});
        const Tensor both = concat({left, right}, 1);
        const Tensor added = eight + y;
        const Tensor places = arange(columns - rows);
        return sum(both) + sum(places) + sum(added) * reshape(y, {-1, 4}).size(0);
      },
      {.dynamic = true});
  Explanation e = explain(f, ones({3, 8}), ones({8}), ones({6}));
  auto at = [&](int later) { return "explain_test.cpp:" + std::to_string(line + later); };
  CHECK(e.guards == std::vector<std::string>{"argument 0: f32[s0,s1]", "argument 1: f32[s1]", "argument 2: f32[s2]",
                                             "s0 >= 2", "s1 >= 2", "s2 >= 2",
                                             "s0 < 10  # after " + at(0),  // the last call before it is x.size(1)
                                             "s0 == 3  # after " + at(1),  // x + y
                                             "s2 == 2*s0  # " + at(5), "s2 + 2 == s1  # " + at(6),
                                             "-s0 + s1 >= 0  # " + at(7), "4*((s1) / (4)) == s1  # " + at(8),
                                             "4*((s1) / (4)) < 288230376151711744  # " + at(8)});
}

TEST_CASE("kernels with their cost, the graph after the passes, and why two sums are two kernels") {
  const int line = __LINE__ + 2;
  auto f = compile([](const Tensor& x) {
    const Tensor y = exp(x * 1);
    const Tensor rows = sum(y, 1);
    return std::pair(rows, sum(y, 0));
  });
  Explanation e = explain(f, ones({64, 32}));
  CHECK(contains(e.graph, "= mul(%0, %1)"));
  CHECK_FALSE(contains(e.optimized, "mul"));
  CHECK(contains(e.optimized, "%1 f32[64,32] = exp(%0)"));
  const std::string why = " starts a kernel: it reduces other axes than the kernel does; 8192 bytes are read again\n";
  CHECK(contains(e.schedule, "sum at explain_test.cpp:" + std::to_string(line + 2) + why));
  REQUIRE(e.kernels.size() == 2);
  CHECK(e.passes.size() > 10);
  CHECK(e.passes.front().name == "fuse_attention");
  CHECK(e.passes.back().name == "launches");
  CHECK(e.passes.back().size == e.kernels.size());
  CHECK(e.kernels[0].name == "weft_k0_exp_sum");
  CHECK(e.kernels[0].bytes == (2 * 64 * 32 + 64) * 4);   // reads x, keeps exp(x) for the other one
  CHECK(e.kernels[0].operations == 64 * 32 * (16 + 1));  // exp counts for 16
  CHECK(contains(e.kernels[0].loops, "reduce_sum"));
  CHECK(contains(e.kernels[0].source, "void weft_k0_exp_sum("));
  CHECK(e.kernels[1].name == "weft_k1_sum");
  CHECK(e.kernels[1].bytes == (64 * 32 + 32) * 4);
  CHECK(e.kernels[1].operations == 64 * 32);
  CHECK(e.arena_bytes == 64 * 32 * 4);
  const std::string text = to_string(e);
  for (const std::string& part : {e.optimized, e.schedule, e.source_path}) CHECK(contains(text, part));
  CHECK(contains(text,
                 "---- kernels ----\n"
                 "weft_k0_exp_sum: 16640 bytes, 34816 operations\nweft_k1_sum: 8320 bytes, 2048 operations\n"
                 "---- memory ----\n"
                 "a call takes 8.38 KiB beside 8.00 KiB of arguments: temporaries 8.00 KiB, results 384 bytes, "
                 "workspace 0 bytes\nlive at step 0 of 2, the most: 8.38 KiB\n"));
  CHECK(contains(text, "8.38 KiB ######################################## > weft_k0_exp_sum\n"));
  REQUIRE(e.memory.owners.size() == 3);
  CHECK(e.memory.owners[0] == "8.00 KiB exp f32[64,32], explain_test.cpp:" + std::to_string(line) + ", steps 0 to 1");
  CHECK(contains(e.memory.owners[1], "256 bytes result: sum f32["));
  CHECK(e.memory.taken == 64 * 32 * 4 + (64 + 32) * 4);
  CHECK(e.memory.live == std::vector<std::int64_t>{e.memory.taken, e.memory.taken});
  CHECK(contains(weft::test::read_file(e.source_path), "void weft_k1_sum("));
}

TEST_CASE("explain says where the time of the compilation goes, a line a stage") {
  auto plain = compile([](const Tensor& x) { return sum(exp(x)); });
  auto gradient = compile([](const Tensor& x) { return grad([](const Tensor& x) { return sum(exp(x) * x); }, x); });
  const Explanation e = explain(plain, ones({4})), with_gradient = explain(gradient, ones({4}));
  CHECK(e.trace_milliseconds > 0);
  CHECK(e.autograd_milliseconds == 0);
  CHECK(with_gradient.autograd_milliseconds > 0);
  CHECK(with_gradient.autograd_milliseconds < with_gradient.trace_milliseconds);
  const std::string text = to_string(with_gradient), times = text.substr(text.find("---- compile time ----\n"));
  for (const char* stage : {"trace", "autograd", "merge_loops", "schedule", "generate", "compile", "in all"})
    CHECK(contains(times, concat_text(" ms  ", stage, "\n")));
  CHECK(times.find("simplify_algebra") == times.rfind("simplify_algebra"));  // which runs twice
}

TEST_CASE("equal kernels are one: they share a name, and those of other constants do not") {
  auto equal = compile([](const Tensor& x, const Tensor& w) {
    const Tensor y = matmul(tanh(x * 1.25 + 3), w);
    return tanh(y * 1.25 + 3);
  });
  auto other = compile([](const Tensor& x, const Tensor& w) {
    const Tensor y = matmul(tanh(x * 1.25 + 3), w);
    return tanh(y * 1.25 + 4);
  });
  const Tensor x = zeros({8, 8});
  Explanation e = explain(equal, x, x);
  REQUIRE(e.kernels.size() == 2);
  CHECK(e.kernels[0].name == e.kernels[1].name);
  CHECK(e.kernels[0].source == e.kernels[1].source);
  e = explain(other, x, x);
  REQUIRE(e.kernels.size() == 2);
  CHECK(e.kernels[0].name != e.kernels[1].name);
  CHECK(e.kernels[0].source != e.kernels[1].source);
  CHECK(numbers_of(other(x, x)) != numbers_of(equal(x, x)));
}

TEST_CASE("why a concatenation and a padding have kernels of their own, and that they have none among others") {
  auto f = compile([](const Tensor& x) { return std::pair(concat({x, exp(x)}, 0), pad(x, 0, 1, 1)); });
  const Explanation e = explain(f, ones({4, 3}));
  CHECK(contains(e.schedule, "starts a kernel: part 1 is no kernel's own result"));
  CHECK_FALSE(contains(e.schedule, "part 2 is"));
  CHECK(contains(e.schedule, " pad at explain_test.cpp:"));
  CHECK(contains(e.schedule, " starts a kernel: it reads arguments only\n"));
  const auto among = compile([](const Tensor& x) { return relu(concat({x, pad(x, 0, 1, 1) * 2}, 0)); });
  CHECK(explain(among, ones({4, 3})).kernels.size() == 1);
}

TEST_CASE("explain() and is_compiled() inside a compiled function are refused") {
  static const auto inner = compile([](const Tensor& x) { return x + 1; });
  static const auto generic = compile([](const auto& x) { return x + 1; });
  const auto refused = [](auto ask) {
    CHECK_THROWS_WITH_AS(compile(ask)(ones({2})),
                         doctest::Contains("explain() and is_compiled() can't be asked inside a compiled function"),
                         Error);
  };
  refused([](const Tensor& x) { (void)explain(inner, x); });
  refused([](const Tensor& x) { (void)explain(generic, x); });
  refused([](const Tensor& x) { (void)is_compiled(inner, x); });
  refused([](const Tensor&) { (void)explain(inner, ones({3})); });
}
