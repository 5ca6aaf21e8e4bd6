#include "runtime/processes/collective_step.hpp"

#include "runtime/processes/process_group.hpp"

namespace weft::runtime {

HostCollective::HostCollective(const CollectiveOperation& what, Dim count, Dim offset, const Preparation& preparation)
    : what_(what), numbers_(preparation.numbers.add({count, offset})) {}

std::vector<std::string> HostCollective::collectives(std::span<const std::int64_t> numbers) const {
  return {describe(what_, numbers[numbers_.begin])};
}
void HostCollective::run(const StepCall& call) const {
  const std::int64_t count = call.part(numbers_)[0], offset = call.part(numbers_)[1];
  const auto* const from = static_cast<const std::byte*>(call.pointers[0]) + storage_bytes(what_.dtype, offset);
  group_of(what_.processes).run(what_, count, from, call.pointers[1]);
}

}  // namespace weft::runtime
