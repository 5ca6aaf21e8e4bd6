// Transforms of functions: jvp, vjp, linearize, hvp, jacfwd, jacrev, hessian, and functions with a derivative of their
// own. As value_and_grad they are lexical: f is called with a copy of what it is differentiated at, and derivatives
// flow from there only. They nest in any order, with value_and_grad too, eagerly and inside compile().
#pragma once
#include "weft/grad.hpp"

namespace weft {

// What f returned, and its directional derivative: of the same type; undefined where a tensor is no floating one.
template <class Value>
struct ValueAndTangent {
  Value value;    // what f returned
  Value tangent;  // of the same type
};
// What f returned, and a linear function at that point, as vjp gives them.
template <class Value, class Pullback>
struct ValueAndPullback {
  Value value;        // what f returned
  Pullback pullback;  // from a cotangent of the value to one of the argument
};
// The same of linearize.
template <class Value, class Push>
struct ValueAndPush {
  Value value;  // what f returned
  Push push;    // from a tangent of the argument to one of the value
};

struct JacobianOptions {  // of jacfwd, jacrev and hessian
  // How many directions are computed at once, which bounds the memory of what is in between; 0: all. As chunk_size of
  // torch.func.jacrev.
  std::int64_t chunk_size = 0;
};

namespace detail {

// A recorded linear function of the leaves of a value, and what it keeps. Copies share it.
class LinearMap {
 public:
  LinearMap() = default;
  LinearMap(const LinearMap& other) noexcept;
  LinearMap(LinearMap&& other) noexcept : state_(other.state_) { other.state_ = nullptr; }
  LinearMap& operator=(LinearMap other) noexcept {
    State* const own = state_;
    state_ = other.state_, other.state_ = own;
    return *this;
  }
  ~LinearMap();

  // Gives `place` the results for the leaves of an argument.
  void apply(const LeafList& argument, const TypeDescription& type, const LeafList& place, Loc loc) const;
  // Gives `place`, leaves of what f returned, their derivatives by the one tensor that f was given.
  void jacobian(const LeafList& place, bool forward, const JacobianOptions& options, Loc loc) const;

 private:
  friend class TransformLevel;
  struct State;
  State* state_ = nullptr;
};

// The erased half: opened with the leaves of a copy of what is differentiated at, closed on every path.
class TransformLevel : public GradientLevel {
 public:
  TransformLevel(const char* operation, Loc loc);
  TransformLevel(const TransformLevel&) = delete;
  ~TransformLevel();

  // Throws Error unless the leaves fit those that were bound.
  void require_tangent(const LeafList& bound, const LeafList& tangent, const TypeDescription& type) const;
  // Gives `place`, leaves of a copy of `value`, the tangents of the leaves of `value`.
  void push(const LeafList& tangent, const LeafList& value, const LeafList& place) const;
  // From tangents of the leaves that were bound to those of `value`, and from cotangents of `value` back.
  LinearMap linearized(const LeafList& bound, const LeafList& value) const;
  LinearMap transposed(const LeafList& bound, const LeafList& value) const;

 private:
  LinearMap record_map(const LeafList& argument, const LeafList& value, bool forward) const;
  bool joins_;  // what compiled functions did around the level
};

// A list without its tensors, so that a value of its type holds no memory.
void drop_tensors(const LeafList& leaves);
template <class T>
T without_tensors(const T& value) {
  T result = clone<T>(value);
  LeafList leaves;
  flatten(result, leaves);
  drop_tensors(leaves);
  return result;
}

}  // namespace detail

// A linear function that vjp or linearize made. It may be called any number of times, after what f returned was read
// too; it keeps what it reads of f's values. An undefined tensor in the argument means zeros. Throws Error where the
// argument is of another structure, shape or dtype, and when it is used outside of the compiled function that made it.
template <class From, class To>
class LinearFunction {
 public:
  // vjp and linearize make it.
  LinearFunction(detail::LinearMap map, To like) : map_(std::move(map)), like_(std::move(like)) {}
  // Records it for one argument.
  To operator()(const From& argument, Loc loc = Loc::current()) const {
    To result = detail::clone<To>(like_);
    detail::LeafList given, place;
    detail::flatten(argument, given);
    detail::flatten(result, place);
    map_.apply(given, detail::Description<From>::value, place, loc);
    return result;
  }
  // Others are refused.
  template <class Other>
  requires(!std::is_convertible_v<const Other&, const From&>) To operator()(const Other&) const {
    static_assert(std::is_convertible_v<const Other&, const From&>,
                  "weft: what vjp and linearize return is called with a value of the type that f returned, or took: in "
                  "the place of a number full({}, x)");
    return detail::clone<To>(like_);  // so that no more is said than the sentence
  }

