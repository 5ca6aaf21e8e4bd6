// Rows by index, and random bits. Indices were checked when the operation was recorded; they are checked again here,
// since nothing else keeps a wrong one from reaching memory.
#include <algorithm>
#include <cstring>

#include "base/fail.hpp"
#include "eager/blocks.hpp"
#include "eager/eager.hpp"
#include "eager/kernels.hpp"
#include "runtime/host/argsort.hpp"
#include "runtime/host/scatter.hpp"
#include "runtime/host/update_rows.hpp"
#include "runtime/parallel.hpp"

namespace weft::eager {
namespace {

constexpr std::int64_t grain = 1 << 15;  // elements that pay for another thread

void check_rows(const char* operation, const std::int64_t* index, std::int64_t count, std::int64_t rows, Loc loc) {
  for (std::int64_t i = 0; i < count; ++i)
    if (index[i] < 0 || index[i] >= rows) fail(operation, loc, "index ", index[i], " is out of range [0, ", rows, ")");
}

template <class Body>
void in_parallel(std::int64_t count, std::int64_t elements_each, Body body) {
  std::int64_t least = std::max<std::int64_t>(1, grain / std::max<std::int64_t>(1, elements_each));
  parallel_for(
      0, count, least,
      [](void* context, std::int64_t begin, std::int64_t end) { (*static_cast<Body*>(context))(begin, end); }, &body);
}

// A row of one element is copied as that.
template <class T>
void take_elements(const void* table, const std::int64_t* picks, std::int64_t begin, std::int64_t end, void* result) {
  const T* const from = static_cast<const T*>(table);
  T* const to = static_cast<T*>(result);
  for (std::int64_t i = begin; i < end; ++i) to[i] = from[picks[i]];
}
}  // namespace

void check_rows(const std::int64_t* index, std::int64_t count, std::int64_t rows, Loc loc) {
  // Whether the sign of any index, or of what is left to the last row, is set: every instruction set has vectors for it.
  std::uint64_t signs = 0;
  const std::uint64_t last = static_cast<std::uint64_t>(rows) - 1;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::uint64_t>(index[i]);
    signs |= at | (last - at);
  }
  if (signs >> 63) check_rows("gather", index, count, rows, loc);
}

void take_rows(const void* table, const std::int64_t* picks, std::size_t bytes, std::int64_t begin, std::int64_t end,
               void* result) {
  switch (bytes) {
    case 1: return take_elements<std::uint8_t>(table, picks, begin, end, result);
    case 2: return take_elements<std::uint16_t>(table, picks, begin, end, result);
    case 4: return take_elements<std::uint32_t>(table, picks, begin, end, result);
    case 8: return take_elements<std::uint64_t>(table, picks, begin, end, result);
    default: break;
  }
  const auto* const from = static_cast<const std::byte*>(table);
  auto* const to = static_cast<std::byte*>(result);
  for (std::int64_t i = begin; i < end; ++i)
    std::memcpy(to + static_cast<std::size_t>(i) * bytes, from + static_cast<std::size_t>(picks[i]) * bytes, bytes);
}

Value execute_gather(const Type& type, const Value& table, const Value& index, Loc loc) {
  Value rows = make_contiguous(table), picks = make_contiguous(index), result = make_value(type);
  std::int64_t count = picks.sizes.count(), total = result.sizes.count();
  if (total == 0) return result;
  check_rows(picks.as<std::int64_t>(), count, rows.sizes.size[0], loc);
  std::int64_t width = total / count;
  std::size_t bytes = static_cast<std::size_t>(width) * rows.element_bytes();
  in_parallel(count, width, [&](std::int64_t begin, std::int64_t end) {
    take_rows(rows.data(), picks.as<std::int64_t>(), bytes, begin, end, result.data());
  });
  return result;
}

Value execute_scatter(Op op, const Type& type, const Value& index, const Value& updates, Loc loc) {
  Type joined = type;
  joined.dtype = computed_in(type.dtype);
  const Value picks = make_contiguous(index), from = make_contiguous(convert(updates, joined.dtype)),
              result = make_value(joined);
  const std::int64_t rows = result.sizes.size[0], count = picks.sizes.count(), total = result.sizes.count();
  if (total == 0) return convert(result, type.dtype);
  check_rows(info(op).name, picks.as<std::int64_t>(), count, rows, loc);
  const auto join = op == Op::scatter_add ? runtime::RowJoin::add : runtime::RowJoin::greatest;
  runtime::scatter(join, joined.dtype, {rows, count, total / rows}, picks.as<std::int64_t>(), from.data(),
                   result.data());
  return convert(result, type.dtype);
}

Value execute_update_rows(const RowUpdate& update, const Type& type, std::span<const Value> operands, Loc loc) {
  const Value rows = make_contiguous(operands[1]), picks = make_contiguous(operands[2]);
  const Sizes& table = operands[0].sizes;
  runtime::RowSizes sizes{1, table.size[update.axis], 1, picks.sizes.count()};
  for (int i = 0; i < update.axis; ++i) sizes.outer *= table.size[i];
  for (int i = update.axis + 1; i < table.rank; ++i) sizes.inner *= table.size[i];
  check_rows(info(Op::update_rows).name, picks.as<std::int64_t>(), sizes.count, sizes.rows, loc);
  const auto join = update.adds ? runtime::RowJoin::add : runtime::RowJoin::replace;
  std::vector<std::byte> workspace(runtime::update_rows_workspace(join, type.dtype, sizes));
  Value result = make_writable(operands[0]);
  result.type = type;
  runtime::update_rows(join, type.dtype, sizes, rows.data(), picks.as<std::int64_t>(), result.data(), workspace);
  return result;
}

Value execute_argsort(const Order& order, const Type& type, const Value& operand) {
  const Value rows = make_contiguous(operand), result = make_value(type);
  const int last = result.sizes.rank - 1;
  const std::int64_t size = rows.sizes.size[last], count = result.sizes.size[last];
  if (result.sizes.count() == 0) return result;
  const std::int64_t first = count == size ? 0 : order.first.constant();
  runtime::argsort(rows.type.dtype, {result.sizes.count() / count, size, first, count}, order.descending, rows.data(),
                   result.as<std::int64_t>());
  return result;
}

Value execute_random_bits(const Type& type, const Value& seed, const Value& offset) {
  Value result = make_value(type);
  RandomKernel kernel = kernels().random_bits[static_cast<int>(type.dtype)];
  WEFT_CHECK(kernel, "no kernel draws ", to_string(type));
  std::int64_t key = *seed.as<std::int64_t>(), place = *offset.as<std::int64_t>();
  std::int64_t vectors = result.sizes.count() / vector_length, rest = result.sizes.count() % vector_length;
  auto at = [&](std::int64_t vector) {
    return result.as<std::byte>() + static_cast<std::size_t>(vector * vector_length) * result.element_bytes();
  };
  in_parallel(vectors, 8 * vector_length, [&](std::int64_t begin, std::int64_t end) {
    kernel(at(begin), key, place, begin * vector_length, end - begin);
  });
  if (rest) {
    alignas(64) std::byte last[vector_length * 8];
    kernel(last, key, place, vectors * vector_length, 1);
    std::memcpy(at(vectors), last, static_cast<std::size_t>(rest) * result.element_bytes());
  }
  return result;
}

}  // namespace weft::eager
