// What several processes do together, as one program that a launcher starts in each:
//   processes [device] values,gradients,training,gpt,order,sizes,loops,pieces   some of these, on the host or on a
//     device each
//   processes [device] sharding,sharded_training,sharded_dtype,sharded_plan,sharded_files,sharded_refusals
//     and of these (sharded.cpp)
//   processes [device] plan_difference
//   processes difference | function_difference | sharded_difference | absent | death RANK | exit RANK | fork [die] |
//   own_mpi LEVEL | late | device death
// Exits with 0 where every check holds. The last ones are about what goes wrong: they exit with 0 where this process
// was told so by an Error, and print it. Exits with 2 where there is no such case.
#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <thread>

#include "examples/models/gpt2.hpp"
#include "examples/models/next_token.hpp"
#include "runtime/processes/process_group.hpp"
#include "tests/distributed/support.hpp"
#include "weft/effects.hpp"
#include "weft/loops.hpp"

using namespace weft;
using namespace test;
using distributed::Reduction;

namespace {

// 0, 1, 2 ... + 100 * rank
Tensor own(std::int64_t count, DType dtype, int rank) { return on_device(cast(arange(count) + 10 * rank, dtype)); }

// ---- values ---------------------------------------------------------------------------------------------------------

void values() {
  const int size = distributed::size(), rank = distributed::rank();
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64, DType::u8}) {
    Tensor sum = own(6, dtype, 0);
    std::vector<Tensor> all{sum};
    for (int other = 1; other < size; ++other) {
      all.push_back(own(6, dtype, other));
      sum = sum + all.back();
    }
    const Tensor x = own(6, dtype, rank), gathered = distributed::all_gather(x);
    EXPECT(equal(distributed::all_reduce(x), sum));
    EXPECT(equal(gathered, concat(all)));
    EXPECT(gathered.dtype() == dtype);
    EXPECT(equal(distributed::broadcast(x, size - 1), all.back()));
    EXPECT(equal(distributed::reduce_scatter(gathered), all[static_cast<std::size_t>(rank)] * size));
    if (is_floating(dtype)) EXPECT(near(distributed::all_reduce(x, Reduction::mean), sum / size, 1e-2));
  }
  const Tensor even = own(3, DType::i64, rank) % 2 == 0;
  EXPECT(equal(distributed::all_gather(even), distributed::all_gather(cast(even, DType::u8)) == 1));
  EXPECT(number(distributed::all_reduce(full({}, rank))) == size * (size - 1) / 2);  // 0-d
  EXPECT(distributed::all_gather(zeros({0, 3})).size(0) == Dim(0));

  // In a compiled function, in the middle of others, of a view and of a scalar; the same bits as eagerly.
  const auto f = [](const Tensor& x) {
    const Tensor sum = distributed::all_reduce(transpose(x) * 2) + 1;
    const Tensor part = distributed::reduce_scatter(reshape(slice(x, 0, 1, 9), {-1}), Reduction::mean);
    return std::tuple(sum, exp(-distributed::all_gather(part)), distributed::broadcast(mean(x), 1) * 3);
  };
  const Tensor x = reshape(own(80, DType::f32, rank), {16, 5}) / 7;
  const auto [a, b, c] = f(x);
  const auto compiled = compile(f);
  for (int i = 0; i < 3; ++i) {
    const auto [d, e, g] = compiled(x);
    EXPECT(near(a, d) && near(b, e) && near(c, g));
  }
  // One example of several, in the processes and in the batch.
  const auto gathers = [](const Tensor& row) {
    return distributed::all_gather(row) + distributed::all_reduce(sum(row)) +
           sum(distributed::reduce_scatter(distributed::all_gather(row)));
  };
  const Tensor batch = slice(x, 0, 0, 4), mapped = vmap(gathers)(batch);
  for (int i = 0; i < 4; ++i) EXPECT(near(select(mapped, 0, i), gathers(select(batch, 0, i))));
  distributed::barrier();
}

// ---- derivatives ----------------------------------------------------------------------------------------------------

