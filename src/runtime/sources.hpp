// What a call gives, by where it comes from: a traced call and a package say it alike.
#pragma once
#include <cstdint>
#include <string>
#include <tuple>

namespace weft::runtime {

// The origin of a tensor of the result, or of changed state.
struct Source {
  enum class Kind : std::uint8_t { undefined, computed, argument } kind = Kind::undefined;
  std::uint32_t index = 0;  // computed: output of the graph, and result of its plan; argument: leaf
  static auto fields(auto& self) { return std::tie(self.kind, self.index); }
};

// A tensor that the function changes.
struct StateTensor {
  std::uint32_t leaf = 0;
  Source source;
  static auto fields(auto& self) { return std::tie(self.leaf, self.source); }
};

// A number, or a list of numbers, that the function changes.
struct StateNumbers {
  std::uint32_t leaf = 0;
  std::string bytes;  // its new value
  static auto fields(auto& self) { return std::tie(self.leaf, self.bytes); }
};

}  // namespace weft::runtime
