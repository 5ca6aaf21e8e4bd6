#include "ir/collective.hpp"

#include "base/fail.hpp"
#include "providers/provider.hpp"
#include "runtime/cuda/collective.hpp"
#include "runtime/processes/collective_step.hpp"

namespace weft::providers {

namespace {

class CollectivePayload final : public Payload {
 public:
  explicit CollectivePayload(const Candidate& candidate)
      : device_(candidate.device),
        what_(collective_of(candidate.node.op, candidate.node.attributes(), candidate.node.type.dtype)),
        is_late_(candidate.node.op == Op::all_gather && candidate.node.recomputation != 0),
        offset_(candidate.operands[0].offset),
        count_(candidate.operands[0].type.shape.element_count()),
        result_count_(candidate.result().type.shape.element_count()) {}
  std::string details() const override { return concat_text(" of ", what_.processes); }
  std::string by() const override { return device_.type == Device::Type::cuda ? "NCCL" : ""; }
  loop::Cost cost() const override {
    return {storage_bytes(info(what_.dtype), count_ + result_count_), count_ * Dim(what_.processes)};
  }
  // On the host the call waits for the others, and ends where one of them does. On a device it does not wait.
  bool may_fail() const override { return device_.type == Device::Type::cpu; }
  bool is_collective() const override { return true; }
  bool is_late() const override { return is_late_; }
  bool in_place(int /*argument*/, int /*result*/) const override {
    return what_.kind == CollectiveOperation::Kind::all_reduce && offset_.same(Dim(0));
  }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation& preparation) const override {
    if (preparation.device.type == Device::Type::cpu)
      return std::make_unique<runtime::HostCollective>(what_, count_, offset_, preparation);
    return std::make_unique<runtime::cuda::DeviceCollective>(what_, count_, offset_, preparation);
  }

 private:
  Device device_;
  CollectiveOperation what_;
  bool is_late_;
  Dim offset_, count_, result_count_;
};

class CollectiveProvider final : public Provider {
 public:
  bool takes(const Node& node, Device) const override { return info(node.op).kind == OpKind::collective; }
  bool reads(const Shape& shape, std::span<const Dim> strides) const override { return is_row_major(shape, strides); }
  std::optional<Offer> offer(const Candidate& candidate) const override {
    return Offer{1, std::make_shared<CollectivePayload>(candidate)};
  }
};

}  // namespace

const Provider& collective() {
  static constinit const CollectiveProvider provider;
  return provider;
}

}  // namespace weft::providers
