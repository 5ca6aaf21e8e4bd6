// What a call of a prepared plan has besides arguments and results: the table of pointers, numbers and the plan's own
// memory. Calls that have ended leave theirs to calls to come.
#pragma once
#include <array>

#include "base/cache_lines.hpp"
#include "runtime/constants.hpp"
#include "runtime/plan_number.hpp"
#include "runtime/recordings.hpp"

namespace weft::runtime {

// A value of the host in a plan of a device.
struct StagedValue {
  bool is_result;
  int index;
  DType dtype;
  NumberTable::Range elements;
};

// Of one call at a time.
struct alignas(cache_lines) PlanFrame {
  LineVector<void*> pointers;
  std::vector<std::int64_t> numbers;
  std::vector<std::int64_t> symbols;  // that `numbers` and the arena's layout were computed for
  bool computed = false;
  Storage* arena = nullptr;
  std::byte* lent = nullptr;                    // in its place, by who begins a call
  Storage* host_arena = nullptr;                // page-locked
  Storage* staged = nullptr;                    // the device's side of what is staged
  std::vector<std::byte> staging;               // the host's
  std::vector<std::size_t> staged_at;           // by staged value: where it lies in both
  std::size_t workspace_bytes = 0;              // on a device: what the most demanding step wants
  int threads = 0;                              // for which workspaces were computed
  std::array<Recordings, 2> recordings;         // of calls whose checks do not wait, and do
  std::shared_ptr<const Constants::Kept> kept;  // of the constants of its call before
  bool points_to_kept = false;                  // `pointers` does, or has done so

  explicit PlanFrame(bool records_at_once) : recordings{Recordings(records_at_once), Recordings(records_at_once)} {}
  PlanFrame(const PlanFrame&) = delete;
  PlanFrame& operator=(const PlanFrame&) = delete;
  ~PlanFrame() {
    if (arena) release(arena);
    if (host_arena) release(host_arena);
    if (staged) release(staged);
  }
};

}  // namespace weft::runtime
