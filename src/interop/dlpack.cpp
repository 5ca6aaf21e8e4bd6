// Tensors as DLPack's structs, and back.
#include "weft/interop/dlpack.hpp"

#include <memory>

#include "base/dlpack.hpp"
#include "base/failed_checks.hpp"
#include "record/evaluate.hpp"
#include "record/record.hpp"
#include "weft/interop/strided.hpp"

namespace weft::detail {
namespace {

// ---- out ------------------------------------------------------------------------------------------------------------

template <class Managed>
Managed* export_tensor(const Tensor& tensor, Loc loc) {
  const Operation call("to_dlpack", loc);
  if (!tensor.defined()) fail("to_dlpack", call.loc(), "of an undefined tensor");
  if (recorder().trace()) fail("to_dlpack", call.loc(), "inside a compiled function there is no memory to give");
  evaluate(std::span(&tensor, 1), call.loc(), "to_dlpack");
  const Type type = type_of(tensor);
  if (type.device.type != Device::Type::cpu) {
    device_interface(type.device.type).synchronize(type.device);
    require_good(*storage_of(tensor));
  }

  std::int64_t sizes[max_rank], strides[max_rank], expected = 1;
  const Layout* layout = layout_of(tensor);
  for (int axis = type.shape.rank() - 1; axis >= 0; --axis) {
    sizes[axis] = static_cast<std::int64_t>(type.shape[axis]);
    strides[axis] = layout ? layout->strides[axis] : expected;
    expected *= sizes[axis];
  }
  Storage* const storage = storage_of(tensor);
  retain(storage);
  const auto rank = static_cast<std::size_t>(type.shape.rank());
  void* const first =
      static_cast<std::uint8_t*>(storage->data) + storage_bytes(type.dtype, layout ? layout->offset : 0);
  return export_memory<Managed>(storage, first, type.dtype, {sizes, rank}, {strides, rank});
}

// ---- in -------------------------------------------------------------------------------------------------------------

template <class Managed>
void drop(void* managed) {
  auto* self = static_cast<Managed*>(managed);
  if (self->deleter) self->deleter(self);
}

DType dtype_of_elements(dlpack::DataType found, Loc loc) {
  if (const std::optional<DType> dtype = dtype_of_dlpack(found)) return *dtype;
  fail("from_dlpack", loc, "no dtype has elements of code ", static_cast<int>(found.code), ", ",
       static_cast<int>(found.bits), " bits and ", counted(found.lanes, "lane", "lanes"));
}

Device device_of(dlpack::Device found, Loc loc) {
  const bool on_cuda = found.type == dlpack::DeviceType::cuda;
  if (!on_cuda && found.type != dlpack::DeviceType::cpu && found.type != dlpack::DeviceType::cuda_host)
    fail("from_dlpack", loc, "the memory is on a device of type ", static_cast<int>(found.type),
         ", only 1 (CPU), 2 (CUDA) and 3 (the host's, of CUDA) are known");
  if (on_cuda && (found.index < 0 || found.index > 255)) fail("from_dlpack", loc, "there is no device ", found.index);
  return on_cuda ? Device::cuda(found.index) : Device::cpu();
}

StridedMemory memory_of(const dlpack::View& view, Loc loc) {
  StridedMemory memory{.dtype = dtype_of_elements(view.dtype, loc)};
  if (view.rank < 0 || view.rank > max_rank)
    fail("from_dlpack", loc, "a tensor has at most ", max_rank, " axes, not ", view.rank);
  bool empty = false;
  for (int axis = 0; axis < view.rank; ++axis) {
    if (view.shape[axis] < 0) fail("from_dlpack", loc, "axis ", axis, " has the size ", view.shape[axis]);
    memory.shape.push_back(Dim(view.shape[axis]));
    empty = empty || view.shape[axis] == 0;
  }
  std::int64_t expected = 1;
  for (int axis = view.rank - 1; axis >= 0; --axis) {
    memory.strides[axis] = view.strides ? view.strides[axis] : expected;
    if (!empty && __builtin_mul_overflow(expected, view.shape[axis], &expected))
      fail("from_dlpack", loc, "the sizes are too large");
  }
  if (!view.data && !empty) fail("from_dlpack", loc, "the elements have no memory");
  if (view.data) memory.first = static_cast<const std::uint8_t*>(view.data) + view.byte_offset;
  return memory;
}

template <class Managed>
Tensor import_tensor(Managed* managed, Loc loc) {
  const Operation call("from_dlpack", loc);
  if (!managed) fail("from_dlpack", call.loc(), "of a null pointer");
  std::unique_ptr<void, void (*)(void*)> held(managed, drop<Managed>);
  if constexpr (dlpack::Versioned<Managed>)
    if (managed->version.major != dlpack::major_version)
      fail("from_dlpack", call.loc(), "the memory is described by version ", managed->version.major,
           " of DLPack, Weft reads version ", dlpack::major_version);
  const Device device = device_of(managed->dl_tensor.device, call.loc());
  const StridedMemory memory = memory_of(managed->dl_tensor, call.loc());
  return adopt_strided("from_dlpack", memory, device, {held.release(), drop<Managed>}, call.loc());
}

}  // namespace

dlpack::ManagedTensor* to_dlpack(const Tensor& tensor, Loc loc) {
  return export_tensor<dlpack::ManagedTensor>(tensor, loc);
}
dlpack::ManagedTensorVersioned* to_dlpack_versioned(const Tensor& tensor, Loc loc) {
  auto* managed = export_tensor<dlpack::ManagedTensorVersioned>(tensor, loc);
  managed->version = {dlpack::major_version, dlpack::minor_version};
  managed->flags = dlpack::read_only;
  return managed;
}
Tensor from_dlpack(dlpack::ManagedTensor* managed, Loc loc) { return import_tensor(managed, loc); }
Tensor from_dlpack(dlpack::ManagedTensorVersioned* managed, Loc loc) { return import_tensor(managed, loc); }

}  // namespace weft::detail
