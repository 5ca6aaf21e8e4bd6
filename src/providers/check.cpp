#include "providers/provider.hpp"
#include "runtime/host_steps.hpp"

namespace weft::providers {

namespace {

class CheckPayload final : public Payload {
 public:
  explicit CheckPayload(const Node& node) : message_(interned_text(node.attributes<Message>().text.id)) {}
  std::string text() const override { return {}; }
  loop::Cost cost() const override { return {1, 1}; }
  bool may_fail() const override { return true; }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation& preparation) const override {
    return std::make_unique<runtime::Check>(message_, preparation.device);
  }

 private:
  std::string message_;
};

class CheckProvider final : public Provider {
 public:
  const char* name() const override { return "check"; }
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
