// What is fused, in which kernels, over which axes; and what memory is reused or donated.
#include "schedule/schedule.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <ctime>
#include <map>

#include "interpret/reference.hpp"
#include "providers/product.hpp"
#include "tests/sanitized.hpp"
#include "tests/schedule/support.hpp"
#include "weft/loops.hpp"
#include "weft/region.hpp"

using namespace weft;
using namespace weft::test;

namespace {

const Contraction& product(const Step& step) {
  return dynamic_cast<const providers::Product&>(*step.payload).contraction();
}

}  // namespace

TEST_CASE("a chain of pointwise operations is one flat kernel whose size is a slot") {
  Traced t;
  Tensor x = t.f32(64, 100), b = t.f32(64, 100);
  Schedule schedule = t.schedule({gelu(x * b + 1) - tanh(x)});
  REQUIRE(kernels(schedule) == 1);
  const loop::Kernel& k = kernel(schedule, 0);
  CHECK(k.axes.size() == 1);
  CHECK(k.buffers.size() == 3);
  REQUIRE(k.parameters.size() == 1);
  CHECK(k.parameters[0].constant() == 6400);
  CHECK(schedule.arena_bytes.same(Dim(0)));
}

TEST_CASE("a broadcast keeps the axes apart that it tells apart") {
  Traced t;
  Tensor x = t.f32(4, 8, 100), bias = t.f32(100);
  const loop::Kernel k = kernel(t.schedule({x + bias}), 0);
  REQUIRE(k.axes.size() == 2);
  CHECK(k.axes[0].extent.same(Dim(32)));
  CHECK(k.vector_axis == 1);
}

TEST_CASE("softmax, log softmax and layer normalization are one row kernel each") {
  Traced t;
  Tensor x = t.f32(64, 1000);
  auto layer_norm = [](const Tensor& v) {
    Tensor c = v - mean(v, -1, true);
    return c * rsqrt(mean(c * c, -1, true) + 1e-5);
  };
  for (const Tensor& y : {softmax(x), log_softmax(x), layer_norm(x), softmax(gelu(x) * 2)}) {
    Schedule schedule = t.schedule({y});
    REQUIRE(kernels(schedule) == 1);
    CHECK(kernel(schedule, 0).axes.size() == 2);
    CHECK(kernel(schedule, 0).axes[1].inner);
    CHECK(kernel(schedule, 0).vector_axis == 1);
    CHECK(schedule.arena_bytes.same(Dim(0)));
  }
}

TEST_CASE("on the host lanes run over short rows, not along them, where each row becomes one element") {
  Traced t;
  const auto lanes_lie_inside = [&](const Tensor& y) {
    const loop::Kernel k = kernel(t.schedule({y}), 0);
    return k.axes[static_cast<std::size_t>(k.vector_axis)].inner;
  };
  CHECK_FALSE(lanes_lie_inside(sum(t.f32(100, 4), -1)));
  CHECK_FALSE(lanes_lie_inside(logsumexp(t.f32(100, 8), -1)));
  CHECK_FALSE(lanes_lie_inside(mean(t.f32(6, 5, 10, 2, 10, 2), {3, 5})));
  CHECK(lanes_lie_inside(sum(t.f32(100, 9), -1)));
  CHECK(lanes_lie_inside(sum(t.f32(100, 0), -1)));
  CHECK(lanes_lie_inside(sum(t.f32(7, 4), -1)));
  CHECK(lanes_lie_inside(softmax(t.f32(100, 4))));
  CHECK(lanes_lie_inside(cumsum(t.f32(100, 4), -1)));
}

TEST_CASE("a column reduction fuses with the pointwise values that it reads, which are stored on the way") {
  Traced t;
  Tensor x = t.f32(64, 100), g = t.f32(64, 100);
  Tensor masked = where(x > 0, g, 0);
  Schedule schedule = t.schedule({masked, sum(masked, 0)});
  REQUIRE(kernels(schedule) == 1);
  const loop::Kernel& k = kernel(schedule, 0);
  CHECK_FALSE(k.axes[static_cast<std::size_t>(k.vector_axis)].inner);
  CHECK(k.axes[1].inner);
}

TEST_CASE("row and column reductions of one value do not share a kernel where rows are few, and the log says why") {
  Traced t;
  Tensor x = t.f32(64, 100);
  Tensor y = exp(x);
  Schedule schedule = t.schedule({sum(y, 0), sum(y, 1)});
  CHECK(kernels(schedule) == 2);
  CHECK(decisions_text(schedule).find("it reduces other axes than the kernel does") != std::string::npos);
}

TEST_CASE("row and column reductions of one value are one pass over it: columns in chunks of rows, then joined") {
  for (const bool columns_first : {false, true}) {
    Traced t;
    Tensor x = t.f32(1024, 100);
    Tensor y = exp(x), columns = columns_first ? sum(y, 0) : Tensor(), rows = sum(y, 1);
    if (!columns_first) columns = sum(y, 0);
    Schedule schedule = t.schedule({columns, rows, y / reshape(rows, {1024, 1})});
    REQUIRE(schedule.steps.size() == 2);
    const loop::Kernel &first = *schedule.steps[0].payload->kernel(), &second = *schedule.steps[1].payload->kernel();
    REQUIRE(first.axes.size() == 3);
    CHECK(first.axes[0].extent.same(Dim(16)));
    CHECK(first.axes[1].carried);
    CHECK(first.axes[2].inner);
    CHECK(std::count_if(first.buffers.begin(), first.buffers.end(), [](const auto& b) { return !b.written; }) == 1);
    CHECK(std::count_if(second.body.begin(), second.body.end(),
                        [](const auto& i) { return i.is(loop::ReductionKind::join); }) == 1);
  }
}

