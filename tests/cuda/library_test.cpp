// Functions that sort, index, rearrange and contract, and the narrow integers, on a CUDA device: what the host gives,
// eagerly and compiled. Skipped without a GPU.
#include <doctest/doctest.h>

#include <limits>
#include <utility>

#include "tests/cuda/support.hpp"
#include "tests/sanitized.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

template <class F>
void check_there(F function, const Tensor& x) {
  const std::vector<Tensor> expected = function(x);
  const Tensor there = to(x, Device::cuda());
  for (const std::vector<Tensor>& found : {function(there), compile(function)(there)}) {
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      CAPTURE(i);
      CHECK(found[i].device() == Device::cuda());
      const Tensor here = to(found[i], Device::cpu());
      REQUIRE(here.shape() == expected[i].shape());
      CHECK(here.dtype() == expected[i].dtype());
      if (here.element_count() == Dim(0)) continue;
      const Tensor same = (here == expected[i]) | ((here != here) & (expected[i] != expected[i]));
      const Tensor apart = cast(where(same, zeros_like(here), here - expected[i]), DType::f64);
      CHECK(amax(abs(apart)).item() <= 1e-4);
    }
  }
}

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("cuda: orders of rows, long and short, with NaN and equal elements") {
  const auto orders = [](const Tensor& x) {
    return std::vector<Tensor>{
        argsort(x),          argsort(x, 0, true), sort(x, 1, true).values,         topk(x, 3).values,
        median(x, 1).values, quantile(x, 0.3, 1), argsort(cast(x * 2, DType::i32))};
  };
  check_there(orders, sample({3, 1000}, 1));
  check_there(orders, round(sample({7, 256}, 2) * 2));
  check_there(orders, where(sample({4, 300}, 3) > 1.5, std::numeric_limits<double>::quiet_NaN(), sample({4, 300}, 4)));
}

TEST_CASE("cuda: read and added at positions, rearranged, contracted over labels") {
  check_there(
      [](const Tensor& x) {
        const Tensor at = argmax(x, 1, true);
        return std::vector<Tensor>{gather(x, 1, at),
                                   scatter_add(x, 1, at, x),
                                   index_select(x, 0, argmin(x, 0)),
                                   masked_fill(x, x > 0, -1),
                                   histc(x, 5, -2, 2),
                                   roll(x, 3, 1),
                                   tril(x) + triu(x, 1),
                                   diagonal(x, 1),
                                   tile(x, {2, 1}),
                                   pad(x, {2, 1, 1, 0}, Pads::reflect),
                                   pad(x, {1, 1}, Pads::constant, 2),
                                   unfold(x, 1, 3, 2),
                                   einsum("ij,kj->ik", {x, x}),
                                   einsum("ij->j", {x}),
                                   weft::std(x, 1)};
      },
      sample({9, 9}, 5));
}

TEST_CASE("cuda: rows are added in the order of the updates, however many there are and wherever they go") {
  Generator generator(3);
  const Tensor random = cast(uniform({5000}, 0, 20000, generator), DType::i64);
  const auto rows = [&](std::int64_t count, std::int64_t table) {
    return Tensor((slice(random, 0, 0, count) % table).eval());
  };
  struct Case {
    Tensor index;
    std::int64_t rows, width;
  };
  for (const Case& at : {Case{rows(5000, 20000), 20000, 3}, Case{rows(5000, 1), 2, 1}, Case{rows(4097, 7), 9, 65},
                         Case{rows(1024, 300), 300, 4}, Case{rows(1, 5), 5, 600}, Case{rows(1025, 1025), 1025, 1}}) {
    CAPTURE(at.rows);
    const std::int64_t count = at.index.size(0).constant();
    for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64}) {
      const Tensor x = cast(sample({count, at.width}, 8) * 1000, dtype).eval();
      const auto add = [&](Device device) {
        const auto added = [](const Tensor& table, const Tensor& index, const Tensor& x) {
          return index_add(table, 0, index, x);
        };
        const Tensor table = zeros({at.rows, at.width}, {dtype, device});
        return to(compile(added)(table, to(at.index, device), to(x, device)), Device::cpu());
      };
      CHECK(all(add(Device::cpu()) == add(Device::cuda())).item<bool>());  // bit for bit
    }
  }
}

TEST_CASE("cuda: sums of many rows of few columns, with what comes before and after") {
  for (const auto& [rows, columns] : {std::pair{16384, 768}, {4096, 33}, {1025, 2304}, {100000, 9}, {1024, 8192}}) {
    CAPTURE(columns);
    const auto sums = [](const Tensor& x) {
      return std::vector<Tensor>{sum(x * x, 0) * 1e-3 + 1, amax(x, 0), mean(x * 2, 0),
                                 cast(sum(cast(x, DType::bf16), 0), DType::f32) * 1e-3};
    };
    const Tensor x = sample({rows, columns}, 9).eval();
    const std::vector<Tensor> expected = sums(x), found = compile(sums)(to(x, Device::cuda()));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(i);
      // Two orders of additions in f32, of terms that are about 1, scaled; the last is rounded to bf16, the greatest
      // exact.
      const double scale = i == 2 ? 2.0 / rows : i == 1 ? 0 : 1e-3, relative = i == 3 ? 0x1p-7 : 0;
      const Tensor apart = abs(to(found[i], Device::cpu()) - expected[i]) - abs(expected[i]) * relative;
      CHECK(amax(apart).item() <= 1e-6 * rows * scale);
    }
  }
}

