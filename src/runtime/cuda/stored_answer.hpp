// What a library of a device answered, in the disk cache: which of its kernels it names for sizes, or a plan that it
// made. In: the library, its version, the device and the question, as bytes. Out: the answer, as bytes. An entry of
// another version or another device is not found; the caller checks the answer, and asks the library again where it is
// wrong.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/hash.hpp"
#include "runtime/cuda/device.hpp"

namespace weft::runtime::cuda {

class StoredAnswer {
 public:
  // `kind`: what is asked of which library.
  StoredAnswer(std::string_view kind, std::uint64_t version, const DeviceState& device, std::string_view question);
  std::optional<std::string> load() const;
  void store(std::string_view answer) const;

 private:
  std::string kind_;
  Digest key_;
};

}  // namespace weft::runtime::cuda
