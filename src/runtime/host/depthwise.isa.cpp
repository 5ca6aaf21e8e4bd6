// Depthwise convolutions of some channels, compiled once an ISA.
#include "runtime/host/depthwise.hpp"

#include <algorithm>
#include <utility>

#include "weft/detail/lanes.hpp"

namespace weft::runtime::WEFT_ISA_NAMESPACE {

namespace {

using namespace weft::lanes;
using Int = std::int64_t;

// With AVX-512 too: most loads of 64 bytes would cross lines.
#if defined(__AVX2__)
constexpr int width = 8;
#else
constexpr int width = 4;
#endif
template <int count>
using Vector = typename native_vector<float, count>::type;
template <int count>
using Unaligned = typename native_vector<float, count>::unaligned;

template <int w>
inline Vector<w> load(const float* from) {
  return *reinterpret_cast<const Unaligned<w>*>(from);
}
template <int w>
inline void store(float* to, Vector<w> x) {
  *reinterpret_cast<Unaligned<w>*>(to) = x;
}
template <int w>
inline Vector<w> fma_of(Vector<w> a, Vector<w> b, Vector<w> c) {
#if defined(__AVX512F__)
  if constexpr (w == 8)
    return __builtin_ia32_vfmaddps256(a, b, c);
  else
#endif
    return native_fma(a, b, c);
}

// So many elements, of which the last ones may be written twice.
template <int w>
inline void copy_row(float* to, const float* from, Int count) {
  if (count >= w) {
    for (Int i = 0; i + w < count; i += w) store<w>(to + i, load<w>(from + i));
    store<w>(to + count - w, load<w>(from + count - w));
  } else if constexpr (w > 4) {
    copy_row<w / 2>(to, from, count);
  } else {
    for (Int i = 0; i < count; ++i) to[i] = from[i];
  }
}

// The even elements, and the odd ones.
template <int w, int... i>
inline void split_pair(float* even, float* odd, const float* from, std::integer_sequence<int, i...>) {
  const Vector<w> a = load<w>(from), b = load<w>(from + w);
  store<w>(even, __builtin_shufflevector(a, b, 2 * i...));
  store<w>(odd, __builtin_shufflevector(a, b, (2 * i + 1)...));
}
inline void split_row(float* row, Int half, Int low, const float* from, Int count) {
  Int i = 0;
  const auto one = [&] { row[(low + i) % 2 * half + (low + i) / 2] = from[i], ++i; };
  const auto pairs = [&]<int w>(std::integral_constant<int, w>) {
    const Int end = i + (count - i) / 2 * 2;
    if (end - i < 2 * w) return false;
    for (; i < end; i += 2 * w) {
      const Int at = std::min(i, end - 2 * w);  // the last ones may be written twice
      split_pair<w>(row + (low + at) / 2, row + half + (low + at) / 2, from + at, std::make_integer_sequence<int, w>());
    }
    i = end;
    return true;
  };
  if (low % 2 && count > 0) one();
  if (!pairs(std::integral_constant<int, width>())) pairs(std::integral_constant<int, 4>());
  while (i < count) one();
}

void put_into_frame(const DepthwiseSizes& sizes, const float* image, float* frame) {
  const Int rows = std::min(sizes.size[0], sizes.framed(0) - sizes.low[0]),
            columns = std::min(sizes.size[1], sizes.framed(1) - sizes.low[1]), pitch = sizes.pitch();
  for (Int i = 0; i < rows; ++i) {
    float* const row = frame + (i + sizes.low[0]) * pitch;
    const float* const from = image + i * sizes.size[1];
    if (sizes.step[1] == 2)
      split_row(row, sizes.half(), sizes.low[1], from, columns);
    else
      copy_row<width>(row + sizes.low[1], from, columns);
  }
}

// A vector of results in each of `rows` rows, from `to` on, where the plane has `left` elements: an element of the
// frame is read once for all kernel rows. What a row has too many lies in the rows below it, which are written after
// it. `kernel`, `step`: kernel rows, and rows from a result to the next.
template <int rows, int kernel, int step>
void block(const DepthwiseSizes& sizes, const float* weight, const float* at, float* to, Int left) {
  const Int pitch = sizes.pitch(), half = sizes.half(), across = sizes.kernel[1], columns = sizes.positions[1];
  const bool split = sizes.step[1] == 2;
  constexpr int w = width;
  Vector<w> sum[rows] = {};
  for (Int kx = 0; kx < across; ++kx) {
    const float* const tap = split ? at + kx % 2 * half + kx / 2 : at + kx;
    Vector<w> k[kernel];
#pragma GCC unroll 8
    for (int ky = 0; ky < kernel; ++ky) k[ky] = weight[ky * across + kx] - Vector<w>{};
#pragma GCC unroll 32
    for (int i = 0; i < (rows - 1) * step + kernel; ++i) {
      const Vector<w> x = load<w>(tap + i * pitch);
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r)
        if (i - r * step >= 0 && i - r * step < kernel) sum[r] = fma_of<w>(x, k[i - r * step], sum[r]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
    const Int offset = r * columns;
    if (offset + w <= left) {
      store<w>(to + offset, sum[r]);
    } else {
      float some[w];
      store<w>(some, sum[r]);
      for (Int i = 0; i < left - offset; ++i) to[offset + i] = some[i];
    }
  }
}
// The same of one row, of any kernel.
void row_of_any(const DepthwiseSizes& sizes, const float* weight, const float* at, float* to, Int left) {
  constexpr int w = width;
  Vector<w> sum = {};
  for (Int ky = 0; ky < sizes.kernel[0]; ++ky, at += sizes.pitch())
    for (Int kx = 0; kx < sizes.kernel[1]; ++kx) {
      const Vector<w> k = *weight++ - Vector<w>{};
      sum = fma_of<w>(load<w>(sizes.step[1] == 2 ? at + kx % 2 * sizes.half() + kx / 2 : at + kx), k, sum);
    }
  float some[w];
  store<w>(some, sum);
  for (Int i = 0; i < w && i < left; ++i) to[i] = some[i];
}

struct Blocks {
  void (*run)(const DepthwiseSizes&, const float* weight, const float* at, float* to, Int left);
  int rows;
};
Blocks blocks_of(const DepthwiseSizes& sizes) {
  constexpr int rows = 7;  // of the usual sizes, 7, 14, 28, 56 and 112, none is left
  const Int kernel = sizes.kernel[0], step = sizes.step[0];
  if (sizes.positions[0] >= rows && kernel == 3 && step == 1) return {block<rows, 3, 1>, rows};
  if (sizes.positions[0] >= rows && kernel == 3 && step == 2) return {block<rows, 3, 2>, rows};
  if (sizes.positions[0] >= rows && kernel == 5 && step == 1) return {block<rows, 5, 1>, rows};
  if (sizes.positions[0] >= rows && kernel == 5 && step == 2) return {block<rows, 5, 2>, rows};
  return {row_of_any, 1};
}

void run(const DepthwiseSizes& sizes, Int channels, const float* input, const float* weight, float* output,
         float* frame) {
  const Int height = sizes.positions[0], columns = sizes.positions[1], down = sizes.step[0] * sizes.pitch();
  const Blocks blocks = blocks_of(sizes);
  std::fill_n(frame, sizes.frame(), 0.0f);
  for (Int channel = 0; channel < channels; ++channel) {
    put_into_frame(sizes, input, frame);
    for (Int row = 0; row < height; row += blocks.rows)
      for (Int column = 0; column < columns; column += width) {
        // The last ones again where too few are left.
        const Int y = std::min(row, height - blocks.rows), x = std::max<Int>(0, std::min(column, columns - width));
        blocks.run(sizes, weight, frame + y * down + x, output + y * columns + x, (height - y) * columns - x);
      }
    input += sizes.size[0] * sizes.size[1];
    weight += sizes.kernel[0] * sizes.kernel[1];
    output += height * columns;
  }
}

}  // namespace

const DepthwiseKernels depthwise_kernels{run};

}  // namespace weft::runtime::WEFT_ISA_NAMESPACE
