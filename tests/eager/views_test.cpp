// Views share memory; assembling, indexing and random bits move or make elements exactly.
#include "base/storage.hpp"
#include "tests/eager/check.hpp"

using namespace weft;
using namespace weft::test;

namespace {
Tensor counting(std::initializer_list<Dim> sizes) {
  return reshape(arange(Sizes(sizes).shape().element_count()), Sizes(sizes)).eval();
}
bool shares(const Tensor& view, const Tensor& base) { return storage_of(view.eval()) == storage_of(base.eval()); }
}  // namespace

TEST_CASE("views of computed values copy nothing") {
  Tensor x = counting({4, 6});
  CHECK(shares(transpose(x), x));
  CHECK(shares(slice(x, 1, 5, 0, -2), x));
  CHECK(shares(flip(x, 0), x));
  CHECK(shares(reshape(x, {2, 12}), x));
  CHECK(shares(reshape(slice(x, 0, 1, 3), {12}), x));
  CHECK(shares(expand(reshape(x, {4, 1, 6}), {4, 9, 6}), x));
  CHECK(shares(reshape(transpose(x), {2, 3, 4}), x));
  CHECK_FALSE(shares(reshape(transpose(x), {24}), x));
  CHECK(shares(select(x, 0, 2), x));
  CHECK(stop_gradient(x).eval().data<std::int64_t>().data() == x.data<std::int64_t>().data());
}

TEST_CASE("chains of views agree with the reference") {
  Values values(1);
  const Function views[] = {
      [](std::span<const Tensor> x) {
        return reshape(transpose(x[0], 0, 2), {6, -1});
      },
      [](std::span<const Tensor> x) {
        return flip(slice(permute(x[0], {2, 0, 1}), 1, 3, 0, -2), 2);
      },
      [](std::span<const Tensor> x) { return reshape(flip(x[0], 1), {-1}); },
      [](std::span<const Tensor> x) {
        return expand(slice(x[0], 1, 2, 3), {2, 4, 5, 6});
      },
      [](std::span<const Tensor> x) {
        return reshape(expand(slice(x[0], 0, 1, 2), {4, 5, 6}), {20, 6});
      },
      [](std::span<const Tensor> x) { return slice(slice(x[0], 2, 1, 6, 2), 2, 1, 3); },
      [](std::span<const Tensor> x) {
        return reshape(slice(x[0], 1, 2, 2), {4, 0, 6});
      },
      [](std::span<const Tensor> x) {
        return transpose(reshape(slice(x[0], 2, 5, slice_end, -1), {5, 24}));
      },
  };
  for (DType dtype : all_dtypes)
    for (const Function& view : views) {
      Literal input = values.make(dtype, Shape::of(4, 5, 6));
      INFO(text(dtype), " view ", &view - views);
      check(view, std::span(&input, 1));
    }
}

TEST_CASE("slices are Python's, for every start, stop and step") {
  constexpr std::int64_t size = 5;
  Tensor x = counting({size});
  // What range(size)[start:stop:step] holds; `none` leaves a bound out.
  constexpr std::int64_t none = slice_end.constant();
  auto bound = [](std::int64_t at) { return at == none ? slice_end : Dim(at); };
  auto expected = [&](std::int64_t start, std::int64_t stop, std::int64_t step) {
    auto clamp = [&](std::int64_t at, std::int64_t low, std::int64_t high) {
      return std::min(std::max(at < 0 ? at + size : at, low), high);
    };
    std::int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
    std::int64_t at = start == none ? (step > 0 ? low : high) : clamp(start, low, high);
    std::int64_t end = stop == none ? (step > 0 ? high : low) : clamp(stop, low, high);
    std::vector<std::int64_t> list;
    for (; step > 0 ? at < end : at > end; at += step) list.push_back(at);
    return list;
  };
  for (std::int64_t step : {1, 2, 3, 7, -1, -2, -3, -7})
    for (std::int64_t start = -7; start <= 8; ++start)
      for (std::int64_t stop = -7; stop <= 8; ++stop) {
        std::int64_t from = start == 8 ? none : start, to = stop == 8 ? none : stop;
        INFO("[", start, ":", stop, ":", step, "]");
        Tensor part = slice(x, 0, bound(from), bound(to), step);
        View<const std::int64_t> found = part.data<std::int64_t>();
        CHECK(std::vector<std::int64_t>(found.begin(), found.end()) == expected(from, to, step));
      }
}

TEST_CASE("concat and pad agree with the reference") {
  Values values(2);
  for (DType dtype : all_dtypes)
    for (int axis = 0; axis < 3; ++axis) {
      Literal input = values.make(dtype, Shape::of(2, 3, 4));
      INFO(text(dtype), " axis ", axis);
      check(
          [&](std::span<const Tensor> x) {
            return concat({x[0], flip(x[0], axis), slice(x[0], axis, 1, 1), slice(x[0], axis, 1, 2)}, axis);
          },
          std::span(&input, 1));
      check(
          [&](std::span<const Tensor> x) {
            return concat({transpose(x[0], 0, 2), transpose(x[0], 0, 2)}, axis);
          },
          std::span(&input, 1));
      check([&](std::span<const Tensor> x) { return pad(x[0], axis, 2, 1, 2); }, std::span(&input, 1));
      check([&](std::span<const Tensor> x) { return pad(permute(x[0], {1, 2, 0}), axis, 0, 3); }, std::span(&input, 1));
    }
}

