// Products of 16-bit matrices by the kernel that all devices run, and by Hopper's, without cuBLASLt: operands that lie
// each way, sizes that fill no tile, batches, a bias, wide results, products whose blocks share k. What the kernels do
// not take is done by generated ones. Against f64 on the host. Skipped without a GPU.
#include <doctest/doctest.h>

#include <limits>
#include <tuple>

#include "tests/cuda/products.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

constexpr const char *by = "tensor cores", *by_warps = "each warp for itself";

// Products are not given to cuBLASLt, and where there is wgmma it is left out.
class WithoutLibrary {
 public:
  explicit WithoutLibrary(bool without_wgmma = true)
      : state_(runtime::cuda::use(Device::cuda())), before_(state_.target) {
    options().own_kernels = 3;
    if (without_wgmma && before_->has(DeviceInstruction::wgmma)) state_.target = device_target("sm_90");
  }
  ~WithoutLibrary() { state_.target = before_; }
  WithoutLibrary(const WithoutLibrary&) = delete;

 private:
  test::KeepOptions keep_;
  runtime::cuda::DeviceState& state_;
  const DeviceTarget* before_;
};

Operands in_f64(const Operands& operands) {
  Operands wide;
  for (const Tensor& each : operands) wide.push_back(cast(to(each, Device()), DType::f64).eval());
  return wide;
}

// Each element within the rounding of the largest; the same bits in every call, also in the replays of a graph. The
// schedule has each of `texts`.
template <class F>
void check(F f, const Operands& operands, std::initializer_list<const char*> texts, double more = 1) {
  const auto compiled = compile(f);
  const Tensor right = f(in_f64(operands)), first = compiled(operands).eval();
  const double largest = amax(abs(right)).item(),
               apart = amax(abs(cast(to(first, Device()), DType::f64) - right)).item();
  CHECK(apart <= largest * unit_of(operands[0].dtype()) * more);
  CHECK(!any(isnan(first)).item<bool>());
  for (int call = 0; call < (test::under_device_tool() ? 1 : 4); ++call)
    CHECK(amax(abs(cast(compiled(operands) - first, DType::f32))).item() == 0);
  const std::string schedule = explain(compiled, operands).schedule;
  for (const char* text : texts) CHECK_MESSAGE(schedule.find(text) != std::string::npos, schedule);
  CHECK_MESSAGE(schedule.find("cuBLASLt") == std::string::npos, schedule);
}

Tensor product(const Operands& x) { return matmul(x[0], x[1]); }
Tensor of_columns(const Operands& x) { return matmul(x[0], transpose(x[1])); }
Tensor of_rows(const Operands& x) { return matmul(transpose(x[0]), x[1]); }
Tensor of_both(const Operands& x) { return matmul(transpose(x[0]), transpose(x[1])); }

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("cuda: products by warps, of operands that lie each way, and of sizes that fill no tile") {
  const WithoutLibrary without;
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const auto& [m, n, k] : {std::tuple(128, 128, 32), std::tuple(24, 8, 8), std::tuple(136, 264, 520),
                                  std::tuple(200, 72, 1000), std::tuple(1000, 328, 104), std::tuple(2048, 1024, 64)}) {
      CAPTURE(m);
      CAPTURE(n);
      CAPTURE(k);
      const Tensor a = there({m, k}, 1, dtype), b = there({k, n}, 2, dtype), at = there({k, m}, 3, dtype),
                   bt = there({n, k}, 4, dtype), bias = there({n}, 5, dtype);
      check(product, {a, b}, {by_warps});
      check(of_columns, {a, bt}, {by_warps});
      check(of_rows, {at, b}, {by_warps});
      check(of_both, {at, bt}, {by_warps});
      check([](const Operands& x) { return nn::linear(x[0], x[1], x[2]); }, {a, bt, bias}, {by_warps});
    }
}

