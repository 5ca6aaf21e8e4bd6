// Offloading: memory of a device for copies. What is computed inside of an offloaded function, and read again much
// later, by its derivative, waits for that in the host's memory.
//   x = offload([&](const Tensor& x) { return block(x); })(x);
#pragma once
#include <concepts>
#include <type_traits>
#include <utility>

#include "weft/detail/invoke.hpp"
#include "weft/tensor.hpp"

namespace weft {
namespace detail {

// What this thread records until the end of the block may wait in the host's memory.
class OffloadScope {
 public:
  OffloadScope();
  ~OffloadScope();
  OffloadScope(const OffloadScope&) = delete;

 private:
  bool before_;
};

}  // namespace detail

// A function whose inner values may wait in the host's memory; offload() makes it.
template <class F>
class Offloaded {
 public:
  // offload() makes it.
  explicit Offloaded(F f) : f_(std::move(f)) {}
  // What f gives.
  template <class... T>
  requires std::invocable<const F&, T...>
  decltype(auto) operator()(T&&... arguments) const {
    const detail::OffloadScope scope;
    return detail::invoke(f_, std::forward<T>(arguments)...);
  }

 private:
  F f_;
};

// f, with the same values and gradients, bit for bit. In a step that is compiled whole and runs on a device, a value
// that is computed inside of f and read again much later, as by the derivative, is copied to page-locked memory of the
// host once it is there, beside the steps that follow. Its memory on the device is free for others until, ahead of the
// step that reads it, it is copied back. What is small, read soon, or of what is offloaded made last, stays; so do
// arguments of f that are computed outside of it. On the CPU, eagerly, for the derivative of a compiled function that
// is differentiated outside, and inside the bodies of loops, it is f alone. f may be anything that can be called,
// return anything, change its arguments and read values; it may be used inside vmap, jvp and checkpoint, and they
// inside of it. A call throws what f throws, and OutOfMemory where the host has no page-locked memory left.
template <class F>
auto offload(F&& f) {
  constexpr bool is_value = std::is_same_v<std::decay_t<F>, Tensor> || std::is_arithmetic_v<std::decay_t<F>>;
  static_assert(!is_value, "weft: offload takes a function, as a layer is one, and not its result: offload(layer)(x)");
  if constexpr (is_value)
    return [](const auto&...) { return Tensor(); };  // so that no more is said than the sentence
  else
    return Offloaded<std::decay_t<F>>(std::forward<F>(f));
}

}  // namespace weft
