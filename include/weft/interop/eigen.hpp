// Eigen's matrices, arrays and expressions as tensors, and tensors as Eigen's maps. The only header of Weft that
// includes Eigen, which the program has to have on its include path.
#pragma once
#include <Eigen/Core>
#include <concepts>
#include <utility>

#include "weft/interop/strided.hpp"

namespace weft {
namespace detail {

template <class D>
consteval bool is_eigen_element() {
  static_assert(is_element<typename D::Scalar>,
                "weft: from_eigen takes elements that a tensor can have: write x.cast<double>(), say");
  return true;
}
// An expression of a vector's type has one axis.
template <class D>
StridedMemory memory_of(const D& x) {
  const auto size = [](Eigen::Index n) { return Dim(static_cast<std::int64_t>(n)); };
  StridedMemory memory{.first = x.data(), .dtype = dtype_of<typename D::Scalar>};
  if constexpr (D::IsVectorAtCompileTime) {
    memory.shape.push_back(size(x.size()));
    memory.strides[0] = x.innerStride();
  } else {
    memory.shape = Shape::of(size(x.rows()), size(x.cols()));
    memory.strides[0] = x.rowStride();
    memory.strides[1] = x.colStride();
  }
  return memory;
}
template <class O>
MemoryOwner owner_of(O* object) {
  return {object, [](void* held) { delete static_cast<O*>(held); }};
}

template <class P>
concept EigenTemporary =
    !std::is_reference_v<P> && !std::is_const_v<P> && std::derived_from<P, Eigen::PlainObjectBase<P>>;

template <class T>
struct HeldElements {
  View<const T> held_elements;
};

}  // namespace detail

// A temporary Matrix or Array, or one given away with std::move: becomes the tensor's memory, in the order in which it
// lies. Nothing is copied but the elements of a matrix of fixed size, which lie in the object.
template <detail::EigenTemporary P>
Tensor from_eigen(P&& owned, Loc loc = Loc::current()) {
  static_assert(detail::is_eigen_element<P>());
  auto* held = new P(std::move(owned));
  return detail::adopt_strided("from_eigen", detail::memory_of(*held), Device::cpu(), detail::owner_of(held), loc);
}

// Copies a dense expression (Matrix, Array, Map, Ref, block, ...) in either order and with any strides into a new
// row-major tensor of shape [rows, columns], or [size] where its type is a vector's. An expression that computes is
// evaluated, and its result becomes the tensor's memory.
template <class D>
Tensor from_eigen(const Eigen::DenseBase<D>& x, Loc loc = Loc::current()) {
  static_assert(detail::is_eigen_element<D>());
  if constexpr ((Eigen::internal::traits<D>::Flags & Eigen::DirectAccessBit) != 0)
    return detail::copy_strided("from_eigen", detail::memory_of(x.derived()), loc);
  else
    return from_eigen(typename D::PlainObject(x.derived()), loc);
}

// A tensor over the memory that `x` shows (a Matrix by its pointer, a Map, a Ref, a block), which `owner` keeps
// alive: a std::shared_ptr or another object whose move leaves the elements where they are. The owner is kept until the
// last handle is gone; until then nobody may write to the memory. Copies, and lets go of the owner at once, where the
// first element is not aligned to its size or a stride is negative.
template <class D, class Owner>
requires(!std::convertible_to<Owner, Loc>) Tensor
    from_eigen(const Eigen::DenseBase<D>& x, Owner owner, Loc loc = Loc::current()) {
  static_assert(detail::is_eigen_element<D>());
  static_assert((Eigen::internal::traits<D>::Flags & Eigen::DirectAccessBit) != 0,
                "weft: from_eigen(x, owner): x must show memory, as a Map does, not compute");
  const detail::StridedMemory memory = detail::memory_of(x.derived());
  return detail::adopt_strided("from_eigen", memory, Device::cpu(), detail::owner_of(new Owner(std::move(owner))), loc);
}

// What as_eigen returns: an Eigen::Map that keeps the elements alive. It moves and can't be copied.
template <class T>
class EigenMap : private detail::HeldElements<T>,
                 public Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>> {
 public:
  // The expression of Eigen's that it is.
  using Matrix = Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
  // as_eigen makes it: over these elements, which it keeps alive.
  EigenMap(View<const T> elements, detail::MatrixSize size)
      : detail::HeldElements<T>{std::move(elements)},
        Matrix(this->held_elements.data(), static_cast<Eigen::Index>(size.rows),
               static_cast<Eigen::Index>(size.columns)) {}
};

// The tensor's elements as an expression of Eigen's, row-major: [rows, columns] of rank 2, [size, 1] of rank 1. Reads
// the tensor's own memory; copies where that is not in row-major order or lies on a device. Computes the value. Throws
// where T is not the dtype, and for another rank.
template <class T>
EigenMap<T> as_eigen(const Tensor& tensor, Loc loc = Loc::current()) {
  const detail::MatrixSize size = detail::matrix_size(tensor, loc);
  return EigenMap<T>(tensor.data<T>(loc), size);
}

}  // namespace weft
