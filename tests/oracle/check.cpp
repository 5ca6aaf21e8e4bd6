#include "oracle/check.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "base/options.hpp"
#include "tests/on_the_host.hpp"
#include "tests/sanitized.hpp"

namespace oracle {

namespace {

using weft::Index;
using weft::Scalar;

constexpr int few_runs = 6, many_runs = 100;

bool fallback() { return std::getenv("WEFT_ORACLE_FALLBACK") != nullptr; }

// ---- what the oracle allows -----------------------------------------------------------------------------------------

struct Expected {
  std::vector<Array> values;
  std::vector<std::vector<double>> spread;  // NaN: nothing can be said
  std::vector<std::vector<bool>> open_sign;
  std::string refused;  // the operation; empty where the program has results
  bool unknown = false;
};

std::vector<Array> evaluate(const Program& program, const std::vector<Array>& given) {
  std::vector<Array> inputs = given;
  std::vector<Array> results = replay(program, inputs);
  for (int i = 0; i < program.states; ++i) results.push_back(inputs[static_cast<std::size_t>(i)]);
  return results;
}

Expected expect(const Program& program, const std::vector<Array>& inputs, int runs = few_runs) {
  Expected expected;
  perturbation() = {};
  try {
    expected.values = evaluate(program, inputs);
  } catch (const Refused& refused) {
    expected.refused = refused.what();
    return expected;
  } catch (const Undecided&) {
    expected.unknown = true;
    return expected;
  }
  // What passes back through a value of no elements is zeros or nothing at all, and -0 + 0 is not -0.
  const bool has_empty = std::ranges::any_of(expected.values, [](const Array& value) { return value.count() == 0; });
  for (const Array& value : expected.values) {
    expected.spread.emplace_back(static_cast<std::size_t>(value.count()), 0.0);
    expected.open_sign.emplace_back(static_cast<std::size_t>(value.count()), has_empty && program.derivative > 0);
  }
  for (int run = 1; run <= runs; ++run) {
    perturbation() = Perturbation::of_run(program.seed, run);
    try {
      const std::vector<Array> moved = evaluate(program, inputs);
      for (std::size_t o = 0; o < moved.size(); ++o)
        for (std::size_t i = 0; i < expected.spread[o].size(); ++i) {
          double& spread = expected.spread[o][i];
          if (!moved[o].floating()) {
            if (moved[o]->integers[i] != expected.values[o]->integers[i]) spread = NAN;
            continue;
          }
          const double x = expected.values[o]->reals[i], y = moved[o]->reals[i];
          if ((x != x) != (y != y) || std::isinf(x) != std::isinf(y) || (std::isinf(x) && x != y))
            spread = NAN;
          else if (std::isfinite(x))
            spread = std::max(spread, std::fabs(x - y));
          if (std::signbit(x) != std::signbit(y)) expected.open_sign[o][i] = true;
        }
    } catch (const std::runtime_error&) {  // a moved index left its range
      expected.unknown = true;
      break;
    }
  }
  perturbation() = {};
  return expected;
}

// ---- executors ------------------------------------------------------------------------------------------------------

struct Outcome {
  std::vector<Array> values;
  std::string error;   // of weft::Error
  std::string defect;  // any other exception
};

std::vector<Tensor> tensors_of(const Program& program, const std::vector<Array>& arrays) {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const Input& input = program.inputs[i];
    if (input.given == Given::scalar) tensors.push_back(Scalar(arrays[i]->reals[0]).tensor());
    if (input.given == Given::index) tensors.push_back(Index(arrays[i]->integers[0]).tensor());
    if (input.given != Given::tensor) continue;
    tensors.push_back(input.alias >= 0 ? tensors[static_cast<std::size_t>(input.alias)]
                                       : make_tensor(arrays[i], input.memory));
  }
  return tensors;
}

template <class Run>
Outcome outcome_of(Run run) {
  Outcome outcome;
  try {
    outcome.values = run();
  } catch (const weft::Error& error) {
    outcome.error = error.what();
  } catch (const std::exception& error) {
    outcome.defect = error.what();
  }
  return outcome;
}

Outcome run_eagerly(const Program& program, const std::vector<Array>& arrays) {
  return outcome_of([&] {
    std::vector<Tensor> inputs = tensors_of(program, arrays);
    std::vector<Tensor> results = replay(program, inputs);
    for (int i = 0; i < program.states; ++i) results.push_back(inputs[static_cast<std::size_t>(i)]);
    std::vector<Array> values;
    for (const Tensor& result : results) values.push_back(read(result));
    return values;
  });
}

// What a compiled function replays: it gets only a number, as programs are no arguments.
std::vector<std::vector<Program>>& batches() {
  static std::vector<std::vector<Program>> list;
  return list;
}
using Lists = std::vector<std::vector<Tensor>>;
struct RuntimeNumbers {
  std::vector<Scalar> scalars;
  std::vector<Index> indices;
};
Lists run_batch(int batch, Lists& states, Lists inputs, const std::vector<RuntimeNumbers>& numbers) {
  const std::vector<Program>& programs = batches()[static_cast<std::size_t>(batch)];
  Lists results;
  for (std::size_t p = 0; p < programs.size(); ++p) {
    std::vector<Tensor> all = states[p];
    all.insert(all.end(), inputs[p].begin(), inputs[p].end());
    for (const Scalar& scalar : numbers[p].scalars) all.push_back(scalar.tensor());
    for (const Index& index : numbers[p].indices) all.push_back(index.tensor());
    results.push_back(replay(programs[p], all));
    states[p].assign(all.begin(), all.begin() + programs[p].states);
  }
  return results;
}
auto compile_batch(bool dynamic, bool checked) {
  return weft::compile(
      [](int batch, Lists& states, Lists inputs, const std::vector<RuntimeNumbers>& numbers) {
        return run_batch(batch, states, std::move(inputs), numbers);
      },
      {.dynamic = dynamic,
       .check = checked ? weft::Check::sampled : weft::Check::never,
       .on_compile_error = fallback() ? weft::OnFailure::run_eagerly : weft::OnFailure::raise});
}
using Function = decltype(compile_batch(false, false));

struct Batch {
  explicit Batch(std::vector<Program> programs, bool dynamic, bool checked)
      : number(static_cast<int>(batches().size())), function(compile_batch(dynamic, checked)) {
    batches().push_back(std::move(programs));
  }
  int number;
  Function function;

