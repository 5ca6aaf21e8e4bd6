#include "runtime/cuda/followed_product.hpp"

#include <array>

#include "base/fail.hpp"
#include "runtime/cuda/steps.hpp"

namespace weft::runtime::cuda {

namespace {
Preparation of_inner(const Preparation& preparation, std::size_t number) {
  WEFT_CHECK(preparation.entry.inner.size() == 2, "a product and what follows it are two functions");
  return {preparation.device, preparation.numbers, preparation.functions, preparation.entry.inner[number]};
}
}  // namespace

FollowedProduct::FollowedProduct(const FollowedProductFields& what, const Preparation& preparation)
    : product_(what.product, preparation.numbers),
      device_(use(preparation.device)),
      inputs_(what.product.has_bias ? 3 : 2),
      buffers_(what.buffers),
      place_(what.place),
      keeps_(what.keeps) {
  WEFT_CHECK(product_.is_constant() && what.place < what.buffers && what.buffers <= most_followed_buffers,
             "a product that a kernel follows has sizes that are known");
  both_ = std::make_unique<const TensorCoreProduct>(device_, what.product, Compiled(of_inner(preparation, 0)),
                                                    what.product.measures, what.epilogue);
  library_ = LibraryProduct::make(device_, product_.product(preparation.numbers.constants()), what.product.measures);
  kernel_ = std::make_unique<const DeviceKernel>(of_inner(preparation, 1), what.buffers, what.sizes);
}

// Of a plan of this machine's cache, where nothing else is asked of a generated kernel.
bool FollowedProduct::fits(std::span<const std::int64_t>, std::span<const Room> rooms) const {
  return rooms.size() == inputs_ + buffers_ - (keeps_ ? 0 : 1);
}

std::size_t FollowedProduct::workspace(std::span<const std::int64_t> numbers) const {
  const Matmul p = product_.product(numbers);
  return keeps_ ? 0 : static_cast<std::size_t>(storage_bytes(p.dtype, p.m * p.n));
}

void FollowedProduct::run(const StepCall& call) const {
  std::array<void*, most_followed_buffers + 1> words{};  // Arguments<buffers, 1>
  for (std::size_t i = 0, next = inputs_; i < buffers_; ++i)
    words[i] = i == place_ && !keeps_ ? call.workspace.data() : call.pointers[next++];
  std::array<void*, 4> operands{};
  std::copy_n(call.pointers, inputs_, operands.begin());
  operands[inputs_] = words[place_];
  const ProductNumbers::Operands at = product_.first(operands.data(), call.numbers);
  const auto one_by_one = [&] {
    WEFT_CHECK(library_, "a product that cuBLASLt does not take");
    library_->run(at.a, at.b, at.bias, at.c, call.queue);
    StepCall of_kernel = call;
    of_kernel.pointers = words.data();
    kernel_->run(of_kernel);
  };
  std::uintptr_t bits = 0;
  for (std::size_t i = 0; i < buffers_; ++i) bits |= reinterpret_cast<std::uintptr_t>(words[i]);
  if (bits % 16 != 0 || !both_->run(at.a, at.b, at.bias, at.c, one_by_one, call.queue, words.data())) one_by_one();
}

}  // namespace weft::runtime::cuda
