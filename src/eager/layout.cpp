#include "eager/layout.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "runtime/parallel.hpp"

namespace weft::eager {

std::int64_t Sizes::count() const {
  std::int64_t count = 1;
  for (int axis = 0; axis < rank; ++axis) count *= size[axis];
  return count;
}

Sizes sizes_of(const Type& type) {
  Sizes sizes;
  sizes.rank = type.shape.rank();
  for (int axis = 0; axis < sizes.rank; ++axis) {
    WEFT_CHECK(type.shape[axis].is_constant(), "a size is symbolic: ", to_string(type));
    sizes.size[axis] = type.shape[axis].constant();
  }
  return sizes;
}

Layout contiguous_layout(const Sizes& sizes) {
  Layout layout;
  std::int64_t stride = 1;
  for (int axis = sizes.rank - 1; axis >= 0; --axis) {
    layout.strides[axis] = stride;
    stride *= sizes.size[axis];
  }
  return layout;
}

bool is_contiguous(const Sizes& sizes, const Layout& layout) {
  std::int64_t stride = 1;
  bool contiguous = true;
  for (int axis = sizes.rank - 1; axis >= 0; --axis) {
    if (sizes.size[axis] == 0) return true;
    contiguous = contiguous && (sizes.size[axis] == 1 || layout.strides[axis] == stride);
    stride *= sizes.size[axis];
  }
  return contiguous;
}

Walk make_walk(const Sizes& sizes, const Layout& layout) {
  Walk walk;
  walk.offset = layout.offset;
  int& rank = walk.sizes.rank;
  for (int axis = 0; axis < sizes.rank; ++axis) {
    std::int64_t size = sizes.size[axis], stride = layout.strides[axis];
    walk.count *= size;
    if (size == 1) continue;
    if (rank > 0 && walk.strides[rank - 1] == stride * size) {
      walk.sizes.size[rank - 1] *= size;
      walk.strides[rank - 1] = stride;
    } else {
      walk.sizes.size[rank] = size;
      walk.strides[rank++] = stride;
    }
  }
  return walk;
}

namespace {

template <class T>
void copy_run(T* to, const T* from, std::int64_t to_stride, std::int64_t from_stride, std::int64_t count) {
  if (to_stride == 1 && from_stride == 1)
    std::copy_n(from, count, to);
  else if (to_stride == 1 && from_stride == 0)
    std::fill_n(to, count, *from);
  else if (to_stride == 1 && from_stride == 2)  // shuffles of whole vectors
    for (std::int64_t i = 0; i < count; ++i) to[i] = from[i * 2];
  else if (to_stride == 1)
    for (std::int64_t i = 0; i < count; ++i) to[i] = from[i * from_stride];
  else
    for (std::int64_t i = 0; i < count; ++i) to[i * to_stride] = from[i * from_stride];
}

// The position in a walk, axis by axis.
struct Cursor {
  const Walk& walk;
  std::int64_t index[max_rank] = {};
  std::int64_t element;

