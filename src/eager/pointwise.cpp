// Pointwise primitives and casts: the operands become contiguous blocks or one repeated value, and a kernel of whole
// vectors runs over them. What is computed in a wider dtype (f16 and bf16 as f32) is so
// block by block, and rounded or wrapped after each primitive.
#include <algorithm>
#include <array>
#include <cstring>

#include "base/fail.hpp"
#include "base/lazy.hpp"
#include "eager/blocks.hpp"
#include "runtime/host/isa.hpp"
#include "runtime/parallel.hpp"

namespace weft::eager {
namespace {

static_assert(row_count == op_count && row_add == static_cast<int>(Op::add) && row_call == static_cast<int>(Op::call));

constexpr std::int64_t block = 1024;               // elements that are packed or converted at once
constexpr std::int64_t pointwise_grain = 1 << 15;  // elements that pay for another thread

struct alignas(64) Scratch {
  std::byte bytes[block * 8];
};

}  // namespace

void run_kernel(PointwiseKernel kernel, void* result, std::size_t result_bytes, const VectorOperand* operands,
                const std::size_t* operand_bytes, int arity, std::int64_t count) {
  std::int64_t vectors = count / vector_length, rest = count % vector_length;
  if (vectors) kernel(result, operands, vectors);
  if (!rest) return;
  alignas(64) std::byte padded[4][vector_length * 8];
  VectorOperand tail[3];
  for (int i = 0; i < arity; ++i) {
    tail[i] = operands[i];
    if (operands[i].step == 0) continue;
    std::memset(padded[i], 0, sizeof padded[i]);
    std::memcpy(padded[i], static_cast<const std::byte*>(operands[i].data) + vectors * vector_length * operand_bytes[i],
                static_cast<std::size_t>(rest) * operand_bytes[i]);
    tail[i].data = padded[i];
  }
  kernel(padded[3], tail, 1);
  std::memcpy(static_cast<std::byte*>(result) + vectors * vector_length * result_bytes, padded[3],
              static_cast<std::size_t>(rest) * result_bytes);
}

PointwiseKernel cast_kernel(DType from, DType to) {
  PointwiseKernel kernel = kernels().cast[static_cast<int>(from)][static_cast<int>(to)];
  WEFT_CHECK(kernel, "no kernel casts ", info(from).name, " to ", info(to).name);
  return kernel;
}

PointwiseKernel kernel_of(Op op, DType from, DType to, DType& computed) {
  if (op == Op::cast) {
    computed = kernels().cast[static_cast<int>(from)][static_cast<int>(to)] ? to : computed_in(to);
    return cast_kernel(from, computed);
  }
  const PointwiseKernel kernel = kernels().pointwise[static_cast<int>(op)][static_cast<int>(from)];
  WEFT_CHECK(kernel, "no kernel for ", info(op).name, " on ", info(from).name);
  computed = computed_in(to);
  return kernel;
}

void cast_elements(DType from, DType to, void* result, const void* data, std::int64_t count) {
  VectorOperand operand{data, vector_length};
  std::size_t bytes = storage_bytes(from, 1);
  run_kernel(cast_kernel(from, to), result, storage_bytes(to, 1), &operand, &bytes, 1, count);
}

namespace {

// One operand, as blocks in the dtype that the kernel takes.
struct Source {
  Walk walk;
  const void* data = nullptr;
  DType stored = DType::f32, wanted = DType::f32;
  bool repeated = false;
  alignas(64) std::byte value[vector_length * 8];  // of an operand of one value

  std::optional<Value> copy;

