// A call of a packaged function against one of the compiled function that was packaged, in one process: ten tensors of
// 16 floats, whose sum it gives. Prints for `compiled`, `package` (C++) and `c` (weft_run.h) the nanoseconds of a call,
// the median of rounds that take turns, and the heap allocations of one.
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "allocations.hpp"
#include "support.hpp"
#include "weft/package.hpp"
#include "weft_run.h"

namespace {

using weft::Tensor;
using Ten = std::array<Tensor, 10>;
constexpr int calls = 2000, rounds = 101;

struct Case {
  const char* name;
  std::vector<double> times;
  double allocated = 0;
};
template <class F>
void measure(Case& one, const F& call) {
  const long before = allocations;
  const auto start = bench::Clock::now();
  for (int i = 0; i < calls; ++i) call();
  const double seconds = bench::seconds_since(start);
  one.allocated = static_cast<double>(allocations - before) / calls;
  one.times.push_back(seconds * 1e9 / calls);
}
void require(bool holds) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", weft_run_message());
  std::exit(1);
}

}  // namespace

int main() {
  const auto compiled = weft::compile([](const Ten& x) {
    Tensor sum = x[0];
    for (std::size_t i = 1; i < x.size(); ++i) sum = sum + x[i];
    return sum;
  });
  Ten x;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = bench::random_normal({16}, static_cast<unsigned>(i));
  const std::string path =
      std::filesystem::temp_directory_path() / ("weft-bench-" + std::to_string(getpid()) + ".weft");
  weft::package(path, "sum", compiled, x);
  const auto packaged = weft::load_package(path).function<Tensor(const Ten&)>("sum");
  weft_package* package = nullptr;
  weft_function* function = nullptr;
  require(weft_package_open(path.c_str(), &package) == WEFT_OK);
  std::filesystem::remove(path);
  require(weft_package_function(package, "sum", &function) == WEFT_OK);

  std::int64_t shape[] = {16};
  weft_tensor tensors[10] = {};
  const weft_tensor* arguments[10];
  for (std::size_t i = 0; i < 10; ++i) {
    void* const data = const_cast<float*>(x[i].data<float>().data());
    tensors[i] = {data, {1, 0}, 1, {2, 32, 1}, shape, nullptr, 0};
    arguments[i] = &tensors[i];
  }
  const auto call_compiled = [&] { compiled(x).eval(); };
  const auto call_packaged = [&] { packaged(x).eval(); };
  const auto call_from_c = [&] {
    weft_managed_tensor* result;
    require(weft_function_call(function, WEFT_ANY_KIND, arguments, 10, &result, 1) == WEFT_OK);
    result->deleter(result);
  };
  Case cases[] = {{"compiled", {}}, {"package", {}}, {"c", {}}};
  for (int i = 0; i < rounds; ++i) {
    measure(cases[0], call_compiled);
    measure(cases[1], call_packaged);
    measure(cases[2], call_from_c);
  }
  for (const Case& one : cases) std::printf("%s %.1f %g\n", one.name, bench::median(one.times), one.allocated);
}
