#include "runtime/host/steps.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "base/member_count.hpp"
#include "runtime/parallel.hpp"
#include "runtime/steps.hpp"

namespace weft::runtime {

namespace {
// Estimated nanoseconds that a piece of a parallel loop must be worth. Opening a region costs 0.6 us while the threads
// are awake (docs/decisions/0001-compiler-driving.md).
constexpr std::int64_t piece_work = 8000;
}  // namespace

HostKernel::HostKernel(KernelFunction function, const Preparation& preparation, Dim work,
                       std::span<const Dim> parameters)
    : function_(function),
      units_(preparation.numbers.add({preparation.entry.units})),
      work_(preparation.numbers.add({work})),
      parameters_(preparation.numbers.add(parameters)) {}

void HostKernel::run(const StepCall& call) const {
  struct Piece {
    KernelFunction function;
    void* const* buffers;
    const std::int64_t* parameters;
  } piece{function_, call.pointers, call.numbers.data() + parameters_.begin};
  const std::int64_t units = call.numbers[units_.begin], work = call.numbers[work_.begin];
  if (units <= 0) return;
  if (work < 2 * piece_work || units == 1) return function_(piece.buffers, piece.parameters, 0, units);
  const std::int64_t grain = std::max<std::int64_t>(1, units / (work / piece_work));
  parallel_for(
      0, units, grain,
      [](void* context, std::int64_t begin, std::int64_t end) {
        const Piece& it = *static_cast<const Piece*>(context);
        it.function(it.buffers, it.parameters, begin, end);
      },
      &piece);
}

static_assert(lists_all<KernelFields> && lists_all<StepCost>, "a member is not in fields()");

std::unique_ptr<Runnable> StoredKernel::prepare(const Preparation& preparation) const {
  WEFT_CHECK(preparation.function(), "kernel ", preparation.entry.name, " has not been compiled");
  // On one thread 8 bytes or 8 simple operations of a vector kernel take a nanosecond.
  const Dim nanoseconds = what.cost.bytes / Dim(8) + what.cost.operations / Dim(8);
  return std::make_unique<HostKernel>(reinterpret_cast<KernelFunction>(preparation.function()), preparation,
                                      nanoseconds, what.parameters[0]);
}

const NamedStep steps::kernel{StoredKernel::name, StoredKernel::read};

}  // namespace weft::runtime
