// answers [damage]: asks cuDNN about convolutions and attention, as a first step does, and prints what was chosen. With
// `damage` it first puts something else into each entry of the disk cache, as an entry of its own right.
// answers plan: does what is done ahead of a training step with attention.
// The library is a stand-in (bench/no_gpu), so no device is needed.
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

#include "passes/cse.hpp"
#include "passes/dead_code.hpp"
#include "passes/regions.hpp"
#include "pipeline/ahead.hpp"
#include "providers/provider.hpp"
#include "record/record.hpp"
#include "runtime/cache.hpp"
#include "runtime/cuda/attention.hpp"
#include "runtime/cuda/convolution.hpp"
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

// Of two layers, whose queries, keys and values are parts of one product: [B, T, 3, H, D].
Graph attention_step(Device device) {
  Trace trace;
  trace.id = new_trace_id();
  const TraceScope scope(trace);
  const auto input = [&](Shape shape) {
    const Parameter slot{static_cast<std::int64_t>(trace.inputs.size())};
    return trace.inputs.emplace_back(record(Op::input, {}, slot, Type{DType::bf16, false, device, shape}, {}));
  };
  const auto attend = [](const Tensor& all) {
    const Tensor parts = permute(all, {2, 0, 3, 1, 4});
    return nn::scaled_dot_product_attention(select(parts, 0, 0), select(parts, 0, 1), select(parts, 0, 2),
                                            {.is_causal = true});
  };
  const Tensor first = input(Shape::of(2, 128, 3, 4, 64)), second = input(Shape::of(2, 128, 3, 4, 64));
  const Tensor given = input(Shape::of(2, 4, 128, 64));
  std::vector<Tensor> results;
  for (const Tensor& layer : {first, second})
    results.push_back(grad([&](const Tensor& p) { return sum(attend(p) * given); }, layer));
  return make_graph(trace.inputs, std::move(results), trace.effects);
}

void do_ahead() {
  const Device device = Device::cuda();
  const Graph graph = attention_step(device);
  const std::vector<std::jthread> asking = ask_libraries({&graph, 1});
  const PassContext context{device, [device](const Node& node) { return providers::all().takes(node, device); }};
  const Graph optimized = dead_code(common_subexpressions(inline_calls(graph, context), context), context);
  make_ahead(make_schedule(optimized, device, providers::all()));
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view what = count > 1 ? arguments[1] : "";
  if (what == "plan") {
    do_ahead();
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
