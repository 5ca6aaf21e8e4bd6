// Taps: values from inside a model, by path; eagerly, compiled and in gradients.
#include "weft/taps.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "../needs_compiler.hpp"
#include "tests/message_of.hpp"
#include "weft/weft.hpp"

using namespace weft;

namespace {

// The same with taps and without.
template <bool heard>
Tensor maybe_tap(const char* name, const Tensor& x) {
  if constexpr (heard)
    return tap(name, x);
  else
    return x;
}
template <bool heard>
struct Block {
  Param weight = full({}, 2);
  Tensor operator()(const Tensor& x) const { return maybe_tap<heard>("attention", x * weight) + 1; }
};
template <bool heard>
struct ModelOf {
  std::vector<Block<heard>> blocks = std::vector<Block<heard>>(3);
  Tensor operator()(const Tensor& x) const {
    Tensor y = x;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const TapScope scope("blocks", static_cast<std::int64_t>(i));
      y = blocks[i](y);
    }
    return maybe_tap<heard>("last", y);
  }
};
using Model = ModelOf<true>;

Tensor two() { return from_list({1.f, 2.f}); }
std::vector<float> numbers_of(const Tensor& x) {
  std::vector<float> numbers(static_cast<std::size_t>(x.element_count().constant()));
  x.copy_to<float>(numbers);
  return numbers;
}
using Numbers = std::vector<float>;
using weft::test::message_of;
bool contains(const std::string& text, const char* part) {
  INFO(text);
  const bool found = text.find(part) != text.npos;
  CHECK(found);
  return found;
}

}  // namespace

TEST_CASE("values are given by path, in the order of the request") {
  const Model model;
  CHECK(numbers_of(model(two())) == Numbers{15, 23});
  const auto [y, taps] = with_taps({"last", "blocks.1.attention"}, [&] { return model(two()); });
  CHECK(numbers_of(y) == Numbers{15, 23});
  REQUIRE(taps.size() == 2);
  CHECK(numbers_of(taps[0]) == Numbers{15, 23});
  CHECK(numbers_of(taps[1]) == Numbers{6, 10});
  CHECK(with_taps({}, [&] { return model(two()); }).taps.empty());
  const auto nothing = with_taps({"last"}, [&] { (void)model(two()); });
  CHECK(numbers_of(nothing.taps[0]) == Numbers{15, 23});
}

TEST_CASE("a path that is not met is an error that names those that are; one that is met again gets a number") {
  const Model model;
  contains(message_of([&] {
             (void)with_taps({"last", "blocks.7.attention"}, [&] { return model(two()); });
           }),
           "[with_taps] no tap has the path blocks.7.attention; there are: blocks.0.attention, blocks.1.attention, "
           "blocks.2.attention, last, at ");
  contains(message_of([&] { (void)with_taps({"a"}, [] { return two(); }); }),
           "no tap has the path a; the function has none");
  const auto twice = [&] { return model(model(two())); };
  const auto [y, taps] = with_taps({"last", "last#1", "blocks.0.attention#1"}, twice);
  CHECK(numbers_of(taps[0]) == Numbers{15, 23});
  CHECK(numbers_of(taps[1]) == numbers_of(y));
  CHECK(numbers_of(taps[2]) == Numbers{30, 46});
  contains(message_of([&] { (void)with_taps({"last#2"}, twice); }), "last, blocks.0.attention#1");
  // What was thrown leaves nobody who listens.
  CHECK_THROWS_AS(with_taps({"a"}, []() -> Tensor { throw Error("mine"); }), Error);
  CHECK(numbers_of(with_taps({"last"}, [&] { return model(two()); }).taps[0]) == Numbers{15, 23});
}

TEST_CASE("scopes around with_taps are no part of a path; with_taps may be nested") {
  const Model model;
  const TapScope unheard("outside");
  const auto outer = with_taps({"encoder.own", "encoder.last"}, [&] {
    const TapScope scope("encoder");
    tap("own", two() * 2);
    return with_taps({"blocks.0.attention"}, [&] { return model(two()); });
  });
  CHECK(numbers_of(outer.taps[0]) == Numbers{2, 4});
  CHECK(numbers_of(outer.taps[1]) == Numbers{15, 23});
  CHECK(numbers_of(outer.value.taps[0]) == Numbers{2, 4});
}