// Of the sum of all losses: moves x of each process, and looks at that sum.
void gradients() {
  const int size = distributed::size(), rank = distributed::rank();
  const Tensor weights = on_device(cast(arange(4 * size), DType::f64)) / 3 + rank;
  const auto check = [&](auto f, const char* what) {
    const Tensor x = on_device(cast(arange(4), DType::f64)) / 5 + 0.3 * (rank + 1);
    const Tensor found = grad(f, x);
    for (int moved = 0; moved < size; ++moved)
      for (int i = 0; i < 4; ++i) {
        const double step = 1e-5;
        const Tensor by = on_device(cast(arange(4) == i, DType::f64)) * (moved == rank ? step : 0);
        const double slope = number(distributed::all_reduce(f(x + by) - f(x - by))) / (2 * step);
        if (moved == rank)
          expect(std::abs(slope - number(select(found, 0, i))) < 1e-6 * (1 + std::abs(slope)), what, i);
      }
  };
  check([&](const Tensor& x) { return sum(square(distributed::all_reduce(square(x))) * slice(weights, 0, 0, 4)); },
        "all_reduce");
  check(
      [&](const Tensor& x) {
        return sum(square(distributed::all_reduce(x, Reduction::mean)) * slice(weights, 0, 0, 4));
      },
      "mean");
  check([&](const Tensor& x) { return sum(exp(distributed::broadcast(x, 1)) * slice(weights, 0, 0, 4)); }, "broadcast");
  check([&](const Tensor& x) { return sum(square(distributed::all_gather(square(x))) * weights); }, "all_gather");
  check([&](const Tensor& x) { return sum(square(distributed::reduce_scatter(square(tile(x, {size})) * weights))); },
        "reduce_scatter");
  const auto [value, tangent] =
      jvp([](const Tensor& x) { return distributed::all_reduce(square(x)); }, weights, weights);
  EXPECT(near(tangent, distributed::all_reduce(2 * square(weights)), 1e-12));
  // In a compiled function, where the losses themselves are added first.
  const auto compiled = compile([](const Tensor& x) {
    return grad([](const Tensor& x) { return square(distributed::all_reduce(sum(exp(x)))); }, x);
  });
  const Tensor total = distributed::all_reduce(sum(exp(weights)));
  EXPECT(near(compiled(weights), 2 * size * total * exp(weights), 1e-12));
}

// ---- training -------------------------------------------------------------------------------------------------------

struct Mlp {
  nn::Linear in{12, 32}, middle{32, 32}, out{32, 5};
  Tensor operator()(const Tensor& x) const { return out(gelu(middle(gelu(in(x))))); }
};

// Trains two copies: one with the whole batch in each process, one with this process's part of it.
template <class LossOf, class Model>
void train(const Model& start, const Tensor& x, const Tensor& y, std::int64_t bucket_bytes, int steps) {
  const int size = distributed::size(), rank = distributed::rank();
  Model whole = start, parts = start;
  // The bias of an attention's keys has no effect: its gradient is what rounding leaves, 1e-9, of which the usual eps
  // would make steps of a tenth of lr.
  const optim::AdamWOptions options{.lr = 1e-2, .eps = 1e-6};
  optim::AdamW for_whole(whole, options), for_parts(parts, options);
  const auto step = compile([](Model& model, optim::AdamW& optimizer, const Tensor& x, const Tensor& y) {
    auto [loss, gradients] = value_and_grad([&](const Model& m) { return LossOf()(m, x, y); }, model);
    optimizer.update(model, gradients);
    return loss;
  });
  const auto step_together =
      compile([](Model& model, optim::AdamW& optimizer, const Tensor& x, const Tensor& y, std::int64_t bytes) {
        auto [loss, gradients] = value_and_grad([&](const Model& m) { return LossOf()(m, x, y); }, model);
        optimizer.update(model, distributed::average(gradients, {.bytes = bytes}));
        return distributed::all_reduce(loss, Reduction::mean);
      });
  const std::int64_t own = static_cast<std::int64_t>(x.size(0)) / size;
  const Tensor x_part = slice(x, 0, rank * own, (rank + 1) * own), y_part = slice(y, 0, rank * own, (rank + 1) * own);
  for (int i = 0; i < steps; ++i) {
    const Tensor a = step(whole, for_whole, x, y), b = step_together(parts, for_parts, x_part, y_part, bucket_bytes);
    EXPECT(near(a, b, 1e-5));
  }
  tree::for_each(whole, parts, [&](const char* path, const Param& a, const Param& b) {
    expect(allclose(a.tensor(), b.tensor(), {.rtol = 1e-3, .atol = 2e-5}).template item<bool>(), path, __LINE__);
    expect(equal(distributed::broadcast(b.tensor()), b.tensor()), path, __LINE__);  // the bits of rank 0
  });
}

