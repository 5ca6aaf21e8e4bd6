// A plan, its kernels, and one run of it: what writer.cpp writes with all of Weft, and runner.cpp runs with the
// runtime.
#pragma once
#include <string>
#include <vector>

#include "runtime/fields.hpp"

struct SavedRun {
  using Bytes = std::vector<std::byte>;
  std::string plan;     // as write_plan() writes it
  std::string kernels;  // a shared object; empty: none
  std::uint64_t key_low = 0, key_high = 0;
  std::size_t units = 0;
  std::vector<Bytes> arguments, results;
  static auto fields(auto& self) {
    return std::tie(self.plan, self.kernels, self.key_low, self.key_high, self.units, self.arguments, self.results);
  }
};