TEST_CASE("on a device kernels of one text that wait for nothing are one launch, and small last ones wait for them") {
  const auto steps = [](Device device, std::int64_t size) {
    Traced t;
    std::vector<Tensor> outputs;
    Tensor chain = t.input(device, Shape::of(size));
    for (int i = 0; i < 10; ++i) {
      chain = softmax(chain, 0);  // a kernel each: its result is read at another index
      chain = reshape(matmul(reshape(chain, {1, size}), reshape(chain, {size, 1})), {1}) * chain;
      outputs.push_back(t.input(device, Shape::of(64 + i)) - sum(chain) * 0.1);
    }
    int updates = 0;
    for (const Step& step : make_schedule(inline_calls(t.graph(outputs)), device, providers::all()).steps)
      updates += step.payload->kernel() && step.name.find("sub") != std::string::npos;
    return updates;
  };
  CHECK(steps(Device::cpu(), 32) >= 10);
  CHECK(steps(Device::cuda(), 32) == 1);
}

TEST_CASE("on a device kernels that differ in the extent of their first axis are one launch, with a slot for it") {
  const auto kernels = [](Device device, std::int64_t rows) {
    Traced t;
    const Tensor row = t.input(device, Shape::of(64)), x = t.input(device, Shape::of(32, 64)),
                 y = t.input(device, Shape::of(rows, 64));
    std::vector<loop::Kernel> all;
    const Schedule schedule =
        make_schedule(inline_calls(t.graph({sin(x) * row, sin(y) * row})), device, providers::all());
    for (const Step& step : schedule.steps) all.push_back(*step.payload->kernel());
    return all;
  };
  CHECK(kernels(Device::cpu(), 8).size() == 2);
  const std::vector<loop::Kernel> made = kernels(Device::cuda(), 8);
  REQUIRE(made.size() == 1);
  CHECK(made[0].parameters.size() == 1);
  CHECK(made[0].small);
  CHECK(made[0].axes[0].extent.same(dims::symbol(0, 2)));
  // Of one extent it is a number.
  for (const loop::Kernel& kernel : kernels(Device::cuda(), 32)) CHECK(kernel.parameters.empty());
}

TEST_CASE("on a device a slow number is computed once, beside the counter that it is computed from") {
  const auto powers = [](Device device) {
    Traced t;
    const Tensor steps = t.input(device, Shape(), DType::f64), x = t.input(device, Shape::of(1 << 16)),
                 y = t.input(device, Shape::of(1 << 15));
    const Tensor next = steps + 1, first = cast(1 - pow(0.9, next), DType::f32),
                 second = cast(1 - pow(0.99, next), DType::f32);
    Schedule schedule =
        make_schedule(inline_calls(t.graph({next, x * first - second, y * first + second})), device, providers::all());
    plan_memory(schedule, device);
    // State is written where it was, so that a device finds the same pointers at the next call.
    if (device.type == Device::Type::cuda)
      CHECK(to_text(schedule).find("result 0 may take the memory of argument 0\n") != std::string::npos);
    int in_one_thread = 0, in_all = 0;
    for (const Step& step : schedule.steps)
      for (const loop::Instruction& it : step.payload->kernel()->body)
        if (it.kind == loop::Kind::apply && it.op == Op::pow)
          ++(step.payload->kernel()->vector_axis < 0 ? in_one_thread : in_all);
    return std::pair(in_one_thread, in_all);
  };
  CHECK(powers(Device::cuda()) == std::pair(2, 0));
  CHECK(powers(Device::cpu()).first == 0);
}

TEST_CASE("on a device a softmax of rows that it can't hold is online") {
  const auto is_online = [](Device device, std::int64_t columns) {
    Traced t;
    const Tensor rows = t.input(device, Shape::of(64, columns));
    const Schedule schedule = make_schedule(inline_calls(t.graph({softmax(rows, 1)})), device, providers::all());
    return to_text(schedule).find("online_sum") != std::string::npos;
  };
  CHECK(is_online(Device::cuda(), 60000));
  CHECK_FALSE(is_online(Device::cuda(), 20000));
  CHECK_FALSE(is_online(Device::cpu(), 60000));
}

TEST_CASE("on a device few long rows are cut into parts, a launch for the parts and one that joins them") {
  const auto kernels = [](const Shape& shape, auto function) {
    Traced t;
    const Tensor rows = t.input(Device::cuda(), shape);
    const Schedule schedule = make_schedule(inline_calls(t.graph({function(rows)})), Device::cuda(), providers::all());
    CAPTURE(to_text(schedule));
    return static_cast<int>(schedule.steps.size());
  };
  const auto position = [](const Tensor& x) { return argmax(x, -1); };
  const auto log_sum = [](const Tensor& x) { return logsumexp(x, -1); };
  const auto norm = [](const Tensor& x) { return x - mean(x, -1, true); };
  CHECK(kernels(Shape::of(1, 128256), position) == 2);
  CHECK(kernels(Shape::of(132, 128256), position) == 2);
  CHECK(kernels(Shape::of(133, 128256), position) == 1);
  CHECK(kernels(Shape::of(1, 8192), position) == 1);
  CHECK(kernels(Shape::of(1, 128256), log_sum) == 2);
  CHECK(kernels(Shape::of(1, 128256), [](const Tensor& x) { return softmax(x, -1); }) == 3);
  CHECK(kernels(Shape::of(1, 128256), norm) == 3);
  CHECK(kernels(Shape::of(1, 32768), norm) == 1);
  CHECK(kernels(Shape::of(1, 100003), position) == 3);  // a prime: the rest is a launch too
}

