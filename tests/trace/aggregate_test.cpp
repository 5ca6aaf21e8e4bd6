// Plain structs of every shape: each is seen whole (guarded, trained, named by path), or refused.
#include <array>
#include <optional>
#include <variant>

#include "tests/trace/support.hpp"
#include "weft/grad.hpp"
#include "weft/nn.hpp"

using namespace weft;
using namespace trace_test;
using detail::Flaw;

namespace {

template <class T>
inline constexpr Flaw flaw = detail::Aggregate<T>::flaw;
template <class T>
inline constexpr int count = flaw<T> == Flaw::none ? members<T>::count : -1;

struct Layers {
  nn::Linear l[2] = {{2, 2}, {2, 2}};
  int mode = 0;
};
static_assert(count<Layers> == 2);

struct Nested {
  int first = 0;
  nn::Linear grid[2][2] = {{{1, 1}, {1, 1}}, {{1, 1}, {1, 1}}};
  std::array<Param, 2> pair;
  float table[3][2] = {};
  char name[8] = "x";
};
static_assert(count<Nested> == 5);
struct NoDefault {
  nn::Linear l[2], a, b;
  int mode;
};
static_assert(count<NoDefault> == 4);
struct LongArray {
  float table[200];
  int after;
};
static_assert(count<LongArray> == 2);
struct TooLongArray {
  float table[300];
  int after;
};
static_assert(flaw<TooLongArray> == Flaw::unlistable);

struct Empty {};
struct Other {};
struct OnEmpty : Empty, Other {
  int mode = 0;
  Param weight;
};
static_assert(count<OnEmpty> == 2);
struct OnlyEmpty : Empty, Other {};
static_assert(count<OnlyEmpty> == 0);
struct HoldsEmpty {
  Empty e[3];
  [[no_unique_address]] Other other;
  int mode = 0;
};
static_assert(count<HoldsEmpty> == 3);
struct Pair {
  int a = 0, b = 0;
};
struct OnPair : Pair {
  int mode = 0;
};
struct OnlyPair : Pair {};
static_assert(flaw<OnPair> == Flaw::base_with_members);
static_assert(flaw<OnlyPair> == Flaw::base_with_members);

struct TakesAll {
  template <class T>
  TakesAll(T&&) {}
};
struct TakesAllConst {
  template <class T>
  TakesAllConst(const T&) {}
};
struct First {
  TakesAll first;
  int mode = 0;
};
struct FirstConst {
  TakesAllConst first = 1;
  int mode = 0;
};
static_assert(flaw<First> == Flaw::unlistable);
static_assert(flaw<FirstConst> == Flaw::unlistable);

struct Reference {
  const float& rate;
  int mode = 0;
};
struct MutableReference {
  Tensor& value;
};
struct Bits {
  int a : 3, b : 5;
  Param weight;
  unsigned c : 1, d : 1, e : 30;
};
struct BitsInPadding {
  Param weight;
  bool train : 1;
  int mode : 2;
};
#ifndef __clang__
static_assert(flaw<BitsInPadding> == Flaw::unlistable);
#endif
struct NamedUnion {
  union {
    int a;
    float b;
  } number;
  int mode = 0;
};
struct AnonymousUnion {
  int mode = 0;
  union {
    int a;
    float b;
  };
};
static_assert(flaw<Reference> == Flaw::unlistable);
static_assert(flaw<MutableReference> == Flaw::unlistable);
static_assert(flaw<Bits> == Flaw::unlistable);
static_assert(flaw<NamedUnion> == Flaw::unlistable);
static_assert(flaw<AnonymousUnion> == Flaw::unlistable);

struct Kinds {
  const int depth = 3;
  alignas(64) float rate = 1;
  Pair nested;
  std::optional<int> maybe;
  std::variant<int> one;
  std::pair<int, Tensor> both;
  std::vector<std::vector<int>> lists;
  struct {
    int mode = 0;
  } unnamed;
};
static_assert(count<Kinds> == 8);
struct Most {
  int m[32];
  int a, b, c, d, e, f, g, h, i, j, k, l, m2, n, o, p, q, r, s, t, u, v, w, x, y, z, aa, ab, ac, ad, ae;
};
static_assert(count<Most> == 32);
struct TooMany {
  Most most;
  int a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z, aa, ab, ac, ad, ae, af;
};
static_assert(flaw<TooMany> == Flaw::many_members);

// A list that forgets a member whose place would else be padding. What is padded between members is not seen, but of
// aggregates, whose members are counted.
class Whole {
 public:
  Param weight;
  bool training() const { return training_; }

 private:
  bool training_ = false;
  WEFT_MEMBERS(weight, training_)
};
class Forgotten {
 public:
  Param weight;
  int count = 0;
  bool training() const { return training_; }

