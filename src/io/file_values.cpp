#include "io/file_values.hpp"

#include <algorithm>
#include <cstring>

#include "base/fail.hpp"
#include "base/storage.hpp"
#include "record/evaluate.hpp"
#include "record/host_values.hpp"
#include "record/record.hpp"

namespace weft::io {
namespace {

// Memory that belongs to a mapping.
struct MappedStorage : Storage {
  std::shared_ptr<const MappedFile> file;
};

Storage* storage_in(const std::shared_ptr<const MappedFile>& file, const std::uint8_t* bytes, std::size_t size) {
  auto* storage = new MappedStorage;
  storage->device = Device::cpu();
  storage->borrowed = true;
  storage->data = const_cast<std::uint8_t*>(bytes);
  storage->bytes = size;
  storage->file = file;
  storage->free = [](Storage* self) { delete static_cast<MappedStorage*>(self); };
  return storage;
}

std::int64_t count_of(const Type& type) { return static_cast<std::int64_t>(type.shape.element_count()); }

}  // namespace

Tensor tensor_over(const std::shared_ptr<const MappedFile>& file, const std::uint8_t* bytes, const Type& type,
                   Loc loc) {
  const std::size_t size = storage_bytes(type.dtype, count_of(type));
  if (size > 0 && reinterpret_cast<std::uintptr_t>(bytes) % storage_bytes(type.dtype, 1) == 0)
    return make_data(storage_in(file, bytes, size), type, loc);
  Storage* copy = allocate(Device::cpu(), std::max<std::size_t>(size, 1));
  if (size) std::memcpy(copy->data, bytes, size);
  return make_data(copy, type, loc);
}

HostElements::HostElements(const Tensor& value, Loc loc) : value_(value) {
  const Type type = type_of(value);
  if (type.device != Device::cpu()) value_ = to(value, Device::cpu(), loc);
  const Contiguous elements = contiguous(value_, loc);
  storage_ = elements.storage;
  size_ = storage_bytes(type.dtype, count_of(type));
  data_ = static_cast<const std::uint8_t*>(storage_->data) + storage_bytes(type.dtype, elements.offset);
}
HostElements::HostElements(HostElements&& other) noexcept
    : value_(std::move(other.value_)),
      storage_(std::exchange(other.storage_, nullptr)),
      data_(other.data_),
      size_(other.size_) {}
HostElements::~HostElements() {
  if (storage_) release(storage_);
}

}  // namespace weft::io
