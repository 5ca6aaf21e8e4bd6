// What compile() takes: lambdas, functions, models, operations. In: the type of a callable. Out: its parameters and
// result as types, and callables that take tensors where layers and operations take At.
#pragma once
#include "weft/flatten.hpp"

namespace weft::detail {

template <class F>
struct SignatureOf : SignatureOf<decltype(&F::operator())> {};
#define WEFT_SIGNATURE(...)                        \
  template <class R, class C, class... P>          \
  struct SignatureOf<R (C::*)(P...) __VA_ARGS__> { \
    using Result = std::remove_cvref_t<R>;         \
    using Parameters = TypeList<P...>;             \
  };
WEFT_SIGNATURE()
WEFT_SIGNATURE(const)
WEFT_SIGNATURE(noexcept)
WEFT_SIGNATURE(const noexcept)
#undef WEFT_SIGNATURE
template <class R, class... P>
struct SignatureOf<R (*)(P...)> {
  using Result = std::remove_cvref_t<R>;
  using Parameters = TypeList<P...>;
};
template <class R, class... P>
struct SignatureOf<R (*)(P...) noexcept> : SignatureOf<R (*)(P...)> {};

template <class F>
concept FunctionPointer = std::is_pointer_v<F> && std::is_function_v<std::remove_pointer_t<F>>;
template <class F>
concept Stateless = FunctionPointer<F> ||(std::is_class_v<F>&& std::is_empty_v<F>);
template <class F>
concept HasSignature = FunctionPointer<F> || requires {
  &F::operator();
};
// A struct of leaves that can be called: a model.
template <class M>
concept CallableModel = !Stateless<M> && Flattenable<M> && requires {
  &M::operator();
};

// The first `count` types, and the others.
template <int count, class Taken, class Rest>
struct Split;
template <class... Taken, class... Rest>
struct Split<0, TypeList<Taken...>, TypeList<Rest...>> {
  using First = TypeList<Taken...>;
  using Others = TypeList<Rest...>;
};
template <int count, class... Taken, class Next, class... Rest>
requires(count > 0) struct Split<count, TypeList<Taken...>, TypeList<Next, Rest...>>
    : Split<count - 1, TypeList<Taken..., Next>, TypeList<Rest...>> {
};

// Where an operation or a layer takes At, its compiled form takes a tensor, and hands it on with the line where it was
// compiled.
template <class A>
using Given = std::conditional_t<std::is_same_v<A, At>, const Tensor&, A>;
template <class A>
std::conditional_t<std::is_same_v<A, At>, At, A&&> hand_on(std::remove_reference_t<Given<A>>& argument, Loc loc) {
  if constexpr (std::is_same_v<A, At>)
    return At(argument, loc);
  else
    return static_cast<A&&>(argument);
}
// What compile(model) calls.
template <class M, class R, class Parameters>
struct ModelCall;
template <class M, class R, class... P>
struct ModelCall<M, R, TypeList<P...>> {
  R operator()(M& model, Given<P>... argument) const { return model(hand_on<P>(argument, loc)...); }
  Loc loc;
};
// What compile(relu) and compile(elementwise(...)) call.
template <class F, class R, class Parameters>
struct OperationCall;
template <class F, class R, class... P>
struct OperationCall<F, R, TypeList<P...>> {
  R operator()(Given<P>... argument) const { return f(hand_on<P>(argument, loc)...); }
  [[no_unique_address]] F f;
  Loc loc;
};
// Whether a function's own default arguments are out of sight.
template <class F>
inline constexpr bool calls_by_pointer = FunctionPointer<F>;
template <class F, class R, class Parameters>
inline constexpr bool calls_by_pointer<OperationCall<F, R, Parameters>> = FunctionPointer<F>;
template <class Parameters>
inline constexpr bool takes_at = false;
template <class... P>
inline constexpr bool takes_at<TypeList<P...>> = (std::is_same_v<P, At> || ...);
template <class F>
auto operation_call(F f, Loc loc) {
  using Signature = SignatureOf<F>;
  return OperationCall<F, typename Signature::Result, typename Signature::Parameters>{f, loc};
}
template <class F>
concept Operation = HasSignature<F> && takes_at<typename SignatureOf<F>::Parameters>;

}  // namespace weft::detail
