// Scalar expressions run eagerly: the host compiler's kernel of the whole expression in one pass over memory where it
// was compiled for this CPU's ISA, else the table's kernels over blocks that stay in cache. The same bits either way.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>

#include "base/fail.hpp"
#include "eager/eager.hpp"
#include "eager/kernels.hpp"
#include "ir/elementwise.hpp"
#include "runtime/host/isa.hpp"
#include "runtime/parallel.hpp"

namespace weft::eager {
namespace {

using detail::ScalarEntry;
using detail::ScalarOp;
using detail::ScalarOperand;

constexpr std::int64_t block = 1024;     // elements that are packed, or go through all primitives, at once
constexpr std::int64_t grain = 1 << 14;  // elements that pay for another thread
constexpr std::size_t vector_bytes = vector_length * 8;

using Vector = std::array<std::byte, vector_bytes>;

// An operand as whole vectors: where it lies, packed, or one value repeated.
struct Source {
  Walk walk;
  const std::byte* data = nullptr;
  std::size_t element = 0;
  bool repeated = false;
  alignas(64) Vector value;

  void open(const Value& operand) {
    walk = make_walk(operand.sizes, operand.layout);
    data = static_cast<const std::byte*>(operand.storage->data);
    element = operand.element_bytes();
    repeated = walk.uniform();
    if (!repeated) return;
    const auto* first = static_cast<const std::byte*>(operand.data());
    for (std::int64_t i = 0; i < vector_length; ++i)
      std::memcpy(value.data() + static_cast<std::size_t>(i) * element, first, element);
  }
  bool direct() const { return repeated || walk.contiguous(); }
};

// ---- the table's kernels, entry by entry ----------------------------------------------------------------------------

// Which block of scratch memory each entry's values take: one is used again after the last use of its values.
struct Allocation {
  const ElementwiseDefinition& definition;
  DType dtype;
  std::vector<int> place;  // of each entry; -1 for arguments
  std::vector<Vector> literals;
  int places = 0;

  Allocation(const ElementwiseDefinition& definition, DType dtype) : definition(definition), dtype(dtype) {
    auto count = static_cast<std::size_t>(definition.entry_count);
    place.assign(count, -1);
    literals.resize(count);
    std::vector<std::size_t> last_use(count, 0);
    for (std::size_t i = 0; i < count; ++i) each_operand(i, [&](std::size_t operand) { last_use[operand] = i; });
    for (int i = 0; i < definition.result_count; ++i) last_use[definition.results[i]] = count;
    std::vector<int> free;
    for (std::size_t i = 0; i < count; ++i) {
      const ScalarEntry& entry = definition.entries[i];
      if (entry.op == ScalarOp::argument) continue;
      if (entry.op == ScalarOp::literal) set_literal(entry, literals[i]);
      if (free.empty()) free.push_back(places++);
      place[i] = free.back();
      free.pop_back();
      each_operand(i, [&](std::size_t operand) {
        bool again = std::find(free.begin(), free.end(), place[operand]) != free.end();
        if (last_use[operand] == i && place[operand] >= 0 && !again) free.push_back(place[operand]);
      });
    }
  }
  template <class Function>
  void each_operand(std::size_t i, Function f) const {
    const ScalarEntry& entry = definition.entries[i];
    if (!is_primitive(entry)) return;
    for (int k = 0; k < info(op_of(entry)).arity; ++k) f(entry.operands[k]);
  }
  DType dtype_of(std::size_t i) const { return definition.is_number(static_cast<int>(i)) ? dtype : DType::boolean; }
  void set_literal(const ScalarEntry& entry, Vector& values) const {
    const bool floating = entry.literal == DTypeKind::floating;
    const double wide = floating ? entry.number : static_cast<double>(entry.integer);
    const float single = floating ? static_cast<float>(entry.number) : static_cast<float>(entry.integer);
    for (std::size_t i = 0; i < vector_length; ++i) {
      if (entry.kind == detail::ScalarKind::boolean)
        values[i] = static_cast<std::byte>(entry.integer != 0);
      else if (dtype == DType::f32)
        std::memcpy(values.data() + i * 4, &single, 4);
      else
        std::memcpy(values.data() + i * 8, &wide, 8);
    }
  }
};

// Runs the entries over at most `block` elements in whole vectors.
struct Interpreter {
  const Allocation& allocation;
  std::unique_ptr<std::byte[]> memory;
  Interpreter(const Allocation& allocation)
      : allocation(allocation),
        memory(new std::byte[static_cast<std::size_t>(allocation.places + 3) * block * 8 + 64]) {}

