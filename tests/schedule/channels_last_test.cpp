// Images with their channels last: planned for a device without one, by a library that stands in for the device's.
#include "schedule/channels_last.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "passes/decompose.hpp"
#include "providers/provider.hpp"
#include "tests/schedule/support.hpp"
#include "weft/grad.hpp"
#include "weft/nn.hpp"

using namespace weft;
using namespace weft::test;

namespace {

// A step that is never run; it notes how its operands and its result lie.
class Noted final : public Payload {
 public:
  explicit Noted(const Candidate& candidate) : values(candidate.operands) { values.push_back(candidate.result()); }
  std::string details() const override { return {}; }
  loop::Cost cost() const override { return {Dim(1), Dim(1)}; }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation&) const override { return nullptr; }
  std::vector<PlacedValue> values;
};

class Library final : public Providers {
 public:
  bool takes(const Node& node, Device device) const override {
    return info(node.op).kind == OpKind::convolution || providers::all().takes(node, device);
  }
  bool reads(const Node& node, Device device, const Shape& shape, Dim offset,
             std::span<const Dim> strides) const override {
    if (info(node.op).kind == OpKind::convolution) return providers::is_row_major(shape, strides);
    return providers::all().reads(node, device, shape, offset, strides);
  }
  bool writes_in_any_order(const Node&, Device) const override { return false; }
  // Of many channels: of one group, and depthwise of steps of 1.
  bool gains_with_channels_last(const Node& node, Device) const override {
    if (info(node.op).kind != OpKind::convolution) return false;
    const Convolution& c = node.attributes<Convolution>();
    const auto has_many = [&](const Shape& shape) { return c.groups > 1 || shape[1].constant() >= 8; };
    return (c.groups == 1 || (node.op == Op::convolution && c.strides[0] == 1)) && node.type.shape[0].constant() > 0 &&
           has_many(type_of(node.input(0)).shape) && has_many(node.type.shape);
  }
  Offer best(const Candidate& candidate) const override {
    if (info(candidate.node.op).kind == OpKind::convolution) return {Dim(1), std::make_shared<Noted>(candidate)};
    return providers::all().best(candidate);
  }
  std::shared_ptr<Payload> generated(std::vector<loop::Kernel> kernels) const override {
    return providers::all().generated(std::move(kernels));
  }
  std::size_t most_sets(const loop::Kernel&, Device) const override { return 1; }
};

const Library library;

bool lies_last(const PlacedValue& value) {
  const std::vector<Dim> wanted = channels_last_strides(value.type.shape);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (!value.type.shape[static_cast<int>(i)].same(Dim(1)) && !value.strides[i].same(wanted[i])) return false;
  return true;
}

std::vector<const Noted*> convolutions(const Schedule& schedule) {
  std::vector<const Noted*> found;
  for (const Step& step : schedule.steps)
    if (const auto* noted = dynamic_cast<const Noted*>(step.payload.get())) found.push_back(noted);
  return found;
}

Tensor input(Traced& t, const Shape& shape) { return t.input(Device::cuda(), shape, DType::bf16); }

Schedule planned(Traced& t, const std::vector<Tensor>& results) {
  const Graph graph = simplify_algebra(fold_constants(inline_calls(t.graph(results))));
  verify(graph);
  return make_schedule(graph, Device::cuda(), library);
}

}  // namespace

TEST_CASE("images lie with their channels last from the first convolution of many channels to the end of the last") {
  Traced t;
  const Tensor x = input(t, Shape::of(2, 3, 32, 32)), first = input(t, Shape::of(16, 3, 3, 3));
  const Tensor a = input(t, Shape::of(16, 16, 3, 3)), b = input(t, Shape::of(16, 16, 1, 1)),
               scale = input(t, Shape::of(16));
  const Tensor y = max_pool2d(relu(conv2d(x, first, {.padding = {1, 1}})), {2, 2});
  const Tensor z = relu(conv2d(y, a, {.padding = {1, 1}}) * reshape(scale, {16, 1, 1}));
  const Tensor sum = relu(conv2d(z, b) + y);
  const Schedule schedule = planned(t, {mean(sum, {2, 3})});
  const std::vector<const Noted*> found = convolutions(schedule);
  REQUIRE(found.size() == 3);
  for (const PlacedValue& value : found[0]->values) CHECK(providers::is_row_major(value.type.shape, value.strides));
  for (const std::size_t i : {1, 2})
    for (const PlacedValue& value : found[i]->values) CHECK(lies_last(value));
  // One kernel each: the pool, the copy of the weights of 3 x 3, those after both convolutions; the mean is in the last
  // or one of its own.
  CHECK(kernels(schedule) <= 5);
  // The kernel between the convolutions walks memory as it lies: images and positions are one axis.
  int between = 0;
  for (const Step& step : schedule.steps) {
    const loop::Kernel* kernel = step.payload->kernel();
    if (!kernel) continue;
    // What the pool gives is read by a convolution and by a sum, and is in memory once.
    CHECK(std::ranges::count(kernel->body, loop::Kind::store, &loop::Instruction::kind) == 1);
    for (const loop::Instruction& it : kernel->body)
      if (it.kind == loop::Kind::apply && it.op == Op::mul && kernel->axes.size() == 2) {
        ++between;
        CHECK(kernel->axes[0].extent.same(Dim(2 * 16 * 16)));
        CHECK(kernel->axes[1].extent.same(Dim(16)));
      }
  }
  CHECK(between == 1);
}

