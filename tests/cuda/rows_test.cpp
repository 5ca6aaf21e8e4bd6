// Rows of a table that is state, on a CUDA device: what the host gives to the bit, in each of several replays.
#include <doctest/doctest.h>

#include "tests/cuda/support.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

struct Table {
  Tensor rows, flat;
  WEFT_MEMBERS(rows, flat)
};
Tensor table_of(DType dtype, const Sizes& sizes, std::uint64_t seed) {
  const Tensor x = sample(sizes, seed);
  return dtype == DType::boolean ? (x > 0.5).eval() : cast(is_floating(dtype) ? x : round(x * 20), dtype).eval();
}

template <class F>
void check_as_on_host(F step, DType dtype, std::int64_t rows, std::int64_t width, std::int64_t count) {
  Table here{table_of(dtype, {rows, width}, 1), table_of(dtype, {rows * width}, 2)};
  Table there{to(here.rows, Device::cuda()), to(here.flat, Device::cuda())};
  auto compiled = compile(step);
  for (int call = 0; call < 4; ++call) {
    const Tensor index = remainder(arange(count) * (7 + call) * (arange(count) + call), rows).eval();
    const Tensor updates = table_of(dtype, {count, width}, 3 + static_cast<std::uint64_t>(call));
    step(here, index, updates);
    compiled(there, to(index, Device::cuda()), to(updates, Device::cuda()));
    CAPTURE(info(dtype).name);
    CAPTURE(width);
    CAPTURE(call);
    CHECK(all(to(there.rows, Device::cpu()) == here.rows).item<bool>());
    CHECK(all(to(there.flat, Device::cpu()) == here.flat).item<bool>());
  }
}

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("cuda: rows are replaced where the table lies; of several for one row the last is kept") {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::i64, DType::u8, DType::boolean})
    for (const std::int64_t width : {1, 3, 64})
      check_as_on_host(
          [](Table& t, const Tensor& index, const Tensor& updates) {
            t.rows = set_rows(t.rows, index, updates);
            t.flat = index_put(t.flat, {index}, reshape(slice(updates, 1, 0, 1), {index.size(0)}));
          },
          dtype, 1000, width, 3000);
}

TEST_CASE("cuda: rows are added where the table lies, in the order of the updates") {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i32, DType::i8, DType::boolean})
    for (const std::int64_t width : {1, 3, 64})
      check_as_on_host(
          [](Table& t, const Tensor& index, const Tensor& updates) {
            t.rows = index_add(t.rows, 0, index, updates);
            t.flat = index_add(t.flat, 0, index + 3, reshape(slice(updates, 1, 0, 1), {index.size(0)}));
          },
          dtype, 1000, width, 3000);
}

TEST_CASE("cuda: columns of a table, and no row at all") {
  check_as_on_host(
      [](Table& t, const Tensor& index, const Tensor& updates) {
        t.rows = index_add(t.rows, 1, remainder(index, 48), transpose(slice(updates, 1, 0, 1)) + zeros({48, 1}));
        t.rows = index_copy(t.rows, 1, slice(remainder(index, 48), 0, 0, 5), zeros({48, 5}));
      },
      DType::f32, 48, 48, 20);
  check_as_on_host(
      [](Table& t, const Tensor& index, const Tensor& updates) { t.rows = set_rows(t.rows, index, updates); },
      DType::f32, 48, 48, 0);
}

TEST_CASE("cuda: an index out of range is an error, and the table is what it was") {
  auto step = compile([](Table& t, const Tensor& index) { t.rows = index_add(t.rows, 0, index, ones({2, 4})); });
  Table there{to(zeros({100, 4}), Device::cuda()), to(zeros({1}), Device::cuda())};
  const auto at = [](std::int64_t last) {
    return to(constant(std::vector<std::int64_t>{1, last}, {2}), Device::cuda());
  };
  step(there, at(7));
  CHECK(sum(there.rows).item() == 8);
  for (const std::int64_t bad : {100, -1}) {
    CHECK_THROWS_AS((step(there, at(bad)), sum(there.rows).item()), Error);
    CHECK(sum(there.rows).item() == 8);
  }
}

