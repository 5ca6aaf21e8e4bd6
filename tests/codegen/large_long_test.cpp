// Values of more than 2^31 elements: what takes an index of 64 bits does. On the device of WEFT_TEST_DEVICE, compiled
// and eagerly. Elements are of one or two bytes, so that a test takes at most 9 GB.
#include <doctest/doctest.h>

#include "tests/cuda/device.hpp"
#include "weft/weft.hpp"

using namespace weft;
using test::test_device;

namespace {

constexpr std::int64_t border = std::int64_t{1} << 31;
constexpr std::int64_t many = border + 4099;           // elements
constexpr std::int64_t period = 251, peak = many - 2;  // element i of numbers() is i mod 251, but 255 at the peak

Tensor numbers() {
  const Tensor i = arange(many, {.device = test_device()});
  return cast(where(i == peak, 255, remainder(i, period)), DType::u8);
}
// Places on both sides of the border, and the last.
Tensor places() { return to(from_list<std::int64_t>({0, border - 1, border, border + 1, many - 1}), test_device()); }

std::vector<std::int64_t> integers(const Tensor& x) {
  const Tensor here = cast(to(x, Device::cpu()), DType::i64).eval();
  const View<const std::int64_t> view = here.data<std::int64_t>();
  return {view.begin(), view.end()};
}
std::vector<std::int64_t> expected(std::int64_t (*element)(std::int64_t)) {
  std::vector<std::int64_t> result;
  for (const std::int64_t i : {std::int64_t{0}, border - 1, border, border + 1, many - 1}) result.push_back(element(i));
  return result;
}
using Integers = std::vector<std::int64_t>;

// Checks that compiled and eagerly f gives these integers.
template <class F, class... More>
void check(F f, const Integers& wanted, const Tensor& x, const More&... more) {
  CHECK(integers(f(x, more...)) == wanted);
  CHECK(integers(compile(f)(x, more...)) == wanted);
}
// Compiled alone: eagerly an integer's sum is one of a copy in i64.
template <class F>
void check_sum(F f, const Integers& wanted, const Tensor& x) {
  CHECK(integers(compile(f)(x)) == wanted);
}

}  // namespace

TEST_CASE("large: elements, and sums, maxima and their places") {
  const Tensor x = compile([] { return numbers(); })().eval();
  check([](const Tensor& x, const Tensor& at) { return gather(x, at); },
        expected([](std::int64_t i) { return i % period; }), x, places());
  check([](const Tensor& x, const Tensor& at) { return gather((x + 3) * 2, at); },
        expected([](std::int64_t i) { return (i % period + 3) * 2 % 256; }), x, places());
  check([](const Tensor& x) { return slice(x, 0, border - 2, border + 3); },
        {(border - 2) % period, (border - 1) % period, border % period, (border + 1) % period, (border + 2) % period},
        x);
  constexpr std::int64_t whole = many / period, rest = many % period;
  check_sum([](const Tensor& x) { return sum(x); },
            {whole * (period * (period - 1) / 2) + rest * (rest - 1) / 2 + 255 - peak % period}, x);
  check_sum([](const Tensor& x) { return sum(x == 7); }, {whole + (rest > 7) - (peak % period == 7)}, x);
  check([](const Tensor& x) { return argmax(x); }, {peak}, x);
}

TEST_CASE("large: parts are put together, and written where they belong") {
  static constexpr auto half = [](std::int64_t value) {
    return full({many / 2}, value, {.dtype = DType::u8, .device = test_device()});
  };
  const auto joined = [] { return concat({half(1), half(2), half(3)}); };
  const Tensor at =
      to(from_list<std::int64_t>({0, many / 2 - 1, many / 2, 2 * (many / 2), 3 * (many / 2) - 1}), test_device());
  const Integers wanted{1, 1, 2, 3, 3};
  CHECK(integers(gather(joined().eval(), at)) == wanted);
  CHECK(integers(gather(compile(joined)().eval(), at)) == wanted);

  const auto update = [](Tensor& x, const Tensor& part, const Index& start) { x = update_slice(x, part, 0, start); };
  const Tensor part = full({5}, 9, {.dtype = DType::u8, .device = test_device()});
  Tensor eager = half(1), compiled = eager * 1;
  eager = concat({eager, eager, half(0)}), compiled = eager * 1;
  update(eager, part, Index(border - 2));
  compile(update)(compiled, part, Index(border - 2));
  for (const Tensor& x : {eager, compiled}) {
    CHECK(integers(slice(x, 0, border - 4, border + 5)) == Integers{1, 1, 9, 9, 9, 9, 9, 1, 1});
    check_sum([](const Tensor& x) { return sum(x == 9); }, {5}, x);
  }
}

