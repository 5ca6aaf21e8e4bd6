// Rows by index, and random bits. Indices were checked when the operation was recorded; they are checked again here,
// since nothing else keeps a wrong one from reaching memory.
#include <array>
#include <atomic>
#include <cstring>

#include "base/fail.hpp"
#include "runtime/parallel.hpp"
#include "tensor/eager.hpp"

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
  parallel_for(0, count, least,
               [](void* context, std::int64_t begin, std::int64_t end) { (*static_cast<Body*>(context))(begin, end); }, &body);
}

// Philox4x32-10 (Salmon and others, SC 2011).
std::array<std::uint32_t, 4> philox(std::uint64_t group, std::uint64_t offset, std::uint64_t seed) {
  auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
  std::array<std::uint32_t, 4> c = {low(group), high(group), low(offset), high(offset)};
  std::uint32_t key0 = low(seed), key1 = high(seed);
  for (int round = 0; round < 10; ++round, key0 += 0x9E3779B9, key1 += 0xBB67AE85) {
    std::uint64_t a = std::uint64_t{0xD2511F53} * c[0], b = std::uint64_t{0xCD9E8D57} * c[2];
    c = {high(b) ^ c[1] ^ key0, low(b), high(a) ^ c[3] ^ key1, low(a)};
  }
  return c;
}

}  // namespace

Value execute_gather(const Type& type, const Value& table, const Value& index, Loc loc) {
  Value rows = make_contiguous(table), picks = make_contiguous(index), result = make_value(type);
  std::int64_t count = picks.sizes.count(), total = result.sizes.count();
  if (total == 0) return result;
  check_rows("gather", picks.as<std::int64_t>(), count, rows.sizes.size[0], loc);
  std::int64_t width = total / count;
  std::size_t bytes = static_cast<std::size_t>(width) * rows.element_bytes();
  in_parallel(count, width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      std::memcpy(result.as<std::byte>() + static_cast<std::size_t>(i) * bytes,
                  rows.as<std::byte>() + static_cast<std::size_t>(picks.as<std::int64_t>()[i]) * bytes, bytes);
  });
  return result;
}

// Each thread adds the updates of its own rows, in their order: equal indices always add up in the same order.
Value execute_scatter_add(const Type& type, const Value& index, const Value& updates, Loc loc) {
  DType dtype = type.dtype == DType::f16 || type.dtype == DType::bf16 ? DType::f32 : type.dtype;
  Type summed = type;
  summed.dtype = dtype;
  Value picks = make_contiguous(index), from = make_contiguous(convert(updates, dtype)), result = make_value(summed);
  std::int64_t rows = result.sizes.rank ? result.sizes.size[0] : 1, count = picks.sizes.count(), total = result.sizes.count();
  if (total == 0) return convert(result, type.dtype);
  std::memset(result.data(), 0, static_cast<std::size_t>(total) * result.element_bytes());
  check_rows("scatter_add", picks.as<std::int64_t>(), count, rows, loc);
  std::int64_t width = total / rows;
  std::size_t bytes = static_cast<std::size_t>(width) * result.element_bytes();
  in_parallel(rows, count * width / rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t row = picks.as<std::int64_t>()[i];
      if (row < begin || row >= end) continue;
      std::byte* to = result.as<std::byte>() + static_cast<std::size_t>(row) * bytes;
      combine(Op::add, dtype, to, to, from.as<std::byte>() + static_cast<std::size_t>(i) * bytes, width);
    }
  });
  return convert(result, type.dtype);
}

// Element i is word i % 4 of counter {i / 4, offset} under key seed (weft/detail/lanes_math.inc states the convention).
Value execute_random_bits(const Type& type, const Value& seed, const Value& offset) {
  Value result = make_value(type);
  WEFT_CHECK(type.dtype == DType::i64, to_string(type));
  auto key = static_cast<std::uint64_t>(*seed.as<std::int64_t>()), place = static_cast<std::uint64_t>(*offset.as<std::int64_t>());
  std::int64_t count = result.sizes.count();
  in_parallel((count + 3) / 4, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t group = begin; group < end; ++group) {
      std::array<std::uint32_t, 4> words = philox(static_cast<std::uint64_t>(group), place, key);
      for (std::int64_t i = 4 * group; i < std::min(4 * group + 4, count); ++i)
        result.as<std::int64_t>()[i] = words[static_cast<std::size_t>(i % 4)];
    }
  });
  return result;
}

}  // namespace weft::eager