TEST_CASE("cuda: integers of 8, 16 and 32 bits wrap as on the host") {
  for (DType dtype : {DType::i8, DType::i16, DType::u16, DType::u32, DType::u8}) {
    const Tensor x = cast(arange(600) * 97, dtype), there = to(x, Device::cuda());
    const auto arithmetic = [](const Tensor& x) { return (x * x + 3) ^ (x >> 1); };
    const Tensor expected = arithmetic(x);
    for (const Tensor& found : {arithmetic(there), compile(arithmetic)(there)})
      CHECK(all(to(found, Device::cpu()) == expected).item<bool>());
  }
}

namespace {
template <int axis>
std::vector<Tensor> scanned(const Tensor& x) {
  const auto greatest = cummax(x, axis), least = cummin(x, axis);
  return {cumsum(x * 2, axis) + 1,
          cumprod(x * 1e-3 + 1, axis),
          greatest.values,
          greatest.indices,
          least.indices,
          logcumsumexp(x, axis),
          cumsum(cast(x * 4, DType::i32), axis),
          cast(cumsum(cast(x, DType::bf16), axis), DType::f32) * 1e-6,
          flip(cumsum(flip(x, axis), axis), axis)};
}
template <int axis>
std::vector<Tensor> scan_gradients(const Tensor& x) {
  return {grad([](const Tensor& x) { return sum(sin(cumsum(x, axis)) + cummax(x, axis).values); }, x),
          grad([](const Tensor& x) { return sum(sin(logcumsumexp(x, axis))); }, x),
          grad([](const Tensor& x) { return sum(cumprod(x * 0.01 + 1, axis)); }, x)};
}
}  // namespace

TEST_CASE("cuda: scans of short and long rows, along each axis") {
  const std::int64_t longest = test::under_device_tool() ? 20000 : 100000;  // both are cut
  for (const std::int64_t length : {std::int64_t{1}, std::int64_t{33}, std::int64_t{1024}, longest}) {
    CAPTURE(length);
    check_there(scanned<0>, sample({length}, 6));
    check_there(scanned<1>, sample({3, length}, 7));
    check_there(scanned<1>, sample({2, length, 5}, 8));
  }
  check_there(scanned<1>, sample({300, 70}, 9));
  check_there(scanned<0>, sample({70, 300}, 10));
  check_there(scanned<1>,
              where(sample({5, 2000}, 11) > 2.5, std::numeric_limits<double>::quiet_NaN(), sample({5, 2000}, 12)));
  check_there(scanned<1>, slice(sample({5, 2}, 11), 1, 0, 0));
}

TEST_CASE("cuda: the operations around a scan, and its derivatives") {
  check_there(
      [](const Tensor& x) {
        const Tensor e = exp(x);
        return std::vector<Tensor>{cumsum(e, 1) / sum(e, 1, true) + cummax(x, 1).values, cumsum(cumsum(x, 0), 1) * 1e-3,
                                   softmax(cumsum(x, 1), 1), cumsum(softmax(x, 1), 1)};
      },
      sample({40, 500}, 13));
  check_there(scan_gradients<1>, sample({4, 300}, 14));
  check_there(scan_gradients<0>, sample({50, 7}, 15));
}

TEST_CASE("cuda: elements and rows that are set; of many that meet the last one stays") {
  check_there(
      [](const Tensor& x) {
        const Tensor at = cast(clamp(round(abs(x)), 0, 2), DType::i64), rows = at[0];
        using enum ScatterReduction;
        return std::vector<Tensor>{scatter(x, 0, at, x * 2),
                                   scatter(x, 1, at, -1),
                                   scatter_reduce(x, 0, at, x, amax),
                                   scatter_reduce(x, 1, at, x, amin, false),
                                   scatter_reduce(x, 1, at, x, mean),
                                   scatter_reduce(cast(x * 9, DType::i8), 0, at, cast(x * 7, DType::i8), amax),
                                   index_copy(x, 1, rows, x),
                                   index_fill(x, 0, rows, 3),
                                   set_rows(x, rows, x[0]),
                                   index_put(x, {rows, rows}, x[1]),
                                   masked_scatter(x, x > 0, x * 5)};
      },
      sample({9, 9}, 16));
  check_there(
      [](const Tensor& x) {
        const Tensor at = remainder(arange(20000) * 7919, 101);
        return std::vector<Tensor>{scatter(slice(x, 0, 0, 101), 0, to(at, x.device()), x)};
      },
      sample({20000}, 17));
}

TEST_CASE("cuda: products of 16-bit floats whose sizes are odd, and what they are padded with") {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    CAPTURE(info(dtype).name);
    const Tensor a = cast(sample({1021, 1019}, 1) * 0.1, dtype).eval(),
                 b = cast(sample({1019, 1003}, 2) * 0.1, dtype).eval();
    const auto all = [](const Tensor& a, const Tensor& b) {
      const Tensor y = matmul(a, b);  // [m, n]; then along m, and along n
      return std::vector<Tensor>{y, matmul(transpose(a), relu(y)), matmul(relu(y), transpose(b))};
    };
    const std::vector<Tensor> expected = all(cast(a, DType::f32), cast(b, DType::f32)),
                              found = compile(all)(to(a, Device::cuda()), to(b, Device::cuda()));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(i);
      const Tensor here = cast(to(found[i], Device::cpu()), DType::f32);
      REQUIRE(here.shape() == expected[i].shape());
      CHECK(amax(abs(here - expected[i])).item() <= 0.02 * amax(abs(expected[i])).item());
    }
  }
}

TEST_SUITE_END();
