// When the collectives of a device's plan are done: planned without a device, and without other processes.
#include <doctest/doctest.h>

#include <algorithm>

#include "passes/gathers.hpp"
#include "tests/schedule/traced.hpp"
#include "weft/grad.hpp"

using namespace weft;
using test::Traced;

namespace {

constexpr int layers = 6, of_bucket = 2;

// The gradients of products by weights of [width, width], summed over 4 processes in buckets of two, the last layers'
// first: what distributed::average() records.
Schedule schedule_of(Device device, std::int64_t rows, std::int64_t width) {
  Traced t;
  const Tensor x = t.input(device, Shape::of(rows, width));
  std::vector<Tensor> weights;
  for (int i = 0; i < layers; ++i) weights.push_back(t.input(device, Shape::of(width, width)));
  std::vector<Tensor> slopes = grad(
      [&](const std::vector<Tensor>& weights) {
        Tensor y = x;
        for (const Tensor& w : weights) y = tanh(matmul(y, w));
        return sum(y);
      },
      weights);
  std::ranges::reverse(slopes);
  const Collective group{{intern_text("data")}, 4};
  std::vector<Tensor> results;
  for (std::size_t begin = 0; begin < slopes.size(); begin += of_bucket) {
    std::vector<Tensor> parts;
    for (std::size_t i = begin; i < begin + of_bucket; ++i) parts.push_back(reshape(slopes[i] / 4, {-1}));
    const Tensor bucket = concat(parts);
    const Tensor sum =
        record(Op::all_reduce_wait, {record(Op::all_reduce_start, {bucket}, group, {}, {})}, group, {}, {});
    for (std::int64_t i = 0; i < of_bucket; ++i)
      results.push_back(reshape(slice(sum, 0, i * width * width, (i + 1) * width * width), {width, width}) * 0.5);
  }
  const auto provided = [=](const Node& node) { return providers::all().takes(node, device); };
  Graph graph = common_subexpressions(simplify_algebra(fold_constants(inline_calls(t.graph(results)))));
  graph = decompose_matmul(graph, {device, provided});
  verify(graph);
  Schedule schedule = make_schedule(graph, device, providers::all());
  plan_memory(schedule, device);
  return schedule;
}

}  // namespace

TEST_CASE(
    "on a device a bucket of gradients is sent as soon as it is there, before the steps back to the layers below") {
  // Where little is in use the order of steps is the given one, and where much is, that of the least memory.
  for (const std::int64_t rows : {64, 32768}) {
    CAPTURE(rows);
    const Schedule schedule = schedule_of(Device::cuda(), rows, 256);
    std::vector<int> found;  // by collective: products before it
    int products = 0;
    for (const Step& step : schedule.steps) {
      products += step.name == "matmul";
      if (step.payload->is_collective()) found.push_back(products);
    }
    // Those of the way forward, and on the way back two for a layer, but that to what is below the bucket.
    std::vector<int> least;
    for (int sent = of_bucket; sent <= layers; sent += of_bucket) least.push_back(layers + 2 * sent - 1);
    REQUIRE(found.size() == least.size());
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == least[i]);
    CHECK(products == least.back());
  }
}

TEST_CASE("on a device a gather of parameters is on its way while those before it are read, and not earlier") {
  for (const std::int64_t rows : {64, 32768}) {
    CAPTURE(rows);
    constexpr std::int64_t width = 256, processes = 4;
    Traced t;
    const Tensor x = t.input(Device::cuda(), Shape::of(rows, width));
    std::vector<Tensor> weights;
    for (std::uint32_t i = 0; i < layers; ++i) {
      const Tensor part = t.input(Device::cuda(), Shape::of(width * width / processes));
      const Tensor all = record(Op::all_gather, {part}, Collective{{intern_text("data")}, processes}, {}, {});
      all.node()->recomputation = i + 1;
      weights.push_back(reshape(all, {width, width}));
    }
    Tensor y = x;
    for (const Tensor& w : weights) y = tanh(matmul(y, w));
    const auto provided = [](const Node& node) { return providers::all().takes(node, Device::cuda()); };
    Graph graph = common_subexpressions(simplify_algebra(fold_constants(place_gathers(inline_calls(t.graph({y}))))));
    graph = decompose_matmul(graph, {Device::cuda(), provided});
    verify(graph);
    const Schedule schedule = make_schedule(graph, Device::cuda(), providers::all());
    std::vector<int> found;  // by gather: products before it
    int products = 0;
    for (const Step& step : schedule.steps) {
      products += step.name == "matmul";
      if (step.payload->is_collective()) found.push_back(products);
    }
    CHECK(found == std::vector<int>{0, 0, 1, 2, 3, 4});
  }
}
