#include "codegen/cuda.hpp"
#include "providers/provider.hpp"
#include "providers/sources.hpp"
#include "runtime/cuda/steps.hpp"
#include "runtime/host/steps.hpp"

namespace weft::providers {

namespace {

class CheckPayload final : public Payload {
 public:
  explicit CheckPayload(const Node& node) : message_(interned_text(node.attributes<Message>().text.id)) {}
  explicit CheckPayload(runtime::FieldReader& from) { from(message_); }
  std::string stored_as() const override { return "check"; }
  void write(runtime::FieldWriter& to, const runtime::EntryPoint&) const override { to(message_); }
  std::string details() const override { return {}; }
  loop::Cost cost() const override { return {1, 1}; }
  bool may_fail() const override { return true; }
  bool is_check() const override { return true; }
  std::vector<bool> writes(std::size_t buffers) const override {  // the error word alone
    std::vector<bool> all(buffers, false);
    if (buffers > 1) all.back() = true;
    return all;
  }
  runtime::EntryPoint emit(providers::Sources& sources) const override {
    if (sources.device().type == Device::Type::cpu) return {};
    sources.add(codegen::cuda_check_name, codegen::cuda_check());
    return {codegen::cuda_check_name};
  }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation& preparation) const override {
    if (preparation.device.type == Device::Type::cpu) return std::make_unique<runtime::HostCheck>(message_);
    return std::make_unique<runtime::cuda::DeviceCheck>(message_, preparation);
  }

 private:
  std::string message_;
};

class CheckProvider final : public Provider {
 public:
  bool takes(const Node& node, Device) const override { return node.op == Op::check; }
  std::optional<Offer> offer(const Candidate& candidate) const override {
    return Offer{1, std::make_shared<CheckPayload>(candidate.node)};
  }
  std::shared_ptr<const Payload> read(runtime::FieldReader& from) const override {
    return std::make_shared<CheckPayload>(from);
  }
};

}  // namespace

const Provider& check() {
  static constinit const CheckProvider provider;
  return provider;
}

}  // namespace weft::providers