TEST_CASE("gather takes rows of any table; scatter_add adds up duplicates in order") {
  Values values(3);
  Literal index{Type{DType::i64, false, {}, Shape::of(3, 40)}};
  for (int i = 0; i < 120; ++i) index.integers.push_back(values.below(5));
  for (DType dtype : all_dtypes) {
    std::vector<Literal> inputs = {values.make(dtype, Shape::of(5, 7, 2)), index};
    INFO(text(dtype));
    check([](std::span<const Tensor> x) { return record(Op::gather, {x[0], x[1]}, {}, {}, {}); }, inputs);
    check(
        [](std::span<const Tensor> x) {
          return record(Op::gather, {flip(transpose(x[0], 1, 2), 0), transpose(x[1])}, {}, {}, {});
        },
        inputs);
    if (dtype == DType::boolean || only_holds(dtype)) continue;
    std::vector<Literal> updates = {index, values.make(dtype, Shape::of(3, 40, 9), false)};
    Type rows{dtype, false, {}, Shape::of(6)};
    Bound bound;
    double unit = ulp(dtype == DType::f64 ? DType::f64 : DType::f32, 1.0) / 2;
    if (is_floating(dtype))
      bound.absolute.assign(54, 120 * 120 * unit + (info(dtype).bits == 16 ? ulp(dtype, 120) : 0));
    check(
        [&](std::span<const Tensor> x) {
          return record(Op::scatter_add, {x[0], x[1]}, {}, rows, {});
        },
        updates, bound);
  }
}

TEST_CASE("an index out of range is the user's error, and the next call works") {
  Tensor table = counting({4, 3});
  for (std::int64_t bad : {std::int64_t{4}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
    Tensor index = from_list<std::int64_t>({0, bad});
    CHECK_THROWS_WITH_AS(gather(table, index).eval(), doctest::Contains("views_test.cpp:"), Error);
    Tensor direct = record(Op::gather, {table, index}, {}, {}, Loc::current());
    CHECK_THROWS_WITH_AS(direct.eval(), doctest::Contains("out of range [0, 4)"), Error);
  }
  CHECK(element<std::int64_t>(gather(table, from_list<std::int64_t>({3})), 1) == 10);
}

TEST_CASE("random bits agree with the reference, for every length and far offsets") {
  for (DType dtype : {DType::i32, DType::i64})
    for (std::int64_t count : {0, 1, 3, 4, 15, 16, 17, 1000}) {
      std::vector<Literal> inputs(2, Literal{Type{DType::i64, false, {}, {}}});
      for (auto [seed, offset] :
           {std::pair<std::int64_t, std::int64_t>{0, 0}, {-1, INT64_MIN}, {INT64_C(0x123456789abcdef), 1 << 20}}) {
        inputs[0].integers = {seed};
        inputs[1].integers = {offset};
        check(
            [&](std::span<const Tensor> x) {
              return record(Op::random_bits, {x[0], x[1]}, {}, Type{dtype, false, {}, Shape::of(count)}, {});
            },
            inputs);
      }
    }
  // The published answer for a zero counter and key.
  Tensor zero = zeros({}, {DType::i64});
  Tensor bits = record(Op::random_bits, {zero, zero}, {}, Type{DType::i64, false, {}, Shape::of(4)}, {});
  CHECK(bits.data<std::int64_t>()[0] == 0x6627e8d5);
  CHECK(bits.data<std::int64_t>()[3] == 0x9b00dbd8);
}

TEST_CASE("reading: dtypes, counts and element numbers are checked") {
  Tensor x = counting({2, 3});
  CHECK_THROWS_WITH_AS(x.data<float>(), doctest::Contains("as f32, the tensor is i64[2,3]"), Error);
  CHECK_THROWS_WITH_AS(x.item(), doctest::Contains("needs one element"), Error);
  std::int64_t few[5];
  CHECK_THROWS_WITH_AS(x.copy_to(std::span<std::int64_t>(few)), doctest::Contains("into 5 elements"), Error);
  CHECK_THROWS_WITH_AS(from_list<float>({1}, {2}), doctest::Contains("1 element does not fill f32[2]"), Error);
  CHECK_THROWS_WITH_AS(from_list<float>({1, 2, 3}, {2, 2}), doctest::Contains("3 elements do not fill f32[2,2]"),
                       Error);
  CHECK_THROWS_AS(Tensor().eval(), Error);
  CHECK(select(select(x, 0, 1), 0, 2).item<int>() == 5);
  CHECK(element<float>(full({2}, 3.5), 1) == 3.5f);
  CHECK((Scalar(2.0) * Scalar(4.0)).item() == 8);
  CHECK(element<std::int64_t>(transpose(x), 1) == 3);
}

TEST_CASE("long long is i64, whichever of the two std::int64_t is") {
  const std::vector<long long> from{1, -2};
  const std::vector<long> same{1, -2};
  for (const Tensor& x :
       {from_span(from, {2}), from_span(same, {2}), from_list<long long>({1, -2}), from_span(std::span(from), {2})}) {
    CHECK(x.dtype() == DType::i64);
    CHECK(x.data<std::int64_t>()[1] == -2);
    CHECK(x.data<long long>()[1] == -2);
  }
}

TEST_CASE("a view outlives the tensor that it came from") {
  Tensor x = counting({100, 100});
  View<const std::int64_t> data = x.data<std::int64_t>();
  Tensor row = select(x, 0, 7).eval();
  x = Tensor();
  CHECK(row.data<std::int64_t>()[3] == 703);
  CHECK(data[9999] == 9999);
}
