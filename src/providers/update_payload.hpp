// What the steps that update a part of a value share. Buffers: the value, the updates, where they go, the result. The
// value's memory may be the result's; then only the part is written.
#pragma once
#include <algorithm>

#include "providers/sources.hpp"
#include "providers/stored_payload.hpp"

namespace weft::providers {

// `Own` is the payload, `Stored` its step, whose offsets begin with the value's. Own::function() gives a device's
// function; Own::OnDevice is the step there.
template <class Own, class Stored>
class UpdatePayload : public StoredPayload<Stored> {
 public:
  UpdatePayload(Stored step, const Candidate& candidate)
      : StoredPayload<Stored>(std::move(step)), buffers_(candidate.buffers()) {}
  std::string details() const override { return checked_ ? ", unless a check has failed" : ""; }
  // Where nothing else of the step reads the value.
  bool in_place(int argument, int result) const override {
    return argument == buffers_[0] && result == buffers_[3] && this->stored_.what.offsets[0].same(Dim(0)) &&
           std::count(buffers_.begin(), buffers_.end(), argument) == 1;
  }
  std::shared_ptr<const Payload> predicated(int) const override {
    auto checked = std::make_shared<Own>(static_cast<const Own&>(*this));
    static_cast<UpdatePayload&>(*checked).checked_ = true;
    return checked;
  }
  std::vector<bool> writes(std::size_t buffers) const override {
    std::vector<bool> all(buffers, false);
    all[3] = true;
    return all;
  }
  runtime::EntryPoint emit(Sources& sources) const override {
    if (sources.device().type == Device::Type::cpu) return {};
    return sources.add(static_cast<const Own&>(*this).function(checked_));
  }
  // On a device; the host has no error word.
  std::string stored_as() const override { return (checked_ ? "checked_" : "") + StoredPayload<Stored>::stored_as(); }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation& preparation) const override {
    if (preparation.device.type == Device::Type::cpu) return StoredPayload<Stored>::prepare(preparation);
    return std::make_unique<typename Own::OnDevice>(this->stored_.what, checked_, preparation);
  }

 protected:
  std::vector<int> buffers_;

 private:
  bool checked_ = false;
};

// Who does such an operation: in memory's time.
template <class Own, Op op>
class UpdateProvider final : public Provider {
 public:
  bool takes(const Node& node, Device) const override { return node.op == op; }
  bool reads(const Shape& shape, std::span<const Dim> strides) const override { return is_row_major(shape, strides); }
  std::optional<Offer> offer(const Candidate& candidate) const override {
    auto payload = std::make_shared<Own>(candidate);
    const Dim bytes = payload->cost().bytes;
    return Offer{bytes / Dim(8), std::move(payload)};
  }
};

}  // namespace weft::providers
