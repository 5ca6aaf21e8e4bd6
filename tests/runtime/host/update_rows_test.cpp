// Updates of rows against a loop that joins them one after the other: every way of sharing them among threads, all
// dtypes, with 1, 2 and 4 threads. Which way is chosen for which sizes.
#include "runtime/host/update_rows.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "base/options.hpp"
#include "ir/table.hpp"
#include "runtime/host/scatter.hpp"
#include "tests/runtime/support.hpp"

using namespace weft;
using namespace weft::runtime;

namespace {

using Int = std::int64_t;

// Where updates fall.
enum class Places { anywhere, mostly_one, some_outside };
std::vector<Int> index_of(Int count, Int rows, Places places = Places::anywhere) {
  std::mt19937_64 random(3);
  std::vector<Int> index(static_cast<std::size_t>(count));
  for (Int& row : index) {
    row = static_cast<Int>(random() % static_cast<std::uint64_t>(rows));
    if (places == Places::mostly_one && random() % 16 != 0) row = rows / 2;
    if (places == Places::some_outside && random() % 16 == 0) row = random() % 2 == 0 ? -1 - row : rows + row;
  }
  return index;
}

RowSplit split_of(const RowSizes& sizes, bool any_order, Int threads, Places places = Places::anywhere) {
  const std::vector<Int> index = index_of(sizes.count, sizes.rows, places);
  return row_parts(sizes, 4, any_order, index, threads).split;
}

template <class T, class Sum>
T joined(RowJoin join, T before, const std::vector<T>& updates) {
  if (join == RowJoin::replace) return updates.back();
  Sum sum = static_cast<Sum>(before);
  for (const T update : updates)
    sum = join == RowJoin::greatest ? std::max(sum, static_cast<Sum>(update)) : sum + static_cast<Sum>(update);
  if constexpr (std::is_arithmetic_v<T>)
    return static_cast<T>(sum);
  else
    return T(double{sum});
}

// std::vector<bool> has no elements in memory.
template <class T>
struct Elements {
  std::vector<std::byte> bytes;
  explicit Elements(Int size) : bytes(static_cast<std::size_t>(size) * sizeof(T)) {}
  T* data() { return reinterpret_cast<T*>(bytes.data()); }
};

// Sum: in which the updates of an element are added up.
template <class T, class Sum>
void check(RowJoin join, DType dtype, const RowSizes& sizes, Places places) {
  const auto [outer, rows, inner, count] = sizes;
  const std::vector<Int> index = index_of(count, rows, places);
  std::mt19937_64 random(5);
  const auto draw = [&] {
    if constexpr (std::is_same_v<T, bool>)
      return random() % 2 == 0;
    else if constexpr (std::is_integral_v<T>)
      return static_cast<T>(random());
    else
      return T(static_cast<double>(random() % 20001) / 7 - 1400);
  };
  Elements<T> updates(outer * count * inner), table(outer * rows * inner), expected(outer * rows * inner);
  for (Int i = 0; i < outer * count * inner; ++i) updates.data()[i] = draw();
  for (Int i = 0; i < outer * rows * inner; ++i) expected.data()[i] = draw();
  const Elements<T> before = expected;
  std::vector<std::vector<Int>> of_row(static_cast<std::size_t>(rows));
  for (Int i = 0; i < count; ++i)
    if (index[i] >= 0 && index[i] < rows) of_row[static_cast<std::size_t>(index[i])].push_back(i);
  std::vector<T> met;
  for (Int at = 0; at < outer; ++at)
    for (Int row = 0; row < rows; ++row)
      for (Int column = 0; column < inner && !of_row[row].empty(); ++column) {
        T& element = expected.data()[(at * rows + row) * inner + column];
        met.clear();
        for (const Int i : of_row[row]) met.push_back(updates.data()[(at * count + i) * inner + column]);
        element = joined<T, Sum>(join, element, met);
      }
  for (const int threads : {1, 2, 4}) {
    const test::KeepOptions keep;
    options().num_threads = threads;
    table = before;
    std::vector<std::byte> workspace(update_rows_workspace(join, dtype, sizes));
    update_rows(join, dtype, sizes, updates.data(), index.data(), table.data(), workspace);
    INFO(info(dtype).name, " [", outer, ",", rows, ",", inner, "], ", count, " updates, ", threads, " threads");
    CHECK(std::memcmp(table.bytes.data(), expected.bytes.data(), table.bytes.size()) == 0);
  }
}

constexpr RowSizes all_sizes[] = {
    {1, 10, 1, 200000},   {1, 1000, 1, 200000}, {1, 100000, 1, 100000}, {1, 1000, 1, 50},
    {1, 700, 3, 30000},   {1, 300, 48, 6000},   {1, 300, 64, 5000},     {1, 40, 4096, 70},
    {1, 5000, 64, 2000},  {6, 500, 1, 20000},   {3, 500, 5, 10000},     {5, 60, 33, 1500},
    {1, 200000, 1, 3000}, {1, 100000, 2, 4001}, {1, 1, 1, 100000},      {2, 300000, 1, 5000},
};

template <class T, class Sum>
void check_sizes(RowJoin join, DType dtype) {
  for (const RowSizes& sizes : all_sizes)
    for (const Places places : {Places::anywhere, Places::mostly_one, Places::some_outside})
      check<T, Sum>(join, dtype, sizes, places);
}

}  // namespace

TEST_CASE("updates of rows are added in their order, with any number of threads") {
  check_sizes<float, float>(RowJoin::add, DType::f32);
  check_sizes<double, double>(RowJoin::add, DType::f64);
  check_sizes<float16, float>(RowJoin::add, DType::f16);
  check_sizes<bfloat16, float>(RowJoin::add, DType::bf16);
}

