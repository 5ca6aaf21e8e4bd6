#include "codegen/cuda_functions.hpp"
#include "providers/provider.hpp"
#include "providers/sources.hpp"
#include "providers/stored_payload.hpp"
#include "runtime/cuda/steps.hpp"
#include "runtime/host/steps.hpp"

namespace weft::providers {

namespace {

class CheckPayload final : public StoredPayload<runtime::StoredCheck> {
 public:
  explicit CheckPayload(const Node& node)
      : StoredPayload(runtime::StoredCheck({interned_text(node.attributes<Message>().text.id)})) {}
  std::string details() const override { return {}; }
  bool may_fail() const override { return true; }
  bool is_check() const override { return true; }
  std::vector<bool> writes(std::size_t buffers) const override {  // the error word alone
    std::vector<bool> all(buffers, false);
    if (buffers > 1) all.back() = true;
    return all;
  }
  runtime::EntryPoint emit(providers::Sources& sources) const override {
    if (sources.device().type == Device::Type::cpu) return {};
    return sources.add(codegen::cuda_check());
  }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation& preparation) const override {
    if (preparation.device.type == Device::Type::cpu) return StoredPayload::prepare(preparation);
    return std::make_unique<runtime::cuda::DeviceCheck>(stored_.what.message, preparation);
  }
};

class CheckProvider final : public Provider {
 public:
  bool takes(const Node& node, Device) const override { return node.op == Op::check; }
  std::optional<Offer> offer(const Candidate& candidate) const override {
    return Offer{1, std::make_shared<CheckPayload>(candidate.node)};
  }
};

}  // namespace

const Provider& check() {
  static constinit const CheckProvider provider;
  return provider;
}

}  // namespace weft::providers
