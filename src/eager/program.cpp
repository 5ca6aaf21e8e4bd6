// Running a program: what comes before the rows and after them node by node, the rows block by block.
#include "eager/program.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/fail.hpp"
#include "eager/blocks.hpp"
#include "runtime/parallel.hpp"

namespace weft::eager {

using Stage = Program::Stage;
using Kind = Program::Operation::Kind;

namespace {

constexpr std::int64_t grain = 1 << 15;  // elements that pay for another thread

std::size_t bytes_of(DType dtype) { return static_cast<std::size_t>(storage_bytes(dtype, 1)); }

// Rows of a block: dense, or each one element repeated over the row. Strides in bytes; 0 for one row repeated.
struct Rows {
  const std::byte* data = nullptr;
  std::size_t stride = 0;
  bool repeated = false;
};

// A value in memory as rows.
struct Source {
  enum class Mode { none, rows, gathered } mode = Mode::none;
  Value value;
  Walk walk;                    // gathered
  std::int64_t row_stride = 0;  // rows: in elements
  bool repeated = false;

  void open(const Value& given, int outer_axes, std::int64_t inner) {
    value = given;
    walk = make_walk(value.sizes, value.layout);
    if (walks_badly(walk)) {
      value = make_contiguous(given);
      walk = make_walk(value.sizes, value.layout);
    }
    mode = Mode::gathered;
    const Sizes& sizes = value.sizes;
    const std::int64_t* strides = value.layout.strides;
    bool dense = true, uniform = true, even = true;
    std::int64_t expected = 1;
    for (int axis = sizes.rank; axis-- > outer_axes;) {
      if (sizes.size[axis] == 1) continue;
      dense = dense && strides[axis] == expected;
      uniform = uniform && strides[axis] == 0;
      expected *= sizes.size[axis];
    }
    std::optional<std::int64_t> next;  // the stride of an axis that continues the axes after it; may be negative
    for (int axis = outer_axes; axis-- > 0;) {
      if (sizes.size[axis] == 1) continue;
      if (!next) row_stride = strides[axis];
      even = even && strides[axis] == next.value_or(row_stride);
      next = strides[axis] * sizes.size[axis];
    }
    if (even && row_stride == 0 && !dense && !uniform) {  // the same row throughout, which is made once
      value = first_row(value, outer_axes, expected);
      dense = true;
    }
    if (!even || row_stride < 0 || (!dense && !uniform)) return;
    if (inner == 1 && row_stride != 1) uniform = row_stride == 0, dense = false;
    if (!dense && !uniform) return;
    mode = Mode::rows;
    repeated = !dense || (inner == 1 && row_stride == 0);
  }
  static Value first_row(const Value& value, int outer_axes, std::int64_t inner) {
    Type type = value.type;
    type.shape = Shape::of(inner);
    Value row = make_value(type);
    Sizes sizes = value.sizes;
    std::fill_n(sizes.size, outer_axes, 1);
    copy_elements(sizes, value.element_bytes(), row.storage->data, contiguous_layout(sizes), value.storage->data,
                  value.layout);
    return row;
  }
};

// An element sixteen times over.
struct alignas(64) Repeated {
  std::byte bytes[vector_length * 8];
  void fill(const std::byte* element, std::size_t size) {
    switch (size) {
      case 1: std::memset(bytes, static_cast<int>(*element), vector_length); return;
      case 4: return fill_as<std::uint32_t>(element);
      case 8: return fill_as<std::uint64_t>(element);
      default: return fill_as<std::uint16_t>(element);
    }
  }
  template <class T>
  void fill_as(const std::byte* element) {
    T value;
    std::memcpy(&value, element, sizeof value);
    for (std::int64_t i = 0; i < vector_length; ++i) std::memcpy(bytes + i * sizeof value, &value, sizeof value);
  }
};

}  // namespace

class Execution {
 public:
  Execution(const Program& program, std::span<const Value> operands)
      : p_(program), wholes_(p_.placed_.size()), sources_(p_.placed_.size()) {
    for (std::size_t i = 0; i < p_.placed_.size(); ++i) {
      const Node& each = node(i);
      if (each.op == Op::input)
        wholes_[i] = operands[static_cast<std::size_t>(each.attributes<Parameter>().slot)];
      else if (p_.placed_[i].stage == Stage::before)
        compute(i);
    }
    for (const Program::Operation& operation : p_.operations_) {
      for (const int from : operation.operands) open(static_cast<std::size_t>(from));
      const auto i = static_cast<std::size_t>(operation.node);
      if (operation.whole >= 0) {
        Value& whole = wholes_[static_cast<std::size_t>(operation.whole)];
        whole = make_contiguous(whole);
        if (operation.kind == Kind::take)
          check_rows(whole.as<std::int64_t>(), whole.sizes.count(), operation.length, node(i).loc);
      }
      if (p_.placed_[i].stage == Stage::folded)
        make_partials(operation);
      else if (p_.placed_[i].whole)
        wholes_[i] = make_value(node(i).type);
      prepared_.push_back(prepare(operation));
    }
  }