struct MlpLoss {
  Tensor operator()(const Mlp& m, const Tensor& x, const Tensor& y) const { return nn::cross_entropy(m(x), y); }
};
void training() {
  seed(100 + distributed::rank());
  Mlp model;
  nn::to(model, device);
  distributed::replicate(model);
  seed(3);
  const std::int64_t batch = 8 * distributed::size();
  const Tensor x = on_device(normal({batch, 12})), y = on_device(arange(batch) % 5);
  train<MlpLoss>(model, x, y, 2000, 6);
}

struct GptLoss {
  Tensor operator()(const models::Gpt2& m, const Tensor& x, const Tensor& y) const {
    const Tensor logits = m(x);
    return nn::cross_entropy(reshape(logits, {-1, logits.size(2)}), reshape(y, {-1}));
  }
};
void gpt() {
  seed(5);
  models::Gpt2 model({.vocab_size = 40, .context = 16, .width = 32, .layers = 1, .heads = 2, .dropout = 0});
  nn::to(model, device);
  const std::int64_t batch = 2 * distributed::size();
  const Tensor tokens = on_device(reshape(arange(batch * 17) * 7 % 40, {batch, 17}));
  train<GptLoss>(model, slice(tokens, 1, 0, 16), slice(tokens, 1, 1, 17), 16 << 10, 3);
}

// Processes whose batches differ have kernels of their own, and their collectives in one order; that nobody reads one
// is the same in all.
void order() {
  const int rank = distributed::rank();
  const auto f = compile([](const Tensor& x, const Tensor& w) {
    const Tensor dead = distributed::all_reduce(sum(x) * 3);
    const Tensor a = distributed::all_reduce(sum(exp(x), 0)), same = distributed::all_reduce(sum(exp(x), 0));
    const Tensor b = distributed::all_gather(matmul(w, w)), c = distributed::all_reduce(sum(x * x));
    return std::tuple(a + same, b, c);
  });
  const Tensor x = full({4 + 30 * rank, 7}, 0.5), w = full({9, 9}, rank);
  for (int i = 0; i < 3; ++i) {
    const auto [a, b, c] = f(x, w);
    const int size = distributed::size(), rows = 4 * size + 30 * size * (size - 1) / 2;
    EXPECT(near(a, full({7}, 2 * rows * std::exp(0.5)), 1e-5));
    EXPECT(near(c, full({}, rows * 7 * 0.25), 1e-5));
    EXPECT(number(select(select(b, 0, 9 * size - 1), 0, 0)) == 9.0 * (size - 1) * (size - 1));
  }
}

// Sizes that change from call to call, in some processes only: these compile what others have.
void sizes() {
  const int rank = distributed::rank(), size = distributed::size();
  const auto f = compile([](const Tensor& x) { return distributed::all_reduce(sum(exp(x), 0)); });
  for (int i = 0; i < 5; ++i) {
    double rows = 0;
    for (int each = 0; each < size; ++each) rows += 4 + i * each;
    EXPECT(near(f(on_device(full({4 + i * rank, 7}, 0.5))), on_device(full({7}, rows * std::exp(0.5))), 1e-5));
  }
  for (const int columns : {9, 7, 9, 12})  // in all of them
    EXPECT(near(f(on_device(zeros({2, columns}))), on_device(full({columns}, 2 * size))));
}

// A scan and a choice: what their bodies do together.
void loops() {
  const int size = distributed::size();
  const auto f = compile([](const Tensor& x) {
    return scan([](const Tensor& total, const Tensor& row) { return total + distributed::all_reduce(row); },
                zeros_like(select(x, 0, 0)), x);
  });
  for (const int rows : {3, 5}) EXPECT(near(f(on_device(ones({rows, 4}))), on_device(full({4}, rows * size))));
}

