// stages [MICROBATCHES [ROWS [WIDTH [LAYERS]]]]: one compiled function over two stages of LAYERS linear layers, bf16,
// with the second stage on the first device or on another: the forward pass, and a training step (SGD) whose gradients
// are summed over the microbatches. JSON lines: milliseconds, the median of rounds in which the variants take turns,
// and MiB of memory of each device beyond the parameters. It needs two devices (docs/performance_gpu_subjects.md, One
// function on two GPUs); bench/peers/torch_stages.py is the same by PyTorch.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <vector>

#include "support.hpp"
#include "weft/cuda.hpp"
#include "weft/weft.hpp"

namespace {

using namespace weft;

constexpr Device first = Device::cuda(0), second = Device::cuda(1);

struct Stage {
  std::vector<nn::Linear> layers;
  Tensor operator()(Tensor x) const {
    for (const nn::Linear& layer : layers) x = gelu(layer(x), Gelu::tanh);
    return x;
  }
  WEFT_MEMBERS(layers)
};

struct Net {
  Stage a, b;
  Tensor operator()(const Tensor& x) const { return b(to(a(x), b.layers[0].weight->device())); }
  WEFT_MEMBERS(a, b)
};

std::vector<Tensor> forward(const Net& net, const std::vector<Tensor>& batches) {
  std::vector<Tensor> results;
  for (const Tensor& x : batches) results.push_back(mean(cast(net(x), DType::f32)));
  return results;
}

std::vector<Tensor> train(Net& net, const std::vector<Tensor>& batches) {
  auto [loss, slopes] = value_and_grad(
      [&](const Net& n) {
        Tensor sum = mean(square(cast(n(batches[0]), DType::f32)));
        for (std::size_t i = 1; i < batches.size(); ++i) sum = sum + mean(square(cast(n(batches[i]), DType::f32)));
        return sum;
      },
      net);
  tree::for_each(net, slopes, [](Param& p, const Param& slope) { p = p - slope * 0.01; });
  return {loss};
}

struct Measured {
  const char* what;
  Device last;
  std::vector<double> milliseconds;
  std::int64_t mebibytes[2]{};
  double value = 0;
};

void synchronize_both() {
  cuda::synchronize(first);
  cuda::synchronize(second);
}

}  // namespace

int main(int count, char** arguments) try {
  const auto number = [&](int at, std::int64_t otherwise) {
    return count > at ? std::atoll(arguments[at]) : otherwise;
  };
  const std::int64_t microbatches = number(1, 8), rows = number(2, 1024), width = number(3, 4096),
                     layers = number(4, 4);
  if (cuda::device_count() < 2) return std::fprintf(stderr, "stages: it needs two devices\n"), 2;
  constexpr int rounds = 5, calls = 10;
  std::vector<Measured> all;
  for (const char* what : {"forward", "step"})
    for (const Device last : {first, second}) all.push_back({what, last, {}, {}, 0});
  std::vector<Net> nets;
  std::vector<std::function<Tensor()>> run;
  std::vector<Tensor> batches;
  Generator numbers(1);
  for (std::int64_t i = 0; i < microbatches; ++i)
    batches.push_back(to(cast(normal({rows, width}, 0, 1, numbers), DType::bf16), first).eval());
  for (Measured& each : all) {
    seed(1);
    Net net;
    for (Stage* const stage : {&net.a, &net.b})
      for (std::int64_t i = 0; i < layers; ++i) stage->layers.emplace_back(width, width);
    nn::to(net, DType::bf16);
    nn::to(net.a, first);
    nn::to(net.b, each.last);
    nets.push_back(std::move(net));
  }
  const auto forwards = compile(forward, {.check = Check::never});
  const auto step = compile(train, {.check = Check::never});
  for (std::size_t i = 0; i < all.size(); ++i)
    run.push_back([&, i] {
      return (all[i].what == std::string_view("forward") ? forwards(nets[i], batches) : step(nets[i], batches))
          .back()
          .eval();
    });
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::int64_t before[2];
    for (const Device device : {first, second}) {
      cuda::reset_peak_memory(device);
      before[device.index] = cuda::memory_stats(device).in_use;
    }
    for (int call = 0; call < 5; ++call) all[i].value = to(run[i](), Device::cpu()).item<double>();
    for (const Device device : {first, second})
      all[i].mebibytes[device.index] = (cuda::memory_stats(device).peak - before[device.index]) >> 20;
  }
  for (int round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < all.size(); ++i) {
      run[i]();
      synchronize_both();
      const auto start = bench::Clock::now();
      Tensor last;
      for (int call = 0; call < calls; ++call) last = run[i]();
      synchronize_both();
      all[i].milliseconds.push_back(bench::seconds_since(start) / calls * 1e3);
    }
  for (Measured& each : all) {
    std::ranges::sort(each.milliseconds);
    std::printf(R"({"what": "%s", "devices": %d, "ms": %.3f, "fastest_ms": %.3f, "mib": [%lld, %lld], "value": %.6g})"
                "\n",
                each.what, 1 + each.last.index, each.milliseconds[rounds / 2], each.milliseconds[0],
                static_cast<long long>(each.mebibytes[0]), static_cast<long long>(each.mebibytes[1]), each.value);
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
