// Differentiation: value_and_grad(f, wrt), grad(f, wrt). Lexical: f is called with a copy of `wrt`, every trainable
// leaf bound to a variable, and gradients flow to these variables only. The same eagerly and inside compile; levels
// nest, so the gradient of a gradient is the second derivative.
#pragma once
#include <vector>

#include "weft/detail/refuse.hpp"
#include "weft/flatten.hpp"
#include "weft/ops.hpp"

namespace weft {

// What f returned, and the gradients: of the type of `wrt`, with undefined tensors where nothing trains.
template <class Value, class Gradients>
struct ValueAndGrad {
  Value value;          // what f returned
  Gradients gradients;  // of the type of `wrt`; undefined tensors where nothing trains
};

struct GradOptions {    // of value_and_grad and grad
  bool strict = false;  // where the loss does not depend on something that trains: an Error, not a gradient of zeros
};

namespace detail {

// What trains in a value of these leaves, unless it is frozen or undefined: parameters; where there is no parameter at
// all, plain tensors; where there is neither, Scalars.
LeafKind trainable_kind(const LeafList& leaves);

// The erased half: opened with the leaves of a copy of `wrt`, closed on every path.
class GradientLevel {
 public:
  GradientLevel(const char* operation, Loc loc);
  GradientLevel(const GradientLevel&) = delete;
  ~GradientLevel();

  // Binds each leaf that trains to a fresh variable.
  void bind(const LeafList& leaves, const TypeDescription& description);
  // Gives `place` what f wrote into the copy, but to the leaves that train; what f only read is not touched.
  void write_back(const LeafList& bound, const LeafList& place) const;
  // Differentiates the first leaf of `result`.
  void differentiate(const LeafList& result);
  // Throws Error where that does not depend on a leaf that trains.
  void require_reached(const LeafList& leaves, const TypeDescription& description) const;
  // Makes gradients of the copy: where leaves train, undefined tensors elsewhere.
  void place_gradients(const LeafList& leaves);

 protected:
  bool trains(const Leaf& leaf) const;
  void require_places(const LeafList& leaves) const;

