#include "codegen/cuda.hpp"
#include "providers/provider.hpp"
#include "providers/sources.hpp"
#include "runtime/cuda/steps.hpp"
#include "runtime/host/steps.hpp"

namespace weft::providers {

namespace {

bool is_whole(const Order& order) { return order.count.same(Dim(0)); }

class SortPayload final : public Payload {
 public:
  explicit SortPayload(const Candidate& candidate)
      : dtype_(candidate.operands[0].type.dtype), order_(candidate.node.attributes<Order>()) {
    const Shape& shape = candidate.operands[0].type.shape;
    size_ = shape[shape.rank() - 1];
    if (is_whole(order_)) order_.first = 0, order_.count = size_;
    for (int i = 0; i + 1 < shape.rank(); ++i) rows_ = rows_ * shape[i];
  }
  explicit SortPayload(runtime::FieldReader& from) {
    from(dtype_, order_.descending, order_.first, order_.count, rows_, size_);
  }
  std::string stored_as() const override { return "argsort"; }
  void write(runtime::FieldWriter& to, const runtime::EntryPoint&) const override {
    to(dtype_, order_.descending, order_.first, order_.count, rows_, size_);
  }
  std::string details() const override { return order_.descending ? " descending" : ""; }
  loop::Cost cost() const override {
    const std::int64_t comparisons = order_.count.same(size_) ? 12 : 4;  // an element, about
    const Dim count = rows_ * size_;
    return {storage_bytes(info(dtype_), count) + storage_bytes(info(DType::i64), rows_ * order_.count),
            count * Dim(comparisons)};
  }
  runtime::EntryPoint emit(providers::Sources& sources) const override {
    if (sources.device().type == Device::Type::cpu) return {};
    const std::string name = codegen::cuda_argsort_name(dtype_);
    sources.add(name, codegen::cuda_argsort(dtype_));
    return {name};
  }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation& preparation) const override {
    if (preparation.device.type == Device::Type::cpu)
      return std::make_unique<runtime::HostSort>(dtype_, order_.descending, rows_, size_, order_.first, order_.count,
                                                 preparation.numbers);
    return std::make_unique<runtime::cuda::DeviceSort>(rows_, size_, order_.descending, preparation);
  }

 private:
  DType dtype_;
  Order order_;
  Dim rows_ = 1, size_ = 0;
};

class SortProvider final : public Provider {
 public:
  // A part of an order on the host alone.
  bool takes(const Node& node, Device device) const override {
    return node.op == Op::argsort && (device.type == Device::Type::cpu || is_whole(node.attributes<Order>()));
  }
  std::optional<Offer> offer(const Candidate& candidate) const override {
    auto payload = std::make_shared<SortPayload>(candidate);
    const Dim operations = payload->cost().operations;
    return Offer{operations, std::move(payload)};
  }
  std::shared_ptr<const Payload> read(runtime::FieldReader& from) const override {
    return std::make_shared<SortPayload>(from);
  }
};

}  // namespace

const Provider& argsort() {
  static constinit const SortProvider provider;
  return provider;
}

}  // namespace weft::providers
