// The stream and the events of weft/cuda.hpp.
#include "base/fail.hpp"
#include "runtime/cuda/device.hpp"
#include "runtime/cuda/users_call.hpp"
#include "weft/cuda.hpp"

namespace weft::cuda {

using runtime::cuda::check;
using runtime::cuda::driver;
using runtime::cuda::Stream;
using runtime::cuda::users_call;

int device_count() noexcept {
  try {
    return runtime::cuda::device_count();
  } catch (const std::exception&) {
    return 0;
  }
}
bool is_available(Device device) noexcept { return runtime::cuda::can_use(device); }
void synchronize(Device device, Loc loc) {
  users_call("synchronize", loc, [&] { runtime::cuda::synchronize(device); });
}
void* stream(Device device, Loc loc) {
  return users_call("stream", loc, [&] { return runtime::cuda::use(device).queue.stream; });
}

struct Event::Data {
  explicit Data(Device of) : device(of) {
    runtime::cuda::use(device);
    constexpr unsigned with_times = 0;
    check(driver().cuEventCreate(&event, with_times), "cuEventCreate");
  }
  Data(const Data&) = delete;
  ~Data() { driver().cuEventDestroy_v2(event); }
  Stream* stream(void* given) const {  // the device's context is current from here on
    Stream* const own = runtime::cuda::use(device).queue.stream;
    return given ? static_cast<Stream*>(given) : own;
  }
  void synchronize() const {
    runtime::cuda::use(device);
    check(driver().cuEventSynchronize(event), "cuEventSynchronize");
  }

  Device device;
  runtime::cuda::Event* event = nullptr;
};

Event::Event(Device device, Loc loc)
    : data_(users_call("Event", loc, [&] { return std::make_shared<Data>(device); })) {}
void Event::record(void* stream, Loc loc) {
  users_call("record", loc,
             [&] { check(driver().cuEventRecord(data_->event, data_->stream(stream)), "cuEventRecord"); });
}
void Event::wait(void* stream, Loc loc) const {
  users_call("wait", loc,
             [&] { check(driver().cuStreamWaitEvent(data_->stream(stream), data_->event, 0), "cuStreamWaitEvent"); });
}
void Event::synchronize(Loc loc) const {
  users_call("synchronize", loc, [&] { data_->synchronize(); });
}
double Event::seconds_since(const Event& earlier, Loc loc) const {
  return users_call("seconds_since", loc, [&] {
    data_->synchronize();
    earlier.data_->synchronize();
    float milliseconds = 0;
    constexpr int was_not_recorded = 400;  // CUDA_ERROR_INVALID_HANDLE
    const int result = driver().cuEventElapsedTime(&milliseconds, earlier.data_->event, data_->event);
    if (result == was_not_recorded) fail("seconds_since", loc, "an event of the two was not recorded");
    check(result, "cuEventElapsedTime");
    return milliseconds / 1e3;
  });
}

}  // namespace weft::cuda