  std::vector<Value> run() {
    const std::int64_t units = (p_.rows_ - 1) / p_.unit_ + 1;
    const std::int64_t unit_elements = p_.unit_ * static_cast<std::int64_t>(p_.widest_);
    parallel_for(
        0, units, std::max<std::int64_t>(1, grain / unit_elements), units,
        [](void* context, Chunks& chunks) { static_cast<const Execution*>(context)->run_chunks(chunks); }, this);
    for (std::size_t i = 0; i < p_.placed_.size(); ++i) {
      const Program::NodePlace& placed = p_.placed_[i];
      if (placed.stage == Stage::folded) join(i);
      if (placed.stage == Stage::after || (placed.stage == Stage::view && placed.whole)) compute(i);
    }
    std::vector<Value> results;
    for (const Tensor& output : p_.graph_.outputs) results.push_back(wholes_[p_.graph_.number(output)]);
    return results;
  }

 private:
  const Node& node(std::size_t i) const { return *p_.graph_.nodes[i].node(); }
  DType dtype(std::size_t i) const { return node(i).type.dtype; }

  // ---- whole values -------------------------------------------------------------------------------------------------

  void compute(std::size_t i) {
    std::vector<Value> operands;
    for (const Tensor& operand : node(i).inputs()) operands.push_back(wholes_[p_.graph_.number(operand)]);
    wholes_[i] = execute(node(i).op, node(i).attributes(), node(i).type, operands, node(i).loc);
  }
  void open(std::size_t i) {
    if (p_.placed_[i].stage != Stage::before || sources_[i].mode != Source::Mode::none) return;
    sources_[i].open(wholes_[i], p_.outer_axes_, wholes_[i].sizes.count() / p_.rows_);
  }

  // Partial results of a fold, [chunks, inner].
  std::int64_t chunks() const { return (p_.rows_ - 1) / p_.unit_ + 1; }
  std::int64_t folded_inner(const Program::Operation& operation) const {
    return p_.unit_ == row_chunk
               ? 1
               : node(static_cast<std::size_t>(operation.operands[0])).type.shape.element_count().constant() / p_.rows_;
  }
  void make_partials(const Program::Operation& operation) {
    Type type{operation.computed, false, {}, Shape::of(chunks(), folded_inner(operation))};
    const auto i = static_cast<std::size_t>(operation.node);
    wholes_[i] = make_value(type);
  }
  void join(std::size_t i) {
    Type type = node(i).type;
    type.dtype = accumulated_in(dtype(p_.graph_.number(node(i).input(0))));
    const Value partial = wholes_[i];
    Value total = chunks() == 1 ? partial : make_value(type);
    if (chunks() == 1) {
      total.type = type;
      total.sizes = sizes_of(type);
      total.layout = contiguous_layout(total.sizes);
    } else {
      join_partials(node(i).op, type.dtype, partial.data(), total.data(), 1, chunks(), total.sizes.count());
    }
    wholes_[i] = convert(total, dtype(i));
  }