  void open(const Value& operand) {
    walk = make_walk(operand.sizes, operand.layout);
    data = operand.storage->data;
    if (walks_badly(walk)) {
      copy = make_contiguous(operand);
      walk = make_walk(copy->sizes, copy->layout);
      data = copy->storage->data;
    }
    stored = operand.type.dtype;
    wanted = computed_in(stored);
    repeated = walk.uniform() && walk.count > 0;
    if (!repeated) return;
    alignas(64) std::byte packed[vector_length * 8];
    Walk first = walk;
    first.sizes.size[0] = vector_length;
    const void* copies = gather_block(first, data, storage_bytes(stored, 1), 0, vector_length, packed);
    if (stored == wanted)
      std::memcpy(value, copies, sizeof value);
    else
      cast_elements(stored, wanted, value, copies, vector_length);
  }
  bool direct() const { return repeated || (stored == wanted && walk.contiguous()); }
  VectorOperand fetch(std::int64_t begin, std::int64_t count, Scratch* scratch) const {
    if (repeated) return {value, 0};
    const void* elements = gather_block(walk, data, storage_bytes(stored, 1), begin, count, scratch[0].bytes);
    if (stored == wanted) return {elements, vector_length};
    cast_elements(stored, wanted, scratch[1].bytes, elements, count);
    return {scratch[1].bytes, vector_length};
  }
};

struct Job {
  PointwiseKernel kernel = nullptr;
  int arity = 0;
  std::array<Source, 3> sources;
  std::size_t operand_bytes[3] = {};
  DType computed = DType::f32, stored = DType::f32;  // the result's dtype in the kernel and in memory
  void* result = nullptr;
  bool direct = true;

  void run(std::int64_t begin, std::int64_t end) const {
    Scratch scratch[7];
    std::size_t bytes = storage_bytes(stored, 1);
    std::int64_t step = direct ? end - begin : block;
    for (std::int64_t at = begin; at < end; at += step) {
      std::int64_t count = std::min(step, end - at);
      VectorOperand operands[3];
      for (int i = 0; i < arity; ++i)
        operands[i] = sources[static_cast<std::size_t>(i)].fetch(at, count, scratch + 2 * i);
      std::byte* out = static_cast<std::byte*>(result) + static_cast<std::size_t>(at) * bytes;
      if (computed == stored) {
        run_kernel(kernel, out, bytes, operands, operand_bytes, arity, count);
      } else {
        run_kernel(kernel, scratch[6].bytes, storage_bytes(computed, 1), operands, operand_bytes, arity, count);
        cast_elements(computed, stored, out, scratch[6].bytes, count);
      }
    }
  }
};

}  // namespace

const Kernels& kernels() {
  static constinit Lazy<const Kernels> table;
  return table.get([] {
    Kernels kernels{};
#define WEFT_PUT_ALL(isa)         \
  case Isa::isa:                  \
    isa::put_arithmetic(kernels); \
    isa::put_functions(kernels);  \
    isa::put_logic(kernels);      \
    isa::put_casts(kernels);      \
    isa::put_reductions(kernels); \
    isa::put_random(kernels);     \
    break;
    switch (host_isa()) {
      WEFT_PUT_ALL(baseline)
      WEFT_PUT_ALL(avx2)
      WEFT_PUT_ALL(avx512)
    }
#undef WEFT_PUT_ALL
    return kernels;
  });
}

void combine(Op op, DType dtype, void* result, const void* a, const void* b, std::int64_t count) {
  PointwiseKernel kernel = kernels().pointwise[static_cast<int>(op)][static_cast<int>(dtype)];
  WEFT_CHECK(kernel, "no kernel for ", info(op).name, " on ", info(dtype).name);
  std::size_t bytes[] = {storage_bytes(dtype, 1), storage_bytes(dtype, 1)};
  VectorOperand operands[] = {{a, vector_length}, {b, vector_length}};
  run_kernel(kernel, result, bytes[0], operands, bytes, 2, count);
}

Value execute_pointwise(Op op, const Type& type, std::span<const Value> operands) {
  Value result = make_value(type);
  std::int64_t count = result.sizes.count();
  if (count == 0) return result;
  Job job;
  job.arity = static_cast<int>(operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    Source& source = job.sources[i];
    source.open(operands[i]);
    job.operand_bytes[i] = storage_bytes(source.wanted, 1);
    job.direct = job.direct && source.direct();
  }
  DType from = job.sources[operands.size() - 1].wanted;
  job.stored = type.dtype;
  job.result = result.data();
  job.kernel = kernel_of(op, from, type.dtype, job.computed);
  job.direct = job.direct && job.computed == job.stored;
  parallel_for(
      0, count, pointwise_grain,
      [](void* context, std::int64_t begin, std::int64_t end) { static_cast<const Job*>(context)->run(begin, end); },
      &job);
  return result;
}

Value convert(const Value& value, DType dtype) {
  if (value.type.dtype == dtype) return value;
  Type type = value.type;
  type.dtype = dtype;
  return execute_pointwise(Op::cast, type, std::span(&value, 1));
}

}  // namespace weft::eager
