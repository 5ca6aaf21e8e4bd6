#include "run/tensor.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "base/dlpack.hpp"

static_assert(sizeof(weft_tensor) == sizeof(weft::dlpack::View) &&
              sizeof(weft_device) == sizeof(weft::dlpack::Device) &&
              offsetof(weft_tensor, device) == offsetof(weft::dlpack::View, device) &&
              offsetof(weft_tensor, ndim) == offsetof(weft::dlpack::View, rank) &&
              offsetof(weft_tensor, dtype) == offsetof(weft::dlpack::View, dtype) &&
              offsetof(weft_tensor, shape) == offsetof(weft::dlpack::View, shape) &&
              offsetof(weft_tensor, strides) == offsetof(weft::dlpack::View, strides) &&
              offsetof(weft_tensor, byte_offset) == offsetof(weft::dlpack::View, byte_offset));
static_assert(sizeof(weft_managed_tensor) == sizeof(weft::dlpack::ManagedTensor) &&
              offsetof(weft_managed_tensor, deleter) == offsetof(weft::dlpack::ManagedTensor, deleter));

namespace weft::run {

Owned allocate_bytes(std::size_t bytes) { return Owned(allocate(Device::cpu(), std::max<std::size_t>(bytes, 1))); }

std::span<const std::int64_t> row_major_strides(std::span<const std::int64_t> sizes, std::int64_t (&room)[max_rank]) {
  std::int64_t expected = 1;
  for (std::size_t axis = sizes.size(); axis-- > 0;) {
    room[axis] = expected;
    expected *= std::max<std::int64_t>(sizes[axis], 1);
  }
  return {room, sizes.size()};
}

std::int64_t bytes_of(DType dtype, std::span<const std::int64_t> sizes) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes)
    if (size < 0 || __builtin_mul_overflow(count, std::max<std::int64_t>(size, 1), &count) || count >= most_bytes / 8)
      return -1;
  return std::ranges::count(sizes, 0) > 0 ? 0 : static_cast<std::int64_t>(storage_bytes(dtype, count));
}

bool is_on_host(weft_device device) {
  const auto type = static_cast<dlpack::DeviceType>(device.device_type);
  return type == dlpack::DeviceType::cpu || type == dlpack::DeviceType::cuda_host;
}

DType check_tensor(const weft_tensor* given, const std::string& what) {
  const auto bad = [&](const auto&... why) { refuse(WEFT_BAD_CALL, what, " ", why...); };
  if (!given) bad("is a null pointer");
  if (given->ndim < 0 || given->ndim > max_rank)
    bad("has ", given->ndim, " dimensions, a tensor has at most ", max_rank);
  if (given->ndim > 0 && !given->shape) bad("has no sizes: its shape is a null pointer");
  const std::optional<DType> dtype = dtype_of_dlpack(std::bit_cast<dlpack::DataType>(given->dtype));
  if (!dtype)
    refuse(WEFT_MISMATCH, what, " has elements of code ", static_cast<int>(given->dtype.code), ", ",
           static_cast<int>(given->dtype.bits), " bits and ", counted(given->dtype.lanes, "lane", "lanes"),
           ", which no dtype has");
  if (!is_on_host(given->device))
    refuse(WEFT_MISMATCH, what, " is on a device of type ", given->device.device_type,
           ", the package holds functions of the CPU, which is type 1");
  const std::int64_t bytes = bytes_of(*dtype, {given->shape, static_cast<std::size_t>(given->ndim)});
  if (bytes < 0) bad("has a size that is negative, or too many elements");
  if (bytes > 0 && !given->data) bad("has no memory: its data is a null pointer");
  return *dtype;
}

}  // namespace weft::run
