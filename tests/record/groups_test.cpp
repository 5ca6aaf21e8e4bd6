// Products over groups of rows on the host: what a loop over the groups gives, of any ends, with their derivatives, in
// every way that there is to run them; and where a plan reads the matrices.
#include <vector>

#include "tests/needs_compiler.hpp"
#include "tests/record/refused.hpp"
#include "tests/trace/support.hpp"
#include "weft/autocast.hpp"
#include "weft/explain.hpp"
#include "weft/grad.hpp"
#include "weft/groups.hpp"
#include "weft/random.hpp"
#include "weft/transforms.hpp"
#include "weft/vmap.hpp"

using namespace weft;
using namespace trace_test;
using test::a_compiler;
using test::needs;
using test::refused;

namespace {

using Ends = std::vector<std::int64_t>;
using Tensors = std::vector<Tensor>;

Tensor sample(const Sizes& sizes, std::uint64_t seed, DType dtype = DType::f32) {
  Generator generator(seed);
  return cast(normal(sizes, 0, 1, generator), dtype).eval();
}
Tensor ends_of(const Ends& ends) { return from_span(ends, {static_cast<std::int64_t>(ends.size())}); }

// A product for each group, and for what is after the last end.
Tensor by_loop(const Tensor& x, const Tensor& weights, Ends ends) {
  const auto rows = static_cast<std::int64_t>(x.size(0));
  std::vector<Tensor> parts;
  std::int64_t begin = 0;
  ends.back() = rows;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const std::int64_t end = std::max(begin, std::min(ends[i], rows));
    parts.push_back(matmul(slice(x, 0, begin, end), weights[static_cast<std::int64_t>(i)]));
    begin = end;
  }
  return concat(parts, 0);
}

void check_near(const Tensor& a, const Tensor& b, double least = 1e-4) {
  REQUIRE(a.dtype() == b.dtype());
  CHECK(amax(abs(cast(a - b, DType::f32))).item() <= least);
}

const std::vector<std::pair<std::int64_t, Ends>>& trials() {
  static const std::vector<std::pair<std::int64_t, Ends>> all{
      {60, {10, 10, 35, 60}},     // one is empty
      {50, {0, 50, 50}},          // one has all
      {40, {5, 30, 12, 99, 40}},  // out of order, and beyond the rows
      {70, {-3, 16, 32, 50}},     // rows after the last end
      {1, {0, 1, 1}},
      {33, {33}}  // few
  };
  return all;
}

}  // namespace

TEST_CASE("products over groups of rows and their gradients are those of a loop over the groups") {
  for (const auto& [rows, ends] : trials()) {
    CAPTURE(rows);
    const auto groups = static_cast<std::int64_t>(ends.size());
    const Tensor x = sample({rows, 24}, 1), w = sample({groups, 24, 12}, 2), up = sample({rows, 12}, 3);
    // The gradients of x and the matrices, and the product.
    static constexpr auto all = [](const auto& product, const Tensors& in) {
      Tensors made = grad([&](const Tensors& it) { return sum(product(it[0], it[1]) * in[2]); }, Tensors{in[0], in[1]});
      made.push_back(product(in[0], in[1]));
      return made;
    };
    static constexpr auto ours = [](const Tensors& in) {
      return all([&](const Tensor& x, const Tensor& w) { return grouped_matmul(x, w, in[3]); }, in);
    };
    static constexpr auto turned = [](const Tensors& in) {
      return all([&](const Tensor& x, const Tensor& w) { return grouped_matmul(x, transpose(w), in[3]); }, in);
    };
    const Tensors in{x, w, up, ends_of(ends)}, of_turned{x, transpose(w).eval(), up, ends_of(ends)};
    const Tensors right = all([&, &ends = ends](const Tensor& x, const Tensor& w) { return by_loop(x, w, ends); }, in);
    const Tensors eager = ours(in), compiled = compile(ours)(in), other = compile(turned)(of_turned);
    for (std::size_t i = 0; i < right.size(); ++i) {
      CAPTURE(i);
      check_near(eager[i], right[i]);
      check_near(compiled[i], right[i]);
      check_near(i == 1 ? transpose(other[i]) : other[i], right[i]);
    }
  }
}

TEST_CASE("the sums over rows of a group that has several blocks are rounded once") {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    CAPTURE(info(dtype).name);
    const double unit = dtype == DType::bf16 ? 1.0 / 256 : 1.0 / 2048;
    const Tensor x = sample({400, 64}, 1, dtype), w = sample({2, 64, 3}, 2, dtype), up = sample({400, 3}, 3, dtype);
    static constexpr auto slope = [](const Tensors& in) {
      return grad([&](const Tensor& w) { return sum(cast(grouped_matmul(in[0], w, in[3]) * in[2], DType::f64)); },
                  in[1]);
    };
    const Tensors in{x, w, up, ends_of({130, 400})};
    // Sums in f64 of the same numbers.
    std::vector<Tensor> parts;
    for (const auto& [begin, end] : {std::pair(0, 130), {130, 400}})
      parts.push_back(
          matmul(transpose(slice(cast(x, DType::f64), 0, begin, end)), slice(cast(up, DType::f64), 0, begin, end)));
    const Tensor right = stack(parts, 0), most = abs(right) * unit + 2e-4;
    for (const Tensor& found : {slope(in), compile(slope)(in)}) {
      CHECK(found.dtype() == dtype);
      CHECK(amax(abs(cast(found, DType::f64) - right) - most).item<double>() <= 0);
    }
  }
}

