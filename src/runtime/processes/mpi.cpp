// A group over MPI: Open MPI's library, found by dlopen: nothing links it, none of its headers is needed. It is what
// mpirun has started, and mpirun ends the others where one process dies.
#include <dlfcn.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstring>
#include <thread>

#include "base/fail.hpp"
#include "base/fork.hpp"
#include "base/hash.hpp"
#include "runtime/processes/process_group.hpp"
#include "runtime/processes/sum.hpp"

namespace weft::runtime {

namespace {

// Handles are addresses of the library's objects.
using Handle = void*;
constexpr int serialized = 2;                                       // MPI_THREAD_SERIALIZED
void* const in_place = reinterpret_cast<void*>(std::uintptr_t{1});  // MPI_IN_PLACE
constexpr std::int64_t most_elements = INT_MAX / 2;                 // of one call: counts are ints

struct Mpi {
  int (*MPI_Initialized)(int* flag);
  int (*MPI_Init_thread)(int* count, char*** arguments, int wanted, int* given);
  int (*MPI_Query_thread)(int* given);
  int (*MPI_Finalized)(int* flag);
  int (*MPI_Finalize)();
  int (*MPI_Abort)(Handle group, int status);
  int (*MPI_Allreduce)(const void* from, void* to, int count, Handle type, Handle operation, Handle group);
  int (*MPI_Iallreduce)(const void* from, void* to, int count, Handle type, Handle operation, Handle group,
                        Handle* request);
  int (*MPI_Wait)(Handle* request, void* status);
  int (*MPI_Test)(Handle* request, int* is_done, void* status);
  int (*MPI_Bcast)(void* data, int count, Handle type, int root, Handle group);
  int (*MPI_Allgather)(const void* from, int count, Handle type, void* to, int each, Handle to_type, Handle group);
  int (*MPI_Reduce_scatter_block)(const void* from, void* to, int count, Handle type, Handle operation, Handle group);
  Handle world, byte, u64, sum, least;
  Handle types[dtype_count];  // null: none that it adds
};

Mpi load() {
  const std::lock_guard no_fork(process_mutex(LockOrder::loader));
  void* const handle = dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL);  // its own modules look for its names
  if (!handle)
    fail("distributed::init", {}, "mpirun has started this process, and the library libmpi.so.40 was not found");
  Mpi mpi{};
  const auto read = [&](const char* name, auto& place) {
    void* const address = dlsym(handle, name);
    if (!address) fail("distributed::init", {}, "libmpi.so.40 has no ", name);
    std::memcpy(&place, &address, sizeof address);
  };
#define WEFT_READ(name) read(#name, mpi.name)
  WEFT_READ(MPI_Initialized);
  WEFT_READ(MPI_Init_thread);
  WEFT_READ(MPI_Query_thread);
  WEFT_READ(MPI_Finalized);
  WEFT_READ(MPI_Finalize);
  WEFT_READ(MPI_Abort);
  WEFT_READ(MPI_Allreduce);
  WEFT_READ(MPI_Iallreduce);
  WEFT_READ(MPI_Wait);
  WEFT_READ(MPI_Test);
  WEFT_READ(MPI_Bcast);
  WEFT_READ(MPI_Allgather);
  WEFT_READ(MPI_Reduce_scatter_block);
#undef WEFT_READ
  read("ompi_mpi_comm_world", mpi.world);
  read("ompi_mpi_byte", mpi.byte);
  read("ompi_mpi_uint64_t", mpi.u64);
  read("ompi_mpi_op_sum", mpi.sum);
  read("ompi_mpi_op_min", mpi.least);
  const auto type = [&](DType dtype, const char* name) { read(name, mpi.types[static_cast<int>(dtype)]); };
  type(DType::f32, "ompi_mpi_float");
  type(DType::f64, "ompi_mpi_double");
  type(DType::u8, "ompi_mpi_uint8_t");
  type(DType::i8, "ompi_mpi_int8_t");
  type(DType::i16, "ompi_mpi_int16_t");
  type(DType::u16, "ompi_mpi_uint16_t");
  type(DType::i32, "ompi_mpi_int32_t");
  type(DType::u32, "ompi_mpi_uint32_t");
  type(DType::i64, "ompi_mpi_int64_t");
  return mpi;
}

class MpiGroup;
MpiGroup* ends_with_process = nullptr;

class MpiGroup final : public ProcessGroup {
 public:
  explicit MpiGroup(const Member& own) : ProcessGroup(own), mpi_(load()) {
    int is_there = 0, given = 0;
    mpi_.MPI_Initialized(&is_there);
    if (is_there)
      mpi_.MPI_Query_thread(&given);  // the program's own, which also ends it
    else
      mpi_.MPI_Init_thread(nullptr, nullptr, serialized, &given);
    if (given < serialized) {
      if (!is_there) mpi_.MPI_Finalize();
      fail("distributed::init", {}, "collectives need MPI_THREAD_SERIALIZED, and MPI was initialized with ",
           given == 0 ? "MPI_THREAD_SINGLE" : "MPI_THREAD_FUNNELED",
           is_there ? ": call MPI_Init_thread, not MPI_Init" : ", which is all that this MPI allows");
    }
    if (is_there) return;
    ends_with_process = this;
    at_end([](int status) { ends_with_process->end(status); });
  }