TEST_CASE("on a device what a failed check must not write does nothing once the error word is set") {
  const auto text = [](Device device) {
    Traced t;
    const Tensor state = t.input(device, Shape::of(6)), index = t.input(device, Shape::of(6), DType::i64);
    const Tensor next = state * 2 + 1;  // reads nothing that is checked
    const Tensor found = gather(t.input(device, Shape::of(4)), index);
    Schedule schedule = make_schedule(inline_calls(t.graph({next, found})), device, providers::all());
    plan_memory(schedule, device);
    return to_text(schedule);
  };
  const std::string on_host = text(Device::cpu()), on_device = text(Device::cuda());
  for (const std::string& each : {on_host, on_device})
    CHECK(each.find("result 0 may take the memory of argument 0\n") != std::string::npos);
  CHECK(on_host.find(" unless p") == std::string::npos);
  CHECK(on_host.find(": error") == std::string::npos);
  CHECK(on_device.find(": error") != std::string::npos);
  const std::size_t predicate = on_device.find(" unless p");
  REQUIRE(predicate != std::string::npos);
  CHECK(on_device.find(" unless p", predicate + 1) == std::string::npos);  // one kernel, and not the check's own
}

TEST_CASE("on a device a product that reads new state leaves it where the state was, checks or not") {
  Traced t;
  const Device device = Device::cuda();
  const Tensor state = t.input(device, Shape::of(6, 6)), index = t.input(device, Shape::of(6), DType::i64);
  const Tensor next = state * 2 + 1, product = matmul(next, t.input(device, Shape::of(6, 5)));
  const Tensor found = gather(t.input(device, Shape::of(4)), index);
  Schedule schedule = make_schedule(inline_calls(t.graph({next, product, found})), device, providers::all());
  plan_memory(schedule, device);
  CHECK(to_text(schedule).find("result 0 may take the memory of argument 0\n") != std::string::npos);
}

TEST_CASE(
    "on a device products with a vector read weights early, but for the first kernel of a plan and what a kernel "
    "made") {
  Traced t;
  const Device device = Device::cuda();
  const auto weights = [&] { return t.input(device, Shape::of(1024, 1024), DType::bf16); };
  const Tensor first = weights(), second = weights(), x = t.input(device, Shape::of(1024), DType::bf16);
  const auto product = [](const Tensor& w, const Tensor& v) { return tanh(sum(w * v, 1)); };
  const Tensor made = first * 2;
  Schedule schedule = make_schedule(inline_calls(t.graph({product(made, product(second, product(first, x))), made})),
                                    device, providers::all());
  plan_memory(schedule, device);
  read_early(schedule);
  int early = 0;
  bool begun = false;
  for (const Step& step : schedule.steps) {
    REQUIRE(step.payload->kernel());
    for (const loop::Buffer& buffer : step.payload->kernel()->buffers) {
      early += buffer.steady;
      if (!buffer.steady) continue;
      CHECK(begun);
      CHECK(schedule.buffers[static_cast<std::size_t>(buffer.value)].kind == ScheduleBuffer::Kind::argument);
    }
    begun = true;
  }
  CHECK(early == 1);
}

TEST_CASE("on a device a kernel of constants, which later calls leave out, is none that others come after") {
  Traced t;
  const Device device = Device::cuda();
  const auto weights = [&] { return t.input(device, Shape::of(1024, 1024), DType::bf16); };
  const Tensor first = weights(), second = weights(), x = t.input(device, Shape::of(1024), DType::bf16);
  const auto product = [](const Tensor& w, const Tensor& v) { return tanh(sum(w * v, 1)); };
  const Tensor made = sin(sum(first, 0));
  const Graph graph = inline_calls(t.graph({product(second, x), product(second, made)}));
  const auto early = [&](std::vector<int> constants) {
    Schedule schedule = make_schedule(graph, device, providers::all(), {}, constants);
    plan_memory(schedule, device);
    read_early(schedule, constants);
    int count = 0;
    for (const Step& step : schedule.steps)
      for (const loop::Buffer& buffer : step.payload->kernel()->buffers) count += buffer.steady;
    return count;
  };
  CHECK(early({}) > 0);
  CHECK(early({0, 1}) < early({}));
}

TEST_CASE("on a device kernels of constants are launches of their own") {
  Traced t;
  const Device device = Device::cuda();
  const Tensor weights = t.input(device, Shape::of(64, 32), DType::bf16),
               x = t.input(device, Shape::of(64, 32), DType::bf16);
  const auto ordered = [](const Tensor& each) { return matmul(permute(sin(each), {1, 0}), each); };
  const Graph graph = inline_calls(t.graph({ordered(weights), ordered(x)}));
  const auto kernels = [&](std::vector<int> constants) {
    const Schedule schedule = make_schedule(graph, device, providers::all(), {}, constants);
    return std::ranges::count_if(schedule.steps, [](const Step& step) { return step.payload->generated(); });
  };
  CHECK(kernels({}) == 1);
  CHECK(kernels({0}) == 2);
}

TEST_CASE(
    "on a device products of several matrices with one vector are one launch, and a product of two results one "
    "kernel") {
  Traced t;
  const Device device = Device::cuda();
  const Tensor x = t.input(device, Shape::of(1024), DType::bf16);
  const auto product = [&](std::int64_t rows) {
    return sum(t.input(device, Shape::of(rows, 1024), DType::bf16) * x, 1);
  };
  const auto schedule_of = [&](const std::vector<Tensor>& results) {
    return make_schedule(inline_calls(t.graph(results)), device, providers::all());
  };
  const Schedule several = schedule_of({product(2048), product(512), product(512)});
  REQUIRE(several.steps.size() == 1);
  CHECK(to_text(several).find("and 2 more of this text, in one launch") != std::string::npos);
  const Tensor gate = product(2048);
  CHECK(schedule_of({gate / (1 + exp(-gate)) * product(2048)}).steps.size() == 1);
  CHECK(schedule_of({product(2048), product(100)}).steps.size() == 2);  // few rows do not stream
}