TEST_CASE("cuda: two updates one after the other are written where the table lies, unless an index is wrong") {
  constexpr auto step = [](Table& t, const Tensor& index, const Tensor& updates) {
    t.rows = set_rows(index_add(t.rows, 0, index, updates), index + 1, updates * 2);
  };
  for (const DType dtype : {DType::f32, DType::bf16, DType::i32})
    check_as_on_host(
        [](Table& t, const Tensor& index, const Tensor& updates) {
          t.rows = set_rows(index_add(t.rows, 0, index, updates), remainder(index + 1, 1000), updates * 2);
        },
        dtype, 1000, 64, 3000);
  auto compiled = compile(step);
  Table table{to(ones({100, 64}), Device::cuda()), to(ones({1}), Device::cuda())};
  const auto run = [&](std::int64_t last) {
    compiled(table, to(from_list<std::int64_t>({1, last}), Device::cuda()), to(ones({2, 64}), Device::cuda()));
    return sum(table.rows).item();
  };
  for (int i = 0; i < 4; ++i) run(7);
  const double before = run(7);
  CHECK_THROWS_AS(run(99), Error);  // 100 is no row
  CHECK(sum(table.rows).item() == before);
}

namespace {
bool same_bits(const Tensor& there, const Tensor& here) {
  const auto bits = [](const Tensor& x) {
    const std::int64_t bytes = info(x.dtype()).bits / 8;
    if (!is_floating(x.dtype())) return x;
    return bitcast(x, bytes == 2 ? DType::i16 : bytes == 4 ? DType::i32 : DType::i64);
  };
  const Tensor found = to(there, Device::cpu());
  return found.shape() == here.shape() && found.dtype() == here.dtype() && all(bits(found) == bits(here)).item<bool>();
}
// Rows of any place; nine of ten in one row; all in the last row, as a padding index has them; each row once.
Tensor some_rows(int kind, std::int64_t count, std::int64_t rows) {
  Generator generator(static_cast<std::uint64_t>(kind) + 5);
  const Tensor any = randint({count}, 0, rows, generator);
  if (kind == 1) return where(randint({count}, 0, 10, generator) > 0, rows / 2, any).eval();
  if (kind == 2) return (any * 0 + (rows - 1)).eval();
  if (kind == 3) return remainder(arange(count) * 7919, rows).eval();
  return any.eval();
}
}  // namespace

TEST_CASE("cuda: many updates of tables of every width, some of one row, have the host's bits") {
  struct Sizes {
    std::int64_t rows, width, count;
  };
  constexpr auto add = [](const Tensor& x, const Tensor& index, const Tensor& u) { return index_add(x, 0, index, u); };
  constexpr auto put = [](const Tensor& x, const Tensor& index, const Tensor& u) { return set_rows(x, index, u); };
  auto compiled_add = compile(add);
  auto compiled_put = compile(put);
  for (const Sizes& it : {Sizes{50000, 1, 20000},
                          {70000, 2, 9000},
                          {7, 3, 4097},
                          {300, 64, 10000},
                          {40, 200, 4096},
                          {3, 1100, 700},
                          {100, 1, 63},
                          {100, 8, 64}})
    for (int kind = 0; kind < 4; ++kind)
      for (const DType dtype : {DType::f32, DType::bf16, DType::f64, DType::i64, DType::i32, DType::i16}) {
        if (dtype != DType::f32 && dtype != DType::bf16 && it.count < 4097) continue;
        CAPTURE(info(dtype).name);
        CAPTURE(it.rows);
        CAPTURE(it.width);
        CAPTURE(it.count);
        CAPTURE(kind);
        const Tensor x = table_of(dtype, {it.rows, it.width}, 1), u = table_of(dtype, {it.count, it.width}, 2),
                     index = some_rows(kind, it.count, it.rows);
        const Tensor a = to(x, Device::cuda()), b = to(u, Device::cuda()), at = to(index, Device::cuda());
        CHECK(same_bits(compiled_add(a, at, b), add(x, index, u)));
        CHECK(same_bits(compiled_put(a, at, b), put(x, index, u)));
      }
}

