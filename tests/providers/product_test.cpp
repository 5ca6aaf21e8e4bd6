// Products of matrices that a gather chooses from a table: the product reads the table, and nothing is copied.
#include <doctest/doctest.h>

#include <random>

#include "weft/weft.hpp"

using namespace weft;

namespace {

Tensor random(Sizes sizes, unsigned seed, DType dtype = DType::f32) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(sizes.shape().element_count().constant()));
  for (float& value : values) value = normal(bits);
  return cast(from_span(values, sizes), dtype).eval();
}
Tensor index_of(const std::vector<std::int64_t>& numbers) {
  return from_span(numbers, {static_cast<std::int64_t>(numbers.size())}).eval();
}
double distance(const Tensor& a, const Tensor& b) {
  return amax(abs(cast(a, DType::f64) - cast(b, DType::f64))).item<double>();
}
bool reads_table(const Explanation& explanation) { return explanation.schedule.find("chosen") != std::string::npos; }

// f(table, x, index) compiled reads the table, takes `temporaries` bytes at most and gives what it gives otherwise.
template <class F>
void check_reads(F f, const Tensor& table, const Tensor& x, const Tensor& index, double most,
                 std::int64_t temporaries) {
  auto compiled = compile(f, {.check = Check::never});
  const Tensor found = compiled(table, x, index);
  const Explanation explanation = explain(compiled, table, x, index);
  CHECK(reads_table(explanation));
  CHECK(explanation.memory.temporaries <= temporaries);
  CHECK(distance(found, f(table, x, index)) <= most);
}

constexpr auto right = [](const Tensor& table, const Tensor& x, const Tensor& index) {
  return matmul(x, gather(table, index));
};
constexpr auto right_transposed = [](const Tensor& table, const Tensor& x, const Tensor& index) {
  return matmul(x, transpose(gather(table, index)));
};
constexpr auto left = [](const Tensor& table, const Tensor& x, const Tensor& index) {
  return matmul(gather(table, index), x);
};
constexpr auto both = [](const Tensor& table, const Tensor&, const Tensor& index) {
  return matmul(gather(table, index), transpose(gather(table, index + 1)));
};

}  // namespace

TEST_CASE("a product reads matrices that a gather chooses where they lie in the table") {
  const Tensor index = index_of({3, 0, 3, 1, 2});
  for (const DType dtype : {DType::f32, DType::f64}) {
    CAPTURE(info(dtype).name);
    const Tensor table = random({5, 24, 40}, 1, dtype);
    const double most = dtype == DType::f32 ? 1e-4 : 1e-12;
    const std::int64_t few = 256;  // bytes: of one gather there would be 5 * 24 * 40 elements
    check_reads(right, table, random({5, 17, 24}, 2, dtype), index, most, few);
    check_reads(right_transposed, table, random({5, 17, 40}, 2, dtype), index, most, few);
    check_reads(left, table, random({5, 40, 33}, 2, dtype), index, most, few);
    check_reads(both, table, table, index, most, few);
  }
  // Of a size that a library is asked for, where there is one.
  const Tensor wide = random({3, 512, 512}, 3);
  check_reads(right, wide, random({5, 256, 512}, 4), index_of({2, 0, 1, 1, 0}), 1e-3, 4096);
  check_reads(left, wide, random({5, 512, 256}, 4), index_of({2, 0, 1, 1, 0}), 1e-3, 4096);
}

TEST_CASE("so do the products of the gradients, and what is gathered twice has no memory") {
  const auto loss = [](const Tensor& table, const Tensor& x, const Tensor& index) {
    const auto [of_table, of_x] = grad(
        [&](const std::pair<Tensor, Tensor>& at) {
          return mean(square(tanh(right_transposed(at.first, at.second, index))));
        },
        std::pair(table, x));
    return concat({flatten(of_table), flatten(of_x)});
  };
  const Tensor table = random({3, 64, 96}, 1), x = random({6, 8, 96}, 2), index = index_of({1, 2, 2, 0, 1, 0});
  auto compiled = compile(loss, {.check = Check::never});
  CHECK(distance(compiled(table, x, index), loss(table, x, index)) < 1e-5);
  const std::string schedule = explain(compiled, table, x, index).schedule;
  std::size_t times = 0;
  for (std::size_t at = schedule.find("chosen"); at != schedule.npos; at = schedule.find("chosen", at + 1)) ++times;
  CHECK(times == 2);
}

TEST_CASE("what is gathered has memory where others read it too, or where the table has none") {
  const Tensor index = index_of({1, 0, 1}), table = random({2, 16, 32}, 1), x = random({3, 8, 16}, 2);
  const auto sums = [](const Tensor& table, const Tensor& x, const Tensor& index) {
    const Tensor rows = gather(table, index);
    return std::pair{matmul(x, rows), rows};
  };
  auto with_rows = compile(sums, {.check = Check::never});
  const auto [product, rows] = with_rows(table, x, index);
  CHECK(distance(product, right(table, x, index)) < 1e-4);
  CHECK(distance(rows, gather(table, index)) == 0);
  const auto of_computed = [](const Tensor& table, const Tensor& x, const Tensor& index) {
    return right(exp(table), x, index);
  };
  auto computed = compile(of_computed, {.check = Check::never});
  CHECK(distance(computed(table, x, index), of_computed(table, x, index)) < 1e-4);
  CHECK_FALSE(reads_table(explain(computed, table, x, index)));
  // Along another axis than the first, a gather is no choice of matrices.
  const auto along_rows = [](const Tensor& table, const Tensor& x, const Tensor& index) {
    return matmul(permute(gather(table, index), {1, 0, 2}), x);
  };
  auto other = compile(along_rows, {.check = Check::never});
  const Tensor y = random({16, 32, 8}, 3);
  CHECK(distance(other(table, y, index), along_rows(table, y, index)) < 1e-4);
  CHECK_FALSE(reads_table(explain(other, table, y, index)));
}

TEST_CASE("a number that no matrix has is an error of the gather, and nothing beside the table is read") {
  const Tensor table = random({4, 16, 32}, 1), x = random({3, 8, 16}, 2);
  auto compiled = compile(right, {.check = Check::never});
  CHECK(distance(compiled(table, x, index_of({3, 3, 0})), right(table, x, index_of({3, 3, 0}))) < 1e-4);
  for (const std::int64_t wrong : {std::int64_t{4}, std::int64_t{1} << 40, std::int64_t{-1} << 40})
    CHECK_THROWS_WITH_AS(compiled(table, x, index_of({3, wrong, 0})).eval(), doctest::Contains("gather"), Error);
}

TEST_CASE("the sizes of a product of chosen matrices may be symbols") {
  auto compiled = compile(right, {.check = Check::never});
  const Tensor table = random({4, 16, 32}, 1);
  for (const std::int64_t items : {2, 3, 5, 7, 9})
    for (const std::int64_t rows : {6, 8}) {
      std::vector<std::int64_t> numbers;
      for (std::int64_t i = 0; i < items; ++i) numbers.push_back(i * i % 4);
      const Tensor x = random({items, rows, 16}, 2), index = index_of(numbers);
      CHECK(distance(compiled(table, x, index), right(table, x, index)) < 1e-4);
    }
}