  const char* operation_;
  Loc loc_;
  std::uint64_t saved_start_;
  LeafKind trains_ = LeafKind::param;
  std::vector<std::size_t> positions_;  // of the leaves that train
  std::vector<Tensor> variables_, gradients_;
  std::vector<bool> reached_;  // by variable: the loss depends on it
};

enum class Misuse : std::uint8_t {
  nothing,
  c_array,
  unlisted_members,
  unknown_type,
  not_copyable,
  no_parameter,
  not_callable,
  fails_to_compile,
  bad_result,
  number_result
};
template <class F>
concept HasOneCallOperator = requires {
  &F::operator();
};
template <class First, class... Others>
First first_of(TypeList<First, Others...>);
// Whether the first leaf of a T, the loss, is a number or a text.
template <class T>
consteval bool begins_with_number() {
  constexpr TypeKind kind = type_kind<T>();
  if constexpr (kind == TypeKind::tuple || kind == TypeKind::structure || kind == TypeKind::array) {
    if constexpr (requires { first_of(child_types<T>()); })
      return begins_with_number<decltype(first_of(child_types<T>()))>();
    return false;
  } else {
    return kind == TypeKind::number || kind == TypeKind::text;
  }
}
template <class Argument, class F, class M>
consteval Misuse misuse() {
  if constexpr (std::is_array_v<M>)
    return Misuse::c_array;
  else if constexpr (flaw_of<typename FirstUnsupported<M>::type>() != Flaw::none)
    return Misuse::unlisted_members;
  else if constexpr (!Flattenable<M>)
    return Misuse::unknown_type;
  else if constexpr (!cloneable<M>())
    return Misuse::not_copyable;
  else if constexpr (!std::is_invocable_v<F&, Argument>)
    // To g++ a lambda in whose return statement there is an error can't be called, and has no signature. Neither has a
    // generic one, so only the compiler can say of the two why not.
    return std::is_invocable_v<F&>                        ? Misuse::no_parameter
           : std::is_class_v<F> && !HasOneCallOperator<F> ? Misuse::fails_to_compile
                                                          : Misuse::not_callable;
  else if constexpr (!Flattenable<std::remove_cvref_t<std::invoke_result_t<F&, Argument>>>)
    return Misuse::bad_result;
  else if constexpr (begins_with_number<std::remove_cvref_t<std::invoke_result_t<F&, Argument>>>())
    return Misuse::number_result;
  else
    return Misuse::nothing;
}
// An error here names the type that does not fit as `Offending`.
template <Misuse found, class Offending>
consteval bool explain() {
  static_assert(found != Misuse::c_array,
                "weft: value_and_grad(f, wrt): gradients have the type of wrt, which can't be a C array: take "
                "std::array, or a struct with the array in it");
  static_assert(found != Misuse::unknown_type,
                "weft: value_and_grad(f, wrt): wrt is or holds a type that has no meaning to Weft (a pointer, "
                "say, or a class that needs WEFT_MEMBERS)");
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
  static_assert(found != Misuse::number_result,
                "weft: value_and_grad(f, wrt): f returns a number for the loss, which has no derivative: return the "
                "Tensor, and read it with item() outside");
  return found == Misuse::nothing;
}

// `wrt` is only read, unless f writes into the copy that it gets.
template <class F, class Wrt, class M = std::remove_const_t<Wrt>>
auto run(const char* operation, F& f, Wrt& wrt, const GradOptions& options, Loc loc) {
  using Value = std::remove_cvref_t<std::invoke_result_t<F&, Wrt&>>;
  GradientLevel level(operation, loc);
  M bound = clone<M>(wrt);
  LeafList leaves;
  flatten(bound, leaves);
  level.bind(leaves, Description<M>::value);
  Value value = f(static_cast<Wrt&>(bound));
  LeafList result;
  flatten(value, result);
  level.differentiate(result);
  leaves.clear();
  flatten(bound, leaves);
  if (options.strict) level.require_reached(leaves, Description<M>::value);
  if constexpr (!std::is_const_v<Wrt>) {
    LeafList place;
    flatten(wrt, place);
    level.write_back(leaves, place);
  }
  level.place_gradients(leaves);
  return ValueAndGrad<Value, M>{std::move(value), std::move(bound)};
}

// `Wrt` is M where f may write buffers, const M where it may not.
template <class F, class Wrt, class M = std::remove_const_t<Wrt>>
auto differentiate(const char* operation, F& f, Wrt& wrt, Loc loc, const GradOptions& options = {}) {
  constexpr Misuse found = misuse<Wrt&, F, M>();
  if constexpr (found == Misuse::nothing)
    return run(operation, f, wrt, options, loc);
  else if constexpr (found == Misuse::fails_to_compile)
    return (void)f(wrt), *static_cast<ValueAndGrad<Tensor, M>*>(nullptr);
  else
    return (void)explain<found, typename FirstUnsupported<M>::type>(), (void)check_members<typename FirstUnsupported<M>::type>(),
           *static_cast<ValueAndGrad<
               Tensor,
               std::conditional_t<found == Misuse::not_copyable || !std::is_copy_constructible_v<M>, Tensor, M>>*>(
               nullptr);
}

template <class T>
concept SomeTensor = std::is_convertible_v < const std::remove_reference_t<T>
&, const Tensor& > ;  // a parameter too
template <class T>
concept NoTensor = !SomeTensor<T>;

// A temporary is read only: f could write nothing into it that anybody would see.
template <class M>
auto& read_unless_lvalue(std::remove_reference_t<M>& wrt) {
  if constexpr (std::is_lvalue_reference_v<M>)
    return wrt;
  else
    return std::as_const(wrt);
}

}  // namespace detail

// Calls f(wrt) and differentiates what it returns: a number of one element, or a struct or tuple whose first leaf is
// it. `wrt` is a Tensor, a Param, or anything of them: a model, a vector, a tuple. Returns [value, gradients]. f gets a
// copy of `wrt`. What it writes to the Buffers and numbers of a model that is not const is written back when all has
// succeeded; the places that are differentiated keep their values. Where f only reads, `wrt` is only read: threads may
// share it. Throws Error when the loss is no floating number of one element, when a leaf is an integer, when no leaf
// reaches the loss (with options.strict, when one does not), when a value on the way was computed where no level was
// open (by another thread, say), and when f changes lengths or presence in a model that is not const.
template <class F, class M>
auto value_and_grad(F&& f, M&& wrt, const GradOptions& options = {}, Loc loc = Loc::current()) {
  return detail::differentiate("value_and_grad", f, detail::read_unless_lvalue<M>(wrt), loc, options);
}

// The gradients alone.
template <class F, class M>
auto grad(F&& f, M&& wrt, const GradOptions& options = {}, Loc loc = Loc::current()) {
  return detail::differentiate("grad", f, detail::read_unless_lvalue<M>(wrt), loc, options).gradients;
}

// Other calls are refused. The comment is a part of what the compiler says.
template <class F>
void grad(F&&) = delete;  // weft: grad(f, x) computes the gradient at x; there is no function grad(f)
template <class F>
void value_and_grad(F&&) = delete;  // weft: value_and_grad(f, x) computes at x; there is no function value_and_grad(f)
template <class F, class M, detail::SomeTensor T, class... More>
void grad(F&&, M&&, T&&, More&&...) = delete;  // weft: several arguments are a tuple: grad(f, std::tuple(a, b))
template <class F, class M, detail::SomeTensor T, class... More>
void value_and_grad(F&&, M&&, T&&, More&&...) = delete;  // weft: several arguments are a tuple: std::tuple(a, b)

}  // namespace weft
