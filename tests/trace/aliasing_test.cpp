// Tensors are values: whatever memory is shared (views that overlap, repeat or start anywhere, one tensor in several
// places, results that are views of one another), a call changes what it is to change and nothing else.
#include <thread>

#include "base/options.hpp"
#include "tests/trace/support.hpp"
#include "weft/grad.hpp"
#include "weft/random.hpp"

using namespace weft;
using namespace trace_test;

namespace {
struct Tied {
  Param weight;
};
struct Views {
  Tensor value, reshaped, part, argument, again;
};
struct KeepThreads {
  int before = options().num_threads;
  ~KeepThreads() { options().num_threads = before; }
};
Tensor twice(const Tensor& x) { return x * 2; }
Tensor thrice(const Tensor& x) { return x * 3; }
}  // namespace

TEST_CASE("state that is an overlapping, an expanded or a reversed view: the base and the other views stay") {
  for (Backend backend : backends) {
    auto f = compile(
        [](Tensor& a, Tensor& b) {
          a = a + b;
          b = b * 2;
          return a;
        },
        {.backend = backend});
    Tensor base = vector_of({1, 2, 3, 4, 5, 6}).eval();
    Tensor a = slice(base, 0, 0, 4), b = slice(base, 0, 2, 6);
    CHECK(numbers_of(f(a, b)) == Numbers{4, 6, 8, 10});
    CHECK(numbers_of(b) == Numbers{6, 8, 10, 12});
    CHECK(numbers_of(f(a, b)) == Numbers{10, 14, 18, 22});
    CHECK(numbers_of(base) == Numbers{1, 2, 3, 4, 5, 6});
    Tensor row = vector_of({1, 2}).eval();
    a = expand(row, {2, 2}), b = flip(expand(row, {2, 2}), 1);
    CHECK(numbers_of(f(a, b)) == Numbers{3, 3, 3, 3});
    CHECK(numbers_of(b) == Numbers{4, 2, 4, 2});
    CHECK(numbers_of(f(a, b)) == Numbers{7, 5, 7, 5});
    CHECK(numbers_of(row) == Numbers{1, 2});
    a = base, b = base;  // one value in two states
    CHECK(numbers_of(f(a, b)) == Numbers{2, 4, 6, 8, 10, 12});
    CHECK(numbers_of(b) == Numbers{2, 4, 6, 8, 10, 12});
    CHECK(numbers_of(base) == Numbers{1, 2, 3, 4, 5, 6});
  }
}

TEST_CASE("outside of compiled functions too: a view that was read before its base changed keeps what it had") {
  Tensor base = vector_of({1, 2, 3, 4}).eval();
  Tensor repeated = expand(slice(base, 0, 1, 2), {3}), window = slice(base, 0, 1, 3), pending = flip(base, 0);
  CHECK(numbers_of(window) == Numbers{2, 3});
  Tensor before = base;
  base += 10;
  repeated *= 5;
  window += window;
  CHECK(numbers_of(base) == Numbers{11, 12, 13, 14});
  CHECK(numbers_of(repeated) == Numbers{10, 10, 10});
  CHECK(numbers_of(window) == Numbers{4, 6});
  CHECK(numbers_of(pending) == Numbers{4, 3, 2, 1});
  CHECK(numbers_of(before) == Numbers{1, 2, 3, 4});
}

