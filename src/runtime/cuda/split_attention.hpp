// Attention of few queries to many keys by our own kernels, which read each part of the keys in a block of its own
// (weft/detail/cuda_attention_split.inc). In: sizes, loaded functions. Out: a step that queues them on the device's
// stream: that of the parts, and where there are several, that which joins them.
#pragma once
#include <vector>

#include "runtime/cuda/attention_arguments.hpp"
#include "runtime/cuda/device_function.hpp"

namespace weft::runtime::cuda {

// How a call's keys are shared by `parts` blocks, of which each `cluster` join what they have before the kernel ends.
// It follows from sizes and the architecture alone, and so do the roundings.
struct KeyParts {
  std::int64_t parts = 1, cluster = 1, blocks = 0;
};
// `columns`: keys that a block works on at a time, 16 for each of its warps.
KeyParts key_parts(const AttentionSizes& sizes, std::int64_t columns, bool has_clusters);

// Forward. Buffers: query, key, value, the mask if there is one, output, stats. Query, key and value begin at a
// multiple of 16 bytes, and so do their rows.
class SplitAttention final : public Runnable {
 public:
  // Of `preparation.entry.inner` the functions: that of the parts, and that which joins them. `dims`, `offsets` as
  // those of DeviceAttention.
  SplitAttention(const AttentionSizes& fixed, std::span<const Dim> dims, std::span<const Dim> offsets,
                 const Preparation& preparation);
  bool fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const override;
  bool has_workspace() const override { return true; }
  std::size_t workspace(std::span<const std::int64_t> numbers) const override;
  void run(const StepCall& call) const override;

 private:
  AttentionSizes sizes(std::span<const std::int64_t> numbers) const;
  KeyParts parts(const AttentionSizes& sizes) const;

  AttentionSizes fixed_;
  DeviceState& device_;
  std::vector<DeviceFunction> kernels_;
  std::int64_t columns_;
  bool has_clusters_ = false;  // the kernels, which may be text for older devices too
  NumberTable::Range dims_, offsets_;
};

}  // namespace weft::runtime::cuda
