// Attention and its gradients on a device through cuDNN's fused kernels: scores are never in memory, and the backward
// pass computes them again from the log-sum-exp of each row. In: sizes. Out: a step that queues them on the device's
// stream.
#pragma once
#include <array>
#include <atomic>
#include <compare>
#include <memory>
#include <tuple>

#include "runtime/cuda/device.hpp"
#include "runtime/cuda/dnn_graph.hpp"
#include "runtime/step.hpp"
#include "weft/dtype.hpp"

namespace weft::runtime::cuda {

class StoredAnswer;

// Values of a call, in the order of its buffers. Forward a call has those up to `stats`, backward all; a mask where it
// has one.
enum class Attended : std::uint8_t { query, key, value, mask, output, stats, given, of_query, of_key, of_value };
constexpr std::size_t attended_values = 10;

// [batch, heads, queries, features] attend to [batch, key_heads, keys, features] and give
// [batch, heads, queries, value_features]; `stats`: [batch, heads, queries, 1], the f32 log-sum-exp of a row's scores.
struct AttentionSizes {
  using Int = std::int64_t;
  using Four = DnnGraph::Four;
  DType dtype = DType::bf16, mask_dtype = DType::f32;
  bool is_backward = false, is_causal = false, has_mask = false, is_deterministic = true;
  float scale = 1;
  Int batch = 1, heads = 1, key_heads = 1, queries = 1, keys = 1, features = 1, value_features = 1;
  std::array<Four, attended_values> strides = {};  // in elements

  bool has(Attended value) const {
    return value == Attended::mask ? has_mask : is_backward || value <= Attended::stats;
  }
  Four sizes_of(Attended value) const;
  DType dtype_of(Attended value) const {
    return value == Attended::stats ? DType::f32 : value == Attended::mask ? mask_dtype : dtype;
  }
  bool is_empty() const { return batch * heads * queries * keys == 0; }
  auto operator<=>(const AttentionSizes&) const = default;
  static auto fields(auto& self) {
    return std::tie(self.dtype, self.mask_dtype, self.is_backward, self.is_causal, self.has_mask, self.is_deterministic,
                    self.scale, self.batch, self.heads, self.key_heads, self.queries, self.keys, self.features,
                    self.value_features, self.strides);
  }
};

// One call, its plan made.
class LibraryAttention {
 public:
  // For a device that is described rather than there, too. Null where the library has no kernel. `stored`: where its
  // plan may be kept.
  static std::unique_ptr<const LibraryAttention> make(const AttentionSizes& sizes, const DnnTarget& target,
                                                      const StoredAnswer* stored = nullptr);
  // Whether the library has a kernel for such on the device; false where one of them is not there. `ahead`: for a later
  // call; false, too, where it is known or another thread asks.
  static bool is_offered(Device device, const AttentionSizes& sizes, bool ahead = false);
  // Opens the library's handle that runs, or another one where that is in use. Throws Error where it is not there.
  static void open(Device device);
  // Null where the device or the library is not there, or the library does not take it. Known ones are found again.
  // `ahead`: for a later call; null, too, where it is known or another thread makes it.
  static std::shared_ptr<const LibraryAttention> find(Device device, const AttentionSizes& sizes, bool ahead = false);
  std::size_t workspace() const { return own_ + plan_->workspace(); }
  // Pointers to the values that it has, in their order.
  void run(Device device, std::span<void* const> values, std::span<std::byte> workspace, const Queue* queue) const;
  ~LibraryAttention();

 private:
  mutable std::atomic<int> has_run_on_{-1};  // a device
  std::shared_ptr<const DnnPlan> plan_;
  std::vector<std::int64_t> ids_;     // of the values, then of those in the workspace
  std::vector<std::size_t> offsets_;  // of those in the workspace
  std::size_t own_ = 0;               // bytes of these
};

// Of the numbers of a call those that may be symbols: batch, heads, key heads, queries and keys, then the strides of
// each value that the call has.
AttentionSizes attention_sizes(AttentionSizes fixed, std::span<const std::int64_t> dims);

// Buffers: the values that the call has. Operands begin at a multiple of 16 bytes.
class DeviceAttention final : public Runnable {
 public:
  // `dims` as above, `offsets` of each value, in elements.
  DeviceAttention(Device device, const AttentionSizes& fixed, std::span<const Dim> dims, std::span<const Dim> offsets,
                  NumberTable& numbers);
  // Where all sizes are known the library's plan, which takes it a third of a second, and more than one in a process
  // that finds none of its kernels on disk.
  static void make_ahead(Device device, const AttentionSizes& fixed, std::span<const Dim> dims);
  bool has_workspace() const override { return true; }
  std::size_t workspace(std::span<const std::int64_t> numbers) const override;
  void run(const StepCall& call) const override;

 private:
  AttentionSizes sizes(std::span<const std::int64_t> numbers) const;
  std::shared_ptr<const LibraryAttention> of(const AttentionSizes& sizes) const;

  Device device_;
  AttentionSizes fixed_;
  std::shared_ptr<const LibraryAttention> known_;  // where all sizes are
  NumberTable::Range dims_, offsets_;
};

}  // namespace weft::runtime::cuda
