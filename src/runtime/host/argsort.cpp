#include "runtime/host/argsort.hpp"

#include <algorithm>
#include <bit>
#include <memory>
#include <type_traits>
#include <utility>

#include "base/fail.hpp"
#include "runtime/parallel.hpp"

namespace weft::runtime {

namespace {

struct Sort {
  SortSizes sizes;
  bool descending;
  const void* values;
  std::int64_t* order;
};

// Numbers in the order of the elements: equal ones for 0 and -0 and for all NaN.
template <class T>
using Key = std::conditional_t<sizeof(T) <= sizeof(std::uint32_t), std::uint32_t, std::uint64_t>;
template <class T>
Key<T> key_of(T value) {
  constexpr Key<T> sign = Key<T>{1} << (8 * sizeof(Key<T>) - 1);
  if constexpr (std::is_floating_point_v<T>) {
    if (value != value) return ~Key<T>{0};
    const auto bits = std::bit_cast<Key<T>>(value + T(0));                 // of -0 those of 0
    return bits ^ ((Key<T>{0} - (bits >> (8 * sizeof bits - 1))) | sign);  // signs are random: no branch
  } else {
    return static_cast<Key<T>>(value) ^ (std::is_signed_v<T> ? sign : 0);
  }
}

// Elements of a row as numbers in the place of the result, which are compared without reaching for the elements where
// key and position fit into one; else they are positions.
template <class T, bool packed>
struct Items {
  const T* values;
  Key<T> flip;

