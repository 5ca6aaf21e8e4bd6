// What a scalar expression is to the library: plain data, made at compile time by weft/expr.hpp. In: rows of
// weft/ops.def over arguments and literals. Out: nothing; it is read. Invariant: an entry's operands come before it,
// and the first `argument_count` entries are the arguments.
#pragma once
#include <cstdint>

#include "weft/dtype.hpp"

namespace weft {
namespace detail {

enum class ScalarOp : std::uint8_t {
#define WEFT_POINTWISE(name, ...) name,
#include "weft/ops.def"
  argument,
  literal,
};

// Numbers share one dtype, which the operands' promotion gives. Unknown: & | ^ ~ of arguments alone, which may be bools
// or integers.
enum class ScalarKind : std::uint8_t { unknown, boolean, number };

// Primitives that round to the same bits on every ISA: those whose lanes have no error of their own.
constexpr bool rounds_alike(ScalarOp op) {
  enum Rounding { exact, once, several };
  constexpr Rounding table[] = {
#define WEFT_POINTWISE(name, arity, dtypes, rounding, ...) rounding,
#include "weft/ops.def"
  };
  return op == ScalarOp::argument || op == ScalarOp::literal || table[static_cast<int>(op)] != several;
}

struct ScalarEntry {
  ScalarOp op = ScalarOp::argument;
  ScalarKind kind = ScalarKind::unknown;
  DTypeKind literal =
      DTypeKind::floating;  // which of the two numbers below holds a literal; bools are integers 0 and 1
  std::uint16_t operands[3] = {};
  double number = 0;
  std::int64_t integer = 0;
};

// Memory that a kernel reads: `step` elements further for each vector of 16, or 0 for one vector of equal values.
struct ScalarOperand {
  const void* data;
  std::int64_t step;
};
using ScalarKernel = void (*)(void* const* results, const ScalarOperand* operands, std::int64_t vectors);

inline constexpr int max_scalar_arguments = 16;  // of what a user writes, as are results
inline constexpr int max_scalar_results = 48;    // of derivatives too: a gradient has one for each argument

}  // namespace detail

struct ElementwiseDefinition {
  const detail::ScalarEntry* entries = nullptr;
  int entry_count = 0;
  int argument_count = 0;
  int result_count = 0;
  std::uint16_t results[detail::max_scalar_results] = {};
  bool typed = true;  // every kind is known and no integer is needed: it runs on lanes of f32 or f64
  // One pass over memory by the host compiler's code, for the ISA (0 baseline, 1 AVX2, 2 AVX-512) that its file was
  // compiled for; null where the expression was made at run time. Results are those of the functions on tensors, to the
  // last bit: where the CPU's ISA is wider, and the expression is not `alike` on all of them, and where these are null,
  // the library's own kernels run it block by block.
  detail::ScalarKernel f32 = nullptr, f64 = nullptr;
  int isa = 0;
  bool alike = false;
  // Of arguments, then one gradient for each number among the results, to one gradient for each number among the
  // arguments. Null: made when it is asked for (derivatives of derivatives).
  const ElementwiseDefinition* gradient = nullptr;

  bool is_number(int entry) const { return entries[entry].kind != detail::ScalarKind::boolean; }
};

}  // namespace weft