TEST_CASE("cuda: sums of updates from zeros, counts and weights, also where all meet in one place") {
  const auto check = [](auto f, const auto&... values) {
    auto compiled = compile(f);
    for (int call = 0; call < 2; ++call) CHECK(same_bits(compiled(to(values, Device::cuda())...), f(values...)));
  };
  const Tensor x = sample({100000}, 4), flat = (x * 0 + 0.25).eval(), edges = linspace(-2, 2, 301).eval();
  for (const Tensor& each : {x, flat}) {
    check([](const Tensor& x) { return histc(x, 10, -2, 2); }, each);
    check([](const Tensor& x) { return histc(x, 9000, -2, 2); }, each);
    check([](const Tensor& x, const Tensor& weight) { return histogram(x, 300, -2, 2, {.weight = weight}).counts; },
          each, sample({100000}, 5));
  }
  for (int kind = 0; kind < 4; ++kind) {
    const Tensor index = some_rows(kind, 30000, 5000);
    check([](const Tensor& index) { return bincount(index, 5000); }, index);
    check([](const Tensor& index) { return bincount(index, 6000); }, index);
    check(
        [](const Tensor& table, const Tensor& index) {
          return grad([&](const Tensor& t) { return sum(gather(t, index) * gather(t, index)); }, table);
        },
        sample({5000, 40}, 6), index);
  }
  check([](const Tensor& x, const Tensor& index, const Tensor& u) { return scatter_add(x, 1, index, u); },
        sample({50, 300}, 7), reshape(remainder(arange(50 * 200) * 31, 300), {50, 200}).eval(), sample({50, 200}, 8));
  CHECK(same_bits(bincount(to(zeros({0}, {DType::i64}), Device::cuda()), 7), zeros({7}, {DType::i64})));
}

TEST_CASE("cuda: a row that is none among many updates is an error, and no other row is lost") {
  auto step = compile([](Table& t, const Tensor& index, const Tensor& u) { t.rows = index_add(t.rows, 0, index, u); });
  Table there{to(ones({1000, 5}), Device::cuda()), to(zeros({1}), Device::cuda())};
  const Tensor good = some_rows(0, 9000, 1000), u = to(ones({9000, 5}), Device::cuda());
  const auto run = [&](const Tensor& index) {
    step(there, to(index, Device::cuda()), u);
    return sum(there.rows).item();
  };
  CHECK(run(good) == 50000);
  for (const std::int64_t bad : {1000, -1}) CHECK_THROWS_AS(run(where(arange(9000) == 4321, bad, good).eval()), Error);
  CHECK(sum(there.rows).item() == 50000);
}

TEST_CASE("cuda: the gradient of an embedding stays rows up to SGD and Adam") {
  const auto check = [](auto make) {
    nn::Embedding here(1000, 64, {.sparse = true}), there = here;
    there.weight = to(here.weight, Device::cuda());
    auto one = make(here), other = make(there);
    const auto step = [](nn::Embedding& table, decltype(one)& optimizer, const Tensor& index) {
      optimizer.update(table, grad([&](const nn::Embedding& m) { return sum(sin(m(index))); }, table));
    };
    auto compiled = compile(step);
    for (int call = 0; call < 4; ++call) {
      const Tensor index = remainder(arange(300) * (7 + call), 331).eval();
      step(here, one, index);
      compiled(there, other, to(index, Device::cuda()));
      CAPTURE(call);
      CHECK(max(abs(to(there.weight, Device::cpu()) - here.weight)).item() < 1e-4);
    }
  };
  check([](const auto& m) { return optim::SGD(m, {.lr = 0.1}); });
  check([](const auto& m) { return optim::Adam(m, {.lr = 0.1}); });
}

TEST_SUITE_END();
