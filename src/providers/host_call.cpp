#include "runtime/host_call.hpp"

#include "base/fail.hpp"
#include "ir/host_function.hpp"
#include "providers/provider.hpp"

namespace weft::providers {

namespace {

class HostCallPayload final : public Payload {
 public:
  explicit HostCallPayload(const Candidate& candidate)
      : called_(candidate.node.attributes<HostCalled>()),
        loc_(candidate.node.loc),
        operands_(candidate.operands.size()) {
    for (const auto* placed : {&candidate.operands, &candidate.results})
      for (const PlacedValue& value : *placed) values_.push_back({value.type.dtype, value.type.shape});
  }
  std::string details() const override { return {}; }
  loop::Cost cost() const override {
    Dim bytes = 0;
    for (const auto& value : values_) bytes = bytes + storage_bytes(info(value.dtype), value.shape.element_count());
    return {bytes, 1};
  }
  bool may_fail() const override { return true; }
  std::vector<bool> writes(std::size_t buffers) const override {
    std::vector<bool> all(buffers, true);
    for (std::size_t i = 0; i < operands_; ++i) all[i] = false;
    return all;
  }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation& preparation) const override {
    auto work = [called = called_, loc = loc_](std::span<const HostValue> operands,
                                               std::span<const HostValue> results) {
      call_host_function(called, operands, results, loc);
    };
    return std::make_unique<runtime::HostCallStep>(values_, operands_, std::move(work), preparation);
  }

 private:
  HostCalled called_;
  Loc loc_;
  std::size_t operands_;
  std::vector<runtime::HostCallStep::Value> values_;
};

class HostCallProvider final : public Provider {
 public:
  bool takes(const Node& node, Device) const override { return node.op == Op::host_call; }
  std::optional<Offer> offer(const Candidate& candidate) const override {
    for (const auto* placed : {&candidate.operands, &candidate.results})
      for (const PlacedValue& value : *placed)
        WEFT_CHECK(value.offset.same(Dim(0)) && is_row_major(value.type.shape, value.strides),
                   "a call of the host reads and writes rows");
    return Offer{1, std::make_shared<HostCallPayload>(candidate)};
  }
};

}  // namespace

const Provider& host_call() {
  static constinit const HostCallProvider provider;
  return provider;
}

}  // namespace weft::providers
