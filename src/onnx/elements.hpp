// The elements of large initializers, which are the most of a model's file, stay where they are: protobuf parses what
// is left. In: the bytes of a model. Out: the same model without them, and where they lie.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace weft::onnx {

struct WithoutElements {
  struct Place {
    std::size_t offset = 0, length = 0;  // in the bytes of the model; a length of 0: the initializer is whole
  };
  std::string model;
  std::vector<Place> initializers;  // of the model's graph, in its order
};
// None where the bytes are no model as protobuf writes it: then protobuf says what they are.
std::optional<WithoutElements> without_elements(std::span<const std::uint8_t> bytes);

}  // namespace weft::onnx