TEST_CASE("inside compile() taps become results") {
  const Model model;
  const auto f = compile([](const Model& m, const Tensor& x) {
    return with_taps({"blocks.0.attention", "last"}, [&] { return m(x); });
  });
  for (int i = 0; i < 3; ++i) {
    const auto [y, taps] = f(model, two() + i);
    CHECK(numbers_of(taps[0]) == Numbers{2.f + 2 * static_cast<float>(i), 4.f + 2 * static_cast<float>(i)});
    CHECK(numbers_of(taps[1]) == numbers_of(y));
  }
  CHECK(explain(f, model, two()).specializations == 1);

  // The paths are an argument, and its text is guarded.
  const auto named = compile([](const Model& m, const Tensor& x, const std::string& path) {
    return with_taps({path}, [&] { return m(x); }).taps[0];
  });
  CHECK(numbers_of(named(model, two(), "blocks.0.attention")) == Numbers{2, 4});
  CHECK(numbers_of(named(model, two(), "blocks.1.attention")) == Numbers{6, 10});
  CHECK(numbers_of(named(model, two(), "blocks.0.attention")) == Numbers{2, 4});
  contains(message_of([&] { named(model, two(), "a"); }), "no tap has the path a; there are: blocks.0.attention");
}

TEST_CASE("where nobody asks for a tap, the graph is the same as without it" * test::needs(test::a_compiler)) {
  const Model model;
  const auto with = explain(compile([](const Model& m, const Tensor& x) { return m(x); }), model, two());
  const auto without =
      explain(compile([](const ModelOf<false>& m, const Tensor& x) { return m(x); }), ModelOf<false>(), two());
  CHECK(with.graph == without.graph);
  CHECK(with.kernels.size() == 1);
  CHECK(with.kernels[0].source == without.kernels[0].source);
}

TEST_CASE("a compiled function inside with_taps is a plain function: no tap is missed") {
  const Model model;
  const auto f = compile([](const Model& m, const Tensor& x) { return m(x); });
  CHECK(numbers_of(f(model, two())) == Numbers{15, 23});
  for (int i = 0; i < 2; ++i) {
    const auto [y, taps] = with_taps({"blocks.2.attention"}, [&] { return f(model, two()); });
    CHECK(numbers_of(y) == Numbers{15, 23});
    CHECK(numbers_of(taps[0]) == Numbers{14, 22});
  }
  // explain() traces, and what it traces is not met.
  contains(message_of([&] {
             (void)with_taps({"last"}, [&] { return explain(f, model, two() + zeros({2, 2})).specializations; });
           }),
           "no tap has the path last; the function has none");
  // A state that is written, as by a compiled call.
  Model changed;
  const auto step = compile([](Model& m, const Tensor& x) {
    m.blocks[0].weight = tap("next", m.blocks[0].weight * 2);
    return m(x);
  });
  CHECK(with_taps({"next"}, [&] { return step(changed, two()); }).taps[0].item() == 4);
  CHECK(changed.blocks[0].weight->item() == 4);
}

TEST_CASE("taps inside grad and around it") {
  const Model model;
  const auto loss = [](const Model& m) {
    auto [y, taps] = with_taps({"blocks.1.attention"}, [&] { return m(two()); });
    return std::pair{sum(y) + sum(taps[0]), taps[0]};
  };
  const auto [value, g] = value_and_grad(loss, model);
  CHECK(numbers_of(value.second) == Numbers{6, 10});
  CHECK(value.first.item() == 54);
  // d/dw0 of sum(((x w0 + 1) w1 + 1) w2 + 1) + sum((x w0 + 1) w1)
  CHECK(g.blocks[0].weight->item() == 3 * 4 + 3 * 2);
  const auto around = [](const Model& m, const Tensor& x) {
    return with_taps({"blocks.1.attention"},
                     [&] { return grad([&](const Model& m) { return sum(m(x)); }, m).blocks[0].weight; });
  };
  for (const auto& [gradient, taps] : {around(model, two()), compile(around)(model, two())}) {
    CHECK(gradient->item() == 12);
    CHECK(numbers_of(taps[0]) == Numbers{6, 10});
  }
}

TEST_CASE("a tap in the body of a loop that is asked for from outside is refused") {
  const auto looped = [](const Tensor& x) {
    return fori(
        0, 3, [](const Index&, const Tensor& s) { return tap("round", s * 2); }, x);
  };
  CHECK(numbers_of(looped(two())) == Numbers{8, 16});
  contains(
      message_of([&] { (void)with_taps({"round"}, [&] { return looped(two()); }); }),
      "[tap] round is asked for, and is in the body of a loop or a choice (scan, fori, while_loop, cond): its value "
      "belongs to one iteration; return it from the body, or write with_taps there, at ");
  // Where it is not asked for, and where with_taps is in the body.
  CHECK(numbers_of(with_taps({"x"}, [&] { return looped(tap("x", two())); }).value) == Numbers{8, 16});
  const Tensor inside = fori(
      0, 3,
      [](const Index&, const Tensor& s) {
        return with_taps({"round"}, [&] { return tap("round", s * 2) + 1; }).taps[0];
      },
      two());
  CHECK(numbers_of(inside) == Numbers{8, 16});
}
