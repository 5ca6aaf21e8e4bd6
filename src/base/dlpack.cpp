#include "base/dlpack.hpp"

#include <cstddef>

namespace weft {

static_assert(sizeof(dlpack::View) == 48 && offsetof(dlpack::View, dtype) == 20 && offsetof(dlpack::View, shape) == 24);
static_assert(sizeof(dlpack::ManagedTensor) == 64 && offsetof(dlpack::ManagedTensor, deleter) == 56);
static_assert(sizeof(dlpack::ManagedTensorVersioned) == 80 &&
              offsetof(dlpack::ManagedTensorVersioned, dl_tensor) == 32);

namespace {

dlpack::Code code_of(DType dtype) {
  switch (info(dtype).kind) {
    case DTypeKind::boolean: return dlpack::Code::boolean;
    case DTypeKind::floating:
      return dtype == DType::bf16     ? dlpack::Code::bfloat
             : dtype == DType::f8e4m3 ? dlpack::Code::float8_e4m3fn
             : dtype == DType::f8e5m2 ? dlpack::Code::float8_e5m2
                                      : dlpack::Code::floating;
    case DTypeKind::integer: break;
  }
  return info(dtype).name[0] == 'u' ? dlpack::Code::unsigned_integer : dlpack::Code::integer;
}

}  // namespace

dlpack::DataType dlpack_type(DType dtype) { return {code_of(dtype), static_cast<std::uint8_t>(info(dtype).bits), 1}; }

std::optional<DType> dtype_of_dlpack(dlpack::DataType type) {
  for (int i = 0; i < dtype_count; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (type.code == code_of(dtype) && type.bits == info(dtype).bits && type.lanes == 1) return dtype;
  }
  return {};
}

}  // namespace weft
