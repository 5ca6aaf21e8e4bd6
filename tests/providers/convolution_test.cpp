// Convolutions and their gradients against the reference, whoever does them: by products or by a library, eagerly and
// compiled; what is refused, and what stays symbolic.
#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>

#include "base/options.hpp"
#include "pipeline.hpp"
#include "providers/convolution.hpp"
#include "providers/provider.hpp"
#include "runtime/host/isa.hpp"
#include "runtime/host/onednn_convolution.hpp"
#include "runtime/plan.hpp"
#include "tests/providers/convolution_support.hpp"
#include "tests/record/refused.hpp"
#include "tests/runtime/support.hpp"
#include "weft/compile.hpp"
#include "weft/convolution.hpp"
#include "weft/explain.hpp"
#include "weft/grad.hpp"
#include "weft/random.hpp"

using namespace weft;
using namespace weft::test;

namespace {

using Numbers = std::vector<float>;

Numbers numbers_of(const Literal& literal) { return {literal.reals.begin(), literal.reals.end()}; }

std::vector<Numbers> run(const Executable& executable, std::vector<Numbers> operands,
                         const std::vector<Literal>& results) {
  std::vector<Numbers> values;
  std::vector<void*> arguments, pointers;
  for (Numbers& operand : operands) {
    operand.reserve(1);
    arguments.push_back(operand.data());
  }
  for (const Literal& result : results) values.emplace_back(result.reals.size(), -1.0f).reserve(1);
  for (Numbers& value : values) pointers.push_back(value.data());
  runtime::run(executable.plan, arguments, pointers, {});
  return values;
}

std::vector<Numbers> run_eagerly(const RandomConvolution& it, const std::vector<Literal>& operands) {
  std::vector<Tensor> tensors;
  for (const Literal& operand : operands)
    tensors.push_back(from_span(std::span<const float>(numbers_of(operand)), operand.type.shape));
  std::vector<Numbers> values;
  for (const Tensor& result : it.record_all(tensors)) {
    const View<const float> view = result.data<float>();
    values.emplace_back(view.begin(), view.end());
  }
  return values;
}

// With the library and without it, compiled and eagerly.
void check_all(const std::vector<RandomConvolution>& all) {
  const ProcessOptions before = options();
  options().kernel_optimization = 1;
  for (const bool library : {true, false}) {
    options().onednn = library && before.onednn;
    std::vector<Graph> graphs;
    for (const RandomConvolution& it : all) graphs.push_back(it.graph());
    PipelineOptions pipeline;
    pipeline.verify = true;
    const auto executables = compile_graphs(std::move(graphs), pipeline);
    for (std::size_t i = 0; i < all.size(); ++i) {
      CAPTURE(all[i].text());
      CAPTURE(library);
      const std::vector<Literal> operands = random_operands(all[i], i);
      const Allowed allowed(all[i], operands);
      std::vector<Numbers> given;
      for (const Literal& operand : operands) given.push_back(numbers_of(operand));
      CHECK(allowed.miss(run(*executables[i], given, allowed.values)) == "");
      CHECK(allowed.miss(run_eagerly(all[i], operands)) == "");
    }
  }
  options() = before;
}

}  // namespace

TEST_CASE("200 random convolutions and their gradients: eager = compiled = reference, with a library and without") {
  constexpr int batch = 40;
  for (int first = 0; first < 200; first += batch) {
    std::vector<RandomConvolution> all;
    for (int i = first; i < first + batch; ++i) all.emplace_back(static_cast<std::uint64_t>(i));
    check_all(all);
  }
}

TEST_CASE("convolutions of other floating dtypes") {
  std::vector<RandomConvolution> all;
  for (const DType dtype : {DType::f64, DType::f16, DType::bf16})
    for (std::uint64_t seed = 300; seed < 312; ++seed) all.emplace_back(seed, dtype);
  check_all(all);
}