TEST_CASE("arguments that start at any element of another tensor") {
  for (DType dtype : {DType::f32, DType::f64, DType::i64, DType::u8, DType::bf16}) {
    auto f = compile([](Tensor& state, const Tensor& x, const Tensor& matrix) {
      state = state + x;
      return std::tuple{x * 2 + 1, sum(cast(x, DType::f64)), matmul(matrix, matrix), amax(x)};
    });
    Tensor base = cast(arange(120), dtype).eval(), small = cast(arange(60), DType::f32).eval();
    for (std::int64_t offset = 0; offset <= 17; ++offset) {
      Tensor x = slice(base, 0, offset, offset + 67), state = slice(base, 0, 17 - offset, 84 - offset);
      Tensor matrix = reshape(slice(small, 0, offset, offset + 25), {5, 5});
      auto [doubled, total, product, greatest] = f(state, x, matrix);
      INFO(info(dtype).name, " from ", offset);
      CHECK(sum(doubled != cast(arange(67) + offset, dtype) * 2 + 1).item() == 0);
      CHECK(total.item() == 67 * offset + 67 * 33);
      CHECK(greatest.item() == offset + 66);
      CHECK(sum(state != cast(arange(67) * 2 + 17, dtype)).item() == 0);
      Tensor whole = cast(reshape(arange(25) + offset, {5, 5}), DType::f32);
      CHECK(numbers_of(product) == numbers_of(matmul(whole, whole)));
    }
    CHECK(sum(base != cast(arange(120), dtype)).item() == 0);
    CHECK(specialization_count(f) == 1);
  }
}

TEST_CASE("one tensor in two places: each place has its gradient, and a parameter that is used twice gets the sum") {
  for (Backend backend : backends) {
    auto f = compile(
        [](const Tensor& x, const Tensor& y) {
          auto [a, b] = grad([](const std::pair<Tensor, Tensor>& p) { return sum(p.first * p.first * p.second); },
                             std::pair(x, y));
          return std::pair{a, b};
        },
        {.backend = backend});
    Tensor x = vector_of({1, 2});
    auto [a, b] = f(x, x);
    CHECK(numbers_of(a) == Numbers{2, 8});
    CHECK(numbers_of(b) == Numbers{1, 4});
    auto tied = compile(
        [](Tied& m, const Tensor& x) {
          Tied g = grad([&](const Tied& m) { return sum(m.weight * x) + sum(m.weight * m.weight); }, m);
          m.weight = m.weight - g.weight;
        },
        {.backend = backend});
    Tied model{x};
    tied(model, x);  // the argument is the parameter's own value
    CHECK(numbers_of(model.weight) == Numbers{-2, -4});
    CHECK(numbers_of(x) == Numbers{1, 2});
  }
}

TEST_CASE("results that are views of one another, or of an argument, stay when one of them moves on") {
  auto step = compile([](Tensor& t) { t = t * 10; });
  for (Backend backend : backends) {
    auto f = compile(
        [](const Tensor& x) {
          Tensor y = x + 1;
          return Views{y, reshape(y, {2, 2}), slice(y, 0, 1, 3), x, y};
        },
        {.backend = backend});
    Tensor x = vector_of({1, 2, 3, 4}).eval();
    for (int round = 0; round < 2; ++round) {
      Views v = f(x);
      Tensor* members[] = {&v.value, &v.reshaped, &v.part, &v.argument, &v.again};
      const Numbers expected[] = {{2, 3, 4, 5}, {2, 3, 4, 5}, {3, 4}, {1, 2, 3, 4}, {2, 3, 4, 5}};
      for (std::size_t changed = 0; changed < 5; ++changed) {
        Tensor before = *members[changed];
        step(*members[changed]);
        for (std::size_t i = 0; i < 5; ++i) {
          Numbers now = numbers_of(*members[i]), then = expected[i];
          if (i <= changed)
            for (float& number : then) number *= 10;
          CHECK(now == then);
        }
        CHECK(numbers_of(before) == expected[changed]);
      }
      CHECK(numbers_of(x) == Numbers{1, 2, 3, 4});
    }
  }
}

TEST_CASE("what arrives by move is not used up while a view of it, or another argument, still needs it") {
  auto f = compile([](Tensor x, const Tensor& y) { return x * 2 + y; });
  for (int round = 0; round < 2; ++round) {
    Tensor x = (ones({1000}) * 3).eval();
    Tensor view = flip(x, 0), part = slice(x, 0, 10, 20);
    view.eval(), part.eval();
    Tensor other = x;
    CHECK(numbers_of(f(std::move(x), other)) == Numbers(1000, 9.0f));
    CHECK(numbers_of(other) == Numbers(1000, 3.0f));
    CHECK(numbers_of(f(std::move(other), view)) == Numbers(1000, 9.0f));
    CHECK(numbers_of(view) == Numbers(1000, 3.0f));
    CHECK(numbers_of(part) == Numbers(10, 3.0f));
  }
}

