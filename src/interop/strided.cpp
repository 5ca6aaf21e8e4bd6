// Foreign memory as the memory of tensors.
#include "weft/interop/strided.hpp"

#include <memory>

#include "base/failed_checks.hpp"
#include "base/storage.hpp"
#include "base/strided_copy.hpp"
#include "record/evaluate.hpp"
#include "record/record.hpp"

namespace weft::detail {
namespace {

struct AdoptedStorage : Storage {
  MemoryOwner owner;
};

// A device may still read the memory: it is waited for, so that the owner can do anything with it.
void give_up(Storage* storage) {
  auto* adopted = static_cast<AdoptedStorage*>(storage);
  if (adopted->device.type != Device::Type::cpu && adopted->queue.load()) try {
      failed_checks.load()->wait(adopted->device);
    } catch (const std::exception&) {  // the driver has failed, and nothing reads it any more
    }
  const MemoryOwner owner = adopted->owner;
  delete adopted;
  owner.drop(owner.object);
}

Type type_of_memory(const char* operation, const StridedMemory& memory, Device device, Loc loc) {
  const Type type{memory.dtype, false, device, memory.shape};
  if (recorder().function())
    fail(operation, loc, "memory of others in a compiled function: make the tensor outside and pass it as an argument");
  for (Dim size : memory.shape)
    if (!size.is_constant() || size.constant() < 0) fail(operation, loc, "the sizes must be known: ", to_string(type));
  check_count(operation, type, loc);
  return type;
}

std::int64_t size_of(const StridedMemory& memory, int axis) { return static_cast<std::int64_t>(memory.shape[axis]); }
struct KnownSizes {
  explicit KnownSizes(const StridedMemory& memory) : rank(static_cast<std::size_t>(memory.shape.rank())) {
    for (int axis = 0; axis < memory.shape.rank(); ++axis) sizes[axis] = size_of(memory, axis);
  }
  operator std::span<const std::int64_t>() const { return {sizes, rank}; }
  std::int64_t sizes[max_rank];
  std::size_t rank;
};
std::span<const std::int64_t> strides_of(const StridedMemory& memory) {
  return {std::data(memory.strides), static_cast<std::size_t>(memory.shape.rank())};
}

// Kernels read the memory of a device 16 bytes at a time.
constexpr std::uintptr_t device_alignment = 16;
Tensor copied_there(const StridedMemory& memory, const Type& type, Loc loc) {
  const std::size_t bytes = storage_bytes(memory.dtype, static_cast<std::int64_t>(memory.shape.element_count()));
  Tensor result = make_data(allocate(type.device, bytes), type, loc);
  const DeviceInterface& device = device_interface(type.device.type);
  device.copy(storage_of(result)->data, type.device, memory.first, type.device, bytes, nullptr);
  device.synchronize(type.device);  // the owner is dropped next
  return result;
}

Tensor copied(const StridedMemory& memory, const Type& type, Loc loc) {
  const auto count = static_cast<std::int64_t>(memory.shape.element_count());
  Storage* copy = allocate(Device::cpu(), std::max<std::size_t>(storage_bytes(memory.dtype, count), 1));
  if (count)
    copy_to_row_major(static_cast<std::uint8_t*>(copy->data), static_cast<const std::uint8_t*>(memory.first),
                      KnownSizes(memory), strides_of(memory), storage_bytes(memory.dtype, 1));
  return make_data(copy, type, loc);
}

}  // namespace

Tensor copy_strided(const char* operation, const StridedMemory& memory, Loc loc) {
  const Operation call(operation, loc);
  return copied(memory, type_of_memory(operation, memory, Device::cpu(), call.loc()), call.loc());
}

Tensor adopt_strided(const char* operation, const StridedMemory& memory, Device device, MemoryOwner owner, Loc loc) {
  const Operation call(operation, loc);
  std::unique_ptr<void, void (*)(void*)> held(owner.object, owner.drop);
  const Type type = type_of_memory(operation, memory, device, call.loc());
  const bool plain = is_row_major(KnownSizes(memory), strides_of(memory)), on_host = device == Device::cpu();
  const std::uintptr_t alignment = on_host ? storage_bytes(memory.dtype, 1) : device_alignment;
  const bool aligned = reinterpret_cast<std::uintptr_t>(memory.first) % alignment == 0;
  bool forward = true;
  std::int64_t extent = 1;
  for (int axis = 0; axis < memory.shape.rank(); ++axis) {
    if (size_of(memory, axis) <= 1) continue;
    forward = forward && memory.strides[axis] >= 0;
    extent += (size_of(memory, axis) - 1) * memory.strides[axis];
  }
  const bool empty = static_cast<std::int64_t>(memory.shape.element_count()) == 0;
  if (!on_host && !plain && !empty)
    fail(operation, call.loc(), to_string(type), " is not in row-major order, which a device's memory must be");
  if (on_host && (empty || !aligned || !forward)) return copied(memory, type, call.loc());
  if (!on_host && !aligned && !empty) return copied_there(memory, type, call.loc());

  auto* storage = new AdoptedStorage;
  storage->device = device;
  storage->borrowed = true;
  storage->data = const_cast<void*>(memory.first);
  storage->bytes = storage_bytes(memory.dtype, empty ? 0 : extent);
  storage->free = give_up;
  storage->owner = owner;
  (void)held.release();
  Tensor result = make_data(storage, type, call.loc());
  if (!plain) {
    auto* layout = new Layout;
    for (int axis = 0; axis < memory.shape.rank(); ++axis)
      layout->strides[axis] = size_of(memory, axis) == 1 ? 0 : memory.strides[axis];
    result.node()->layout = layout;
  }
  return result;
}

StridedMemory checked_strides(const char* operation, const void* from, DType dtype, const Shape& shape,
                              std::span<const std::int64_t> strides, std::size_t count, Loc loc) {
  const Operation call(operation, loc);
  if (static_cast<int>(strides.size()) != shape.rank())
    fail(operation, call.loc(), counted(static_cast<std::int64_t>(strides.size()), "stride", "strides"), " for ",
         counted(shape.rank(), "axis", "axes"));
  StridedMemory memory{from, dtype, shape};
  type_of_memory(operation, memory, Device::cpu(), call.loc());
  __int128 lowest = 0, highest = 0;
  bool empty = false;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    memory.strides[axis] = strides[static_cast<std::size_t>(axis)];
    empty = empty || size_of(memory, axis) == 0;
    (memory.strides[axis] < 0 ? lowest : highest) +=
        static_cast<__int128>(size_of(memory, axis) - 1) * memory.strides[axis];
  }
  if (!empty && (lowest < 0 || highest >= static_cast<__int128>(count)))
    fail(operation, call.loc(), "the strides lead outside of ",
         counted(static_cast<std::int64_t>(count), "element", "elements"));
  return memory;
}

MatrixSize matrix_size(const Tensor& tensor, Loc loc) {
  const Operation call("as_eigen", loc);
  if (!tensor.defined()) fail("as_eigen", call.loc(), "of an undefined tensor");
  if (recorder().trace()) fail("as_eigen", call.loc(), "inside a compiled function there is no memory to show");
  const Type& type = type_of(tensor);
  const int rank = type.shape.rank();
  if (rank != 1 && rank != 2) fail("as_eigen", call.loc(), "takes 1 or 2 axes, not ", to_string(type));
  return {static_cast<std::int64_t>(type.shape[0]), rank == 1 ? 1 : static_cast<std::int64_t>(type.shape[1])};
}

}  // namespace weft::detail
