// Rows of a table that is state: written where the table lies, at the cost of the rows; and what several updates of one
// row give.
#include <cmath>

#include "tests/trace/support.hpp"
#include "weft/grad.hpp"
#include "weft/random.hpp"

using namespace weft;
using namespace trace_test;

namespace {
Tensor vector(std::vector<std::int64_t> numbers) {
  return constant(numbers, {static_cast<std::int64_t>(numbers.size())});
}
// Ones, each in memory of its own.
Tensor written(Sizes sizes) { return exp(zeros(sizes)).eval(); }
const void* place_of(const Tensor& x) { return x.data<float>().data(); }

struct Table {
  Tensor rows;
};
// What compiled(table, index, updates) makes of a table of zeros: in its place, without another one, as eagerly.
template <class F>
void check_in_place(F f, const Sizes& sizes, const Tensor& index, const Tensor& updates) {
  auto compiled = compile(f);
  Table table{zeros(sizes).eval()}, plain{zeros(sizes)};
  const void* place = nullptr;
  for (int i = 0; i < 3; ++i) {
    compiled(table, index, updates);
    f(plain, index, updates);
    if (i == 0) place = place_of(table.rows);  // the first call, which compiles, holds its arguments
    CHECK(place_of(table.rows) == place);
  }
  CHECK(max(abs(table.rows - plain.rows)).item() == 0);
  CHECK(sum(abs(plain.rows)).item() > 0);
  CHECK(explain(compiled, table, index, updates).arena_bytes < 1 << 18);  // the tables have a MB at least
}
}  // namespace

TEST_CASE("rows of a table that is state are updated where it lies") {
  const Tensor index = vector({7, 3, 7, 1000}), updates = arange(4 * 64, {DType::f32}) + 1;
  const Sizes sizes{4096, 64};
  const Tensor rows = reshape(updates, {4, 64});
  check_in_place([](Table& t, const Tensor& at, const Tensor& u) { t.rows = index_add(t.rows, 0, at, u); }, sizes,
                 index, rows);
  check_in_place([](Table& t, const Tensor& at, const Tensor& u) { t.rows = set_rows(t.rows, at, u); }, sizes, index,
                 rows);
  check_in_place([](Table& t, const Tensor& at, const Tensor& u) { t.rows = index_put(t.rows, {at}, u); }, sizes, index,
                 rows);
  check_in_place([](Table& t, const Tensor& at, const Tensor& u) { t.rows = index_put(t.rows, {at}, u, true); }, sizes,
                 index, rows);
  check_in_place(
      [](Table& t, const Tensor& at, const Tensor& u) {
        t.rows = index_put(t.rows, {at, at % 64}, u);
      },
      sizes, index, slice(updates, 0, 0, 4));
  check_in_place([](Table& t, const Tensor& at, const Tensor&) { t.rows = index_fill(t.rows, 0, at, 2.5); }, sizes,
                 index, rows);
  check_in_place([](Table& t, const Tensor& at, const Tensor& u) { t.rows = index_copy(t.rows, 0, at, u); }, sizes,
                 index, rows);
  check_in_place([](Table& t, const Tensor& at, const Tensor& u) { t.rows = scatter(t.rows, 0, unsqueeze(at, 1), u); },
                 sizes, index, reshape(slice(updates, 0, 0, 4), {4, 1}));
  check_in_place(
      [](Table& t, const Tensor& at, const Tensor& u) {
        t.rows = scatter_add(t.rows, 0, expand(unsqueeze(at, 1), {4, 64}), u);
      },
      sizes, index, rows);
  check_in_place(
      [](Table& t, const Tensor& at, const Tensor& u) {
        t.rows = scatter_reduce(t.rows, 0, unsqueeze(at, 1), u, ScatterReduction::sum);
      },
      sizes, index, reshape(slice(updates, 0, 0, 4), {4, 1}));
  // Several updates, one after the other, of which the first is read between them.
  check_in_place(
      [](Table& t, const Tensor& at, const Tensor& u) {
        t.rows = set_rows(index_add(t.rows, 0, at, u), at + 1, u * 2);
        t.rows = index_add(t.rows, 0, at, gather(t.rows, at + 1));
      },
      sizes, index, rows);
  check_in_place([](Table& t, const Tensor&,
                    const Tensor& u) { t.rows = update_slice(update_slice(t.rows, u, 0, 3), u * 2, 0, 5); },
                 sizes, index, rows);
  // Along a middle axis, as a cache of keys that is written at several positions.
  check_in_place([](Table& t, const Tensor& at, const Tensor& u) { t.rows = index_copy(t.rows, 1, at, u); },
                 {2, 2048, 64}, index, reshape(arange(2 * 4 * 64, {DType::f32}), {2, 4, 64}));
  check_in_place([](Table& t, const Tensor& at, const Tensor& u) { t.rows = index_add(t.rows, 1, at, u); },
                 {2, 2048, 64}, index, reshape(arange(2 * 4 * 64, {DType::f32}), {2, 4, 64}));
}

