#include "oracle/guards.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "base/options.hpp"
#include "oracle/program.hpp"
#include "tests/sanitized.hpp"

namespace oracle {

namespace {

using weft::Param;
using weft::Scalar;

enum class Mode : std::uint8_t { add, multiply, subtract };
struct Settings {
  float rate = 0.5f;
  int power = 2;
  bool negative = false;
  Mode mode = Mode::add;
  std::string name = "a";
};
struct Model {
  Param weight, bias;
  std::vector<Tensor> list;
  std::optional<Tensor> mask;
  std::variant<Tensor, Scalar> scale = Scalar(2.0);
  Settings settings;
};

// Every property changes a result or its type.
std::vector<Tensor> use(const Model& m, const Tensor& x, const Tensor& y, const Scalar& factor) {
  Tensor v = x * m.weight.tensor() + m.bias.tensor();
  for (const Tensor& part : m.list) v = v * 0.5f + part;
  if (m.mask) v = v + *m.mask * 3;
  if (const Tensor* t = std::get_if<Tensor>(&m.scale))
    v = v * *t;
  else
    v = v - std::get<Scalar>(m.scale);
  const Settings& s = m.settings;
  v = s.mode == Mode::add ? v + y : s.mode == Mode::multiply ? v * y : v - y;
  for (int i = 0; i < s.power; ++i) v = v * s.rate + static_cast<double>(s.name.size()) + (s.name == "b" ? 1 : 0);
  if (s.negative) v = -v;
  v = v * factor;
  std::vector<Tensor> results{v, weft::sum(y), x + y};
  if (!m.weight.frozen) results.push_back(weft::tanh(v));
  if (m.bias.frozen) results.push_back(v + 1);
  return results;
}

struct Arguments {
  Model model;
  Tensor x, y;
  double factor = 1;
};

struct Maker {
  std::mt19937_64 random;
  DType dtypes[4] = {DType::f32, DType::f32, DType::f32, DType::f32};
  Memory memory[2] = {Memory::plain, Memory::plain};
  std::int64_t rows = 3, columns = 4, rank_of_y = 2;
  int parts = 1, alternative = 0;
  bool mask = false, frozen_weight = false, frozen_bias = false, alias = false, number = false;
  Settings settings;
  std::string changed;

  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n)); }
  void change() {
    static const char* const names[] = {"dtype of x",   "dtype of y",  "dtype of weight", "dtype of a part", "rows",
                                        "columns",      "rank of y",   "layout of x",     "layout of y",     "parts",
                                        "mask",         "alternative", "frozen weight",   "frozen bias",     "alias",
                                        "plain number", "rate",        "power",           "negative",        "mode",
                                        "name"};
    const auto which = below(std::size(names));
    changed += std::string(changed.empty() ? "" : ", ") + names[which];
    constexpr DType kinds[] = {DType::f32, DType::f64, DType::i64, DType::i32, DType::f16, DType::bf16};
    switch (which) {
      case 0:
      case 1:
      case 2:
      case 3: dtypes[which] = kinds[below(std::size(kinds))]; break;
      case 4: rows = below(5); break;
      case 5: columns = below(6); break;
      case 6: rank_of_y = below(3); break;
      case 7: memory[0] = static_cast<Memory>(below(6)); break;
      case 8: memory[1] = static_cast<Memory>(below(6)); break;
      case 9: parts = static_cast<int>(below(4)); break;
      case 10: mask = !mask; break;
      case 11: alternative = 1 - alternative; break;
      case 12: frozen_weight = !frozen_weight; break;
      case 13: frozen_bias = !frozen_bias; break;
      case 14: alias = !alias; break;
      case 15: number = !number; break;
      case 16: settings.rate = static_cast<float>(below(5)) / 4; break;
      case 17: settings.power = static_cast<int>(below(4)); break;
      case 18: settings.negative = !settings.negative; break;
      case 19: settings.mode = static_cast<Mode>(below(3)); break;
      default: settings.name = std::string(1, static_cast<char>('a' + below(3))) + (below(4) ? "" : "x"); break;
    }
  }
  Tensor tensor(DType dtype, const Shape& shape, Memory memory = Memory::plain) {
    Program program;
    program.seed = random();
    program.inputs.push_back({dtype, shape, memory, Numbers::positive, -1});
    return make_tensor(make_inputs(program)[0], memory);
  }
  Arguments arguments() {
    Arguments made;
    made.x = tensor(dtypes[0], {rows, columns}, memory[0]);
    Shape of_y = {rows, columns};
    of_y.erase(of_y.begin(), of_y.begin() + (2 - rank_of_y));
    made.y = alias ? made.x : tensor(dtypes[1], of_y, memory[1]);
    made.model.weight = number ? Tensor(Scalar(1.5).tensor()) : tensor(dtypes[2], {columns});
    made.model.bias = tensor(DType::f32, {columns});
    made.model.weight.frozen = frozen_weight;
    made.model.bias.frozen = frozen_bias;
    for (int i = 0; i < parts; ++i) made.model.list.push_back(tensor(dtypes[3], {rows, 1}));
    if (mask) made.model.mask = tensor(DType::boolean, {columns});
    if (alternative) made.model.scale = tensor(DType::f32, {});
    made.model.settings = settings;
    made.factor = 1 + static_cast<double>(below(3));
    return made;
  }
};

