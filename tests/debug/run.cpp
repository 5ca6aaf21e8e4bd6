// Runs whose pages tests/debug/run_page looks at: training, a function that is compiled again, a loop, a fork; by the
// first word also a function beyond its recompile limit, another working directory, and memory that ends.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <new>
#include <string>
#include <thread>
#include <vector>
#include <weft/weft.hpp>

using namespace weft;

// The heap has no piece of so many bytes.
static std::size_t least_refused = SIZE_MAX;
void* operator new(std::size_t bytes) {
  if (bytes >= least_refused) throw std::bad_alloc();
  if (void* const piece = std::malloc(bytes)) return piece;
  throw std::bad_alloc();
}
void operator delete(void* piece) noexcept { std::free(piece); }
void operator delete(void* piece, std::size_t) noexcept { std::free(piece); }

// Made before the objects of a static library.
static const Tensor early = arange(1 << 20).eval();

struct Mlp {
  nn::Linear a, b;
  Mlp() : a(64, 128), b(128, 10) {}
  Tensor operator()(const Tensor& x) const { return b(relu(a(x))); }
  WEFT_MEMBERS(a, b)
};

static void train() {
  Generator g(3);
  Mlp model;
  optim::SGD optimizer(model, {.lr = 0.1});
  auto step = compile([](Mlp& m, optim::SGD& optimizer, const Tensor& x, const Tensor& y) {
    auto [loss, grads] = value_and_grad([&](const Mlp& m) { return nn::cross_entropy(m(x), y); }, m);
    optimizer.update(m, grads);
    return loss;
  });
  const Tensor x = normal({32, 64}, 0, 1, g), y = randint({32}, 0, 10, g);
  for (int i = 0; i < 10; ++i) step(model, optimizer, x, y).item();
  const auto scaled = compile([](const Tensor& x, double by) { return exp(x * by); });
  for (const double by : {1.0, 2.0, 3.0}) scaled(x, by).eval();
  const auto sums = compile([](const Tensor& x) {
    return scan([](const Tensor& sum, const Tensor& row) { return std::pair(sum + row, tanh(sum)); }, zeros({64}), x)
        .second;
  });
  sums(x).eval();
  const Tensor large = arange(1 << 20) * 2;
  large.eval();
  if (const pid_t child = fork(); child == 0) {
    scaled(x, 1.0).eval();
    std::exit(0);
  } else {
    waitpid(child, nullptr, 0);
  }
}

static void go_beyond_the_limit() {
  const auto scaled =
      compile([](const Tensor& x, double by) { return exp(x * by); }, {.recompile_limit = 3, .cache_size = 1});
  for (int by = 0; by < 60; ++by) scaled(zeros({4}), by).eval();
}

// Memory is noted while it is given back, where nothing may throw.
static void end_memory_in_release() {
  std::vector<Tensor> small;
  for (int i = 0; i < 1500; ++i) small.push_back(full({2}, i).eval());
  least_refused = 1;
  for (Tensor& each : small) each = Tensor();
  least_refused = SIZE_MAX;
}

// Bytes at once: the text of a page asks for more, compiling what was compiled before for less.
constexpr std::size_t less_than_a_page = 100000;
static void end_memory_in_compile() {
  const auto compiled_sum = [] { return compile([](const Tensor& x) { return x + 1; })(ones({1})).item<float>(); };
  compiled_sum();
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // a page is due
  least_refused = less_than_a_page;
  if (compiled_sum() != 2) std::abort();
}

int main(int count, char** words) {
  const std::string what = count > 1 ? words[1] : "";
  if (what == "limit") return go_beyond_the_limit(), 0;
  if (what == "release") return end_memory_in_release(), 0;
  train();
  if (what == "moved" && chdir("..") != 0) return 1;
  if (what == "compile") end_memory_in_compile();
  if (what == "exit") least_refused = less_than_a_page;
  if (what == "killed") std::abort();
}
