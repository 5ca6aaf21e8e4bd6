// The loop IR: one kernel as a loop nest whose body is a function of indices. In: a fused group of graph nodes
// (schedule/lower). Out: what every handler reads: the C++ and CUDA generators, the byte and operation counts, the
// text.
//
// A kernel runs over axes. Outer axes are independent of each other; inner axes are walked in order inside one outer
// point, and a reduction is over all inner axes. One axis is vectorized: the last inner axis (rows) or the last outer
// axis (pointwise, columns). Instructions are in SSA form, operands first; each has a level: `once` depends on no axis,
// `outer` on outer axes (or on reductions), `inner` on inner axes. A reduction's operand is inner, its result outer;
// `phase` counts the reductions that must be complete before the instruction can run (softmax: max is phase 0, the sum
// of exp phase 1, the quotient phase 2). An inner value that a later phase needs is computed again there, or reloaded.
// A scan is an inner value: each phase walks the inner axes in order.
//
// Stores are the only effects. Every element of an output is written exactly once. Buffers may alias only as the memory
// plan says: an output may be the same memory as an input that is read at the same index in the same phase or before.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/dim_expression.hpp"
#include "ir/table.hpp"

namespace weft::loop {

enum class Kind : std::uint8_t {
  constant,     // bits
  index,        // the integer value of an index expression, as i64
  test,         // whether 0 <= index, a bool
  load,         // buffer[index]; with a predicate, the bool args[0]: 0 where that is false. No memory is touched there,
                // so the index need be in range only where it is true
  apply,        // a pointwise primitive on args
  cast,         // args[0] to dtype
  bitcast,      // args[0]'s bits as dtype
  random_bits,  // args: seed, offset (i64); index: the element; result u32 bits as i64 in [0, 2^32)
  reduce,  // sum, prod, amax, amin or argmax of args[0] over the inner axes; argmax also reads `index` (the position)
  scan,    // sum, prod, amax, amin or logcumsumexp of args[0] over the points of the inner axes up to this one, after
           // args[1] where there is one: what is before a row's chunk, in the type of totals (loop/scan_parts.hpp)
  store,   // buffer[index] = args[0]
};

enum class Level : std::uint8_t { once, outer, inner };

// The most columns that lie on the lanes row after row (Axis::narrow).
inline constexpr std::int64_t narrow_columns = 8;

// The rows over which lanes may run without another order of additions (ReductionKind::short_row).
inline constexpr std::int64_t short_row_length = 8;

// What a reduction adds up, over which axes and in which order. Its axes follow from the kind: the carried ones of
// over_carried, else the inner ones.
enum class ReductionKind : std::uint8_t {
  whole,         // args[0] over the inner axes, in the order of include/weft/detail/reduce.inc
  over_carried,  // args[0] over the carried axes; its result is inner
  join,          // partial results of a reduction that was cut, in order (loop/stages.hpp)
  short_row,     // in the order of a row, of at most short_row_length elements, though the lanes run over the rows
  online,        // sum of exp(args[0] - args[1]), times args[2] where there is one, in the walk that finds args[1], the
                 // amax of args[0]
  product,       // sum of args[0] * args[1] in the order of the one inner axis, each term added with one rounding where
                 // the machine can; args[0] differs from row to row, args[1] from lane to lane, and the kernel reduces
                 // nothing else
};

struct Instruction {
  Kind kind = Kind::constant;
  Op op = Op::data;          // apply, reduce, scan
  DType dtype = DType::f32;  // of the result; store: of the value
  Level level = Level::once;
  std::uint16_t phase = 0;
  std::int32_t args[3] = {-1, -1, -1};
  std::int32_t buffer = -1;  // load, store: index into Kernel::buffers
  Dim index = 0;             // linear element offset over dims::axis(a, extent) and dims::value(i, extent), where
                             // value i is the result of instruction i (an i64, already known to be in range)
  std::uint64_t bits = 0;    // constant: a double for floating dtypes, else an int64
  ReductionKind reduction = ReductionKind::whole;  // reduce
  bool is(ReductionKind of) const { return reduction == of; }
};

struct Axis {
  Dim extent;
  bool inner = false;
  bool carried = false;  // outer, but walked in order by one unit: reductions over it stay in that unit
  bool narrow = false;  // outer, of narrow_columns points at most, all of them in one unit: the vector axis is the last
                        // inner axis with this one fastest, and reductions keep its points apart (loop/narrow.hpp)
};

struct Buffer {
  DType dtype;
  bool written = false;
  std::int32_t value = -1;  // the plan's buffer
  Dim elements = 0;
  bool steady = false;  // the step in front of this one does not write it: a device may read it while that still runs
};

struct Kernel {
  std::string name;        // softmax_sum: from scopes and primitives, letters, digits and _ only; the pipeline
                           // makes it a unique symbol, weft_k0_softmax_sum
  std::vector<Axis> axes;  // outer axes, then inner axes (Kernel::vector_axis may be an outer one)
  int vector_axis = -1;    // -1: a kernel of one element
  std::vector<Instruction> body;
  std::vector<Buffer> buffers;
  int predicate = -1;           // a buffer of one i32: where it is not 0 the kernel stores nothing
  std::vector<Dim> parameters;  // its size slots: symbol i in this kernel's expressions is slot i, whose value is
                                // parameters[i] over the graph's symbols. Kernels that differ in sizes only can
                                // so share one text.
  bool small = false;           // the bounds of its sizes keep every index in 32 bits, which a device's loops then have
  std::vector<std::string> comments;          // what was fused, with the user's lines (file names and numbers only)
  std::shared_ptr<const std::string> shared;  // its shared_text() where that is known