  Key<T> key(std::int64_t i) const { return key_of(values[i]) ^ flip; }
  std::uint64_t item(std::int64_t i) const {
    if constexpr (packed) return std::uint64_t{key(i)} << 32 | static_cast<std::uint64_t>(i);
    return static_cast<std::uint64_t>(i);
  }
  std::int64_t position(std::uint64_t item) const {
    return static_cast<std::int64_t>(packed ? item & ~std::uint32_t{0} : item);
  }
  bool operator()(std::uint64_t a, std::uint64_t b) const {
    if constexpr (packed) return a < b;
    const Key<T> x = key(static_cast<std::int64_t>(a)), y = key(static_cast<std::int64_t>(b));
    return x < y || (x == y && a < b);
  }
};

// The element at `place` of the order: its position. Its key is found digit by digit, from the highest on, by counting
// those that share the digits before. These are listed after the first digit; then its position among equal ones.
template <class T, bool packed>
std::int64_t select(const Items<T, packed> items, std::int64_t size, std::int64_t place) {
  constexpr int key_bits = 8 * sizeof(Key<T>), digit_bits = 11;
  std::int64_t counts[1 << digit_bits];
  // The digit at `place` among the elements position(0) to position(count - 1). `place` becomes the
  // place among those that have it.
  const auto find_digit = [&](std::int64_t count, int low, int bits, auto position) {
    const Key<T> digit = (Key<T>{1} << bits) - 1;
    std::fill_n(counts, std::size_t{1} << bits, 0);
    for (std::int64_t i = 0; i < count; ++i) ++counts[items.key(position(i)) >> low & digit];
    Key<T> at = 0;
    while (place >= counts[at]) place -= counts[at++];
    return at;
  };
  int low = key_bits - digit_bits;
  Key<T> digit = find_digit(size, low, digit_bits, [](std::int64_t i) { return i; });
  std::int64_t count = counts[digit], kept = 0;
  const auto list = std::make_unique_for_overwrite<std::int64_t[]>(static_cast<std::size_t>(count) + 1);
  for (std::int64_t i = 0; i < size; ++i) {  // the place after the last is written too: no branch
    list[static_cast<std::size_t>(kept)] = i;
    kept += items.key(i) >> low == digit;
  }
  while (low > 0 && count > 1) {
    const int bits = std::min(digit_bits, low);
    low -= bits;
    digit = find_digit(count, low, bits, [&](std::int64_t i) { return list[static_cast<std::size_t>(i)]; });
    const Key<T> mask = (Key<T>{1} << bits) - 1;
    kept = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t position = list[static_cast<std::size_t>(i)];
      list[static_cast<std::size_t>(kept)] = position;
      kept += (items.key(position) >> low & mask) == digit;
    }
    count = kept;
  }
  return list[static_cast<std::size_t>(place)];
}

// The places first, first + 1, ... of the order of a row, `count` of them: the least that are not before the first are
// held as a heap.
template <class T, bool packed>
void select_range(const Items<T, packed> items, const SortSizes sizes, std::uint64_t* heap) {
  const bool from_start = sizes.first == 0;
  const std::uint64_t least = from_start ? 0 : items.item(select(items, sizes.size, sizes.first));
  const auto belongs = [&](std::uint64_t item) { return from_start || !items(item, least); };
  if (sizes.count == 1 && !from_start) {
    heap[0] = least;
    return;
  }
  std::int64_t i = 0;
  for (std::int64_t held = 0; held < sizes.count; ++i)
    if (const std::uint64_t item = items.item(i); belongs(item)) heap[held++] = item;
  std::uint64_t* const end = heap + sizes.count;
  std::make_heap(heap, end, items);
  const auto greatest_key = [&] { return items.key(items.position(heap[0])); };
  for (Key<T> greatest = greatest_key(); i < sizes.size; ++i) {
    if (items.key(i) >= greatest) continue;  // of equal ones the earlier is held
    const std::uint64_t item = items.item(i);
    if (!belongs(item)) continue;
    std::pop_heap(heap, end, items);
    end[-1] = item;
    std::push_heap(heap, end, items);
    greatest = greatest_key();
  }
  std::sort_heap(heap, end, items);
}

// A key of 32 bits above a position. The positions of equal keys ascend, before and after.
using Packed = std::uint64_t;
Packed pack(std::uint64_t key, std::uint64_t position) { return key << 32 | position; }
std::uint64_t position_in(Packed item) { return item & ~std::uint32_t{0}; }

// Sorts by the digits of the keys, the lowest first, from memory to scratch and back. A digit that all keys share takes
// no pass. The counts of all digits are taken in one walk.
template <int digit_bits>
void sort_by_digits(Packed* items, Packed* scratch, std::int64_t size) {
  constexpr int digits = (32 + digit_bits - 1) / digit_bits;
  constexpr std::uint64_t values = std::uint64_t{1} << digit_bits;
  std::uint32_t counts[digits][values] = {};
  const auto digit_of = [](Packed item, int digit) { return item >> (32 + digit * digit_bits) & (values - 1); };
  for (std::int64_t i = 0; i < size; ++i)
    for (int digit = 0; digit < digits; ++digit) ++counts[digit][digit_of(items[i], digit)];
  Packed *from = items, *to = scratch;
  for (int digit = 0; digit < digits; ++digit) {
    std::uint32_t* const places = counts[digit];
    if (places[digit_of(from[0], digit)] == static_cast<std::uint64_t>(size)) continue;
    std::uint32_t before = 0;
    for (std::uint64_t value = 0; value < values; ++value) before += std::exchange(places[value], before);
    for (std::int64_t i = 0; i < size; ++i) to[places[digit_of(from[i], digit)]++] = from[i];
    std::swap(from, to);
  }
  if (from != items) std::copy_n(from, size, items);
}

// Shorter rows are sorted by comparing, and are not worth scratch memory.
constexpr std::int64_t least_digits = 128, least_wide_digits = 1 << 14;

void sort_packed(Packed* items, Packed* scratch, std::int64_t size) {
  if (size < least_digits) return std::sort(items, items + size);
  size < least_wide_digits ? sort_by_digits<8>(items, scratch, size) : sort_by_digits<11>(items, scratch, size);
}

// Packed by as many bits of the keys as fit, from the highest on in which keys of the row differ; runs of keys that are
// equal up to there are sorted by the rest.
template <class Items>
void sort_wide(const Items& items, Packed* order, Packed* scratch, std::int64_t size) {
  std::uint64_t differ = 0;
  for (std::int64_t i = 1; i < size; ++i) differ |= items.key(i) ^ items.key(0);
  const int rest = std::max(0, static_cast<int>(std::bit_width(differ)) - 32);
  const std::uint64_t low = (std::uint64_t{1} << rest) - 1, high = ~std::uint32_t{0};
  for (std::int64_t i = 0; i < size; ++i) order[i] = pack(items.key(i) >> rest & high, static_cast<std::uint64_t>(i));
  sort_packed(order, scratch, size);
  if ((differ & low) == 0) return;
  for (std::int64_t begin = 0, end; begin < size; begin = end) {
    for (end = begin + 1; end < size && order[end] >> 32 == order[begin] >> 32;) ++end;
    if (end - begin == 1) continue;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::uint64_t position = position_in(order[i]);
      order[i] = pack(items.key(static_cast<std::int64_t>(position)) & low, position);
    }
    sort_packed(order + begin, scratch, end - begin);
  }
}

