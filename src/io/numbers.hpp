// Numbers of a model as text that reads back to the same bits (of a NaN: to a NaN): 7, 0.1, true; several with commas
// between them.
#pragma once
#include <string>
#include <string_view>

#include "weft/flatten.hpp"

namespace weft::io {

// Of a leaf that holds numbers.
std::string numbers_text(const weft::detail::Leaf& leaf);
// The bytes of such a leaf, or false where the text is not of as many numbers of its kind.
bool read_numbers(const weft::detail::Leaf& leaf, std::string_view text, std::string& bytes);

}  // namespace weft::io