TEST_CASE("cuda: products by warps, of odd sizes along which nothing is copied") {
  const WithoutLibrary without;
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const auto& [m, n, k] : {std::tuple(129, 67, 72), std::tuple(17, 131, 264), std::tuple(337, 1, 40)}) {
      CAPTURE(m);
      CAPTURE(n);
      check(of_columns, {there({m, k}, 1, dtype), there({n, k}, 2, dtype)}, {n > 1 ? by_warps : ""});
      check(of_rows, {there({n * 8 + 3, m - 1}, 3, dtype), there({n * 8 + 3, k}, 4, dtype)}, {by_warps});
    }
  // What is copied in no packs is done by a generated kernel.
  check(product, {there({30, 33}, 5, DType::bf16), there({33, 45}, 6, DType::bf16)}, {});
  check(product, {there({40, 24}, 7, DType::f32), there({24, 56}, 8, DType::f32)}, {});
}

TEST_CASE("cuda: batches of products by warps, of strides of their own") {
  const WithoutLibrary without;
  const DType dtype = DType::bf16;
  check(product, {there({6, 136, 72}, 1, dtype), there({6, 72, 200}, 2, dtype)}, {by_warps});
  check(product, {there({2, 3, 40, 264}, 3, dtype), there({3, 264, 64}, 4, dtype)}, {by_warps});
  check(product, {there({5, 130, 72}, 5, dtype), there({72, 136}, 6, dtype)}, {by_warps});
  // Heads of attention, which lie beside each other.
  const auto scores = [](const Operands& x) {
    return matmul(permute(x[0], {0, 2, 1, 3}), permute(x[1], {0, 2, 3, 1}));
  };
  check(scores, {there({3, 200, 4, 64}, 7, dtype), there({3, 136, 4, 64}, 8, dtype)}, {by_warps});
}

TEST_CASE("cuda: products by warps of parts of matrices do not see the rest, and give NaN where the host does") {
  const WithoutLibrary without;
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const auto inside = [](const Tensor& x, std::int64_t row, std::int64_t rows, std::int64_t column,
                         std::int64_t columns) {
    const Tensor down = unsqueeze(arange(x.size(0).constant()), 1), right = arange(x.size(1).constant());
    const Tensor is_in = (down >= row) & (down < row + rows) & (right >= column) & (right < column + columns);
    return where(to(is_in, Device::cuda()), x, nan).eval();
  };
  const auto part = [](const Operands& x) {
    return matmul(slice(slice(x[0], 0, 3, 140), 1, 8, 80), slice(slice(x[1], 0, 5, 77), 1, 16, 216));
  };
  check(part,
        {inside(there({150, 96}, 1, DType::bf16), 3, 137, 8, 72),
         inside(there({90, 232}, 2, DType::bf16), 5, 72, 16, 200)},
        {by_warps});
  const Tensor a = there({300, 520}, 3, DType::bf16), b = there({520, 264}, 4, DType::bf16),
               holes = where(a > 3, nan, a).eval();
  const Tensor found = isnan(compile(product)(Operands{holes, b})), right = isnan(product(in_f64({holes, b})));
  CHECK(all(to(found, Device()) == right).item<bool>());
  CHECK(any(right).item<bool>());
}

TEST_CASE("cuda: products whose blocks share k, by warps and by Hopper's kernel") {
  for (const bool without_wgmma : {true, false}) {
    const WithoutLibrary without(without_wgmma);
    CAPTURE(without_wgmma);
    for (const DType dtype : {DType::bf16, DType::f16})
      for (const auto& [m, n, k] : {std::tuple(256, 384, 8192), std::tuple(136, 264, 5000), std::tuple(640, 256, 3000),
                                    std::tuple(768, 768, 4096)}) {
        CAPTURE(m);
        CAPTURE(n);
        CAPTURE(k);
        const Tensor a = there({m, k}, 1, dtype), b = there({k, n}, 2, dtype), at = there({k, m}, 3, dtype),
                     bt = there({n, k}, 4, dtype), bias = there({n}, 5, dtype, 64);
        check(product, {a, b}, {by, " units"});
        check(of_columns, {a, bt}, {by, " units"});
        check(of_rows, {at, b}, {by, " units"});
        check(of_both, {at, bt}, {by, " units"});
        check([](const Operands& x) { return nn::linear(x[0], x[1], x[2]); }, {a, bt, bias}, {by, " units"});
      }
  }
  const WithoutLibrary without;
  check(product, {there({2, 130, 4096}, 6, DType::bf16), there({2, 4096, 136}, 7, DType::bf16)}, {by_warps, " units"});
  check(of_columns, {there({40, 8192}, 8, DType::bf16), there({67, 8192}, 9, DType::bf16)}, {by_warps, " units"});
  // Several, which may run side by side, one after the other, and the same one again.
  const auto several = [](const Operands& x) {
    const Tensor first = matmul(transpose(x[0]), x[1]) / 64, second = matmul(transpose(x[1]), x[2]) / 64;
    return matmul(first, second) / 16;
  };
  check(several,
        {there({8192, 256}, 10, DType::bf16), there({8192, 128}, 11, DType::bf16), there({8192, 384}, 12, DType::bf16)},
        {by_warps, " units"}, 3);
  // More tiles than run at once: those beyond whole turns are cut.
  for (const auto& [m, n] : {std::tuple(2184, 2056), std::tuple(2304, 2176)})
    check_product(product, {there({m, 4104}, 13, DType::bf16), there({4104, n}, 14, DType::bf16)}, " units");
}