TEST_CASE("state is written where it was, whatever else would do") {
  Traced t;
  const Tensor a = t.f32(100), b = t.f32(100);
  const Graph graph = t.graph({a * b, a + b});
  const auto donations = [&](std::vector<Update> updates) {
    std::vector<int> arguments(2, -1);
    Schedule schedule = make_schedule(graph, Device::cpu(), providers::all());
    plan_memory(schedule, Device::cpu(), updates);
    for (const Schedule::Donation& donation : schedule.donations)
      arguments[static_cast<std::size_t>(donation.result)] = donation.argument;
    return arguments;
  };
  CHECK(donations({}) == std::vector{0, 1});
  CHECK(donations({{1, 0}, {0, 1}}) == std::vector{1, 0});
  CHECK(donations({{0, 1}}) == std::vector{1, 0});
}

TEST_CASE("kernels of one launch are all named, with their own lines") {
  Traced t;
  const Tensor x = t.input(Device::cuda(), Shape::of(64)), y = t.input(Device::cuda(), Shape::of(65));
  const int line = __LINE__ + 1;
  const Tensor first = x * 2;
  const Tensor second = y * 2;
  const Schedule schedule = make_schedule(inline_calls(t.graph({first, second})), Device::cuda(), providers::all());
  REQUIRE(schedule.steps.size() == 1);
  const std::string text = schedule.steps[0].payload->text();
  INFO(text);
  for (const char* size : {"[64]@cuda:0, schedule_test.cpp:", "[65]@cuda:0, schedule_test.cpp:"})
    CHECK(text.find("mul f32" + std::string(size)) != std::string::npos);
  CHECK(text.find(":" + std::to_string(line) + "\n") != std::string::npos);
  CHECK(text.find(":" + std::to_string(line + 1) + "\n") != std::string::npos);
}

namespace {
// Counts the kernels of which steps are made, and the offers that were asked for.
struct Counting final : Providers {
  bool takes(const Node& node, Device device) const override { return all.takes(node, device); }
  bool reads(const Node& node, Device device, const Shape& shape, Dim offset,
             std::span<const Dim> strides) const override {
    return all.reads(node, device, shape, offset, strides);
  }
  bool writes_in_any_order(const Node& node, Device device) const override {
    return all.writes_in_any_order(node, device);
  }
  Offer best(const Candidate& candidate) const override {
    ++asked[candidate.node.op];
    return all.best(candidate);
  }
  std::shared_ptr<Payload> generated(std::vector<loop::Kernel> kernels) const override {
    made += kernels.size();
    return all.generated(std::move(kernels));
  }
  std::size_t most_sets(const loop::Kernel& kernel, Device device) const override {
    return all.most_sets(kernel, device);
  }
  const Providers& all = providers::all();
  mutable std::size_t made = 0;
  mutable std::map<Op, int> asked;
};
}  // namespace

TEST_CASE("a launch over a table is made once, when all its kernels are known") {
  Traced t;
  constexpr std::size_t count = 150;
  std::vector<Tensor> outputs;
  for (std::size_t i = 0; i < count; ++i)
    outputs.push_back(t.input(Device::cuda(), Shape::of(static_cast<std::int64_t>(64 + i))) * 2);
  const Counting counting;
  const Schedule schedule = make_schedule(inline_calls(t.graph(outputs)), Device::cuda(), counting);
  CHECK(schedule.steps.size() < count / 10);
  CHECK(counting.made == count);
}

TEST_CASE("the body of a loop is scheduled once, though the graph around it is scheduled twice") {
  Traced t;
  const Tensor x = t.f32(4, 1024), w = t.f32(1024, 1024);
  const auto part = region("part", [&](const Tensor& y) {
    Tensor z = y - amax(y, -1, true);
    for (int i = 0; i < 6; ++i) z = tanh(z) * y + exp(-abs(z));
    return matmul(z, w);
  });
  const Tensor first = part(x), second = part(softmax(first, -1)), third = part(second - mean(second, -1, true));
  const Tensor last = scan([](const Tensor& s, const Tensor& row) { return sort(s + row, 0).values; }, third[0], third);
  const Counting counting;
  const Schedule schedule = make_schedule(inline_calls(t.graph({last, third})), Device::cpu(), counting);
  CHECK(!schedule.borders.empty());
  CHECK(counting.asked[Op::scan] == 2);
  CHECK(counting.asked[Op::argsort] == 1);
  const auto loop = std::ranges::find_if(schedule.steps, [](const Step& step) { return step.payload->runs_others(); });
  REQUIRE(loop != schedule.steps.end());
  const std::vector<Payload::Inner> bodies = loop->payload->inner();
  REQUIRE(bodies.size() == 1);
  CHECK(bodies[0].times.same(Dim(4)));
  CHECK(bodies[0].schedule->steps.size() > 1);
}

TEST_CASE("a long reduction to one element is one unit a chunk, then joined") {
  Traced t;
  Tensor x = t.f32(1000, 1000);
  Schedule schedule = t.schedule({sum(x * x), amax(x)});
  REQUIRE(schedule.steps.size() == 3);
  CHECK(loop::unit_count(*schedule.steps[0].payload->kernel()).same(Dim(1000000 / 4096)));
  CHECK(schedule.steps[1].payload->kernel()->inner_count().same(Dim(1000000 % 4096)));
  CHECK(schedule.steps[2].payload->kernel()->inner_count().same(Dim(1000000 / 4096 + 1)));
}

TEST_CASE("siblings that read a common value share a kernel") {
  Traced t;
  Tensor x = t.f32(64, 100);
  CHECK(kernels(t.schedule({sum(x, 1), amax(x, 1)})) == 1);
  CHECK(kernels(t.schedule({sin(x), cos(x)})) == 1);
}

TEST_CASE("no kernel waits for itself through a library step") {
  Traced t;
  Tensor x = t.f32(32, 32), w = t.f32(32, 32);
  Tensor a = tanh(x);
  Tensor y = a + matmul(a, w);  // a is needed before the product, the sum after it
  Schedule schedule = t.schedule({y});
  REQUIRE(schedule.steps.size() == 3);
  CHECK(schedule.steps[0].payload->kernel());
  CHECK(schedule.steps[1].name == "matmul");
  CHECK(schedule.steps[2].payload->kernel());
}

