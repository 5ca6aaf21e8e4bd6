#include "runtime/cuda/followed_product.hpp"

#include <array>
#include <atomic>

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
      keeps_(what.keeps),
      bias_(what.bias),
      aux_(what.aux),
      result_(what.result) {
  WEFT_CHECK(product_.is_constant() && what.place < what.buffers && what.buffers <= most_followed_buffers,
             "a product that a kernel follows has sizes that are known");
  if (const auto epilogue = static_cast<Epilogue>(what.by_library); epilogue != Epilogue::none) {
    Matmul product = product_.product(preparation.numbers.constants());
    product.has_bias |= bias_ < buffers_;
    library_with_ = LibraryProduct::make(device_, product, what.product.measures, epilogue);
  } else {
    both_ = std::make_unique<const TensorCoreProduct>(device_, what.product, Compiled(of_inner(preparation, 0)),
                                                      what.product.measures, what.epilogue);
  }
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
  if (bits % 16 != 0) return one_by_one();
  if (both_) {
    if (!both_->run(at.a, at.b, at.bias, at.c, one_by_one, call.queue, words.data())) one_by_one();
    return;
  }
  if (!library_with_ || refused_.load(std::memory_order_relaxed)) return one_by_one();
  try {
    library_with_->run(at.a, at.b, bias_ < buffers_ ? words[bias_] : at.bias, words[result_], call.queue,
                       keeps_            ? at.c
                       : aux_ < buffers_ ? words[aux_]
                                         : nullptr);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error&) {  // no kernel of the library does it
    refused_.store(true, std::memory_order_relaxed);
    one_by_one();
  }
}

}  // namespace weft::runtime::cuda