// Collectives on both sides of code of the host, each in a run of steps that a device replays as a graph of its own.
void pieces() {
  const int size = distributed::size(), rank = distributed::rank();
  const auto f = compile([](const Tensor& x) {
    const Tensor sums = distributed::all_reduce(sum(exp(softmax(x, -1) * 3), 0));
    const Tensor scaled = softmax(sums, 0) * 5;
    const Tensor seen = host_call(
        ResultType{{9}}, [](const Tensor& sums) { return sums * 2; }, scaled);
    const Tensor part = distributed::all_reduce(sum(tanh(x) * seen, 0), Reduction::mean);
    return std::pair(softmax(part, 0) * 7, distributed::all_gather(reshape(sum(x * seen), {1})));
  });
  const auto expected = [&](const std::vector<Tensor>& all) {
    Tensor sums = zeros({9}), part = zeros({9});
    std::vector<Tensor> each;
    for (const Tensor& x : all) sums = sums + sum(exp(softmax(x, -1) * 3), 0);
    const Tensor seen = softmax(sums, 0) * 10;
    for (const Tensor& x : all) {
      part = part + sum(tanh(x) * seen, 0) / size;
      each.push_back(sum(x * seen));
    }
    return std::pair(softmax(part, 0) * 7, stack(each));
  };
  for (int call = 0; call < 6; ++call) {
    std::vector<Tensor> all;
    for (int each = 0; each < size; ++each) all.push_back(sin(reshape(arange(45), {5, 9}) * 0.7 + (call + 3 * each)));
    const auto [a, b] = f(on_device(all[static_cast<std::size_t>(rank)]));
    const auto [a_expected, b_expected] = expected(all);
    EXPECT(near(a, on_device(a_expected), 1e-5));
    EXPECT(near(b, on_device(b_expected), 1e-5, 1e-4));  // sums of 45 numbers that cancel
  }
}

// ---- what goes wrong ------------------------------------------------------------------------------------------------

int difference() {
  const int rank = distributed::rank();
  try {
    distributed::all_reduce(ones({rank == 1 ? 5 : 4}));
  } catch (const Error& error) {
    if (!std::strstr(error.what(), "all_reduce of 4 f32") ||
        !std::strstr(error.what(), "rank 1 at an all_reduce of 5 f32")) {
      std::fprintf(stderr, "%s\n", error.what());
      return 1;
    }
    // The group has ended: what comes later says the same.
    try {
      distributed::barrier();
    } catch (const Error& later) {
      if (!std::strcmp(later.what(), error.what())) return told(error.what());
    }
  }
  return 1;
}

// A compiled function that does something else in rank 1, on the host and on devices; then a wait for rank 1, which
// does not come.
int plan_difference() {
  const int rank = distributed::rank();
  const auto f = compile([](const Tensor& x, const Tensor& y) {
    const Tensor a = distributed::all_reduce(sum(x)), b = distributed::all_reduce(y);
    return a + b + sum(distributed::broadcast(exp(y)));
  });
  try {
    f(on_device(ones({3})), on_device(cast(full({}, 1), rank == 1 ? DType::f64 : DType::f32))).item();
  } catch (const Error& error) {
    return told(error.what());
  }
  return 1;
}
// Rank 1 is at a collective outside of such a function.
int function_difference() {
  const auto f = compile([](const Tensor& x) { return distributed::all_reduce(sum(x)); });
  try {
    if (distributed::rank() == 1) distributed::all_reduce(ones({4}));
    f(ones({3}));
  } catch (const Error& error) {
    return told(error.what());
  }
  return 1;
}
int is_late() {
  const std::vector<std::string> own{"an all_reduce of 3 f32"};
  try {
    if (distributed::rank() != 1) runtime::process_group()->agree(own, std::chrono::seconds(1));
  } catch (const Error& error) {
    return told(error.what());
  }
  sleep(5);
  _exit(0);
}

// Rank 1 dies while the others wait for their device, on which the sum never comes.
int loses_on_device() {
  const auto f = compile([](const Tensor& x) { return distributed::all_reduce(sum(x * 2)); });
  const Tensor x = on_device(ones({100}));
  for (int i = 0; i < 6; ++i) number(f(x));
  if (distributed::rank() == 1) kill(getpid(), SIGKILL);
  number(f(x));
  return 1;
}

int loses(int which, bool dies) {
  const auto f = compile([](const Tensor& x) { return distributed::all_reduce(sum(x * 2)); });
  for (int i = 0; i < 3; ++i) f(ones({100}));
  if (distributed::rank() == which) {
    if (dies) kill(getpid(), SIGKILL);
    return 0;
  }
  try {
    f(ones({100}));
  } catch (const Error& error) {
    return told(error.what());
  }
  return 1;
}