TEST_CASE("matmul reads transposed and sliced operands where they lie") {
  Traced t;
  Tensor x = t.f32(32, 16), w = t.f32(48, 16);
  Schedule schedule = t.schedule({matmul(slice(x, 0, 4, 20), transpose(w))});
  REQUIRE(schedule.steps.size() == 1);
  const Contraction& c = product(schedule.steps[0]);
  CHECK(c.a_offset.same(Dim(64)));
  CHECK(c.b_row.same(Dim(1)));
  CHECK(c.b_column.same(Dim(16)));
  CHECK(kernels(t.schedule({matmul(slice(transpose(x), 1, 0, slice_end, 2), slice(x, 0, 0, 16))})) == 0);
  // Every second column of rows has no unit stride in either axis: it is copied first.
  CHECK(kernels(t.schedule({matmul(slice(x, 1, 0, slice_end, 2), slice(x, 0, 0, 8))})) == 1);
}

TEST_CASE("a reshape of a view that a product reads is copied over the view's axes, without divisions") {
  Traced r;
  Tensor x = r.f32(4, 9, 5, 7), w = r.f32(7 * 9, 6);
  Schedule schedule = r.schedule({matmul(reshape(permute(x, {0, 2, 3, 1}), {20, 63}), w)});
  REQUIRE(kernels(schedule) == 1);
  for (const loop::Instruction& it : kernel(schedule, 0).body)
    CHECK_FALSE(dims::any_atom(it.index, [](const DimNode& atom) { return atom.kind != DimKind::axis; }));
  CHECK(product(schedule.steps.back()).a_row.same(Dim(63)));
}

TEST_CASE("a transposed reshape of a view is copied over the view's axes too, and a repeated one once") {
  Traced r;
  Tensor x = r.f32(4, 9, 5, 7), w = r.f32(6, 20), v = r.f32(3, 20, 8);
  const auto is_plain = [&](const Schedule& schedule) {
    REQUIRE(kernels(schedule) == 1);
    return std::none_of(kernel(schedule, 0).body.begin(), kernel(schedule, 0).body.end(), [](const auto& it) {
      return dims::any_atom(it.index, [](const DimNode& atom) { return atom.kind != DimKind::axis; });
    });
  };
  // The windows of a convolution's weight gradient.
  Schedule transposed = r.schedule({matmul(w, transpose(reshape(permute(x, {1, 3, 0, 2}), {63, 20})))});
  CHECK(is_plain(transposed));
  CHECK(product(transposed.steps.back()).b_row.same(Dim(1)));
  // The flipped weights of its input gradient, for each item of the batch.
  Tensor rows = reshape(permute(x, {1, 3, 0, 2}), {1, 63, 20});
  Schedule repeated = r.schedule({matmul(expand(rows, {3, 63, 20}), v)});
  CHECK(is_plain(repeated));
  const Step& step = repeated.steps.back();
  CHECK(product(step).a_batch[0].same(Dim(0)));
  CHECK(repeated.buffers[static_cast<std::size_t>(step.buffers[0])].elements.same(Dim(63 * 20)));
}

TEST_CASE("what a product alone reads in another order is written in that order") {
  Traced t;
  Tensor x = t.f32(6, 4, 10), w = t.f32(10, 4, 3);
  Tensor y = softmax(x);
  Schedule schedule = t.schedule({matmul(permute(y, {2, 0, 1}), w)});
  REQUIRE(schedule.steps.size() == 2);
  const Contraction& c = product(schedule.steps[1]);
  CHECK(c.a_batch[0].same(Dim(24)));
  CHECK(c.a_row.same(Dim(4)));
  CHECK(c.a_column.same(Dim(1)));
  const ScheduleBuffer& between = schedule.buffers[static_cast<std::size_t>(schedule.steps[1].buffers[0])];
  CHECK(between.strides == std::vector<Dim>{4, 1, 24});
  CHECK(to_text(schedule).find("f32 x 240, strides 4 1 24\n") != std::string::npos);
  CHECK(decisions_text(schedule).find("is written in the order that its product reads: no copy") != std::string::npos);
  // Somebody else reads it as it was recorded, or a result must be: then the product copies.
  CHECK(kernels(t.schedule({matmul(permute(y, {2, 0, 1}), w), matmul(y, t.f32(6, 10, 4))})) == 2);
  CHECK(kernels(t.schedule({matmul(permute(y, {2, 0, 1}), w), y})) == 2);
}

TEST_CASE("what a concatenation alone reads is written where it lies in it") {
  Traced t;
  Tensor x = t.f32(8, 16), w = t.f32(16, 5);
  Schedule schedule = t.schedule({concat({softmax(x), matmul(x, w), concat({softmax(-x), x}, 1)}, 1)});
  REQUIRE(schedule.steps.size() == 3);  // both of softmax in one kernel, the product, and a copy of x
  CHECK(kernels(schedule) == 2);
  CHECK(schedule.arena_bytes.same(Dim(0)));
  for (const Step& step : schedule.steps) {
    const auto written = static_cast<std::size_t>(step.buffers.back());
    CHECK(schedule.buffers[written].kind == ScheduleBuffer::Kind::result);
    CHECK(schedule.buffers[written].elements.same(Dim(8 * 53)));
    if (step.name != "matmul") continue;
    CHECK(product(step).c_offset.same(Dim(16)));
    CHECK(product(step).c_row.same(Dim(53)));
    CHECK(product(step).c_column.same(Dim(1)));
  }
  CHECK(decisions_text(schedule).find(" concat has it: no copy") != std::string::npos);
  // Whoever is read by others too, or padded, has memory of its own.
  Tensor y = softmax(x);
  CHECK_FALSE(t.schedule({concat({y, y}, 1)}).arena_bytes.same(Dim(0)));
  CHECK_FALSE(t.schedule({concat({y, x}, 1), matmul(y, w)}).arena_bytes.same(Dim(0)));
}