  // ---- rows ---------------------------------------------------------------------------------------------------------

  // Scratch memory of one thread: slots for values, and buffers for gathered or converted rows.
  struct Memory {
    std::unique_ptr<std::byte[]> bytes;
    std::vector<std::byte*> slots;
    std::byte* rooms[7];
    // The rows that were gathered last for each operand: the next operation often reads them again.
    struct {
      const Source* source = nullptr;
      std::int64_t begin = 0, count = 0;
      const void* data = nullptr;
    } gathered[3];
  };
  Memory make_memory(std::int64_t block) const {
    Memory memory;
    const auto aligned = [](std::size_t size) { return (size + 63) & ~std::size_t{63}; };
    const auto rows = static_cast<std::size_t>(block);
    const std::size_t room = aligned(rows * p_.widest_ * 8);
    std::size_t total = 64 + 7 * room;
    for (const std::size_t slot : p_.slots_) total += aligned(rows * slot);
    memory.bytes.reset(new std::byte[total]);
    auto* at = reinterpret_cast<std::byte*>(aligned(reinterpret_cast<std::uintptr_t>(memory.bytes.get())));
    for (const std::size_t slot : p_.slots_) {
      memory.slots.push_back(at);
      at += aligned(rows * slot);
    }
    for (std::byte*& place : memory.rooms) {
      place = at;
      at += room;
    }
    return memory;
  }

  void run_chunks(Chunks& chunks) const {
    Memory memory = make_memory(std::min(p_.block_, p_.rows_));
    for (std::int64_t begin, end; chunks.next(begin, end);)
      run_rows(memory, begin * p_.unit_, std::min(end * p_.unit_, p_.rows_));
  }
  void run_rows(Memory& memory, std::int64_t begin, std::int64_t end) const {
    for (std::int64_t at = begin; at < end; at += p_.block_) {
      const std::int64_t count = std::min(p_.block_, end - at);
      for (const PreparedOperation& prepared : prepared_) {
        if (prepared.operation->kind == Kind::pointwise)
          run_pointwise(prepared, memory, at, count);
        else if (prepared.folded)
          run_fold(prepared, memory, at, count);
        else if (prepared.operation->kind == Kind::reduce)
          run_reduction(prepared, memory, at, count);
        else if (prepared.operation->kind == Kind::gather)
          run_gather(prepared, memory, at, count);
        else
          run_take(prepared, memory, at, count);
      }
    }
  }

