// vmap: a function of one example, over many at once. The function is called once, with values that have the shape of
// one example; what it records is then done for all examples by the same operations on larger tensors, so that a vector
// times a matrix becomes one product of matrices. It may be anything that Weft records: a model, a loss, grad, loops,
// another vmap; eagerly and inside compile() the same.
//   Tensor distances = vmap([](const Tensor& a, const Tensor& b) { return norm(a - b); })(x, y);
//   auto gradients = vmap([&](const Tensor& x, const Tensor& y) {           // of each sample
//     return grad([&](const Model& m) { return loss(m(x), y); }, model); })(xs, ys);
//   Tensor outputs = vmap([](const Model& m, const Tensor& x) { return m(x); }, {.in_axes = {0, std::nullopt}})(
//       stack_module_state(models), x);                                        // an ensemble
#pragma once
#include <concepts>
#include <initializer_list>
#include <optional>
#include <vector>

#include "weft/loops.hpp"

namespace weft {

// What examples draw inside vmap.
enum class Randomness {
  refuse,     // a draw is an Error
  different,  // each example its own numbers: of n numbers example i gets those from i n on, of one draw of all
  same        // all examples the numbers that one function call would draw
};

namespace detail {

// An axis of a braced list, and where that is written.
struct AxisAt {
  AxisAt(int value, Loc where = Loc::current()) : axis(value), loc(where) {}
  AxisAt(std::optional<int> value, Loc where = Loc::current()) : axis(value), loc(where) {}
  AxisAt(std::nullopt_t, Loc where = Loc::current()) : loc(where) {}
  AxisAt(std::floating_point auto value, Loc where = Loc::current()) = delete;  // 0.5 would be axis 0
  std::optional<int> axis;
  Loc loc;
};

}  // namespace detail

// The axis of each argument along which the examples lie, negative from the end; none: all get the whole argument.
class InAxes {
 public:
  InAxes(int axis = 0) : all_(axis) {}  // of all arguments
  InAxes(std::floating_point auto axis) = delete;
  InAxes(std::initializer_list<detail::AxisAt> axes) {  // of each of them
    for (const detail::AxisAt& each : axes) each_.push_back(each.axis);
  }
  InAxes(std::vector<std::optional<int>> axes) : each_(std::move(axes)) {}  // of each of them
  // Of an argument. Throws Error where the list is of another length.
  std::optional<int> of(std::size_t argument, std::size_t count, Loc loc) const;

 private:
  std::optional<int> all_;
  std::vector<std::optional<int>> each_;
};

struct VmapOptions {                           // of vmap
  InAxes in_axes = 0;                          // where the examples lie in the arguments
  int out_axis = 0;                            // where they lie in the results, negative from the end
  Randomness randomness = Randomness::refuse;  // what examples draw
};

namespace detail {

// The erased half: arguments are added, begin() puts values of one example in their places, and end() the results for
// all examples in the places of what the function returned.
class VmapRecorder {
 public:
  VmapRecorder(const VmapOptions& options, std::size_t arguments, Loc loc);
  ~VmapRecorder();
  VmapRecorder(const VmapRecorder&) = delete;
  void add(const Leaves& argument);
  void begin();
  void end(const Leaves& results);

 private:
  struct State;
  State* state_;
};

// T, as the type of a parameter of which overload resolution among templates makes nothing.
template <class F, class T>
struct Undeduced {
  using type = T;
};

// The leaves of models, each as many as the first has; those of the first become the stacked ones.
[[noreturn]] void refuse_no_model(Loc loc);
void stack_states(const Leaves& stacked, const LeafList* models, std::size_t count, Loc loc);

}  // namespace detail

// What vmap returns.
template <class F>
class Vmapped {
 public:
  // Of f, with what vmap was given.
  Vmapped(F f, VmapOptions options, Loc loc) : f_(std::move(f)), options_(std::move(options)), loc_(loc) {}

