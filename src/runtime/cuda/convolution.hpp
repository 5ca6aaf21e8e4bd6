// Convolutions and their gradients on a device through cuDNN: f32, by tf32 where that was asked for, f16 and bf16
// accumulated in f32; of its algorithms those alone that give the same bits again. In: sizes, and what is done with the
// sums before they are rounded. Out: a step that queues them on the device's stream.
#pragma once
#include <atomic>
#include <compare>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "runtime/convolution.hpp"
#include "runtime/cuda/device.hpp"
#include "runtime/step.hpp"

namespace weft::runtime::cuda {

enum class Activation : std::uint8_t { none, relu, silu, gelu, gelu_tanh };

// activation(sums + image + channels...) in f32, rounded once. Of images of 16-bit floats with their channels last.
struct ConvolutionEpilogue {
  static constexpr std::size_t most_channels = 2;
  Activation activation = Activation::none;
  bool has_image = false;            // of the result's sizes, dtype and order
  std::vector<DType> channels = {};  // of vectors of a number a channel
  auto operator<=>(const ConvolutionEpilogue&) const = default;
  static auto fields(auto& self) { return std::tie(self.activation, self.has_image, self.channels); }
  bool any() const { return has_image || !channels.empty() || activation != Activation::none; }
};

// One convolution over contiguous memory, its descriptions made and its algorithm chosen.
class LibraryConvolution {
 public:
  // Null where the device or the library is not there, or the library does not take it. Known ones are found again, in
  // another process by the disk cache.
  // `measures`: its algorithms are timed, on memory of their own; else the library's first choice is taken.
  static std::shared_ptr<const LibraryConvolution> find(Device device, const ConvolutionSizes& sizes,
                                                        bool measures = false,
                                                        const ConvolutionEpilogue& epilogue = {});
  // For a later find() that does not measure, unless another thread is at it. Throws Error where one of them is not
  // there.
  static void find_ahead(Device device, const ConvolutionSizes& sizes, const ConvolutionEpilogue& epilogue = {});
  // Whether the library names a kernel for both, which it compiles for find(): that may take half a second.
  static bool is_named(Device device, const ConvolutionSizes& sizes, const ConvolutionEpilogue& epilogue);
  // Says that a find_ahead() follows.
  static void promise(Device device, const ConvolutionSizes& sizes) noexcept;
  // Whether find() gives one, without timing. Nothing, at once, while another thread asks the library or has promised
  // to.
  static std::optional<bool> is_taken(Device device, const ConvolutionSizes& sizes);
  std::size_t workspace() const;
  // `bias`: of one that has it. `added`: of an epilogue, the image if there is one and the vectors.
  struct Values {
    const void *a = nullptr, *b = nullptr, *bias = nullptr;
    void* result = nullptr;
    std::span<void* const> added = {};
  };
  void run(const Values& values, std::span<std::byte> workspace, const Queue* queue) const;
  ~LibraryConvolution();

 private:
  struct Call;
  static std::shared_ptr<const LibraryConvolution> make(DeviceState& device, const ConvolutionSizes& sizes,
                                                        bool measures, const ConvolutionEpilogue& epilogue);
  explicit LibraryConvolution(std::unique_ptr<Call> call);
  std::unique_ptr<Call> call_;
  mutable std::atomic<bool> has_run_{false};
};

// Buffers: the operands, the bias if there is one, the result.
class DeviceConvolution final : public Runnable {
 public:
  // `convolution`: null where its sizes are known at a call. `offsets`: of the three values and the bias,
  // in elements.
  DeviceConvolution(Device device, std::shared_ptr<const LibraryConvolution> convolution, ConvolutionDims dims,
                    std::span<const Dim> offsets, NumberTable& numbers)
      : device_(device),
        convolution_(std::move(convolution)),
        dims_(std::move(dims)),
        values_(numbers.add(dims_.dims())),
        offsets_(numbers.add(offsets)) {}
  bool has_workspace() const override { return true; }
  std::size_t workspace(std::span<const std::int64_t> numbers) const override { return of(numbers)->workspace(); }
  // The first elements of a call's values.
  LibraryConvolution::Values values(const StepCall& call) const {
    const bool biased = dims_.has_bias();
    const auto at = [&](std::size_t buffer, std::size_t offset) {
      return static_cast<std::byte*>(call.pointers[buffer]) +
             storage_bytes(info(dims_.dtype()), call.numbers[offsets_.begin + offset]);
    };
    return {at(0, 0), at(1, 1), biased ? at(2, 3) : nullptr, at(biased ? 3 : 2, 2)};
  }
  void run(const StepCall& call) const override {
    const std::shared_ptr<const LibraryConvolution> found = of(call.numbers);
    use(device_).keep_while_recorded(call.queue, found);
    found->run(values(call), call.workspace, call.queue);
  }

 private:
  std::shared_ptr<const LibraryConvolution> of(std::span<const std::int64_t> numbers) const;

  Device device_;
  std::shared_ptr<const LibraryConvolution> convolution_;
  ConvolutionDims dims_;
  NumberTable::Range values_, offsets_;
};

}  // namespace weft::runtime::cuda
