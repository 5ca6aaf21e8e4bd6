// replays DRIVER: what of a call is launched step by step and what as graphs, where some steps can't be recorded, by
// CompileOptions::mode, and where a step or a check ends the call. DRIVER is the path of the stand-in (bench/no_gpu),
// which counts. Ends with 0 when all is right.
#include <dlfcn.h>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <weft/cuda.hpp>
#include <weft/weft.hpp>

#include "base/options.hpp"

using namespace weft;

namespace {

void (*fail_checks)(int) = nullptr;
void (*count_launches)(int*) = nullptr;
std::uint64_t (*take_digest)() = nullptr;
int wrong = 0;

void require(bool right, const std::string& what) {
  if (right) return;
  std::fprintf(stderr, "%s\n", what.c_str());
  ++wrong;
}

// Launches one by one, graphs, the launches in these, and changes of them.
struct Counts {
  int single = 0, graphs = 0, in_graphs = 0, changed = 0;
  static Counts now() {
    int all[4];
    count_launches(all);
    return {all[0], all[1], all[2], all[3]};
  }
  Counts operator-(const Counts& o) const {
    return {single - o.single, graphs - o.graphs, in_graphs - o.in_graphs, changed - o.changed};
  }
};
void require_counts(const Counts& is, int single, int graphs, const std::string& where) {
  require(is.single == single && is.graphs == graphs, where + ": " + std::to_string(is.single) + " launches and " +
                                                          std::to_string(is.graphs) + " graphs, not " +
                                                          std::to_string(single) + " and " + std::to_string(graphs));
}
template <class Work>
Counts counts_of(const Work& work) {
  const Counts before = Counts::now();
  work();
  return Counts::now() - before;
}

Tensor there(Tensor x) { return to(x, Device::cuda()).eval(); }
// Steps that are not fused.
Tensor several(Tensor x, int steps) {
  for (int i = 0; i < steps; ++i) x = softmax(x, i % 2);
  return x;
}

int host_calls = 0;
bool host_throws = false;
Counts at_host_call;
Tensor on_host(const Tensor& x) {
  ++host_calls;
  at_host_call = Counts::now();
  if (host_throws) throw std::runtime_error("the host's code ends the call");
  return x;
}

// What precedes the host's code is one graph, what follows it another, and its own part is run between them.
void around_a_host_call() {
  const auto f = compile([](const Tensor& x) { return several(host_call(like(x), on_host, several(x, 4)), 5); });
  const Tensor x = there(ones({32, 48}));
  Tensor y;
  options().cuda_graphs = false;
  const Counts plain = counts_of([&] { y = f(x); });
  require(plain.graphs == 0 && plain.single >= 9, "without graphs: " + std::to_string(plain.single) + " launches");
  options().cuda_graphs = true;
  for (int i = 0; i < 6; ++i) y = f(x);  // results lie in two places in turn
  for (int i = 0; i < 4; ++i) {
    const Counts before = Counts::now();
    const int called = host_calls;
    y = f(x);
    const Counts all = Counts::now() - before, first = at_host_call - before;
    require_counts(all, 0, 2, "a call with a host_call");
    require_counts(first, 0, 1, "what precedes the host_call");
    require(all.in_graphs == plain.single, "the graphs have " + std::to_string(all.in_graphs) + " launches");
    require(host_calls == called + 1, "the host's code runs once a call");
  }
  host_throws = true;
  std::string error;
  const Counts ended = counts_of([&] {
    try {
      y = f(x);
    } catch (const std::runtime_error& thrown) {
      error = thrown.what();
    }
  });
  host_throws = false;
  require(error == "the host's code ends the call", "a replayed call that the host ends: " + error);
  require_counts(ended, 0, 1, "a call that the host ends");
  for (int i = 0; i < 4; ++i) y = f(x);
  require_counts(counts_of([&] { y = f(x); }), 0, 2, "a call after it");
}

// Short runs between steps that can't be recorded are launched step by step.
void around_many_host_calls() {
  const auto f = compile([](const Tensor& x) {
    const Tensor y = host_call(like(x), on_host, several(x, 1));
    return several(host_call(like(x), on_host, several(y, 1)), 4);
  });
  const Tensor x = there(ones({32, 48}));
  Tensor y;
  for (int i = 0; i < 8; ++i) y = f(x);
  const Counts all = counts_of([&] { y = f(x); });
  require(all.graphs == 1 && all.single > 0,
          "short runs: " + std::to_string(all.graphs) + " graphs, " + std::to_string(all.single) + " launches");
}

// A check is thrown in the call where its state is not written in place: it is no part of a graph, what follows it is.
void around_a_check() {
  const auto f = compile([](Param& state, const Tensor& index) {
    const Tensor rows = gather(state, index);
    const Tensor next = several(state + mean(rows), 5);
    state = next;
    return several(rows, 4);
  });
  Param state = there(ones({64, 32}));
  const Tensor index = there(arange(64));
  Tensor y, held;
  const auto call = [&] {
    held = state.tensor();  // so it is not written in place
    y = f(state, index);
  };
  for (int i = 0; i < 12; ++i) call();
  const Counts good = counts_of(call);
  require(good.graphs >= 1 && good.single >= 1, "a call that waits for its check: " + std::to_string(good.graphs) +
                                                    " graphs, " + std::to_string(good.single) + " launches");
  const Tensor before = state.tensor();
  fail_checks(1);
  std::string error;
  try {
    call();
  } catch (const Error& thrown) {
    error = thrown.what();
  }
  fail_checks(0);
  require(error.find("an index is out of range") != std::string::npos,
          "a failed check is thrown in its call: " + error);
  require(state.tensor().same(before), "state is as before the call");
  call();
  cuda::synchronize();
}

// Inputs that lie elsewhere in each call: kernels that read them, or write the result, get their pointers in the graph,
// and do what they do one by one.
void at_new_places() {
  const auto f = compile([](const Tensor& x, const Tensor& w) { return several(several(x, 1) * w, 19); });
  std::vector<Tensor> inputs;
  for (int i = 0; i < 40; ++i) inputs.push_back(there(full({32, 48}, i)));
  const Tensor w = there(ones({32, 48}));
  for (std::size_t i = 0; i < 3; ++i) f(inputs[i], w);
  for (std::size_t i = 3; i < inputs.size(); ++i) {
    take_digest();
    const Counts all = counts_of([&] { f(inputs[i], w); });
    const std::uint64_t moved = take_digest();
    require_counts(all, 0, 1, "an input at a new place");
    require(all.changed == 1, "an input at a new place changes " + std::to_string(all.changed) + " kernels");
    options().cuda_graphs = false;
    f(inputs[i], w);
    options().cuda_graphs = true;
    require(moved == take_digest(), "a graph that was changed does what its steps do one by one");
  }
  // Where an argument begins to share memory with another, steps depend on each other differently.
  const auto g = compile([](const Tensor& a, const Tensor& b) { return several(a, 10) + several(b, 10); });
  for (std::size_t i = 0; i < 6; ++i) g(inputs[i], inputs[i + 10]);
  const Counts apart = counts_of([&] { g(inputs[7], inputs[17]); });
  require_counts(apart, 0, 1, "two inputs at new places");
  const Counts shared = counts_of([&] { g(inputs[9], inputs[9]); });
  require(shared.graphs == 0 && shared.changed == 0, "one input in both places is another call");
}

// Without them a call of two steps is launched step by step; and a replayed check still fails.
void by_mode() {
  const auto f = [](const Tensor& x) { return several(x, 2); };
  const auto plain = compile(f), reduced = compile(f, {.mode = CompileMode::reduce_overhead});
  const Tensor x = there(ones({32, 48}));
  Tensor y = plain(x);
  for (int i = 0; i < 6; ++i) y = plain(x);
  const Counts launches = counts_of([&] { y = plain(x); });
  require(launches.graphs == 0 && launches.single == 2, "two steps: " + std::to_string(launches.single));
  y = reduced(x);
  Tensor z = reduced(x);
  z = {};
  require_counts(counts_of([&] { z = reduced(x); }), 0, 1, "two steps under reduce_overhead, at the first repeat");
  const auto look_up = compile([](const Tensor& table, const Tensor& index) { return gather(table, index); },
                               {.mode = CompileMode::reduce_overhead});
  const Tensor index = there(arange(4));
  for (int i = 0; i < 4; ++i) y = look_up(x, index);
  fail_checks(1);
  const Counts failing = counts_of([&] { y = look_up(x, index); });
  fail_checks(0);
  require_counts(failing, 0, 1, "a call whose check fails");
  std::string error;
  try {
    cuda::synchronize();
  } catch (const Error& thrown) {
    error = thrown.what();
  }
  require(error.find("an index is out of range") != std::string::npos, "a check that is replayed fails: " + error);
}

}  // namespace

int main(int count, char** arguments) {
  void* const driver = count == 2 ? dlopen(arguments[1], RTLD_NOW) : nullptr;
  fail_checks = driver ? reinterpret_cast<void (*)(int)>(dlsym(driver, "fake_fail_checks")) : nullptr;
  count_launches = driver ? reinterpret_cast<void (*)(int*)>(dlsym(driver, "fake_counts")) : nullptr;
  take_digest = driver ? reinterpret_cast<std::uint64_t (*)()>(dlsym(driver, "fake_digest")) : nullptr;
  if (!fail_checks || !count_launches || !take_digest) return 2;
  options().cuda_graphs = true;
  around_a_host_call();
  around_many_host_calls();
  around_a_check();
  at_new_places();
  by_mode();
  return wrong == 0 ? 0 : 1;
}