  std::byte* scratch(int place) {
    auto start = (reinterpret_cast<std::uintptr_t>(memory.get()) + 63) & ~std::uintptr_t{63};
    return reinterpret_cast<std::byte*>(start) + static_cast<std::size_t>(place) * block * 8;
  }
  VectorOperand operand(std::size_t i, const ScalarOperand* arguments) {
    const ScalarEntry& entry = allocation.definition.entries[i];
    if (entry.op == ScalarOp::argument) return {arguments[i].data, arguments[i].step};
    if (entry.op == ScalarOp::literal) return {allocation.literals[i].data(), 0};
    return {scratch(allocation.place[i]), vector_length};
  }

  void run(void* const* results, const ScalarOperand* arguments, std::int64_t vectors) {
    const ElementwiseDefinition& definition = allocation.definition;
    for (std::size_t i = 0; i < allocation.place.size(); ++i) {
      const ScalarEntry& entry = definition.entries[i];
      if (!is_primitive(entry)) continue;
      const OpInfo& row = info(op_of(entry));
      VectorOperand operands[3];
      DType kernel_dtype = allocation.dtype;
      for (int k = 0; k < row.arity; ++k) {
        operands[k] = operand(entry.operands[k], arguments);
        bool boolean = row.dtypes == DTypeClass::bits ||
                       (row.dtypes == DTypeClass::select && (k == 0 || !definition.is_number(static_cast<int>(i))));
        DType held = allocation.dtype_of(entry.operands[k]);
        if (!boolean && held == DType::boolean) operands[k] = as_number(operands[k], k, vectors);
        kernel_dtype = boolean ? DType::boolean : allocation.dtype;
      }
      PointwiseKernel kernel = kernels().pointwise[static_cast<int>(op_of(entry))][static_cast<int>(kernel_dtype)];
      WEFT_CHECK(kernel, "no kernel for ", row.name, " on ", info(kernel_dtype).name);
      kernel(scratch(allocation.place[i]), operands, vectors);
    }
    for (int i = 0; i < definition.result_count; ++i) {
      VectorOperand value = operand(definition.results[i], arguments);
      std::size_t bytes = storage_bytes(allocation.dtype_of(definition.results[i]), vector_length);
      for (std::int64_t v = 0; v < vectors; ++v)
        std::memcpy(static_cast<std::byte*>(results[i]) + static_cast<std::size_t>(v) * bytes,
                    static_cast<const std::byte*>(value.data) + (value.step ? static_cast<std::size_t>(v) * bytes : 0),
                    bytes);
    }
  }
  VectorOperand as_number(VectorOperand flags, int k, std::int64_t vectors) {
    PointwiseKernel kernel = kernels().cast[static_cast<int>(DType::boolean)][static_cast<int>(allocation.dtype)];
    std::byte* to = scratch(allocation.places + k);
    kernel(to, &flags, flags.step ? vectors : 1);
    return {to, flags.step};
  }
};

// ---- the pass over memory -------------------------------------------------------------------------------------------

struct Job {
  const ElementwiseDefinition& definition;
  detail::ScalarKernel kernel;
  std::optional<Allocation> allocation;  // where there is no kernel
  std::vector<Source> sources;
  std::vector<std::byte*> results;
  std::vector<std::size_t> result_bytes;
  bool direct = true;