TEST_CASE("large: matrices are transposed, and their rows and columns summed") {
  constexpr std::int64_t rows = (1 << 16) + 3, columns = (1 << 15) + 5;
  const auto matrix = [] {
    const Tensor i = reshape(arange(rows, {.device = test_device()}), {rows, 1}),
                 j = arange(columns, {.device = test_device()});
    return cast(remainder(i * 7 + j * 5, period), DType::u8);
  };
  const Tensor x = compile(matrix)().eval();
  const auto element = [](std::int64_t i, std::int64_t j) { return (i * 7 + j * 5) % period; };
  const Tensor corners = to(from_list<std::int64_t>({0, (columns - 1) * rows, columns * rows - 1}), test_device());
  check([](const Tensor& x, const Tensor& at) { return gather(reshape(transpose(x), {columns * rows}), at); },
        {element(0, 0), element(0, columns - 1), element(rows - 1, columns - 1)}, x, corners);
  // As memory of its own: the compiled function returns the whole.
  const Tensor turned = compile([](const Tensor& x) { return transpose(x) + 0; })(x).eval();
  CHECK(integers(gather(reshape(turned, {columns * rows}), corners)) ==
        Integers{element(0, 0), element(0, columns - 1), element(rows - 1, columns - 1)});
  const auto row = [&](std::int64_t i) {
    std::int64_t sum = 0;
    for (std::int64_t j = 0; j < columns; ++j) sum += element(i, j);
    return sum;
  };
  const auto column = [&](std::int64_t j) {
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i < rows; ++i) sum += element(i, j);
    return sum;
  };
  check_sum([](const Tensor& x) { return slice(sum(x, 1), 0, rows - 2); }, {row(rows - 2), row(rows - 1)}, x);
  check_sum([](const Tensor& x) { return slice(sum(x, 0), 0, columns - 2); },
            {column(columns - 2), column(columns - 1)}, x);
}

TEST_CASE("large: rows of a table are read, and its gradient and its updates written") {
  constexpr std::int64_t rows = (1 << 21) + 5, width = 1024;
  const Options options{.dtype = DType::bf16, .device = test_device()};
  const Tensor index = to(from_list<std::int64_t>({0, rows - 1, (1 << 21), rows - 1}), test_device());
  static constexpr auto look = [](const Tensor& table, const Tensor& index) {
    return sum(cast(gather(table, index), DType::f32), 1);
  };
  {
    const Tensor table = concat({zeros({1 << 21, width}, options), ones({5, width}, options)}).eval();
    CHECK(integers(look(table, index)) == Integers{0, width, width, width});
    CHECK(integers(compile(look)(table, index)) == Integers{0, width, width, width});
  }
  const auto step = [](Tensor& table, const Tensor& index) {
    const auto [loss, slope] = value_and_grad([&](const Tensor& t) { return sum(look(t, index)); }, table);
    table = table - slope;
    return loss;
  };
  Tensor table = zeros({rows, width}, options);
  CHECK(integers(compile(step)(table, index)) == Integers{0});
  CHECK(integers(look(table, index)) == Integers{-width, -2 * width, -width, -2 * width});
  check_sum([](const Tensor& x) { return sum(x != 0); }, {3 * width}, table);
}

TEST_CASE("large: products and rows that are normed") {
  constexpr std::int64_t rows = (1 << 21) + 5, width = 1024;
  const auto rows_of = [] {
    const Tensor i = reshape(arange(rows, {.device = test_device()}), {rows, 1});
    return cast(expand(remainder(i, 7), {rows, width}), DType::bf16);
  };
  const Tensor x = compile(rows_of)().eval();
  const Tensor w = full({width, 8}, 0.25, {.dtype = DType::bf16, .device = test_device()});
  const auto product = [](const Tensor& x, const Tensor& w) { return slice(slice(matmul(x, w), 0, rows - 3), 1, 7); };
  Integers wanted;
  for (std::int64_t i = rows - 3; i < rows; ++i) wanted.push_back(i % 7 * 256);
  CHECK(integers(product(x, w)) == wanted);
  CHECK(integers(compile(product)(x, w)) == wanted);
  // Of equal elements each is 1/1024 of the whole.
  check([](const Tensor& x) { return reshape(slice(slice(softmax(x, -1) * 1024, 0, rows - 2), 1, width - 2), {4}); },
        {1, 1, 1, 1}, x);
}

TEST_CASE("large: draws beyond the border are draws of their own") {
  const auto draw = [](Generator& generator) {
    return cast(uniform({many}, 0, 1, generator, {.device = test_device()}) < 0.25, DType::u8);
  };
  Generator generator(5);
  const Tensor x = compile(draw)(generator).eval();
  const std::int64_t ones = integers(compile([](const Tensor& x) { return sum(x); })(x))[0];
  CHECK(std::abs(static_cast<double>(ones) / many - 0.25) < 1e-4);
  const Integers first = integers(slice(x, 0, 0, 4000)), last = integers(slice(x, 0, border, border + 4000));
  CHECK(first != last);
}
