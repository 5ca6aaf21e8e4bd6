// Loops and choices that stay in the graph: scan, fori, while_loop, cond. The body is called once, while it is
// recorded, with values that represent those of any iteration; nothing is unrolled, and a compiled body is compiled
// once. Eagerly and inside compile() the same. A state, what is scanned and what a body returns are tensors, or
// structs, tuples and containers of them. A body may capture tensors, models and generators by reference ([&]): what it
// uses of them are operands of the loop by themselves, and the state of a generator that it draws from is carried. At
// most 64 loops and choices are inside each other: one whose body calls it again is an Error.
#pragma once
#include "weft/flatten.hpp"
#include "weft/ops.hpp"

namespace weft {

struct ScanOptions {     // of scan
  bool reverse = false;  // from the last slice to the first; what is stacked keeps the places of the slices
};
struct WhileOptions {      // of while_loop
  std::int64_t limit = 0;  // 0: none; else it is an error to go on after so many iterations
};

namespace detail {

// The leaves of a value, and what names them in errors.
struct Leaves {
  LeafList list;
  const TypeDescription& type;
  template <class T>
  explicit Leaves(T& value) : type(Description<std::remove_const_t<T>>::value) {
    flatten(value, list);
  }
};

// The erased half. A body is opened with begin(), which puts the body's inputs in the place of tensors, and closed with
// one of the functions that end it; these put the results of the loop in the place of what the body returned.
class LoopRecorder {
 public:
  LoopRecorder(const char* operation, Loc loc);
  ~LoopRecorder();
  LoopRecorder(const LoopRecorder&) = delete;

  void begin_scan(const Leaves& state, const Leaves& slices);
  void end_scan(const Leaves& state, const Leaves* stacked, const ScanOptions& options);

  void begin_condition(const Leaves& state);
  void end_condition(const Tensor& value);
  void begin_while(const Leaves& state);
  void end_while(const Leaves& state, const WhileOptions& options);

  void begin_cond(const At& predicate);
  void begin_branch(const LeafList& operands);
  void end_branch(const Leaves& results);
  void end_cond(const Leaves& results);  // those of the first branch

