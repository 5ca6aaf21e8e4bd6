#include "runtime/cuda/followed_product.hpp"

#include <algorithm>
#include <array>

#include "base/fail.hpp"

namespace weft::runtime::cuda {

FollowedProduct::FollowedProduct(const FollowedProductCall& what, const Preparation& preparation)
    : what_(what),
      product_(what.product, preparation.numbers),
      inputs_(what.product.has_bias ? 3 : 2),
      kernel_(preparation, what.buffers, what.sizes) {
  WEFT_CHECK(product_.is_constant() && preparation.function() && what.buffers <= most_followed_buffers,
             "a product that a kernel follows has sizes that are known");
  DeviceState& device = use(preparation.device);
  Matmul product = product_.product(preparation.numbers.constants());
  alone_ = LibraryProduct::make(device, product, what.product.measures);
  product.has_bias |= what.bias < what.buffers;
  both_ = LibraryProduct::make(device, product, what.product.measures, what.epilogue);
  WEFT_CHECK(alone_ && both_, "a product that cuBLASLt does not take");
}

std::size_t FollowedProduct::workspace(std::span<const std::int64_t> numbers) const {
  const Matmul p = product_.product(numbers);
  return what_.keeps ? 0 : static_cast<std::size_t>(storage_bytes(p.dtype, p.m * p.n));
}

void FollowedProduct::run(const StepCall& call) const {
  std::array<void*, most_followed_buffers> buffers{};  // of the kernel
  std::uintptr_t bits = 0;
  for (std::size_t i = 0, next = inputs_; i < what_.buffers; ++i) {
    buffers[i] = i == what_.place && !what_.keeps ? call.workspace.data() : call.pointers[next++];
    bits |= reinterpret_cast<std::uintptr_t>(buffers[i]);
  }
  std::array<void*, 4> operands{};
  std::copy_n(call.pointers, inputs_, operands.begin());
  operands[inputs_] = buffers[what_.place];
  const ProductNumbers::Operands at = product_.first(operands.data(), call.numbers);
  for (const void* each : {at.a, at.b, at.bias}) bits |= reinterpret_cast<std::uintptr_t>(each);
  if (bits % 16 == 0 && !refused_.load(std::memory_order_relaxed)) {
    const void* const bias = what_.bias < what_.buffers ? buffers[what_.bias] : at.bias;
    const void* const aux = what_.keeps ? at.c : what_.aux < what_.buffers ? buffers[what_.aux] : nullptr;
    try {
      return both_->run(at.a, at.b, bias, buffers[what_.result], call.queue, aux);
    } catch (const NoLibraryKernel&) {
      refused_.store(true, std::memory_order_relaxed);
    }
  }
  alone_->run(at.a, at.b, at.bias, at.c, call.queue);
  StepCall of_kernel = call;
  of_kernel.pointers = buffers.data();
  kernel_.run(of_kernel);
}

}  // namespace weft::runtime::cuda
