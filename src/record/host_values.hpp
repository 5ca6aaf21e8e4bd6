// Values that leave or enter a computation on the host: item(), bool, data(), from_span(), and sizes that depend on
// values. In a trace that can answer, its Decider does (record/record.hpp).
#pragma once
#include <span>
#include <string>

#include "weft/tensor.hpp"

namespace weft {

// What a value is asked for on the host: whether it is not 0; an integer, rounded towards 0; of a floating value one
// from 0 on that may need all 64 bits, as a std::uint64_t has them; or all of its elements.
enum class Asked : std::uint8_t { boolean, integer, natural, elements };
// An answer, as text.
std::string answer_text(Asked asked, std::int64_t answer);
// All but the last, of a computed value of one element. Throws where it is no integer of 64 bits and one is asked for.
std::int64_t answer(const Tensor& value, Asked asked, Loc loc);

// Throws: data from host memory in a compiled function that has read no value yet, or can read none.
[[noreturn]] void refuse_host_data(const char* operation, Loc loc);

// For functions whose results have sizes that depend on values: the value in this call, outside of a trace. Throws in a
// trace that can't read it.
Tensor known_value(const char* operation, const Tensor& value, Loc loc);
// What such a function has found, whose first size another call need not have.
Tensor counted_data(std::span<const std::int64_t> elements, const Shape& shape, Device device, Loc loc);

// Computed contents, contiguous: the storage itself when it is, else a copy. The caller owns a reference.
struct Contiguous {
  Storage* storage;
  std::int64_t offset;  // elements
};
Contiguous contiguous(const Tensor& value, Loc loc);

}  // namespace weft
