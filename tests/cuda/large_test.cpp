// Tensors of more than 5 GiB: bytes beyond 2^32 in f32, elements beyond 2^31 in bf16. What is computed of their last
// rows is what the host computes of those alone.
#include <doctest/doctest.h>

#include "tests/cuda/values.hpp"
#include "tests/sanitized.hpp"
#include "weft/cuda.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

constexpr std::int64_t columns = 1000, period = 251;  // element (i, j) is (7 i + 5 j) mod 251, which bf16 holds

struct Kind {
  DType dtype;
  std::int64_t rows;
};
constexpr Kind kinds[] = {{DType::f32, 1'350'007}, {DType::bf16, 2'700'007}};
static_assert(kinds[0].rows * columns * 4 > std::int64_t{5} << 30 && kinds[1].rows * columns > std::int64_t{1} << 31);

std::string room_for_large_tensors() {
  if (const std::string why = a_device(); !why.empty()) return why;
  if (test::under_device_tool()) return "a tool takes hours for such tensors";
  std::size_t free = 0, total = 0;
  runtime::cuda::driver().cuMemGetInfo_v2(&free, &total);
  return free < std::size_t{48} << 30 ? "48 GiB of a device's memory" : "";
}

// Rows from `first` on of the matrix.
Tensor rows_from(std::int64_t first, std::int64_t count, Device device) {
  const Tensor i = reshape(arange(count, {.device = device}) + first, {count, 1}),
               j = arange(columns, {.device = device});
  return remainder(i * 7 + j * 5, period);
}
Tensor matrix(const Kind& kind) {
  const auto make =
      compile([](std::int64_t rows, DType dtype) { return cast(rows_from(0, rows, Device::cuda()), dtype); });
  return make(kind.rows, kind.dtype).eval();
}
// The largest difference as a part of the largest value.
double off(const Tensor& found, const Tensor& expected) {
  const Tensor reals = cast(expected, DType::f64);
  return amax(abs(cast(to(found, Device::cpu()), DType::f64) - reals)).item() / (amax(abs(reals)).item() + 1e-30);
}

constexpr std::int64_t few = 3;  // rows that are looked at
// What f gives of the whole, looked at where `part` says, is what it gives of the last rows on the host, in f64. The
// whole lies in memory of its own, and goes before the next one comes.
template <class F, class Part>
void check(const char* name, const Kind& kind, const Tensor& x, F f, Part part) {
  CAPTURE(name);
  const Tensor expected = f(cast(rows_from(kind.rows - few, few, Device::cpu()), DType::f64));
  const double within = kind.dtype == DType::f32 ? 1e-5 : 0x1p-8;
  {
    const Tensor whole = compile(f)(x).eval();
    CHECK(off(part(whole), expected) <= within);
  }
  const Tensor whole = f(x).eval();
  CHECK(off(part(whole), expected) <= within);
}

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(room_for_large_tensors));

TEST_CASE("tensors of more than 5 GiB: elements, rows, sums, transposes, concatenations and products") {
  for (const Kind& kind : kinds) {
    CAPTURE(kind.rows);
    const Tensor x = matrix(kind);
    const auto last_rows = [&](const Tensor& y) { return slice(y, 0, y.size(0) - few); };
    CHECK(off(last_rows(x), rows_from(kind.rows - few, few, Device::cpu())) == 0);
    check(
        "pointwise", kind, x, [](const Tensor& x) { return (x + 3) * 2; }, last_rows);
    check(
        "softmax", kind, x, [](const Tensor& x) { return softmax(x * 0.125, -1); }, last_rows);
    check(
        "sums of rows", kind, x, [](const Tensor& x) { return sum(cast(x, DType::f64), -1); }, last_rows);
    check(
        "transpose", kind, x, [](const Tensor& x) { return transpose(x) + 1; },
        [&](const Tensor& y) { return slice(y, 1, y.size(1) - few); });
    check(
        "joined rows", kind, x,
        [](const Tensor& x) {
          return concat({ones({few, columns}, {x.dtype(), x.device()}), x});
        },
        [&](const Tensor& y) {
          return concat({slice(y, 0, 0, few), last_rows(y)});
        });
    check(
        "joined columns", kind, x,
        [](const Tensor& x) {
          return concat({x, slice(x, 1, 0, 24) * 2}, 1);
        },
        last_rows);
    check(
        "product", kind, x,
        [](const Tensor& x) {
          return matmul(x, full({columns, 8}, 0.25, {x.dtype(), x.device()}));
        },
        last_rows);
    cuda::empty_cache();
  }
}

TEST_CASE("tensors of more than 5 GiB: rows at places beyond 32 bits, and reductions of the whole") {
  for (const Kind& kind : kinds) {
    CAPTURE(kind.rows);
    const Tensor x = matrix(kind);
    const std::int64_t over_the_border = (std::int64_t{1} << 32) / (columns * (kind.dtype == DType::f32 ? 4 : 2));
    const std::vector<std::int64_t> places{0, over_the_border, kind.rows / 2, kind.rows - 1};
    const Tensor index = to(from_span(places, {4}), Device::cuda());
    const auto look = [](const Tensor& x, const Tensor& index) { return gather(x, index); };
    for (const Tensor& found : {look(x, index), compile(look)(x, index)}) {
      for (std::size_t i = 0; i < places.size(); ++i) {
        const auto row = static_cast<std::int64_t>(i);
        CHECK(off(slice(found, 0, row, row + 1), rows_from(places[i], 1, Device::cpu())) == 0);
      }
    }
    // How many elements are 7: (7 i + 5 j) mod 251 takes all values in turn with j, so four times a row, but in the
    // rest.
    const auto sevens = [](const Tensor& x) { return sum(x == 7); };
    std::int64_t expected = 0, in_row[period] = {};
    for (std::int64_t i = 0; i < period; ++i)
      for (std::int64_t j = 0; j < columns; ++j) in_row[i] += (7 * i + 5 * j) % period == 7;
    for (std::int64_t i = 0; i < kind.rows; ++i) expected += in_row[i % period];
    CHECK(compile(sevens)(x).item<std::int64_t>() == expected);
    CHECK(sevens(x).item<std::int64_t>() == expected);
    // One element more than all others, in the last row.
    const auto last = [](const Tensor& x) {
      const Tensor peak = where(arange(x.element_count(), {.device = x.device()}) == x.element_count() - 2, 255,
                                reshape(x, {x.element_count()}));
      return argmax(peak);
    };
    CHECK(compile(last)(x).item<std::int64_t>() == kind.rows * columns - 2);
    const auto columns_of = [](const Tensor& x) { return sum(cast(x, DType::f64), 0); };
    double first = 0;
    for (std::int64_t i = 0; i < kind.rows; ++i) first += static_cast<double>(7 * i % period);
    CHECK(compile(columns_of)(x)[0].item<double>() == doctest::Approx(first).epsilon(1e-12));
    cuda::empty_cache();
  }
}

TEST_SUITE_END();
