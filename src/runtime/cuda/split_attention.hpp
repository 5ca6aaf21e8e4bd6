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

// Keys and values as [pages, key_heads, size, features]: row k of a text is row k % size of the page that the text's
// row of a table names at k / size. Its query q sees keys 0 ... q + the text's position.
struct KeyPages {
  std::int64_t size = 0;       // rows of a page, a multiple of SplitAttentionTile::keys_of_warp; 0: there are no pages
  Dim count = 0, of_text = 0;  // how many there are, and the table's columns
};

// Forward. Buffers: query, key, value, the mask if there is one, of keys in pages the table [batch, of_text] and the
// positions [batch], both i64, output, stats. Query, key and value begin at a multiple of 16 bytes, and so do their
// rows.
class SplitAttention final : public Runnable {
 public:
  // Of `preparation.entry.inner` the functions: that of the parts, and that which joins them. `dims`, `offsets` as
  // those of DeviceAttention; of keys in pages `dims` has as many keys as a text has room for, and their strides are
  // those of the pages.
  SplitAttention(const AttentionSizes& fixed, std::span<const Dim> dims, std::span<const Dim> offsets,
                 const KeyPages& pages, const Preparation& preparation);
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
  bool has_clusters_ = false;                  // the kernels, which may be text for older devices too
  NumberTable::Range dims_, offsets_, pages_;  // pages_: how many there are, the table's columns
  std::int64_t page_size_;
};

}  // namespace weft::runtime::cuda
