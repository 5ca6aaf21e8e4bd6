// Tensors and the bytes of files: over a mapped file without a copy, and as elements for writing.
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "base/file.hpp"
#include "ir/node.hpp"

namespace weft::io {

// A tensor over bytes of a mapped file, which hold the elements of `type`, a host's, in row-major order. They are
// copied only where they are not aligned for an element.
Tensor tensor_over(const std::shared_ptr<const MappedFile>& file, const std::uint8_t* bytes, const Type& type, Loc loc);
// Elements in row-major order on the host, for writing. The bytes live as long as the object.
class HostElements {
 public:
  HostElements(const Tensor& value, Loc loc);
  HostElements(HostElements&& other) noexcept;
  ~HostElements();
  std::span<const std::uint8_t> bytes() const { return {data_, size_}; }

 private:
  Tensor value_;
  Storage* storage_ = nullptr;
  const std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace weft::io
