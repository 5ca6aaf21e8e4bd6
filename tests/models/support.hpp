// Models of examples/models against PyTorch's (golden.py has the rules and the format of *.golden): weights arrive
// through a file under the reference's names; losses, the output and every gradient are compared with PyTorch's,
// eagerly and compiled, and for inputs of other sizes those of a compiled step with the eager one's.
#pragma once
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "tests/io/support.hpp"
#include "weft/weft.hpp"

namespace models_test {

using namespace weft;
using List = std::vector<Tensor>;
using Renames = std::vector<io::Renamed>;

// ---- the rules of golden.py -----------------------------------------------------------------------------------------

inline Tensor raw(const std::string& name, std::int64_t count) {
  std::int64_t seed = 0;
  for (std::size_t i = 0; i < name.size(); ++i) seed += static_cast<std::int64_t>(i + 1) * name[i];
  seed %= 65521;
  const Tensor i = arange(count);
  return (i * i * 7919 + i * (104729 + 2 * seed) + seed * seed) % 65521;
}
inline std::int64_t count_of(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}
inline Tensor values(const std::string& name, const std::vector<std::int64_t>& shape) {
  return reshape(cast(raw(name, count_of(shape)), DType::f64) / 65521 * 2 - 1, shape);
}
inline Tensor integers(const std::string& name, const std::vector<std::int64_t>& shape, std::int64_t below) {
  return reshape(raw(name, count_of(shape)) % below, shape);
}
inline Tensor initial(const std::string& name, const std::vector<std::int64_t>& shape) {
  if (name.ends_with("running_mean")) return zeros(shape, {DType::f64});
  if (name.ends_with("running_var")) return ones(shape, {DType::f64});
  if (name.ends_with("num_batches_tracked")) return full(shape, 0, {DType::i64});
  if (shape.size() > 1) return values(name, shape) * std::sqrt(3.0 / static_cast<double>(count_of(shape) / shape[0]));
  return values(name, shape) * 0.1 + (name.ends_with("weight") ? 1 : 0);
}

// Where the models run: on the CPU, or where WEFT_TEST_DEVICE=cuda says.
inline Device device() {
  const char* name = std::getenv("WEFT_TEST_DEVICE");
  return name && std::string(name) == "cuda" ? Device::cuda() : Device::cpu();
}
inline List there(List inputs) {
  for (Tensor& each : inputs) each = to(each, device());
  return inputs;
}

// ---- the file -------------------------------------------------------------------------------------------------------

struct Golden {
  std::map<std::string, std::vector<std::int64_t>> shapes;
  std::map<std::string, std::vector<double>> gradients;
  std::vector<double> output, losses;
  explicit Golden(const std::string& family) {
    std::ifstream file(WEFT_SOURCE_DIR "/tests/models/" + family + ".golden");
    REQUIRE_MESSAGE(file.is_open(), family);
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string what, name;
      words >> what;
      if (what == "shape" || what == "gradient") words >> name;
      std::vector<double> numbers;
      for (std::string number; words >> number;) numbers.push_back(std::stod(number));
      if (what == "shape") shapes[name].assign(numbers.begin(), numbers.end());
      if (what == "gradient") gradients[name] = numbers;
      if (what == "output") output = numbers;
      if (what == "losses") losses = numbers;
    }
    REQUIRE(losses.size() == 4);
  }
};

// Gives the model the weights of the rules, through a file that has the reference's names, all of which it must ask
// for. Returns the reference's name of each place.
template <class M>
std::map<std::string, std::string> load_reference(const Golden& golden, M& model, const Renames& renames) {
  std::map<std::string, Tensor> file, number;
  std::vector<std::string> names;
  for (const auto& [name, shape] : golden.shapes) {
    file[name] = initial(name, shape);
    number[name] = full(shape, static_cast<double>(names.size()), {file[name].dtype()});
    names.push_back(name);
  }
  const test::Folder folder;
  const std::string path = folder.file("weights");
  // Which name a place asks for: a first file has in each tensor the number of its name.
  io::save(path, number);
  io::load(path, model, {.convert = true, .renames = renames});
  std::map<std::string, std::string> name_of;
  tree::for_each(model, [&](const char* place, const Param& p) {
    name_of[place] = names.at(static_cast<std::size_t>(reshape(slice(reshape(p, {-1}), 0, 0, 1), {}).item()));
  });
  io::save(path, file);
  io::load(path, model, {.convert = true, .renames = renames});
  tree::for_each(model, [](Param& p) { p.tensor() = p.tensor() * 1, p.tensor().eval(); });
  return name_of;
}