  // One outcome a program; a defect of the whole call is every program's.
  std::vector<Outcome> call(const std::vector<std::vector<Array>>& arrays, bool moved) {
    const std::vector<Program>& programs = batches()[static_cast<std::size_t>(number)];
    std::vector<Outcome> outcomes(programs.size());
    const Outcome whole = outcome_of([&]() -> std::vector<Array> {
      Lists states(programs.size()), inputs(programs.size());
      std::vector<RuntimeNumbers> numbers(programs.size());
      for (std::size_t p = 0; p < programs.size(); ++p) {
        const std::vector<Tensor> all = tensors_of(programs[p], arrays[p]);
        for (std::size_t i = 0; i < all.size(); ++i) {
          switch (programs[p].inputs[i].given) {
            case Given::scalar: numbers[p].scalars.push_back(Scalar(all[i])); break;
            case Given::index: numbers[p].indices.push_back(Index(all[i])); break;
            case Given::tensor: (static_cast<int>(i) < programs[p].states ? states : inputs)[p].push_back(all[i]);
          }
        }
      }
      const Lists results =
          moved ? function(number, states, std::move(inputs), numbers) : function(number, states, inputs, numbers);
      for (std::size_t p = 0; p < programs.size(); ++p) {
        for (const Tensor& result : results[p]) outcomes[p].values.push_back(read(result));
        for (const Tensor& state : states[p]) outcomes[p].values.push_back(read(state));
      }
      return {};
    });
    if (!whole.error.empty() || !whole.defect.empty()) outcomes.assign(programs.size(), whole);
    return outcomes;
  }
};

// ---- comparison -----------------------------------------------------------------------------------------------------

std::string number_text(double x) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", x);
  return text;
}
std::string place(const char* executor, std::size_t o, const Array& value, std::size_t i) {
  return std::string(executor) + ": result " + std::to_string(o) + " " + to_string(value) + " element " +
         std::to_string(i) + " is ";
}

