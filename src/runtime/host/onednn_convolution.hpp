// Convolutions and their gradients by oneDNN. In: sizes. Out: a Runnable. The library likes layouts of its own: a tile
// (an item of the batch, or a part of its channels) is put into them, computed and put back by one thread, so results
// do not depend on the number of threads. Weights are put into theirs once a call, or once for
// many.
#pragma once
#include "runtime/constants.hpp"
#include "runtime/convolution.hpp"
#include "runtime/host/onednn_task.hpp"
#include "runtime/stored_step.hpp"

namespace weft::runtime {

namespace onednn {

// One convolution, its primitives made. Several threads may run it at once.
class Convolution {
 public:
  // Null where the library has no kernel for it, of those that are better than ours. Known ones are found again.
  enum class Kernels : std::uint8_t { good, any };
  static std::shared_ptr<const Convolution> find(const Library& library, const ConvolutionSizes& sizes,
                                                 Kernels kernels = Kernels::good);
  // On as many threads as a parallel loop has now. `batch`: where it was not known.
  std::size_t workspace(std::int64_t batch) const;
  // `weights`: what pack_weights() has made of b; null: nothing.
  void run(std::int64_t batch, const void* a, const void* b, void* result, std::span<std::byte> workspace,
           const std::byte* weights = nullptr) const;
  // Bytes of b in the library's layout; 0: it is read as it lies, or is no weight.
  std::size_t packed_bytes() const { return keeps_weights() ? static_cast<std::size_t>(parts_) * values_[1].bytes : 0; }
  void pack_weights(const void* b, std::byte* to) const;
  const ConvolutionSizes& sizes() const { return sizes_; }

 private:
  using Int = std::int64_t;
  // One of the three values, as a tile has it.
  struct Value {
    Layout given, own;
    std::shared_ptr<const Task> reorder;  // into the library's layout, of the result out of it; null: one layout
    std::size_t bytes = 0;                // in the library's layout; 0: one layout
    Int item_step = 0, part_step = 0;     // elements, from a tile's part to the next one's
  };
  struct Run;
  Convolution() = default;
  static std::shared_ptr<const Convolution> make(const Library& library, const ConvolutionSizes& sizes,
                                                 Kernels kernels);
  bool describe(const Library& library, Description*& description);
  void cut();
  Int items(Int batch) const { return sizes_.result == Convolved::weight ? chunks_ : batch; }
  bool keeps_weights() const { return sizes_.result != Convolved::weight && values_[1].bytes > 0; }
  std::size_t thread_bytes() const;
  std::size_t partial_bytes() const;

  Value values_[3];  // operands, then the result
  ConvolutionSizes sizes_;
  Int parts_ = 1, chunks_ = 1;  // of the channels; of the batch, in a weight's gradient
  std::shared_ptr<const Task> task_;
  std::size_t scratch_ = 0;
};

}  // namespace onednn

// Buffers: the operands, the result.
class OneDnnConvolution final : public PackingStep {
 public:
  // `convolution`: null where its sizes are known at a call. `offsets`: of the three values, in elements.
  OneDnnConvolution(const onednn::Library& library, std::shared_ptr<const onednn::Convolution> convolution,
                    ConvolutionDims dims, std::span<const Dim> offsets, NumberTable& numbers)
      : library_(library),
        convolution_(std::move(convolution)),
        dims_(std::move(dims)),
        values_(numbers.add(dims_.dims())),
        offsets_(numbers.add(offsets)),
        weight_offset_(offsets[1].is_constant() ? offsets[1].constant() : -1) {}
  bool fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const override;
  bool has_workspace() const override { return true; }
  std::size_t workspace(std::span<const std::int64_t> numbers) const override {
    return of(numbers)->workspace(numbers[values_.begin]);
  }
  void run(const StepCall& call) const override { run_packed(call, nullptr); }

  std::size_t packed_bytes(std::size_t buffer) const override {
    return buffer == 1 && convolution_ && weight_offset_ >= 0 ? convolution_->packed_bytes() : 0;
  }
  Digest packed_as(std::size_t buffer) const override;
  void pack(std::size_t buffer, const StepCall& call, std::byte* to) const override {
    convolution_->pack_weights(place(call, buffer), to);
  }
  void run_packed(const StepCall& call, const std::byte* const* packed) const override {
    of(call.numbers)
        ->run(call.numbers[values_.begin], place(call, 0), place(call, 1), place(call, 2), call.workspace,
              packed ? packed[1] : nullptr);
  }

 private:
  std::shared_ptr<const onednn::Convolution> of(std::span<const std::int64_t> numbers) const;
  std::byte* place(const StepCall& call, std::size_t value) const {
    return static_cast<std::byte*>(call.pointers[value]) +
           storage_bytes(info(value < 2 ? dims_.dtype() : dims_.result_dtype()), call.numbers[offsets_.begin + value]);
  }

  const onednn::Library& library_;
  std::shared_ptr<const onednn::Convolution> convolution_;
  ConvolutionDims dims_;
  NumberTable::Range values_, offsets_;
  std::int64_t weight_offset_;  // in elements; -1: not known before a call
};

struct ConvolutionFields {
  ConvolutionDims dims;      // as the values lie
  std::vector<Dim> offsets;  // of the operands, the result, and the bias if there is one
  StepCost cost;
  ConvolutionSizes served;  // a library's kernel is asked for: of a batch of -1 for any
  static auto fields(auto& self) { return std::tie(self.dims, self.offsets, self.cost, self.served); }
};
class StoredOneDnnConvolution final : public StepOf<StoredOneDnnConvolution, ConvolutionFields> {
 public:
  static constexpr const char* name = "onednn_convolution";
  StoredOneDnnConvolution(ConvolutionFields fields, const onednn::Library& library)
      : StepOf(std::move(fields)),
        library_(library),
        by_(onednn::name(library)),
        expected_(onednn::Convolution::find(library, what.served)) {}
  // Null where the library is not there, or has no kernel for it.
  static std::shared_ptr<const StoredStep> read(FieldReader& from, const StepReader&);
  bool is_made() const { return expected_ != nullptr; }
  // Else its primitives are made in the call.
  bool is_known() const {
    const auto known = what.dims.known();
    return known && (known->batch >= 0 || known->result != Convolved::weight);
  }
  std::string by() const override { return by_; }
  StepCost cost() const override { return what.cost; }
  std::unique_ptr<Runnable> prepare(const Preparation& preparation) const override {
    return std::make_unique<OneDnnConvolution>(library_, is_known() ? expected_ : nullptr, what.dims, what.offsets,
                                               preparation.numbers);
  }

 private:
  const onednn::Library& library_;
  std::string by_;
  std::shared_ptr<const onednn::Convolution> expected_;
};

}  // namespace weft::runtime
