#include "runtime/transfer.hpp"

#include <cstring>

#include "runtime/cuda/arrival.hpp"

namespace weft::runtime {
namespace {

class HostBeginning final : public Runnable {
 public:
  HostBeginning(Dim bytes, NumberTable& numbers) : bytes_(numbers.add({bytes})) {}
  void run(const StepCall& call) const override {
    if (const std::int64_t bytes = call.part(bytes_)[0]; bytes > 0)
      std::memcpy(call.pointers[1], call.pointers[0], static_cast<std::size_t>(bytes));
  }

 private:
  NumberTable::Range bytes_;
};
class HostEnd final : public Runnable {
 public:
  void run(const StepCall&) const override {}
};

class DeviceBeginning final : public Runnable {
 public:
  DeviceBeginning(const Transfer& transfer, const Preparation& preparation)
      : device_(cuda::use(preparation.device)),
        arrival_(transfer.arrival),
        bytes_(preparation.numbers.add({transfer.bytes})) {}
  void run(const StepCall& call) const override {
    arrival_->begin(device_, call.pointers[1], call.pointers[0], static_cast<std::size_t>(call.part(bytes_)[0]),
                    call.queue);
  }

 private:
  cuda::DeviceState& device_;
  std::shared_ptr<cuda::Arrival> arrival_;
  NumberTable::Range bytes_;
};
class DeviceEnd final : public Runnable {
 public:
  DeviceEnd(const Transfer& transfer, const Preparation& preparation)
      : device_(cuda::use(preparation.device)), arrival_(transfer.arrival) {}
  void run(const StepCall& call) const override { arrival_->wait(device_, call.queue); }

 private:
  cuda::DeviceState& device_;
  std::shared_ptr<cuda::Arrival> arrival_;
};

}  // namespace

Transfer make_transfer(Dim bytes, bool to_host) { return {bytes, std::make_shared<cuda::Arrival>(to_host)}; }

std::unique_ptr<Runnable> beginning_of(const Transfer& transfer, const Preparation& preparation) {
  if (preparation.device.type == Device::Type::cpu)
    return std::make_unique<HostBeginning>(transfer.bytes, preparation.numbers);
  return std::make_unique<DeviceBeginning>(transfer, preparation);
}
std::unique_ptr<Runnable> end_of(const Transfer& transfer, const Preparation& preparation) {
  if (preparation.device.type == Device::Type::cpu) return std::make_unique<HostEnd>();
  return std::make_unique<DeviceEnd>(transfer, preparation);
}

}  // namespace weft::runtime
