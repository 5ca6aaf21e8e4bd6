// What tracing cannot see is refused with the user's line; after each error the thread's state and the caller's objects
// are as before, and the next call works.
#include <optional>
#include <stdexcept>
#include <thread>
#include <variant>

#include "tests/trace/support.hpp"
#include "weft/nn.hpp"
#include "weft/random.hpp"

using namespace weft;
using namespace trace_test;

namespace {
Tensor global_tensor;
bool fail_now = false;
struct Cache {
  std::vector<Tensor> list;
  std::optional<Tensor> maybe;
  std::string name;
  Param weight;
};
// Cannot be copied, so it is traced in place.
struct Pinned {
  Tensor value;
  int steps = 0;
  Pinned(Tensor value) : value(std::move(value)) {}
  Pinned(Pinned&&) = default;
  WEFT_MEMBERS(value, steps)
};
}  // namespace

TEST_CASE("a tensor from outside the trace, used") {
  global_tensor = vector_of({1, 2});
  const int line = __LINE__ + 1;
  auto f = compile([](const Tensor& x) { return x + global_tensor; });
  std::string message = message_of([&] { f(vector_of({1, 2})); });
  CHECK(contains(message, "[add] a tensor from outside the trace (f32[2], made at support.hpp:"));
  CHECK(contains(message, "pass it as an argument, or use constant()"));
  CHECK(contains(message, AT_LINE(line)));
  auto broadcast = compile([](const Tensor& x) { return x * global_tensor; });
  CHECK(contains(message_of([&] { broadcast(ones({3, 2})); }), "[mul] a tensor from outside the trace"));
  // A number's value would stay what it was at the first call.
  static Scalar rate = 0.5;
  auto scaled = compile([](const Tensor& x) { return x * rate; });
  CHECK(contains(message_of([&] { scaled(ones({2})); }), "[mul] a tensor from outside the trace (f64[]') is used in"));
  static Tensor two = full({}, 2);
  auto doubled = compile([](const Tensor& x) { return x * two; });
  CHECK(contains(message_of([&] { doubled(ones({2})); }), "[mul] a tensor from outside the trace (f32[], made at"));
  auto inside = compile([](const Tensor& x) { return x * Scalar(0.5) + full({}, 2); });
  CHECK(numbers_of(inside(vector_of({2, 4}))) == Numbers{3, 4});
  CHECK(numbers_of(vector_of({1}) + 1) == Numbers{2});
}

TEST_CASE("a tensor from outside the trace, returned or put into state") {
  const int line = __LINE__ + 1;
  global_tensor = zeros({2});
  auto f = compile([](const Tensor&) { return global_tensor; });
  CHECK(contains(message_of([&] { f(vector_of({1})); }), "the result is a tensor from outside the trace (f32[2])"));
  CHECK(contains(message_of([&] { f(vector_of({1})); }), AT_LINE(line)));
  auto g = compile([](Cache& c) { c.weight = global_tensor; });
  Cache cache;
  CHECK(contains(message_of([&] { g(cache); }), "argument 0 (weight) is a tensor from outside the trace"));
  CHECK_FALSE(cache.weight.tensor().defined());
}

TEST_CASE("a handle that outlives the trace is refused when the function returns, and when it is used") {
  const int line = __LINE__ + 2;
  auto f = compile([](const Tensor& x) {
    Tensor y = x * 3;
    global_tensor = y;
    return y + 1;
  });
  std::string message = message_of([&] { f(vector_of({1})); });
  CHECK(contains(message, "is still held after the function returned"));
  CHECK(contains(message, AT_LINE(line)));
  const int use = __LINE__ + 1;
  message = message_of([&] { global_tensor + 1; });
  CHECK(contains(message, "a tensor of a finished or of another trace"));
  CHECK(contains(message, AT_LINE(use)));
  auto g = compile([](const Tensor& x) { return x + 1; });
  message = message_of([&] { g(global_tensor); });
  CHECK(contains(
      message, "argument 0 is a tensor of a finished trace (f32[1], made at refuse_test.cpp:" + std::to_string(line)));
  global_tensor = Tensor();
}

TEST_CASE("a tensor of another thread's trace") {
  static Tensor shared;
  auto f = compile([](const Tensor& x) {
    Tensor y = x + 1;
    std::string message;
    std::thread([&] { message = message_of([&] { shared = y * 2; }); }).join();
    if (!contains(message, "of another trace")) throw std::runtime_error("not refused: " + message);
    return y;
  });
  CHECK(numbers_of(f(vector_of({1}))) == Numbers{2});
}

TEST_CASE("reading a value inside a trace") {
  const int line = __LINE__ + 1;
  auto f = compile([](const Tensor& x) { return x * sum(x).item(); }, {.fullgraph = true});
  std::string message = message_of([&] { f(vector_of({1, 2})); });
  CHECK(contains(message, AT_LINE(line)));
  CHECK_FALSE(contains(message, "internal"));
}

