#include "codegen/cuda.hpp"
#include "providers/provider.hpp"
#include "providers/sources.hpp"
#include "runtime/cuda/steps.hpp"
#include "runtime/host/steps.hpp"

namespace weft::providers {

namespace {

class SortPayload final : public Payload {
 public:
  explicit SortPayload(const Candidate& candidate)
      : dtype_(candidate.operands[0].type.dtype), descending_(candidate.node.attributes<Order>().descending) {
    const Shape& shape = candidate.result().type.shape;
    size_ = shape[shape.rank() - 1];
    for (int i = 0; i + 1 < shape.rank(); ++i) rows_ = rows_ * shape[i];
  }
  std::string text() const override { return descending_ ? " descending" : ""; }
  loop::Cost cost() const override {
    constexpr std::int64_t comparisons = 12;  // an element, about
    const Dim count = rows_ * size_;
    return {storage_bytes(info(dtype_), count) + storage_bytes(info(DType::i64), count), count * Dim(comparisons)};
  }
  runtime::EntryPoint emit(providers::Sources& sources) const override {
    if (sources.device().type == Device::Type::cpu) return {};
    const std::string name = codegen::cuda_argsort_name(dtype_);
    sources.add(name, codegen::cuda_argsort(dtype_));
    return {name};
  }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation& preparation) const override {
    if (preparation.device.type == Device::Type::cpu)
      return std::make_unique<runtime::HostSort>(dtype_, descending_, rows_, size_, preparation.numbers);
    return std::make_unique<runtime::cuda::DeviceSort>(rows_, size_, descending_, preparation);
  }

 private:
  DType dtype_;
  bool descending_;
  Dim rows_ = 1, size_ = 0;
};

class SortProvider final : public Provider {
 public:
  const char* name() const override { return "argsort"; }
  bool takes(const Node& node, Device) const override { return node.op == Op::argsort; }
  std::optional<Offer> offer(const Candidate& candidate) const override {
    auto payload = std::make_shared<SortPayload>(candidate);
    const Dim operations = payload->cost().operations;
    return Offer{operations, std::move(payload)};
  }
};

}  // namespace

const Provider& argsort() {
  static constinit const SortProvider provider;
  return provider;
}

}  // namespace weft::providers
