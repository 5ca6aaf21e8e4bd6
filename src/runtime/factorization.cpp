#include "runtime/factorization.hpp"

#include <utility>

#include "base/member_count.hpp"
#include "runtime/host/factorization.hpp"
#include "runtime/steps.hpp"

namespace weft::runtime {

void FactorizationStep::run(const StepCall& call) const {
  const std::span<const std::int64_t> size = call.part(sizes_);
  const FactorizationSizes<std::int64_t> sizes{size[0], size[1], size[2], size[3]};
  if (device_.type == Device::Type::cpu)
    factorize(what_, sizes, call.pointers);
  else
    run_on_copies(call, sizes);
}

void FactorizationStep::run_on_copies(const StepCall& call, const FactorizationSizes<std::int64_t>& sizes) const {
  struct Block {
    Storage* storage;
    explicit Block(std::size_t bytes) : storage(allocate(Device::cpu(), bytes)) {}
    Block(Block&& other) noexcept : storage(std::exchange(other.storage, nullptr)) {}
    ~Block() {
      if (storage) release(storage);
    }
  };
  const DeviceInterface& memory = device_interface(device_.type);
  const std::span<const std::int64_t> bytes = call.part(bytes_);
  std::vector<Block> blocks;
  std::vector<void*> buffers;
  for (const std::int64_t each : bytes) {
    blocks.emplace_back(static_cast<std::size_t>(each));
    buffers.push_back(blocks.back().storage->data);
  }
  const auto size_of = [&](std::size_t i) { return static_cast<std::size_t>(bytes[i]); };
  for (std::size_t i = 0; i < operands_; ++i)
    if (bytes[i] > 0) memory.copy(buffers[i], Device::cpu(), call.pointers[i], device_, size_of(i), call.queue);
  memory.synchronize(device_);
  factorize(what_, sizes, buffers.data());
  for (std::size_t i = operands_; i < buffers.size(); ++i)
    if (bytes[i] > 0) memory.copy(call.pointers[i], device_, buffers[i], Device::cpu(), size_of(i), call.queue);
  memory.synchronize(device_);  // the copies are read until then
}

static_assert(member_count<Factorization> == 8 && member_count<FactorizationSizes<Dim>> == 4 &&
                  member_count<FactorizationFields> == 4,
              "a member is not in fields()");

StepCost StoredFactorization::cost() const {
  // A transform's logarithm counts as 16.
  const Dim third = what.what.is_transform()                                  ? Dim(16)
                    : what.what.kind == Factorization::Kind::triangular_solve ? what.sizes.sides
                                                                              : what.sizes.columns;
  Dim bytes = 0;
  for (const Dim each : what.bytes) bytes = bytes + each;
  return {bytes, what.sizes.batch * what.sizes.rows * what.sizes.columns * third};
}

const NamedStep steps::factorization{StoredFactorization::name, StoredFactorization::read};

}  // namespace weft::runtime