 protected:
  void carry_out(const CollectiveOperation& what, std::int64_t count, const void* from, void* to,
                 const std::string& text) override {
    using Kind = CollectiveOperation::Kind;
    compare(text);
    const std::size_t element = storage_bytes(what.dtype, 1);
    const auto at = [&](const void* data, std::int64_t first) {
      return static_cast<std::byte*>(const_cast<void*>(data)) + static_cast<std::size_t>(first) * element;
    };
    const auto bytes = [&](std::int64_t elements) { return static_cast<int>(elements * static_cast<int>(element)); };
    const std::int64_t part = most_elements / static_cast<std::int64_t>(element);  // of one call
    const Handle type = mpi_.types[static_cast<int>(what.dtype)];
    const bool adds = what.kind != Kind::broadcast && what.kind != Kind::all_gather;
    if (what.kind == Kind::all_gather || what.kind == Kind::reduce_scatter || (adds && !type)) {
      if (count > part / what.processes)
        fail("distributed", {}, text, " is more than one call of MPI takes: cut it into parts");
    }
    if (adds && !type) return add_gathered(what, count, from, to);
    switch (what.kind) {
      case Kind::all_reduce:
      case Kind::reduce_to_root:
        for (std::int64_t i = 0; i < count; i += part)
          mpi_.MPI_Allreduce(from == to ? in_place : at(from, i), at(to, i),
                             static_cast<int>(std::min(part, count - i)), type, mpi_.sum, mpi_.world);
        break;
      case Kind::broadcast:
        if (from != to && own().rank == what.root) std::memcpy(to, from, static_cast<std::size_t>(count) * element);
        for (std::int64_t i = 0; i < count; i += part)
          mpi_.MPI_Bcast(at(to, i), bytes(std::min(part, count - i)), mpi_.byte, what.root, mpi_.world);
        break;
      case Kind::all_gather:
        mpi_.MPI_Allgather(from, bytes(count), mpi_.byte, to, bytes(count), mpi_.byte, mpi_.world);
        break;
      case Kind::reduce_scatter:
        mpi_.MPI_Reduce_scatter_block(from, to, static_cast<int>(count / what.processes), type, mpi_.sum, mpi_.world);
        break;
    }
    if (what.kind == Kind::reduce_to_root && own().rank != what.root)
      std::memset(to, 0, static_cast<std::size_t>(count) * element);
  }
  std::vector<std::string> gather(const std::string& given, const std::string& text,
                                  std::chrono::seconds longest) override {
    compare(text, longest);
    return gathered(given);
  }

