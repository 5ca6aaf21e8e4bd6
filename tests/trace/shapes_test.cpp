// Sizes at the edges in compiled functions: nothing, one, no axes, what is left over after vectors, indices beyond 32
// bits, and slices in both directions.
#include <tuple>

#include "tests/trace/support.hpp"
#include "weft/grad.hpp"
#include "weft/random.hpp"

using namespace weft;
using namespace trace_test;

TEST_CASE("operations on nothing") {
  check_every_way(
      [](const Tensor& x, const Tensor& row) {
        return Answers{
            {sum(x), "0"},
            {sum(x, 0), "0 0 0"},
            {sum(x, 1), ""},
            {prod(x), "1"},
            {prod(x, 0), "1 1 1"},
            {mean(x), "nan"},
            {mean(x, 0), "nan nan nan"},
            {any(x != 0), "0"},
            {all(x != 0), "1"},
            {amax(x, 1), ""},
            {argmax(x, 1), ""},
            {softmax(x), ""},
            {exp(x) + 1, ""},
            {matmul(transpose(x), x), "0 0 0 0 0 0 0 0 0"},
            {matmul(x, ones({3, 2})), ""},
            {matmul(ones({2, 3}), reshape(x, {3, 0})), ""},
            {concat({x, row, x}), "1 2 3"},
            {pad(x, 0, 1, 1), "0 0 0 0 0 0"},
            {flip(x, 0), ""},
            {gather(row, arange(0)), ""},
            {gather(x, arange(0)), ""},
            {cast(x, DType::i64), ""},
            {reshape(x, {0, 5}) + ones({5}), ""},
            {expand(unsqueeze(sum(x, 0), 0), {2, 3}), "0 0 0 0 0 0"},
            {slice(row, 0, 1) * 2, ""},
            {grad([](const Tensor& v) { return sum(exp(v)); }, x), ""},
            {grad([&](const Tensor& v) { return sum(gather(v, arange(0))); }, row), "0 0 0"},
            {sum(uniform({0})), "0"},
        };
      },
      zeros({0, 3}), reshape(vector_of({1, 2, 3}), {1, 3}));
}

TEST_CASE("a greatest element of nothing is refused, compiled and not") {
  Tensor nothing = zeros({0, 3});
  CHECK(contains(message_of([&] { amax(nothing).eval(); }), "[amax]"));
  CHECK(contains(message_of([&] { argmax(nothing, 0).eval(); }), "[argmax]"));
  CHECK(contains(message_of([&] { compile([](const Tensor& x) { return amin(x, 0); })(nothing); }), "[amin]"));
}

TEST_CASE("one element, with axes and without") {
  check_every_way(
      [](const Tensor& x, const Tensor& one, const Tensor& cube) {
        return Answers{
            {sum(x), "3"},
            {amax(x) + mean(x) + prod(x), "9"},
            {reshape(x, {1, 1, 1}), "3"},
            {expand(x, {2, 2}), "3 3 3 3"},
            {x + one, "5"},
            {matmul(one, one), "4"},
            {softmax(one), "1"},
            {argmax(one, 0), "0"},
            {var(one, {}, 0), "0"},
            {flip(one, 1), "2"},
            {transpose(one) * cube, "2 4 6"},
            {cube + reshape(concat({reshape(x, {1}), reshape(one, {1})}), {2, 1, 1}), "4 5 6 3 4 5"},
            {sum(cube, {0, 2}, true), "1 2 3"},
            {squeeze(squeeze(cube, 2), 0), "1 2 3"},
            {select(cube, 1, -1), "3"},
            {gather(one, cast(x * 0, DType::i64)), "2"},
            {concat({reshape(x, {1}), reshape(one, {1})}), "3 2"},
        };
      },
      full({}, 3).eval(), full({1, 1}, 2).eval(), reshape(vector_of({1, 2, 3}), {1, 3, 1}).eval());
}

TEST_CASE("slices start, stop and step as in Python") {
  check_every_way(
      [](const Tensor& x, const Tensor& matrix) {
        return Answers{
            {slice(x, 0, -2), "4 5"},
            {slice(x, 0, -100, 2), "0 1"},
            {slice(x, 0, 4, 1), ""},
            {slice(x, 0, 1, -1), "1 2 3 4"},
            {slice(x, 0, 2, slice_end, 3), "2 5"},
            {slice(x, 0, 2, 100), "2 3 4 5"},
            {slice(x, 0, 7), ""},
            {slice(x, 0, 5, 1, -2), "5 3"},
            {slice(x, 0, -1, -7, -1), "5 4 3 2 1 0"},
            {slice(x, 0, 100, 2, -1), "5 4 3"},
            {slice(x, 0, 1, 4, -1), ""},
            {slice(flip(x, 0), 0, 1, slice_end, 2), "4 2 0"},
            {slice(slice(x, 0, 5, 0, -2), 0, 2, 0, -1), "1 3"},
            {select(x, 0, -1) * 10 + select(x, 0, 0), "50"},
            {slice(matrix, -1, -1, -4, -2) + 1, "3 1 6 4"},
            {slice(transpose(matrix), 0, 2, 0, -1), "2 5 1 4"},
            {grad([](const Tensor& v) { return sum(slice(v, 0, 4, 0, -2) * 3); }, cast(x, DType::f32)), "0 0 3 0 3 0"},
        };
      },
      arange(6).eval(), reshape(arange(6), {2, 3}).eval());
  CHECK(contains(message_of([] { gather(arange(6), arange(7)).eval(); }), "shapes_test.cpp"));
  CHECK(contains(message_of([] { gather(arange(6), arange(2) - 1).eval(); }), "shapes_test.cpp"));
  for (bool compiled : {false, true}) {
    auto refused = [&](auto f) {
      return message_of([&] { compiled ? compile(f)(arange(6)).eval() : f(arange(6)).eval(); });
    };
    CHECK(contains(refused([](const Tensor& x) { return select(x, 0, 6); }), "shapes_test.cpp"));
    CHECK(contains(refused([](const Tensor& x) { return select(x, 0, -7); }), "shapes_test.cpp"));
    CHECK(contains(refused([](const Tensor& x) { return slice(x, 1, 0); }), "shapes_test.cpp"));
    CHECK(contains(refused([](const Tensor& x) { return slice(x, 0, 0, 3, 0); }), "shapes_test.cpp"));
  }
}