 private:
  detail::LinearMap map_;
  To like_;
};

namespace detail {

template <class F, class M>
using TransformResult = std::remove_cvref_t<std::invoke_result_t<F&, const M&>>;

// An error here names the type that does not fit as `Offending`.
template <class Offending>
consteval bool check_point() {
  constexpr bool fits = std::is_void_v<Offending>;
  static_assert(fits || flaw_of<Offending>() != Flaw::none,
                "weft: a transform differentiates at a Tensor, a model, or a struct, tuple or container of tensors: "
                "this is or holds a type that has no meaning to Weft (a pointer, say, or a class that needs "
                "WEFT_MEMBERS)");
  return fits && check_members<Offending>();
}
// What a refused transform would return, so that what is done with it is no further error.
template <class Pair>
Pair refused_transform() {
  __builtin_unreachable();
}

template <class F, class M>
constexpr bool check_transform() {
  using Offending = typename FirstUnsupported<M>::type;
  if constexpr (!std::is_void_v<Offending>) return check_point<Offending>();
  constexpr bool copies = !std::is_void_v<Offending> || cloneable<M>();
  static_assert(copies, "weft: a transform differentiates at what can be copied: keep Generators outside the model");
  if constexpr (std::is_void_v<Offending> && copies) {
    static_assert(std::is_invocable_v<F&, const M&>,
                  "weft: a transform calls f(at) with what it differentiates at, which f only reads: as in "
                  "[&](const Model& m) { ... }; several arguments are a tuple or a struct");
    if constexpr (std::is_invocable_v<F&, const M&>) {
      using R = TransformResult<F, M>;
      static_assert(
          Flattenable<R> && cloneable<R>(),
          "weft: a function that is transformed returns a Tensor, or a struct, tuple or container of tensors");
      return Flattenable<R> && cloneable<R>();
    }
  }
  return false;
}

// f at `primal`: `use(level, bound leaves, value)` while the level is open.
template <class F, class M, class Use>
auto in_level(const char* operation, F& f, const M& primal, Loc loc, Use use) {
  TransformLevel level(operation, loc);
  M bound = clone<M>(primal);
  LeafList leaves;
  flatten(bound, leaves);
  level.bind(leaves, Description<M>::value);
  return use(level, leaves, bound, f);
}

template <class F, class M>
auto jvp(const char* operation, F& f, const M& primal, const M& tangent, Loc loc) {
  using R = TransformResult<F, M>;
  return in_level(operation, f, primal, loc, [&](TransformLevel& level, const LeafList& bound, const M& at, F& g) {
    LeafList given, from, place;
    flatten(tangent, given);
    level.require_tangent(bound, given, Description<M>::value);
    R value = g(at);
    R result = clone<R>(value);
    flatten(value, from);
    flatten(result, place);
    level.push(given, from, place);
    return ValueAndTangent<R>{std::move(value), std::move(result)};
  });
}

template <class R>
struct MapAt {
  R value;
  LinearMap map;
};
template <class F, class M>
auto map_at(const char* operation, F& f, const M& primal, bool forward, Loc loc) {
  using R = TransformResult<F, M>;
  return in_level(operation, f, primal, loc, [&](TransformLevel& level, const LeafList& bound, const M& at, F& g) {
    R value = g(at);
    LeafList from;
    flatten(value, from);
    LinearMap map = forward ? level.linearized(bound, from) : level.transposed(bound, from);
    return MapAt<R>{std::move(value), std::move(map)};
  });
}

template <class F>
auto jacobian(const char* operation, F& f, const Tensor& x, bool forward, const JacobianOptions& options, Loc loc) {
  auto [value, map] = map_at(operation, f, x, forward, loc);
  LeafList place;
  flatten(value, place);
  map.jacobian(place, forward, options, loc);
  return std::move(value);
}

}  // namespace detail

// f(primal), and its derivative in the direction of `tangent`. `primal` is a Tensor, or anything of tensors: a model,
// whose parameters vary, a tuple, a vector. `tangent` is of its type; undefined tensors in it are zeros. Returns
// [value, tangent], both of the type that f returns; what does not depend on primal has the tangent 0. Throws Error
// where what varies is an integer, where the tangent is of another structure, shape or dtype, and where an operation
// has no derivative. while_loop has one here.
template <class F, class M>
auto jvp(F&& f, const M& primal, const std::type_identity_t<M>& tangent, Loc loc = Loc::current()) {
  if constexpr (detail::check_transform<std::remove_reference_t<F>, M>())
    return detail::jvp("jvp", f, primal, tangent, loc);
  else
    return detail::refused_transform<ValueAndTangent<Tensor>>();
}

// f(primal), and the function that pulls a cotangent of it back: pullback(c) gives, in the type of primal, the gradient
// of the sum of c times what f returned; undefined tensors where nothing varies. Throws Error as value_and_grad does,
// but f may return anything of tensors.
template <class F, class M>
auto vjp(F&& f, const M& primal, Loc loc = Loc::current()) {
  if constexpr (detail::check_transform<std::remove_reference_t<F>, M>()) {
    using R = detail::TransformResult<std::remove_reference_t<F>, M>;
    auto [value, map] = detail::map_at("vjp", f, primal, false, loc);
    return ValueAndPullback<R, LinearFunction<R, M>>{
        std::move(value), LinearFunction<R, M>(std::move(map), detail::without_tensors(primal))};
  } else {
    return detail::refused_transform<ValueAndPullback<Tensor, LinearFunction<Tensor, Tensor>>>();
  }
}

// f(primal), and the derivative of f there as a linear function: push(t) is the tangent that jvp gives for t, without
// another call of f.
template <class F, class M>
auto linearize(F&& f, const M& primal, Loc loc = Loc::current()) {
  if constexpr (detail::check_transform<std::remove_reference_t<F>, M>()) {
    using R = detail::TransformResult<std::remove_reference_t<F>, M>;
    auto [value, map] = detail::map_at("linearize", f, primal, true, loc);
    R like = detail::without_tensors(value);
    return ValueAndPush<R, LinearFunction<M, R>>{std::move(value),
                                                 LinearFunction<M, R>(std::move(map), std::move(like))};
  } else {
    return detail::refused_transform<ValueAndPush<Tensor, LinearFunction<Tensor, Tensor>>>();
  }
}

// The Hessian of f at x times v, of the type of x: f returns one number, v is of the type of x. Its cost is a few times
// that of a gradient, whatever the size of x.
template <class F, class M>
M hvp(F&& f, const M& x, const std::type_identity_t<M>& v, Loc loc = Loc::current()) {
  auto gradient = [&](const M& at) -> M { return detail::differentiate("hvp", f, at, loc).gradients; };
  return detail::jvp("hvp", gradient, x, v, loc).tangent;
}

// The derivatives of what f returns by each element of x: where f returns a Tensor, one of its shape followed by that
// of x; where it returns more, the same of each tensor, undefined where that is no floating one. jacfwd takes a
// direction for each element of x, jacrev one for each element that f returns; both give the same. All directions are
// one batch, as by vmap, or options.chunk_size of them at a time; where f calls host_call, one. Throws Error where f
// returns no floating tensor, and where the two shapes have more than 8 axes together.
template <class F>
auto jacfwd(F&& f, const Tensor& x, const JacobianOptions& options = {}, Loc loc = Loc::current()) {
  if constexpr (detail::check_transform<std::remove_reference_t<F>, Tensor>())
    return detail::jacobian("jacfwd", f, x, true, options, loc);
}
template <class F>
auto jacrev(F&& f, const Tensor& x, const JacobianOptions& options = {}, Loc loc = Loc::current()) {
  if constexpr (detail::check_transform<std::remove_reference_t<F>, Tensor>())
    return detail::jacobian("jacrev", f, x, false, options, loc);
}

// The second derivatives of f, which returns one number, by each pair of elements of x: of the shape of x twice.
template <class F>
Tensor hessian(F&& f, const Tensor& x, const JacobianOptions& options = {}, Loc loc = Loc::current()) {
  auto gradient = [&](const Tensor& at) -> Tensor { return detail::differentiate("hessian", f, at, loc).gradients; };
  return detail::jacobian("hessian", gradient, x, true, options, loc);
}

// At anything else they are refused. The comment is a part of what the compiler says.
template <class F, detail::NoTensor M>
void jacfwd(F&&, const M&, JacobianOptions = {}) = delete;  // weft: jacfwd is at one Tensor; of a model take jvp
template <class F, detail::NoTensor M>
void jacrev(F&&, const M&, JacobianOptions = {}) = delete;  // weft: jacrev is at one Tensor; of a model take vjp
template <class F, detail::NoTensor M>
void hessian(F&&, const M&, JacobianOptions = {}) = delete;  // weft: hessian is at one Tensor; of a model take hvp

// ---- functions with a derivative of their own -----------------------------------------------------------------------

namespace detail {

// The erased half of a call: the function's body is recorded, then its rule, then the call.
class CustomRecorder {
 public:
  CustomRecorder(const char* operation, bool is_forward, std::span<const Tensor> operands, Loc loc);
  ~CustomRecorder();
  CustomRecorder(const CustomRecorder&) = delete;

