// Steps that run on a CUDA device: their work is put on its stream. In: functions that were loaded there, numbers of
// the plan's table. Out: Runnables.
#pragma once
#include "runtime/cuda/blas.hpp"
#include "runtime/cuda/device_function.hpp"
#include "runtime/cuda/product_kernel.hpp"
#include "runtime/host/steps.hpp"
#include "runtime/idle.hpp"

namespace weft::runtime::cuda {

class DeviceKernel final : public Runnable {
 public:
  DeviceKernel(const Preparation& preparation, std::size_t buffers, std::span<const Dim> parameters);
  // Its code was compiled for these buffers and numbers (package_file.hpp).
  bool fits(std::span<const std::int64_t>, std::span<const Room> rooms) const override {
    return rooms.size() == buffers_;
  }
  void run(const StepCall& call) const override;

 private:
  DeviceState& device_;
  DeviceFunction function_;
  std::size_t buffers_;
  NumberTable::Range units_, parameters_;
};

// One launch of kernels of one text: a table holds the buffers and sizes of each set. At most so many fit.
std::size_t most_sets(std::size_t buffers, std::size_t parameters);
class DeviceKernelTable final : public Runnable {
 public:
  // `parameters`: those of each set.
  DeviceKernelTable(const Preparation& preparation, std::size_t buffers,
                    std::span<const std::span<const Dim>> parameters);
  bool fits(std::span<const std::int64_t>, std::span<const Room> rooms) const override {
    return rooms.size() == sets_.size() * buffers_;
  }
  void run(const StepCall& call) const override;

 private:
  DeviceState& device_;
  DeviceFunction function_;
  std::size_t buffers_;                                                  // of a set
  std::vector<std::pair<NumberTable::Range, NumberTable::Range>> sets_;  // blocks, parameters
};

class TensorCoreProduct;

// Buffers: a, b, the bias if there is one, c. By cuBLASLt, by our own kernel for tensor cores, or by a generated one:
// where there is no library, or strides are such as it does not take.
class DeviceProduct final : public Runnable {
 public:
  // `sizes`: the slots of the kernel, if there is one for any strides.
  // `kernel`: the function is that of TensorCoreProduct, as no plan on disk has it.
  DeviceProduct(const Contraction& contraction, const Preparation& preparation, std::span<const Dim> sizes,
                const std::optional<ProductKernel>& kernel = {});
  ~DeviceProduct() override;
  bool fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const override {
    return product_.fits(numbers, rooms);
  }
  bool has_workspace() const override { return workspace_ > 0; }
  std::size_t workspace(std::span<const std::int64_t>) const override { return workspace_; }
  void run(const StepCall& call) const override;

 private:
  ProductNumbers product_;
  DeviceState& device_;
  std::size_t workspace_ = 0;
  std::unique_ptr<DeviceKernel> own_;
  std::optional<LibraryProduct> library_;          // where all sizes are known
  std::unique_ptr<const TensorCoreProduct> tile_;  // beside the library
};

// Whether a step whose host's step this is fits the buffers, the last of which is the error word where it is checked.
bool fits_checked(const Runnable& host, bool checked, std::span<const std::int64_t> numbers,
                  std::span<const Room> rooms);

// As on the host; where it is checked, the device's error word is one more buffer, and a call of which a check has
// failed writes nothing.
class DeviceUpdate final : public Runnable, public MayBeIdle {
 public:
  DeviceUpdate(const SliceUpdate& update, bool checked, const Preparation& preparation);
  bool fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const override;
  bool is_idle(const StepCall& call) const override;
  void run(const StepCall& call) const override;

 private:
  HostUpdate host_;  // what it reaches
  DeviceState& device_;
  DeviceFunction function_;
  std::int64_t element_;
  bool checked_;
  NumberTable::Range sizes_;
};

// Buffers: one bool, the device's error word. False sets the word to the error's number.
class DeviceCheck final : public Runnable {
 public:
  DeviceCheck(const std::string& message, const Preparation& preparation);
  bool fits(std::span<const std::int64_t>, std::span<const Room> rooms) const override {
    return rooms.size() == 2 && rooms[0].bytes >= 1 && rooms[1].bytes >= 4;
  }
  bool can_be_recorded(bool checks_wait) const override { return checks_wait; }
  void run(const StepCall& call) const override;

 private:
  DeviceState& device_;
  DeviceFunction function_;
  std::int32_t error_;
};

}  // namespace weft::runtime::cuda