TEST_CASE("conv2d is a sum of products over the kernel, with PyTorch's defaults") {
  const Tensor x = from_list<float>({1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 1, 3, 3}),
               w = from_list<float>({1, 2, 3, 4}, {1, 1, 2, 2});
  const auto values = [](const Tensor& tensor) {
    const View<const float> view = tensor.data<float>();
    return Numbers(view.begin(), view.end());
  };
  CHECK(values(conv2d(x, w)) == Numbers{37, 47, 67, 77});
  CHECK(values(conv2d(x, w, {.stride = 2, .padding = 1})) == Numbers{4, 18, 36, 77});
  CHECK(values(conv2d(x, w, {.dilation = 2})) == Numbers{1 + 2 * 3 + 3 * 7 + 4 * 9});
  CHECK(values(conv2d(x, w, {.padding = {0, 1}})).size() == 8);
  CHECK(conv2d(reshape(x, {1, 3, 3}), w).shape().same(Shape::of(1, 2, 2)));
  CHECK(conv2d(cast(x, DType::f64), w).dtype() == DType::f64);
  static_assert(!std::is_constructible_v<PerAxis<2>, double>);  // 1.5 is no stride
  const Tensor two = concat({x, x + 10}, 1), apart = concat({w, w}, 0);
  CHECK(values(conv2d(two, apart, {.groups = 2})) == Numbers{37, 47, 67, 77, 137, 147, 167, 177});
}

namespace {

void bad(const Tensor& weight, Conv2dOptions options, const char* words, Loc loc = Loc::current()) {
  const Tensor x = ones({2, 4, 5, 6});
  refused([&] { return conv2d(At(x, loc), weight, options); }, words, loc);
}

}  // namespace

TEST_CASE("bad convolutions are refused with both shapes") {
  const Tensor w = ones({8, 4, 3, 3});
  bad(ones({8, 3, 3, 3}), {},
      "[conv2d] the input's channels are not those of the weight, times 1 group: f32[2,4,5,6] x f32[8,3,3,3]");
  bad(ones({8, 2, 3, 3}), {.groups = 3}, "of the weight, times 3 groups: f32[2,4,5,6] x f32[8,2,3,3]");
  bad(ones({7, 2, 3, 3}), {.groups = 2},
      "[conv2d] 2 groups do not divide the weight's output channels: f32[2,4,5,6] x f32[7,2,3,3]");
  bad(ones({8, 4, 6, 3}), {}, "[conv2d] the kernel is larger than the padded input: f32[2,4,5,6] x f32[8,4,6,3]");
  bad(w, {.dilation = 3}, "[conv2d] the kernel is larger than the padded input: f32[2,4,5,6] x f32[8,4,3,3]");
  bad(ones({8, 4, 3}), {},
      "[conv2d] needs an input [N,C,sizes...] or [C,sizes...] and a weight [O,C/groups,kernel...] of 2 sizes: "
      "f32[2,4,5,6] "
      "x f32[8,4,3]");
  bad(ones({8, 4, 0, 3}), {}, "[conv2d] a kernel of no elements: f32[2,4,5,6] x f32[8,4,0,3]");
  bad(w, {.stride = {1, 0}}, "[conv2d] stride must be positive, it is 0");
  bad(w, {.dilation = -1}, "[conv2d] dilation must be positive, it is -1");
  bad(w, {.padding = -1}, "[conv2d] padding must not be negative, it is -1");
  bad(w, {.padding = INT64_MAX}, "[conv2d] a number of the options is beyond what can be counted");
  bad(w, {.dilation = INT64_MAX}, "[conv2d] a number of the options is beyond what can be counted");
  bad(w, {.padding = std::int64_t{1} << 40}, "[conv2d] ");
  bad(w, {.groups = 0}, "[conv2d] there are 0 groups");
  const Tensor integers = ones({2, 4, 5, 6}, {.dtype = DType::i64});
  refused([&] { return conv2d(integers, cast(w, DType::i64)); },
          "[conv2d] needs two operands of one floating dtype: i64[2,4,5,6] x i64[8,4,3,3]");
  CHECK(conv2d(ones({2, 4, 5, 6}), w).shape().same(Shape::of(2, 8, 3, 4)));
}