 private:
  // Sums of dtypes that MPI does not know.
  void add_gathered(const CollectiveOperation& what, std::int64_t count, const void* from, void* to) {
    using Kind = CollectiveOperation::Kind;
    const std::size_t bytes = storage_bytes(what.dtype, count);
    std::vector<std::byte> all(bytes * static_cast<std::size_t>(what.processes));
    mpi_.MPI_Allgather(from, static_cast<int>(bytes), mpi_.byte, all.data(), static_cast<int>(bytes), mpi_.byte,
                       mpi_.world);
    const bool scatters = what.kind == Kind::reduce_scatter;
    const std::int64_t own_count = what.result_count(count);
    const std::size_t first =
        scatters ? storage_bytes(what.dtype, own_count) * static_cast<std::size_t>(own().rank) : 0;
    std::vector<const void*> parts;
    for (int rank = 0; rank < what.processes; ++rank)
      parts.push_back(all.data() + static_cast<std::size_t>(rank) * bytes + first);
    if (what.kind == Kind::reduce_to_root && own().rank != what.root)
      std::memset(to, 0, bytes);
    else
      sum_in_order(what.dtype, own_count, parts, to);
  }

  std::vector<std::string> gathered(const std::string& text) {
    const auto size = static_cast<std::size_t>(own().size);
    const std::uint64_t bytes = text.size();
    std::vector<std::uint64_t> lengths(size);
    mpi_.MPI_Allgather(&bytes, sizeof bytes, mpi_.byte, lengths.data(), sizeof bytes, mpi_.byte, mpi_.world);
    const std::uint64_t longest = std::ranges::max(lengths);
    std::string padded = text, all(longest * size, '\0');
    padded.resize(longest);
    mpi_.MPI_Allgather(padded.data(), static_cast<int>(longest), mpi_.byte, all.data(), static_cast<int>(longest),
                       mpi_.byte, mpi_.world);
    std::vector<std::string> texts;
    for (std::size_t rank = 0; rank < size; ++rank) texts.push_back(all.substr(rank * longest, lengths[rank]));
    return texts;
  }
  // Before each collective: the least and the greatest digest of what the processes are about to do are the same.
  void compare(const std::string& text, std::chrono::seconds longest = std::chrono::seconds(0)) {
    const std::uint64_t here = digest(text).low;
    bounds_[0] = here, bounds_[1] = ~here;
    Handle request =
        nullptr;  // also where nobody may be late: calls of MPI that wait and those that do not never match
    mpi_.MPI_Iallreduce(in_place, bounds_, 2, mpi_.u64, mpi_.least, mpi_.world, &request);
    if (longest.count() == 0)
      mpi_.MPI_Wait(&request, nullptr);
    else
      wait_at_most(longest, request, text);
    if (bounds_[0] == here && bounds_[1] == ~here) return;
    throw_difference(gathered(text));
  }
  void wait_at_most(std::chrono::seconds longest, Handle request, const std::string& text) {
    const auto until = std::chrono::steady_clock::now() + longest;
    for (int is_done = 0; mpi_.MPI_Test(&request, &is_done, nullptr), !is_done;) {
      if (std::chrono::steady_clock::now() >= until) {
        was_late_ = true;
        fail("distributed", {}, late("a process", text, longest));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  // A process that ends while others still want something of it is at this, and they are told.
  void end(int status) {
    int is_over = 0;
    mpi_.MPI_Finalized(&is_over);
    if (is_over) return;
    try {
      if (status == 0 && !was_late_) {
        compare("the end of the program");
        mpi_.MPI_Finalize();
        return;
      }
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    std::this_thread::sleep_for(std::chrono::seconds(1));  // the others say what they were told
    mpi_.MPI_Abort(mpi_.world, status != 0 ? status : 1);
  }

  const Mpi mpi_;
  std::uint64_t bounds_[2] = {};  // of compare(); MPI may write it after a process was late
  bool was_late_ = false;         // nothing else can be done then, nor waited for at the end
};

}  // namespace

std::unique_ptr<ProcessGroup> join_by_mpi(const Member& own) { return std::make_unique<MpiGroup>(own); }

}  // namespace weft::runtime
