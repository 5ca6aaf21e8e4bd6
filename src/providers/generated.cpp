// Kernels of the loop IR as a step: generated, compiled with the others of their graph, and run over their units. On a
// device several kernels of one text may be one launch over a table of their buffers.
#include <algorithm>

#include "base/fail.hpp"
#include "loop/loads_ahead.hpp"
#include "providers/provider.hpp"
#include "providers/sources.hpp"
#include "runtime/cuda/stored_steps.hpp"
#include "runtime/host/steps.hpp"
#include "schedule/slices.hpp"

namespace weft::providers {

namespace {

class Generated final : public Payload, public HasKernels {
 public:
  explicit Generated(std::vector<loop::Kernel> kernels) : kernels_(std::move(kernels)) {}
  std::string details() const override {
    std::string text = loop::to_text(kernels_[0]);
    if (kernels_.size() == 1) return text;
    text += "  and " + std::to_string(kernels_.size() - 1) + " more of this text, in one launch; what each does:\n";
    for (const loop::Kernel& kernel : kernels_) {
      std::string line;
      for (const std::string& comment : kernel.comments) line += (line.empty() ? "    " : "; ") + comment;
      text += line + "\n";
    }
    return text;
  }
  loop::Cost cost() const override {
    loop::Cost all;
    for (const loop::Kernel& kernel : kernels_) {
      const loop::Cost cost = loop::cost(kernel);
      all.bytes = all.bytes + loop::over_symbols(cost.bytes, kernel);
      all.operations = all.operations + loop::over_symbols(cost.operations, kernel);
    }
    return all;
  }
  // No other kernel of the table may read the argument.
  bool in_place(int argument, int result) const override {
    const auto reads = [&](const loop::Kernel& kernel) {
      return std::any_of(kernel.buffers.begin(), kernel.buffers.end(),
                         [&](const loop::Buffer& buffer) { return buffer.value == argument; });
    };
    const auto kernel = std::find_if(kernels_.begin(), kernels_.end(), reads);
    if (kernel == kernels_.end() || std::count_if(kernels_.begin(), kernels_.end(), reads) > 1) return false;
    return loop::may_overwrite(*kernel, argument, result);
  }
  std::shared_ptr<const Payload> predicated(int word) const override {
    std::vector<loop::Kernel> kernels = kernels_;
    for (loop::Kernel& kernel : kernels) {
      kernel.shared = {};
      kernel.predicate = static_cast<int>(kernel.buffers.size());
      kernel.buffers.push_back({DType::i32, false, word, 1});
    }
    return std::make_shared<Generated>(std::move(kernels));
  }
  std::shared_ptr<const Payload> reading_early(const std::vector<bool>& steady) const override {
    if (!loop::gains_by_reading_early(kernels_[0])) return nullptr;
    std::vector<loop::Kernel> kernels = kernels_;
    for (std::size_t b = 0; b < kernels[0].buffers.size(); ++b) {
      const bool is_steady = std::ranges::all_of(
          kernels_, [&](const loop::Kernel& it) { return steady[static_cast<std::size_t>(it.buffers[b].value)]; });
      for (loop::Kernel& kernel : kernels) kernel.buffers[b].steady = is_steady;
    }
    for (loop::Kernel& kernel : kernels) kernel.shared = {};
    return std::make_shared<Generated>(std::move(kernels));
  }
  std::vector<bool> writes(std::size_t) const override {
    std::vector<bool> all;
    for (const loop::Kernel& kernel : kernels_)
      for (const loop::Buffer& buffer : kernel.buffers) all.push_back(buffer.written);
    return all;
  }
  bool generated() const override { return true; }
  const loop::Kernel* kernel() const override { return &kernels_[0]; }
  std::span<const loop::Kernel> kernels() const override { return kernels_; }
  runtime::EntryPoint emit(providers::Sources& sources) const override { return sources.add(kernels_); }

  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation& preparation) const override {
    const runtime::KernelFields all = launched();
    if (preparation.device.type == Device::Type::cpu) return runtime::StoredKernel(all).prepare(preparation);
    return runtime::cuda::StoredKernel(all).prepare(preparation);
  }
  std::string stored_as() const override { return runtime::StoredKernel::name; }
  void write(runtime::FieldWriter& to, const runtime::EntryPoint&) const override { to(launched()); }

 private:
  runtime::KernelFields launched() const {
    const loop::Cost cost = this->cost();
    runtime::KernelFields all{kernels_[0].buffers.size(), {}, {cost.bytes, cost.operations}};
    for (const loop::Kernel& kernel : kernels_) all.parameters.push_back(kernel.parameters);
    return all;
  }

  std::vector<loop::Kernel> kernels_;
};

}  // namespace

std::shared_ptr<Payload> generated_kernels(std::vector<loop::Kernel> kernels) {
  return std::make_shared<Generated>(std::move(kernels));
}

}  // namespace weft::providers