namespace {

struct Convolved {
  Tensor x, weight;
  WEFT_MEMBERS(x, weight)
};
Convolved gradients(const Tensor& x, const Tensor& weight) {
  return grad(
      [](const Convolved& c) {
        return sum(square(conv2d(c.x, c.weight, {.stride = 2, .padding = {1, 0}})));
      },
      Convolved{x, weight});
}

}  // namespace

TEST_CASE("a batch, a height and a width may vary in one compiled function, the gradients' too") {
  auto compiled = compile(gradients, {.dynamic = true, .on_compile_error = OnFailure::raise});
  Generator rng(3);
  const Tensor weight = normal({6, 4, 3, 2}, 0, 1, rng);
  for (const auto& [batch, height, width] : {std::tuple{5, 9, 7}, {8, 12, 11}, {7, 10, 20}}) {
    const Tensor x = normal({batch, 4, height, width}, 0, 1, rng);
    const Convolved expected = gradients(x, weight), found = compiled(x, weight);
    for (const auto& [a, b] : {std::pair{expected.x, found.x}, {expected.weight, found.weight}}) {
      REQUIRE(a.shape().same(b.shape()));
      CHECK(amax(abs(a - b)).item() <= 1e-5 * amax(abs(a)).item());
    }
  }
  CHECK(specialization_count(compiled) == 1);
}

namespace {

// [2, channels, 12, 12] with [outputs, channels / groups, kernel, kernel], and its gradients.
RandomConvolution plain(std::int64_t channels, std::int64_t outputs, std::int64_t kernel, std::int64_t groups = 1) {
  RandomConvolution it(0);
  it.input = Shape::of(2, channels, 12, 12), it.weight = Shape::of(outputs, channels / groups, kernel, kernel);
  it.output = Shape::of(2, outputs, 13 - kernel, 13 - kernel);
  it.attributes = {};
  it.attributes.groups = groups;
  for (int i = 0; i < 2; ++i) {
    it.attributes.strides.push_back(1), it.attributes.dilation.push_back(1);
    it.attributes.low.push_back(0), it.attributes.high.push_back(0);
  }
  for (auto& each : it.lies) each = RandomConvolution::Lies::plain;
  return it;
}
bool library_is_there() {
  const runtime::onednn::Library* const library = runtime::onednn::library();
  return library && runtime::onednn::convolves_fast(*library, DType::f32);
}
std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

bool is_direct_fast() { return host_isa() >= Isa::avx2; }

PipelineOptions kept() {
  PipelineOptions options;
  options.keep = true;
  return options;
}
std::string schedule_of(Graph graph) { return texts_of(*compile_graph(std::move(graph), kept())).schedule; }

}  // namespace

TEST_CASE("a convolution is the library's where it is there, ours, and a product where it is one or nobody takes it") {
  const ProcessOptions before = options();
  for (const bool library : {true, false}) {
    options().onednn = library && before.onednn;
    const bool takes = library_is_there();
    const std::string three = schedule_of(plain(32, 32, 3).graph());
    CHECK(count_of(three, " by oneDNN 2.") == (takes ? 3 : 0));
    CHECK(count_of(three, "matmul ") == (takes ? 0 : is_direct_fast() ? 2 : 3));
    const std::string one = schedule_of(plain(32, 32, 1).graph());
    CHECK(count_of(one, "matmul ") == (takes ? 2 : 3));
    const std::string depthwise = schedule_of(plain(32, 32, 3, 32).graph());
    CHECK(count_of(depthwise, "matmul ") == 0);
    CHECK(count_of(depthwise, " by oneDNN 2.") == (takes ? 2 : 0));  // the gradients
  }
  options() = before;
}