// Guards do not depend on what runs after them: eager execution of the recording needs no compiler.
auto make_function(weft::Dynamic dynamic, bool compiled = false) {
  return weft::compile(
      [](const Model& m, const Tensor& x, const Tensor& y, const Scalar& factor) { return use(m, x, y, factor); },
      {.dynamic = dynamic,
       .check = weft::Check::never,
       .backend = compiled ? weft::Backend::compiled : weft::Backend::eager,
       .on_compile_error = weft::OnFailure::run_eagerly,
       .recompile_limit = 1'000'000});
}

std::string difference(const std::vector<Tensor>& got, const std::vector<Tensor>& want) {
  if (got.size() != want.size()) return "another number of results";
  for (std::size_t i = 0; i < got.size(); ++i) {
    const Array x = read(got[i]), y = read(want[i]);
    if (x->dtype != y->dtype || x->shape != y->shape) return to_string(x) + " instead of " + to_string(y);
    if (x->integers != y->integers) return "result " + std::to_string(i) + " differs";
    for (std::size_t k = 0; k < x->reals.size(); ++k)
      if (x->reals[k] != y->reals[k] && (x->reals[k] == x->reals[k] || y->reals[k] == y->reals[k]))
        return "result " + std::to_string(i) + " element " + std::to_string(k) + " is " + std::to_string(x->reals[k]) +
               ", not " + std::to_string(y->reals[k]);
  }
  return {};
}

}  // namespace

// What is right is the function run eagerly; now and then also a compilation that sees these arguments first.
void check_guards(std::uint64_t first, int count) {
  weft::options().kernel_optimization = 1;
  count /= weft::test::less_when_sanitized;
  const auto fixed = make_function(false), dynamic = make_function(true), differing = make_function({});
  for (int i = 0; i < count; ++i) {
    const std::uint64_t seed = first + static_cast<std::uint64_t>(i);
    Maker maker;
    maker.random.seed(seed * 77 + 3);
    // From one start: what it was compiled for stays in use.
    for (int changes = static_cast<int>(seed % 3 ? 1 : 2); changes > 0; --changes) maker.change();
    const Arguments a = maker.arguments();
    const Scalar factor(a.factor);
    const std::vector<Tensor> eager = use(a.model, a.x, a.y, factor);
    for (const auto* function : {&fixed, &dynamic, &differing}) {
      const std::string what = difference((*function)(a.model, a.x, a.y, factor), eager);
      if (!what.empty())
        FAIL_CHECK("guards, seed ", seed,
                   function == &fixed     ? ""
                   : function == &dynamic ? ", dynamic"
                                          : ", that differ",
                   ": ", what, " after a change of ", maker.changed);
    }
    if (seed % 97 == 0) {
      const std::string what = difference(make_function(false, true)(a.model, a.x, a.y, factor), eager);
      if (!what.empty())
        FAIL_CHECK("guards, seed ", seed, ", compiled afresh: ", what, " after a change of ", maker.changed);
    }
  }
}

}  // namespace oracle
