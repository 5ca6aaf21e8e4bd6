#include "runtime/host_call.hpp"

namespace weft::runtime {

HostCallStep::HostCallStep(std::span<const Value> values, std::size_t operands, HostWork work,
                           const Preparation& preparation)
    : operands_(operands), work_(std::move(work)), device_(preparation.device) {
  for (const Value& value : values)
    values_.push_back({value.dtype, preparation.numbers.add(std::span(value.shape.begin(), value.shape.end()))});
}

void HostCallStep::run(const StepCall& call) const {
  const bool on_host = device_.type == Device::Type::cpu;
  const DeviceInterface& memory = device_interface(device_.type);
  std::vector<HostValue> values;
  std::vector<std::vector<std::byte>> copies(on_host ? 0 : values_.size());
  const auto bytes_of = [](const HostValue& value) {
    std::int64_t count = 1;
    for (const std::int64_t size : value.sizes) count *= size;
    return storage_bytes(value.dtype, count);
  };
  for (std::size_t i = 0; i < values_.size(); ++i) {
    HostValue& value = values.emplace_back(HostValue{values_[i].dtype, call.part(values_[i].sizes), call.pointers[i]});
    if (on_host) continue;
    copies[i].resize(bytes_of(value));
    if (i < operands_ && !copies[i].empty())
      memory.copy(copies[i].data(), Device::cpu(), value.data, device_, copies[i].size(), call.queue);
    value.data = copies[i].data();
  }
  if (!on_host) memory.synchronize(device_);  // throws where a check before has failed
  const std::span<const HostValue> all = values;
  work_(all.first(operands_), all.subspan(operands_));
  if (on_host) return;
  for (std::size_t i = operands_; i < values_.size(); ++i)
    if (!copies[i].empty())
      memory.copy(call.pointers[i], device_, copies[i].data(), Device::cpu(), copies[i].size(), call.queue);
  memory.synchronize(device_);
}

}  // namespace weft::runtime