std::string compare(const char* executor, const Expected& expected, const std::vector<Array>& got,
                    Statistics& statistics) {
  if (got.size() != expected.values.size()) return std::string(executor) + ": another number of results";
  for (std::size_t o = 0; o < got.size(); ++o) {
    const Array &want = expected.values[o], &have = got[o];
    if (want->dtype != have->dtype || want->shape != have->shape)
      return std::string(executor) + ": result " + std::to_string(o) + " is " + to_string(have) + ", not " +
             to_string(want);
    for (std::size_t i = 0; i < expected.spread[o].size(); ++i) {
      const double spread = expected.spread[o][i];
      if (spread != spread) {
        ++statistics.undecided;
        continue;
      }
      ++(spread == 0 ? statistics.exact : statistics.bounded);
      if (!want.floating()) {
        if (want->integers[i] != have->integers[i])
          return place(executor, o, have, i) + std::to_string(have->integers[i]) + ", not " +
                 std::to_string(want->integers[i]);
        continue;
      }
      const double x = want->reals[i], y = have->reals[i];
      bool fine = x != x ? y != y : std::isinf(x) ? x == y : std::fabs(x - y) <= 8 * spread;
      if (spread == 0 && x == 0 && !expected.open_sign[o][i]) fine = fine && std::signbit(x) == std::signbit(y);
      if (!fine)
        return place(executor, o, have, i) + number_text(y) + ", not " + number_text(x) + ", allowed " +
               number_text(8 * spread);
    }
  }
  return {};
}

std::string compare_bits(const char* executor, const std::vector<Array>& want, const std::vector<Array>& have,
                         const std::vector<bool>& promised) {
  if (want.size() != have.size()) return std::string(executor) + ": another number of results than eager";
  for (std::size_t o = 0; o < want.size(); ++o) {
    if (!promised[o]) continue;
    for (std::size_t i = 0; i < want[o]->integers.size(); ++i)
      if (want[o]->integers[i] != have[o]->integers[i])
        return place(executor, o, have[o], i) + std::to_string(have[o]->integers[i]) + ", eager " +
               std::to_string(want[o]->integers[i]);
    for (std::size_t i = 0; i < want[o]->reals.size(); ++i) {
      const double x = want[o]->reals[i], y = have[o]->reals[i];
      if (x != x ? y != y : x == y && std::signbit(x) == std::signbit(y)) continue;
      return place(executor, o, have[o], i) + number_text(y) + ", eager " + number_text(x) + ": other bits";
    }
  }
  return {};
}
// On a device the threads of a row follow from the widths of the dtypes that a kernel reads too (docs/numerics.md).
bool are_of_several_widths(const Program& program) {
  return std::ranges::any_of(program.inputs, [&](const auto& input) {
    return info(input.dtype).bits != info(program.inputs.front().dtype).bits;
  });
}
// Bits are promised everywhere but for the order of additions that a matrix product leaves open, and on a device a
// program of several widths: of which results, by what depends on one. A gradient depends on what its place leads to.
std::vector<bool> bits_promised(const Program& program, std::size_t results) {
  const std::size_t inputs = program.inputs.size(), values = inputs + program.calls.size();
  const bool all_open = !weft::test::on_the_host() && are_of_several_widths(program);
  std::vector<bool> open(values, all_open), read(values, false);
  std::vector<std::vector<bool>> leads(inputs, std::vector<bool>(values, false));  // from an input to a value
  for (std::size_t i = 0; i < inputs; ++i) leads[i][i] = read[i] = true;
  for (std::size_t v = inputs; v < values; ++v) {
    const Call& call = program.calls[v - inputs];
    open[v] = open[v] || std::string(functions()[static_cast<std::size_t>(call.function)].name) == "matmul";
    for (const Argument& argument : call.arguments) {
      if (argument.kind != Argument::Kind::value) continue;
      const auto operand = static_cast<std::size_t>(argument.value);
      read[operand] = true;
      open[v] = open[v] || open[operand];
      for (std::size_t i = 0; i < inputs; ++i) leads[i][v] = leads[i][v] || leads[i][operand];
    }
  }
  std::vector<bool> promised;
  for (std::size_t v = 0; v < values; ++v)
    if (!read[v]) promised.push_back(!open[v]);
  const bool any_open = std::find(open.begin(), open.end(), true) != open.end();
  const std::size_t states = static_cast<std::size_t>(program.states), gradients = results - promised.size() - states;
  std::vector<bool> of_places;
  for (std::size_t i = 0; i < inputs; ++i) {
    bool reached = program.derivative == 2 && any_open;  // through the gradients of other places
    for (std::size_t v = 0; v < values; ++v) reached = reached || (leads[i][v] && open[v]);
    if (weft::is_floating(program.inputs[i].dtype) && program.inputs[i].given == Given::tensor)
      of_places.push_back(!reached);
  }
  promised.insert(promised.end(), of_places.begin(), of_places.begin() + static_cast<std::ptrdiff_t>(gradients));
  for (std::size_t i = 0; i < states; ++i)
    promised.push_back(i > 0 || program.written < 0 || !open[static_cast<std::size_t>(program.written)]);
  return promised;
}

