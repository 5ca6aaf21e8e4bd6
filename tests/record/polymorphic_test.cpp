// Models of Polymorphic classes: guards, gradients, copies, names, walks, optimizers and files.
#include "weft/polymorphic.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tests/message_of.hpp"
#include "weft/weft.hpp"

using namespace weft;

namespace polymorphic_test {

struct Layer : Polymorphic {
  virtual Tensor operator()(const Tensor& x) const = 0;
};
struct Scale : Layer {
  Scale() = default;
  explicit Scale(double factor) : by(full({}, factor)) {}
  Tensor operator()(const Tensor& x) const override { return x * by; }
  Param by = full({}, 2);
  WEFT_MEMBERS(by)
};
class Shift final : public Layer {
 public:
  explicit Shift(double amount) : by_(full({}, amount)) {}
  Tensor operator()(const Tensor& x) const override { return x + by_; }
  const Param& by() const { return by_; }

 private:
  Param by_;
  WEFT_MEMBERS(by_)
};
struct Relu : Layer {
  Tensor operator()(const Tensor& x) const override { return relu(x); }
  WEFT_MEMBERS()
};
// A class derived from one that can be made, with its members and its own.
struct ScaleTwice : Scale {
  Tensor operator()(const Tensor& x) const override { return x * by * again; }
  Param again = full({}, 3);
  int count = 1;
  WEFT_MEMBERS(by, again, count)
};
// What holds other layers has no copy constructor.
struct Block : Layer {
  Block(std::unique_ptr<Layer> first, std::unique_ptr<Layer> second) : linear(2, 2) {
    inner.push_back(std::move(first));
    inner.push_back(std::move(second));
    calls = zeros({});
  }
  Tensor operator()(const Tensor& x) const override {
    Tensor y = linear(x);
    for (const auto& layer : inner) y = (*layer)(y);
    return training && last ? (*last)(y) : y;
  }
  nn::Linear linear;
  std::vector<std::unique_ptr<Layer>> inner;
  std::unique_ptr<Layer> last;
  Buffer calls;
  std::string name = "block";
  float numbers[2] = {1, 2};
  bool training = true;
  WEFT_MEMBERS(linear, inner, last, calls, name, numbers, training)
};
struct Model {
  std::vector<std::unique_ptr<Layer>> layers;
  std::unique_ptr<Layer> head;
  Tensor operator()(const Tensor& x) const {
    Tensor y = x;
    for (const auto& layer : layers) y = (*layer)(y);
    return head ? (*head)(y) : y;
  }
};
template <class... L>
Model model_of(std::unique_ptr<L>... layer) {
  Model model;
  (model.layers.push_back(std::move(layer)), ...);
  return model;
}
Model small() { return model_of(std::make_unique<Scale>(3), std::make_unique<Shift>(1)); }
Model deep() {
  auto block = std::make_unique<Block>(std::make_unique<ScaleTwice>(), std::make_unique<Relu>());
  block->last = std::make_unique<Shift>(-1);
  return model_of(std::make_unique<Scale>(3), std::move(block));
}
Block& block_of(Model& model) { return dynamic_cast<Block&>(*model.layers[1]); }

struct Holder {
  std::map<std::string, std::unique_ptr<Layer>> by_name;
  std::optional<Scale> maybe;
  Scale own;
  std::variant<int, std::unique_ptr<Scale>> either = std::make_unique<ScaleTwice>();
};

// A class of the same name as one of another file is another one.
namespace {
struct Hidden : Layer {
  Tensor operator()(const Tensor& x) const override { return x; }
  WEFT_MEMBERS()
};
}  // namespace

// Forgets what it has.
struct Forgetful : Scale {
  Param more = ones({});
};

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
std::string paths_of(const Model& model) {
  std::string text;
  tree::for_each(model, [&](const char* path, const Tensor&) { text += std::string(path) + " "; });
  return text;
}

}  // namespace polymorphic_test
using namespace polymorphic_test;