TEST_CASE("updates of rows of integers wrap, and sums of bools are true where one of them is") {
  check_sizes<std::int64_t, std::uint64_t>(RowJoin::add, DType::i64);
  check_sizes<std::int32_t, std::uint32_t>(RowJoin::add, DType::i32);
  check_sizes<std::uint16_t, std::uint32_t>(RowJoin::add, DType::u16);
  check_sizes<std::uint8_t, std::uint32_t>(RowJoin::add, DType::u8);
  check_sizes<bool, int>(RowJoin::add, DType::boolean);
}

TEST_CASE("the last of the updates of a row replaces it, and the greatest stays") {
  check_sizes<float, float>(RowJoin::replace, DType::f32);
  check_sizes<bfloat16, float>(RowJoin::replace, DType::bf16);
  check_sizes<std::int64_t, std::int64_t>(RowJoin::replace, DType::i64);
  check_sizes<float, float>(RowJoin::greatest, DType::f32);
  check_sizes<double, double>(RowJoin::greatest, DType::f64);
  check_sizes<std::int32_t, std::int32_t>(RowJoin::greatest, DType::i32);
}

TEST_CASE("a bf16 table keeps the bits of what has no update, those of a NaN too") {
  const RowSizes sizes{1, 64, 1, 1000};
  std::vector<std::uint16_t> table(64, 0x7f81), updates(1000, 0x3f80);  // a signalling NaN; ones
  std::vector<Int> index(1000, 5);
  std::vector<std::byte> workspace(update_rows_workspace(RowJoin::add, DType::bf16, sizes));
  table[5] = 0;
  update_rows(RowJoin::add, DType::bf16, sizes, updates.data(), index.data(), table.data(), workspace);
  CHECK(table[5] == 0x447a);  // 1000: in bf16 the sum would end at 256
  for (std::size_t i = 0; i < table.size(); ++i)
    if (i != 5) CHECK(table[i] == 0x7f81);
}

TEST_CASE("scatter begins its table itself, with any number of threads") {
  const std::vector<Int> index = index_of(200000, 30000);
  const std::vector<float> updates(200000, -2);
  for (const int threads : {1, 2, 4}) {
    const test::KeepOptions keep;
    options().num_threads = threads;
    std::vector<float> sums(30001, 7), greatest(30001, 7);
    scatter(RowJoin::add, DType::f32, {30000, 200000, 1}, index.data(), updates.data(), sums.data());
    scatter(RowJoin::greatest, DType::f32, {30000, 200000, 1}, index.data(), updates.data(), greatest.data());
    std::vector<float> expected(30001, 0), least(30001, -std::numeric_limits<float>::infinity());
    for (const Int row : index) expected[static_cast<std::size_t>(row)] -= 2, least[static_cast<std::size_t>(row)] = -2;
    expected[30000] = least[30000] = 7;
    CHECK(sums == expected);
    CHECK(greatest == least);
  }
}

TEST_CASE("single elements whose order counts are one thread's: no split takes less time") {
  for (const Int rows : {10, 1000, 100000, 1000000})
    for (const Int threads : {1, 2, 4, 16}) {
      CHECK(split_of({1, rows, 1, 1000000}, false, threads) == RowSplit::none);
      CHECK(split_of({1, rows, 4, 1000000}, false, threads) == RowSplit::none);
    }
}

TEST_CASE("each thread has a table where any order will do and tables are small beside the updates") {
  CHECK(split_of({1, 10, 1, 1000000}, true, 2) == RowSplit::copies);
  CHECK(split_of({1, 100000, 1, 1000000}, true, 2) == RowSplit::copies);
  CHECK(split_of({1, 1000000, 1, 1000000}, true, 2) == RowSplit::none);
  CHECK(split_of({1, 100000, 1, 1000000}, true, 16) == RowSplit::none);  // sixteen tables have more elements
  CHECK(split_of({1, 1000, 16, 40000}, true, 4) == RowSplit::copies);
  CHECK(split_of({1, 10, 1, 1000}, true, 4) == RowSplit::none);  // too few
}

TEST_CASE("wide rows are split by the row, unless most updates meet in one; tables by the table") {
  CHECK(split_of({1, 1000, 64, 10000}, false, 2) == RowSplit::rows);
  CHECK(split_of({1, 1000, 64, 10000}, false, 2, Places::mostly_one) == RowSplit::none);
  CHECK(split_of({1, 50000, 64, 100000}, false, 2) == RowSplit::none);  // more than caches hold: no gain by two threads
  CHECK(split_of({1, 50000, 64, 100000}, false, 4) == RowSplit::rows);
  CHECK(split_of({1, 100, 4096, 200}, false, 2, Places::mostly_one) == RowSplit::columns);
  CHECK(split_of({64, 1000, 1, 10000}, false, 4) == RowSplit::columns);
}

TEST_CASE("parts of rows are balanced by the updates that fall into them") {
  const RowSizes sizes{1, 1000, 64, 10000};
  std::vector<Int> index = index_of(sizes.count, 100);  // the first 100 rows only
  const RowParts parts = row_parts(sizes, 4, false, index, 4);
  REQUIRE(parts.threads == 4);
  CHECK(parts.bounds[0] == 0);
  CHECK(parts.bounds[4] == 1000);
  for (std::size_t i = 0; i < 4; ++i) {
    Int updates = 0;
    for (const Int row : index) updates += row >= parts.bounds[i] && row < parts.bounds[i + 1];
    CHECK(updates > 1500);
    CHECK(updates < 3500);
  }
}
