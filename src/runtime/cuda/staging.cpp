#include "runtime/cuda/staging.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>

#include "runtime/cuda/per_device.hpp"
#include "runtime/parallel.hpp"

namespace weft::runtime::cuda {
namespace {

constexpr std::size_t piece_bytes = 8 << 20, pieces = 4;
constexpr std::size_t least_staged = 4 << 20;  // the driver takes as long for less

// Of one copy at a time.
struct Staging {
  struct Piece {
    std::byte* memory = nullptr;
    Event* copied = nullptr;  // by the device
  };
  std::mutex mutex;
  std::array<Piece, pieces> all;

  static Staging& of(const DeviceState& device) {
    static constinit PerDevice<Staging> every;
    return every.of(device.device);
  }
  // False where the host has no page-locked memory left. It is never freed.
  bool open() {
    for (Piece& piece : all) {
      constexpr unsigned portable = 1, no_timing = 2;
      if (!piece.copied) check(driver().cuEventCreate(&piece.copied, no_timing), "cuEventCreate");
      if (piece.memory) continue;
      void* memory = nullptr;
      if (driver().cuMemHostAlloc(&memory, piece_bytes, portable) != 0) return false;
      piece.memory = static_cast<std::byte*>(memory);
    }
    return true;
  }
};

void copy_by_threads(std::byte* to, const std::byte* from, std::size_t bytes) {
  struct Both {
    std::byte* to;
    const std::byte* from;
  } both{to, from};
  constexpr std::int64_t grain = 1 << 20;
  parallel_for(
      0, static_cast<std::int64_t>(bytes), grain,
      [](void* context, std::int64_t begin, std::int64_t end) {
        const Both& both = *static_cast<const Both*>(context);
        std::memcpy(both.to + begin, both.from + begin, static_cast<std::size_t>(end - begin));
      },
      &both);
}

std::size_t bytes_of(std::size_t piece, std::size_t bytes) {
  return std::min(piece_bytes, bytes - piece * piece_bytes);
}
std::size_t count_of(std::size_t bytes) { return (bytes + piece_bytes - 1) / piece_bytes; }

}  // namespace

bool is_staged(const void* on_host, std::size_t bytes) {
  if (bytes < least_staged) return false;
  constexpr int memory_type = 2;
  int type = 0;
  return driver().cuPointerGetAttribute(&type, memory_type, reinterpret_cast<Pointer>(on_host)) != 0;
}

bool copy_up_staged(DeviceState& device, Pointer to, const std::byte* from, std::size_t bytes) {
  Staging& staging = Staging::of(device);
  const std::lock_guard lock(staging.mutex);
  if (!staging.open()) return false;
  for (std::size_t i = 0; i < count_of(bytes); ++i) {
    const Staging::Piece& piece = staging.all[i % pieces];
    const std::size_t own = bytes_of(i, bytes);
    check(driver().cuEventSynchronize(piece.copied), "cuEventSynchronize");
    copy_by_threads(piece.memory, from + i * piece_bytes, own);
    check(driver().cuMemcpyHtoDAsync_v2(to + i * piece_bytes, piece.memory, own, device.queue.stream),
          "cuMemcpyHtoDAsync");
    check(driver().cuEventRecord(piece.copied, device.queue.stream), "cuEventRecord");
  }
  return true;
}

bool copy_down_staged(DeviceState& device, std::byte* to, Pointer from, std::size_t bytes) {
  Staging& staging = Staging::of(device);
  const std::lock_guard lock(staging.mutex);
  if (!staging.open()) return false;
  const std::size_t count = count_of(bytes);
  for (std::size_t i = 0; i < count + pieces; ++i) {
    const Staging::Piece& piece = staging.all[i % pieces];
    if (i >= pieces && i - pieces < count) {
      const std::size_t done = i - pieces;
      check(driver().cuEventSynchronize(piece.copied), "cuEventSynchronize");
      copy_by_threads(to + done * piece_bytes, piece.memory, bytes_of(done, bytes));
    }
    if (i >= count) continue;
    // An earlier copy up may still read the piece: the stream has that first.
    check(driver().cuMemcpyDtoHAsync_v2(piece.memory, from + i * piece_bytes, bytes_of(i, bytes), device.queue.stream),
          "cuMemcpyDtoHAsync");
    check(driver().cuEventRecord(piece.copied, device.queue.stream), "cuEventRecord");
  }
  return true;
}

}  // namespace weft::runtime::cuda