TEST_CASE("a compiled function guards the classes of the objects that a model holds") {
  Model model = small();
  const auto f = compile([](const Model& m, const Tensor& x) { return m(x); });
  CHECK(numbers_of(f(model, two())) == Numbers{4, 7});
  CHECK(is_compiled(f, model, two()));
  std::swap(model.layers[0], model.layers[1]);
  CHECK_FALSE(is_compiled(f, model, two()));
  CHECK(numbers_of(f(model, two())) == Numbers{6, 9});
  contains(last_recompile_reason(f),
           "argument 0 (layers.0): was a polymorphic_test::Scale, is a polymorphic_test::Shift");
  contains(explain(f, model, two()).guards[1], "argument 0 (layers.0): a polymorphic_test::Shift");

  // Objects without members differ in their classes alone.
  model = model_of(std::make_unique<Relu>());
  CHECK(numbers_of(f(model, two() - 2)) == Numbers{0, 0});
  model = model_of(std::make_unique<Hidden>());
  CHECK(numbers_of(f(model, two() - 2)) == Numbers{-1, 0});

  // A null pointer is an absent optional.
  CHECK_FALSE(is_compiled(f, (model.head = std::make_unique<Scale>(2), model), two()));
  CHECK(numbers_of(f(model, two())) == Numbers{2, 4});
  model.head.reset();
  CHECK(is_compiled(f, model, two()));
  CHECK(numbers_of(f(model, two())) == Numbers{1, 2});
}

TEST_CASE("a class that derives from one with members, by each backend as plainly") {
  const Model model = deep();
  const Tensor expected = model(two());
  for (const Backend backend : {Backend::compiled, Backend::eager, Backend::reference}) {
    const auto f = compile([](const Model& m, const Tensor& x) { return m(x); }, {.backend = backend});
    CHECK(amax(abs(f(model, two()) - expected)).item() < 1e-5);
    CHECK(amax(abs(f(model, two()) - expected)).item() < 1e-5);
    CHECK(explain(f, model, two()).specializations == 1);
  }
  CHECK(verify(compile([](const Model& m, const Tensor& x) { return m(x); }), model, two()).same());
}

TEST_CASE("gradients are of the same classes") {
  Model model = deep();
  const auto loss = [](const Model& m) { return sum(square(m(two()))); };
  const auto [value, g] = value_and_grad(loss, model);
  CHECK(value.item() == doctest::Approx(loss(model).item()));
  auto& first = dynamic_cast<Scale&>(*g.layers[0]);
  auto& block = dynamic_cast<Block&>(*g.layers[1]);
  auto& twice = dynamic_cast<ScaleTwice&>(*block.inner[0]);
  CHECK(dynamic_cast<Relu*>(block.inner[1].get()));
  CHECK_FALSE(block.calls.tensor().defined());
  CHECK_FALSE(g.head);
  CHECK(block.name == "block");
  // Against differences.
  for (const auto& [parameter, gradient] :
       {std::pair{&dynamic_cast<Scale&>(*model.layers[0]).by, &first.by},
        std::pair{&dynamic_cast<ScaleTwice&>(*block_of(model).inner[0]).again, &twice.again}}) {
    const Tensor at = *parameter;
    *parameter = at + 1e-2;
    const double above = loss(model).item();
    *parameter = at - 1e-2;
    const double below = loss(model).item();
    *parameter = at;
    CHECK(gradient->tensor().item() == doctest::Approx((above - below) / 2e-2).epsilon(1e-2));
  }
  // With respect to one layer, and compiled.
  const Tensor of_one =
      dynamic_cast<Scale&>(*grad([](const std::unique_ptr<Layer>& l) { return sum((*l)(two())); }, model.layers[0])).by;
  CHECK(of_one.item() == 3);
  const auto compiled = compile([](const Model& m, const Tensor& x) {
    return value_and_grad([&](const Model& m) { return sum(square(m(x))); }, m);
  });
  for (int i = 0; i < 2; ++i) {
    const auto again = compiled(model, two());
    CHECK(again.value.item() == doctest::Approx(value.item()));
    CHECK(dynamic_cast<Scale&>(*again.gradients.layers[0]).by->item() == doctest::Approx(first.by->item()));
  }
}

