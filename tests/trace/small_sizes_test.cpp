// Sizes that are sometimes 0 or 1: a few specializations serve them beside greater ones, with the numbers that eager
// gives, also where tracing decides by them; and inputs that nothing reads.
#include <algorithm>

#include "base/log.hpp"
#include "ir/node.hpp"
#include "tests/runtime/support.hpp"
#include "tests/trace/support.hpp"
#include "weft/convolution.hpp"
#include "weft/grad.hpp"
#include "weft/linalg.hpp"
#include "weft/loops.hpp"
#include "weft/nn.hpp"
#include "weft/random.hpp"

using namespace weft;
using namespace trace_test;

namespace {

constexpr std::int64_t small_sizes[] = {0, 1, 7};

Tensor normal_of(std::initializer_list<std::int64_t> sizes) {
  static constinit std::uint64_t next = 1;
  Generator rng(next++);
  return normal(std::vector<Dim>(sizes.begin(), sizes.end()), 0, 1, rng);
}

// The values and the shape, or the error's words without the line.
template <class F>
std::string outcome(F f) {
  try {
    const Tensor y = f();
    return to_string(y.shape()) + " " + text_of(y);
  } catch (const Error& error) {
    const std::string text = error.what();
    const std::size_t begin = text.find("] ");
    return "Error" + text.substr(begin == std::string::npos ? 0 : begin, text.find('\n') - begin);
  }
}

// Compiled for symbols that may be 0, at a large call, a call of ones and an empty one, and then held against eager at
// all sizes. Gives the number of specializations of the first.
template <class F>
std::size_t check_marked(const char* name, F function) {
  CAPTURE(name);
  std::size_t count = 0;
  const std::pair<std::int64_t, std::int64_t> all[] = {{4, 37}, {1, 1}, {0, 0}, {1, 5},  {5, 1}, {0, 3},
                                                       {3, 0},  {1, 0}, {0, 1}, {2, 70}, {70, 2}};
  for (const std::size_t first : {0u, 1u, 2u}) {
    auto f = compile(function, {.check = Check::never, .on_compile_error = OnFailure::raise});
    for (std::size_t call = 0; call <= std::size(all); ++call) {
      const auto [rows, columns] = call == 0 ? all[first] : all[call - 1];
      CAPTURE(first);
      CAPTURE(rows);
      CAPTURE(columns);
      Tensor x = normal_of({rows, columns});
      const std::string expected = outcome([&] { return function(x); });
      mark_dynamic(x, 0, 0);
      mark_dynamic(x, 1, 0);
      CHECK(outcome([&] { return f(x); }) == expected);
    }
    if (first == 0) count = specialization_count(f);
  }
  return count;
}

}  // namespace

TEST_CASE("mixtures of sizes 0, 1 and more are served by few specializations, and nobody warns") {
  const auto body = [](const Tensor& x) { return softmax(x * 2 + 1) - sum(x, 2, true) * exp(x); };
  for (const bool dynamic : {false, true}) {
    weft::test::CaptureLog log;
    CompileOptions options{.on_compile_error = OnFailure::raise};
    if (dynamic) options.dynamic = true;
    auto f = compile(body, options);
    int calls = 0;
    for (const std::int64_t n : {7, 5})
      for (const std::int64_t a : small_sizes)
        for (const std::int64_t b : small_sizes)
          for (const std::int64_t c : small_sizes) {
            if (n == 5 && a != 7) continue;
            const auto size = [&](std::int64_t given) { return given == 7 ? n : given; };
            const Tensor x = normal_of({size(a), size(b), size(c)});
            CHECK(text_of(f(x)) == text_of(body(x)));
            ++calls;
          }
    CHECK(calls == 36);
    CHECK(specialization_count(f) <= 4);
    CHECK(log.lines.empty());
  }
}

TEST_CASE("a size that was 1 once, or comes to be, is a symbol without an assumption") {
  const auto body = [](const Tensor& x, const Tensor& w) { return softmax(matmul(x, w)) + sum(x, 1, true); };
  auto f = compile(body, {.on_compile_error = OnFailure::raise});
  const Tensor w = normal_of({6, 4});
  const struct {
    std::int64_t rows;
    std::size_t compiled;
  } calls[] = {{1, 1}, {8, 2}, {1, 2}, {0, 2}, {33, 2}, {2, 2}};
  for (const auto& [rows, compiled] : calls) {
    CAPTURE(rows);
    const Tensor x = normal_of({rows, 6}), found = f(x, w), expected = body(x, w);
    REQUIRE(found.shape().same(expected.shape()));
    if (rows) CHECK(amax(abs(found - expected)).item() <= 1e-5);
    CHECK(specialization_count(f) == compiled);
  }
  const std::vector<std::string> guards = explain(f, normal_of({0, 6}), w).guards;
  CHECK(std::ranges::find(guards, "s0 >= 0") != guards.end());
}