std::string operation_of(const std::string& error) { return error.substr(0, error.find(']')); }

// Whether a gradient that is 0 everywhere still depends on its place is not said: then grad may refuse.
bool says_constant(const Outcome& outcome) {
  return outcome.error.find("the loss does not depend on") != std::string::npos;
}
bool is_constant(const Program& program, const Expected& expected) {
  const auto states = static_cast<std::size_t>(program.states);
  for (auto o = static_cast<std::size_t>(result_count(program)); o + states < expected.values.size(); ++o)
    for (double slope : expected.values[o]->reals)
      if (slope != 0) return false;
  return program.derivative != 0;
}

// An executor's outcome against the oracle's, and against eager.
std::string judge(const char* executor, const Program& program, const std::vector<Array>& inputs,
                  const Expected& expected, const Outcome& outcome, const Outcome* eager, Statistics& statistics) {
  if (!outcome.defect.empty()) return std::string(executor) + " throws what is no weft::Error: " + outcome.defect;
  // A Scalar or an Index counts as a literal, which must fit, outside compiled functions only: inside it is cast.
  const bool numbers = std::any_of(program.inputs.begin(), program.inputs.end(),
                                   [](const Input& input) { return input.given != Given::tensor; });
  if (eager && numbers && expected.refused == "full" && outcome.error.empty()) return {};
  if (eager && operation_of(eager->error) != operation_of(outcome.error))
    return std::string(executor) + " throws: " + outcome.error + "; eager: " + eager->error;
  std::string failure;
  if (!expected.unknown) {
    if (!expected.refused.empty() && outcome.error.empty())
      return std::string(executor) + ": no error, the oracle refuses " + expected.refused;
    if (expected.refused.empty() && !outcome.error.empty() &&
        !(says_constant(outcome) && is_constant(program, expected)))
      return std::string(executor) + " throws: " + outcome.error;
    if (!outcome.error.empty()) return {};
    failure = compare(executor, expected, outcome.values, statistics);
    if (!failure.empty()) failure = compare(executor, expect(program, inputs, many_runs), outcome.values, statistics);
  }
  if (failure.empty() && eager && outcome.error.empty())
    failure = compare_bits(executor, eager->values, outcome.values, bits_promised(program, outcome.values.size()));
  return failure;
}

// ---- a batch --------------------------------------------------------------------------------------------------------

struct Case {
  Program program, larger;
  std::vector<Array> inputs, larger_inputs;
  Expected expected, larger_expected;
  Outcome eager, larger_eager;
  bool grows = false;
};

Case prepare(const Program& program) {
  Case it;
  it.program = program;
  it.inputs = make_inputs(program);
  it.expected = expect(program, it.inputs);
  it.eager = run_eagerly(program, it.inputs);
  if (program.generic && it.expected.refused.empty() && !it.expected.unknown) {
    it.larger = grown(program, 2);
    std::int64_t count = 0;
    for (const Input& input : it.larger.inputs) count = std::max(count, count_of(input.shape));
    if (count > 40000) return it;
    it.larger_inputs = make_inputs(it.larger);
    it.larger_expected = expect(it.larger, it.larger_inputs);
    it.grows = it.larger_expected.refused.empty() && !it.larger_expected.unknown;
    for (const Array& value : it.larger_expected.values) it.grows &= value.count() < 200000;
    if (it.grows) it.larger_eager = run_eagerly(it.larger, it.larger_inputs);
  }
  return it;
}

// Runs cases together; where the call as a whole fails, each alone.
template <class Use>
void run_cases(const std::vector<Case*>& cases, bool dynamic, bool checked, Use use) {
  if (cases.empty()) return;
  std::vector<Program> programs;
  for (const Case* it : cases) programs.push_back(it->program);
  Batch batch(std::move(programs), dynamic, checked);
  if (use(batch, cases) || cases.size() == 1) return;
  const auto middle = cases.begin() + static_cast<std::ptrdiff_t>(cases.size() / 2);
  run_cases(std::vector<Case*>(cases.begin(), middle), dynamic, checked, use);
  run_cases(std::vector<Case*>(middle, cases.end()), dynamic, checked, use);
}

}  // namespace