// Forked children are no members of the group: they end by exit(), and nothing happens to it. One that outlives its
// parent, where `dies`, does not hide that it has died.
int forks(bool dies) {
  const int rank = distributed::rank(), forking = distributed::size() - 1;
  runtime::process_group()->watch();
  for (const int status : {0, 1}) {
    if (rank != forking) continue;
    const pid_t child = fork();
    if (child == 0) {
      try {
        distributed::all_reduce(ones({2}));
        _exit(3);
      } catch (const Error& error) {
        std::exit(std::strstr(error.what(), "is no member of the group") ? status : 4);
      }
    }
    int ended = 0;
    waitpid(child, &ended, 0);
    EXPECT(WIFEXITED(ended) && WEXITSTATUS(ended) == status);
  }
  EXPECT(number(distributed::all_reduce(ones({}))) == distributed::size());
  if (!dies || failures) return failures ? 1 : 0;
  if (rank == forking) {
    const pid_t parent = getpid();
    if (fork() == 0) {
      while (getppid() == parent) usleep(10000);
      sleep(20);
      _exit(0);
    }
    kill(parent, SIGKILL);
  }
  sleep(10);
  return 3;  // nobody has told this process
}

// A program that initializes MPI itself.
void initialize_mpi(int level) {
  void* const library = dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL);
  int given = 0;
  if (level < 0)
    reinterpret_cast<int (*)(int*, char***)>(dlsym(library, "MPI_Init"))(nullptr, nullptr);
  else
    reinterpret_cast<int (*)(int*, char***, int, int*)>(dlsym(library, "MPI_Init_thread"))(nullptr, nullptr, level,
                                                                                           &given);
}
int has_own_mpi(int level) {
  initialize_mpi(level);
  int status = 0;
  try {
    distributed::init();
    EXPECT(number(distributed::all_reduce(ones({}))) == distributed::size());
    status = failures;
  } catch (const Error& error) {
    status = told(error.what());
  }
  reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "MPI_Finalize"))();
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  try {
    if (what == "late") {  // a collective before init()
      distributed::all_reduce(ones({2}));
      try {
        distributed::init();
      } catch (const Error& error) {
        return std::strstr(error.what(), "init() comes first") ? 0 : 1;
      }
      return 1;
    }
    if (what == "own_mpi" && argc > 2) return has_own_mpi(std::atoi(argv[2]));
    distributed::init();
    distributed::init();
    if (const char* const expected = std::getenv("WEFT_TEST_PROCESSES");
        expected && std::atoi(expected) != distributed::size()) {
      std::fprintf(stderr, "there are %d processes\n", distributed::size());
      return 1;
    }
    if (argc > 2 && what == "device") device = Device::cuda(distributed::local_rank());
    const std::string cases = argc > 2 && what == "device" ? argv[2] : what;
    if (what == "device" && cases == "death") return loses_on_device();
    if (cases == "difference") return difference();
    if (cases == "plan_difference") return plan_difference();
    if (cases == "function_difference") return function_difference();
    if (cases == "absent") return is_late();
    if (cases == "sharded_difference") return sharded_difference();
    if (argc > 2 && (cases == "death" || cases == "exit")) return loses(std::atoi(argv[2]), cases == "death");
    if (cases == "fork") return forks(argc > 2 && !std::strcmp(argv[2], "die"));
    const struct {
      const char* name;
      void (*check)();
    } all[] = {{"values", values},
               {"gradients", gradients},
               {"training", training},
               {"gpt", gpt},
               {"order", order},
               {"sizes", sizes},
               {"loops", loops},
               {"pieces", pieces},
               {"sharding", sharding},
               {"sharded_training", sharded_training},
               {"sharded_dtype", sharded_dtype},
               {"sharded_plan", sharded_plan},
               {"sharded_files", sharded_files},
               {"sharded_refusals", sharded_refusals}};
    std::stringstream names(cases + ",");
    for (std::string name; std::getline(names, name, ',');) {
      const auto* const found = std::ranges::find(all, name, [](const auto& each) { return each.name; });
      if (found == std::end(all)) {
        std::fprintf(stderr, "there is no case %s\n", name.c_str());
        return 2;
      }
      found->check();
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", distributed::rank(), error.what());
    return 1;
  }
  return failures ? 1 : 0;
}
