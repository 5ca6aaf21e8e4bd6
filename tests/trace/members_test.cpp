// Reflection: which members a struct has, in which order, under which names, from which source.
#include "weft/members.hpp"

#include <doctest/doctest.h>

#include <array>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "weft/tensor.hpp"

using namespace weft;

namespace {

template <class T>
std::string names_of() {
  std::string text;
  for (int i = 0; i < members<T>::count; ++i)
    text += std::string(members<T>::names[i].text, members<T>::names[i].size) + " ";
  return text;
}

struct Plain {
  Tensor input;
  Param weight;
  std::vector<float> numbers;
};
struct Everything {
  std::optional<Tensor> maybe;
  std::string text;
  std::variant<int, float> choice;
  std::array<Tensor, 3> three;
  std::tuple<int, Param> both;
  std::vector<Plain> list;
  Scalar rate;
  Index position;
  Plain nested;
};
class Private {
 public:
  explicit Private(int count) : count_(count) {}
  int count() const { return count_; }

 private:
  Param weight_;
  int count_;
  WEFT_MEMBERS(weight_, count_)
};
template <class T>
struct Base {
  T base;
};
template <class T>
struct Template {
  T weight;
  Base<T> nested;
  int count = 0;
  WEFT_MEMBERS(weight, nested, count)
};
struct Inherited : Base<float> {
  float own = 2;
  WEFT_MEMBERS(base, own)
};
struct Empty {};
struct Ten {
  int a, b, c, d, e, f, g, h, i, j;
};

}  // namespace

TEST_CASE("plain aggregates are reflected as they are, with names") {
  CHECK(names_of<Plain>() == "input weight numbers ");
  CHECK(names_of<Everything>() == "maybe text choice three both list rate position nested ");
  CHECK(names_of<Ten>() == "a b c d e f g h i j ");
  CHECK(members<Empty>::count == 0);
}

TEST_CASE("a list inside the class: private members, templates, members of a base") {
  CHECK(names_of<Private>() == "weight_ count_ ");
  CHECK(names_of<Template<float>>() == "weight nested count ");
  CHECK(names_of<Inherited>() == "base own ");
  Private object(3);
  members<Private>::visit(object, [](Param&, int& count) { ++count; });
  CHECK(object.count() == 4);
}

TEST_CASE("local structs, with and without a list") {
  struct Listed {
    float first;
    Param second;
    WEFT_MEMBERS(first, second)
  };
  struct Local {
    float one;
    Listed two;
  };
  CHECK(names_of<Listed>() == "first second ");
  CHECK(names_of<Local>() == "one two ");
  Local local{1, {2, {}}};
  members<Local>::visit(local, [](float& one, Listed&) { one = 5; });
  CHECK(local.one == 5);
  const Local& constant = local;
  members<Local>::visit(constant, [](auto& one, auto&) {
    static_assert(std::is_same_v<decltype(one), const float&>);
    CHECK(one == 5);
  });
}

// What is no struct of values is not reflected.
static_assert(!Reflected<std::string>);
static_assert(!Reflected<int>);
static_assert(!Reflected<std::array<int, 3>>);
static_assert(!Reflected<std::vector<int>>);