TEST_CASE(
    "of one image a convolution of outputs that the library does not share is ours, and a deep product of few "
    "positions") {
  const auto forward = [](std::int64_t batch, std::int64_t channels, std::int64_t outputs, std::int64_t kernel,
                          std::int64_t size) {
    RandomConvolution it = plain(channels, outputs, kernel);
    it.input[0] = it.output[0] = batch;
    for (int axis = 2; axis < 4; ++axis) it.input[axis] = size, it.output[axis] = size + 1 - kernel;
    std::istringstream lines(schedule_of(it.graph()));
    std::size_t count = 0;
    for (std::string line; std::getline(lines, line);)
      count += line.starts_with("convolution ") && line.find(" by ") == std::string::npos;
    return count;
  };
  const std::size_t ours = is_direct_fast();
  CHECK(forward(1, 32, 48, 3, 12) == ours);
  CHECK(forward(1, 256, 64, 1, 7) == ours);
  CHECK(forward(1, 64, 256, 1, 7) == 0);
  CHECK(forward(1, 32, 4, 3, 12) == 0);
  CHECK(forward(2, 32, 64, 3, 12) == (library_is_there() ? 0 : ours));
}

TEST_CASE("random convolutions of outputs that fill vectors: compiled = eager = reference") {
  std::vector<RandomConvolution> all;
  for (std::uint64_t seed = 400; all.size() < 40; ++seed) {
    RandomConvolution it(seed);
    if (it.attributes.groups != 1 || it.attributes.strides.count > 2) continue;
    const std::int64_t outputs = 8 + static_cast<std::int64_t>(seed * 7 % 60);
    it.weight[0] = outputs, it.output[1] = outputs;
    it.lies[0] = it.lies[1] = RandomConvolution::Lies::plain;
    all.push_back(it);
  }
  check_all(all);
}

TEST_CASE("a kernel for each channel: images, kernels, steps and zeros around of many sizes") {
  const ProcessOptions before = options();
  options().isa.clear();
  const bool ours = host_isa() != Isa::baseline;
  std::vector<RandomConvolution> all;
  const auto add = [&](std::array<std::int64_t, 2> size, std::array<std::int64_t, 2> kernel,
                       std::array<std::int64_t, 2> step, std::int64_t low, std::int64_t high, std::int64_t batch = 1) {
    RandomConvolution it = plain(5, 5, 3, 5);
    it.input[0] = it.output[0] = batch;
    for (const int axis : {0, 1}) {
      const auto i = static_cast<std::size_t>(axis);
      it.input[axis + 2] = size[i], it.weight[axis + 2] = kernel[i];
      it.attributes.strides[i] = step[i], it.attributes.low[i] = low, it.attributes.high[i] = high;
      it.output[axis + 2] = (size[i] + low + high - kernel[i]) / step[i] + 1;
    }
    CAPTURE(it.text());
    const Graph graph = it.graph();
    for (const Tensor& value : graph.nodes)
      if (value.node()->op == Op::convolution)
        CHECK(providers::depthwise_convolution().takes(*value.node(), {}) == (ours && it.output[3].constant() >= 4));
    all.push_back(std::move(it));
  };
  for (const std::int64_t size : {7, 8, 14, 15, 29})
    for (const std::int64_t kernel : {3, 5})
      for (const std::int64_t step : {1, 2}) add({size, size}, {kernel, kernel}, {step, step}, kernel / 2, kernel / 2);
  add({7, 7}, {3, 3}, {1, 1}, 1, 1, 3);
  add({6, 17}, {3, 3}, {1, 1}, 1, 1, 2);  // fewer rows than a block has
  add({9, 40}, {4, 1}, {3, 2}, 0, 2, 2);  // other kernels, other steps down
  add({20, 11}, {3, 3}, {2, 2}, 0, 1);    // zeros behind alone
  add({16, 18}, {5, 5}, {2, 2}, 3, 0);    // an odd number before, and rows that nothing reads
  check_all(all);
  options() = before;
}

