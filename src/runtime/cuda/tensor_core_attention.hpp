// Attention with a function of scores or of the pairs that see each other, and its gradients, by our own kernels
// (weft/detail/cuda_attention.inc). In: sizes, loaded functions. Out: a step that queues them on the device's stream:
// the lists of tiles to visit, where there is a mask, then the kernels that multiply.
#pragma once
#include <optional>

#include "runtime/cuda/attention_arguments.hpp"
#include "runtime/cuda/device_function.hpp"

namespace weft::runtime::cuda {

// One of the kernels that multiply: its entry point is of the same number.
struct AttentionTile {
  int rows = 0, columns = 0;  // of scores
};

// What a call is, besides its sizes.
struct TensorCoreAttentionCall {
  AttentionSizes sizes;      // what is fixed; has no mask
  std::size_t captured = 0;  // values that the functions read, after query, key and value
  bool has_mask_mod = false;
  bool mask_reads_batch = false, mask_reads_head = false;
  bool on_hopper = false;
  bool values_apart = false;  // backward; their gradient is that of the last function
  AttentionTile tile;
};

// Whether the device has the instructions that the kernels on_hopper want; the others run on every device. Nothing
// where there is none.
std::optional<bool> attends_on_hopper(Device device, std::int64_t features, std::int64_t value_features);

// Buffers: query, key, value, the captured ones, output, stats; backward then what is given, and the gradients of
// query, key and value. All but the captured ones begin at a multiple of 16 bytes.
class TensorCoreAttention final : public Runnable {
 public:
  // Of `preparation.entry.inner` the functions, in the order of the call: forward, or by_keys, by_queries (on Hopper
  // queries), rows; then those that list tiles: lists, backward tiles_by_keys, and but for Hopper's gradients tiles;
  // then by_values. `dims`, `offsets` as those of DeviceAttention; offsets of the captured ones too, `captured_bytes`
  // an element of each.
  TensorCoreAttention(const TensorCoreAttentionCall& call, std::span<const Dim> dims, std::span<const Dim> offsets,
                      std::vector<std::int64_t> captured_bytes, const Preparation& preparation);
  bool has_workspace() const override { return call_.sizes.is_backward || call_.has_mask_mod; }
  std::size_t workspace(std::span<const std::int64_t> numbers) const override;
  void run(const StepCall& call) const override;

 private:
  struct Launch;
  AttentionSizes sizes(std::span<const std::int64_t> numbers) const;

  TensorCoreAttentionCall call_;
  DeviceState& device_;
  std::vector<std::int64_t> captured_bytes_;
  std::vector<DeviceFunction> kernels_;
  NumberTable::Range dims_, offsets_;
};

}  // namespace weft::runtime::cuda
