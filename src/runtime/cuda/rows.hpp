// Sorts, and rows of a table that are replaced or added to, on a CUDA device: the launches of the functions of
// weft/detail/cuda_sort.inc and cuda_rows.inc. Updates are sorted by their rows; those of one row are then taken in
// their order, so results have the host's bits.
#pragma once
#include "runtime/cuda/steps.hpp"

namespace weft::runtime::cuda {

// Numbers of those functions (tests/codegen/cuda_rows_test.cpp).
namespace row_kernels {
inline constexpr std::int64_t threads = 256, short_row = 1024, digits = 256, radix_tile = 8 * threads,
                              long_segment = 64, columns_of_block = 8, shared_bytes = 32768;
enum SortPhase : std::int64_t { whole, count_digits, scan_digits, place };
enum RowPhase : std::int64_t { clear = 4, join, add_long, add_atomic };
}  // namespace row_kernels

// A sort of lists of words by digits of 8 bits, the lowest one first.
struct RadixSort {
  std::int64_t lists, size, passes;
  // Bytes for the counts of digits. Lists of one tile need none.
  std::size_t counts_bytes() const;
  // launch(phase, pass, blocks): the phases are 0 to 3.
  template <class Launch>
  void run(const Launch& launch) const;
};

// A function that joins updates with the rows of a table.
class RowUpdater {
 public:
  RowUpdater(DType dtype, bool adds, const Preparation& preparation);
  bool sorts() const;  // and has a workspace
  std::size_t workspace(const RowSizes& sizes) const;
  struct Buffers {
    void *updates, *index, *table;
    void* error = nullptr;  // the device's error word, where the function is checked
    std::int64_t updates_offset = 0, index_offset = 0;
  };
  // `clears`: the table begins with zeros.
  void run(const StepCall& call, const RowSizes& sizes, const Buffers& buffers, bool clears) const;

 private:
  DeviceState& device_;
  DeviceFunction function_;
  DType dtype_;
  bool adds_;
};

// Buffers: index, updates, result, as on the host. Sums are updates of a table of zeros. The greatest is found in two
// launches, of which the first gives the result its start.
class DeviceScatter final : public Runnable {
 public:
  DeviceScatter(const ScatterFields& what, const Preparation& preparation);
  bool fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const override {
    return host_.fits(numbers, rooms);
  }
  std::size_t workspace(std::span<const std::int64_t> numbers) const override;
  bool has_workspace() const override { return adds_ && updater_.sorts(); }
  void run(const StepCall& call) const override;

 private:
  HostScatter host_;  // what it reaches
  DeviceFunction function_;
  RowUpdater updater_;
  bool adds_;
  NumberTable::Range sizes_;
};

// Buffers: values, their order.
class DeviceSort final : public Runnable {
 public:
  DeviceSort(const SortFields& what, const Preparation& preparation);
  bool fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const override {
    return host_.fits(numbers, rooms);
  }
  std::size_t workspace(std::span<const std::int64_t> numbers) const override;
  bool has_workspace() const override { return is_long_; }
  void run(const StepCall& call) const override;

 private:
  RadixSort sort_of(std::span<const std::int64_t> size) const;

  HostSort host_;  // what it reaches
  DeviceFunction function_;
  DType dtype_;
  bool descending_;
  bool is_long_;  // rows may be longer than those that a block sorts in its shared memory
  NumberTable::Range sizes_;
};

// As on the host; where it is checked, the device's error word is one more buffer, and a call of which a check has
// failed writes nothing.
class DeviceRows final : public Runnable {
 public:
  DeviceRows(const RowsUpdate& update, bool checked, const Preparation& preparation);
  bool fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const override;
  bool has_workspace() const override { return updater_.sorts(); }
  std::size_t workspace(std::span<const std::int64_t> numbers) const override;
  void run(const StepCall& call) const override;

 private:
  HostRows host_;  // what it reaches
  DeviceState& device_;
  RowUpdater updater_;
  DType dtype_;
  bool checked_;
  NumberTable::Range sizes_;
};

}  // namespace weft::runtime::cuda
