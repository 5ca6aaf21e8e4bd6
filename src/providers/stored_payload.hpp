// A payload whose step the runtime has by itself: what is written to disk and run on the host is its `Stored`, what
// people read and what a device needs is the payload's.
#pragma once
#include "providers/provider.hpp"
#include "runtime/stored_step.hpp"

namespace weft::providers {

inline loop::Cost cost_of(const runtime::StoredStep& step) {
  const runtime::StepCost cost = step.cost();
  return {cost.bytes, cost.operations};
}

template <class Stored, class Base = Payload>
class StoredPayload : public Base {
 public:
  explicit StoredPayload(Stored step, const auto&... base) : Base(base...), stored_(std::move(step)) {}
  loop::Cost cost() const override { return cost_of(stored_); }
  std::string by() const override { return stored_.by(); }
  std::string stored_as() const override { return stored_.stored_as(); }
  void write(runtime::FieldWriter& to, const runtime::EntryPoint& entry) const override { stored_.write(to, entry); }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation& preparation) const override {
    return stored_.prepare(preparation);
  }

 protected:
  Stored stored_;
};

}  // namespace weft::providers
