// kernels CASE compiled|eager: a function on random data, taking turns (support.hpp). read-loop and copy-loop are plain
// loops over memory, of as many bytes as `sum` and `adamw` move.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "functions.hpp"
#include "runtime/parallel.hpp"
#include "support.hpp"

using weft::Tensor;

namespace {

bool eager = false;

// The result of the step before goes back when the next one replaces it, as a training loop's does.
template <class F, class... Arguments>
void measure(F f, const Arguments&... argument) {
  using Result = decltype(f(argument...));
  std::unique_ptr<Result> result;
  const auto step = [&](auto& called) {
    bench::take_turns([&] {
      result = std::make_unique<Result>(called(argument...));
      bench::eval_all(*result);
    });
  };
  if (eager) return step(f);
  auto compiled = weft::compile(f);
  step(compiled);
}

Tensor normal(weft::Sizes sizes, unsigned seed) { return bench::random_normal(sizes, seed); }
Tensor normal_bf16(weft::Sizes sizes, unsigned seed) { return cast(normal(sizes, seed), weft::DType::bf16).eval(); }

void pointwise() {
  constexpr std::int64_t size = 16 << 20;
  measure(bench::pointwise, normal({size}, 1), normal({size}, 2), normal({size}, 3));
}
void softmax() { measure(bench::softmax_rows, normal({4096, 4096}, 1)); }
void layernorm() {
  measure(bench::norm_gradients, bench::NormOf{normal({4096, 1024}, 1), bench::Norm(1024, {})},
          normal({4096, 1024}, 2));
}

constexpr auto linear_gelu = [](const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return weft::gelu(matmul(x, transpose(weight)) + bias);
};
constexpr auto product = [](const Tensor& a, const Tensor& b) { return matmul(a, b); };
void matmul_f32() { measure(linear_gelu, normal({1024, 1024}, 1), normal({1024, 1024}, 2), normal({1024}, 3)); }
void matmul_bf16() { measure(product, normal_bf16({1024, 1024}, 1), normal_bf16({1024, 1024}, 2)); }

// Images of `size` x `size`, 8 of them.
template <int channels, int size, int outputs, int kernel, int stride, int groups = 1>
void conv2d() {
  constexpr auto f = [](const Tensor& x, const Tensor& weight) {
    return weft::conv2d(x, weight, {.stride = stride, .padding = kernel / 2, .groups = groups});
  };
  measure(f, normal({8, channels, size, size}, 1), normal({outputs, channels / groups, kernel, kernel}, 2));
}

constexpr int parameters = 40, elements = 1 << 18;
void adamw() {
  bench::Parameters model, gradients;
  for (unsigned i = 0; i < parameters; ++i) {
    model.values.push_back(normal({elements}, i));
    gradients.values.push_back(normal({elements}, 1000 + i));
  }
  weft::optim::AdamW optimizer(model);
  auto step = weft::compile(bench::update);
  bench::take_turns([&] {
    step(model, optimizer, gradients);
    bench::eval_all(model);
  });
}

constexpr std::int64_t summed = 64 << 20;
void sum() { measure(bench::sum_all, normal({summed}, 1)); }

struct Words {
  explicit Words(std::int64_t count) : values(static_cast<std::size_t>(count)) {
    std::mt19937_64 bits(1);
    for (std::uint64_t& value : values) value = bits();
  }
  std::int64_t count() const { return static_cast<std::int64_t>(values.size()); }
  std::vector<std::uint64_t> values;
};
void read_loop() {
  const Words from(summed / 2);
  static std::atomic<std::uint64_t> total;
  bench::take_turns([&] {
    weft::parallel_for(
        0, from.count(), 1 << 16,
        [](void* context, std::int64_t begin, std::int64_t end) {
          const std::uint64_t* words = static_cast<const Words*>(context)->values.data();
          std::uint64_t sum = 0;
          for (std::int64_t i = begin; i < end; ++i) sum += words[i];
          total += sum;
        },
        const_cast<Words*>(&from));
  });
}
// An update reads a parameter, its gradient and two moments, and writes all but the gradient: 28 bytes an element.
void copy_loop() {
  constexpr std::int64_t words = std::int64_t{parameters} * elements * 28 / 2 / 8;
  static const Words from(words);
  static Words to(words);
  bench::take_turns([&] {
    weft::parallel_for(
        0, words, 1 << 16,
        [](void*, std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i)
            to.values[static_cast<std::size_t>(i)] = from.values[static_cast<std::size_t>(i)];
        },
        nullptr);
  });
}

void small_softmax() { measure(bench::softmax_rows, normal({4096, 1024}, 1)); }
void small_norm() { measure(bench::normalize, bench::Norm(1024, {}), normal({4096, 1024}, 1)); }
void small_cross_entropy() {
  measure(bench::cross_entropy, normal({4096, 1024}, 1), bench::random_labels(4096, 1024, 2));
}

constexpr struct {
  std::string_view name;
  void (*run)();
} cases[] = {{"pointwise", pointwise},
             {"softmax", softmax},
             {"layernorm", layernorm},
             {"matmul-f32", matmul_f32},
             {"matmul-bf16", matmul_bf16},
             {"conv-3x3", conv2d<64, 56, 64, 3, 1>},
             {"conv-7x7-stride2", conv2d<3, 224, 64, 7, 2>},
             {"conv-1x1", conv2d<256, 56, 64, 1, 1>},
             {"conv-3x3-stride2", conv2d<128, 56, 128, 3, 2>},
             {"conv-depthwise", conv2d<144, 56, 144, 3, 1, 144>},
             {"adamw", adamw},
             {"sum", sum},
             {"read-loop", read_loop},
             {"copy-loop", copy_loop},
             {"forward-softmax", small_softmax},
             {"forward-layernorm", small_norm},
             {"forward-cross-entropy", small_cross_entropy}};

}  // namespace

int main(int count, char** arguments) {
  eager = count > 2 && !std::strcmp(arguments[2], "eager");
  for (const auto& one : cases)
    if (count > 1 && one.name == arguments[1]) return one.run(), 0;
  std::fputs("kernels: no such case\n", stderr);
  return 2;
}
