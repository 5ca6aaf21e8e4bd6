// DLPack: tensors to and from other libraries of this process, without a copy where that is possible. The structs have
// the memory layout of the specification (github.com/dmlc/dlpack, version 1). The functions take and give these, or
// those of a dlpack.h that the program includes:
//   DLManagedTensorVersioned* m = weft::to_dlpack<DLManagedTensorVersioned>(x);
//   weft::Tensor y = weft::from_dlpack(m);
#pragma once
#include "weft/interop/dlpack_structs.hpp"
#include "weft/tensor.hpp"

namespace weft {
namespace dlpack {

template <class M>
concept Versioned = requires(M m) {  // a ManagedTensorVersioned, of whichever header
  m.version;
  m.flags;
};
// The structs above, or those of dlpack.h.
template <class M>
concept Managed = requires(M* m) {
  m->dl_tensor;
  m->manager_ctx;
  m->deleter(m);
}
&&sizeof(M) == (Versioned<M> ? sizeof(ManagedTensorVersioned) : sizeof(ManagedTensor));

}  // namespace dlpack

namespace detail {
dlpack::ManagedTensor* to_dlpack(const Tensor& tensor, Loc loc);
dlpack::ManagedTensorVersioned* to_dlpack_versioned(const Tensor& tensor, Loc loc);
Tensor from_dlpack(dlpack::ManagedTensor* managed, Loc loc);
Tensor from_dlpack(dlpack::ManagedTensorVersioned* managed, Loc loc);
}  // namespace detail

// The tensor's own memory, which stays until the receiver calls the deleter; nothing is copied, and strides are those
// in which the value lies. The value is computed, on a device to the end, before this returns. The receiver must not
// write to the memory: other tensors may share it (the versioned struct has the flag read_only). Throws Error inside a
// compiled function.
template <dlpack::Managed M = dlpack::ManagedTensorVersioned>
M* to_dlpack(const Tensor& tensor, Loc loc = Loc::current()) {
  if constexpr (dlpack::Versioned<M>)
    return reinterpret_cast<M*>(detail::to_dlpack_versioned(tensor, loc));
  else
    return reinterpret_cast<M*>(detail::to_dlpack(tensor, loc));
}

// A tensor over the memory of `managed`, which is consumed: its deleter is called once, when the last handle on the
// tensor and on views of it goes, or before an Error is thrown: by any thread, so it must not call Weft or wait for a
// thread that does. Weft never writes to the memory; nobody else may either
// while the tensor is in use. Elements on the host are copied once, and the deleter called at once, where the first is
// not aligned to its size or a stride is negative; elements on a CUDA device, where the first is not aligned to 16
// bytes. There they must be in row-major order, and the work that makes them must be done. Throws where the device, the
// dtype (complex, several lanes, fewer bits than a byte), the rank (more than 8 axes) or the version (not 1) has no
// counterpart, and inside a compiled function.
template <dlpack::Managed M>
Tensor from_dlpack(M* managed, Loc loc = Loc::current()) {
  if constexpr (dlpack::Versioned<M>)
    return detail::from_dlpack(reinterpret_cast<dlpack::ManagedTensorVersioned*>(managed), loc);
  else
    return detail::from_dlpack(reinterpret_cast<dlpack::ManagedTensor*>(managed), loc);
}

}  // namespace weft