TEST_CASE("an optimizer trains the model, in a compiled step whose state it is") {
  Model model = deep(), plain = tree::clone(model);
  optim::Adam opt(model, {.lr = 0.05}), plain_opt(plain, {.lr = 0.05});
  const auto step = [](Model& m, optim::Adam& opt, const Tensor& x) {
    auto [loss, g] = value_and_grad([&](const Model& m) { return sum(square(m(x) - 1)); }, m);
    opt.update(m, g);
    auto& block = block_of(m);
    block.calls = block.calls + 1;
    return loss;
  };
  const auto compiled = compile(step);
  for (int i = 0; i < 4; ++i) {
    const double loss = compiled(model, opt, two()).item(), expected = step(plain, plain_opt, two()).item();
    CHECK(loss == doctest::Approx(expected).epsilon(1e-4));
  }
  CHECK(block_of(model).calls->item() == 4);
  CHECK(explain(compiled, model, opt, two()).specializations == 1);

  // Groups by path, and another dtype.
  Model groups = deep();
  optim::SGD sgd(groups, {.lr = 0.1}, {{"layers.0.*", {.lr = 0}}});
  sgd.update(groups, grad([](const Model& m) { return sum(m(two() + 10)); }, groups));
  CHECK(dynamic_cast<Scale&>(*groups.layers[0]).by->item() == 3);
  CHECK(dynamic_cast<Shift&>(*block_of(groups).last).by()->item() != -1);
  nn::to(groups, DType::f64);
  for (const auto& [name, value] : nn::parameters(std::as_const(groups))) CHECK(value->dtype() == DType::f64);

  // The classes of a state stay.
  const auto changes = compile([](Model& m) { m.layers[0] = std::make_unique<Shift>(1); });
  contains(
      message_of([&] { changes(model); }),
      "argument 0 (layers.0): a compiled function must not change lengths, presence, alternatives or classes in its "
      "state (was a polymorphic_test::Scale, is a polymorphic_test::Shift)");
  contains(message_of([&] {
             (void)grad(
                 [](Model& m) {
                   block_of(m).inner[1] = std::make_unique<Hidden>();
                   return sum((*m.layers[0])(two()));
                 },
                 model);
           }),
           "must not change lengths, keys, presence, alternatives, classes");
}

