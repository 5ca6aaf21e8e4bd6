#include "codegen/cuda.hpp"
#include "providers/provider.hpp"
#include "providers/sources.hpp"
#include "runtime/cuda/steps.hpp"
#include "runtime/host/steps.hpp"

namespace weft::providers {

namespace {

class ScatterPayload final : public Payload {
 public:
  explicit ScatterPayload(const Candidate& candidate) : op_(candidate.node.op), dtype_(candidate.result().type.dtype) {
    const Shape& table = candidate.result().type.shape;
    rows_ = table[0];
    count_ = candidate.operands[0].type.shape.element_count();
    for (int i = 1; i < table.rank(); ++i) width_ = width_ * table[i];
  }
  explicit ScatterPayload(runtime::FieldReader& from) {
    from(op_, dtype_, rows_, count_, width_);
    if (!is_scatter(op_)) throw runtime::Malformed();
  }
  std::string stored_as() const override { return "scatter"; }
  void write(runtime::FieldWriter& to, const runtime::EntryPoint&) const override {
    to(op_, dtype_, rows_, count_, width_);
  }
  std::string details() const override { return op_ == Op::scatter_add ? "" : " of the greatest"; }
  loop::Cost cost() const override {
    return {storage_bytes(info(dtype_), count_ * width_ * Dim(3) + rows_ * width_), count_ * width_};
  }
  runtime::EntryPoint emit(providers::Sources& sources) const override {
    if (sources.device().type == Device::Type::cpu) return {};
    const std::string name = codegen::cuda_scatter_name(op_, dtype_);
    sources.add(name, codegen::cuda_scatter(op_, dtype_));
    return {name};
  }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation& preparation) const override {
    if (preparation.device.type == Device::Type::cpu)
      return std::make_unique<runtime::HostScatter>(
          op_ == Op::scatter_add ? runtime::RowJoin::add : runtime::RowJoin::greatest, dtype_, rows_, count_, width_,
          preparation.numbers);
    return std::make_unique<runtime::cuda::DeviceScatter>(rows_, count_, width_, op_ == Op::scatter_add, preparation);
  }

 private:
  Op op_;
  DType dtype_;
  Dim rows_ = 0, count_ = 0, width_ = 1;
};

class ScatterProvider final : public Provider {
 public:
  bool takes(const Node& node, Device) const override { return is_scatter(node.op); }
  std::optional<Offer> offer(const Candidate& candidate) const override {
    auto payload = std::make_shared<ScatterPayload>(candidate);
    const Dim bytes = payload->cost().bytes;
    return Offer{bytes / Dim(8), std::move(payload)};
  }
  std::shared_ptr<const Payload> read(runtime::FieldReader& from) const override {
    return std::make_shared<ScatterPayload>(from);
  }
};

}  // namespace

const Provider& scatter() {
  static constinit const ScatterProvider provider;
  return provider;
}

}  // namespace weft::providers
