// Tensors that a caller passes, as they are given. In: structs of DLPack. Out: what is no tensor is refused.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "run/state.hpp"

namespace weft::run {

Owned allocate_bytes(std::size_t bytes);

std::span<const std::int64_t> row_major_strides(std::span<const std::int64_t> sizes, std::int64_t (&room)[max_rank]);

// The bytes of row-major elements; below 0: too many.
constexpr std::int64_t most_bytes = std::int64_t{1} << 62;
std::int64_t bytes_of(DType dtype, std::span<const std::int64_t> sizes);

bool is_on_host(weft_device device);

// Refuses what is no tensor, whatever the package holds: "`what` is a null pointer". Returns its dtype.
DType check_tensor(const weft_tensor* given, const std::string& what);

}  // namespace weft::run