TEST_CASE("a gather of the rows before their update reads them as they were") {
  auto step = compile([](Table& t, const Tensor& at) {
    const Tensor rows = gather(t.rows, at);
    t.rows = index_add(t.rows, 0, at, rows * 2);
    return sum(rows);
  });
  Table table{ones({1 << 14, 16}).eval()};
  step(table, vector({4}));
  const void* const place = place_of(table.rows);
  CHECK(step(table, vector({5, 9, 5})).item() == 48);
  CHECK(place_of(table.rows) == place);
  CHECK(table.rows[5][3].item() == 5);
  CHECK(table.rows[9][3].item() == 3);
  CHECK(table.rows[4][3].item() == 3);
  CHECK(table.rows[6][3].item() == 1);
}

TEST_CASE("compiled updates leave what is read after them, what is returned, and what others hold") {
  struct Two {
    Tensor a, b;
  };
  const Tensor at = vector({1, 3, 1}), u = ones({3, 2});
  const auto check = [&](auto f, const std::vector<double>& sums) {
    auto compiled = compile(f);
    for (int i = 0; i < 3; ++i) {
      Two tables{written({5, 2}), written({5, 2})};
      const Tensor before = i == 1 ? tables.a : Tensor();  // held by somebody else
      if (i == 2) tables.b = tables.a;                     // one table, two places
      const std::vector<Tensor> results = compiled(tables, at, u);
      std::vector<double> found;
      for (const Tensor& each : results) found.push_back(sum(each).item());
      found.push_back(sum(tables.a).item());
      found.push_back(sum(tables.b).item());
      CHECK(found == sums);
      if (before.defined()) CHECK(sum(abs(before - 1)).item() == 0);
    }
  };
  using Results = std::vector<Tensor>;
  check(  // the old table is read after the update, and returned
      [](Two& t, const Tensor& at, const Tensor& u) {
        const Tensor old = t.a;
        t.a = index_add(t.a, 0, at, u);
        return Results{gather(old, at) + gather(t.a, at), old};
      },
      {6 + 16, 10, 16, 10});
  check(  // two updates of one table
      [](Two& t, const Tensor& at, const Tensor& u) {
        const Tensor old = t.a;
        t.a = index_add(old, 0, at, u);
        t.b = set_rows(old, at, 3);
        return Results{};
      },
      {16, 18});
  check(  // what is between two updates is returned, or is the other state
      [](Two& t, const Tensor& at, const Tensor& u) {
        const Tensor between = index_add(t.a, 0, at, u);
        t.a = set_rows(between, at, 0);
        return Results{between};
      },
      {16, 6, 10});
  check(
      [](Two& t, const Tensor& at, const Tensor& u) {
        t.b = index_add(t.a, 0, at, u);
        t.a = index_add(t.b, 0, at, u);
        return Results{};
      },
      {22, 16});
  check(  // a table that is the rows of its own update; places swapped
      [](Two& t, const Tensor& at, const Tensor&) {
        t.a = index_add(t.a, 0, concat({at, at}, 0), concat({t.a, slice(t.a, 0, 0, 1)}, 0));
        std::swap(t.a, t.b);
        return Results{};
      },
      {10, 22});
}

TEST_CASE("an index out of range leaves the state as it was") {
  auto step = compile([](Table& t, const Tensor& at) {
    t.rows = index_add(t.rows, 0, at, ones({at.size(0), 4}));
    t.rows = t.rows + 0.0;
  });
  auto put = compile([](Table& t, const Tensor& at) { t.rows = set_rows(t.rows, at, 1); });
  Table table{zeros({100, 4}).eval()};
  for (const std::int64_t bad : {100, -1}) {
    CHECK(contains(message_of([&] {
                     step(table, vector({1, bad}));
                   }),
                   "[index_add] an index is out of range [0, 100)"));
    CHECK(max(abs(table.rows)).item() == 0);
  }
  for (const std::int64_t bad : {100, -101}) {
    CHECK(contains(message_of([&] {
                     put(table, vector({1, bad}));
                   }),
                   "[set_rows] an index is out of range [-100, 100)"));
    CHECK(max(abs(table.rows)).item() == 0);
  }
}

