// The launch plan: what a specialization replays. In: pointers of arguments and results, the values of size symbols.
// Out: results written. Plain data: functions are named, and what is resolved (functions, the library, what prepare()
// makes) follows from the rest. Running allocates nothing but the arena, which is kept for the next call.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/contraction.hpp"
#include "base/dim_expression.hpp"
#include "base/storage.hpp"
#include "weft/dtype.hpp"

namespace weft {
class Library;
}
namespace weft::runtime::cuda {
class Code;
}

namespace weft::runtime {

using KernelFunction = void (*)(void* const* buffers, const std::int64_t* parameters, std::int64_t begin,
                                std::int64_t end);

struct PlanBuffer {
  enum class Kind : std::uint8_t { argument, result, temporary, constant } kind;
  int index = 0;  // argument, result: which; constant: into Plan::constants
  DType dtype = DType::f32;
  Dim elements = 0;
  Dim offset = 0;     // temporary: bytes into the arena
  bool host = false;  // argument, result: in the host's memory though the plan runs on a device
};

// One step. `buffers` are indices into Plan::buffers, in the order of the kernel's own list.
struct Launch {
  enum class Kind : std::uint8_t { kernel, matmul, scatter_add, check } kind = Kind::kernel;
  std::string name;
  std::vector<int> buffers;
  // kernel
  KernelFunction function = nullptr;  // on the host; on a device it is found by name in the plan's device_code
  Dim units = 1;                      // on a device: blocks
  int threads = 0;                    // on a device: of a block
  std::vector<Dim> parameters;        // the kernel's size slots, over the plan's symbols: what `parameters` points at
  Dim work = 0;                       // estimated nanoseconds on one thread: small steps stay on one
  Contraction matmul;                 // matmul: buffers a, b, c
  // scatter_add: buffers index, updates, result; result[index[i], j] += updates[i, j], result zeroed first
  Dim rows = 0, count = 0, width = 0;
  // check: buffer 0 is one bool; false throws Error with this text
  std::string message;
};

// A plan made ready for its device.
class PreparedPlan {
 public:
  virtual ~PreparedPlan() = default;
  virtual void run(std::span<void* const> arguments, std::span<void* const> results,
                   std::span<const std::int64_t> symbols, Queue* queue, std::span<Storage* const> blocks) = 0;
};

struct Plan {
  Device device;
  std::vector<PlanBuffer> buffers;
  std::vector<Launch> launches;
  int argument_count = 0;
  int result_count = 0;
  int symbol_count = 0;
  Dim arena_bytes = 0;
  std::vector<std::vector<std::byte>> constants;
  struct Donation {
    int argument;  // whose memory
    int result;    // this result may be written into
  };
  std::vector<Donation> donations;
  std::shared_ptr<Library> library;         // where the host's kernels are
  std::shared_ptr<cuda::Code> device_code;  // where the device's are
  std::string source_path;
  std::shared_ptr<PreparedPlan> prepared;  // made by prepare()
};

// Makes the plan ready to run, once everything else in it stands: sizes that are known are computed, the others become
// small programs over the symbols, and arenas are kept for calls to come. Copies of the plan share them.
void prepare(Plan& plan);

// Runs a prepared plan. `arguments[i]` and `results[i]` point at the first element of contiguous (or as-guarded)
// memory. Everything that can fail (checks, memory) comes before the first write into donated memory. Thread-safe:
// each call in flight has its own arena. The work is put on `queue` (null: the device's default), and the plan's own
// memory and `blocks`, those that the pointers look into, note it as their last use; where there is no queue, on the
// CPU by default, there is nothing to note.
void run(const Plan& plan, std::span<void* const> arguments, std::span<void* const> results,
         std::span<const std::int64_t> symbols, Queue* queue = nullptr, std::span<Storage* const> blocks = {});

}  // namespace weft::runtime