namespace {
struct Pair {
  Tensor a, b;
};
Tensor ramp() { return (arange(1000, {DType::f32}) + 0).eval(); }
Numbers ramp_and_flipped() {  // of ramp() * 1 + flip(ramp(), 0) * 10
  Numbers expected;
  for (int i = 0; i < 1000; ++i) expected.push_back(static_cast<float>(i + (999 - i) * 10));
  return expected;
}
}  // namespace

TEST_CASE("one object that arrives by move in two places, or in one and by const&, is not written while it is read") {
  auto f = compile([](auto a, auto b) { return a * 1.0f + flip(b, 0) * 10; });
  auto last = compile([](auto a, auto b) { return flip(a, 0) * 10 + b * 1.0f; });
  auto both = compile([](auto a, auto b) { return std::pair{a * 2.0f, b * 3.0f}; });
  auto read = compile([](auto a, const auto& b) { return a * 1.0f + flip(b, 0) * 10; });
  auto pairs = compile([](auto p) { return p.a * 1.0f + flip(p.b, 0) * 10; });
  auto lists = compile([](auto p) { return p[0] * 1.0f + flip(p[1], 0) * 10; });
  auto member = compile([](auto p, auto b) { return p.a * 1.0f + flip(b, 0) * 10; });
  auto state = compile([](Tensor& a, auto b) { a = a * 1.0f + flip(b, 0) * 10; });
  for (int round = 0; round < 3; ++round) {
    Tensor t = ramp();
    CHECK(numbers_of(f(std::move(t), std::move(t))) == ramp_and_flipped());
    t = ramp();
    CHECK(numbers_of(last(std::move(t), std::move(t))) == ramp_and_flipped());
    t = ramp();
    auto [twice, thrice] = both(std::move(t), std::move(t));
    CHECK(numbers_of(twice) == numbers_of(ramp() * 2));
    CHECK(numbers_of(thrice) == numbers_of(ramp() * 3));
    t = ramp();
    CHECK(numbers_of(read(std::move(t), std::as_const(t))) == ramp_and_flipped());
    t = ramp();
    CHECK(numbers_of(pairs(Pair{t, t})) == ramp_and_flipped());
    CHECK(numbers_of(lists(std::vector<Tensor>{t, t})) == ramp_and_flipped());
    CHECK(numbers_of(f(std::move(t), slice(t, 0, 0, 1000))) == ramp_and_flipped());
    Pair p{ramp(), Tensor()};
    CHECK(numbers_of(member(std::move(p), std::move(p.a))) == ramp_and_flipped());
    std::vector<Tensor> list{ramp(), ramp()};
    CHECK(numbers_of(f(std::move(list[1]), std::move(list[1]))) == ramp_and_flipped());
    Tensor a = ramp(), b = a;
    state(a, std::move(b));
    CHECK(numbers_of(a) == ramp_and_flipped());
    CHECK(contains(message_of([&] { state(a, std::move(a)); }), "argument 0, which is written, overlaps argument 1"));
  }
}

TEST_CASE("what arrives by move is undefined afterwards, as with any function that takes it by value") {
  auto f = compile([](auto x) { return x * 2 + 1; });
  Tensor x = vector_of({1, 2}).eval(), kept = x;
  CHECK(numbers_of(f(std::move(x))) == Numbers{3, 5});
  CHECK(!x.defined());
  CHECK(numbers_of(kept) == Numbers{1, 2});
  std::vector<Tensor> list = {vector_of({1}).eval(), vector_of({2}).eval()};
  auto first = compile([](auto list) { return list[0] + list[1]; });
  CHECK(numbers_of(first(std::move(list))) == Numbers{3});
  const Tensor fixed = vector_of({4, 5});
  CHECK(numbers_of(f(std::move(fixed))) == Numbers{9, 11});  // const: copied
  CHECK(numbers_of(fixed) == Numbers{4, 5});
}