TEST_CASE("sizes that may be 0 or 1: one kernel is right for all") {
  CHECK(check_marked("pointwise", [](const Tensor& x) { return tanh(x * 2 + 1); }) == 1);
  CHECK(check_marked("bias", [](const Tensor& x) { return x + sum(x, 1, true) * 2; }) <= 2);
  CHECK(check_marked("softmax", [](const Tensor& x) { return softmax(x) + log_softmax(x, 0); }) <= 4);
  CHECK(check_marked("row sums", [](const Tensor& x) { return sum(x * x, 1); }) == 1);
  CHECK(check_marked("row means", [](const Tensor& x) { return mean(cast(x, DType::bf16), -1); }) == 1);
  CHECK(check_marked("all", [](const Tensor& x) { return sum(x) + mean(x); }) == 1);
  CHECK(check_marked("columns", [](const Tensor& x) { return sum(x, 0) / 3; }) == 2);
  CHECK(check_marked("logsumexp", [](const Tensor& x) { return logsumexp(x, 1); }) == 1);
  CHECK(check_marked("cumulative", [](const Tensor& x) { return cumsum(x, 1) + cumsum(x, 0); }) == 1);
  CHECK(check_marked("transposed", [](const Tensor& x) { return reshape(transpose(x), {-1}) * 2; }) <= 2);
}

TEST_CASE("sizes that may be 0 or 1: what decides by them is compiled for each answer") {
  check_marked("amax", [](const Tensor& x) { return amax(x, 1); });
  check_marked("argmin", [](const Tensor& x) { return argmin(x, 0); });
  check_marked("squeeze", [](const Tensor& x) { return squeeze(x, 0) + 1; });
  check_marked("slice", [](const Tensor& x) { return slice(x, 1, 1) * 2; });
  check_marked("select", [](const Tensor& x) { return select(x, 0, -1); });
  check_marked("reshape", [](const Tensor& x) { return reshape(x, {-1, x.size(1)}) + 1; });
  check_marked("quotient", [](const Tensor& x) { return x * (x.size(0) * x.size(1) / x.size(1)); });
  check_marked("concat", [](const Tensor& x) { return concat({x, flip(x, 0), slice(x, 0, 0, 1)}); });
  check_marked("var", [](const Tensor& x) { return var(x, 1) + var(x, 0, 0, true); });
  check_marked("pad", [](const Tensor& x) { return pad(x, 1, 1, 2) + 1; });
  check_marked("roll", [](const Tensor& x) { return roll(x, 2, 1); });
}

TEST_CASE("sizes that may be 0 or 1: products, gathers, orders and scatters") {
  check_marked("outer product", [](const Tensor& x) { return matmul(transpose(round(x)), round(x)); });
  check_marked("inner product", [](const Tensor& x) { return matmul(round(x), transpose(round(x))) + 1; });
  check_marked("batches", [](const Tensor& x) {
    const Tensor y = round(reshape(x, {x.size(0), 1, x.size(1)}));
    return matmul(transpose(y), y);
  });
  check_marked("rows", [](const Tensor& x) { return gather(x, argsort(select(x, 1, 0))); });
  check_marked("sort", [](const Tensor& x) { return sort(x, 1).values + sort(x, 0).values; });
  check_marked("topk", [](const Tensor& x) { return topk(x, 1, 1).values; });
  check_marked("rows set", [](const Tensor& x) { return set_rows(x, arange(x.size(0)), x * 2); });
  check_marked("rows added", [](const Tensor& x) { return index_add(zeros_like(x), 0, arange(x.size(0)), x); });
  check_marked("median", [](const Tensor& x) { return median(x, 1).values; });
  check_marked("where", [](const Tensor& x) { return where(slice(x, 1, 0, 1) > 0, x, -x); });
}

TEST_CASE("sizes that may be 0 or 1: gradients, layers and loops") {
  check_marked("gradient", [](const Tensor& x) {
    return grad([](const Tensor& v) { return sum(square(softmax(v)) * v) + sum(mean(v, 1)); }, x);
  });
  check_marked("layer norm", [](const Tensor& x) {
    return grad([](const Tensor& v) { return sum(square(nn::layer_norm(v, {v.size(1)}))); }, x);
  });
  check_marked("loss",
               [](const Tensor& x) { return grad([](const Tensor& v) { return nn::mse_loss(v, v * 0.5); }, x); });
  check_marked("attention", [](const Tensor& x) {
    const Tensor y = reshape(cumsum(ones({x.size(0), 4}), 0), {1, 1, x.size(0), 4}) + sum(x);
    return nn::scaled_dot_product_attention(y, y, y);
  });
  check_marked("scan", [](const Tensor& x) {
    return scan([](const Tensor& carry, const Tensor& row) { return std::pair(carry + sum(row), carry * row); },
                zeros({}), x)
        .second;
  });
  check_marked("convolution", [](const Tensor& x) {
    return conv1d(reshape(round(x), {x.size(0), 1, x.size(1)}), ones({2, 1, 3}), {.padding = 1});
  });
}