  Dim outer_count() const;  // product of outer extents
  Dim inner_count() const;
  int narrow_axis() const;  // -1: none
};

// The unit of work that the plan's driver distributes. Units run over the outer axes without the vector axis; where the
// vector axis is outer, each unit is further cut into blocks of `block` elements of it. A kernel is called as
//   extern "C" void name(void* const* buffers, const std::int64_t* parameters, std::int64_t begin, std::int64_t end)
// for units begin <= u < end: u = row * blocks + block_index.
inline constexpr std::int64_t block = 4096, column_block = 128;
std::int64_t block_of(const Kernel& kernel);  // column_block where there are inner axes: columns are few, rows are many
Dim unit_count(const Kernel& kernel);

// Bytes moved and operations done by the whole kernel, over symbolic sizes: the counting handler.
struct Cost {
  Dim bytes = 0;
  Dim operations = 0;
};
Cost cost(const Kernel& kernel);
// An expression over the kernel's size slots, over the graph's symbols.
Dim over_symbols(Dim dim, const Kernel& kernel);
// Every load of `argument` happens at the index where `result` is stored, and before that store, or somewhere in a row
// that is stored after a reduction over it: they may be one memory. Both are the plan's buffers.
bool may_overwrite(const Kernel& kernel, int argument, int result);
// The operand is a result of the walk in which the instruction is accumulated, not one before it.
bool is_found_beside(const Instruction& instruction, std::int32_t operand);
int weight(const Instruction& instruction);  // one evaluation, against an addition

// The kernel over other axes: axis number a becomes replacement[a] in every index.
void replace_axes(Kernel& kernel, std::vector<Axis> axes, const std::vector<Dim>& replacement);
// Keeps the instructions that `keep` names and what they need; renumbers them and the buffers.
void keep_only(Kernel& kernel, const std::vector<bool>& keep);
// Gives every instruction its level and phase.
void settle(Kernel& kernel);

// A reduction in a kernel's text: a word before the primitive's name and one after it. A product is named by its word
// alone.
struct ReductionWords {
  ReductionKind kind;
  std::string_view before, after;
};
inline constexpr ReductionWords reduction_words[] = {{ReductionKind::over_carried, "reduce_", "_of_rows"},
                                                     {ReductionKind::short_row, "reduce_", "_of_short_row"},
                                                     {ReductionKind::whole, "reduce_", ""},
                                                     {ReductionKind::join, "join_", ""},
                                                     {ReductionKind::online, "online_", ""},
                                                     {ReductionKind::product, "product", ""}};

void verify(const Kernel& kernel);
std::string to_text(const Kernel& kernel);
// The same for kernels of which one function serves all: their names, slots and buffers' sizes are left out.
std::string shared_text(const Kernel& kernel);

}  // namespace weft::loop
