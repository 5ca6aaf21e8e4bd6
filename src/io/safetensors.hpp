// The safetensors format: the length of a header (8 bytes, little-endian), the header (JSON: for each tensor its dtype,
// its shape and where its bytes lie after the header), and the bytes, without holes.
// https://github.com/huggingface/safetensors describes it.
#pragma once
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "ir/node.hpp"

namespace weft::io {

// The entry of a header that is no tensor.
inline constexpr std::string_view metadata_key = "__metadata__";

// What a reader says about a damaged file; whoever has the path makes it an Error.
struct DamagedFile : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct SafetensorsEntry {
  std::string name;
  std::string dtype_name;  // as the file writes it
  std::optional<DType> dtype;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0, end = 0;  // offsets from the header's end
  std::string type_text() const;     // F32[2,3]
};
struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // by their places in the file
  std::map<std::string, std::string> metadata;
  std::uint64_t data_begin = 0;  // in the file
};

// Reads and checks the header of a whole file: every tensor lies inside of it and apart from the others, and has as
// many bytes as its shape and its dtype say. Throws DamagedFile. Memory is bounded by a multiple of the header's
// length.
SafetensorsHeader read_safetensors(std::span<const std::uint8_t> file);

// The length and the header's text for tensors whose bytes follow in this order, padded so that they begin at a
// multiple of 64.
struct SafetensorsTensor {
  std::string name;
  Type type;
};
std::string write_safetensors_header(std::span<const SafetensorsTensor> tensors,
                                     const std::map<std::string, std::string>& metadata);

// The type of an entry, or nothing where Weft has none such: another dtype, more axes or more elements than there can
// be.
std::optional<Type> type_of_entry(const SafetensorsEntry& entry);

}  // namespace weft::io