TEST_CASE("names, walks and copies go through the objects") {
  Model model = deep();
  CHECK(paths_of(model) ==
        "layers.0.by layers.1.linear.weight layers.1.linear.bias layers.1.inner.0.by layers.1.inner.0.again "
        "layers.1.last.by_ layers.1.calls ");
  std::string text;
  for (const auto& [name, value] : nn::parameters(model)) text += std::string(name) + " ";
  CHECK(text ==
        "layers.0.by layers.1.linear.weight layers.1.linear.bias layers.1.inner.0.by layers.1.inner.0.again "
        "layers.1.last.by_ ");
  CHECK(nn::num_parameters(model) == 10);
  contains(nn::summary(model), "layers.1.inner.0.again");
  contains(nn::summary(model), "buffer");

  // By types: a layer of the library, a class, the base, numbers.
  text.clear();
  tree::for_each(model, [&](const char* path, nn::Linear&) { text += std::string(path) + " "; });
  tree::for_each(model, [&](const char* path, ScaleTwice& part) {
    part.count = 7;
    text += std::string(path) + " ";
  });
  tree::for_each(std::as_const(model), [&](const char* path, const Layer&) { text += std::string(path) + " "; });
  tree::for_each(model, [&](const char* path, int& count) { text += std::string(path) + "=" + std::to_string(count); });
  CHECK(text == "layers.1.linear layers.1.inner.0 layers.0 layers.1 layers.1.inner.0.count=7");
  float sum_of_numbers = 0;
  tree::for_each(model, [&](float& number) { sum_of_numbers += number; });
  CHECK(sum_of_numbers == 3);

  // Freezing, the mode, initialization.
  nn::freeze(model, "layers.1.linear.*");
  CHECK(block_of(model).linear.weight.frozen);
  CHECK_FALSE(dynamic_cast<Scale&>(*model.layers[0]).by.frozen);
  nn::freeze(model);
  CHECK(dynamic_cast<Scale&>(*model.layers[0]).by.frozen);
  nn::freeze(model, false);
  nn::eval(model);
  CHECK_FALSE(block_of(model).training);
  nn::train(model);
  const Tensor before = block_of(model).linear.weight;
  Generator generator(3);
  nn::initialize(model, generator);
  CHECK(amax(abs(block_of(model).linear.weight - before)).item() > 0);

  // Copies share nothing that can be changed.
  Model copy = tree::clone(model);
  block_of(copy).numbers[1] = 5;
  block_of(copy).name = "copy";
  dynamic_cast<ScaleTwice&>(*block_of(copy).inner[0]).again = full({}, 9);
  CHECK(block_of(model).numbers[1] == 2);
  CHECK(block_of(model).name == "block");
  CHECK(dynamic_cast<ScaleTwice&>(*block_of(model).inner[0]).again->item() == 3);
  CHECK(dynamic_cast<ScaleTwice&>(*block_of(copy).inner[0]).count == 7);

  // Models in step, and a model of what a function returns.
  const Model halves = tree::map(model, [](const Tensor& t) { return t * 0.5; });
  CHECK(dynamic_cast<const Scale&>(*halves.layers[0]).by->item() == 1.5);
  CHECK(dynamic_cast<const Scale&>(*model.layers[0]).by->item() == 3);
  const Model sums = tree::map(model, halves, [](const Param& a, const Param& b) { return a + b; });
  CHECK(dynamic_cast<const Scale&>(*sums.layers[0]).by->item() == 4.5);
  const Model counted = tree::map(model, [](int count) { return count + 1; });
  CHECK(dynamic_cast<const ScaleTwice&>(*dynamic_cast<const Block&>(*counted.layers[1]).inner[0]).count == 8);
  tree::for_each(model, sums, [](Param& a, const Param& b) { a = a - b; });
  CHECK(dynamic_cast<Scale&>(*model.layers[0]).by->item() == -1.5);

  // Where they are not in step.
  const auto differs = [&](Model& other) {
    return message_of([&] { tree::for_each(model, other, [](Param&, Param&) {}); });
  };
  Model other = deep();
  block_of(other).inner[1] = std::make_unique<Shift>(1);
  contains(
      differs(other),
      "the models differ at layers.1.inner.1: one is a polymorphic_test::Relu, the other a polymorphic_test::Shift");
  block_of(other).inner.pop_back();
  contains(differs(other), "the models differ at layers.1.inner: length 2 and 1");
  block_of(other).last.reset();
  block_of(other).inner.push_back(std::make_unique<Relu>());
  contains(differs(other), "the models differ at layers.1.last: presence 1 and 0");
  other.layers[0] = std::make_unique<Relu>();
  contains(differs(other), "the models differ at layers.0: one is a polymorphic_test::Scale, the other a");
}

TEST_CASE("models of objects in maps, optionals and variants; objects held by value") {
  Holder holder;
  holder.by_name["a"] = std::make_unique<Shift>(1);
  holder.maybe.emplace(4);
  const auto f = compile([](const Holder& h, const Tensor& x) {
    return (*std::get<1>(h.either))((*h.maybe)((*h.by_name.at("a"))(h.own(x))));
  });
  for (int i = 0; i < 2; ++i) CHECK(numbers_of(f(holder, two())) == Numbers{72, 120});
  std::string text;
  tree::for_each(holder, [&](const char* path, Param&) { text += std::string(path) + " "; });
  CHECK(text == "by_name.a.by_ maybe.by own.by either.by either.again ");
}

