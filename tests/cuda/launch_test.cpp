// Kernels that hold wide rows in shared memory can be launched: rows and columns reduced in one pass, where the packs
// that are fetched ahead and the memory of joins together are more than the 48 KB that need no consent.
#include <doctest/doctest.h>

#include <limits>

#include "tests/cuda/support.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

struct Gradients {
  Tensor x, weight, bias;
  WEFT_MEMBERS(x, weight, bias)
};
Gradients layer_norm_backward(const Gradients& at, const Tensor& residual) {
  return grad([&](const Gradients& p) { return sum(nn::layer_norm(p.x + residual, p.weight, p.bias) * residual); }, at);
}
Tensor log_softmax_backward(const Tensor& x, const Tensor& weight) {
  return grad([&](const Tensor& v) { return sum(log_softmax(v + weight) * weight); }, x);
}
struct Whole {
  Tensor rows, columns, upto;
  WEFT_MEMBERS(rows, columns, upto)
};
Whole of_integers(const Tensor& x) { return {sum(x, {1}), amax(x, {0}), cumsum(x, 1)}; }

std::vector<Tensor> of_two_heights(const Tensor& x, const Tensor& y, const Tensor& row) {
  return {sin(x) * row, sin(y) * row};
}

void close(const Tensor& there, const Tensor& here, double within) {
  const Tensor apart = cast(to(there, Device::cpu()), DType::f64) - cast(here, DType::f64);
  CHECK(amax(abs(apart)).item() <= within * (1 + amax(abs(cast(here, DType::f64))).item()));
}

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("cuda: norms forward and backward of wide rows") {
  for (const auto& [rows, columns, dtype] : {std::tuple<int, int, DType>{255, 3001, DType::f32},
                                             {333, 3001, DType::f32},
                                             {255, 4096, DType::bf16},
                                             {2048, 4096, DType::bf16},
                                             {255, 4096, DType::f16}}) {
    CAPTURE(rows);
    CAPTURE(columns);
    const auto of = [&, dtype = dtype](const Sizes& sizes, std::uint64_t seed) {
      return cast(sample(sizes, seed), dtype);
    };
    const Gradients at{of({rows, columns}, 1), of({columns}, 2), of({columns}, 3)};
    const Tensor residual = of({rows, columns}, 4);
    const Gradients there{to(at.x, Device::cuda()), to(at.weight, Device::cuda()), to(at.bias, Device::cuda())};
    const Gradients wanted = layer_norm_backward(at, residual);
    const Gradients found = compile(layer_norm_backward)(there, to(residual, Device::cuda()));
    const double within = dtype == DType::f32 ? 1e-5 : 2e-2;
    close(found.x, wanted.x, within);
    close(found.weight, wanted.weight, within);
    close(found.bias, wanted.bias, within);
  }
}

TEST_CASE("cuda: kernels that differ in their first extent alone are one launch") {
  auto compiled = compile(of_two_heights);
  const Tensor x = sample({300, 64}, 1), y = sample({7, 64}, 2), row = sample({64}, 3);
  const Tensor x_there = to(x, Device::cuda()), y_there = to(y, Device::cuda()), row_there = to(row, Device::cuda());
  CHECK(explain(compiled, x_there, y_there, row_there).schedule.find("in one launch") != std::string::npos);
  const std::vector<Tensor> found = compiled(x_there, y_there, row_there), wanted = of_two_heights(x, y, row);
  for (std::size_t i = 0; i < 2; ++i) close(found[i], wanted[i], 1e-6);
}

TEST_CASE("cuda: log-softmax with its gradient, and integers, of wide rows") {
  for (const auto& [rows, columns] : {std::pair<int, int>{128, 3001}, {512, 3001}, {333, 5000}}) {
    const Tensor x = sample({rows, columns}, 5), weight = sample({columns}, 6);
    close(compile(log_softmax_backward)(to(x, Device::cuda()), to(weight, Device::cuda())),
          log_softmax_backward(x, weight), 1e-5);
  }
  const Tensor x = reshape(cast(remainder(arange(256 * 3001) * 7919, 1001), DType::i32), {256, 3001});
  const Whole wanted = of_integers(x), found = compile(of_integers)(to(x, Device::cuda()));
  CHECK(all(to(found.rows, Device::cpu()) == wanted.rows).item<bool>());
  CHECK(all(to(found.columns, Device::cpu()) == wanted.columns).item<bool>());
  CHECK(all(to(found.upto, Device::cpu()) == wanted.upto).item<bool>());
}