  void run(std::int64_t begin, std::int64_t end) const {
    std::unique_ptr<std::byte[]> packed(direct ? nullptr : new std::byte[sources.size() * block * 8]);
    std::optional<Interpreter> interpreter;
    if (!kernel) interpreter.emplace(*allocation);
    std::vector<ScalarOperand> operands(sources.size());
    std::vector<void*> out(results.size());
    std::int64_t step = direct && kernel ? end - begin : block;
    for (std::int64_t at = begin; at < end; at += step) {
      std::int64_t count = std::min(step, end - at), vectors = count / vector_length, rest = count % vector_length;
      for (std::size_t i = 0; i < sources.size(); ++i) {
        const Source& source = sources[i];
        operands[i] = source.repeated ? ScalarOperand{source.value.data(), 0}
                                      : ScalarOperand{gather_block(source.walk, source.data, source.element, at, count,
                                                                   direct ? nullptr : packed.get() + i * block * 8),
                                                      vector_length};
      }
      for (std::size_t i = 0; i < results.size(); ++i)
        out[i] = results[i] + static_cast<std::size_t>(at) * result_bytes[i];
      if (vectors) run_vectors(interpreter, out.data(), operands.data(), vectors);
      if (rest) run_rest(interpreter, out.data(), operands.data(), vectors * vector_length, rest);
    }
  }
  void run_vectors(std::optional<Interpreter>& interpreter, void* const* out, const ScalarOperand* operands,
                   std::int64_t vectors) const {
    if (kernel)
      kernel(out, operands, vectors);
    else
      interpreter->run(out, operands, vectors);
  }
  // The last elements, fewer than a vector, through padded copies.
  void run_rest(std::optional<Interpreter>& interpreter, void* const* out, const ScalarOperand* operands,
                std::int64_t from, std::int64_t rest) const {
    std::vector<Vector> in(sources.size()), made(results.size());
    std::vector<ScalarOperand> padded(operands, operands + sources.size());
    for (std::size_t i = 0; i < sources.size(); ++i) {
      if (operands[i].step == 0) continue;
      std::size_t element = sources[i].element;
      std::memcpy(in[i].data(),
                  static_cast<const std::byte*>(operands[i].data) + static_cast<std::size_t>(from) * element,
                  static_cast<std::size_t>(rest) * element);
      padded[i].data = in[i].data();
    }
    std::vector<void*> vectors;
    for (Vector& result : made) vectors.push_back(result.data());
    run_vectors(interpreter, vectors.data(), padded.data(), 1);
    for (std::size_t i = 0; i < results.size(); ++i)
      std::memcpy(static_cast<std::byte*>(out[i]) + static_cast<std::size_t>(from) * result_bytes[i], made[i].data(),
                  static_cast<std::size_t>(rest) * result_bytes[i]);
  }
};

}  // namespace

std::vector<Value> execute_elementwise(const ElementwiseDefinition& definition, std::span<const Type> types,
                                       std::span<const Value> operands) {
  std::vector<Value> results;
  for (const Type& type : types) results.push_back(make_value(type));
  std::int64_t count = results[0].sizes.count();
  if (count == 0) return results;
  DType dtype = DType::f32;  // where all that goes in and comes out is bool
  for (const Type& type : types) dtype = type.dtype == DType::boolean ? dtype : type.dtype;
  for (const Value& operand : operands) dtype = operand.type.dtype == DType::boolean ? dtype : operand.type.dtype;
  Job job{definition, nullptr, {}, {}, {}, {}};
  int isa = static_cast<int>(host_isa());
  if (definition.isa == isa || (definition.isa < isa && definition.alike))
    job.kernel = dtype == DType::f32 ? definition.f32 : definition.f64;
  if (!job.kernel) job.allocation.emplace(definition, dtype);
  job.sources.resize(operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    job.sources[i].open(operands[i]);
    job.direct = job.direct && job.sources[i].direct();
  }
  for (const Value& result : results) {
    job.results.push_back(static_cast<std::byte*>(result.data()));
    job.result_bytes.push_back(result.element_bytes());
  }
  parallel_for(
      0, count, grain,
      [](void* context, std::int64_t begin, std::int64_t end) { static_cast<const Job*>(context)->run(begin, end); },
      &job);
  return results;
}

}  // namespace weft::eager
