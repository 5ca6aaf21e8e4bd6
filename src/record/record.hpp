// Recording: every operation of the public headers ends here. In: a primitive, operands, attributes, the user's line.
// Out: a node of the thread's current trace, or of the eager graph (trace 0). Checks that operands belong to the trace,
// infers the type, and bounds what is pending outside a trace. Recording never merges nodes.
#pragma once
#include <algorithm>
#include <optional>
#include <unordered_map>

#include "base/fail.hpp"
#include "ir/builder.hpp"
#include "ir/callee.hpp"
#include "weft/ops.hpp"

namespace weft {

// Callees by signature, as words (record/composite.hpp).
struct CalleeKeyHash {
  using is_transparent = void;
  std::size_t operator()(std::span<const std::uint64_t> words) const;
};
struct CalleeKeyEqual {
  using is_transparent = void;
  bool operator()(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b) const;
};
using CalleeTable =
    std::unordered_map<std::vector<std::uint64_t>, std::shared_ptr<const Callee>, CalleeKeyHash, CalleeKeyEqual>;

enum class Asked : std::uint8_t;  // record/host_values.hpp

// Answers for a trace whose function reads values. The trace tells it what is recorded.
class Decider {
 public:
  // What the value of one element is. Throws where it is no integer of 64 bits and one is asked for.
  virtual std::int64_t decide(const Tensor& value, Asked asked, Loc loc) = 0;
  // It in this call, outside the trace.
  virtual Tensor value(const Tensor& value, Loc loc) = 0;
  // Memory of the host has become a tensor of the trace: of the same contents in each call, or only of the same type.
  virtual void constant_data(const Tensor& tensor) = 0;
  virtual void host_data(const Tensor& tensor, const char* operation, Loc loc) = 0;
  // The same, of a tensor outside the trace whose first size depends on values: a symbol takes its place.
  virtual Tensor counted_data(const Tensor& tensor, Loc loc) = 0;
  virtual void before_record() = 0;  // an operation is about to be recorded in the trace
  virtual void recorded(const Tensor& value) = 0;

 protected:
  ~Decider() = default;
};

// What is recorded while a compiled function is traced. compile() (src/trace) owns one for the call that traces.
struct Trace {
  std::uint32_t id = 0;  // never 0; unique in the process
  DimEnvironment dims;
  std::vector<Tensor> inputs;   // Op::input nodes by slot
  std::vector<Tensor> effects;  // checks, in program order
  std::uint64_t recorded = 0;   // number of operations so far
  Decider* decider = nullptr;   // null where values can't be read: also in the body of a loop
  // By handle: values of which a computed size is 1, with the number 1 in its place. Later uses take these.
  std::unordered_map<std::uint64_t, Tensor> plain_ones;
  CalleeTable callees;  // of symbolic sizes
  // The default generator, made a hidden state leaf at its first draw: its input and its current value.
  Tensor generator_input, generator_value;

  std::unordered_map<std::uint32_t, std::uint32_t> region_uses = {};  // so far, by the name of the region (interned)

  // Of the body of a loop (record/loops.hpp). A value of the traces around it that the body uses becomes an input of
  // the body: here by handle, and in the order of first use.
  bool is_loop = false;
  std::unordered_map<std::uint64_t, Tensor> inputs_of_captured;
  std::vector<Tensor> captured;
  // A generator that the body draws from: where its state is kept, what that was before, and the body's input for it.
  struct GeneratorUse {
    Tensor* state;
    Tensor before, input;
  };
  std::vector<GeneratorUse> generators;
};

// State of the thread: a stack of traces (compiled functions nest), the outermost user location, the composite's scope,
// the use of a region, and where the outermost differentiation level began. The guards below restore it, also when an
// exception passes.
struct Recorder {
  std::vector<Trace*> traces;
  Loc loc;  // of the outermost Weft call; file null: none
  std::uint32_t scope = 0;
  std::uint32_t region = 0;                // Node::region of what is recorded
  bool in_body = false;                    // what is recorded is the body of a call
  DType autocast = DType::f32;             // of the innermost scope of weft/autocast.hpp; f32: none
  std::uint64_t level_start = UINT64_MAX;  // sequence number at which the outermost open differentiation level began:
                                           // nodes recorded since then keep their operands when evaluated
  Trace* trace() const { return traces.empty() ? nullptr : traces.back(); }
  // That of a compiled function, or of a composite, around the bodies of loops; null: these are recorded eagerly.
  Trace* function() const {
    const auto found = std::find_if(traces.rbegin(), traces.rend(), [](const Trace* each) { return !each->is_loop; });
    return found == traces.rend() ? nullptr : *found;
  }
};
Recorder& recorder();
// The line of the outermost Weft call; this one where none is under way.
inline Loc outermost(Loc loc) { return recorder().loc.file ? recorder().loc : loc; }

// Makes `trace` the thread's current one, with its sizes, until the end of the block.
class TraceScope {
 public:
  explicit TraceScope(Trace& trace);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;

 private:
  DimEnvironment* saved_dims_;
  CalledOperation no_operation_{nullptr};
  Recorder saved_;
};
// The thread records in no trace, until the end of the block.
class OutsideTraces {
 public:
  OutsideTraces();
  ~OutsideTraces();
  OutsideTraces(const OutsideTraces&) = delete;

