#include "runtime/cuda/package_code.hpp"

#include "base/fail.hpp"
#include "base/member_count.hpp"
#include "runtime/fields.hpp"

namespace weft::runtime::cuda {

static_assert(lists_all<CodeImages>, "a member is not in fields()");

namespace {

bool runs(const DeviceTarget& target, std::string& there) try {
  const DeviceState& state = use(Device::cuda());
  there = concat_text(state.name, " (", state.target->name, ")");
  return target.runs_on(state.capability);
} catch (const Error& error) {
  there = concat_text("no device of CUDA: ", error.what());
  return false;
}

std::shared_ptr<const Functions> load(std::string_view bytes) {
  FieldReader from(bytes);
  const auto code = from.take<CodeImages>();
  if (!from.at_end() || (code.images.empty() && !code.functions.empty())) throw Malformed();
  return std::make_shared<Code>(code, Device::cuda());
}

}  // namespace

std::string write_code(const CodeImages& code) {
  FieldWriter to;
  to(code);
  return to.bytes();
}

const PackageDevice& package_device() {
  static constexpr PackageDevice device{runs, load};
  return device;
}

std::vector<const DeviceTarget*> targets_of(Device device) {
  const ComputeCapability own = use(device).capability;
  std::vector<const DeviceTarget*> all{target_for(own)};
  if (const DeviceTarget* const text = text_target_for(own); text && text != all[0]) all.push_back(text);
  return all;
}

}  // namespace weft::runtime::cuda
