#include "schedule/index_map.hpp"

#include "base/fail.hpp"

namespace weft {

Dim linear_index(const Shape& shape, const IndexVector& index) {
  Dim linear = 0;
  for (int i = 0; i < shape.rank(); ++i) linear = linear * shape[i] + index[static_cast<std::size_t>(i)];
  return linear;
}

namespace {

// Linear index out of the one shape, split into the other. Axes that both shapes have at the front and at the back are
// passed on as they are, so that symbolic sizes need no division there.
IndexVector reshape_index(const Shape& to, const Shape& from, const IndexVector& index) {
  int front = 0;
  while (front < to.rank() && front < from.rank() && to[front].same(from[front])) ++front;
  int back = 0;
  while (back < to.rank() - front && back < from.rank() - front &&
         to[to.rank() - 1 - back].same(from[from.rank() - 1 - back]))
    ++back;
  IndexVector result(static_cast<std::size_t>(from.rank()), Dim(0));
  for (int i = 0; i < front; ++i) result[static_cast<std::size_t>(i)] = index[static_cast<std::size_t>(i)];
  for (int i = 0; i < back; ++i)
    result[static_cast<std::size_t>(from.rank() - 1 - i)] = index[static_cast<std::size_t>(to.rank() - 1 - i)];
  Dim linear = 0;
  for (int i = front; i < to.rank() - back; ++i) linear = linear * to[i] + index[static_cast<std::size_t>(i)];
  int first = front;
  while (first < from.rank() - back && from[first].same(Dim(1))) ++first;
  for (int i = from.rank() - back - 1; i >= front; --i) {
    if (from[i].same(Dim(1))) continue;
    if (from[i].same(Dim(0))) break;
    result[static_cast<std::size_t>(i)] = i == first ? linear : linear % from[i];
    if (i != first) linear = linear / from[i];
  }
  return result;
}

}  // namespace

IndexVector map_through_view(const Node& view, const IndexVector& index) {
  const Type& source = type_of(view.input(0));
  auto rank = static_cast<std::size_t>(source.shape.rank());
  IndexVector result(rank, Dim(0));
  switch (view.op) {
    case Op::permute:
      for (std::size_t i = 0; i < rank; ++i) {
        result[view.attributes<Permute>().axes[i]] = index[i];
      }
      return result;
    case Op::expand: {
      std::size_t lead = index.size() - rank;
      for (std::size_t i = 0; i < rank; ++i)
        if (!source.shape[static_cast<int>(i)].same(Dim(1))) result[i] = index[i + lead];
      return result;
    }
    case Op::slice: {
      result = index;
      const auto& slice = view.attributes<Slice>();
      Dim start = slice.start;
      result[slice.axis] = start + index[slice.axis] * Dim(slice.step);
      return result;
    }
    case Op::windows: {
      const auto& windows = view.attributes<Windows>();
      for (std::size_t i = 0; i < rank; ++i) result[i] = index[i + (i > windows.axis)];
      result[windows.axis] = index[windows.axis + 1u] * Dim(windows.step) + index[windows.axis] * Dim(windows.dilation);
      return result;
    }
    case Op::reshape: return reshape_index(view.type.shape, source.shape, index);
    default: return index;  // identities
  }
}

PartElement map_into_part(const Node& node, std::size_t part, const IndexVector& index) {
  PartElement result{index, {}};
  if (node.op == Op::pad) {
    const auto& pad = node.attributes<Pad>();
    const Dim size = type_of(node.input(0)).shape[pad.axis], step = pad.interior + 1;
    const Dim place = index[pad.axis] - pad.before;
    result.tests = {place, (size - Dim(1)) * step - place};
    if (pad.interior > 0) result.tests.push_back(Dim(0) - place % step);
    result.index[pad.axis] = size.same(Dim(1)) ? Dim(0) : place / step;
    return result;
  }
  const std::size_t axis = node.attributes<Along>().axis;
  Dim start = 0;
  for (std::size_t i = 0; i < part; ++i) start = start + type_of(node.input(i)).shape[static_cast<int>(axis)];
  const Dim size = type_of(node.input(part)).shape[static_cast<int>(axis)], place = index[axis] - start;
  result.tests = {place, size - Dim(1) - place};
  result.index[axis] = size.same(Dim(1)) ? Dim(0) : place;
  return result;
}

}  // namespace weft