  void begin_function(std::span<Tensor> arguments);
  void end_function(const LeafList& returned);
  void begin_rule(std::span<Tensor> arguments);
  void cotangents(const LeafList& returned);  // in the places of what forward returned
  void tangents(std::span<Tensor> tangents);  // undefined for operands that are no floating tensors
  void end_rule(const LeafList& given);       // gradients of the operands, or tangents of the results
  void record(const LeafList& returned);      // the results in the places of what the function returned

 private:
  struct State;
  State* state_;
};

// The operands of a function with a derivative of its own: tensors, and what holds one (a Param, a Buffer).
template <class... T>
constexpr bool check_operands() {
  static_assert((std::is_convertible_v<const T&, const Tensor&> && ...),
                "weft: a function of custom_vjp or custom_jvp is called with tensors, parameters and buffers: make a "
                "tensor of a number (full({}, x)), and pass the tensors of a struct one by one");
  return (std::is_convertible_v<const T&, const Tensor&> && ...);
}
template <class F, int... i>
auto call_with(F& f, const Tensor* arguments, std::integer_sequence<int, i...>) {
  return f(arguments[i]...);
}
template <class F, std::size_t... i>
constexpr bool takes_operands(std::index_sequence<i...>) {
  return std::is_invocable_v<F&, decltype((void(i), std::declval<const Tensor&>()))...>;
}
// Whether F can be called with so many tensors.
template <class F, std::size_t count>
inline constexpr bool takes_operand_count = takes_operands<F>(std::make_index_sequence<count>());
template <class T>
inline constexpr bool is_pair = false;
template <class T>
requires(std::tuple_size<T>::value == 2) inline constexpr bool is_pair<T> = true;

// What custom_vjp was given, for a call with `count` tensors.
template <class F, class Forward, class Backward, std::size_t count>
constexpr bool check_custom_vjp() {
  constexpr bool called = takes_operand_count<const F, count>, forwards = takes_operand_count<const Forward, count>;
  static_assert(called, "weft: a function of custom_vjp is called with as many tensors as f takes");
  static_assert(
      !called || forwards,
      "weft: custom_vjp(f, forward, backward): forward takes the operands that f takes, each a const Tensor&");
  if constexpr (called && forwards) {
    using R = decltype(call_with(std::declval<const F&>(), std::declval<const Tensor*>(),
                                 std::make_integer_sequence<int, static_cast<int>(count)>()));
    using Pair = decltype(call_with(std::declval<const Forward&>(), std::declval<const Tensor*>(),
                                    std::make_integer_sequence<int, static_cast<int>(count)>()));
    constexpr bool pair = is_pair<Pair>;
    static_assert(pair,
                  "weft: custom_vjp(f, forward, backward): forward returns std::pair{value, residuals}: what f "
                  "returns, and what backward is called with first");
    if constexpr (pair) {
      constexpr bool same = std::is_same_v<std::tuple_element_t<0, Pair>, R>;
      constexpr bool backwards = std::is_invocable_v<const Backward&, const std::tuple_element_t<1, Pair>&,
                                                     const std::tuple_element_t<0, Pair>&>;
      static_assert(same,
                    "weft: custom_vjp(f, forward, backward): forward returns std::pair{value, residuals}, with "
                    "the value that f returns");
      static_assert(!same || backwards,
                    "weft: custom_vjp(f, forward, backward) calls backward(residuals, cotangent), with the second part "
                    "of what forward returns and a value of the type that f returns");
      return same && backwards;
    }
  }
  return false;
}
template <class F, class Rule, std::size_t count>
constexpr bool check_custom_jvp() {
  constexpr bool called = takes_operand_count<const F, count>, ruled = takes_operand_count<const Rule, 2 * count>;
  static_assert(called, "weft: a function of custom_jvp is called with as many tensors as f takes");
  static_assert(
      !called || ruled,
      "weft: custom_jvp(f, rule) calls rule(operands..., tangents...), each a const Tensor&: twice as many as "
      "f takes");
  return called && ruled;
}

// `record_rule(recorder)` records the rule.
template <class R, std::size_t count, class F, class Rule>
R call_custom(const char* operation, bool is_forward, F& f, const Tensor* operands, Loc loc, Rule record_rule) {
  constexpr std::make_integer_sequence<int, static_cast<int>(count)> all;
  static_assert(Flattenable<R>,
                "weft: a function with a derivative of its own returns a Tensor, or a struct, tuple or "
                "container of tensors");
  CustomRecorder recorder(operation, is_forward, std::span(operands, count), loc);
  Tensor arguments[count];
  recorder.begin_function(arguments);
  R result = call_with(f, arguments, all);
  LeafList leaves;
  flatten(result, leaves);
  recorder.end_function(leaves);
  recorder.begin_rule(arguments);
  record_rule(recorder, arguments);
  recorder.record(leaves);
  return result;
}
template <class Given>
void give(CustomRecorder& recorder, Given given) {
  static_assert(Flattenable<Given>,
                "weft: a rule of custom_vjp or custom_jvp returns a Tensor, or a struct, tuple or "
                "container of tensors");
  LeafList leaves;
  flatten(given, leaves);
  recorder.end_rule(leaves);
}

}  // namespace detail

// A function of tensors with a gradient of its own; custom_vjp() makes it.
template <class F, class Forward, class Backward>
class CustomVjp {
 public:
  // custom_vjp() makes it.
  CustomVjp(F f, Forward forward, Backward backward, Loc loc)
      : f_(std::move(f)), forward_(std::move(forward)), backward_(std::move(backward)), loc_(loc) {}
  // Records the call.
  template <std::same_as<Tensor>... T>
  auto operator()(const T&... operands) const {
    constexpr std::size_t count = sizeof...(T);
    if constexpr (detail::check_custom_vjp<F, Forward, Backward, count>()) {
      using R = std::remove_cvref_t<std::invoke_result_t<const F&, const T&...>>;
      const Tensor list[] = {operands...};
      return detail::call_custom<R, count>(
          "custom_vjp", false, f_, list, loc_, [&](detail::CustomRecorder& recorder, const Tensor* arguments) {
            auto [value, residuals] =
                detail::call_with(forward_, arguments, std::make_integer_sequence<int, static_cast<int>(count)>());
            detail::LeafList leaves;
            detail::flatten(value, leaves);
            recorder.cotangents(leaves);
            detail::give(recorder, backward_(std::as_const(residuals), std::as_const(value)));
          });
    } else {
      return Tensor();  // so that no more is said than the sentence
    }
  }
  // Parameters and buffers are operands too.
  template <class... T>
  requires(!(std::same_as<T, Tensor> && ...)) auto operator()(const T&... operands) const {
    if constexpr (detail::check_operands<T...>())
      return (*this)(static_cast<const Tensor&>(operands)...);
    else
      return Tensor();  // so that no more is said than the sentence
  }