TEST_CASE("a convolution and its gradients have the same bits on any number of threads") {
  for (const auto& [channels, outputs, groups] : {std::tuple{64, 128, 1}, {48, 48, 48}, {32, 64, 4}}) {
    const RandomConvolution it = plain(channels, outputs, 3, groups);
    const std::vector<Literal> operands = random_operands(it, 5);
    const Allowed allowed(it, operands);
    std::vector<Numbers> given;
    for (const Literal& operand : operands) given.push_back(numbers_of(operand));
    const auto executable = compile_graph(it.graph(), {});
    const KeepOptions keep;
    std::vector<Numbers> first;
    for (const int count : {1, 2, 3, 8}) {
      options().num_threads = count;
      const std::vector<Numbers> found = run(*executable, given, allowed.values);
      if (first.empty()) first = found;
      CHECK(found == first);
    }
    CHECK(allowed.miss(first) == "");
  }
}

TEST_CASE("one image's depthwise convolution is shared by threads, of an odd number of blocks of channels too") {
  if (!library_is_there()) return;
  const KeepOptions keep;
  for (const std::int64_t channels : {32, 96, 144, 240, 672}) {
    RandomConvolution it = plain(channels, channels, 3, channels);
    it.input[0] = it.output[0] = 1;
    const Graph graph = it.graph();
    const auto node =
        std::ranges::find_if(graph.nodes, [](const Tensor& value) { return value.node()->op == Op::convolution; });
    REQUIRE(node != graph.nodes.end());
    const auto sizes = providers::expected(*providers::convolution_dims(*node->node()));
    const auto found = runtime::onednn::Convolution::find(*runtime::onednn::library(), sizes);
    REQUIRE(found);
    options().num_threads = 1;
    const std::size_t one = found->workspace(1);
    options().num_threads = 2;
    CHECK(found->workspace(1) > one);  // each thread has its own
  }
}

TEST_CASE("sizes that a library refuses when a call knows them are a sentence") {
  runtime::ConvolutionSizes sizes;
  sizes.axes = 2, sizes.batch = 3, sizes.inputs = 4, sizes.outputs = 8, sizes.groups = 2;
  sizes.size = {9, 10}, sizes.kernel = {5, 6};
  CHECK_THROWS_WITH_AS(runtime::refuse_sizes("cuDNN", sizes),
                       "[convolution] cuDNN does not take [3,4,9,10] with [8,2,5,6]: compile with dynamic = false",
                       Error);
}

TEST_CASE("one library call serves every batch, where the batch alone is a symbol") {
  const RandomConvolution it = plain(32, 32, 3);
  Trace trace;
  trace.id = new_trace_id();
  Graph graph;
  {
    TraceScope scope(trace);
    Shape input = it.input;
    input[0] = trace.dims.new_symbol(2);
    const Tensor x = record(Op::input, {}, Parameter{0}, Type{DType::f32, false, {}, input}, {}),
                 w = record(Op::input, {}, Parameter{1}, Type{DType::f32, false, {}, it.weight}, {});
    graph = make_graph({x, w}, {record(Op::convolution, {x, w}, it.attributes, {}, {})}, {});
    graph.symbols = trace.dims.symbols;
    graph.conditions = trace.dims.conditions;
  }
  const auto executable = compile_graph(std::move(graph), kept());
  CHECK(count_of(texts_of(*executable).schedule, " by oneDNN 2.") == (library_is_there() ? 1 : 0));
  for (const std::int64_t batch : {2, 5}) {
    RandomConvolution now = it;
    now.input[0] = batch, now.output[0] = batch;
    const std::vector<Literal> operands = random_operands(now, 6);
    const Allowed allowed(now, operands);
    Numbers x = numbers_of(operands[0]), w = numbers_of(operands[1]), y(allowed.values[0].reals.size());
    void *arguments[] = {x.data(), w.data()}, *results[] = {y.data()};
    runtime::run(executable->plan, arguments, results, std::span(&batch, 1));
    bool near = true;
    for (std::size_t i = 0; i < y.size(); ++i)
      near &= std::fabs(y[i] - allowed.values[0].reals[i]) <= allowed.distance[0].reals[i];
    CHECK(near);
  }
}