// Of equal elements the position decides.
template <class T, bool packed>
void sort_row(const Sort& it, std::int64_t row, Packed* scratch) {
  const std::int64_t size = it.sizes.size, count = it.sizes.count;
  const Items<T, packed> items{static_cast<const T*>(it.values) + row * size, it.descending ? ~Key<T>{0} : 0};
  auto* const order = reinterpret_cast<std::uint64_t*>(it.order + row * count);
  const bool fits = size < std::int64_t{1} << 32;
  if (count < size) {
    select_range(items, it.sizes, order);
  } else if constexpr (packed) {
    for (std::int64_t i = 0; i < size; ++i) order[i] = items.item(i);
    sort_packed(order, scratch, size);
  } else if (fits) {
    sort_wide(items, order, scratch, size);
  } else {
    for (std::int64_t i = 0; i < size; ++i) order[i] = items.item(i);
    std::sort(order, order + size, items);
  }
  const bool has_keys = packed || (count == size && fits);
  for (std::int64_t i = 0; i < count; ++i)
    it.order[row * count + i] = static_cast<std::int64_t>(has_keys ? position_in(order[i]) : order[i]);
}

template <class T>
void sort_rows(void* context, Chunks& chunks) {
  const Sort& it = *static_cast<const Sort*>(context);
  const std::int64_t size = it.sizes.size;
  std::unique_ptr<Packed[]> scratch;
  if (it.sizes.count == size && size >= least_digits && size < std::int64_t{1} << 32)
    scratch = std::make_unique_for_overwrite<Packed[]>(static_cast<std::size_t>(size));
  for_each_index(chunks, [&](std::int64_t row) {
    if constexpr (sizeof(T) <= sizeof(std::uint32_t))
      if (size < std::int64_t{1} << 32) return sort_row<T, true>(it, row, scratch.get());
    sort_row<T, false>(it, row, scratch.get());
  });
}

using SortRows = void (*)(void*, Chunks&);
SortRows sort_rows_of(DType dtype) {
  switch (dtype) {
#define WEFT_DTYPE(name, text, bits, packing, kind, computed, accumulated, exponent, type)                 \
  case DType::name:                                                                                        \
    if constexpr (DType::computed == DType::name && DType::name != DType::boolean) return sort_rows<type>; \
    break;
#include "weft/dtypes.def"
#undef WEFT_DTYPE
  }
  fail("argsort", {}, "not for ", info(dtype).name);
}

constexpr std::int64_t piece_elements = 1 << 11;  // that pay for another thread

}  // namespace

void argsort(DType dtype, SortSizes sizes, bool descending, const void* values, std::int64_t* order) {
  Sort sort{sizes, descending, values, order};
  const std::int64_t grain = std::max<std::int64_t>(1, piece_elements / std::max<std::int64_t>(sizes.size, 1));
  parallel_for(0, sizes.rows, grain, num_threads(), sort_rows_of(dtype), &sort);
}

}  // namespace weft::runtime
