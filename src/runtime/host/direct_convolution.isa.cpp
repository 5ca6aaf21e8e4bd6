// Blocks of a convolution, compiled once an ISA: some outputs at some positions, accumulated in registers over a slice
// of the sum.
#include "runtime/host/direct_convolution.hpp"

#include <utility>

#include "weft/detail/lanes.hpp"

namespace weft::runtime::WEFT_ISA_NAMESPACE {

namespace {

using namespace weft::lanes;
using Int = std::int64_t;

#if defined(__AVX512F__)
constexpr int lanes = 16, most_vectors = 4, block_positions = 6;  // of 32 registers a block takes 24
#elif defined(__AVX2__)
constexpr int lanes = 8, most_vectors = 2, block_positions = 6;  // of 16 registers a block takes 12
#else
constexpr int lanes = 4, most_vectors = 2, block_positions = 6;
#endif
template <int count>
using Vector = typename native_vector<float, count>::type;
template <int count>
using Unaligned = typename native_vector<float, count>::unaligned;

template <int vectors, int positions>
void block(const ConvolutionSlice& slice, const std::int32_t* at, float* sums, Int count) {
  using V = Vector<lanes>;
  V sum[positions][vectors] = {};
  const float* image[positions];
#pragma GCC unroll 8
  for (int j = 0; j < positions; ++j) image[j] = slice.image + at[j];
  const float* weights = slice.weights;
  const Int depth = slice.depth, before = slice.before;
  const std::int32_t* const taps = slice.taps;
#pragma GCC unroll 2
  for (Int k = 0; k < depth; ++k) {
    const Int tap = taps[k] - before;
    V a[vectors];
#pragma GCC unroll 8
    for (int i = 0; i < vectors; ++i) a[i] = *reinterpret_cast<const Unaligned<lanes>*>(weights + i * lanes);
#pragma GCC unroll 8
    for (int j = 0; j < positions; ++j) {
      const V b = image[j][tap] - V{};
#pragma GCC unroll 8
      for (int i = 0; i < vectors; ++i) sum[j][i] = native_fma(a[i], b, sum[j][i]);
    }
    weights += vectors * lanes;
  }
  const bool add = slice.add;
#pragma GCC unroll 8
  for (int j = 0; j < positions; ++j) {
    if (j >= count) return;
#pragma GCC unroll 8
    for (int i = 0; i < vectors; ++i) {
      auto* const to = reinterpret_cast<Unaligned<lanes>*>(sums + (j * vectors + i) * lanes);
      *to = add ? *to + sum[j][i] : sum[j][i];
    }
  }
}

using Block = decltype(&block<1, 1>);
template <int... more>  // 0, 1, ...
constexpr Block block_of(Int vectors, bool whole, std::integer_sequence<int, more...>) {
  constexpr Block blocks[2][most_vectors] = {{block<more + 1, block_positions - 1>...},
                                             {block<more + 1, block_positions>...}};
  return blocks[whole][vectors - 1];
}

// Blocks of about equal numbers of positions, so that none is nearly empty.
void multiply(const ConvolutionSlice& slice) {
  const Int count = (slice.count + block_positions - 1) / block_positions;
  for (Int i = 0; i < count; ++i) {
    const Int begin = i * slice.count / count, size = (i + 1) * slice.count / count - begin;
    block_of(slice.vectors, size == block_positions, std::make_integer_sequence<int, most_vectors>())(
        slice, slice.positions + begin, slice.sums + begin * slice.vectors * lanes, size);
  }
}

template <int count>
void copy_overlapping(float* to, const float* from, Int size) {
  for (Int i = 0; i + count < size; i += count) __builtin_memcpy(to + i, from + i, count * sizeof(float));
  __builtin_memcpy(to + size - count, from + size - count, count * sizeof(float));
}
// Short rows, many of them.
void copy(float* to, const float* from, Int size) {
  if (size >= 16)
    copy_overlapping<16>(to, from, size);
  else if (size >= 8)
    copy_overlapping<8>(to, from, size);
  else if (size >= 4)
    copy_overlapping<4>(to, from, size);
  else
    for (Int i = 0; i < size; ++i) to[i] = from[i];
}
void copy_rows(const float* from, Int from_step, Int rows, Int columns, float* to, Int to_step) {
  for (Int i = 0; i < rows; ++i) copy(to + i * to_step, from + i * from_step, columns);
}

// Of each four elements of a and b: pairs (0, 0), (1, 1) of them, or (2, 2), (3, 3); the first halves, or the second.
template <int count, int... i>
inline Vector<count> pairs(Vector<count> a, Vector<count> b, Int high, std::integer_sequence<int, i...>) {
  return high ? __builtin_shufflevector(a, b, (i / 4 * 4 + 2 + i % 4 / 2 + i % 2 * count)...)
              : __builtin_shufflevector(a, b, (i / 4 * 4 + i % 4 / 2 + i % 2 * count)...);
}
template <int count, int... i>
inline Vector<count> halves(Vector<count> a, Vector<count> b, Int high, std::integer_sequence<int, i...>) {
  return high ? __builtin_shufflevector(a, b, (i / 4 * 4 + 2 + i % 2 + i % 4 / 2 * count)...)
              : __builtin_shufflevector(a, b, (i / 4 * 4 + i % 2 + i % 4 / 2 * count)...);
}
template <int count, int... i>
inline Vector<count> join(Vector<count / 2> a, Vector<count / 2> b, std::integer_sequence<int, i...>) {
  return __builtin_shufflevector(a, b, i...);
}

// A vector of four rows' pieces of four, `apart` rows from one to the next.
template <int count>
inline Vector<count> pieces(const float* from, Int apart) {
  if constexpr (count == 4) {
    return *reinterpret_cast<const Unaligned<4>*>(from);
  } else {
    const Vector<count / 2> a = pieces<count / 2>(from, apart), b = pieces<count / 2>(from + count / 8 * apart, apart);
    return join<count>(a, b, std::make_integer_sequence<int, count>());
  }
}

// Squares of four by four are transposed, as many at once as a vector has room for.
template <int count>
inline void write_squares(const float* sums, Int width, float* to, Int step) {
  using V = Vector<count>;
  const V a = pieces<count>(sums, 4 * width), b = pieces<count>(sums + width, 4 * width),
          c = pieces<count>(sums + 2 * width, 4 * width), d = pieces<count>(sums + 3 * width, 4 * width);
  const auto store = [&](int i, V x) { *reinterpret_cast<Unaligned<count>*>(to + i * step) = x; };
  constexpr auto all = std::make_integer_sequence<int, count>();
  const V ab_low = pairs<count>(a, b, 0, all), ab_high = pairs<count>(a, b, 1, all),
          cd_low = pairs<count>(c, d, 0, all), cd_high = pairs<count>(c, d, 1, all);
  store(0, halves<count>(ab_low, cd_low, 0, all));
  store(1, halves<count>(ab_low, cd_low, 1, all));
  store(2, halves<count>(ab_high, cd_high, 0, all));
  store(3, halves<count>(ab_high, cd_high, 1, all));
}

void write(const float* sums, Int width, Int outputs, Int positions, float* to, Int step) {
  const auto some = [&]<int count>(Int p, std::integral_constant<int, count>) {
    Int o = 0;
    for (; o + 4 <= outputs; o += 4) write_squares<count>(sums + p * width + o, width, to + o * step + p, step);
    for (; o < outputs; ++o)
      for (Int i = 0; i < count; ++i) to[o * step + p + i] = sums[(p + i) * width + o];
  };
  Int p = 0;
  for (; p + lanes <= positions; p += lanes) some(p, std::integral_constant<int, lanes>());
  for (; p + 4 <= positions; p += 4) some(p, std::integral_constant<int, 4>());
  for (; p < positions; ++p)
    for (Int o = 0; o < outputs; ++o) to[o * step + p] = sums[p * width + o];
}

}  // namespace

const ConvolutionKernels convolution_kernels{multiply, copy_rows, write, lanes, most_vectors, block_positions};

}  // namespace weft::runtime::WEFT_ISA_NAMESPACE
