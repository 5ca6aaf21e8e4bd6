// expect: weft: the elements of std::vector<bool> are no objects: use std::vector<std::uint8_t>
#include <vector>

#include "weft/tensor.hpp"

weft::Tensor made(const std::vector<bool>& numbers) { return weft::from_span(numbers, {2}); }