TEST_CASE("a class is the same in all shared libraries; of unnamed namespaces each file has its own") {
  // What another library has of a class: its own type_info.
  struct OtherLibrary : std::type_info {
    explicit OtherLibrary(const char* name) : std::type_info(name) {}
  };
  const auto number = [](const std::type_info& type) {
    const detail::DynamicType own{&type, nullptr, nullptr, nullptr, nullptr, 0};
    return detail::class_number(own);
  };
  const std::string scale = typeid(Scale).name(), hidden = typeid(Hidden).name();
  const OtherLibrary other_scale(scale.c_str()), other_hidden(hidden.c_str());
  CHECK(detail::same_class(typeid(Scale), other_scale));
  CHECK(number(typeid(Scale)) == number(other_scale));
  CHECK(number(typeid(Scale)) != number(typeid(Shift)));
  CHECK_FALSE(detail::same_class(typeid(Hidden), other_hidden));
  CHECK(number(typeid(Hidden)) != number(other_hidden));
}

TEST_CASE("a class without a list of its own, and an object that is passed as one of its base") {
  Model model;
  model.layers.push_back(std::make_unique<Forgetful>());
  const auto f = compile([](const Model& m, const Tensor& x) { return m(x); });
  const char* const sentence =
      "the class polymorphic_test::Forgetful derives from polymorphic_test::Scale and has no WEFT_MEMBERS of its own: "
      "its members would be dropped";
  contains(message_of([&] { f(model, two()); }), sentence);
  contains(message_of([&] { (void)nn::parameters(model); }), sentence);
  contains(message_of([&] { (void)tree::clone(model); }), sentence);
  model = model_of(std::make_unique<Block>(std::make_unique<Scale>(), std::make_unique<Forgetful>()));
  contains(message_of([&] { (void)tree::clone(model); }), sentence);  // a part of the block has been copied then
  const auto g = compile([](const Scale& layer, const Tensor& x) { return layer(x); });
  CHECK(numbers_of(g(Scale(3), two())) == Numbers{3, 6});
  contains(
      message_of([&] { g(ScaleTwice(), two()); }),
      "an object of the class polymorphic_test::ScaleTwice is passed as a polymorphic_test::Scale: its other members "
      "would be dropped");
}

TEST_CASE("files have the names of the members' paths, and know the classes") {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("weft_polymorphic_" + std::to_string(getpid()))).string();
  Model model = deep();
  block_of(model).name = "other";
  io::save(path, model);
  std::string names;
  for (const auto& [name, value] : io::load_tensors(path)) names += name + " ";
  contains(names, "layers.1.inner.0.again ");

  Model loaded = deep();
  dynamic_cast<Scale&>(*loaded.layers[0]).by = full({}, 8);
  block_of(loaded).name = "     ";
  io::load(path, loaded);
  CHECK(dynamic_cast<Scale&>(*loaded.layers[0]).by->item() == 3);
  CHECK(block_of(loaded).name == "other");

  Model other = deep();
  other.layers[0] = std::make_unique<ScaleTwice>();
  block_of(other).inner[1] = std::make_unique<Hidden>();
  block_of(other).last.reset();
  const std::string refused = message_of([&] { io::load(path, other); });
  contains(refused, "layers.0 is polymorphic_test::ScaleTwice, the file has polymorphic_test::Scale");
  contains(refused,
           "layers.1.inner.1 is polymorphic_test::(anonymous namespace)::Hidden, the file has polymorphic_test::Relu");
  contains(refused, "layers.1.last is null, the file has polymorphic_test::Shift");
  // Another class that has the same names can be asked for.
  Model same = deep();
  block_of(same).inner[1] = std::make_unique<Hidden>();
  CHECK_NOTHROW(io::load(path, same, {.strict = false}));
  io::save(path, model.layers[0]);
  std::unique_ptr<Layer> one = std::make_unique<Shift>(1);
  contains(message_of([&] { io::load(path, one); }),
           "the object is polymorphic_test::Shift, the file has polymorphic_test::Scale");
  one = std::make_unique<Scale>(1);
  io::load(path, one);
  CHECK(dynamic_cast<Scale&>(*one).by->item() == 3);
  std::filesystem::remove(path);
}
