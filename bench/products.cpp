// products [TARGET]: products of bf16 matrices on a CUDA device, a JSON line a case with milliseconds and TFLOP/s, by
// whom WEFT_OWN_KERNELS says. With a target (sm_90) kernels are those of that target: on a Hopper GPU those of all
// devices. Ends with a message where there is no device.
#include "gpu.hpp"

#include "base/device_target.hpp"

namespace {

using namespace bench;
using weft::matmul, weft::transpose;

struct Product {
  const char* name;
  std::int64_t batch, m, n, k;
  bool a_by_rows = false, b_by_rows = true;  // k goes along the rows in memory
};
constexpr Product products[] = {
    {"square", 1, 4096, 4096, 4096},
    {"square, [n, k]", 1, 4096, 4096, 4096, false, false},
    {"layer of GPT-2", 1, 16384, 3072, 768, false, false},
    {"its input's gradient", 1, 16384, 768, 3072},
    {"its weights' gradient", 1, 3072, 768, 16384, true, true},
    {"weights' gradient, 768", 1, 768, 768, 16384, true, true},
    {"deep", 1, 1024, 1024, 16384},
    {"deep, [n, k]", 1, 1024, 1024, 16384, false, false},
    {"few tiles", 1, 256, 512, 8192, false, false},
    {"small", 1, 512, 512, 512},
    {"heads", 192, 1024, 1024, 64, false, false},
    {"few rows", 1, 128, 4096, 4096, false, false},
};

template <bool turns_a, bool turns_b>
Tensor product(const Tensor& x, const Tensor& y) {
  return matmul(turns_a ? transpose(x) : x, turns_b ? transpose(y) : y);
}

Call call_of(const Product& p) {
  const auto sizes = [&](std::int64_t rows, std::int64_t columns) {
    return p.batch > 1 ? std::vector<std::int64_t>{p.batch, rows, columns} : std::vector<std::int64_t>{rows, columns};
  };
  const Tensor a = sample(p.a_by_rows ? sizes(p.k, p.m) : sizes(p.m, p.k), 1, DType::bf16),
               b = sample(p.b_by_rows ? sizes(p.k, p.n) : sizes(p.n, p.k), 2, DType::bf16);
  if (p.a_by_rows) return p.b_by_rows ? of(product<true, false>, a, b) : of(product<true, true>, a, b);
  return p.b_by_rows ? of(product<false, false>, a, b) : of(product<false, true>, a, b);
}

}  // namespace

int main(int count, char** arguments) {
  if (!has_device(count, arguments)) return 0;
  if (count > 1)
    if (const weft::DeviceTarget* target = weft::device_target(arguments[1]))
      weft::runtime::cuda::use(device).target = target;
  for (const Product& p : products) {
    const double ms = milliseconds(Repeated(call_of(p)));
    std::printf(
        "{\"name\":\"products\",\"case\":\"%s, %ldx%ldx%ldx%ld\",\"value\":%.5f,\"unit\":\"ms\",\"tflops\":%.1f}\n",
        p.name, p.batch, p.m, p.n, p.k, ms, 2e-9 * double(p.batch * p.m * p.n) * double(p.k) / ms);
    std::fflush(stdout);
  }
}