std::vector<std::string> check(const std::vector<Program>& programs, Statistics* statistics, int share) {
  Statistics own;
  if (!statistics) statistics = &own;
  std::vector<Case> cases;
  for (const Program& program : programs) cases.push_back(prepare(program));
  std::vector<std::string> failures(cases.size());
  std::vector<Case*> together, dynamic;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    Case& it = cases[i];
    failures[i] = judge("eager", it.program, it.inputs, it.expected, it.eager, nullptr, *statistics);
    if (failures[i].empty() && it.grows)
      failures[i] = judge("eager, larger", it.larger, it.larger_inputs, it.larger_expected, it.larger_eager, nullptr,
                          *statistics);
    ++statistics->programs;
    statistics->refused += !it.expected.refused.empty();
    statistics->unknown += it.expected.unknown;
    statistics->gradients += it.program.derivative > 0;
    statistics->states += it.program.states > 0;
    statistics->grown += it.grows;
    for (const Call& call : it.program.calls)
      ++statistics->calls[functions()[static_cast<std::size_t>(call.function)].name];
    if (!failures[i].empty()) continue;
    if (!it.expected.refused.empty() || it.expected.unknown) {
      run_cases({&it}, it.program.seed % 2 == 0, false, [&](Batch& batch, const std::vector<Case*>&) {
        const Outcome got = batch.call({it.inputs}, false)[0];
        failures[i] = judge("compiled", it.program, it.inputs, it.expected, got, &it.eager, *statistics);
        return true;
      });
      continue;
    }
    const std::uint64_t seed = it.program.seed, every = static_cast<std::uint64_t>(share);
    if (share && seed % every) continue;
    const bool turn = share && seed / every % 2;
    if (!turn || !it.grows) together.push_back(&it);
    if (!share || (turn && it.grows)) dynamic.push_back(&it);
  }
  const auto failure_of = [&](const Case* it) -> std::string& {
    return failures[static_cast<std::size_t>(it - cases.data())];
  };
  const auto report = [&](const char* executor, const std::vector<Case*>& some, const std::vector<Outcome>& got) {
    if (some.size() > 1 && (!got[0].error.empty() || !got[0].defect.empty())) return false;
    for (std::size_t k = 0; k < some.size(); ++k)
      if (std::string& failure = failure_of(some[k]); failure.empty())
        failure =
            judge(executor, some[k]->program, some[k]->inputs, some[k]->expected, got[k], &some[k]->eager, *statistics);
    return true;
  };
  const auto inputs_of = [](const std::vector<Case*>& some) {
    std::vector<std::vector<Array>> inputs;
    for (const Case* it : some) inputs.push_back(it->inputs);
    return inputs;
  };
  const bool checked = !programs.empty() && programs[0].seed % 3 == 0;
  run_cases(together, false, checked, [&](Batch& batch, const std::vector<Case*>& some) {
    return report("compiled", some, batch.call(inputs_of(some), false)) &&
           report("compiled, moved arguments", some, batch.call(inputs_of(some), true));
  });
  run_cases(dynamic, true, checked, [&](Batch& batch, const std::vector<Case*>& some) {
    if (!report("dynamic", some, batch.call(inputs_of(some), false))) return false;
    std::vector<std::vector<Array>> inputs;
    for (const Case* it : some) inputs.push_back(it->grows ? it->larger_inputs : it->inputs);
    const std::vector<Outcome> got = batch.call(inputs, true);
    if (some.size() > 1 && (!got[0].error.empty() || !got[0].defect.empty())) return false;
    for (std::size_t k = 0; k < some.size(); ++k)
      if (std::string& failure = failure_of(some[k]); failure.empty() && some[k]->grows)
        failure = judge("dynamic, larger", some[k]->larger, inputs[k], some[k]->larger_expected, got[k],
                        &some[k]->larger_eager, *statistics);
    return true;
  });
  statistics->compiled += static_cast<int>(together.size());
  statistics->dynamic += static_cast<int>(dynamic.size());
  return failures;
}

// ---- many -----------------------------------------------------------------------------------------------------------