TEST_CASE("an object moved into two parameters of type Tensor arrives in one of them") {
  auto f = compile([](Tensor a, Tensor b) { return a + b; });
  Tensor x = vector_of({1, 2}).eval();
  CHECK(contains(message_of([&] { f(std::move(x), std::move(x)); }), "[add] an operand is an undefined tensor"));
  auto defined = compile([](Tensor a, Tensor b) { return a.defined() == b.defined() ? zeros({}) : ones({}); });
  x = vector_of({1, 2}).eval();
  CHECK(defined(std::move(x), std::move(x)).item() == 1);
}

TEST_CASE("what arrives by move alone gives its memory to a result") {
  auto f = compile([](auto a, auto b) { return a * 1.0f + b; });
  f(ramp(), ramp());
  Tensor a = ramp(), b = ramp();
  const void* const memory[] = {a.data<float>().data(), b.data<float>().data()};
  const Tensor sum = f(std::move(a), std::move(b));
  const void* const result = sum.data<float>().data();
  CHECK((result == memory[0] || result == memory[1]));
}

TEST_CASE("the number of threads is no guard: it changes nothing, to the last bit") {
  KeepThreads keep;
  auto f = compile([](const Tensor& x) { return std::tuple{softmax(x), sum(x, 0), sum(x), matmul(transpose(x), x)}; });
  Tensor x = uniform({1000, 120}).eval();
  std::vector<std::string> texts;
  for (int threads : {1, 2, 3, 7}) {
    options().num_threads = threads;
    auto [a, b, c, d] = f(x);
    texts.push_back(text_of(a) + text_of(b) + text_of(c) + text_of(d));
    CHECK(texts.back() == texts.front());
  }
  CHECK(specialization_count(f) == 1);
}

TEST_CASE("kernels of one name and shape, and functions at an address that was another's, keep their own code") {
  Tensor x = vector_of({1, 2, 3}).eval();
  for (int i = 0; i < 6; ++i) {
    auto f = compile(i % 2 ? &twice : &thrice);  // one type, and mostly one address
    CHECK(numbers_of(f(x)) == (i % 2 ? Numbers{2, 4, 6} : Numbers{3, 6, 9}));
    auto g = compile(i % 2 ? &thrice : &twice);
    CHECK(numbers_of(g(x)) == (i % 2 ? Numbers{3, 6, 9} : Numbers{2, 4, 6}));
    CHECK(numbers_of(f(x)) == (i % 2 ? Numbers{2, 4, 6} : Numbers{3, 6, 9}));
  }
}

TEST_CASE("a trace and a differentiation level are their thread's alone") {
  static const auto other = compile([](const Tensor& x) { return x * 4; });
  auto elsewhere = [](float number) {
    Numbers result;
    std::thread([&] { result = numbers_of(other(vector_of({number}))); }).join();
    return result;
  };
  static Numbers seen;
  auto f = compile([](const Tensor& x) {
    std::thread([] {
      seen = numbers_of(other(vector_of({2})) + grad([](const Tensor& v) { return sum(v); }, ones({1})));
    }).join();
    return x + 1;
  });
  CHECK(numbers_of(f(vector_of({1}))) == Numbers{2});
  CHECK(seen == Numbers{9});
  CHECK(specialization_count(other) == 1);
  Tensor gradient = grad(
      [&](const Tensor& v) {
        CHECK(elsewhere(3) == Numbers{12});
        return sum(v * v);
      },
      vector_of({5}));
  CHECK(numbers_of(gradient) == Numbers{10});
  CHECK(specialization_count(other) == 1);
}
