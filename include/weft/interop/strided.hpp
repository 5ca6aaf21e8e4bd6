// Memory of others with strides: copied into a tensor, or adopted as a tensor's memory. Strides count elements.
#pragma once
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "weft/tensor.hpp"

namespace weft {
namespace detail {

// Elements at first[sum of index times stride].
struct StridedMemory {
  const void* first = nullptr;
  DType dtype = DType::f32;
  Shape shape = {};
  std::int64_t strides[max_rank] = {};
};
// What the memory belongs to. drop(object) is called once.
struct MemoryOwner {
  void* object;
  void (*drop)(void* object);
};
// A tensor with a copy of the elements, which lie on the host.
Tensor copy_strided(const char* operation, const StridedMemory& memory, Loc loc);
// A tensor over the memory itself. The owner is dropped when no handle is left, or before an error is thrown. Elements
// are copied, and the owner dropped at once, where they are misaligned: on the host to an element, on a device to 16
// bytes; on the host where a stride is negative too. Throws where a device's are not in row-major order.
Tensor adopt_strided(const char* operation, const StridedMemory& memory, Device device, MemoryOwner owner, Loc loc);
// Throws where the strides are not one for each axis, or reach elements outside the `count` that there are.
StridedMemory checked_strides(const char* operation, const void* from, DType dtype, const Shape& shape,
                              std::span<const std::int64_t> strides, std::size_t count, Loc loc);

// Rows and columns of a tensor of rank 1 (a column) or 2, for as_eigen. Throws for another rank.
struct MatrixSize {
  std::int64_t rows, columns;
};
MatrixSize matrix_size(const Tensor& tensor, Loc loc);

// What std::mdspan with a strided layout offers.
template <class M>
concept Mdspan = requires(const M& m) {
  { *m.data_handle() } -> std::convertible_to<typename M::value_type>;
  m.extent(0);
  m.stride(0);
  M::rank();
};

}  // namespace detail

// Copies the element at index (i, j, ...) from from[i * strides[0] + j * strides[1] + ...] into a new row-major tensor
// of these sizes. A stride may be 0, which repeats elements. Throws where there is not one stride for each size, and
// where an index lies outside `from`.
template <class T>
requires is_element<std::remove_const_t<T>> Tensor from_strided(std::span<T> from, Sizes sizes,
                                                                const std::vector<std::int64_t>& strides,
                                                                Loc loc = Loc::current()) {
  return detail::copy_strided("from_strided",
                              detail::checked_strides("from_strided", from.data(), dtype_of<std::remove_const_t<T>>,
                                                      sizes.shape(), strides, from.size(), loc),
                              loc);
}
template <detail::Elements R>
Tensor from_strided(const R& from, Sizes sizes, const std::vector<std::int64_t>& strides, Loc loc = Loc::current()) {
  return from_strided(std::span<typename detail::SpanOf<const R>::element_type>(from), sizes, strides, loc);
}

// Copies what a std::mdspan (or a class with its members) of at most 8 axes shows into a new row-major tensor. The
// layout may be any that has strides.
template <detail::Mdspan M>
requires is_element<typename M::value_type> Tensor from_mdspan(const M& from, Loc loc = Loc::current()) {
  static_assert(M::rank() <= max_rank, "weft: a tensor has at most 8 axes");
  detail::StridedMemory memory{.dtype = dtype_of<typename M::value_type>};
  std::size_t count = 1;
  for (std::size_t axis = 0; axis < M::rank(); ++axis) {
    memory.shape.push_back(Dim(static_cast<std::int64_t>(from.extent(axis))));
    memory.strides[axis] = static_cast<std::int64_t>(from.stride(axis));
    count *= static_cast<std::size_t>(from.extent(axis));
  }
  if (count) memory.first = &*from.data_handle();
  return detail::copy_strided("from_mdspan", memory, loc);
}

}  // namespace weft