 private:
  bool training_ = false;
  WEFT_MEMBERS(weight, count)
};
struct Between {
  int a;
  char b, c;
  int d;
  WEFT_MEMBERS(a, b, d)
};
struct OnBase : Pair {
  char own, other;
  WEFT_MEMBERS(a, b, own)
};
static_assert(members<Whole>::flaw == Flaw::none);
static_assert(members<nn::Linear>::flaw == Flaw::none);
static_assert(members<Forgotten>::flaw == Flaw::incomplete_list);
static_assert(members<Between>::flaw == Flaw::incomplete_list);
static_assert(members<OnBase>::flaw == Flaw::incomplete_list);

// What is not plain has no members.
class Private {
  [[maybe_unused]] int mode = 0;
};
struct Virtual {
  virtual ~Virtual() = default;
  int mode = 0;
};
static_assert(!detail::Flattenable<Private> && !detail::Flattenable<Virtual>);
struct HoldsBits {
  std::vector<bool> bits;
};
struct HoldsConstTensor {
  const Tensor value;
};
static_assert(!detail::Flattenable<HoldsBits> && !detail::Flattenable<HoldsConstTensor>);

// Changes a member between two calls: the function is traced again, and its reason names the member.
template <class T, class Change>
std::string reason_of(Change change) {
  auto f = compile([](const T& value, const Tensor& x) { return x * (value.mode + 1); });
  T value;
  CHECK(numbers_of(f(value, vector_of({3}))) == Numbers{3});
  change(value);
  CHECK(numbers_of(f(value, vector_of({3}))) == Numbers{3.0f * static_cast<float>(value.mode + 1)});
  return last_recompile_reason(f);
}
template <class T>
std::string mode_of() {
  std::string reason = reason_of<T>([](T& value) { value.mode = 1; });
  return reason.substr(0, reason.find(" ("
                                      "an"));
}

}  // namespace

TEST_CASE("a number beside C arrays, bases and empty members is guarded") {
  CHECK(mode_of<Layers>() == "argument 0 (mode): was 0, is 1");
  CHECK(mode_of<OnEmpty>() == "argument 0 (mode): was 0, is 1");
  CHECK(mode_of<HoldsEmpty>() == "argument 0 (mode): was 0, is 1");
  CHECK(reason_of<Layers>([](Layers& value) { value.l[1].bias.frozen = true; }) ==
        "argument 0 (l.1.bias): was not frozen, is frozen");
}

TEST_CASE("numbers in nested C arrays, over-aligned and unnamed members are guarded") {
  auto f = compile([](const Nested& n, const Kinds& k, const Tensor& x) {
    return x * n.table[2][1] + k.rate + k.unnamed.mode + n.name[0];
  });
  Nested nested;
  Kinds kinds;
  Tensor x = vector_of({2});
  auto expected = [&] {
    return Numbers{2 * nested.table[2][1] + kinds.rate + static_cast<float>(kinds.unnamed.mode + nested.name[0])};
  };
  auto again = [&] { return numbers_of(f(nested, kinds, x)) == expected(); };
  CHECK(again());
  nested.table[2][1] = 5;
  CHECK(again());
  CHECK(last_recompile_reason(f) == "argument 0 (table.2): its numbers changed");
  kinds.rate = 7;
  CHECK(again());
  kinds.unnamed.mode = 2;
  CHECK(again());
  nested.name[0] = 'y';
  CHECK(again());
  kinds.nested.b = 4;
  CHECK(again());
  CHECK(specialization_count(f) == 6);
}

TEST_CASE("layers in C arrays are named, trained, frozen and moved") {
  Layers layers;
  std::vector<std::string> names;
  for (const auto& parameter : nn::parameters(layers)) names.push_back(parameter.name);
  CHECK(names == std::vector<std::string>{"l.0.weight", "l.0.bias", "l.1.weight", "l.1.bias"});
  auto loss = [](const Layers& m) { return sum(m.l[0].bias.tensor() * 2 + m.l[1].bias.tensor() * 3); };
  auto gradient = grad(loss, layers);
  CHECK(numbers_of(gradient.l[0].bias.tensor()) == Numbers{2, 2});
  CHECK(numbers_of(gradient.l[1].bias.tensor()) == Numbers{3, 3});
  auto step = compile([](Layers& m) {
    for (auto& layer : m.l) layer.bias -= layer.bias;
  });
  step(layers);
  CHECK(numbers_of(layers.l[1].bias.tensor()) == Numbers{0, 0});
  nn::freeze(layers);
  CHECK(layers.l[1].weight.frozen);
  Nested nested;
  CHECK(std::string(nn::parameters(nested)[3].name) == "grid.0.1.bias");
  Generator generator(1);
  nn::initialize(nested, generator);
  CHECK(numbers_of(nested.grid[0][1].bias.tensor()) != numbers_of(nested.grid[1][0].bias.tensor()));
}
