// A run of training that is killed and resumed gives the same bits as one that is not.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/storage.hpp"
#include "io/support.hpp"
#include "weft/compile.hpp"
#include "weft/grad.hpp"
#include "weft/io.hpp"
#include "weft/nn.hpp"
#include "weft/optim.hpp"

namespace weft {
namespace {

struct Model {
  nn::Linear first{4, 8}, second{8, 1};
};
struct Run {
  Model model;
  optim::AdamW optimizer{model, {.lr = 0.01}};
  Generator generator{3};
  std::int64_t step = 0;
  WEFT_MEMBERS(model, optimizer, generator, step)
};
constexpr std::int64_t steps = 40;

// Trains up to `steps`, saving after each step; after `kill_at` of them, dies in the middle of the next.
void train(Run& run, const std::string& path, std::int64_t kill_at) {
  auto step = compile([](Model& model, optim::AdamW& optimizer, Generator& generator) {
    const Tensor x = normal({16, 4}, 0, 1, generator), y = sum(x, -1, true);
    auto [loss, gradients] = value_and_grad(
        [&](const Model& m) { return nn::mse_loss(m.second(dropout(relu(m.first(x)), 0.1, generator)), y); }, model);
    optimizer.update(model, gradients);
    return loss;
  });
  while (run.step < steps) {
    step(run.model, run.optimizer, run.generator);
    if (run.step == kill_at) kill(getpid(), SIGKILL);
    ++run.step;
    io::save(path.c_str(), run);
  }
}
Run fresh() {
  seed(11);
  return Run();
}

TEST_CASE("a run that is killed twice ends where one that is not ends, in every bit") {
  const test::Folder folder;
  const std::string straight = folder.file("straight"), killed = folder.file("killed");
  Run whole = fresh();
  train(whole, straight, -1);
  int deaths = 0;
  for (const std::int64_t kill_at : {13, 29, -1}) {
    const pid_t child = fork();
    if (child == 0) {
      Run run = fresh();
      if (std::filesystem::exists(killed)) io::load(killed.c_str(), run);
      train(run, killed, kill_at);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    deaths += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (kill_at < 0) CHECK(status == 0);
  }
  CHECK(deaths == 2);
  CHECK(test::bytes_of(straight) == test::bytes_of(killed));
  Run other = fresh();
  CHECK(test::numbers(whole.model.first.weight) != test::numbers(other.model.first.weight));
  io::load(killed.c_str(), other);
  CHECK(test::numbers(whole.model.first.weight) == test::numbers(other.model.first.weight));
  CHECK(other.step == steps);
}

TEST_CASE("who is killed while it saves leaves the file of before, whole") {
  const test::Folder folder;
  const std::string path = folder.file("x");
  Tensor value = zeros({4000000});
  io::save(path.c_str(), {{"x", value}});
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      for (int i = 1;; ++i) io::save(path.c_str(), {{"x", full({4000000}, i)}});
    }
    usleep(static_cast<useconds_t>(2000 + 3000 * round));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    io::load(path.c_str(), {{"x", value}});
    CHECK(amax(value).item() == amin(value).item());
  }
}

}  // namespace
}  // namespace weft