  // An operand or a result of an operation: all that is the same for each block.
  struct Access {
    std::byte* memory = nullptr;  // row 0; null: in a slot
    std::size_t stride = 0;       // bytes from a row to the next
    int slot = -1;
    bool repeated = false, dense = false;  // one element for the row; rows without gaps between them
    DType stored = DType::f32, wanted = DType::f32;
    const Source* gathered = nullptr;
  };
  std::byte* place_of(const Access& access, Memory& memory, std::int64_t row) const {
    if (!access.memory) return memory.slots[static_cast<std::size_t>(access.slot)];
    return access.memory + static_cast<std::size_t>(row) * access.stride;
  }
  Access access_to(int i, DType wanted, std::int64_t inner) const {
    const auto index = static_cast<std::size_t>(i);
    const Program::NodePlace& placed = p_.placed_[index];
    Access access;
    access.stored = dtype(index);
    access.wanted = wanted;
    if (placed.stage != Stage::before) {
      const auto base = static_cast<std::size_t>(placed.base);
      access.stride = storage_bytes(access.stored, p_.placed_[base].inner);
      access.slot = placed.slot;
      access.repeated = placed.repeated && inner > 1;
      if (placed.slot < 0) access.memory = wholes_[base].as<std::byte>();
    } else if (const Source& source = sources_[index]; source.mode == Source::Mode::rows) {
      access.memory = source.value.as<std::byte>();
      access.stride = storage_bytes(access.stored, source.row_stride);
      access.repeated = source.repeated;
    } else {
      access.stride = storage_bytes(access.stored, inner);
      access.gathered = &source;
    }
    access.dense = !access.repeated && access.stride == storage_bytes(access.stored, inner);
    return access;
  }
  // Rows of `inner` elements in the dtype that is wanted.
  Rows fetch(const Access& access, std::int64_t inner, Memory& memory, std::int64_t row, std::int64_t count,
             int room) const {
    Rows rows{nullptr, access.stride, access.repeated};
    if (!access.gathered) [[likely]] {
      rows.data = place_of(access, memory, row);
    } else {
      auto& last = memory.gathered[room];
      const std::int64_t begin = row * inner, elements = count * inner;
      if (last.source != access.gathered || last.begin != begin || last.count != elements)
        last = {access.gathered, begin, elements,
                gather_block(access.gathered->walk, access.gathered->value.storage->data, bytes_of(access.stored),
                             begin, elements, memory.rooms[2 * room])};
      rows.data = static_cast<const std::byte*>(last.data);
    }
    if (access.stored == access.wanted) [[likely]]
      return rows;
    return converted(rows, access.stored, access.wanted, inner, count, memory.rooms[2 * room + 1]);
  }
  static Rows converted(Rows rows, DType from, DType to, std::int64_t inner, std::int64_t count, std::byte* room) {
    const std::int64_t length = rows.repeated ? 1 : inner, distinct = rows.stride ? count : 1;
    const std::size_t given = storage_bytes(from, length), taken = storage_bytes(to, length);
    if (rows.stride == given) {
      cast_elements(from, to, room, rows.data, distinct * length);
    } else {
      for (std::int64_t i = 0; i < distinct; ++i)
        cast_elements(from, to, room + static_cast<std::size_t>(i) * taken,
                      rows.data + static_cast<std::size_t>(i) * rows.stride, length);
    }
    return {room, rows.stride ? taken : 0, rows.repeated};
  }

  // An operation with what is known of it before the first block.
  struct PreparedOperation {
    const Program::Operation* operation;
    Access operands[3], result;
    std::size_t bytes[3], result_bytes;  // of an element in the kernel
    std::int64_t inner;                  // elements of an operand's row
    int arity;
    bool at_once, folded, narrow;  // rows need not be told apart; `narrow`: the kernel gives another dtype
  };
  PreparedOperation prepare(const Program::Operation& operation) const {
    const auto index = static_cast<std::size_t>(operation.node);
    PreparedOperation prepared{&operation};
    prepared.folded = p_.placed_[index].stage == Stage::folded;
    prepared.arity = static_cast<int>(operation.operands.size());
    prepared.inner = p_.placed_[index].inner * operation.length;
    if (operation.kind == Kind::gather) prepared.inner = p_.placed_[index].inner / operation.width;
    if (operation.kind == Kind::take)
      prepared.inner = p_.placed_[index].inner / whole_of(operation).sizes.count() * operation.length;
    if (prepared.folded) prepared.inner = folded_inner(operation);
    prepared.narrow = operation.computed != operation.stored;
    prepared.result_bytes = bytes_of(operation.computed);
    prepared.at_once = true;
    for (int k = 0; k < prepared.arity; ++k) {
      const int from = operation.operands[static_cast<std::size_t>(k)];
      const DType given = dtype(static_cast<std::size_t>(from));
      const DType wanted = operation.kind == Kind::reduce      ? operation.computed
                           : operation.kind == Kind::pointwise ? computed_in(given)
                                                               : given;
      Access& access = prepared.operands[k] = access_to(from, wanted, prepared.inner);
      prepared.bytes[k] = bytes_of(wanted);
      prepared.at_once = prepared.at_once && (access.dense || (access.repeated && access.stride == 0));
    }
    if (!prepared.folded) prepared.result = access_to(operation.node, operation.stored, p_.placed_[index].inner);
    return prepared;
  }

