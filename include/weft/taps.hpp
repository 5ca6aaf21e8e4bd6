// Values from inside a model, by path. A model names them, and whoever wants one asks for it around the call:
//   y = tap("attention", y);                                          in a block: gives y back, and costs nothing
//   TapScope scope("blocks", i);                                      around the call of a block
//   auto [logits, taps] = with_taps({"blocks.3.attention"}, [&] { return model(x); });
// The same eagerly, inside compile() and inside grad. Where nobody asks, nothing is recorded.
#pragma once
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "weft/tensor.hpp"

namespace weft {

// Returns x. Inside with_taps it is found by this name, after the names of the scopes around: blocks.3.attention. What
// is met a second time has the path blocks.3.attention#1, and so on. Throws Error where it is asked for and belongs to
// the body of a loop or a choice (scan, fori, while_loop, cond) which with_taps is outside of.
Tensor tap(const char* name, const Tensor& x, Loc loc = Loc::current());

// Puts "name." or "name.index." before the names of taps, until the end of the block.
class TapScope {
 public:
  // "name."
  [[nodiscard("weft: a scope without a name ends at once")]] explicit TapScope(const char* name);
  // "name.index."
  [[nodiscard("weft: a scope without a name ends at once")]] TapScope(const char* name, std::int64_t index);
  ~TapScope();
  TapScope(const TapScope&) = delete;

 private:
  std::size_t before_;
};

// What f returned, and the tensors that it was asked for, in the order of the paths.
template <class Value>
struct Tapped {
  Value value;               // what f returned
  std::vector<Tensor> taps;  // one a path
};
// The same of a function that returns nothing.
template <>
struct Tapped<void> {
  std::vector<Tensor> taps;  // one a path
};

namespace detail {

// Listens to the taps of this thread while it lives.
class TapCollector {
 public:
  TapCollector(std::vector<std::string> paths, Loc loc);
  ~TapCollector();
  TapCollector(const TapCollector&) = delete;
  std::vector<Tensor> take();  // throws where a path was not met

  struct State;

 private:
  State* state_;
};

}  // namespace detail

// Calls f() and returns what it returned with the values of the taps at these paths. Paths begin inside f: scopes
// around with_taps are no part of them. May be nested, and may be in a compiled function, whose results they can
// become. A compiled function that f calls runs as the plain function that it was made of, as it does inside compile():
// to have taps of compiled code, write with_taps inside of it. Taps of other threads are not met. Throws Error, with
// the paths that were met, where one was not.
template <class F>
auto with_taps(std::vector<std::string> paths, F&& f, Loc loc = Loc::current()) {
  static_assert(std::is_invocable_v<F&>,
                "weft: with_taps(paths, f) calls f(): write with_taps({\"name\"}, [&] { return model(x); })");
  if constexpr (std::is_invocable_v<F&>) {
    using Value = std::remove_cvref_t<std::invoke_result_t<F&>>;
    detail::TapCollector collector(std::move(paths), loc);
    if constexpr (std::is_void_v<Value>) {
      f();
      return Tapped<void>{collector.take()};
    } else {
      Value value = f();
      return Tapped<Value>{std::move(value), collector.take()};
    }
  } else {
    return Tapped<Tensor>();
  }
}

}  // namespace weft
