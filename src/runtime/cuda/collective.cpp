#include "runtime/cuda/collective.hpp"

#include <cstring>
#include <mutex>

#include "base/fail.hpp"
#include "base/lazy.hpp"
#include "runtime/cuda/device.hpp"
#include "runtime/processes/process_group.hpp"

namespace weft::runtime::cuda {

namespace {

using Kind = CollectiveOperation::Kind;

constexpr int sum = 0;       // ncclSum
constexpr int as_bytes = 1;  // ncclUint8
// Numbers of nccl.h; as_bytes: none that it adds.
int type_of(DType dtype) {
  switch (dtype) {
    case DType::i8: return 0;
    case DType::u8: return 1;
    case DType::i32: return 2;
    case DType::u32: return 3;
    case DType::i64: return 4;
    case DType::f16: return 6;
    case DType::f32: return 7;
    case DType::f64: return 8;
    case DType::bf16: return 9;
    default: return as_bytes;
  }
}
bool adds(Kind kind) { return kind != Kind::broadcast && kind != Kind::all_gather; }

// The communicator of a device with those of the other processes. Made by the first collective that runs there, which
// is the same one in every process: they exchange what NCCL needs by the group's own way. It ends with the process.
NcclCommunicator* communicator(DeviceState& device) {
  struct Made {
    std::mutex mutex;
    int device = -1;
    NcclCommunicator* one = nullptr;
  };
  static constinit Lazy<Made> all;
  Made& made = all.get();
  const std::lock_guard lock(made.mutex);
  if (made.one && made.device == device.device.index) return made.one;
  if (made.one)
    fail("distributed", {},
         "a process takes part in collectives with one device: this one does so with cuda:", made.device,
         ", and now with cuda:", static_cast<int>(device.device.index));
  ProcessGroup& group = *process_group();
  NcclId id{};
  if (group.own().rank == 0) check_nccl(nccl().ncclGetUniqueId(&id), "ncclGetUniqueId");
  const std::string from_root =
      group.exchange(std::string(id.bytes, group.own().rank == 0 ? sizeof id.bytes : 0), "the start of NCCL")[0];
  std::memcpy(id.bytes, from_root.data(), sizeof id.bytes);
  use(device.device);
  group.watch();  // who waits for a device does not see that another process dies
  check_nccl(nccl().ncclCommInitRank(&made.one, group.own().size, id, group.own().rank), "ncclCommInitRank");
  made.device = device.device.index;
  return made.one;
}

}  // namespace

DeviceCollective::DeviceCollective(const CollectiveOperation& what, Dim count, Dim offset,
                                   const Preparation& preparation)
    : what_(what), device_(use(preparation.device)), numbers_(preparation.numbers.add({count, offset})) {
  nccl();
  if (adds(what.kind) && type_of(what.dtype) == as_bytes && what.dtype != DType::u8)
    fail("distributed", {}, "NCCL has no sums of ", info(what.dtype).name, ": cast to i32");
}

std::vector<std::string> DeviceCollective::collectives(std::span<const std::int64_t> numbers) const {
  return {describe(what_, numbers[numbers_.begin])};
}
void DeviceCollective::run(const StepCall& call) const {
  group_of(what_.processes);
  NcclCommunicator* const group = communicator(device_);
  const std::int64_t elements = call.part(numbers_)[0], offset = call.part(numbers_)[1];
  const auto* const from = static_cast<const std::byte*>(call.pointers[0]) + storage_bytes(what_.dtype, offset);
  void* const to = call.pointers[1];
  Stream* const stream = call.queue->stream;
  const std::size_t bytes = storage_bytes(what_.dtype, elements);
  const auto count = static_cast<std::size_t>(elements);
  const int type = type_of(what_.dtype);
  const Nccl& library = nccl();
  switch (what_.kind) {
    case Kind::all_reduce:
      return check_nccl(library.ncclAllReduce(from, to, count, type, sum, group, stream), "ncclAllReduce");
    case Kind::broadcast:
      return check_nccl(library.ncclBroadcast(from, to, bytes, as_bytes, what_.root, group, stream), "ncclBroadcast");
    case Kind::all_gather:
      return check_nccl(library.ncclAllGather(from, to, bytes, as_bytes, group, stream), "ncclAllGather");
    case Kind::reduce_scatter:
      return check_nccl(library.ncclReduceScatter(from, to, count / static_cast<std::size_t>(what_.processes), type,
                                                  sum, group, stream),
                        "ncclReduceScatter");
    case Kind::reduce_to_root:
      check_nccl(library.ncclReduce(from, to, count, type, sum, what_.root, group, stream), "ncclReduce");
      if (process_group()->own().rank != what_.root && bytes > 0)
        check(driver().cuMemsetD8Async(reinterpret_cast<Pointer>(to), 0, bytes, stream), "cuMemsetD8Async");
      return;
  }
}

}  // namespace weft::runtime::cuda