TEST_CASE("cuda: cross entropy with its gradient of rows of which a part is held in registers") {
  const auto step = [](const Tensor& logits, const Tensor& labels) {
    return value_and_grad([&](const Tensor& z) { return nn::cross_entropy(z, labels); }, logits);
  };
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const int columns : {50304, 40000, 33001}) {
      CAPTURE(columns);
      const Tensor numbers = sample({70, columns}, 10) * 3, at = arange(columns);
      // A part of -inf in what is held and one in what is not.
      const Tensor hidden = ((at > 100) & (at < 120)) | (at > columns - 9);
      const Tensor logits = cast(where(hidden, full({}, -std::numeric_limits<float>::infinity()), numbers), dtype);
      const Tensor labels = remainder(arange(70) * 577, columns - 200) + 120;
      const auto [loss, gradient] = step(logits, labels);
      const auto [found, found_gradient] = compile(step)(to(logits, Device::cuda()), to(labels, Device::cuda()));
      close(found, loss, dtype == DType::bf16 ? 1e-2 : 1e-3);
      close(found_gradient * 70, gradient * 70, dtype == DType::bf16 ? 1e-2 : 2e-3);
    }
}

TEST_CASE("cuda: rows that are divided by one number each have the host's quotients, to the last bit") {
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor given =
      from_list({0.0F, -0.0F, 1e-45F, -3e-39F, 1.2e-38F, 7e-31F, 1e-23F, 3.0F, -1e23F, 3.4e38F, inf, nan});
  const Tensor random = sample({512}, 7) * pow(full({512}, 2), round(sample({512}, 8) * 40));
  const Tensor numbers = concat({random, given}, 0), divisors = reshape(numbers, {524, 1});
  const auto quotients = [](const Tensor& a, const Tensor& b) { return a / b; };
  const Tensor found = to(compile(quotients)(to(numbers, Device::cuda()), to(divisors, Device::cuda())), Device::cpu());
  const Tensor wanted = quotients(numbers, divisors);
  const auto bits = [](const Tensor& a) { return bitcast(where(isnan(a), full({}, 1), a), DType::i32); };
  CHECK(all(bits(found) == bits(wanted)).item<bool>());
}

TEST_CASE(
    "cuda: the greatest, the least and the shares of long rows of 16-bit floats, with NaN, zeros and small numbers") {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Tensor numbers = sample({600, 4096}, 9), at = remainder(arange(600 * 4096) * 7919, 5003);
    const auto where_at = [&](std::int64_t i, float x) {
      return where(reshape(at, {600, 4096}) == i, full({}, x), numbers);
    };
    for (const Tensor& given :
         {where_at(17, std::numeric_limits<float>::quiet_NaN()), where_at(18, -0.0F),
          where_at(19, std::numeric_limits<float>::infinity()), where(numbers < 0, full({}, 0), numbers),
          where(numbers < 0, full({}, -std::numeric_limits<float>::infinity()), numbers * 4),
          numbers * numbers * full({}, 6e-8), -abs(numbers)}) {
      const Tensor x = cast(given, dtype);
      const auto statistics = [](const Tensor& v) {
        const Tensor wide = cast(v, DType::f32);
        return std::vector<Tensor>{amax(v, {1}), amin(v, {1}), cast(wide / sum(abs(wide), {1}, true), v.dtype()),
                                   softmax(v, 1)};
      };
      const std::vector<Tensor> found = compile(statistics)(to(x, Device::cuda())), wanted = statistics(x);
      for (std::size_t i = 0; i < found.size(); ++i) {
        const Tensor there = to(found[i], Device::cpu());
        CHECK(all(isnan(there) == isnan(wanted[i])).item<bool>());
        const auto finite = [&](const Tensor& a) {
          return where(isfinite(wanted[i]), cast(a, DType::f32), full({}, 0));
        };
        const Tensor apart = abs(finite(there) - finite(wanted[i]));
        CHECK(all(apart <= abs(finite(wanted[i])) * full({}, i < 2 ? 0 : 0.01) + full({}, i < 2 ? 0 : 1e-7))
                  .item<bool>());
      }
    }
  }
}

TEST_SUITE_END();