  // Calls f once, with one example of each argument. Throws Error as vmap says.
  template <class... A>
  auto operator()(const A&... arguments) const {
    static_assert(std::is_invocable_v<const F&, const A&...>,
                  "weft: vmap(f)(arguments...) calls f with an example of each argument: f must take them, as in "
                  "vmap([&](const Tensor& x, const Tensor& y) { ... })(xs, ys)");
    if constexpr (std::is_invocable_v<const F&, const A&...>) {
      using Result = std::remove_cvref_t<std::invoke_result_t<const F&, const A&...>>;
      constexpr bool returns = !std::is_void_v<Result>;
      constexpr bool flattens = returns && (detail::Flattenable<Result> && ... && detail::Flattenable<A>);
      static_assert(returns, "weft: vmap(f): f returns nothing: it returns the results of one example");
      static_assert(!returns || flattens,
                    "weft: what vmap(f) takes and returns are tensors, or structs, tuples and containers of them; this "
                    "is or holds a type that has no meaning to Weft (a Generator is captured by reference)");
      if constexpr (flattens) {
        detail::VmapRecorder recorder(options_, sizeof...(A), loc_);
        return [&](A... own) {
          (recorder.add(detail::Leaves(own)), ...);
          recorder.begin();
          Result result = f_(std::as_const(own)...);
          recorder.end(detail::Leaves(result));
          return result;
        }(detail::clone<A>(arguments)...);
      } else {
        return Tensor();  // so that no more is said than the sentence
      }
    } else {
      return Tensor();
    }
  }

 private:
  F f_;
  VmapOptions options_;
  Loc loc_;
};

// f for many examples at once, as torch.func.vmap and jax.vmap: a function of the same arguments with an axis more, the
// examples', and of results with one more. Arguments and results are tensors, or structs, tuples and containers of them
// (a model); the axis is that of each tensor in an argument. Numbers, Scalars and Indexes are the same for all
// examples, and so is what f captures. Results in which examples do not differ are repeated. A generator that f draws
// from needs options.randomness. Throws Error, when it is called, where the tensors have other sizes along their axes
// or no such axis, no argument has examples, f reads a value in which examples differ (a decision: use where), prints
// or calls the host on such, leaves a tensor in something that it captures (a layer's statistics), draws random numbers
// with Randomness::refuse, or where a tensor of 8 axes would get one more.
template <class F>
auto vmap(F&& f, typename detail::Undeduced<F, VmapOptions>::type options = {}, Loc loc = Loc::current()) {
  return Vmapped<std::decay_t<F>>(std::forward<F>(f), std::move(options), loc);
}
// The same by position, as torch.func.vmap and jax.vmap: vmap(f, 1), of all arguments; vmap(f, {0, std::nullopt}), of
// each; vmap(f, 0, 1), where the results have the examples along axis 1.
template <class F, class Axes>
requires(!std::is_same_v<Axes, VmapOptions>) auto vmap(F&& f, const Axes& in_axes, int out_axis = 0,
                                                       Loc loc = Loc::current()) {
  constexpr bool fits = std::is_convertible_v<const Axes&, InAxes> && !std::is_floating_point_v<Axes>;
  static_assert(fits,
                "weft: in_axes of vmap(f, in_axes) are an axis, or one for each argument, as in {0, std::nullopt}");
  if constexpr (fits)
    return vmap(std::forward<F>(f), VmapOptions{.in_axes = in_axes, .out_axis = out_axis}, loc);
  else
    return vmap(std::forward<F>(f));  // so that no more is said than the sentence
}
template <class F>
auto vmap(F&& f, std::initializer_list<detail::AxisAt> in_axes, int out_axis, Loc loc = Loc::current()) {
  return vmap(std::forward<F>(f), in_axes.size() == 0 ? InAxes() : InAxes(in_axes), out_axis, loc);
}
// g++ 12 takes {.out_axis = 1} for a list too. A template with a pack comes after one without, so VmapOptions get it.
template <class F, class... None>
auto vmap(F&& f, typename detail::Undeduced<F, std::initializer_list<detail::AxisAt>>::type in_axes, None...) {
  return vmap(std::forward<F>(f), in_axes, 0, in_axes.size() == 0 ? Loc() : in_axes.begin()->loc);
}

// A model whose tensors are those of all models, stacked along a new axis 0: what vmap takes for an ensemble, and what
// trains as one model. As torch.func.stack_module_state. Throws Error where there is no model, or where models differ
// in shapes or dtypes, in numbers or in lengths.
template <class M>
M stack_module_state(const std::vector<M>& models, Loc loc = Loc::current()) {
  static_assert(detail::Flattenable<M>, "weft: stack_module_state(models) takes a std::vector of models");
  if (models.empty()) detail::refuse_no_model(loc);
  std::vector<detail::LeafList> lists(models.size());
  for (std::size_t i = 0; i < models.size(); ++i) detail::flatten(models[i], lists[i]);
  M stacked = detail::clone(models[0]);
  detail::stack_states(detail::Leaves(stacked), lists.data(), lists.size(), loc);
  return stacked;
}

}  // namespace weft
