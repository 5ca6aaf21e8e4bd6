// Repeated parts of a compiled function. Blocks of a model and steps of a C++ loop are found without being marked: what
// is the same in them is scheduled and compiled once. region(fn) marks a part by hand:
//   const auto block = region("block", [](const Block& block, const Tensor& x) { return block(x); });
//   for (const Block& each : blocks) x = block(each, x);
// explain() shows it by name, and where uses of one region would have other kernels, since fusion goes over their
// borders, kernels end there, if that is a tenth less to compile and moves at most 2 % more bytes.
// Each use is recorded: what fn captures may change between two uses, as its arguments may. The bits of results that no
// product of matrices is part of are the same with and without.
#pragma once
#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "weft/detail/invoke.hpp"
#include "weft/tensor.hpp"

namespace weft {
namespace detail {

// What this thread records until the end of the block is one use of a region.
class RegionUse {
 public:
  explicit RegionUse(const std::string& name);
  ~RegionUse();
  RegionUse(const RegionUse&) = delete;

 private:
  std::uint32_t before_;
};
std::string region_name(const char* name, Loc loc);  // throws where it is empty

template <class F>
class RegionFunction {
 public:
  RegionFunction(std::string name, F f) : name_(std::move(name)), f_(std::move(f)) {}
  template <class... A>
  requires std::invocable<const F&, A...>
  decltype(auto) operator()(A&&... argument) const {
    const RegionUse use(name_);
    return detail::invoke(f_, std::forward<A>(argument)...);
  }

 private:
  std::string name_;
  F f_;
};

}  // namespace detail

// A callable that does what fn does, each call of which is a use of one region. Outside of a compiled function it is fn
// alone. What a use of another region inside of one records is the inner one's. Throws Error where the name is empty;
// without a name it is the place of this call.
template <class F>
requires(!std::convertible_to<F, const char*>) auto region(F&& fn, Loc loc = Loc::current()) {
  return detail::RegionFunction<std::decay_t<F>>(detail::region_name(nullptr, loc), std::forward<F>(fn));
}
template <class F>
auto region(const char* name, F&& fn, Loc loc = Loc::current()) {
  return detail::RegionFunction<std::decay_t<F>>(detail::region_name(name, loc), std::forward<F>(fn));
}

}  // namespace weft