TEST_CASE("a constant without unit stride is packed when the plan is made, not by each call") {
  Traced t;
  std::vector<float> table(2 * 24);
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i);
  Tensor w = constant(std::span<const float>(table), {6, 4, 2});
  Schedule schedule = t.schedule({matmul(t.f32(5, 6), select(w, 2, 1))});
  REQUIRE(schedule.steps.size() == 1);
  const ScheduleBuffer& packed = schedule.buffers[static_cast<std::size_t>(schedule.steps[0].buffers[1])];
  CHECK(packed.kind == ScheduleBuffer::Kind::packed);
  CHECK(packed.elements.same(Dim(24)));
  CHECK(packed.packed_offset == 1);
  CHECK(packed.packed_sizes == std::vector<std::int64_t>{6, 4});
  CHECK(packed.packed_strides == std::vector<std::int64_t>{8, 2});
  for (const ScheduleBuffer& buffer : schedule.buffers)
    if (buffer.kind == ScheduleBuffer::Kind::constant) CHECK_FALSE(buffer.constant.defined());
  const Contraction& c = product(schedule.steps[0]);
  CHECK(c.b_offset.same(Dim(0)));
  CHECK(c.b_row.same(Dim(4)));
  CHECK(c.b_column.same(Dim(1)));
  Schedule plain = t.schedule({matmul(t.f32(5, 6), constant(std::span<const float>(table), {6, 8}))});
  CHECK(to_text(plain).find("packed") == std::string::npos);
}

TEST_CASE("integer and 16-bit products become a product and a sum in one kernel") {
  Traced t;
  Tensor a = t.input(DType::i64, Shape::of(5, 7)), b = t.input(DType::i64, Shape::of(7, 3));
  Schedule schedule = t.schedule({matmul(a, b)});
  CHECK(schedule.steps.size() == 1);
  CHECK(kernels(schedule) == 1);
  CHECK(to_text(schedule).find("= product(") != std::string::npos);
}

TEST_CASE("views vanish: reshape, permute, slice, expand and flip cost no kernel of their own") {
  Traced t;
  Tensor x = t.f32(6, 4, 10);
  Tensor y = flip(reshape(permute(x, {1, 0, 2}), {4, 60}), 1) * 2;
  CHECK(kernels(t.schedule({slice(y, 1, 5, 50, 3)})) == 1);
}

TEST_CASE("a view is read at the index that it maps to") {
  Traced t;
  Tensor x = t.f32(2, 3, 4);
  auto views = {permute(x, {1, 2, 0}),
                permute(slice(x, 2, 1, 4, 2), {2, 0, 1}),
                reshape(permute(x, {2, 0, 1}), {6, 4}),
                reshape(flip(x, 1), {4, 3, 2}),
                slice(reshape(transpose(reshape(x, {6, 4})), {2, 12}), 1, 11, 0, -3),
                expand(slice(x, 1, 2, 3), {5, 2, 6, 4})};
  for (const Tensor& view : views) CHECK(moved(t.schedule({view})) == moved_in_reference(t.graph({view})));
}

TEST_CASE("the parts of a concatenation lie one after the other") {
  Traced t;
  Tensor x = t.f32(2, 3, 4), y = t.f32(2, 2, 4);
  // Two are a formula; many are copied into memory.
  for (const Tensor& joined : {concat({x, y}, 1), concat({x, y, x, y, x}, 1)}) {
    const Schedule schedule = t.schedule({joined});
    CHECK(kernels(schedule) == (type_of(joined).shape[1].same(Dim(5)) ? 1 : 5));
    CHECK(moved(schedule) == moved_in_reference(t.graph({joined})));
  }
}

TEST_CASE("a reduction that is read at another index is complete before") {
  Traced t;
  Tensor x = t.f32(64, 64);
  Tensor rows = sum(x, 1);
  CHECK(kernels(t.schedule({x - reshape(rows, {64, 1})})) == 1);
  CHECK(kernels(t.schedule({x - rows})) == 2);  // of row j, at column j
  CHECK(kernels(t.schedule({x - reshape(flip(rows, 0), {64, 1})})) == 2);
}

TEST_CASE("outputs are fresh memory: arguments, repeated values and views of values are copied") {
  Traced t;
  Tensor x = t.f32(8, 8);
  Tensor y = x + 1;
  Schedule schedule = t.schedule({x, y, y, transpose(y)});
  std::vector<bool> written(4, false);
  for (const Step& step : schedule.steps)
    for (const loop::Buffer& it : step.payload->kernel()->buffers)
      if (it.written) {
        const ScheduleBuffer& buffer = schedule.buffers[static_cast<std::size_t>(it.value)];
        if (buffer.kind == ScheduleBuffer::Kind::result) written[static_cast<std::size_t>(buffer.index)] = true;
      }
  for (bool w : written) CHECK(w);
}

TEST_CASE("a result may take an argument's memory only when it is read at the same index and nobody reads it later") {
  Traced t;
  Tensor x = t.f32(64, 100), y = t.f32(64, 100);
  CHECK(t.schedule({x * 2 + y}).donations.size() == 1);
  CHECK(t.schedule({flip(x, 0) * 2}).donations.empty());
  // Of one kernel's arguments the product reads x later, and y is loaded after the store of x * 2.
  CHECK(t.schedule({x * 2, sum(matmul(x, transpose(x + 0 * y)))}).donations.empty());
  CHECK(t.schedule({x * 2, matmul(x, transpose(x))}).donations.empty());  // in this order
  Tensor z = t.f32(100);
  CHECK(t.schedule({z + sum(x, 0)}).donations.size() == 1);
  CHECK(t.schedule({softmax(x)}).donations.size() == 1);
}