TEST_CASE("outside a compiled function a table that nobody else has is updated where it lies") {
  const Tensor at = vector({7, 3, 7, 1000}), u = ones({4, 64}).eval();
  const auto check = [&](auto update) {
    Tensor table = update(zeros({4096, 64})).eval();  // zeros are one element of memory
    const void* const place = place_of(table);
    for (int i = 0; i < 2; ++i) {
      table = update(table);
      CHECK(place_of(table) == place);
    }
    return sum(table).item();
  };
  CHECK(check([&](const Tensor& x) { return index_add(x, 0, at, u); }) == 3 * 4 * 64);
  CHECK(check([&](const Tensor& x) { return set_rows(x, at, u); }) == 3 * 64);
  CHECK(check([&](const Tensor& x) { return index_put(x, {at}, u, true); }) == 3 * 4 * 64);
  CHECK(check([&](const Tensor& x) { return update_slice(x, u, 0, 9); }) == 4 * 64);
  // Two updates of one table, of which the first is pending when the second is recorded.
  CHECK(check([&](const Tensor& x) { return set_rows(index_add(x, 0, at, u), vector({7}), 5); }) == (5 + 3 + 3) * 64);
}

TEST_CASE("outside a compiled function an update leaves what somebody else reads as it was") {
  const Tensor at = vector({1, 3, 1}), u = ones({3, 2}).eval();
  const auto is_kept = [&](auto hold) {
    Tensor table = written({5, 2});
    auto held = hold(table);
    table = index_add(table, 0, at, u);
    CHECK(numbers_of(table) == std::vector<float>{1, 1, 3, 3, 1, 1, 2, 2, 1, 1});
    return held;
  };
  const std::vector<float> before(10, 1);
  CHECK(numbers_of(is_kept([](const Tensor& x) { return x; })) == before);
  CHECK(numbers_of(is_kept([](const Tensor& x) { return reshape(x, {10}).eval(); })) == before);
  CHECK(numbers_of(is_kept([](const Tensor& x) { return slice(x, 0, 1, 3).eval(); })) == std::vector<float>(4, 1));
  CHECK(numbers_of(is_kept([](const Tensor& x) { return transpose(x); })) == before);  // read after the update
  CHECK(numbers_of(is_kept([](const Tensor& x) { return x * 3; })) == std::vector<float>(10, 3));
  const auto view = is_kept([](const Tensor& x) { return x.data<float>(); });
  CHECK(std::vector<float>(view.begin(), view.end()) == before);

  // The table is an operand twice; two updates of one table; an expanded value, which has one element of memory.
  Tensor own = written({3, 2});
  own = index_add(own, 0, vector({2, 1, 2}), own);
  CHECK(numbers_of(own) == std::vector<float>{1, 1, 2, 2, 3, 3});
  Tensor table = written({5, 2});
  const Tensor left = index_add(table, 0, at, u), right = set_rows(table, at, 7);
  table = {};
  CHECK(numbers_of(left) == std::vector<float>{1, 1, 3, 3, 1, 1, 2, 2, 1, 1});
  CHECK(numbers_of(right) == std::vector<float>{1, 1, 7, 7, 1, 1, 7, 7, 1, 1});
  CHECK(numbers_of(set_rows(expand(ones({1, 2}), {4, 2}), vector({2}), 3)) ==
        std::vector<float>{1, 1, 1, 1, 3, 3, 1, 1});
  // Foreign memory is never written.
  const std::vector<float> foreign(10, 1);
  Tensor copied = from_span(std::span<const float>(foreign), {5, 2});
  copied = index_add(copied, 0, at, u).eval();
  CHECK(foreign == before);
}

