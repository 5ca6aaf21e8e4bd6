// What the files of convolutions and of pooling share.
#pragma once
#include "record/composite.hpp"

namespace weft::detail {

// Throws where one of the numbers for each of the axes is less.
void check_axes(const char* name, const char* what, const std::int64_t* numbers, int count, std::int64_t least,
                Loc loc);

// Of windows of at most so many places, at strides whose product is at most that: the derivative of a call with a
// PoolCall, of padded elements and, where it is given, of what lies over elements ([1, 1, places, windows, ...]).
inline constexpr std::int64_t most_places_of_pool = 32;
void differentiate_max_pool(const CallValues& call, std::span<Tensor> gradients);

}  // namespace weft::detail