TEST_CASE("a result of a reduction does not take memory that the walk after it reads again") {
  Traced t;
  Tensor x = t.input(DType::f32, Shape::of(t.symbol(3), 100)), z = t.f32(100);
  Tensor total = sum(x * z, 0);
  Schedule schedule = t.schedule({total * 2, total + maximum(x, z)});
  REQUIRE(kernels(schedule) == 1);  // else nobody could read z too late
  for (const auto& donation : schedule.donations) CHECK(donation.argument != 1);
}

namespace {
// A step that may write its result into its argument's memory, or one that may fail.
class Stand : public Payload {
 public:
  explicit Stand(bool fails) : fails_(fails) {}
  std::string details() const override { return {}; }
  loop::Cost cost() const override { return {}; }
  bool may_fail() const override { return fails_; }
  bool in_place(int, int) const override { return !fails_; }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation&) const override { return nullptr; }

 private:
  bool fails_;
};
}  // namespace

TEST_CASE("nothing is donated to a step before a check has passed") {
  for (const bool check_first : {false, true}) {
    Schedule schedule;
    schedule.buffers = {{ScheduleBuffer::Kind::argument, 0, DType::f32, 64},
                        {ScheduleBuffer::Kind::result, 0, DType::f32, 64},
                        {ScheduleBuffer::Kind::argument, 1, DType::boolean, 1}};
    schedule.steps = {{"write", {0, 1}, std::make_shared<Stand>(false)}, {"check", {2}, std::make_shared<Stand>(true)}};
    if (check_first) std::swap(schedule.steps[0], schedule.steps[1]);
    plan_memory(schedule);
    CHECK(schedule.donations.size() == (check_first ? 1 : 0));
  }
}

namespace {
// An update of its first buffer, which it copies to the second unless both are one.
class Updating : public Payload {
 public:
  Updating(int from, int to, bool checked = false) : from_(from), to_(to), checked_(checked) {}
  std::string details() const override { return checked_ ? "checked" : ""; }
  loop::Cost cost() const override { return {}; }
  bool in_place(int argument, int result) const override { return argument == from_ && result == to_; }
  std::shared_ptr<const Payload> predicated(int) const override { return std::make_shared<Updating>(from_, to_, true); }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation&) const override { return nullptr; }

 private:
  int from_, to_;
  bool checked_;
};
class Checking : public Stand {
 public:
  Checking() : Stand(true) {}
  bool is_check() const override { return true; }
};
}  // namespace

TEST_CASE("a chain of updates is one memory: that of the result, and of the argument, unless it is read elsewhere") {
  using Kind = ScheduleBuffer::Kind;
  const auto chain = [](bool reads_between, Device device) {
    Schedule schedule;
    for (const Kind kind : {Kind::argument, Kind::temporary, Kind::temporary, Kind::result})
      schedule.buffers.push_back({kind, 0, DType::f32, 64});
    schedule.buffers.push_back({Kind::argument, 1, DType::boolean, 1});
    schedule.buffers.push_back({Kind::result, 1, DType::f32, 1});
    schedule.steps = {{"check", {4}, std::make_shared<Checking>()},
                      {"first", {0, 1}, std::make_shared<Updating>(0, 1)},
                      {"second", {1, 2}, std::make_shared<Updating>(1, 2)},
                      {"third", {2, 3}, std::make_shared<Updating>(2, 3)}};
    if (reads_between) schedule.steps.push_back({"read", {2, 5}, std::make_shared<Stand>(false)});
    plan_memory(schedule, device);
    return schedule;
  };
  for (const Device device : {Device::cpu(), Device::cuda()}) {
    const Schedule one = chain(false, device);
    for (const std::size_t b : {1, 2, 3}) {
      CHECK(one.buffers[b].kind == Kind::result);
      CHECK(one.buffers[b].index == 0);
    }
    CHECK(one.arena_bytes.same(Dim(0)));
    REQUIRE(one.donations.size() == 1);
    CHECK(one.donations[0].argument == 0);
    CHECK(one.donations[0].result == 0);
    // On a device none of them writes once the check has failed.
    for (const std::size_t s : {1, 2, 3})
      CHECK(one.steps[s].payload->details() == (device.type == Device::Type::cpu ? "" : "checked"));
    // What is read after the third update is memory of its own.
    const Schedule read = chain(true, device);
    CHECK(read.buffers[2].kind == Kind::temporary);
    CHECK(read.buffers[1].kind == Kind::temporary);
    CHECK(read.donations.empty());
  }
}

TEST_CASE("temporaries share memory when their lives do not overlap, and only then") {
  Traced t;
  Tensor x = t.f32(64, 64);
  Tensor y = x;
  for (int i = 0; i < 6; ++i) y = matmul(tanh(y), x);
  Schedule schedule = t.schedule({y});
  REQUIRE(schedule.arena_bytes.is_constant());
  CHECK(schedule.arena_bytes.constant() == 2 * 64 * 64 * 4);
  std::vector<int> first(schedule.buffers.size(), -1), last(schedule.buffers.size(), -1);
  for (std::size_t s = 0; s < schedule.steps.size(); ++s)
    for (int b : schedule.steps[s].buffers) {
      if (first[static_cast<std::size_t>(b)] < 0) first[static_cast<std::size_t>(b)] = static_cast<int>(s);
      last[static_cast<std::size_t>(b)] = static_cast<int>(s);
    }
  for (std::size_t a = 0; a < schedule.buffers.size(); ++a)
    for (std::size_t b = a + 1; b < schedule.buffers.size(); ++b) {
      const ScheduleBuffer &p = schedule.buffers[a], &q = schedule.buffers[b];
      if (p.kind != ScheduleBuffer::Kind::temporary || q.kind != ScheduleBuffer::Kind::temporary) continue;
      bool alive_together = first[a] <= last[b] && first[b] <= last[a];
      bool overlap = p.offset.constant() < q.offset.constant() + q.elements.constant() * 4 &&
                     q.offset.constant() < p.offset.constant() + p.elements.constant() * 4;
      CHECK_FALSE((alive_together && overlap));
    }
}

