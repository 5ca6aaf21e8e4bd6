// Weft's stream and events, beside work of the program's own.
#include <doctest/doctest.h>

#include <thread>

#include "ir/node.hpp"
#include "runtime/cuda/libraries.hpp"
#include "tests/cuda/support.hpp"
#include "tests/record/refused.hpp"
#include "weft/cuda.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

const runtime::cuda::Driver& driver() { return runtime::cuda::driver(); }
runtime::cuda::Stream* as_stream(void* stream) { return static_cast<runtime::cuda::Stream*>(stream); }

// A stream of the program's own.
struct OwnStream {
  OwnStream() {
    constexpr unsigned non_blocking = 1;
    runtime::cuda::Stream* made = nullptr;
    runtime::cuda::check(driver().cuStreamCreate(&made, non_blocking), "cuStreamCreate");
    stream = made;
  }
  ~OwnStream() { driver().cuStreamSynchronize(as_stream(stream)); }
  void* stream = nullptr;
};
runtime::cuda::Pointer address(const Tensor& x) {
  return reinterpret_cast<runtime::cuda::Pointer>(x.eval().node()->storage->data);
}

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("the times between events are those of the work") {
  const Tensor x = to(sample({4096, 4096}, 1), Device::cuda()).eval();
  cuda::Event begin, middle, end;
  test::refused([&] { end.seconds_since(begin); }, "[seconds_since] an event of the two was not recorded");
  matmul(x, x).eval();
  cuda::synchronize();
  begin.record();
  Tensor y = x;
  for (int i = 0; i < 4; ++i) y = matmul(y, x).eval();
  middle.record();
  for (int i = 0; i < 16; ++i) y = matmul(y, x).eval();
  end.record();
  const double first = middle.seconds_since(begin), then = end.seconds_since(middle);
  CHECK(first > 4 * 2.0 * 4096 * 4096 * 4096 / 2e15);  // no device is that fast
  CHECK(then > 2 * first);
  CHECK(begin.seconds_since(end) == doctest::Approx(-(first + then)).epsilon(0.01));
}

TEST_CASE("work of a program's stream comes between what is evaluated before and after") {
  const OwnStream own;
  const Tensor rows = to(ones({1 << 22}), Device::cuda()).eval();
  Tensor buffer = to(zeros({1 << 22}), Device::cuda()).eval();
  for (int round = 1; round <= 20; ++round) {
    const Tensor source = (rows * static_cast<float>(round)).eval();
    cuda::Event made;
    made.record();
    made.wait(own.stream);
    runtime::cuda::check(
        driver().cuMemcpyDtoDAsync_v2(address(buffer), address(source), std::size_t{4} << 22, as_stream(own.stream)),
        "cuMemcpyDtoDAsync");
    cuda::Event copied;
    copied.record(own.stream);
    copied.wait();
    CHECK(sum(buffer).item() == static_cast<double>(round) * (1 << 22));
  }
  runtime::cuda::check(driver().cuMemsetD32Async(address(buffer), 0, 1 << 22, as_stream(cuda::stream())),
                       "cuMemsetD32Async");
  CHECK(sum(buffer).item() == 0);
}

TEST_CASE("sixteen threads, each with a stream of its own, copy what one compiled function gives them") {
  constexpr int count = 16, rounds = 30, elements = 1 << 18;
  const auto step = compile([](Tensor& sum, const Tensor& x) {
    sum = sum + x;
    return sum * 2;
  });
  std::vector<double> wrong(count, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t)
    threads.emplace_back([&, t] {
      const Tensor x = to(full({elements}, t + 1.0), Device::cuda()).eval();
      const OwnStream own;  // after the first operation, which made the device current in this thread
      Tensor sum = to(zeros({elements}), Device::cuda()).eval();
      for (int round = 1; round <= rounds; ++round) {
        const Tensor buffer = to(zeros({elements}), Device::cuda()).eval();
        const Tensor given = step(sum, x).eval();
        cuda::Event made, copied;
        made.record();
        made.wait(own.stream);
        runtime::cuda::check(driver().cuMemcpyDtoDAsync_v2(address(buffer), address(given), sizeof(float) * elements,
                                                           as_stream(own.stream)),
                             "cuMemcpyDtoDAsync");
        copied.record(own.stream);
        copied.wait();
        wrong[static_cast<std::size_t>(t)] += amax(abs(buffer - 2.0 * (t + 1) * round)).item<double>();
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<double>(count, 0));
}

TEST_SUITE_END();