namespace {
std::string failure_of(const Program& program) {
  try {
    return check({program}).front();
  } catch (const std::exception& error) {
    return error.what();
  }
}
Program shrink(Program program, int budget) {
  for (bool shorter = true; shorter && budget > 0;) {
    shorter = false;
    for (std::size_t at = program.calls.size(); at-- > 0 && budget > 0;) {
      const std::optional<Program> candidate = without(program, at);
      if (!candidate) continue;
      --budget;
      if (failure_of(*candidate).empty()) continue;
      program = *candidate;
      shorter = true;
    }
  }
  const auto simpler = [&](auto change) {
    Program candidate = program;
    change(candidate);
    if (budget-- > 0 && !failure_of(candidate).empty()) program = candidate;
  };
  if (program.derivative) simpler([](Program& p) { p.derivative = 0; });
  if (program.derivative == 2) simpler([](Program& p) { p.derivative = 1; });
  if (program.states) simpler([](Program& p) { p.states = 0, p.swap = false, p.written = -1; });
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    if (program.inputs[i].memory != Memory::plain) simpler([&](Program& p) { p.inputs[i].memory = Memory::plain; });
    if (program.inputs[i].numbers != Numbers::ordinary)
      simpler([&](Program& p) { p.inputs[i].numbers = Numbers::ordinary; });
  }
  return program;
}
}  // namespace

Statistics check_programs(std::uint64_t first, int count, int share) {
  weft::options().kernel_optimization = 1;  // thousands of kernels: what -O3 adds is other tests' subject
  count /= weft::test::on_the_host() ? weft::test::less_when_sanitized : 10;
  share *= weft::test::less_when_sanitized;  // g++ takes a second to compile a sanitized loop
  if (const char* seeds = std::getenv("WEFT_ORACLE_SEED")) {
    char* end = nullptr;
    first = std::strtoull(seeds, &end, 10);
    count = *end == '-' ? static_cast<int>(std::strtoull(end + 1, &end, 10) - first + 1) : 1;
    share = *end == '/' ? std::atoi(end + 1) : 0;
  }
  const int batch = weft::test::less_when_sanitized > 1 ? 40 : 40 * std::max(share, 1);
  int shrunk = 0;
  Statistics statistics;
  for (int done = 0; done < count; done += batch) {
    std::vector<Program> programs;
    for (int i = done; i < std::min(done + batch, count); ++i)
      programs.push_back(make_program(first + static_cast<std::uint64_t>(i)));
    if (count == 1) std::fputs(to_text(programs[0]).c_str(), stderr);  // what a crash needs
    if (std::getenv("WEFT_ORACLE_VERBOSE"))
      std::fprintf(stderr, "seeds from %llu\n",
                   static_cast<unsigned long long>(first + static_cast<std::uint64_t>(done)));
    const std::vector<std::string> failures = check(programs, &statistics, share);
    for (std::size_t i = 0; i < programs.size(); ++i) {
      if (failures[i].empty()) continue;
      const Program least = ++shrunk <= 30 ? shrink(programs[i], 40) : programs[i];
      FAIL_CHECK("seed ", programs[i].seed, ": ", failures[i], "\nshrunk: ", failure_of(least), "\n", to_text(least),
                 "again: WEFT_ORACLE_SEED=", programs[i].seed,
                 std::string(fallback() ? " WEFT_ORACLE_FALLBACK=1 PATH=/nonexistent WEFT_CXX=" : ""),
                 " build/release/tests/weft_tests_oracle --source-file=*/programs_a_test.cpp");
    }
    batches().clear();
  }
  return statistics;
}

void check_coverage(const Statistics& s) {
  MESSAGE(s.programs, " programs of ", s.calls.size(), " functions, ", s.refused, " refused, ", s.unknown,
          " the oracle has no answer to, ", s.gradients, " with gradients, ", s.states, " with state, ", s.compiled,
          " compiled, ", s.dynamic, " dynamic, ", s.grown, " at other sizes; ", s.exact, " elements exact, ", s.bounded,
          " within a bound, ", s.undecided, " undecided");
  if (std::getenv("WEFT_ORACLE_SEED") || s.programs < 500) return;
  CHECK(s.calls.size() * 100 >= functions().size() * 95);
  CHECK(s.gradients * 10 >= s.programs);
  CHECK(s.grown * 5 >= s.programs);
  CHECK(s.unknown * 10 <= s.programs);
  CHECK((s.exact + s.bounded) > 6 * s.undecided);
}

}  // namespace oracle