TEST_CASE("tangents and second derivatives of products over groups of rows, and batches of them") {
  const Ends ends{7, 7, 20, 30};
  const Tensor x = sample({30, 8}, 1), w = sample({4, 8, 6}, 2), dx = sample({30, 8}, 3), dw = sample({4, 8, 6}, 4);
  const auto ours = [&](const Tensors& it) { return grouped_matmul(it[0], it[1], ends_of(ends)); };
  const auto right = [&](const Tensors& it) { return by_loop(it[0], it[1], ends); };
  check_near(jvp(ours, Tensors{x, w}, Tensors{dx, dw}).tangent, jvp(right, Tensors{x, w}, Tensors{dx, dw}).tangent);
  const auto twice = [&](const auto& f) {
    return grad(
        [&](const Tensors& at) {
          const Tensors first = grad([&](const Tensors& it) { return sum(square(f(it))); }, at);
          return sum(first[0] * dx) + sum(first[1] * dw);
        },
        Tensors{x, w});
  };
  const Tensors found = twice(ours), wanted = twice(right);
  for (std::size_t i = 0; i < 2; ++i) check_near(found[i], wanted[i], 1e-2);
  const Tensor many = sample({3, 30, 8}, 5);
  const Tensor batch = vmap([&](const Tensor& x) { return grouped_matmul(x, w, ends_of(ends)); })(many);
  for (std::int64_t i = 0; i < 3; ++i) check_near(batch[i], by_loop(many[i], w, ends));
}

TEST_CASE("products over groups of rows promote, are cast by autocast, and refuse what does not fit") {
  const Tensor x = sample({20, 8}, 1), w = sample({2, 8, 6}, 2), ends = ends_of({5, 20});
  CHECK(grouped_matmul(cast(x, DType::bf16), w, ends).dtype() == DType::f32);
  CHECK(grouped_matmul(x, w, cast(ends, DType::i32)).dtype() == DType::f32);
  {
    const Autocast scope(DType::bf16);
    CHECK(grouped_matmul(x, w, ends).dtype() == DType::bf16);
  }
  CHECK(grouped_matmul(zeros({0, 8}), w, ends).shape() == Shape::of(0, 6));
  const char* const words = "takes floating rows [rows, k] and weights [groups, k, n]";
  refused([&] { grouped_matmul(x, transpose(w), ends); }, words);
  refused([&] { grouped_matmul(x, w, ends_of({1, 2, 20})); }, words);
  refused([&] { grouped_matmul(x, w, cast(ends, DType::f32)); }, words);
  refused([&] { grouped_matmul(x, w[0], ends); }, words);
  refused([&] { grouped_matmul(cast(x, DType::i64), w, ends); }, words);
  refused([&] { grouped_matmul(x, zeros({0, 8, 6}), zeros({0}, {DType::i64})); }, words);
}

TEST_CASE("products over groups of rows of sizes that are not known") {
  const Tensor w = sample({3, 8, 6}, 2);
  const auto f =
      compile([](const Tensor& x, const Tensor& w, const Tensor& ends) { return grouped_matmul(x, w, ends); },
              {.dynamic = true});
  for (const std::int64_t rows : {30, 20, 31, 7})
    check_near(f(sample({rows, 8}, 1), w, ends_of({5, 6, rows})), by_loop(sample({rows, 8}, 1), w, {5, 6, rows}));
}

TEST_CASE("the matrices of groups are read where they lie, either way, forward and for the gradient of rows" *
          needs(a_compiler)) {
  const Tensor x = sample({256, 64}, 1), w = sample({8, 96, 64}, 2);
  const auto f = compile([](const Tensor& x, const Tensor& w, const Tensor& ends) {
    return grad([&](const Tensor& x) { return sum(square(grouped_matmul(x, transpose(w), ends))); }, x);
  });
  const Explanation found = explain(f, x, w, ends_of({30, 60, 90, 120, 150, 180, 210, 256}));
  CAPTURE(found.schedule);
  CHECK(found.schedule.find("x 147456") == std::string::npos);  // elements of the matrices of 24 blocks
  const std::size_t first = found.schedule.find("the right ones chosen");
  REQUIRE(first != std::string::npos);
  CHECK(found.schedule.find("the right ones chosen", first + 1) != std::string::npos);
}
