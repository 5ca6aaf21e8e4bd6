// Which calls are recorded and replayed, on a device that only counts.
#include "runtime/recordings.hpp"

#include <doctest/doctest.h>

using namespace weft;

namespace {

int recorded = 0, replayed = 0;

struct Counted final : RecordedWork {
  void replay(Queue*) const override { ++replayed; }
};

// Stands for CUDA while it lives, on a machine where that has not been used.
class CountingDevice {
 public:
  CountingDevice() {
    recorded = replayed = 0;
    before_ = device_interface(Device::Type::cuda);
    device_interface(Device::Type::cuda).record = [](Device, const Work& work) -> std::unique_ptr<RecordedWork> {
      ++recorded;
      Queue elsewhere;
      work.put_on(&elsewhere);
      return std::make_unique<Counted>();
    };
  }
  ~CountingDevice() { device_interface(Device::Type::cuda) = before_; }

 private:
  DeviceInterface before_;
};

struct Calls {
  runtime::Recordings recordings;
  Queue queue{Device::cuda()};
  int done = 0;
  // At places that `at` stands for, with a size.
  void call(std::size_t at, std::int64_t size = 1) {
    void* pointers[] = {reinterpret_cast<void*>(64 * at), reinterpret_cast<void*>(64 * at + 8)};
    recordings.run(pointers, std::span(&size, 1), &queue, Work([&](Queue* on) { done += on == &queue; }));
  }
};

}  // namespace

TEST_CASE("a call is recorded when it comes back, and replayed from then on") {
  const CountingDevice device;
  Calls calls;
  for (int i = 0; i < 10; ++i) calls.call(1);
  CHECK(recorded == 1);
  CHECK(calls.done == 2);
  CHECK(replayed == 8);
  calls.call(1, 2);  // another size is another call
  CHECK(calls.done == 3);
  calls.call(2);
  CHECK(calls.done == 4);
  CHECK(recorded == 1);
}

TEST_CASE("a result that alternates between places has a recording for each") {
  const CountingDevice device;
  Calls calls;
  for (std::size_t i = 0; i < 30; ++i) calls.call(i % 3);
  CHECK(recorded == 3);
  CHECK(calls.done == 6);
  CHECK(replayed == 24);
}

TEST_CASE("calls that never come back, or come back too late, are not recorded for ever") {
  const CountingDevice device;
  Calls calls;
  for (std::size_t i = 0; i < 100; ++i) calls.call(i);
  CHECK(recorded == 0);
  for (std::size_t i = 0; i < 400; ++i) calls.call(i / 2 % 50);  // twice each, then others
  CHECK(recorded <= 5);
  CHECK(calls.done + replayed == 500);
}
