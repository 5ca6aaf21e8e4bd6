// Who runs the plans of a device in a package: named by programs that have it, so that the others link nothing of it.
// In: the name of code, its bytes. Out: whether it runs there, and its functions.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "base/device_target.hpp"
#include "runtime/step.hpp"

namespace weft::runtime {

struct PackageDevice {
  // Whether code for this runs on the device that is there. `there`: what that is, for people, or why there is none.
  bool (*runs)(const DeviceTarget& target, std::string& there);
  // Loads what write_code() of cuda/package_code.hpp wrote. Throws Malformed, and Error with the driver's words.
  std::shared_ptr<const Functions> (*load)(std::string_view bytes);
};

}  // namespace weft::runtime
