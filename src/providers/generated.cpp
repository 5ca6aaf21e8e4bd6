// A kernel of the loop IR as a step: generated, compiled with the others of its graph, and run over its units.
#include "base/fail.hpp"
#include "providers/provider.hpp"
#include "providers/sources.hpp"
#include "runtime/cuda/steps.hpp"
#include "runtime/host_steps.hpp"

namespace weft::providers {

namespace {

class Generated final : public Payload {
 public:
  explicit Generated(loop::Kernel kernel) : kernel_(std::move(kernel)) {}
  std::string text() const override { return loop::to_text(kernel_); }
  loop::Cost cost() const override {
    const loop::Cost cost = loop::cost(kernel_);
    return {loop::over_symbols(cost.bytes, kernel_), loop::over_symbols(cost.operations, kernel_)};
  }
  bool in_place(int argument, int result) const override { return loop::may_overwrite(kernel_, argument, result); }
  const loop::Kernel* kernel() const override { return &kernel_; }
  runtime::EntryPoint emit(providers::Sources& sources) const override { return sources.add(kernel_); }

  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation& preparation) const override {
    WEFT_CHECK(preparation.function(), "kernel ", kernel_.name, " has not been compiled");
    if (preparation.device.type == Device::Type::cuda)
      return std::make_unique<runtime::cuda::DeviceKernel>(preparation, kernel_.buffers.size(), kernel_.parameters);
    // On one thread 8 bytes or 8 simple operations of a vector kernel take a nanosecond.
    const loop::Cost whole = cost();
    return std::make_unique<runtime::HostKernel>(reinterpret_cast<runtime::KernelFunction>(preparation.function()),
                                                 preparation, whole.bytes / Dim(8) + whole.operations / Dim(8),
                                                 kernel_.parameters);
  }

 private:
  loop::Kernel kernel_;
};

}  // namespace

std::shared_ptr<Payload> generated_kernel(loop::Kernel kernel) {
  return std::make_shared<Generated>(std::move(kernel));
}

}  // namespace weft::providers