TEST_CASE("a result, and what a convolution of few channels reads, lies in order: it is copied for the others") {
  Traced t;
  const Tensor x = input(t, Shape::of(2, 8, 6, 6)), a = input(t, Shape::of(8, 8, 3, 3)),
               few = input(t, Shape::of(4, 8, 3, 3)), c = input(t, Shape::of(8, 8, 3, 3));
  const Tensor y = relu(conv2d(x, a, {.padding = {1, 1}}));
  const Schedule schedule = planned(t, {conv2d(y, few), conv2d(y, c), conv2d(relu(y * 2), c)});
  const std::vector<const Noted*> found = convolutions(schedule);
  REQUIRE(found.size() == 4);
  for (const Noted* noted : found) {
    const bool gains = noted->values[1].type.shape[0].same(Dim(8));
    for (const PlacedValue& value : noted->values)
      CHECK((gains ? lies_last(value) : providers::is_row_major(value.type.shape, value.strides)));
  }
}

TEST_CASE("one convolution, and those beside one of groups that gains nothing, lie in order") {
  const auto lie_in_order = [](const Schedule& schedule, std::size_t count) {
    const std::vector<const Noted*> found = convolutions(schedule);
    CHECK(found.size() == count);
    for (const Noted* noted : found)
      for (const PlacedValue& value : noted->values) CHECK(providers::is_row_major(value.type.shape, value.strides));
  };
  Traced one, groups;
  const Shape images = Shape::of(2, 8, 6, 6), weights = Shape::of(8, 8, 3, 3);
  lie_in_order(planned(one, {conv2d(input(one, images), input(one, weights))}), 1);
  const Tensor of_groups = input(groups, images), whole = input(groups, weights);
  const Tensor middle =
      conv2d(relu(conv2d(of_groups, whole)), input(groups, Shape::of(8, 1, 3, 3)), {.stride = 2, .groups = 8});
  lie_in_order(planned(groups, {conv2d(middle, input(groups, Shape::of(8, 8, 1, 1)))}), 3);
}

TEST_CASE("all convolutions of a step of training lie with the channels last, and their gradients") {
  Traced t;
  const Tensor x = input(t, Shape::of(2, 8, 6, 6)), a = input(t, Shape::of(16, 8, 3, 3)),
               b = input(t, Shape::of(8, 16, 3, 3));
  const auto loss = [&](const std::vector<Tensor>& w) {
    return sum(square(conv2d(relu(conv2d(x, w[0], {.padding = {1, 1}})), w[1])));
  };
  const std::vector<Tensor> gradients = grad(loss, std::vector<Tensor>{a, b});
  // What an optimizer does with them is no copy of its own.
  const Schedule schedule = planned(t, {a - gradients[0] * 0.1, b - gradients[1] * 0.1});
  const std::vector<const Noted*> found = convolutions(schedule);
  REQUIRE(found.size() == 5);  // two forward, one gradient of an image, two of weights
  for (const Noted* noted : found)
    for (const PlacedValue& value : noted->values) CHECK(lies_last(value));
  // Copies of the image and of both weights, the relu, the gradient of the square and of the relu, two updates.
  CHECK(kernels(schedule) <= 8);
}

TEST_CASE("depthwise convolutions that gain lie with the channels last; their weights are read where they are") {
  Traced t;
  const Tensor x = input(t, Shape::of(2, 8, 6, 6)), a = input(t, Shape::of(16, 8, 1, 1)),
               depthwise = input(t, Shape::of(16, 1, 3, 3)), b = input(t, Shape::of(8, 16, 1, 1));
  const Tensor y = relu(conv2d(relu(conv2d(x, a)), depthwise, {.padding = {1, 1}, .groups = 16}));
  const Schedule schedule = planned(t, {mean(conv2d(y, b), {2, 3})});
  const std::vector<const Noted*> found = convolutions(schedule);
  REQUIRE(found.size() == 3);
  for (const Noted* noted : found)
    for (const PlacedValue& value : noted->values) CHECK(lies_last(value));
  CHECK(kernels(schedule) == 4);  // the copy of the image, two relus, the mean
}

TEST_CASE(
    "pads of images with their channels last lie so too; lanes walk the channels of what is added up by channel") {
  Traced t;
  const Tensor x = input(t, Shape::of(2, 8, 34, 34)), a = input(t, Shape::of(16, 8, 3, 3)),
               b = input(t, Shape::of(16, 16, 3, 3));
  const Tensor y = relu(conv2d(x, a, {.padding = {1, 1}}));
  const Tensor pooled = max_pool2d(y, {3, 3}, {.stride = {2, 2}, .padding = {1, 1}});
  const Tensor z = conv2d(pooled, b, {.padding = {1, 1}});
  const Schedule schedule = planned(t, {mean(z, {2, 3}), sum(cast(y, DType::f32), {0, 2, 3})});
  int walked = 0;
  for (const Step& step : schedule.steps) {
    const loop::Kernel* kernel = step.payload->kernel();
    if (!kernel || kernel->vector_axis < 0) continue;
    constexpr std::int64_t of_weights = 16 * 16 * 3 * 3;
    const Dim points = kernel->outer_count() * kernel->inner_count();
    const bool copies_input =
        std::ranges::any_of(kernel->axes, [](const loop::Axis& it) { return it.extent.same(Dim(8)); });
    if (points.constant() <= of_weights || copies_input) continue;
    const loop::Axis& lanes = kernel->axes[static_cast<std::size_t>(kernel->vector_axis)];
    CHECK(lanes.extent.same(Dim(16)));
    CHECK(!lanes.inner);
    ++walked;
  }
  CHECK(walked >= 4);  // the relu, the pad, the greatest of windows, both sums
}
