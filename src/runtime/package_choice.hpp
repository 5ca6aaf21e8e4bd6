// Which kernels of a package a machine takes. In: specializations, with what each one's kernels are for; the machine's
// instruction set and device. Out: of those with the same guards the best that runs there.
#pragma once
#include "runtime/package_file.hpp"

namespace weft::runtime {

inline bool is_on_device(const PackageSpecialization& made) { return made.plan.device.type != Device::Type::cpu; }

// What all kernels are for: "baseline, avx2 of x86-64, sm_90a of CUDA". Throws Malformed where one is for nothing
// known.
std::string made_for(const PackageFile& package);

// Keeps of each kind of arguments what is for the largest instruction set that this machine has, or is the best code
// for its device. Throws PackageRefusal where an entry has nothing for it.
void choose_kernels(PackageFile& package, const PackageDevice* device);

}  // namespace weft::runtime