 private:
  F f_;
  Forward forward_;
  Backward backward_;
  Loc loc_;
};

// f with a gradient of its own: the result is called with tensors, parameters and buffers, all of which f takes as
// tensors, and is one call in the graph. Where it is
// differentiated, forward(operands...) is recorded in its place, which returns std::pair{what f returns, residuals},
// and backward(residuals, cotangent), which returns the gradients of the operands: a Tensor for one operand, a tuple or
// a vector for more, an undefined one for zero. Residuals are of any type. A second derivative differentiates backward,
// and jvp transposes it. All three are called once a call, with values that represent those of any. A value that they
// capture is an operand that has no derivative.
// Throws Error where forward or backward gives other shapes or dtypes, where one of them draws random numbers, and
// where what they capture is differentiated.
template <class F, class Forward, class Backward>
auto custom_vjp(F f, Forward forward, Backward backward, Loc loc = Loc::current()) {
  return CustomVjp<F, Forward, Backward>(std::move(f), std::move(forward), std::move(backward), loc);
}

// A function of tensors with a tangent of its own; custom_jvp() makes it.
template <class F, class Rule>
class CustomJvp {
 public:
  // custom_jvp() makes it.
  CustomJvp(F f, Rule rule, Loc loc) : f_(std::move(f)), rule_(std::move(rule)), loc_(loc) {}
  // Records the call.
  template <std::same_as<Tensor>... T>
  auto operator()(const T&... operands) const {
    constexpr std::size_t count = sizeof...(T);
    if constexpr (detail::check_custom_jvp<F, Rule, count>()) {
      using R = std::remove_cvref_t<std::invoke_result_t<const F&, const T&...>>;
      const Tensor list[] = {operands...};
      return detail::call_custom<R, count>(
          "custom_jvp", true, f_, list, loc_, [&](detail::CustomRecorder& recorder, const Tensor* arguments) {
            Tensor all[2 * count];
            for (std::size_t i = 0; i < count; ++i) all[i] = arguments[i];
            recorder.tangents(std::span(all + count, count));
            detail::give(recorder,
                         detail::call_with(rule_, all, std::make_integer_sequence<int, static_cast<int>(2 * count)>()));
          });
    } else {
      return Tensor();
    }
  }
  // Parameters and buffers are operands too.
  template <class... T>
  requires(!(std::same_as<T, Tensor> && ...)) auto operator()(const T&... operands) const {
    if constexpr (detail::check_operands<T...>())
      return (*this)(static_cast<const Tensor&>(operands)...);
    else
      return Tensor();  // so that no more is said than the sentence
  }

 private:
  F f_;
  Rule rule_;
  Loc loc_;
};

// f with a tangent of its own: rule(operands..., tangents...) returns the tangent of what f returns, of its type, and
// is linear in the tangents; it is given undefined tensors for operands that are no floating tensors. Gradients
// transpose it. In all else as custom_vjp.
template <class F, class Rule>
auto custom_jvp(F f, Rule rule, Loc loc = Loc::current()) {
  return CustomJvp<F, Rule>(std::move(f), std::move(rule), loc);
}

}  // namespace weft