 private:
  DimEnvironment* saved_dims_;
  CalledOperation no_operation_{nullptr};
  Recorder saved_;
};
std::uint32_t new_trace_id();
// The bodies of loops have ids of their own, so that an error about a value of one says what it is.
std::uint32_t new_loop_id();
inline bool is_loop_id(std::uint32_t trace) { return trace >> 31; }

// Throws where a size that is known is negative, or there would be more elements than memory has addresses for: an
// axis of size 0 makes no other one smaller. Of symbolic sizes those of this call count, and a guard holds for others.
void check_count(const char* operation, const Type& type, Loc loc);
// Every tensor has fewer elements, and every axis is shorter.
inline constexpr std::int64_t count_limit = std::int64_t{1} << 58;
// Throws where a number that counts elements, or lies between them, is beyond what can be counted.
void check_extent(const char* operation, const char* name, Dim extent, Loc loc);

// A literal in a dtype, rounded; throws where the dtype does not hold it (Constant::literal_in).
Constant literal_in(DType dtype, const At& literal, Loc loc);

Tensor record(Op op, std::span<const Tensor> operands, const Attributes& attributes, const Type& wanted, Loc loc);
inline Tensor record(Op op, std::initializer_list<Tensor> operands, const Attributes& attributes, const Type& wanted,
                     Loc loc) {
  return record(op, std::span<const Tensor>(operands.begin(), operands.size()), attributes, wanted, loc);
}

// A loop or a choice: results of these types, bodies over the operands. It is an effect where a body holds one.
Tensor record_region(Op op, std::span<const Tensor> operands, const Attributes& attributes, std::span<const Type> types,
                     std::vector<std::shared_ptr<const Graph>> bodies, Loc loc);

// Graph code that is recorded: derivative rules.
class RecordingBuilder final : public Builder {
 public:
  constexpr RecordingBuilder() : Builder({}, 0, 0) {}
  using Builder::make;
  Tensor make(Op op, std::span<const Tensor> operands, const Attributes& attributes,
              const Type& wanted) const override {
    return record(op, operands, attributes, wanted, {});
  }
};

// A public function that records opens one, and the outermost wins: what is recorded inside carries the user's line,
// and errors inside say the name of the user's call. Until the end of the block.
class Operation {
 public:
  Operation(const char* name, Loc loc);
  ~Operation();
  Operation(const Operation&) = delete;
  Loc loc() const;

 private:
  Loc saved_loc_;
  const char* saved_name_;
};

// A composite that is no call (record/composite.hpp): its nodes are recorded one by one and carry its name. For what is
// cheap, checks values or draws numbers.
class LooseComposite : public Operation {
 public:
  LooseComposite(const char* name, Loc loc);
  ~LooseComposite();

 private:
  std::uint32_t saved_scope_;
};

// The operand as a value of the trace that is being recorded. Throws where it is undefined or of another trace.
Tensor admitted(const Tensor& operand, const char* operation, Loc loc);

// ---- operands (operands.cpp) ----------------------------------------------------------------------------------------

// f16 or bf16, where operands of that dtype meet a number that it does not hold: a literal, a size or a Scalar.
// What rounds is computed in f32 then, with the number as it is, and rounded once.
std::optional<DType> rounds_numbers(std::span<const Tensor> operands);

// Remembers where the trace is in the user's program, for what is decided on sizes from here on.
void note_call(Loc loc);

// The operand as a graph value: literals become weak constants. In the body of a loop a value of the traces around it
// becomes an input of the body. Throws when it is undefined or of another trace. In a scope of weft/autocast.hpp an
// operand of the user's call is cast as record/autocast.def says of `operation`.
Tensor resolve(const At& operand, const char* operation);

// The value as promotion sees it, and what two together are to a third.
Promotable promotable(const Tensor& value);
Promotable promoted(const Promotable& a, const Promotable& b, Loc loc);
// Promotes dtypes and broadcasts shapes of pointwise operands in place (casts and expands are recorded).
void unify(const char* operation, std::span<Tensor> operands, DTypeClass dtypes, Loc loc);
Tensor pointwise(Op op, std::span<const At> operands);
// The tensor with each size that is 1 in this trace as the number 1, which broadcasts: of a size that may be another, a
// guard remembers it. Recorded once for a value: a reshape at each use would change the order in which gradients are
// added up.
Tensor with_plain_ones(const Tensor& value, Loc loc);
// The common shape; throws when there is none.
Shape broadcast(const char* operation, std::span<const Tensor> operands, Loc loc);
// The operand in a computation's dtype and shape. A number becomes a constant of that type at once.
Tensor coerce(const Tensor& operand, DType dtype, bool weak, const Shape& shape, Device device, Loc loc);

// A size as a value: a weak i64 of no axes.
Tensor dim_value(Dim dim, Loc loc);
// Positions along an axis, i64, on a device: element (i, j, ...) is its index there.
Tensor positions(int axis, const Shape& shape, Device device, Loc loc);
// Every element of `index` in [0, rows), or the user's error when the value is computed.
void check_range(const Tensor& index, Dim rows, const char* operation, Loc loc, const Tensor& table = {});
// A constant of any shape.
Tensor constant_like(double value, const Type& type, Loc loc);

// The same elements in another shape of as many.
Tensor reshape_to(const Tensor& value, const Shape& shape, Loc loc);

int normalize_axis(const char* operation, int axis, int rank, Loc loc);

}  // namespace weft
