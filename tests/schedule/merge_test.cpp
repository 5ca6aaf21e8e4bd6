// Which kernels become one: what saves most bytes first, and nothing that costs more than it saves.
#include "schedule/merge.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "ir/parse.hpp"
#include "tests/schedule/traced.hpp"

using namespace weft;
using test::Traced;

namespace {

std::ptrdiff_t kernels(const Schedule& schedule) {
  return std::count_if(schedule.steps.begin(), schedule.steps.end(),
                       [](const Step& step) { return step.payload->kernel() != nullptr; });
}
// Whether a kernel computes both.
bool together(const Schedule& schedule, const char* one, const char* other) {
  return std::any_of(schedule.steps.begin(), schedule.steps.end(), [&](const Step& step) {
    return step.name.find(one) != std::string::npos && step.name.find(other) != std::string::npos;
  });
}

}  // namespace

TEST_CASE("a kernel waits for a later one that reads the same value") {
  Traced t;
  const Tensor x = t.f32(64, 64), w = t.f32(64, 64);
  CHECK(kernels(t.schedule({sin(x), x * matmul(w, w)})) == 1);
  const Tensor early = sin(x);  // a library step between the two reads the one, and the other reads that
  CHECK(kernels(t.schedule({early, x * matmul(early, w)})) == 2);
  CHECK(kernels(t.schedule({x * matmul(w, w) + matmul(early, w), early})) == 2);
}

TEST_CASE("a kernel waits for its only reader, which also waits for a library step") {
  Traced t;
  const Tensor x = t.f32(64, 64), w = t.f32(64, 64);
  CHECK(kernels(t.schedule({softmax(x) * matmul(w, w)})) == 1);
  const Tensor y = softmax(x);
  CHECK(kernels(t.schedule({y * matmul(matmul(y, w), w)})) == 2);
  CHECK(kernels(t.schedule({transpose(y) * matmul(w, w)})) == 2);  // at another index
}

TEST_CASE("kernels of one element that read the same are one; such a value makes no others neighbours") {
  Traced t;
  const Tensor a = t.f32(), b = t.f32(), x = t.f32(64, 3), y = t.f32(5);
  CHECK(kernels(t.schedule({a * a, a + b, a * b < 1})) == 1);
  CHECK(kernels(t.schedule({x * a, y * a, a + 1})) == 3);
}

TEST_CASE("of two kernels that can't both be merged with a third, the one that shares more bytes is") {
  for (const bool large_first : {false, true}) {
    Traced t;
    const Tensor x = t.f32(64, 1000), y = t.input(DType::f16, Shape::of(64, 1000));
    std::vector<Tensor> reductions{amin(y, 0), amax(x, 1)};
    if (large_first) std::swap(reductions[0], reductions[1]);
    const Schedule schedule = t.schedule({reductions[0], reductions[1], sin(cast(y, DType::f32) * x)});
    CHECK(kernels(schedule) == 2);
    INFO(decisions_text(schedule));
    CHECK(together(schedule, "sin", "amax"));
    CHECK_FALSE(together(schedule, "sin", "amin"));
    CHECK(decisions_text(schedule).find("; 128000 bytes are read again") != std::string::npos);
  }
}

TEST_CASE("a value that many units can compute is not computed by the one unit of a reduction") {
  Traced t;
  const Tensor small = t.f32(10, 10), large = t.f32(200, 300);
  CHECK(kernels(t.schedule({sin(small), sum(small)})) == 1);
  const Schedule schedule = t.schedule({sin(large), sum(large)});
  CHECK(kernels(schedule) == 2);
  CHECK(decisions_text(schedule).find("too few units") != std::string::npos);
}

TEST_CASE("the merit of a merge is what is not read twice and a launch, less what is lost") {
  Traced t;
  const Tensor x = t.f32(1000, 100), y = t.f32(1000, 100);
  const Graph graph = t.graph({x + y});
  const Score score(graph, Device::cpu());
  Group pointwise, reducing;
  pointwise.domain = reducing.domain = Shape::of(1000, 100);
  pointwise.reads = {graph.number(x), graph.number(y)};
  const double bytes = 1000 * 100 * 4;
  CHECK(merit(graph, score, pointwise, pointwise, bytes) == bytes + score.launch());
  reducing.reduces = true;
  reducing.inner[1] = true;  // 1000 rows: units enough
  CHECK(merit(graph, score, pointwise, reducing, bytes) == bytes + score.launch());
  reducing.inner[0] = true;
  CHECK(merit(graph, score, pointwise, reducing, bytes) < 0);
  Group nothing, sum_of_nothing;
  nothing.domain = sum_of_nothing.domain = Shape::of(0, 100);
  sum_of_nothing.reduces = sum_of_nothing.inner[1] = true;
  CHECK(merit(graph, score, nothing, sum_of_nothing, 0) == score.launch());
  for (int i = 0; i < 40; ++i) pointwise.reads.push_back(graph.number(x));
  CHECK(merit(graph, score, pointwise, pointwise, bytes) < 0);  // too many values at a time
}

TEST_CASE("the log says what a boundary between two kernels costs") {
  Traced t;
  const Tensor x = t.f32(64, 100), y = exp(x);
  const Schedule schedule = t.schedule({sum(y, 0), sum(y, 1)});
  CHECK(decisions_text(schedule).find("it reduces other axes than the kernel does; 25600 bytes are read again") !=
        std::string::npos);
}

TEST_CASE("what is computed again is no part of a kernel that runs before, but of the one that reads it") {
  const auto schedule = [](const char* again) {
    const std::string text = std::string("%0 f32[64,64] = input(0)\n%1 f32[64,64] = sin(%0)\n") +
                             "%2 f32[64,64] = matmul(%1, %0)\n%3 f32[64,64] = cos(%1)" + again +
                             "\n%4 f32[64,64] = cos(%0)" + again +
                             "\n%5 f32[64,64] = add(%3, %4)\n%6 f32[64,64] = mul(%2, %5)\nreturn %6\n";
    return make_schedule(parse_graph(text), Device::cpu(), providers::all());
  };
  CHECK(together(schedule(""), "sin", "cos"));
  const Schedule apart = schedule(" recomputation 1");
  CHECK_FALSE(together(apart, "sin", "cos"));
  CHECK(together(apart, "cos", "mul"));
  CHECK(kernels(apart) == 2);
}

// Where both axes have one size, only the index tells a value from its transpose.
TEST_CASE("a result that is the transpose of a square reduced value is computed by a kernel of its own") {
  for (const int columns : {64, 48}) {
    Traced t;
    const Tensor x = t.f32(64, columns), turned = transpose(x);
    CHECK(kernels(t.schedule({transpose(softmax(turned, 1))})) == 2);
    CHECK(kernels(t.schedule({x * 2, transpose(softmax(turned, 1))})) <= 3);
    CHECK(kernels(t.schedule({transpose(sum(turned, 1, true) * turned)})) == 2);
    CHECK(kernels(t.schedule({transpose(sin(x))})) == 1);
  }
}
