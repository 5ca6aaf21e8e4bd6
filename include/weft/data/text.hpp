// Text files, whole and by lines, and characters as numbers.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "weft/tensor.hpp"

namespace weft::data {

// All of a file. Throws Error with the path where it can't be read.
std::string read_text(const std::string& path, Loc loc = Loc::current());
// Its lines, a source of a pipeline: without the \n or \r\n at their ends, and without the mark of UTF-8 at the
// beginning of the file. What follows the last \n is a line if it is not empty.
std::vector<std::string> read_lines(const std::string& path, Loc loc = Loc::current());

// The bytes that a text is made of, numbered in their order: the simplest tokens. All 256 by default.
class ByteVocabulary {
 public:
  ByteVocabulary();
  explicit ByteVocabulary(std::string_view text);                                 // the bytes of this text
  std::int64_t size() const { return static_cast<std::int64_t>(bytes_.size()); }  // how many bytes there are
  // i64[n]. Throws Error with the position of a byte that is not among them.
  Tensor encode(std::string_view text, Loc loc = Loc::current()) const;
  // Of a tensor of integers of any shape, in row-major order. Throws Error on numbers outside [0, size).
  std::string decode(const Tensor& tokens, Loc loc = Loc::current()) const;

 private:
  std::string bytes_;  // by number
};

}  // namespace weft::data
