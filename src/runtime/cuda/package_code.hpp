// Code of a device in a package. In: images that were compiled for a target. Out: bytes, and the same loaded on the
// device with the number 0.
#pragma once
#include "runtime/cuda/code.hpp"
#include "runtime/package_device.hpp"

namespace weft::runtime::cuda {

std::string write_code(const CodeImages& code);
const PackageDevice& package_device();

// The targets of a device that is there: its code, and PTX that later devices run.
std::vector<const DeviceTarget*> targets_of(Device device);

}  // namespace weft::runtime::cuda