TEST_CASE("overlapping mutable arguments") {
  auto f = compile([](Cache& c, const Tensor& x) { c.weight = c.weight + x; });
  Cache cache;
  cache.weight = vector_of({1});
  cache.list = {vector_of({2}), vector_of({3})};
  const int line = __LINE__ + 1;
  std::string message = message_of([&] { f(cache, cache.weight); });
  CHECK(contains(message, "argument 0, which is written, overlaps argument 1: pass an object once"));
  CHECK(contains(message, AT_LINE(line)));
  CHECK(contains(message_of([&] { f(cache, cache.list[1]); }), "overlaps"));
  auto two = compile([](Tensor& a, Tensor& b) { a = a + b; });
  CHECK(contains(message_of([&] { two(cache.list[0], cache.list[0]); }), "overlaps"));
  two(cache.list[0], cache.list[1]);
  CHECK(numbers_of(cache.list[0]) == Numbers{5});
  auto read = compile([](const Cache& c, const Tensor& x) { return c.weight + x; });
  CHECK(numbers_of(read(cache, cache.weight)) == Numbers{2});
}

TEST_CASE("lengths, presence, text and frozen flags must not change inside") {
  Cache cache;
  cache.list = {vector_of({1})};
  auto grow = compile([](Cache& c) { c.list.push_back(c.list[0] + 1); });
  CHECK(contains(message_of([&] { grow(cache); }),
                 "argument 0 (list): a compiled function must not change lengths, presence, alternatives or classes in "
                 "its state (was length 1, is length 2)"));
  auto appear = compile([](Cache& c) { c.maybe = c.list[0] + 1; });
  CHECK(contains(message_of([&] { appear(cache); }), "argument 0 (maybe): a compiled function must not change"));
  auto rename = compile([](Cache& c) { c.name += "x"; });
  CHECK(contains(message_of([&] { rename(cache); }), "argument 0 (name): a compiled function must not change"));
  auto freeze = compile([](Cache& c) { c.weight.frozen = true; });
  CHECK(contains(message_of([&] { freeze(cache); }), "argument 0 (weight): freeze and unfreeze outside"));
  CHECK(cache.list.size() == 1);
  CHECK_FALSE(cache.maybe.has_value());
  CHECK(cache.name.empty());
  CHECK_FALSE(cache.weight.frozen);
}

TEST_CASE("an exception in a traced function leaves state untouched, and the next call works") {
  auto f = compile([](Cache& c, const Tensor& x) {
    c.weight = c.weight + x;
    c.list[0] = x;
    if (fail_now) throw std::runtime_error("the user's");
    return c.weight * 1;
  });
  Cache cache;
  cache.weight = vector_of({1});
  cache.list = {vector_of({2})};
  fail_now = true;
  CHECK_THROWS_WITH(f(cache, vector_of({1})), "the user's");
  CHECK(numbers_of(cache.weight) == Numbers{1});
  CHECK(numbers_of(cache.list[0]) == Numbers{2});
  const int line = __LINE__ + 1;
  CHECK(
      contains(message_of([&] { compile([](const Tensor& x) { return x + from_list<float>({1}); })(vector_of({1})); }),
               AT_LINE(line)));
  fail_now = false;
  CHECK(numbers_of(f(cache, vector_of({1}))) == Numbers{2});
  CHECK(numbers_of(cache.weight) == Numbers{2});
}

TEST_CASE("a compiled function inside another that throws: the outer trace goes on, or both are gone") {
  static const auto inner = compile([](const Tensor& x) {
    Tensor y = x * 2;
    if (fail_now) throw std::runtime_error("the user's");
    return y;
  });
  auto outer = compile([](const Tensor& x) { return inner(x) + 1; });
  auto catching = compile(
      [](const Tensor& x) {
        Tensor y = x + 1;
        try {
          y = inner(y);
        } catch (const std::runtime_error&) {
          y = y - 3;
        }
        return y * x;
      },
      {.check = Check::never});
  fail_now = true;
  CHECK(numbers_of(catching(vector_of({5}))) == Numbers{15});
  CHECK_THROWS_WITH(outer(vector_of({5})), "the user's");
  fail_now = false;
  CHECK(numbers_of(vector_of({5}) * 2) == Numbers{10});
  CHECK(numbers_of(outer(vector_of({5}))) == Numbers{11});
  CHECK(specialization_count(inner) == 0);
}

TEST_CASE("what cannot be copied is traced in place, and put back when the function throws") {
  auto f = compile([](Pinned& p) {
    p.value = p.value + 1;
    p.steps = 5;
    if (fail_now) throw std::runtime_error("the user's");
  });
  Pinned pinned(vector_of({1}));
  fail_now = true;
  CHECK_THROWS_WITH(f(pinned), "the user's");
  CHECK(numbers_of(pinned.value) == Numbers{1});
  CHECK(pinned.steps == 0);
  fail_now = false;
  f(pinned);
  f(pinned);
  CHECK(numbers_of(pinned.value) == Numbers{3});
  CHECK(pinned.steps == 5);
}

