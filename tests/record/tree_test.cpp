// Walks over whole models: what functions see, paths, models in step, and models of every kind of part.
#include "weft/tree.hpp"

#include <doctest/doctest.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <variant>

#include "record/refused.hpp"
#include "weft/compile.hpp"
#include "weft/explain.hpp"
#include "weft/grad.hpp"

namespace weft {
namespace tree_test {  // named: clang 14 lists no plain struct that holds an optional of a class without linkage

inline Tensor number(double value) { return from_list<double>({value}); }
inline double value_of(const Tensor& tensor) { return tensor.item(); }

inline Param absent() {
  Param result;
  result.frozen = true;
  return result;
}
struct Layer {
  Param weight = number(1), bias = absent();
};
struct Model {
  std::vector<Layer> list = std::vector<Layer>(2);
  std::array<Param, 2> pair = {number(3), number(4)};
  std::optional<Layer> maybe;
  std::variant<Tensor, Layer> either = Layer{number(5), number(6)};
  std::tuple<Buffer, int> both = {number(7), 8};
  std::map<std::string, Param> named = {{"b", number(10)}, {"a", number(9)}};
  std::map<int, Layer> numbered = {{-3, {number(11), absent()}}};
  std::unique_ptr<Layer> owned = std::make_unique<Layer>(Layer{number(12), absent()});
  std::vector<float> numbers = {1, 2};
  Scalar scalar = 13;
  Index index = 14;
  std::string text = "t";
};
}  // namespace tree_test
namespace {

using namespace tree_test;

template <class M, class F>
std::string paths(M& model, F f) {
  std::string result;
  tree::for_each(model, f(result));
  return result;
}

TEST_CASE("a function sees the parts that its parameter names, with their paths, in the order of declaration") {
  Model model;
  const Model& read = model;
  auto text = [](auto& out) { return [&out](const char* path, const Param&) { (out += path) += ' '; }; };
  const char* parameters =
      "list.0.weight list.1.weight pair.0 pair.1 either.weight either.bias named.a named.b numbered.-3.weight "
      "owned.weight ";
  CHECK(paths(model, text) == parameters);
  CHECK(paths(read, text) == parameters);
  std::string seen;
  tree::for_each(model, [&](const char* path, Buffer&) { seen += path; });
  CHECK(seen == "both.0");
  seen.clear();
  tree::for_each(model, [&](float& x) { seen += std::to_string(static_cast<int>(x)); });
  tree::for_each(model, [&](const char* path, const std::string&) { seen += path; });
  tree::for_each(model, [&](int x) { seen += std::to_string(x); });
  CHECK(seen == "12text8");
  int layers = 0, tensors = 0, leaves = 0, bare = 0;
  tree::for_each(model, [&](Layer&) { ++layers; });
  CHECK(layers == 5);
  tree::for_each(read, [&](const Tensor& t) { tensors += t.defined(); });
  CHECK(tensors == 11);
  tree::for_each(read, [&](const auto&) { ++leaves; });
  CHECK(leaves == 13);
  tree::for_each(model, [&](Tensor&) { ++bare; });
  CHECK(bare == 0);
  model.either = number(0);
  tree::for_each(model, [&](Tensor&) { ++bare; });
  CHECK(bare == 1);
}

TEST_CASE("nothing is converted: a lambda over parameters sees no tensor, one over Scalars no number") {
  struct Plain {
    Tensor tensor = number(1);
    double x = 2;
    Param p = number(3);
  };
  const Plain plain;
  int parameters = 0, scalars = 0;
  tree::for_each(plain, [&](const Param&) { ++parameters; });
  tree::for_each(plain, [&](const Scalar&) { ++scalars; });
  CHECK(parameters == 1);
  CHECK(scalars == 0);
}

TEST_CASE("what is written through the references is the model's") {
  Model model;
  tree::for_each(model, [](Param& p) { p = p * 2; });
  CHECK(value_of(model.list[1].weight) == 2);
  CHECK(value_of(model.owned->weight) == 24);
  CHECK(value_of(model.named.at("a")) == 18);
  CHECK(value_of(std::get<Layer>(model.either).bias) == 12);
  CHECK(value_of(model.numbered.at(-3).weight) == 22);
}

TEST_CASE("map makes a model of the same type; what it does not see, and what is undefined, is the first model's") {
  Model model;
  model.pair[0].frozen = true;
  const Model doubled = tree::map(model, [](const Param& p) { return p * 2; });
  CHECK(value_of(doubled.pair[0]) == 6);
  CHECK(doubled.pair[0].frozen);
  CHECK(value_of(doubled.owned->weight) == 24);
  CHECK(doubled.owned != model.owned);
  CHECK(value_of(model.owned->weight) == 12);
  CHECK(value_of(std::get<0>(doubled.both)) == 7);
  CHECK(!doubled.list[0].bias.tensor().defined());
  CHECK(doubled.text == "t");
  const Model sum = tree::map(model, doubled, [](const Tensor& a, const Tensor& b) { return a + b; });
  CHECK(value_of(sum.named.at("b")) == 30);
  CHECK(value_of(std::get<0>(sum.both)) == 14);
  CHECK(sum.scalar.item() == 13);
  const Model of_three = tree::map(model, doubled, sum, [](const auto& a, const auto& b, const auto& c) {
    return std::remove_cvref_t<decltype(a)>(a + b + c);
  });
  CHECK(value_of(of_three.owned->weight) == 12 + 24 + 36);
  CHECK(of_three.scalar.item() == 39);
  CHECK(of_three.index.item() == 42);
  const Model next = tree::map(model, [](float x) { return x + 1; });
  CHECK(next.numbers == std::vector<float>{2, 3});
  // A layer whole.
  const Model replaced = tree::map(model, [](const Layer&) { return Layer{number(-1), absent()}; });
  CHECK(value_of(replaced.numbered.at(-3).weight) == -1);
}

TEST_CASE("gradients in step: a frozen parameter has none and is left out") {
  struct Two {
    Param a = number(2), b = number(3);
  } model;
  model.b.frozen = true;
  auto gradients = grad([](const Two& m) { return sum(m.a * m.b); }, model);
  int seen = 0;
  tree::for_each(model, gradients, [&](Param& p, const Param& g) {
    ++seen;
    p -= g;
  });
  CHECK(seen == 1);
  CHECK(value_of(model.a) == -1);
  const Two kept = tree::map(model, gradients, [](const Param&, const Param& g) { return g; });
  CHECK(value_of(kept.b) == 3);
}

TEST_CASE("models that differ are refused where they differ") {
  const auto differs = [](auto change, const char* words, Loc loc = Loc::current()) {
    Model a, b;
    change(b);
    test::refused(
        [&] {
          tree::for_each(
              a, b, [](Param&, const Param&) {}, loc);
        },
        words, loc);
  };
  differs([](Model& m) { m.list.emplace_back(); }, "the models differ at list: length 2 and 3");
  differs([](Model& m) { m.maybe.emplace(); }, "at maybe: presence 0 and 1");
  differs([](Model& m) { m.either = Tensor(); }, "at either: alternative 1 and 0");
  differs([](Model& m) { m.owned.reset(); }, "at owned: presence 1 and 0");
  differs([](Model& m) { m.named.erase("a"), m.named["c"] = Param(); }, "at named: presence of a key 1 and 0");
}

TEST_CASE("inside a compiled function, and differentiated: models of every kind of part") {
  auto step = compile([](Model& model, const Tensor& x) {
    auto [value, gradients] = value_and_grad(
        [&](const Model& m) {
          return sum(x * m.owned->weight * m.named.at("a") * m.numbered.at(-3).weight * m.pair[1]);
        },
        model);
    tree::for_each(model, gradients, [](Param& p, const Param& g) { p -= g * 0.01; });
    return value;
  });
  Model model;
  const double before = 12 * 9 * 11 * 4;
  CHECK(value_of(step(model, number(1))) == before);
  CHECK(value_of(model.owned->weight) == doctest::Approx(12 - before / 12 * 0.01));
  CHECK(value_of(model.named.at("a")) == doctest::Approx(9 - before / 9 * 0.01));
  CHECK(value_of(model.numbered.at(-3).weight) == doctest::Approx(11 - before / 11 * 0.01));
  CHECK(value_of(model.list[0].weight) == 1);
  Model other;  // what was compiled serves any model of the same structure
  step(other, number(1));
  CHECK(value_of(other.owned->weight) == value_of(model.owned->weight));
  Tensor kept = model.owned->weight;
  step(model, number(0));
  CHECK(value_of(kept) == value_of(model.owned->weight));
}

TEST_CASE("a compiled function: keys of maps are guarded, and must not change in state") {
  using Table = std::map<std::string, Tensor>;
  auto total = compile([](const Table& table) {
    Tensor result = zeros({1}, {DType::f64});
    for (const auto& [key, value] : table) result += key == "a" ? value : value * 10;
    return result;
  });
  CHECK(value_of(total(Table{{"a", number(1)}, {"b", number(2)}})) == 21);
  CHECK(value_of(total(Table{{"b", number(1)}, {"c", number(2)}})) == 30);
  auto rename = compile([](Table& table) {
    table["b"] = table.at("a");
    table.erase("a");
  });
  Table table{{"a", number(1)}};
  test::refused([&] { rename(table); }, "must not change the keys of its state");
  CHECK(table.begin()->first == "a");
  auto result = compile([](const Tensor& x) { return Table{{"x", x + 1}}; });
  CHECK(value_of(result(number(1)).at("x")) == 2);
  auto owned = compile([](const Tensor& x) { return std::make_unique<Tensor>(x + 1); });
  CHECK(value_of(*owned(number(1))) == 2);
  CHECK(value_of(*owned(number(5))) == 6);
}

TEST_CASE("patterns of paths") {
  using tree::matches;
  CHECK(matches("encoder.*", "encoder.0.weight"));
  CHECK(!matches("encoder.*", "encoder"));
  CHECK(matches("*.bias", "a.b.bias"));
  CHECK(!matches("*.bias", "a.bias.x"));
  CHECK(matches("*a*b*", "xxayybzz"));
  CHECK(!matches("*a*b*", "xxbyyazz"));
  CHECK(matches("*", ""));
  CHECK(matches("a", "a"));
  CHECK(!matches("", "a"));
  CHECK(matches("*ab", "aab"));
}

TEST_CASE("a key with a NUL byte is refused wherever paths are made") {
  std::map<std::string, Param> model{{std::string("x\0y", 3), number(1)}, {"x", number(2)}};
  const char* const sentence = "the key of a map has a NUL byte, where its path would end: after \"x\"";
  CHECK_THROWS_WITH_AS(tree::for_each(model, [](const char*, Param&) {}), doctest::Contains(sentence), Error);
  const auto f = compile([](const std::map<std::string, Param>& m) { return m.at("x").tensor() + 1; });
  CHECK(value_of(f(model)) == 3);  // names nothing
  CHECK_THROWS_WITH_AS(explain(f, model), doctest::Contains(sentence), Error);
}

}  // namespace
}  // namespace weft