TEST_CASE("values that are read after their update, or are results, stay as they were in every way to run a function") {
  const auto f = [](const Tensor& x, const Tensor& at, const Tensor& u) {
    const Tensor y = sin(x), first = index_add(y, 0, at, u), second = set_rows(y, at, 1);
    const Tensor twice = index_add(index_add(first * 2, 0, at, u), 0, at + 1, u), row = slice(y * 3, 0, 1, 2);
    return std::vector{first, second, twice, index_add(row, 0, at * 0, u), index_add(expand(row, {5, 2}), 0, at, u), y};
  };
  const Tensor x = reshape(arange(10, {DType::f32}), {5, 2}), at = vector({1, 3, 1}), u = ones({3, 2});
  const std::vector<float> wave = numbers_of(sin(x));
  for (const std::vector<Tensor>& way : every_way(f, x, at, u)) {
    std::vector<float> first = wave, second = wave;
    for (const std::size_t row : {1, 3})
      for (std::size_t j = 0; j < 2; ++j) {
        first[2 * row + j] += row == 1 ? 2.f : 1.f;
        second[2 * row + j] = 1;
      }
    CHECK(max(abs(way[0] - from_span(std::span<const float>(first), {5, 2}))).item() < 1e-6);
    CHECK(max(abs(way[1] - from_span(std::span<const float>(second), {5, 2}))).item() < 1e-6);
    CHECK(max(abs(way[5] - from_span(std::span<const float>(wave), {5, 2}))).item() < 1e-6);
    CHECK(max(abs(way[2] - way[0] * 2 - index_add(index_add(zeros({5, 2}), 0, at, u), 0, at + 1, u))).item() < 1e-6);
    CHECK(max(abs(way[3] - slice(way[5], 0, 1, 2) * 3 - 3)).item() < 1e-6);
    CHECK(max(abs(way[4] - slice(way[5], 0, 1, 2) * 3 - index_add(zeros({5, 2}), 0, at, u))).item() < 1e-6);
  }
}

TEST_CASE("outside a compiled function a gradient sees the table as it was, and a wrong index changes nothing") {
  const Tensor at = vector({1, 3, 1});
  const Tensor dx = grad(
      [&](const Tensor& x) {
        Tensor table = sin(x).eval();
        const Tensor squares = square(table);  // its derivative reads the table
        table = index_add(table, 0, at, ones({3, 2})).eval();
        return sum(squares) + sum(table);
      },
      full({5, 2}, 0.5));
  const double expected = (2 * std::sin(0.5) + 1) * std::cos(0.5);
  for (const float each : numbers_of(dx)) CHECK(each == doctest::Approx(expected));

  Tensor table = written({5, 2});
  const Tensor late = where(vector({1}) > 0, vector({5}), 0);
  CHECK_THROWS_AS((table = index_add(table, 0, late, ones({1, 2}))).eval(), Error);
  CHECK(sum(abs(table - 1)).item() == 0);
}

TEST_CASE("an index that an update decides, and that is wrong, leaves the state as it was before the update") {
  auto step = compile([](Table& t, const Tensor& at, const Tensor& u) {
    t.rows = index_add(t.rows, 0, at, u);
    const Tensor found = cast(slice(gather(t.rows, at), 1, 0, 1), DType::i64);  // after the update: 1 + the last of u
    t.rows = set_rows(t.rows, flatten(found), 7);
  });
  const Tensor at = vector({1, 3});
  for (const float to : {1.f, 98.f, 99.f, 1.f}) {
    Table table{written({100, 4})};
    const Tensor u = full({2, 4}, to).eval();
    if (to > 98) {
      CHECK(contains(message_of([&] { step(table, at, u); }), "[set_rows] an index is out of range [-100, 100)"));
      CHECK(sum(abs(table.rows - 1)).item() == 0);
    } else {
      step(table, at, u);
      CHECK(numbers_of(table.rows[static_cast<std::int64_t>(to) + 1]) == std::vector<float>(4, 7));
    }
  }
}

TEST_CASE("updates that meet are added to the row in their order; what has none keeps its bits") {
  const auto f = [](const Tensor& x, const Tensor& big) {
    const Tensor at = vector({1, 0, 1, 1});
    const Tensor u = constant(std::vector<float>{1e8f, 1, 1, 2}, {4});
    const Tensor half = cast(u * 0 + 0.75, DType::bf16), row = cast(big, DType::bf16);
    return Answers{
        {index_add(x, 0, at, u), "1 3 -0"},  // (-1e8 + 1e8) + 1 + 2: if the updates met first, this would be 0
        {index_add(row, 0, at, half), "256 258 256"},  // 256 + 3 * 0.75, rounded once; one by one they would vanish
        {index_add(cast(row, DType::f16) * 8, 0, at, cast(half, DType::f16)), "2048 2050 2048"},
        {index_add(cast(big - 156, DType::i8), 0, at, cast(u * 0 + 20, DType::i8)), "120 -96 100"},
        {index_add(cast(big, DType::u32), 0, at, cast(u * 0 + 3, DType::u32)), "259 265 256"},
        {index_add(cast(big, DType::f64), 0, vector({2, 2}), cast(slice(u, 0, 1, 3), DType::f64)), "256 256 258"},
        {index_add(x > 0, 0, at, u > 0), "1 1 0"},
        {set_rows(x, at, u), "1 2 -0"}};
  };
  check_every_way(f, vector_of({0, -1e8f, -0.0f}), full({3}, 256));
}