  void run_pointwise(const PreparedOperation& prepared, Memory& memory, std::int64_t row, std::int64_t count) const {
    const Program::Operation& operation = *prepared.operation;
    const std::int64_t inner = prepared.inner;
    Rows rows[3];
    VectorOperand operands[3];
    Repeated repeated[3];
    for (int k = 0; k < prepared.arity; ++k) {
      rows[k] = fetch(prepared.operands[k], inner, memory, row, count, k);
      operands[k] = {rows[k].data, vector_length};
      if (!rows[k].repeated) continue;
      operands[k] = {repeated[k].bytes, 0};
      repeated[k].fill(rows[k].data, prepared.bytes[k]);
    }
    std::byte* const result = place_of(prepared.result, memory, row);
    std::byte* target = prepared.narrow ? memory.rooms[6] : result;
    const std::int64_t calls = prepared.at_once ? 1 : count, elements = count * inner / calls;
    const std::size_t step_bytes = static_cast<std::size_t>(elements) * prepared.result_bytes;
    for (std::int64_t i = 0; i < calls; ++i, target += step_bytes) {
      if (elements % vector_length == 0)
        operation.kernel(target, operands, elements / vector_length);
      else
        run_kernel(operation.kernel, target, prepared.result_bytes, operands, prepared.bytes, prepared.arity, elements);
      if (i + 1 == calls) break;
      for (int k = 0; k < prepared.arity; ++k) {
        rows[k].data += rows[k].stride;
        if (!rows[k].repeated) operands[k].data = rows[k].data;
        if (rows[k].repeated && rows[k].stride) repeated[k].fill(rows[k].data, prepared.bytes[k]);
      }
    }
    if (prepared.narrow) cast_elements(operation.computed, operation.stored, result, memory.rooms[6], count * inner);
  }

  const Value& whole_of(const Program::Operation& operation) const {
    return wholes_[static_cast<std::size_t>(operation.whole)];
  }
  void run_gather(const PreparedOperation& prepared, Memory& memory, std::int64_t row, std::int64_t count) const {
    const Program::Operation& operation = *prepared.operation;
    const Value& table = whole_of(operation);
    const std::int64_t places = table.sizes.size[0];
    const std::size_t bytes = static_cast<std::size_t>(operation.width) * table.element_bytes();
    const Rows rows = dense_operand(prepared, memory, row, count);
    std::byte* const result = place_of(prepared.result, memory, row);
    const auto take = [&](std::int64_t i, std::int64_t length) {
      const auto* const picks =
          reinterpret_cast<const std::int64_t*>(rows.data + static_cast<std::size_t>(i) * rows.stride);
      check_rows(picks, length, places, node(static_cast<std::size_t>(operation.node)).loc);
      take_rows(table.data(), picks, bytes, 0, length, result + static_cast<std::size_t>(i * prepared.inner) * bytes);
    };
    if (rows.stride == static_cast<std::size_t>(prepared.inner) * sizeof(std::int64_t))
      return take(0, count * prepared.inner);
    for (std::int64_t i = 0; i < count; ++i) take(i, prepared.inner);
  }
  void run_take(const PreparedOperation& prepared, Memory& memory, std::int64_t row, std::int64_t count) const {
    const Program::Operation& operation = *prepared.operation;
    const Value& index = whole_of(operation);
    const std::int64_t taken = index.sizes.count(), from_part = operation.length * operation.width,
                       parts = prepared.inner / from_part;
    const std::size_t bytes = static_cast<std::size_t>(operation.width) * prepared.bytes[0];
    const Rows rows = dense_operand(prepared, memory, row, count);
    std::byte* to = place_of(prepared.result, memory, row);
    for (std::int64_t i = 0; i < count; ++i)
      for (std::int64_t part = 0; part < parts; ++part, to += static_cast<std::size_t>(taken) * bytes)
        take_rows(rows.data + static_cast<std::size_t>(i) * rows.stride +
                      static_cast<std::size_t>(part * from_part) * prepared.bytes[0],
                  index.as<std::int64_t>(), bytes, 0, taken, to);
  }