 private:
  struct State;
  State* state_;
};

template <class State, class Result>
inline constexpr bool is_state_and_more = false;
template <class State, class First, class Second>
inline constexpr bool is_state_and_more<State, std::pair<First, Second>> = std::is_same_v<State, First>;

template <class... T>
constexpr bool check_flattenable() {
  static_assert((Flattenable<T> && ...),
                "weft: a state, what is scanned and what a body returns are tensors, or structs, tuples and containers "
                "of them; this is or holds a type that has no meaning to Weft");
  return true;
}

template <class F, class State, class Xs>
auto scan(const char* operation, F& f, State state, Xs xs, const ScanOptions& options, Loc loc) {
  static_assert(std::is_invocable_v<F&, State, const Xs&>,
                "weft: scan(f, init, xs) calls f(state, slice) with a value of the type of init and one of the type of "
                "xs, a slice of each tensor: as in [&](State s, const Tensor& x) { ... }");
  if constexpr (std::is_invocable_v<F&, State, const Xs&>) {
    using Result = std::remove_cvref_t<std::invoke_result_t<F&, State, const Xs&>>;
    constexpr bool alone = std::is_same_v<Result, State>, more = is_state_and_more<State, Result>;
    static_assert(alone || more,
                  "weft: scan(f, init, xs): f must return the next state, of the type of init, or std::pair{state, y}");
    LoopRecorder loop(operation, loc);
    loop.begin_scan(Leaves(state), Leaves(xs));
    Result result = f(std::move(state), std::as_const(xs));
    if constexpr (alone) {
      loop.end_scan(Leaves(result), nullptr, options);
    } else if constexpr (more) {
      check_flattenable<typename Result::second_type>();
      const Leaves stacked(result.second);
      loop.end_scan(Leaves(result.first), &stacked, options);
    }
    return result;
  }
}

}  // namespace detail

// One iteration for each slice of `xs` along axis 0: state = f(state, slice), from `init`; returns the last state.
// Where f returns std::pair{state, y}, returns std::pair{last state, ys} with the y of all iterations stacked along a
// new axis 0: of size 0 where there was none. `xs` is a tensor of one axis at least, or a struct, tuple or container of
// tensors of one first size. Numbers in `xs` and in y are the same in all iterations. Differentiable, in any order; the
// backward loop keeps the states of all iterations, and what products, reductions and gathers gave.
// Throws Error where xs has no tensors, or of several first sizes; where the body changes the shape, dtype or device
// of its state; where it reads a value on the host (item, bool); and where a check of the body fails, in any iteration.
template <class F, class State, class Xs>
auto scan(F&& f, State&& init, Xs&& xs, const ScanOptions& options = {}, Loc loc = Loc::current()) {
  using S = std::remove_cvref_t<State>;
  using X = std::remove_cvref_t<Xs>;
  if constexpr (detail::check_flattenable<S, X>())
    return detail::scan<std::remove_reference_t<F>, S, X>("scan", f, std::forward<State>(init), std::forward<Xs>(xs),
                                                          options, loc);
}

// state = f(i, state) for i = lower, ..., upper - 1, with i as an Index; returns the last state. The bounds may be
// sizes of a trace. A scan over a range: what holds for that holds here.
template <class F, class State>
auto fori(Dim lower, Dim upper, F&& f, State&& init, Loc loc = Loc::current()) {
  using S = std::remove_cvref_t<State>;
  static_assert(std::is_invocable_r_v<S, F&, Index, S>,
                "weft: fori(lower, upper, f, init) calls f(i, state) with an Index and a value of the type of init; f "
                "returns the next state");
  const auto body = [&f](S state, const Tensor& i) -> S { return f(Index(i), std::move(state)); };
  const Tensor range = arange(lower, lower < upper ? upper : lower, 1, {DType::i64}, loc);
  return detail::scan<decltype(body), S, Tensor>("fori", body, std::forward<State>(init), range, {}, loc);
}

// state = body(state) as long as condition(state), a bool of one element, is true; returns the last state. How often
// is known only when it runs: it has a tangent (jvp) and no gradient, and on a device each iteration waits for the
// condition. Throws Error as scan does; when options.limit iterations have run and the condition still holds; and when
// a gradient is asked for.
template <class Condition, class Body, class State>
auto while_loop(Condition&& condition, Body&& body, State&& init, const WhileOptions& options = {},
                Loc loc = Loc::current()) {
  using S = std::remove_cvref_t<State>;
  static_assert(std::is_invocable_r_v<Tensor, Condition&, const S&> && std::is_invocable_r_v<S, Body&, S>,
                "weft: while_loop(condition, body, init) calls condition(state), which returns a Tensor of one bool, "
                "and body(state), which returns the next state, of the type of init");
  if constexpr (detail::check_flattenable<S>()) {
    detail::LoopRecorder loop("while_loop", loc);
    S asked(init), state(std::forward<State>(init));
    loop.begin_condition(detail::Leaves(asked));
    loop.end_condition(condition(std::as_const(asked)));
    loop.begin_while(detail::Leaves(state));
    S result = body(std::move(state));
    loop.end_while(detail::Leaves(result), options);
    return result;
  }
}

// if_true(operands...) where `predicate`, a bool of one element, is true, else if_false(operands...). Both are
// recorded, and one of them runs. Both return values of one type, of equal shapes and dtypes. Differentiable: the
// derivative computes the values of the branch again. Throws Error where the predicate is no bool of one element, where
// the branches return tensors of different types or other numbers, and as scan does.
template <class True, class False, class... Operands>
auto cond(At predicate, True&& if_true, False&& if_false, const Operands&... operands) {
  static_assert(std::is_invocable_v<True&, const Operands&...> && std::is_invocable_v<False&, const Operands&...>,
                "weft: cond(predicate, if_true, if_false, operands...) calls if_true(operands...) or "
                "if_false(operands...)");
  using Result = std::remove_cvref_t<std::invoke_result_t<True&, const Operands&...>>;
  constexpr bool same = std::is_same_v<Result, std::remove_cvref_t<std::invoke_result_t<False&, const Operands&...>>>;
  static_assert(same, "weft: cond(predicate, if_true, if_false, operands...): both branches return values of one type");
  if constexpr (same && detail::check_flattenable<Result, Operands...>()) {
    detail::LoopRecorder choice("cond", predicate.loc);
    choice.begin_cond(predicate);
    const auto branch = [&](auto& f, Operands... own) {
      detail::LeafList list;
      const auto flatten_all = [&list](auto&... each) { (detail::flatten(each, list), ...); };
      flatten_all(own...);
      choice.begin_branch(list);
      Result result = f(std::as_const(own)...);
      choice.end_branch(detail::Leaves(result));
      return result;
    };
    Result result = branch(if_true, operands...);
    branch(if_false, operands...);
    choice.end_cond(detail::Leaves(result));
    return result;
  }
}

}  // namespace weft
