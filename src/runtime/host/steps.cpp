#include "runtime/host/steps.hpp"

#include <algorithm>
#include <cstring>

#include "runtime/host/argsort.hpp"
#include "runtime/host/scatter.hpp"
#include "runtime/parallel.hpp"
#include "weft/error.hpp"

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

std::size_t HostProduct::workspace(std::span<const std::int64_t> numbers) const {
  return matmul_workspace(product_.product(numbers));
}
void HostProduct::run(const StepCall& call) const {
  const ProductNumbers::Operands at = product_.first(call.pointers, call.numbers);
  matmul(product_.product(call.numbers, at), at.a, at.b, at.c, call.workspace);
}

void HostScatter::run(const StepCall& call) const {
  const std::span<const std::int64_t> size = call.part(sizes_);
  scatter(join_, dtype_, {size[0], size[1], size[2]}, static_cast<const std::int64_t*>(call.pointers[0]),
          call.pointers[1], call.pointers[2]);
}

void HostSort::run(const StepCall& call) const {
  const std::span<const std::int64_t> size = call.part(sizes_);
  argsort(dtype_, {size[0], size[1], size[2], size[3]}, descending_, call.pointers[0],
          static_cast<std::int64_t*>(call.pointers[1]));
}

void HostUpdate::run(const StepCall& call) const {
  const std::span<const std::int64_t> n = call.part(sizes_);
  const std::int64_t outer = n[0], inner = n[1] * element_, whole = n[2] * inner, part = n[3] * inner;
  const auto at = [&](std::size_t i) { return static_cast<std::byte*>(call.pointers[i]) + n[4 + i] * element_; };
  const std::int64_t position = *reinterpret_cast<const std::int64_t*>(static_cast<std::byte*>(call.pointers[2]) +
                                                                       n[6] * std::int64_t{sizeof(std::int64_t)});
  const std::int64_t start = std::clamp<std::int64_t>(position, 0, n[2] - n[3]);
  auto* const result = static_cast<std::byte*>(call.pointers[3]);
  if (at(0) != result && outer * whole > 0) std::memcpy(result, at(0), static_cast<std::size_t>(outer * whole));
  for (std::int64_t i = 0; i < outer && part > 0; ++i)
    std::memcpy(result + i * whole + start * inner, at(1) + i * part, static_cast<std::size_t>(part));
}

std::size_t HostRows::workspace(std::span<const std::int64_t> numbers) const {
  const auto n = numbers.subspan(sizes_.begin);
  return update_rows_workspace(join_, dtype_, {n[0], n[1], n[2], n[3]});
}
void HostRows::run(const StepCall& call) const {
  const std::span<const std::int64_t> n = call.part(sizes_);
  const auto at = [&](std::size_t i, DType dtype) {
    return static_cast<std::byte*>(call.pointers[i]) + static_cast<std::size_t>(n[4 + i]) * storage_bytes(dtype, 1);
  };
  const RowSizes sizes{n[0], n[1], n[2], n[3]};
  struct Copy {
    const std::byte* from;
    std::byte* to;
  } copy{at(0, dtype_), static_cast<std::byte*>(call.pointers[3])};
  constexpr std::int64_t grain = 1 << 18;
  if (copy.from != copy.to)
    parallel_for(
        0, static_cast<std::int64_t>(storage_bytes(dtype_, n[0] * n[1] * n[2])), grain,
        [](void* context, std::int64_t begin, std::int64_t end) {
          const auto& [from, to] = *static_cast<const Copy*>(context);
          std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
        },
        &copy);
  update_rows(join_, dtype_, sizes, at(1, dtype_), reinterpret_cast<const std::int64_t*>(at(2, DType::i64)), copy.to,
              call.workspace);
}

void HostCheck::run(const StepCall& call) const {
  const bool holds = *static_cast<const unsigned char*>(call.pointers[0]) != 0;
  if (!holds) throw Error(message_.c_str());
}

}  // namespace weft::runtime
