// Checkpoints: memory for time. What is computed inside of a checkpointed function is not saved for the derivative,
// which computes it again from what the function was called with.
//   x = checkpoint([](const Block& block, const Tensor& x) { return block(x); })(block, x);
// A layer is an argument, as its state may change: BatchNorm's statistics. What is only read may be captured.
#pragma once
#include <tuple>
#include <utility>

#include "weft/flatten.hpp"
#include "weft/tensor.hpp"

namespace weft {
namespace detail {

// The erased half of a call: what is recorded while it lives becomes the body of the call.
class CheckpointRecorder {
 public:
  // `state`: leaves that the function may change.
  CheckpointRecorder(const LeafList& state, Loc loc);
  ~CheckpointRecorder();
  CheckpointRecorder(const CheckpointRecorder&) = delete;
  // Puts results of the call in the places of what the function returned and of the state that it changed.
  void end(const LeafList& returned, const LeafList& state);
  // The function has thrown: the state is as it was.
  void restore(const LeafList& state) noexcept;

 private:
  struct State;
  State* state_;
};

void require_segments(std::int64_t segments, Loc loc);

// A list of blocks is a vector or an array of them or of pointers to them, or an nn::Sequential.
template <class Blocks>
concept HasLayers = requires {
  std::tuple_size<decltype(Blocks::layers)>::value;
};
template <class Blocks>
constexpr std::int64_t block_count(const Blocks& blocks) {
  if constexpr (HasLayers<Blocks>)
    return std::tuple_size_v<decltype(Blocks::layers)>;
  else
    return static_cast<std::int64_t>(std::size(blocks));
}
template <class Blocks>
Tensor run_blocks(Blocks& blocks, std::int64_t begin, std::int64_t end, Tensor value) {
  if constexpr (HasLayers<std::remove_const_t<Blocks>>) {
    std::int64_t i = 0;
    const auto run = [&](auto& layer) {
      if (i >= begin && i < end) value = layer(value);
      ++i;
    };
    std::apply([&](auto&... layer) { (run(layer), ...); }, blocks.layers);
  } else {
    for (std::int64_t i = begin; i < end; ++i) {
      auto& block = blocks[static_cast<std::size_t>(i)];
      if constexpr (std::is_invocable_v<decltype(block), const Tensor&>)
        value = block(value);
      else
        value = (*block)(value);
    }
  }
  return value;
}

// A call operator that is not const, as a layer's with statistics.
template <class F, class... T>
concept CalledAsVariable = !std::is_invocable_v<const F&, T...> && std::is_invocable_v<F&, T...>;

template <class T>
void flatten_state(T& argument, LeafList& leaves) {
  if constexpr (!std::is_const_v<T> && Flattenable<T>) flatten(argument, leaves);
}

template <class F, class... T>
auto call_checkpointed(F& f, Loc loc, T&... arguments) {
  using R = std::remove_cvref_t<std::invoke_result_t<F&, T&...>>;
  static_assert(Flattenable<R> && !std::is_void_v<R>,
                "weft: a checkpointed function returns a Tensor, or a struct, tuple or container of tensors");
  LeafList state;
  const auto flatten_again = [&] {
    state.clear();
    (flatten_state(arguments, state), ...);
  };
  flatten_again();
  CheckpointRecorder recorder(state, loc);
  try {
    R result = f(arguments...);
    LeafList leaves;
    flatten(result, leaves);
    flatten_again();
    recorder.end(leaves, state);
    return result;
  } catch (...) {
    flatten_again();
    recorder.restore(state);
    throw;
  }
}

}  // namespace detail

// A function whose inner values are not saved; checkpoint() makes it.
template <class F>
class Checkpointed {
 public:
  // checkpoint() makes it.
  Checkpointed(F f, Loc loc) : f_(std::move(f)), loc_(loc) {}
  // Records the call, at the line where checkpoint() was called.
  template <class... T>
  requires std::is_invocable_v<const F&, T&...>
  auto operator()(T&&... arguments) const { return detail::call_checkpointed(f_, loc_, arguments...); }
  // Others are refused. The comment is a part of what the compiler says.
  template <class... T>
  requires detail::CalledAsVariable<F, T&...>
  void operator()(T&&...) const = delete;  // weft: a layer that changes is an argument: checkpoint(f)(layer, x)

 private:
  F f_;
  Loc loc_;
};

// f, of which only the arguments, what it captures and the results are kept while a derivative is open: its derivative
// computes the values inside again. Values are those of f, bit for bit where it has no products, and so are gradients,
// which are added up in f before those from outside; random draws, from a Generator or the default one, are the same.
// It is called once a call, eagerly as well as inside compile(), loops and other checkpoints; its arguments are passed
// on as they are, and state that it changes in one (running statistics) once. vmap keeps it; jvp drops it.
// Throws Error where f reads values (item()), returns no tensor, leaves a tensor in something that it captures, or
// calls code of the program (host_call), which must not run again.
template <class F>
Checkpointed<F> checkpoint(F f, Loc loc = Loc::current()) {
  return Checkpointed<F>(std::move(f), loc);
}

// x through a list of blocks one after the other (a vector of layers or of std::unique_ptr to layers, or an
// nn::Sequential), in so many segments of about equal length, each of which is
// checkpointed but for the last one, whose values are needed first. Throws Error where `segments` is not positive.
template <class Blocks>
Tensor checkpoint_sequential(Blocks& blocks, std::int64_t segments, Tensor x, Loc loc = Loc::current()) {
  const std::int64_t count = detail::block_count(blocks);
  detail::require_segments(segments, loc);
  const std::int64_t length = count > segments ? (count + segments - 1) / segments : 1;
  for (std::int64_t begin = 0; begin < count; begin += length) {
    const std::int64_t end = begin + length < count ? begin + length : count;
    const auto run = [&](Blocks& all, Tensor value) { return detail::run_blocks(all, begin, end, std::move(value)); };
    x = end == count ? run(blocks, std::move(x)) : detail::call_checkpointed(run, loc, blocks, std::as_const(x));
  }
  return x;
}

}  // namespace weft
