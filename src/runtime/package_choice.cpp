#include "runtime/package_choice.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/fail.hpp"
#include "runtime/host/isa.hpp"

namespace weft::runtime {

namespace {

InstructionSet isa_of(const PackageSpecialization& made) {
  const std::optional<InstructionSet> isa = instruction_set(made.isa);
  if (!isa) throw Malformed();
  return *isa;
}

// Of a plan of a device.
const DeviceTarget& target_of(const PackageSpecialization& made) {
  const DeviceTarget* const target = device_target(made.isa);
  if (!target) throw Malformed();
  return *target;
}

// "baseline, avx2 of x86-64, neon of arm64"
std::string text_of(const std::set<InstructionSet>& all) {
  std::string text;
  for (auto each = all.begin(); each != all.end(); ++each) {
    text += concat_text(text.empty() ? "" : ", ", name(*each));
    const auto next = std::next(each);
    if (next == all.end() || next->architecture != each->architecture)
      text += concat_text(" of ", name(each->architecture));
  }
  return text;
}

}  // namespace

std::string made_for(const PackageFile& package) {
  std::set<InstructionSet> all;
  std::set<std::string> devices;
  for (const PackageEntry& entry : package.entries)
    for (const PackageSpecialization& each : entry.specializations) {
      if (is_on_device(each))
        devices.insert(std::string(target_of(each).name));
      else
        all.insert(isa_of(each));
    }
  std::string text = text_of(all);
  std::string names;
  for (const std::string& name : devices) names += concat_text(names.empty() ? "" : ", ", name);
  if (!names.empty()) text += concat_text(text.empty() ? "" : ", ", names, " of CUDA");
  return text;
}

void choose_kernels(PackageFile& package, const PackageDevice* device) {
  const InstructionSet here = host_isa();
  std::string there;  // the device; empty where none is asked for
  const auto runs_here = [&](const PackageSpecialization& each) {
    if (!is_on_device(each)) return here.runs(isa_of(each));
    if (device) return device->runs(target_of(each), there);
    there = "this program runs packages on the CPU alone";
    return false;
  };
  const auto is_less = [](const PackageSpecialization& a, const PackageSpecialization& b) {
    WEFT_CHECK(is_on_device(a) == is_on_device(b), "the same guards on the host and on a device");
    return is_on_device(a) ? target_of(a) < target_of(b) : isa_of(a) < isa_of(b);
  };
  for (PackageEntry& entry : package.entries) {
    std::map<std::string, std::size_t> best;  // by guards: its number
    for (std::size_t i = 0; i < entry.specializations.size(); ++i) {
      const PackageSpecialization& each = entry.specializations[i];
      if (!runs_here(each)) continue;
      const auto [known, is_new] = best.try_emplace((is_on_device(each) ? "device " : "host ") + guards_text(each), i);
      if (!is_new && is_less(entry.specializations[known->second], each)) known->second = i;
    }
    std::vector<std::size_t> kept;
    for (const auto& [guards, number] : best) kept.push_back(number);
    std::ranges::sort(kept);
    if (kept.empty() && !entry.specializations.empty())
      throw PackageRefusal{concat_text("was made for ", package.isa, ", this machine has ", text_of(std::set{here}),
                                       there.empty() ? ""
                                       : device      ? ", and "
                                                     : "; ",
                                       there)};
    std::vector<PackageSpecialization> chosen;
    for (const std::size_t number : kept) chosen.push_back(std::move(entry.specializations[number]));
    entry.specializations = std::move(chosen);
  }
}

}  // namespace weft::runtime