  // The operand of a reduction or of a gather, each row dense.
  Rows dense_operand(const PreparedOperation& prepared, Memory& memory, std::int64_t row, std::int64_t count) const {
    const std::int64_t inner = prepared.inner;
    Rows rows = fetch(prepared.operands[0], inner, memory, row, count, 0);
    if (!rows.repeated || (inner == 1 && rows.stride)) return rows;
    const std::size_t element = prepared.bytes[0];
    std::byte* to = memory.rooms[2];
    memory.gathered[1] = {};
    for (std::int64_t i = 0; i < count; ++i)
      for (std::int64_t j = 0; j < inner; ++j, to += element)
        std::memcpy(to, rows.data + static_cast<std::size_t>(i) * rows.stride, element);
    return {memory.rooms[2], static_cast<std::size_t>(inner) * element, false};
  }

  static void reduce_chunk(const Program::Operation& operation, const std::byte* from, std::int64_t count,
                           std::byte* to) {
    if (operation.scaled_sum)
      operation.scaled_sum(from, count, operation.scale, to);
    else
      operation.reduce(from, count, to);
  }
  void run_reduction(const PreparedOperation& prepared, Memory& memory, std::int64_t row, std::int64_t count) const {
    const Program::Operation& operation = *prepared.operation;
    const std::int64_t kept = p_.placed_[static_cast<std::size_t>(operation.node)].inner, length = operation.length;
    const std::int64_t chunks = (length - 1) / row_chunk + 1;
    const Rows rows = dense_operand(prepared, memory, row, count);
    std::byte* const result = place_of(prepared.result, memory, row);
    std::byte* const target = operation.computed == operation.stored ? result : memory.rooms[6];
    const std::size_t element = bytes_of(operation.computed);
    std::vector<double> partial(chunks == 1 ? 0 : static_cast<std::size_t>(chunks));
    std::byte* to = target;
    for (std::int64_t i = 0; i < count; ++i)
      for (std::int64_t j = 0; j < kept; ++j, to += element) {
        const std::byte* from =
            rows.data + static_cast<std::size_t>(i) * rows.stride + static_cast<std::size_t>(j * length) * element;
        if (chunks == 1) {
          reduce_chunk(operation, from, length, to);
          continue;
        }
        auto* const parts = reinterpret_cast<std::byte*>(partial.data());
        for (std::int64_t c = 0; c < chunks; ++c)
          reduce_chunk(operation, from + static_cast<std::size_t>(c * row_chunk) * element,
                       std::min(row_chunk, length - c * row_chunk), parts + static_cast<std::size_t>(c) * element);
        join_partials(operation.op, operation.computed, parts, to, 1, chunks, 1);
      }
    if (target != result) cast_elements(operation.computed, operation.stored, result, target, count * kept);
  }

  void run_fold(const PreparedOperation& prepared, Memory& memory, std::int64_t row, std::int64_t count) const {
    const Program::Operation& operation = *prepared.operation;
    const std::int64_t inner = prepared.inner;
    const Rows rows = dense_operand(prepared, memory, row, count);
    const std::size_t element = bytes_of(operation.computed);
    std::byte* const total = wholes_[static_cast<std::size_t>(operation.node)].as<std::byte>() +
                             static_cast<std::size_t>(row / p_.unit_ * inner) * element;
    if (p_.unit_ == row_chunk) return operation.reduce(rows.data, count, total);
    if (row % p_.unit_ == 0) fill_start(operation.op, operation.computed, total, inner);
    for (std::int64_t i = 0; i < count; ++i)
      combine(combining(operation.op), operation.computed, total, total,
              rows.data + static_cast<std::size_t>(i) * rows.stride, inner);
  }

  const Program& p_;
  std::vector<Value> wholes_;  // by node
  std::vector<Source> sources_;
  std::vector<PreparedOperation> prepared_;  // of each operation
};

std::vector<Value> Program::run(std::span<const Value> operands) const { return Execution(*this, operands).run(); }

}  // namespace weft::eager
