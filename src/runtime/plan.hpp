// The launch plan: what a specialization replays. In: pointers of arguments and results, the values of size symbols.
// Out: results written. Data, but for the payload of each step and what prepare() makes of it. One executor serves all
// devices: it knows memory, sizes and the order of steps, not what a step does (runtime/step.hpp).
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dim_expression.hpp"
#include "base/storage.hpp"
#include "runtime/step.hpp"
#include "weft/dtype.hpp"

namespace weft::runtime {

struct PlanBuffer {
  enum class Kind : std::uint8_t { argument, result, temporary, constant, error } kind;
  int index = 0;  // argument, result: which; constant: into Plan::constants
  DType dtype = DType::f32;
  Dim elements = 0;
  Dim offset = 0;         // temporary: bytes into the arena, or into the result that it lies in
  int in_result = -1;     // temporary: the result in whose memory it lies until that is written; -1: the arena
  bool host = false;      // in the host's memory though the plan runs on a device: argument, result, what is offloaded
  std::string what = {};  // temporary, result: the operation that makes it, with its type and the user's line
  static auto fields(auto& self) {
    return std::tie(self.kind, self.index, self.dtype, self.elements, self.offset, self.in_result, self.host,
                    self.what);
  }
};

// One step. `buffers` are indices into Plan::buffers, in the order in which the step names them.
struct Launch {
  std::string name;
  std::vector<int> buffers;
  EntryPoint entry;
  std::shared_ptr<const Preparable> step;
  std::vector<bool> writes = {};             // by buffer: whether the step writes it; missing entries count as written
  std::vector<std::string> operations = {};  // what it does: an operation each, with the user's line
  DType dtype = DType::f32;                  // in which it computes, where that is a floating one
};

class PlanParts;

struct Plan {
  Device device;                  // of a plan in parts the first
  bool reduces_overhead = false;  // CompileMode::reduce_overhead. Not in the file of a plan
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
    static auto fields(auto& self) { return std::tie(self.argument, self.result); }
  };
  std::vector<Donation> donations;
  // What a call gives a plan whose steps are not believed: they are held against it, for each call's sizes.
  struct Given {
    struct Value {
      DType dtype;
      Dim elements;
    };
    std::vector<Value> arguments, results;
  };
  std::shared_ptr<const Given> given;  // null: the plan was made by this process, or for it alone
  // Arguments that are the same in many calls, ascending: parameters of a model in inference, weights of a package.
  // What steps make of them is kept (runtime/constants.hpp). Not in the file of a plan: who has it prepared says which.
  std::vector<int> constant_arguments;
  std::shared_ptr<const Functions> functions;  // what its steps call; null: none
  std::string source_path;
  std::string title;                             // of the function that it was made for; empty: nobody's
  std::shared_ptr<class PreparedPlan> prepared;  // made by prepare()
  // Of values on several devices: it then has no steps of its own, nor buffers. Not in the file of a plan.
  std::shared_ptr<const PlanParts> parts;
};

// Makes the plan ready to run, once everything else in it is set: steps are made ready, sizes that are known are
// computed, the others become small programs over the symbols, and arenas are kept for calls to come. Copies of the
// plan share all that.
void prepare(Plan& plan);

// Whether no step of a prepared plan that is not believed leaves its memory in a call of these symbols.
bool fits(const Plan& plan, std::span<const std::int64_t> symbols);

// What the steps of a prepared plan want besides its buffers, on as many threads as a parallel loop has now. On the
// host a workspace lies where nothing else is while its step runs: what the arena grows by. On a device: what the most
// demanding step wants.
std::size_t workspace_bytes(const Plan& plan, std::span<const std::int64_t> symbols);

// The values of a plan's constant arguments in a call.
struct ConstantKeys {
  // By Plan::constant_arguments. Values of equal keys are equal, as long as somebody has what hold() gave for one of
  // them. Empty: nobody knows, and nothing is kept.
  std::span<const void* const> keys = {};
  std::shared_ptr<const void> (*hold)(const void* context, std::size_t index) = nullptr;
  const void* context = nullptr;
};

// Bytes of what a prepared plan keeps of its constant arguments, shared with other plans or not.
std::size_t kept_bytes(const Plan& plan);

// Runs a prepared plan, or one in parts. `arguments[i]` and `results[i]` point at the first element of contiguous (or
// as-guarded) memory. A result that takes no argument's memory has memory of its own, in which anything may lie until
// it is written. Everything that can fail (checks, memory) comes before the first write into donated memory.
// Thread-safe: each call in flight has its own arena. The work is put on `queue` (null: the device's default), and the
// plan's own memory and `blocks`, those that the pointers look into, note it as their last use; where there is no
// queue, on the CPU by default, there is nothing to note. On a device `checks_wait` says that a check which fails is
// thrown when somebody waits for the device: results are then undefined, and memory that was donated holds what it
// held.
void run(const Plan& plan, std::span<void* const> arguments, std::span<void* const> results,
         std::span<const std::int64_t> symbols, Queue* queue = nullptr, std::span<Storage* const> blocks = {},
         bool checks_wait = false, const ConstantKeys& constants = {});

// A call that has all of its memory, and has run no step: what one call takes of several plans is there before the
// first of them writes. Its checks do not wait for who waits for the device: one that fails is thrown by run().
class BegunCall {
 public:
  virtual ~BegunCall() = default;
  virtual void run(std::span<void* const> arguments, std::span<void* const> results,
                   std::span<Storage* const> blocks) = 0;
};
// `arena`: memory of arena_bytes() on the plan's device that is the plan's until the call's work is done; null: it has
// its own.
std::unique_ptr<BegunCall> begin(const Plan& plan, std::span<const std::int64_t> symbols, std::byte* arena);
std::size_t arena_bytes(const Plan& plan, std::span<const std::int64_t> symbols);

}  // namespace weft::runtime
