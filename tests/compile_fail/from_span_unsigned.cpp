// expect: convert the numbers first, as in std::vector<std::int64_t>(v.begin(), v.end())
#include <vector>

#include "weft/tensor.hpp"

weft::Tensor made(const std::vector<unsigned long>& numbers) { return weft::from_span(numbers, {2}); }