TEST_CASE("two operands of sizes that may be 1: the broadcast is decided by the call") {
  const auto body = [](const Tensor& x, const Tensor& y) { return x * 2 + y; };
  auto f = compile(body, {.on_compile_error = OnFailure::raise});
  for (int round = 0; round < 2; ++round)
    for (const std::int64_t a : {7, 1, 0, 4})
      for (const std::int64_t b : {7, 1, 0, 4}) {
        CAPTURE(a);
        CAPTURE(b);
        const Tensor x = normal_of({a, 3}), y = normal_of({b, 3});
        CHECK(outcome([&] { return f(x, y); }) == outcome([&] { return body(x, y); }));
      }
  CHECK(specialization_count(f) <= 6);
}

TEST_CASE("an input that nothing reads takes no guard on its sizes") {
  auto f = compile([](const Tensor& x, const Tensor&) { return x * 2; });
  for (const std::int64_t size : {0, 2, 1, 7, 0, 3}) CHECK(numbers_of(f(ones({2}), ones({size, 3}))) == Numbers{2, 2});
  CHECK(specialization_count(f) == 1);
  f(ones({2}), ones({2, 9}));
  CHECK(specialization_count(f) == 1);
  f(ones({2}), ones({2}));
  CHECK(specialization_count(f) == 2);
  CHECK(last_recompile_reason(f) == "argument 1: number of dimensions was 2, is 1");

  auto returned = compile([](const Tensor& x, const Tensor& y) { return std::pair(x, y + 1); });
  for (const std::int64_t size : {4, 1, 0}) {
    const auto [same, more] = returned(ones({size}), ones({3}));
    CHECK(numbers_of(same) == Numbers(static_cast<std::size_t>(size), 1));
    CHECK(numbers_of(more) == Numbers(3, 2));
  }
  CHECK(specialization_count(returned) == 1);

  auto each = compile([](const Tensor& x, const Tensor&) { return x * 2; }, {.dynamic = false});
  for (const std::int64_t size : {0, 2, 1}) each(ones({2}), ones({size}));
  CHECK(specialization_count(each) == 3);
}

TEST_CASE("an input of which only a size is read keeps the guards that this takes") {
  auto scaled = compile([](const Tensor& x, const Tensor& y) { return x * y.size(0); });
  for (const std::int64_t size : {5, 4, 1, 0, 7, 9}) {
    CHECK(numbers_of(scaled(ones({2}), ones({size}))) == Numbers(2, static_cast<float>(size)));
  }
  CHECK(specialization_count(scaled) <= 3);
  auto number = compile([](const Tensor& x, const Tensor& y) { return x * double(std::int64_t(y.size(0))); });
  auto chosen = compile([](const Tensor& x, const Tensor& y) { return y.size(0) < Dim(3) ? x + 1 : x + 2; });
  auto filled = compile([](const Tensor& x, const Tensor& y) { return x + sum(ones_like(y)); });
  for (const std::int64_t size : {5, 2, 4, 1}) {
    CHECK(numbers_of(number(ones({2}), ones({size}))) == Numbers(2, static_cast<float>(size)));
    CHECK(numbers_of(chosen(ones({2}), ones({size}))) == Numbers(2, size < 3 ? 2.f : 3.f));
    CHECK(numbers_of(filled(ones({2}), ones({size}))) == Numbers(2, 1 + static_cast<float>(size)));
  }
  CHECK(specialization_count(number) == 4);
  // Of two of which one is read, the other is free.
  auto one = compile([](const Tensor& x, const Tensor& y, const Tensor&) { return x * y.size(0); });
  for (const std::int64_t size : {5, 4, 1}) one(ones({2}), ones({3}), ones({size}));
  CHECK(specialization_count(one) == 1);
}

TEST_CASE("specializations for sizes of 0 and 1 do not count towards the limit, and the warning says what helps") {
  const auto body = [](const Tensor& x, const Tensor& y) { return x + y; };
  auto f = compile(body, {.on_recompile_limit = OnFailure::raise, .recompile_limit = 1});
  for (const std::int64_t a : {4, 5, 1, 0, 6})
    for (const std::int64_t b : {6, 1}) f(ones({a, 2}), ones({a == 6 ? b : a, 2}));
  CHECK(specialization_count(f) > 2);
  auto strict = compile([](const Tensor& x) { return squeeze(x, 0); },
                        {.on_recompile_limit = OnFailure::raise, .recompile_limit = 0});
  Tensor x = ones({4, 3});
  mark_dynamic(x, 0, 0);
  strict(x);
  CHECK(contains(message_of([&] { strict(ones({1, 3})); }), "mark_dynamic(x, axis, 0)"));
}
