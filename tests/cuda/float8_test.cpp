// 8-bit floats on a device: conversions give the codes that the host gives, for every f16 and bf16, every code and
// numbers of f32 and f64 near the middles; and scaled_matmul, by cuBLASLt where it has a kernel, and by its body.
// Skipped without a GPU.
#include <doctest/doctest.h>

#include <limits>

#include "tests/cuda/products.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

// What lacks where the device multiplies no 8-bit floats.
std::string a_device_that_multiplies_them() {
  std::string why = a_device();
  if (why.empty() && !runtime::cuda::use(Device::cuda()).has(DeviceInstruction::mma_float8))
    why = "the device is older than sm_89";
  return why;
}

// The same codes; a NaN is a NaN of the same sign. f8e5m2 has three of each sign.
template <class F>
void check_codes(F f, const Tensor& x) {
  const auto compiled = compile(f);
  const Tensor host = f(x).eval(), device = to(x, Device::cuda()).eval();
  for (const Tensor& found : {compiled(device), f(device)}) {
    const Tensor there = to(found, Device::cpu());
    const Tensor code = bitcast(there, DType::u8), right = bitcast(host, DType::u8);
    const Tensor same = where(isnan(host), isnan(there) & ((code & 0x80) == (right & 0x80)), code == right);
    CHECK(all(same).item<bool>());
  }
}

Tensor near_codes(DType dtype) {
  std::vector<double> list{0, INFINITY, 1e300, 1e-300, std::numeric_limits<double>::denorm_min(), 1e39, 464, 61440};
  for (int code = 0; code < 0x7f; ++code)
    for (const double x : {static_cast<float>(float8_e4m3fn::from_bits(static_cast<std::uint8_t>(code))),
                           static_cast<float>(float8_e5m2::from_bits(static_cast<std::uint8_t>(code)))})
      for (const double part : {0.0, 0.25, 0.125, 0.0625, 0.03125})
        for (const double more : {0.0, -0x1p-23, 0x1p-23, -0x1p-50, 0x1p-50}) list.push_back(x * (1 + part + more));
  for (std::size_t i = 0, positive = list.size(); i < positive; ++i) list.push_back(-list[i]);
  return cast(from_span(list, {static_cast<std::int64_t>(list.size())}), dtype).eval();
}

template <DType dtype>
Tensor product(const Operands& x) {
  return scaled_matmul(x[0], x[1], x[2], x[3], {.bias = x.size() > 4 ? x[4] : Tensor(), .dtype = dtype});
}
// Whether a line of the schedule is the whole product; of the body kernels alone are called so.
bool is_whole(const std::string& schedule) {
  for (std::size_t at = schedule.find("scaled_matmul"); at != std::string::npos;
       at = schedule.find("scaled_matmul", at + 1)) {
    const std::string line = schedule.substr(at, schedule.find('\n', at) - at);
    if (line.find("] x [") != std::string::npos) return true;
  }
  return false;
}
// Against f64 on the host; `by`: what the schedule says of who does it.
template <DType dtype>
void check_product(const Operands& x, const std::string& by, bool is_there) {
  const auto compiled = compile(product<dtype>);
  const auto wide = [](const Tensor& value) { return cast(to(value, Device::cpu()), DType::f64); };
  Tensor right = matmul(wide(x[0]), wide(x[1])) * wide(x[2]) * wide(x[3]);
  if (x.size() > 4) right = right + wide(x[4]);
  const double largest = amax(abs(right)).item();
  // Tensor cores keep about 14 bits of sums of 8-bit floats: up to 2.4e-4 of the largest result on an H200.
  const double f32_unit = is_there ? 0x1p-11 : 0x1p-16;
  const double unit = dtype == DType::f32 ? f32_unit : dtype == DType::f16 ? 0x1p-10 : 0x1p-7;
  for (const Tensor& found : {compiled(x), compiled(x), product<dtype>(x)}) {
    const double apart = amax(abs(wide(found) - right)).item();
    CAPTURE(apart / largest);
    CHECK(apart <= largest * unit);
  }
  CHECK(explain(compiled, x).schedule.find(by) != std::string::npos);
  CHECK(is_whole(explain(compiled, x).schedule) == is_there);
}

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("cuda: every f16 and bf16, and numbers near the middles, become the same 8-bit floats as on the host") {
  for (const DType from : {DType::f16, DType::bf16}) {
    const Tensor x = bitcast(cast(arange(65536), DType::u16), from).eval();
    const Tensor numbers = where(isnan(x), cast(1, from), x).eval();
    check_codes([](const Tensor& v) { return cast(v, DType::f8e4m3); }, numbers);
    check_codes([](const Tensor& v) { return cast(v, DType::f8e5m2); }, numbers);
  }
  for (const DType from : {DType::f64, DType::f32}) {
    check_codes([](const Tensor& v) { return cast(v, DType::f8e4m3); }, near_codes(from));
    check_codes([](const Tensor& v) { return cast(v, DType::f8e5m2); }, near_codes(from));
  }
  const Tensor whole = concat({arange(-500, 500), arange(61430, 61450)}, 0).eval();
  check_codes([](const Tensor& v) { return cast(v, DType::f8e4m3); }, whole);
  check_codes([](const Tensor& v) { return cast(v, DType::f8e5m2); }, whole);
  // NaN becomes NaN; its sign is what the device's arithmetic makes of it.
  const Tensor nan = to(full({33}, NAN), Device::cuda());
  CHECK(all(isnan(to(cast(nan, DType::f8e4m3), Device::cpu()))).item<bool>());
  CHECK(all(isnan(to(cast(nan, DType::f8e5m2), Device::cpu()))).item<bool>());
}

