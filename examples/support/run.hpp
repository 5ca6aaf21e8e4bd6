// What the programs from 05 on share: options, training that saves and resumes, and errors as one sentence.
#pragma once
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <weft/weft.hpp>

namespace support {

using namespace weft;

enum class Sign { not_negative, positive };  // of a number; none that is given may be infinite or NaN

// An option of the command line and the variable that it sets; a bool takes no value.
struct Option {
  const char* name;
  const char* meaning;
  std::string* text = nullptr;
  std::int64_t* number = nullptr;
  double* real = nullptr;
  bool* flag = nullptr;
  Sign sign = Sign::not_negative;
  Option(const char* n, std::string& to, const char* m) : name(n), meaning(m), text(&to) {}
  Option(const char* n, std::int64_t& to, const char* m, Sign s = {}) : name(n), meaning(m), number(&to), sign(s) {}
  Option(const char* n, double& to, const char* m, Sign s = {}) : name(n), meaning(m), real(&to), sign(s) {}
  Option(const char* n, bool& to, const char* m) : name(n), meaning(m), flag(&to) {}

  bool set(const char* value) const {
    if (text) *text = value;
    if (text) return true;
    char* end = nullptr;
    errno = 0;
    if (number) *number = std::strtoll(value, &end, 10);
    if (real) *real = std::strtod(value, &end);
    const double found = real ? *real : static_cast<double>(*number);
    return *value && !*end && errno == 0 && std::isfinite(found) && (sign == Sign::positive ? found > 0 : found >= 0);
  }
  // What set() takes.
  std::string wanted() const {
    return std::string(number ? "an integer" : "a number") +
           (sign == Sign::positive ? " above 0" : " that is not negative");
  }
};

[[noreturn]] inline void fail(const std::string& sentence) { throw Error(sentence.c_str()); }

// What every program takes.
struct Run {
  std::string device_name = "cpu";
  bool bf16 = false;

  Device device() const { return device_name == "cuda" ? Device::cuda() : Device::cpu(); }
  DType dtype() const { return bf16 ? DType::bf16 : DType::f32; }
};

// What a program takes besides that trains.
struct Training : Run {
  std::string save, resume;
  bool quick = false;
  std::int64_t seed = 1;

  bool resumes() const { return !resume.empty(); }
};

// The names of the options that the command line has.
struct Given : std::vector<std::string> {
  bool has(const char* option) const { return std::find(begin(), end(), option) != end(); }
  // What --quick makes of an option: the value that the command line has for it stays.
  template <class T>
  void set_unless_given(const char* option, T& value, T quick) const {
    if (!has(option)) value = quick;
  }
};

// Reads the options, --device among them. Ends the program where one is unknown or wrong.
inline Given parse_all(int count, char** arguments, Run& run, std::vector<Option> options) {
  options.emplace_back("--device", run.device_name, "cpu or cuda");
  const auto refuse = [&](const std::string& why) {
    std::fprintf(stderr, "%s\n", why.c_str());
    for (const Option& each : options) std::fprintf(stderr, "  %-12s %s\n", each.name, each.meaning);
    std::exit(2);
  };
  Given given;
  for (int i = 1; i < count; ++i) {
    const Option* found = nullptr;
    for (const Option& each : options)
      if (!std::strcmp(each.name, arguments[i])) found = &each;
    if (!found) refuse("unknown option " + std::string(arguments[i]) + "; there are");
    given.push_back(found->name);
    if (found->flag) {
      *found->flag = true;
      continue;
    }
    if (i + 1 == count || !found->set(arguments[i + 1]))
      refuse(std::string(found->name) +
             (i + 1 == count ? " wants a value"
                             : " does not take " + std::string(arguments[i + 1]) + ", but " + found->wanted()));
    ++i;
  }
  if (run.device_name != "cpu" && run.device_name != "cuda") refuse("--device is cpu or cuda, not " + run.device_name);
  return given;
}

// The options of a program that uses a model, and `more`.
inline Given parse(int count, char** arguments, Run& run, std::vector<Option> more) {
  more.emplace_back("--bf16", run.bf16, "the model's parameters and all that it computes are bf16");
  return parse_all(count, arguments, run, std::move(more));
}

// The options of a program that trains one, and `more`.
inline Given parse(int count, char** arguments, Training& run, std::vector<Option> more) {
  more.emplace_back(
      "--bf16", run.bf16,
      "forward and backward in bf16, of parameters cast to it; they themselves and the optimizer stay f32");
  more.emplace_back("--save", run.save, "FILE: write a checkpoint at the end, and on Ctrl-C");
  more.emplace_back("--resume", run.resume, "FILE: go on from a checkpoint");
  more.emplace_back("--seed", run.seed, "N: of the random numbers");
  more.emplace_back("--quick", run.quick, "a few seconds, to see that it runs; what other options say stays");
  Given given = parse_all(count, arguments, run, std::move(more));
  seed(static_cast<std::uint64_t>(run.seed));
  return given;
}

// Runs a program; an error is one sentence and the exit status 1.
template <class F>
int guarded(F program) try {
  program();
  return 0;
} catch (const std::exception& error) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

inline volatile std::sig_atomic_t interrupted = 0;

// f(model) with the model's parameters in this dtype; gradients and the parameters themselves keep theirs.
template <class M, class F>
auto in_dtype(M& model, DType dtype, F f) {
  struct Kept {  // given back on every way out
    M& model;
    const M before;
    ~Kept() {
      tree::for_each(model, before, [](Param& p, const Param& was) { p = was; });
    }
  } const kept{model, model};
  for (auto& p : nn::parameters(model)) p.value = cast(p.value, dtype);
  return f(model);
}

// Calls step() until state.step is `steps`, with a progress line. The state, all of which a checkpoint holds, is saved
// at the end, after each `every` steps, and where the user interrupts; a second interruption ends the program at once.
// The default generator starts anew at each step, so that a run that goes on draws what one without a break would.
// Gives false where it was interrupted.
template <class State, class Step>
bool train(const Training& run, State& state, std::int64_t steps, Step step, std::int64_t every = 1000) {
  if (run.resumes()) {
    io::load(run.resume, state);
    nn::to(state, run.device());
    std::printf("goes on after step %lld\n", static_cast<long long>(state.step));
  }
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupted = 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  const auto save = [&] {
    if (!run.save.empty()) io::save(run.save, state);
  };
  Progress progress("training", steps - state.step);
  Tensor loss;
  while (state.step < steps && !interrupted) {
    seed(static_cast<std::uint64_t>(run.seed << 32 | state.step));
    loss = step();
    ++state.step;
    if (state.step % every == 0) save();
    progress.tick(loss);
  }
  save();
  if (loss.defined()) std::printf("loss after step %lld: %.6f\n", static_cast<long long>(state.step), loss.item());
  if (interrupted) std::printf("interrupted%s%s\n", run.save.empty() ? "" : "; go on with --resume ", run.save.c_str());
  std::signal(SIGINT, SIG_DFL);
  return !interrupted;
}

}  // namespace support
