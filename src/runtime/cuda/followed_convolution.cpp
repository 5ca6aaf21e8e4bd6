#include "runtime/cuda/followed_convolution.hpp"

#include <algorithm>

#include "base/fail.hpp"

namespace weft::runtime::cuda {

FollowedConvolution::FollowedConvolution(FollowedConvolutionCall what, const Preparation& preparation)
    : what_(std::move(what)),
      sizes_(*what_.dims.known()),
      device_(preparation.device),
      both_(LibraryConvolution::find(device_, sizes_, what_.measures, what_.epilogue)),
      alone_(device_, LibraryConvolution::find(device_, sizes_, what_.measures), what_.dims, what_.offsets,
             preparation.numbers),
      kernel_(preparation, what_.buffers, what_.sizes) {
  WEFT_CHECK(preparation.function(), "the kernel after a convolution has not been compiled");
}

std::size_t FollowedConvolution::between() const {
  constexpr std::size_t alignment = 256;
  std::int64_t elements = sizes_.batch * sizes_.outputs;
  for (std::size_t axis = 0; axis < 2; ++axis) elements *= sizes_.positions[axis];
  return (storage_bytes(sizes_.dtype, elements) + alignment - 1) / alignment * alignment;
}

std::size_t FollowedConvolution::workspace(std::span<const std::int64_t> numbers) const {
  return std::max(between() + alone_.workspace(numbers), both_ ? both_->workspace() : 0);
}

void FollowedConvolution::run(const StepCall& call) const {
  const std::size_t inputs = sizes_.has_bias ? 3 : 2;
  std::vector<void*> of_convolution(call.pointers, call.pointers + inputs), of_kernel, added;
  of_convolution.push_back(call.workspace.data());
  for (std::size_t i = 0, next = inputs; i < what_.buffers; ++i)
    of_kernel.push_back(i == what_.place ? of_convolution.back() : call.pointers[next++]);
  StepCall first = call, second = call;
  first.pointers = of_convolution.data();
  LibraryConvolution::Values values = alone_.values(first);
  values.result = of_kernel[what_.result];
  for (const std::size_t each : what_.added) added.push_back(of_kernel[each]);
  values.added = added;
  std::uintptr_t bits = 0;
  for (const void* each : {values.a, values.b, values.bias, static_cast<const void*>(values.result)})
    bits |= reinterpret_cast<std::uintptr_t>(each);
  for (const void* each : added) bits |= reinterpret_cast<std::uintptr_t>(each);
  if (both_ && bits % 16 == 0) {
    use(device_).keep_while_recorded(call.queue, both_);
    return both_->run(values, call.workspace, call.queue);
  }
  first.workspace = call.workspace.subspan(between());
  alone_.run(first);
  second.pointers = of_kernel.data();
  kernel_.run(second);
}

}  // namespace weft::runtime::cuda