// ---- the comparison -------------------------------------------------------------------------------------------------

template <class M>
struct StepResult {
  Tensor loss, output;
  M gradients;
};

// `f(model, inputs)` gives a loss and an output. A step of gradient descent.
template <class M, class F>
StepResult<M> step(M& model, const List& inputs, const Scalar& rate) {
  auto [value, gradients] = value_and_grad([&](M& m) { return F()(m, inputs); }, model);
  tree::for_each(model, gradients, [&](Param& p, const Param& gradient) { p -= rate * gradient; });
  return {value.first, value.second, std::move(gradients)};
}

// Sum, product with the rule's numbers, sum of absolute values.
inline void check_parts(const std::vector<double>& golden, const std::string& name, const Tensor& value) {
  CAPTURE(name);
  std::vector<std::int64_t> shape;
  for (const Dim size : value.shape()) shape.push_back(static_cast<std::int64_t>(size));
  const Tensor wide = to(cast(value, DType::f64), Device::cpu());
  REQUIRE(golden.size() == 3);
  const double allowed = 1e-9 * golden[2] + 1e-12;
  CHECK(std::abs(sum(wide).item() - golden[0]) <= allowed);
  CHECK(std::abs(sum(wide * values(name, shape)).item() - golden[1]) <= allowed);
  CHECK(std::abs(sum(abs(wide)).item() - golden[2]) <= allowed);
}

struct Trial {
  Renames renames = {};
  std::vector<List> others = {};  // inputs of other sizes, for which the step is compiled once more at most
  double rate = 0.05;             // golden.py's
};

// `F` is a function without captures.
template <class M, class F>
void check_model(const std::string& family, M model, const List& given, F, const Trial& trial = {}) {
  CAPTURE(family);
  const List inputs = there(given);
  const Golden golden(family);
  nn::to(model, DType::f64);
  const auto name_of = load_reference(golden, model, trial.renames);
  nn::to(model, device());
  for (const Backend backend : {Backend::eager, Backend::compiled}) {
    CAPTURE(static_cast<int>(backend));
    M own = tree::map(model, [](const Tensor& t) { return t * 1; });
    auto run = compile(step<M, F>, {.backend = backend});
    for (int i = 0; i < 4; ++i) {
      const StepResult<M> found = run(own, inputs, trial.rate);
      CHECK(found.loss.item() == doctest::Approx(golden.losses[static_cast<std::size_t>(i)]).epsilon(1e-8));
      if (i > 0) continue;
      check_parts(golden.output, "output", found.output);
      std::size_t compared = 0;
      tree::for_each(found.gradients, [&](const char* place, const Param& gradient) {
        const std::string& name = name_of.at(place);
        const auto expected = golden.gradients.find(name);
        if (expected == golden.gradients.end()) return;  // PyTorch has none, as the loss does not depend on it
        ++compared;
        check_parts(expected->second, name, gradient);
      });
      CHECK(compared == golden.gradients.size());
    }
    if (backend == Backend::compiled) CHECK(specialization_count(run) == 1);
  }
  if (trial.others.empty()) return;
  // Other sizes: what the eager step gives, and one more compilation.
  M own = tree::map(model, [](const Tensor&t) { return t * 1; }), eager = own;
  auto run = compile(step<M, F>);
  run(own, inputs, 0);
  for (const List& one : trial.others) {
    const List others = there(one);
    const StepResult<M> found = run(own, others, 0), expected = step<M, F>(eager, others, 0);
    CHECK(found.loss.item() == doctest::Approx(expected.loss.item()).epsilon(1e-9));
    CHECK(sum(abs(found.output - expected.output)).item() <= 1e-9 * sum(abs(expected.output)).item());
    tree::for_each(found.gradients, expected.gradients, [](const char* place, const Param& one, const Param& other) {
      CAPTURE(place);
      CHECK(sum(abs(one - other)).item() <= 1e-9 * sum(abs(other)).item() + 1e-12);
    });
  }
  CHECK(specialization_count(run) == 2);
}

}  // namespace models_test
