// answers [damage]: asks cuDNN about convolutions and attention, as a first step does, and prints what was chosen. With
// `damage` it first puts something else into each entry of the disk cache, as an entry of its own right.
// answers plan: does what is done ahead of a training step with attention.
// answers assume FILE: passes and the schedule of a gradient that only FILE lets the library name an algorithm for.
// answers compile: that gradient's plan, or "no NVRTC".
// The library is a stand-in (bench/no_gpu), so no device is needed.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>

#include "passes/cse.hpp"
#include "passes/dead_code.hpp"
#include "passes/decompose.hpp"
#include "passes/regions.hpp"
#include "pipeline.hpp"
#include "pipeline/ahead.hpp"
#include "providers/assumptions.hpp"
#include "providers/provider.hpp"
#include "record/record.hpp"
#include "runtime/cache.hpp"
#include "runtime/cuda/attention.hpp"
#include "runtime/cuda/convolution.hpp"
#include "runtime/cuda/libraries.hpp"
#include "weft/grad.hpp"
#include "weft/nn.hpp"

namespace {

using namespace weft;
using namespace weft::runtime;
using cuda::AttentionSizes;
using cuda::LibraryAttention;
using cuda::LibraryConvolution;

ConvolutionSizes convolution(Convolved result, bool last) {
  ConvolutionSizes s;
  s.result = result, s.dtype = DType::bf16, s.axes = 2, s.batch = 4, s.inputs = 16, s.outputs = 32;
  s.size = {8, 8}, s.kernel = {3, 3}, s.positions = {8, 8}, s.strides = {1, 1}, s.dilation = {1, 1};
  s.low = s.high = {1, 1};
  for (const Convolved value : {Convolved::input, Convolved::weight, Convolved::output}) {
    const auto shape = s.shape_of(value);
    s.strides_of(value) = {shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1};
  }
  if (last) place_channels_last(s);
  return s;
}

AttentionSizes attention() {
  AttentionSizes s;
  s.is_causal = true, s.batch = 2, s.heads = s.key_heads = 4, s.queries = s.keys = 128;
  s.features = s.value_features = 64;
  for (std::size_t i = 0; i < cuda::attended_values; ++i) {
    const auto sizes = s.sizes_of(static_cast<cuda::Attended>(i));
    s.strides[i] = {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1};
  }
  return s;
}

void damage() {
  for (const auto& file : std::filesystem::directory_iterator(disk_cache()->path())) {
    const std::string name = file.path().stem().string();
    if (file.path().extension() != ".weft") continue;
    const Digest key{std::stoull(name.substr(16), nullptr, 16), std::stoull(name.substr(0, 16), nullptr, 16)};
    disk_cache()->store(key, "{}", "nothing that anybody wrote");
  }
}

template <class Make>
Graph traced(const Make& make) {
  Trace trace;
  trace.id = new_trace_id();
  const TraceScope scope(trace);
  std::vector<Tensor> results = make([&trace](Shape shape) {
    const Parameter slot{static_cast<std::int64_t>(trace.inputs.size())};
    const Type type{DType::bf16, false, Device::cuda(), shape};
    return trace.inputs.emplace_back(record(Op::input, {}, slot, type, {}));
  });
  return make_graph(trace.inputs, std::move(results), trace.effects);
}

// Of two layers, whose queries, keys and values are parts of one product: [B, T, 3, H, D]. Of so few pairs of 128
// features the gradients are cuDNN's as well (providers::has_faster_nest).
Graph attention_step() {
  return traced([](const auto& input) {
    const auto attend = [](const Tensor& all) {
      const Tensor parts = permute(all, {2, 0, 3, 1, 4});
      return nn::scaled_dot_product_attention(select(parts, 0, 0), select(parts, 0, 1), select(parts, 0, 2),
                                              {.is_causal = true});
    };
    const Tensor first = input(Shape::of(2, 128, 3, 4, 128)), second = input(Shape::of(2, 128, 3, 4, 128));
    const Tensor given = input(Shape::of(2, 4, 128, 128));
    std::vector<Tensor> results;
    for (const Tensor& layer : {first, second})
      results.push_back(grad([&](const Tensor& p) { return sum(attend(p) * given); }, layer));
    return results;
  });
}

// The gradient of the weights of a convolution of three channels.
Graph convolution_gradient() {
  return traced([](const auto& input) {
    const Tensor image = input(Shape::of(2, 3, 8, 8)), weight = input(Shape::of(4, 3, 3, 3));
    const Tensor given = input(Shape::of(2, 4, 8, 8));
    const auto loss = [&](const Tensor& w) { return sum(conv2d(image, w, {.padding = 1}) * given); };
    return std::vector<Tensor>{grad(loss, weight)};
  });
}

PassContext context_of(Device device) {
  return {device, [device](const Node& node) { return providers::all().takes(node, device); }};
}

void do_ahead() {
  const Device device = Device::cuda();
  const Graph graph = attention_step();
  const std::vector<std::jthread> asking = ask_libraries({&graph, 1});
  const PassContext context = context_of(device);
  const Graph optimized = dead_code(common_subexpressions(inline_calls(graph, context), context), context);
  make_ahead(make_schedule(optimized, device, providers::all()));
}

// How many steps are cuDNN's.
std::ptrdiff_t library_steps(const Graph& graph, Device device) {
  const PassContext context = context_of(device);
  const Graph optimized = decompose_convolution(dead_code(inline_calls(graph, context), context), context);
  const Schedule schedule = make_schedule(optimized, device, providers::all());
  return std::ranges::count_if(schedule.steps, [](const Step& step) { return step.payload->by() == "cuDNN"; });
}

void assume(const char* file) {
  const Device device = Device::cuda();
  const Graph graph = convolution_gradient();
  const std::vector<std::jthread> asking = ask_libraries({&graph, 1});
  const auto start = std::chrono::steady_clock::now();
  {
    const providers::Assumptions assumptions(true);
    std::printf("steps of cuDNN, assumed: %td\n", library_steps(graph, device));
    std::printf("waited: %d\n", std::chrono::steady_clock::now() - start > std::chrono::seconds(5));
    std::ofstream(file) << "now";
    std::printf("holds: %d\n", assumptions.hold());
  }
  const providers::Assumptions none(false);
  std::printf("steps of cuDNN: %td\n", library_steps(graph, device));
}

// With a file the library answers once that is there: after the pass that assumes, and before the schedule.
void compile(const char* file) {
  if (!cuda::nvrtc_available()) return void(std::printf("no NVRTC\n"));
  PipelineOptions options;
  options.keep = true;
  if (file)
    options.after = [file](const StageView& stage) {
      if (std::string_view(stage.stage) != "decompose_convolution" || std::ifstream(file)) return;
      std::ofstream(file) << "now";
      std::this_thread::sleep_for(std::chrono::seconds(1));
    };
  const auto executable = compile_graph(convolution_gradient(), options);
  const auto steps = texts_of(*executable).steps;
  const auto by = [](const Texts::Step& step) { return step.work.by == "cuDNN"; };
  std::printf("steps of cuDNN: %td\n", std::ranges::count_if(steps, by));
  const auto passes = [](const StageReport& stage) { return stage.name == "decompose_convolution"; };
  std::printf("decompositions: %td\n", std::ranges::count_if(executable->stages, passes));
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view what = count > 1 ? arguments[1] : "";
  if (what == "plan") {
    do_ahead();
    return 0;
  }
  if (what == "assume") {
    assume(arguments[2]);
    return 0;
  }
  if (what == "compile") {
    compile(count > 2 ? arguments[2] : nullptr);
    return 0;
  }
  if (what == "damage") damage();
  const Device device = Device::cuda();
  for (const Convolved result : {Convolved::output, Convolved::input, Convolved::weight}) {
    const auto found = LibraryConvolution::find(device, convolution(result, false));
    std::printf("convolution %d: workspace %zu\n", static_cast<int>(result), found ? found->workspace() : 0);
  }
  const auto last = LibraryConvolution::find(device, convolution(Convolved::output, true));
  std::printf("channels last: workspace %zu\n", last ? last->workspace() : 0);
  std::printf("attention: offered %d\n", LibraryAttention::is_offered(device, attention()));
  const auto attended = LibraryAttention::find(device, attention());
  std::printf("attention: workspace %zu\n", attended ? attended->workspace() : 0);
}