TEST_CASE("shapes that do not fit, inside: the operation's own message with the line inside") {
  const int line = __LINE__ + 1;
  auto f = compile([](const Tensor& x, const Tensor& y) { return x + y; });
  std::string message = message_of([&] { f(vector_of({1, 2}), vector_of({1, 2, 3})); });
  CHECK(contains(message, "[add] shapes do not broadcast: f32[2] x f32[3]"));
  CHECK(contains(message, AT_LINE(line)));
  CHECK(numbers_of(f(vector_of({1, 2}), vector_of({1, 2}))) == Numbers{2, 4});
  CHECK(specialization_count(f) == 1);
}

TEST_CASE("shapes that do not fit, inside, at symbolic sizes: this call's sizes too") {
  auto f = compile([](const Tensor& x, const Tensor& y) { return x + y; }, {.dynamic = true});
  const std::string message = message_of([&] { f(ones({9}), ones({4})); });
  CHECK(
      contains(message, "[add] shapes do not broadcast: f32[s0] x f32[s1], where s0 = 9, s1 = 4, at refuse_test.cpp:"));
  CHECK_FALSE(contains(message_of([] { ones({9}) + ones({4}); }), "where"));
}

TEST_CASE("the default generator is no argument: other threads draw from it meanwhile") {
  auto draw = compile([](Generator& g) { return uniform({4}, 0, 1, g); });
  Generator own(7);
  draw(own);
  const std::string message = message_of([&] { draw(default_generator()); });
  CHECK(
      contains(message, "belongs to the default generator, which all threads share: draw from it without passing it"));
  CHECK(contains(message, "refuse_test.cpp"));
  CHECK(uniform({2}).element_count() == 2);
}

TEST_CASE("generators: by reference, and the default one as hidden state") {
  for (Backend backend : {Backend::compiled, Backend::eager, Backend::reference}) {
    auto draw = compile([](Generator& g) { return uniform({4}, 0, 1, g); }, {.backend = backend});
    Generator compiled(7), plain(7);
    for (int i = 0; i < 3; ++i) CHECK(numbers_of(draw(compiled)) == numbers_of(uniform({4}, 0, 1, plain)));
    auto hidden = compile([](const Tensor& x) { return x + uniform({4}); }, {.backend = backend});
    seed(3);
    std::vector<Numbers> expected;
    for (int i = 0; i < 3; ++i) expected.push_back(numbers_of(zeros({4}) + uniform({4})));
    seed(3);
    for (int i = 0; i < 3; ++i) CHECK(numbers_of(hidden(zeros({4}))) == expected[static_cast<std::size_t>(i)]);
  }
}

namespace {
struct Named {
  std::string name;
  Tensor value;
};
}  // namespace
TEST_CASE("a variant that lost its value") {
  struct Throws {
    operator std::string() const { throw std::runtime_error("no text"); }
  };
  auto f = compile([](const std::variant<Tensor, Named>& v) { return std::get<0>(v) + 1; });
  std::variant<Tensor, Named> v = vector_of({1});
  CHECK(numbers_of(f(v)) == Numbers{2});
  CHECK_THROWS_AS(v.emplace<1>(Throws()), std::runtime_error);
  REQUIRE(v.valueless_by_exception());
  CHECK(contains(message_of([&] { f(v); }), "[compile] a variant has no value"));
}

TEST_CASE("rows by an index that lives on another device") {
  auto f = compile([](const Tensor& table, const Tensor& index) { return gather(table, to(index, Device::cuda())); });
  const std::string message = message_of([&] { f(vector_of({1, 2}), arange(2)); });
  CHECK(contains(message, "[gather] operands live on different devices: f32[2] x i64[2]"));
}

TEST_CASE("labels that live on another device than the logits") {
  auto f =
      compile([](const Tensor& z, const Tensor& labels) { return nn::cross_entropy(z, to(labels, Device::cuda())); });
  const std::string message = message_of([&] { f(ones({2, 4}), arange(2)); });
  CHECK(contains(message,
                 "[cross_entropy] logits and labels live on different devices, move one by to(): f32[2,4] x i64[2]"));
}

TEST_CASE("a layer whose weight lives on another device than its input shows it as it was made") {
  auto f = compile([](const Tensor& x, const Tensor& w) { return nn::linear(x, to(w, Device::cuda())); });
  const std::string message = message_of([&] { f(ones({2, 3}), ones({4, 3})); });
  CHECK(contains(message,
                 "[linear] input and weight live on different devices, move one by to(): f32[2,3] x f32[4,3]@cuda:0"));
}