TEST_CASE("cuda: every code has the number that it has on the host, and comes back") {
  for (const DType dtype : {DType::f8e4m3, DType::f8e5m2}) {
    const Tensor codes = bitcast(cast(arange(256), DType::u8), dtype).eval(), device = to(codes, Device::cuda()).eval();
    for (const DType wide : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      const Tensor host = cast(codes, wide), there = to(cast(device, wide), Device::cpu());
      CHECK(all((host == there) | (isnan(host) & isnan(there))).item<bool>());
      const Tensor back = to(cast(cast(device, wide), dtype), Device::cpu());
      CHECK(all((back == codes) | (isnan(back) & isnan(codes))).item<bool>());
    }
    check_codes([](const Tensor& v) { return concat({flip(v, 0), slice(v, 0, 3, 100)}, 0); }, codes);
    check_codes(
        [](const Tensor& v) {
          return where(isnan(v), cast(0, v.dtype()), transpose(reshape(v, {16, 16}), 0, 1));
        },
        reshape(codes, {16, 16}).eval());
  }
}

TEST_CASE("cuda: scaled_matmul of sizes that the library does not take is done by its body") {
  const Tensor a = there({33, 40}, 1, DType::f8e4m3, 8), b = there({40, 24}, 2, DType::f8e4m3, 8);
  const Tensor s = to(full({}, 0.25F), Device::cuda()).eval();
  check_product<DType::bf16>({a, b, s, s}, "matmul", false);
  check_product<DType::f32>({a, b, s, s}, "matmul", false);
}

TEST_SUITE_END();

TEST_SUITE_BEGIN("cuda" * test::needs(a_device_that_multiplies_them));

TEST_CASE("cuda: scaled_matmul by cuBLASLt, of operands each way, with a bias and without") {
  const Tensor s = to(full({}, 0.25F), Device::cuda()).eval(), t = to(full({1, 1}, 0.01F), Device::cuda()).eval();
  for (const auto& [m, n, k] : {std::tuple(256, 512, 1024), std::tuple(17, 48, 64), std::tuple(1, 4096, 4096)}) {
    CAPTURE(m);
    for (const auto& [left, right] : {std::pair{DType::f8e4m3, DType::f8e4m3}, {DType::f8e5m2, DType::f8e4m3}}) {
      const Tensor a = there({m, k}, 1, left, 8), b = there({k, n}, 2, right, 8), bt = there({n, k}, 3, right, 8);
      const Tensor by_columns = transpose(bt, 0, 1);
      check_product<DType::bf16>({a, b, s, t}, "cuBLASLt", true);
      check_product<DType::bf16>({a, by_columns, s, t}, "cuBLASLt", true);
      check_product<DType::f16>({a, by_columns, s, t}, "cuBLASLt", true);
      check_product<DType::f32>({a, by_columns, s, t}, "cuBLASLt", true);
      check_product<DType::bf16>({a, by_columns, s, t, there({n}, 4, DType::bf16)}, "cuBLASLt", true);
    }
  }
}

TEST_CASE("cuda: scaled_matmul with a scale for each row and each column, by cuBLASLt or its body") {
  const Tensor a = there({256, 512}, 1, DType::f8e4m3, 8), b = transpose(there({128, 512}, 2, DType::f8e4m3, 8), 0, 1);
  const Tensor rows = exp(there({256, 1}, 3, DType::f32)).eval(), columns = exp(there({1, 128}, 4, DType::f32)).eval();
  const auto compiled = compile(product<DType::bf16>);
  const Operands x{a, b, rows, columns};
  const bool by_library = is_whole(explain(compiled, x).schedule);
  MESSAGE("scales of rows by the library: ", by_library);
  check_product<DType::bf16>(x, by_library ? "cuBLASLt" : "matmul", by_library);
}

TEST_CASE(
    "cuda: what is quantized, multiplied and used is one function, and two calls side by side keep their scales") {
  const auto function = compile([](const Tensor& x, const Tensor& w, const Tensor& v) {
    const auto scale_of = [](const Tensor& value) { return cast(amax(abs(value)), DType::f32) / 448; };
    const auto times = [&](const Tensor& a, const Tensor& b) {
      const Tensor s = scale_of(a), t = scale_of(b);
      return scaled_matmul(cast(a / s, DType::f8e4m3), cast(b / t, DType::f8e4m3), s, t);
    };
    return gelu(times(x, w)) + times(x, v);
  });
  const Tensor x = there({256, 512}, 1, DType::bf16), w = there({512, 256}, 2, DType::bf16, 0.05),
               v = there({512, 256}, 3, DType::bf16, 3);
  const Tensor right = gelu(matmul(here(x), here(w))) + matmul(here(x), here(v));
  CHECK(apart(function(x, w, v), right) < 0.06);
}

TEST_SUITE_END();