TEST_CASE("many updates of narrow and of wide rows: compiled, eager, whatever the number of threads") {
  const auto f = [](const Tensor& x, const Tensor& at, const Tensor& u) {
    return std::vector{index_add(x, 0, at, u), index_copy(x, 0, at, u),
                       cast(index_add(cast(x, DType::bf16), 0, at, cast(u, DType::bf16)), DType::f32)};
  };
  Generator generator(3);
  for (const std::int64_t width : {1, 3, 64, 1000}) {
    CAPTURE(width);
    const std::int64_t rows = 300, count = 200000 / width;
    const Tensor x = normal({rows, width}, 0, 1, generator).eval(), u = normal({count, width}, 0, 1, generator).eval(),
                 at = randint({count}, 0, rows, generator).eval();
    std::vector<float> sums = numbers_of(x), last = sums;
    const std::vector<float> given = numbers_of(u);
    const auto index = at.data<std::int64_t>();
    for (std::int64_t i = 0; i < count; ++i)
      for (std::int64_t j = 0; j < width; ++j) {
        const auto place = static_cast<std::size_t>(index[static_cast<std::size_t>(i)] * width + j);
        sums[place] += given[static_cast<std::size_t>(i * width + j)];
        last[place] = given[static_cast<std::size_t>(i * width + j)];
      }
    const std::vector<Tensor> plain = f(x, at, u), compiled = compile(f)(x, at, u);
    for (const std::vector<Tensor>& way : {plain, compiled}) {
      CHECK(numbers_of(way[0]) == sums);
      CHECK(numbers_of(way[1]) == last);
    }
    CHECK(numbers_of(plain[2]) == numbers_of(compiled[2]));
  }
}

TEST_CASE("an index that is repeated along the other axes is read as a vector: the same values and gradients") {
  const auto f = [](const Tensor& x, const Tensor& at, const Tensor& u) {
    const Tensor wide = expand(unsqueeze(at, 1), {5, 4}), copied = wide + 0, tall = expand(at, {4, 5});
    const auto all = [&](const Tensor& index, const Tensor& across) {
      const auto loss = [&](const std::pair<Tensor, Tensor>& in) {
        const auto& [x, u] = in;
        return sum(square(scatter_reduce(x, 0, index, u, ScatterReduction::amax))) +
               sum(scatter_reduce(x, 0, index, u, ScatterReduction::mean, false) * x) +
               sum(sin(scatter(x, 0, index, u))) + sum(square(scatter_add(x, 0, index, u))) +
               sum(cos(gather(x, 0, index)) * u) + sum(exp(gather(x, 1, across % 4))) +
               sum(square(scatter(transpose(x), 1, across, transpose(u))));
      };
      auto [dx, du] = grad(loss, std::pair{x, u});
      return std::vector{loss({x, u}), dx, du};
    };
    std::vector<Tensor> results = all(wide, tall);
    for (const Tensor& each : all(copied, tall + 0)) results.push_back(each);
    return results;
  };
  Generator generator(5);
  const Tensor x = normal({4, 4}, 0, 1, generator), u = normal({5, 4}, 0, 1, generator), at = vector({2, 0, 2, 3, 2});
  for (const std::vector<Tensor>& way : every_way(f, x, at, u))
    for (std::size_t i = 0; i < 3; ++i) CHECK(max(abs(way[i] - way[i + 3])).item() <= 1e-5);
}

TEST_CASE("no index is written for rows that are repeated: the memory of a compiled call is that of the vector") {
  auto f = compile([](const Tensor& x, const Tensor& at, const Tensor& u) {
    return scatter_reduce(x, 0, expand(unsqueeze(at, 1), {1 << 14, 64}), u, ScatterReduction::amax);
  });
  const Tensor x = zeros({100, 64}), at = remainder(arange(1 << 14), 100), u = ones({1 << 14, 64});
  CHECK(explain(f, x, at, u).arena_bytes < 1 << 20);  // as i64 the index has 8 MB
}