TEST_CASE("cuda: where libraries are timed, the kernel by warps is timed too on a device without wgmma") {
  const WithoutLibrary without;
  options().own_kernels = 1;
  for (const auto& [m, n, k] : {std::tuple(520, 264, 328), std::tuple(256, 384, 8192)}) {
    CAPTURE(m);
    const Operands operands{there({m, k}, 1, DType::bf16), there({k, n}, 2, DType::bf16)};
    const auto timed = compile(product, {.level = Level::O3});
    const Tensor right = product(in_f64(operands));
    for (int call = 0; call < 3; ++call)
      CHECK(amax(abs(cast(to(timed(operands), Device()), DType::f64) - right)).item() <= amax(abs(right)).item() / 256);
    const std::string schedule = explain(timed, operands).schedule;
    CHECK_MESSAGE(schedule.find("cuBLASLt or tensor cores, each warp for itself") != std::string::npos, schedule);
  }
}

TEST_CASE("cuda: products that begin at no multiple of 16 bytes, without a library") {
  for (const bool without_wgmma : {true, false}) {
    const WithoutLibrary without(without_wgmma);
    CAPTURE(without_wgmma);
    const auto from_column = [](const Operands& x) { return matmul(slice(x[0], 1, 3, 515), slice(x[1], 0, 3, 515)); };
    check(from_column, {there({256, 520}, 1, DType::bf16), there({520, 264}, 2, DType::bf16)}, {});
    const auto between = [](const Operands& x) {
      return concat({slice(x[0], 1, 0, 3), matmul(x[0], x[1]), slice(x[0], 1, 3, 8)}, 1);
    };
    check(between, {there({256, 520}, 3, DType::bf16), there({520, 264}, 4, DType::bf16)}, {by_warps});
  }
}

TEST_CASE("cuda: sizes that are not known, and a step of training, without a library") {
  const WithoutLibrary without;
  const auto compiled = compile([](const Tensor& x, const Tensor& y) { return matmul(x, y); }, {.dynamic = true});
  const Tensor b = there({72, 136}, 2, DType::bf16);
  for (const std::int64_t rows : {40, 130, 33}) {
    const Tensor a = there({rows, 72}, 1, DType::bf16), right = product(in_f64({a, b}));
    CHECK(amax(abs(cast(to(compiled(a, b), Device()), DType::f64) - right)).item() <= amax(abs(right)).item() / 256);
  }
  const auto step = [](const Operands& x) -> Operands {
    return grad([](const Operands& x) { return sum(cast(square(matmul(gelu(matmul(x[0], x[1])), x[2])), DType::f32)); },
                x);
  };
  const Operands x{there({512, 256}, 3, DType::bf16), there({256, 384}, 4, DType::bf16, 1.0 / 16),
                   there({384, 128}, 5, DType::bf16, 1.0 / 16)};
  const Operands found = compile(step)(x), right = step(in_f64(x));
  for (std::size_t i = 0; i < right.size(); ++i) CHECK(apart(found[i], cast(right[i], DType::f32)) < 0.02);
}

TEST_SUITE_END();
