#include "runtime/cuda/arrival.hpp"

#include <array>
#include <memory>

#include "base/fail.hpp"
#include "base/once.hpp"
#include "runtime/cuda/per_device.hpp"

namespace weft::runtime::cuda {
namespace {

// A stream for each direction: of what is queued, and of what is recorded.
struct Streams {
  Once once;
  std::array<Stream*, 2> queued{}, recorded{};

  static Streams& of(const DeviceState& state) {
    static constinit PerDevice<Streams> all;
    Streams& streams = all.of(state.device);
    streams.once([&] {
      constexpr unsigned non_blocking = 1;
      for (auto* const directions : {&streams.queued, &streams.recorded})
        for (Stream*& stream : *directions) check(driver().cuStreamCreate(&stream, non_blocking), "cuStreamCreate");
    });
    return streams;
  }
};

// Queued work may still read the memory, so this waits. The block is `borrowed`, so that nobody donates it to a result.
void free_on_host(Storage* storage) {
  try {
    wait(storage->device);
  } catch (const Error&) {  // the driver has failed, and its memory is gone with it
  }
  driver().cuMemFreeHost(storage->data);
  delete storage;
}

}  // namespace

Arrival::~Arrival() {
  for (Event* const event : {queued_.before, queued_.after, recorded_.before, recorded_.after})
    if (event) driver().cuEventDestroy_v2(event);
}

void Arrival::begin(DeviceState& state, void* to, const void* from, std::size_t bytes, const Queue* queue) {
  const Streams& streams = Streams::of(state);
  Stream* const beside = (queue == &state.queue ? streams.queued : streams.recorded)[to_host_ ? 0 : 1];
  const std::lock_guard lock(mutex_);
  Moments& at = moments(state, queue);
  constexpr unsigned no_timing = 2;
  for (Event** const event : {&at.before, &at.after})
    if (!*event) check(driver().cuEventCreate(event, no_timing), "cuEventCreate");
  check(driver().cuEventRecord(at.before, queue->stream), "cuEventRecord");
  check(driver().cuStreamWaitEvent(beside, at.before, 0), "cuStreamWaitEvent");
  if (bytes > 0 && to_host_)
    check(driver().cuMemcpyDtoHAsync_v2(to, reinterpret_cast<Pointer>(from), bytes, beside), "cuMemcpyDtoHAsync");
  if (bytes > 0 && !to_host_)
    check(driver().cuMemcpyHtoDAsync_v2(reinterpret_cast<Pointer>(to), from, bytes, beside), "cuMemcpyHtoDAsync");
  check(driver().cuEventRecord(at.after, beside), "cuEventRecord");
}

void Arrival::wait(DeviceState& state, const Queue* queue) {
  const std::lock_guard lock(mutex_);
  check(driver().cuStreamWaitEvent(queue->stream, moments(state, queue).after, 0), "cuStreamWaitEvent");
}

void end_copies(Device device) noexcept {
  try {
    for (Stream* const stream : Streams::of(use(device)).queued) driver().cuStreamSynchronize(stream);
  } catch (const Error&) {  // the driver has failed, and nothing is copied any more
  }
}

Storage* allocate_on_host(Device device, std::size_t bytes) {
  use(device);
  auto block = std::make_unique<Storage>();
  constexpr unsigned portable = 1;
  const int result = driver().cuMemHostAlloc(&block->data, bytes, portable);
  if (result == error_out_of_memory)
    throw OutOfMemory(
        concat_text("[offload] the host has no ", bytes, " bytes of page-locked memory for what is offloaded").c_str());
  check(result, "cuMemHostAlloc");
  block->device = device;
  block->bytes = bytes;
  block->borrowed = true;
  block->free = free_on_host;
  return block.release();
}

}  // namespace weft::runtime::cuda