TEST_CASE("a large temporary takes the memory of the one that its kernel reads last, element by element") {
  constexpr std::int64_t size = 1024;
  const auto arena = [](bool read_later) {
    Traced t;
    const Tensor x = t.f32(size, size), product = matmul(x, x);
    return t.schedule({matmul(tanh(product), read_later ? product : x)}).arena_bytes.constant() / (size * size * 4);
  };
  CHECK(arena(false) == 1);
  CHECK(arena(true) == 2);
  // The gradient of logits, of which each row's label is read at an index of its own.
  Traced t;
  Tensor logits = matmul(t.f32(size, size), t.f32(size, size));
  const Tensor labels = t.input(DType::i64, Shape::of(size));
  const Tensor shifted = logits - amax(logits, 1, true), raised = exp(shifted), sums = sum(raised, 1, true);
  const Tensor chosen = sum(where(unsqueeze(labels, 1) == arange(size), shifted, 0), 1, true),
               loss = log(sums) - chosen;
  const Schedule schedule = t.schedule({loss, matmul(raised / sums, t.f32(size, size))});
  CHECK(schedule.arena_bytes.constant() == size * size * 4);
}

TEST_CASE("temporaries of symbolic sizes share memory too, and not while both are read") {
  Traced t;
  Dim n = t.symbol(64);
  Tensor x = t.input(DType::f32, Shape::of(n, n));
  Tensor y = x;
  for (int i = 0; i < 6; ++i) y = matmul(tanh(y), x);
  Schedule schedule = t.schedule({y});
  for (const Step& step : schedule.steps)
    for (int a : step.buffers)
      for (int b : step.buffers) {
        const ScheduleBuffer &p = schedule.buffers[static_cast<std::size_t>(a)],
                             &q = schedule.buffers[static_cast<std::size_t>(b)];
        if (a == b || p.kind != ScheduleBuffer::Kind::temporary || q.kind != ScheduleBuffer::Kind::temporary) continue;
        CHECK_FALSE(p.offset.same(q.offset));
      }
  const std::int64_t n_is_64[] = {64};
  CHECK(dims::evaluate(schedule.arena_bytes, n_is_64) == 2 * 64 * 64 * 4);
}

TEST_CASE("symbolic sizes: the same fusion, sizes in slots") {
  Traced t;
  Dim rows = t.symbol(64), columns = t.symbol(1000);
  Tensor x = t.input(DType::f32, Shape::of(rows, columns));
  Schedule schedule = t.schedule({softmax(x) + 1, matmul(x, transpose(x))});
  CHECK(kernels(schedule) == 1);
  CHECK(kernel(schedule, 0).parameters.size() == 2);
  Schedule flat = t.schedule({x * 2});
  CHECK(kernel(flat, 0).axes.size() == 1);
}

TEST_CASE("a deep graph is cut into kernels of bounded size") {
  Traced t;
  Tensor x = t.f32(16);
  Tensor y = x;
  for (int i = 0; i < 3000; ++i) y = y * 1.0001 + x;
  Schedule schedule = t.schedule({y});
  CHECK(kernels(schedule) >= 6000 / 96);
  CHECK(kernels(schedule) <= 200);
}

TEST_CASE("a wide and a deep graph are scheduled in time that grows as they do") {
  const auto deep = [](Traced& t, int size) {
    Tensor x = t.f32(16), y = x;
    for (int i = 0; i < size; ++i) y = tanh(y) + x;
    return std::vector{y};
  };
  const auto wide = [](Traced& t, int size) {
    Tensor x = t.f32(16);
    std::vector<Tensor> results;
    for (int i = 0; i < size; ++i) results.push_back(tanh(x * (1 + i)));
    return results;
  };
  // Each value is read by many, rows and columns are reduced: many could be merged with many.
  const auto tangled = [](Traced& t, int size) {
    std::vector<Tensor> x, results;
    for (int i = 0; i < 8; ++i) x.push_back(t.f32(256, 128));
    for (int i = 0; i < size / 4; ++i) {
      const auto at = [&](int k) { return x[static_cast<std::size_t>(k % 8)]; };
      const Tensor y = tanh(at(i) * at(3 * i + 1)) + at(5 * i + 2);
      results.push_back(i % 3 == 0 ? y : sum(y, i % 3 - 1));
    }
    return results;
  };
  constexpr int size = 10000 / test::less_when_sanitized;
  using Make = std::vector<Tensor> (*)(Traced&, int);
  for (const Make make : {Make{deep}, Make{wide}, Make{tangled}}) {
    const auto seconds = [&](int count) {
      std::vector<double> times;
      for (int round = 0; round < 5; ++round) {
        Traced t;
        Graph graph = t.graph(make(t, count));
        const std::clock_t begin = std::clock();
        make_schedule(graph, Device::cpu(), providers::all());
        times.push_back(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
      }
      return *std::min_element(times.begin(), times.end());
    };
    double once = 0, twice = 0;
    for (int attempt = 0; attempt < 4 && (attempt == 0 || twice >= 3 * once);
         ++attempt) {  // others use the machine too
      once = seconds(size);
      twice = seconds(2 * size);
    }
    const char* const shape = make == Make{deep} ? "deep: " : make == Make{wide} ? "wide: " : "tangled: ";
    INFO(std::string(shape), once, " s, of twice the size ", twice, " s");
    CHECK(twice < 3 * once);  // of a quadratic step it would be 4 times
  }
}
