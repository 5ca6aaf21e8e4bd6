// Differentiation: value_and_grad(f, wrt), grad(f, wrt). Lexical: f is called with every trainable leaf of `wrt` bound
// to a variable, and gradients flow to these variables only. The same eagerly and inside compile; levels nest, so the
// gradient of a gradient is the second derivative.
#pragma once
#include <vector>

#include "weft/detail/refuse.hpp"
#include "weft/flatten.hpp"
#include "weft/ops.hpp"

namespace weft {

// What f returned, and the gradients: of the type of `wrt`, with undefined tensors where nothing trains.
template <class Value, class Gradients>
struct ValueAndGrad {
  Value value;
  Gradients gradients;
};

namespace detail {

// What trains in a value of these leaves, unless it is frozen: parameters; where there is no parameter at all, plain
// tensors; where there is neither, Scalars.
LeafKind trainable_kind(const LeafList& leaves);

// The erased half: opened with the leaves of `wrt`, closed on every path.
class Level {
 public:
  Level(const char* operation, Loc loc);
  Level(const Level&) = delete;
  ~Level();

  // Binds each leaf that trains to a fresh variable.
  void bind(const LeafList& leaves, const TypeDescription& description);
  // Puts the values of before back. Leaves that f added or took away are left alone.
  void restore(const LeafList& leaves) noexcept;
  // Differentiates the first leaf of `result`.
  void differentiate(const LeafList& result);
  // Leaves of a copy of `wrt`: gradients where leaves train, undefined tensors elsewhere.
  void place_gradients(const LeafList& leaves);

 private:
  bool trains(const Leaf& leaf) const;

  const char* operation_;
  Loc loc_;
  std::uint64_t saved_start_;
  LeafKind trains_ = LeafKind::param;
  std::vector<std::size_t> positions_;  // of the leaves that train
  std::vector<Tensor> before_, variables_, gradients_;
};

// Binds for the length of a block.
template <class M>
struct BoundLeaves {
  M& place;
  Level& level;
  LeafList& leaves;
  BoundLeaves(M& place, Level& level, LeafList& leaves) : place(place), level(level), leaves(leaves) {
    flatten(place, leaves);
    level.bind(leaves, Description<std::remove_const_t<M>>::value);
  }
  ~BoundLeaves() {
    leaves.clear();
    flatten(place, leaves);
    level.restore(leaves);
  }
  BoundLeaves(const BoundLeaves&) = delete;
};

enum class Misuse : std::uint8_t {
  none,
  unlisted_members,
  unknown_type,
  not_copyable,
  no_parameter,
  not_callable,
  bad_result
};
template <class Argument, class F, class M>
consteval Misuse misuse() {
  if constexpr (flaw_of<typename FirstUnsupported<M>::type>() != Flaw::none)
    return Misuse::unlisted_members;
  else if constexpr (!Flattenable<M>)
    return Misuse::unknown_type;
  else if constexpr (!copyable<M>())
    return Misuse::not_copyable;
  else if constexpr (!std::is_invocable_v<F&, Argument>)
    return std::is_invocable_v<F&> ? Misuse::no_parameter : Misuse::not_callable;
  else if constexpr (!Flattenable<std::remove_cvref_t<std::invoke_result_t<F&, Argument>>>)
    return Misuse::bad_result;
  else
    return Misuse::none;
}
template <Misuse found>
consteval bool explain() {
  static_assert(found != Misuse::unknown_type,
                "weft: value_and_grad(f, wrt): wrt is or holds a type that has no meaning to Weft (a pointer, say)");
  static_assert(found != Misuse::not_copyable,
                "weft: value_and_grad(f, wrt): gradients have the type of wrt, which must be copyable: keep Generators "
                "outside the model and pass them to f");
  static_assert(found != Misuse::no_parameter,
                "weft: value_and_grad(f, wrt) calls f(wrt): a closure with no parameter would use its own copy of the "
                "parameters; write [&](const Model& m) { ... }");
  static_assert(found != Misuse::not_callable,
                "weft: value_and_grad(f, wrt) calls f(wrt): f must take it, as in [&](const Model& m) { ... }");
  static_assert(
      found != Misuse::bad_result,
      "weft: value_and_grad(f, wrt): f must return the loss, a Tensor, or a struct or tuple of tensors and numbers "
      "whose first member is the loss");
  return found == Misuse::none;
}

template <class Argument, class F, class M>
auto run(const char* operation, F& f, M& place, Loc loc) {
  using Value = std::remove_cvref_t<std::invoke_result_t<F&, Argument>>;
  Level level(operation, loc);
  LeafList leaves;
  auto bound_call = [&]() -> Value {
    BoundLeaves<M> bound(place, level, leaves);
    Value value = f(static_cast<Argument>(place));
    LeafList result;
    flatten(value, result);
    level.differentiate(result);
    return value;
  };
  Value value = bound_call();
  M gradients = place;
  leaves.clear();
  flatten(gradients, leaves);
  level.place_gradients(leaves);
  return ValueAndGrad<Value, M>{std::move(value), std::move(gradients)};
}

// `Argument` is M& where f may write buffers, const M& where it gets a copy.
template <class Argument, class F, class M>
auto differentiate(const char* operation, F& f, M& place, Loc loc) {
  constexpr Misuse found = misuse<Argument, F, M>();
  if constexpr (found == Misuse::none)
    return run<Argument>(operation, f, place, loc);
  else
    return (void)explain<found>(), (void)check_members<typename FirstUnsupported<M>::type>(),
           *static_cast<ValueAndGrad<Tensor, std::conditional_t<found == Misuse::not_copyable, Tensor, M>>*>(nullptr);
}

}  // namespace detail

// Calls f(wrt) and differentiates what it returns: a number of one element, or a struct or tuple whose first leaf is
// it. `wrt` is a Tensor, a Param, or anything of them: a model, a vector, a tuple. Returns [value, gradients]. Values
// in `wrt` are as before afterwards, also when f throws; what f writes to the Buffers of a model that is not const
// stays. Throws Error when the loss is no floating number of one element, when a leaf is an integer, when no leaf
// reaches the loss, and when a value on the way was computed where no level was open.
template <class F, class M>
auto value_and_grad(F&& f, M&& wrt, Loc loc = Loc::current()) {
  if constexpr (std::is_lvalue_reference_v<M> && !std::is_const_v<std::remove_reference_t<M>>) {
    return detail::differentiate<M>("value_and_grad", f, wrt, loc);
  } else {
    std::remove_cvref_t<M> copy(std::forward<M>(wrt));
    return detail::differentiate<const std::remove_cvref_t<M>&>("value_and_grad", f, copy, loc);
  }
}

// The gradients alone.
template <class F, class M>
auto grad(F&& f, M&& wrt, Loc loc = Loc::current()) {
  if constexpr (std::is_lvalue_reference_v<M> && !std::is_const_v<std::remove_reference_t<M>>) {
    return detail::differentiate<M>("grad", f, wrt, loc).gradients;
  } else {
    std::remove_cvref_t<M> copy(std::forward<M>(wrt));
    return detail::differentiate<const std::remove_cvref_t<M>&>("grad", f, copy, loc).gradients;
  }
}

}  // namespace weft
