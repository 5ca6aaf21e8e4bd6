// A program whose kernels are made before it runs (weft/precompile.hpp): by itself, from a file, or by one of several
// processes for all.
//   ranks save FILE | ranks load FILE | ranks broadcast COUNT FOLDER
// Prints what it computes; on standard error the milliseconds from its start to its first step's end.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "weft/precompile.hpp"
#include "weft/weft.hpp"

using namespace weft;

namespace {

const auto begin = std::chrono::steady_clock::now();

struct Mlp {
  nn::Linear in{8, 16}, out{16, 3};
  Tensor operator()(const Tensor& x) const { return out(gelu(in(x))); }
};

struct Program {
  Mlp model;
  decltype(compile(std::declval<Tensor (*)(const Mlp&, const Tensor&)>())) forward =
      compile(+[](const Mlp& m, const Tensor& x) { return m(x); });

  // The loss is outside of what is compiled.
  auto step(const Mlp& model, const Tensor& x, const Tensor& y) const {
    return value_and_grad([&](const Mlp& m) { return nn::cross_entropy(forward(m, x), y); }, model);
  }
  PrecompileReport precompile_all() const {
    const Tensor x = tensor_spec({12, 8});
    Precompiler all;
    all.add(forward, model, x);
    all.add([&](const Mlp& m, const Tensor& x, const Tensor& y) { return step(m, x, y); }, model, x,
            tensor_spec({12}, DType::i64));
    return all.run();
  }
  void run(std::FILE* to) {
    const StanceScope scope(Stance::fail_on_recompile);
    const Tensor x = reshape(cast(arange(96) % 19, DType::f32), {12, 8}) / 8, y = arange(12) % 3;
    optim::SGD sgd(model, {.lr = 0.125});
    for (int i = 0; i < 3; ++i) {
      const auto [loss, gradients] = step(model, x, y);
      sgd.update(model, gradients);
      std::fprintf(to, "%a\n", loss.item<double>());
      if (i == 0)
        std::fprintf(stderr, "first step after %.1f ms\n",
                     std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
    }
    std::fprintf(to, "%a\n", sum(cast(forward(model, x), DType::f64)).item<double>());
  }
};

bool transfer(int descriptor, void* data, std::size_t size, bool writes) {
  for (char* at = static_cast<char*>(data); size > 0;) {
    const ssize_t done = writes ? write(descriptor, at, size) : read(descriptor, at, size);
    if (done <= 0) return false;
    at += done;
    size -= static_cast<std::size_t>(done);
  }
  return true;
}

int of_rank(int rank, const std::vector<int>& pipes, const std::string& folder) {
  setenv("WEFT_TEST_RANK", std::to_string(rank).c_str(), 1);
  setenv("WEFT_CACHE_DIR", (folder + "/cache" + std::to_string(rank)).c_str(), 1);
  seed(7);
  Program program;
  std::size_t size = 0;
  if (rank == 0) {
    const PrecompileReport report = program.precompile_all();
    std::fputs(report.text().c_str(), stderr);
    if (!report.ok()) return 1;
    std::vector<std::byte> bytes = cache_bytes();
    size = bytes.size();
    for (const int end : pipes)
      if (!transfer(end, &size, sizeof size, true) || !transfer(end, bytes.data(), size, true)) return 1;
  } else {
    const int end = pipes[static_cast<std::size_t>(rank - 1)];
    if (!transfer(end, &size, sizeof size, false)) return 1;
    std::vector<std::byte> bytes(size);
    if (!transfer(end, bytes.data(), size, false) || load_cache(bytes) < 3) return 1;
    if (!program.precompile_all().ok()) return 1;
  }
  std::FILE* const to = std::fopen((folder + "/printed" + std::to_string(rank)).c_str(), "w");
  program.run(to);
  return std::fclose(to);
}

int broadcast(int count, const std::string& folder) {
  std::vector<int> readers, writers;
  for (int i = 1; i < count; ++i) {
    int ends[2];
    if (pipe(ends) != 0) return 1;
    readers.push_back(ends[0]);
    writers.push_back(ends[1]);
  }
  std::vector<pid_t> children;
  for (int rank = 0; rank < count; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      for (const int end : rank == 0 ? readers : writers) close(end);
      _exit(of_rank(rank, rank == 0 ? writers : readers, folder));
    }
    children.push_back(child);
  }
  for (const std::vector<int>* ends : {&readers, &writers})
    for (const int end : *ends) close(end);
  int failed = 0;
  for (const pid_t child : children) {
    int status = 0;
    failed += waitpid(child, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  }
  return failed;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 2 ? argv[1] : "";
  if (what == "broadcast") return broadcast(std::atoi(argv[2]), argv[3]);
  seed(7);
  if (what == "load") load_cache(argv[2]);
  Program program;
  const PrecompileReport report = program.precompile_all();
  if (!report.ok()) {
    std::fputs(report.text().c_str(), stderr);
    return 1;
  }
  if (what == "save") save_cache(argv[2]);
  program.run(stdout);
}