  Cursor(const Walk& walk, std::int64_t begin) : walk(walk), element(walk.offset) {
    for (int axis = walk.sizes.rank - 1; axis >= 0; --axis) {
      index[axis] = begin % walk.sizes.size[axis];
      begin /= walk.sizes.size[axis];
      element += index[axis] * walk.strides[axis];
    }
  }
  int last() const { return walk.sizes.rank - 1; }
  // How many elements are left of the innermost run.
  std::int64_t run() const { return walk.sizes.rank == 0 ? 1 : walk.sizes.size[last()] - index[last()]; }
  void advance(std::int64_t count) {  // by at most run()
    if (walk.sizes.rank == 0) return;
    index[last()] += count;
    element += count * walk.strides[last()];
    for (int axis = last(); axis > 0 && index[axis] == walk.sizes.size[axis]; --axis) {
      element += walk.strides[axis - 1] - index[axis] * walk.strides[axis];
      index[axis] = 0;
      ++index[axis - 1];
    }
  }
};

template <class T>
const void* gather_as(const Walk& walk, const void* data, std::int64_t begin, std::int64_t count, void* scratch) {
  const T* from = static_cast<const T*>(data);
  if (walk.contiguous()) return from + walk.offset + begin;
  T* to = static_cast<T*>(scratch);
  Cursor cursor(walk, begin);
  std::int64_t stride = walk.strides[cursor.last()];
  if (stride == 1 && cursor.run() >= count) return from + cursor.element;
  while (count > 0) {
    std::int64_t run = std::min(cursor.run(), count);
    copy_run(to, from + cursor.element, 1, stride, run);
    cursor.advance(run);
    to += run;
    count -= run;
  }
  return scratch;
}

// Two walks over the same sizes: axes are merged where both allow it.
struct CopyWalk {
  Walk to, from;
};
CopyWalk make_copy_walk(const Sizes& sizes, const Layout& to, const Layout& from) {
  CopyWalk walk;
  walk.to.offset = to.offset;
  walk.from.offset = from.offset;
  int rank = 0;
  for (int axis = 0; axis < sizes.rank; ++axis) {
    std::int64_t size = sizes.size[axis];
    walk.to.count *= size;
    if (size == 1) continue;
    bool merges = rank > 0 && walk.to.strides[rank - 1] == to.strides[axis] * size &&
                  walk.from.strides[rank - 1] == from.strides[axis] * size;
    int place = merges ? rank - 1 : rank++;
    walk.to.sizes.size[place] = merges ? walk.to.sizes.size[place] * size : size;
    walk.to.strides[place] = to.strides[axis];
    walk.from.strides[place] = from.strides[axis];
  }
  // The last axis is one loop: a short one is exchanged for the one before it.
  if (rank > 1 && walk.to.sizes.size[rank - 1] < 8 && walk.to.sizes.size[rank - 2] > walk.to.sizes.size[rank - 1]) {
    std::swap(walk.to.sizes.size[rank - 1], walk.to.sizes.size[rank - 2]);
    for (Walk* each : {&walk.to, &walk.from}) std::swap(each->strides[rank - 1], each->strides[rank - 2]);
  }
  walk.from.count = walk.to.count;
  walk.to.sizes.rank = rank;
  walk.from.sizes = walk.to.sizes;
  return walk;
}

template <class T>
void copy_as(const CopyWalk& walk, void* to, const void* from, std::int64_t begin, std::int64_t end) {
  Cursor target(walk.to, begin), source(walk.from, begin);
  std::int64_t to_stride = 1, from_stride = 1;
  if (walk.to.sizes.rank > 0) {
    to_stride = walk.to.strides[target.last()];
    from_stride = walk.from.strides[source.last()];
  }
  for (std::int64_t left = end - begin; left > 0;) {
    std::int64_t run = std::min(target.run(), left);
    copy_run(static_cast<T*>(to) + target.element, static_cast<const T*>(from) + source.element, to_stride, from_stride,
             run);
    target.advance(run);
    source.advance(run);
    left -= run;
  }
}

constexpr std::int64_t copy_grain = 1 << 16;  // elements that one thread copies at least
constexpr std::int64_t tile = 32;

// The axis along which the source is contiguous where the target is so along the last one: copied row by row, every
// element would touch a cache line of its own. -1: none.
int transposed_axis(const Walk& to, const Walk& from) {
  int last = to.sizes.rank - 1;
  if (last < 1 || to.strides[last] != 1 || from.strides[last] <= 1 || to.sizes.size[last] < 8) return -1;
  for (int axis = 0; axis < last; ++axis)
    if (from.strides[axis] == 1 && to.sizes.size[axis] >= 8) return axis;
  return -1;
}

// Units `begin` to `end` of: every other axis, times bands of `tile` along `across`.
template <class T>
void copy_tiles(const CopyWalk& walk, int across, T* to, const T* from, std::int64_t begin, std::int64_t end) {
  const Sizes& sizes = walk.to.sizes;
  int last = sizes.rank - 1;
  std::int64_t bands = (sizes.size[across] + tile - 1) / tile;
  std::int64_t step = walk.to.strides[across], jump = walk.from.strides[last], length = sizes.size[last];
  for (std::int64_t unit = begin; unit < end; ++unit) {
    std::int64_t rest = unit / bands, target = walk.to.offset, source = walk.from.offset;
    for (int axis = last - 1; axis >= 0; --axis) {
      if (axis == across) continue;
      target += rest % sizes.size[axis] * walk.to.strides[axis];
      source += rest % sizes.size[axis] * walk.from.strides[axis];
      rest /= sizes.size[axis];
    }
    std::int64_t first = unit % bands * tile, stop = std::min(first + tile, sizes.size[across]);
    for (std::int64_t column = 0; column < length; column += tile) {
      std::int64_t width = std::min(tile, length - column);
      for (std::int64_t row = first; row < stop; ++row) {
        T* out = to + target + row * step + column;
        const T* in = from + source + row + column * jump;
        for (std::int64_t i = 0; i < width; ++i) out[i] = in[i * jump];
      }
    }
  }
}

// Calls f with a pointer type of the element's width.
template <class Function>
auto with_element(std::size_t bytes, Function f) {
  switch (bytes) {
    case 1: return f(std::uint8_t{});
    case 2: return f(std::uint16_t{});
    case 4: return f(std::uint32_t{});
    default: return f(std::uint64_t{});
  }
}

}  // namespace

const void* gather_block(const Walk& walk, const void* data, std::size_t element, std::int64_t begin,
                         std::int64_t count, void* scratch) {
  return with_element(element, [&]<class T>(T) { return gather_as<T>(walk, data, begin, count, scratch); });
}

void copy_elements(const Sizes& sizes, std::size_t element, void* to, const Layout& to_layout, const void* from,
                   const Layout& from_layout) {
  struct Job {
    CopyWalk walk;
    int across;
    std::size_t element;
    void* to;
    const void* from;
  } job{make_copy_walk(sizes, to_layout, from_layout), -1, element, to, from};
  const Walk& walk = job.walk.to;
  job.across = transposed_axis(walk, job.walk.from);
  auto body = [](void* context, std::int64_t begin, std::int64_t end) {
    const Job& job = *static_cast<Job*>(context);
    with_element(job.element, [&]<class T>(T) {
      if (job.across < 0)
        copy_as<T>(job.walk, job.to, job.from, begin, end);
      else
        copy_tiles(job.walk, job.across, static_cast<T*>(job.to), static_cast<const T*>(job.from), begin, end);
    });
  };
  if (job.across < 0 || walk.count == 0) return parallel_for(0, walk.count, copy_grain, body, &job);
  std::int64_t size = walk.sizes.size[job.across], length = walk.sizes.size[walk.sizes.rank - 1];
  std::int64_t units = walk.count / size / length * ((size + tile - 1) / tile);
  parallel_for(0, units, std::max<std::int64_t>(1, copy_grain / (tile * length)), body, &job);
}

bool walks_badly(const Walk& walk) {
  int last = walk.sizes.rank - 1;
  if (walk.count < 4096 || last < 1 || walk.strides[last] < 8) return false;
  return std::find(walk.strides, walk.strides + last, 1) != walk.strides + last;
}

std::optional<Layout> reshape_layout(const Sizes& from, const Layout& layout, const Sizes& to) {
  Layout result;
  result.offset = layout.offset;
  if (is_contiguous(from, layout)) {
    result = contiguous_layout(to);
    result.offset = layout.offset;
    return result;
  }
  // Each merged axis of the source must be a whole group of result axes.
  Walk walk = make_walk(from, layout);
  int axis = to.rank - 1;
  for (int group = walk.sizes.rank - 1; group >= 0; --group) {
    std::int64_t stride = walk.strides[group], left = walk.sizes.size[group];
    for (; left > 1; --axis) {
      if (axis < 0 || left % to.size[axis] != 0) return {};
      result.strides[axis] = stride;
      stride *= to.size[axis];
      left /= to.size[axis];
    }
  }
  return result;  // axes that remain have size 1
}

}  // namespace weft::eager
