// DLPack's structs over blocks of memory; no tensor is needed.
#pragma once
#include <algorithm>
#include <memory>
#include <new>
#include <optional>
#include <span>

#include "base/storage.hpp"
#include "weft/dim.hpp"
#include "weft/interop/dlpack_structs.hpp"

namespace weft {

dlpack::DataType dlpack_type(DType dtype);
std::optional<DType> dtype_of_dlpack(dlpack::DataType type);  // none: no dtype has such elements

// A struct that holds `storage` until its deleter is called. In: a reference to `storage`, which is taken over; the
// address of the first element; at most max_rank sizes, and strides in elements.
template <class Managed>
Managed* export_memory(Storage* storage, void* first, DType dtype, std::span<const std::int64_t> sizes,
                       std::span<const std::int64_t> strides) {
  struct ExportedMemory {
    Managed managed{};
    std::int64_t shape[max_rank] = {}, strides[max_rank] = {};
    Storage *storage = nullptr, *block = nullptr;
  };
  std::unique_ptr<Storage, void (*)(Storage*)> held(storage, release);
  Storage* const block = allocate(Device::cpu(), sizeof(ExportedMemory));  // not of the heap: calls give such structs
  auto* const exported = ::new (block->data) ExportedMemory;
  exported->block = block;
  std::ranges::copy(sizes, exported->shape);
  std::ranges::copy(strides, exported->strides);
  exported->storage = held.release();
  const bool on_host = storage->device.type == Device::Type::cpu;
  Managed& managed = exported->managed;
  managed.dl_tensor = {.data = first,
                       .device = {on_host ? dlpack::DeviceType::cpu : dlpack::DeviceType::cuda, storage->device.index},
                       .rank = static_cast<std::int32_t>(sizes.size()),
                       .dtype = dlpack_type(dtype),
                       .shape = exported->shape,
                       .strides = exported->strides,
                       .byte_offset = 0};
  managed.manager_ctx = exported;
  managed.deleter = [](Managed* self) {
    const auto* const held = static_cast<const ExportedMemory*>(self->manager_ctx);
    release(held->storage);
    release(held->block);
  };
  return &managed;
}

}  // namespace weft