TEST_CASE("one specialization serves each length around the vectors") {
  auto f = compile(
      [](const Tensor& x) {
        Tensor wide = cast(x, DType::f64), whole = cast(x, DType::i64);
        return std::tuple{x * 2 + 1,     flip(x, 0),       sum(x),     amax(x),
                          argmax(-x, 0), wide - sum(wide), sum(whole), prod(whole * 0 + 1)};
      },
      {.dynamic = true});
  for (int n = 2; n <= 70; ++n) {
    if (n % 7 == 0) continue;  // then what follows is no permutation
    CAPTURE(n);
    Numbers x(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i * 7 + 3) % x.size());
    const float total = static_cast<float>(n * (n - 1) / 2);
    auto [doubled, reversed, sum, greatest, least, centered, whole, product] = f(from_span(std::span(x), {n}));
    Numbers expected = x, backwards(x.rbegin(), x.rend()), differences = x;
    for (float& number : expected) number = number * 2 + 1;
    for (float& number : differences) number -= total;
    CHECK(numbers_of(doubled) == expected);
    CHECK(numbers_of(reversed) == backwards);
    CHECK(sum.item() == total);
    CHECK(greatest.item() == n - 1);
    CHECK(x[static_cast<std::size_t>(least.item<std::int64_t>())] == 0);
    CHECK(numbers_of(cast(centered, DType::f32)) == differences);
    CHECK(whole.item() == total);
    CHECK(product.item() == 1);
  }
  CHECK(specialization_count(f) == 1);
}

TEST_CASE("indices beyond 32 bits, of elements that have no memory") {
  auto f = compile([](const Tensor& x, Generator& generator) {
    constexpr std::int64_t far = std::int64_t{1} << 33;
    Tensor wide = reshape(expand(x, {(std::int64_t{1} << 21) + 1, 4096}), {-1});  // 2^33 + 2^12
    Tensor draws = uniform({far}, 0, 1, generator);
    return std::tuple{slice(arange(far), 0, -3) - far, slice(wide, 0, far - 1, far + 2), slice(draws, 0, 0, 4),
                      slice(draws, 0, far / 2, far / 2 + 4), slice(draws, 0, -4)};
  });
  Tensor x = cast(arange(4096), DType::f32).eval();
  Generator generator(1);
  auto [positions, elements, first, middle, last] = f(x, generator);
  CHECK(text_of(positions) == "-3 -2 -1");
  CHECK(text_of(elements) == "4095 0 1");
  CHECK(text_of(first) != text_of(middle));
  CHECK(text_of(first) != text_of(last));
  CHECK(text_of(middle) != text_of(last));
  Generator same(1);
  CHECK(text_of(first) == text_of(uniform({4}, 0, 1, same)));
}

TEST_CASE("a compiled gather reads within its table, and the user's line is told, whatever the index") {
  static const std::int64_t wrong[] = {3, -1, std::int64_t{1} << 40, INT64_MIN};
  auto rows = compile([](const Tensor& table, const Tensor& index) { return sum(gather(table, index) * 2, -1); });
  auto elements = compile([](const Tensor& table, const Tensor& index) { return exp(gather(table, index)); });
  auto gradient = compile([](const Tensor& table, const Tensor& index) {
    return grad([&](const Tensor& v) { return sum(gather(v, index)); }, table);  // the loss itself is dead
  });
  for (std::int64_t row : wrong) {
    CAPTURE(row);
    const Tensor index = from_list<std::int64_t>({0, row});
    for (const std::string& message : {message_of([&] {
                                         rows(zeros({3, 5}), index).eval();
                                       }),
                                       message_of([&] { elements(zeros({3}), index).eval(); }), message_of([&] {
                                         gradient(zeros({3, 5}), index).eval();
                                       })}) {
      CAPTURE(message);
      CHECK(contains(message, "[gather]"));
      CHECK(contains(message, "shapes_test.cpp"));
    }
  }
  const Tensor index = from_list<std::int64_t>({2, 0});
  CHECK(text_of(rows(ones({3, 5}), index)) == "10 10");
  CHECK(text_of(elements(zeros({3}), index)) == "1 1");
  CHECK(text_of(gradient(zeros({3, 1}), index)) == "1 0 1");
  CHECK_THROWS(rows(zeros({0, 5}), index).eval());
}
