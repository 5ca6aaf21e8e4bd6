// compile(f): a function over tensors that is traced once for each kind of arguments and replayed as generated kernels.
//   auto step = compile([](Mlp& model, const Tensor& x, const Tensor& y) { ...; return loss; });
//   Tensor loss = step(model, x, y);
// Non-const references are state: written back after the call, untouched if it throws. Everything else is input.
// Tensors, Scalar and Index may change freely; numbers, enums, text and lengths are part of the guards. In: the typed
// call. Out: leaves and results as plain data for src/trace, which does the rest. Invariant: a call that has been seen
// allocates nothing but results and what a library (oneDNN) takes for itself, runs none of the user's code except where
// Check traces again, and takes a lock of the process only where it draws from the default generator, an argument is
// pending, or a block is not in the free lists of the thread, which keep none above 256 KiB. On CUDA the memory of each
// result comes from the device's list of blocks, under its lock, with a handle from the heap.
#pragma once
#include "weft/detail/callable.hpp"
#include "weft/detail/refuse.hpp"
#include "weft/detail/typed_call.hpp"

namespace weft {

// Objects that a compiled function gets as its first arguments on every call, read again each time.
template <class... T>
class Bound {
 public:
  // bind(objects...) makes it; they must outlive it.
  explicit Bound(T&... objects) : objects_{&objects..., nullptr} {}
  // f(objects...), and what that returns.
  template <class F>
  decltype(auto) apply(F&& f) const {
    return [&]<std::size_t... index>(std::index_sequence<index...>)->decltype(auto) {
      return f(*static_cast<T*>(const_cast<void*>(objects_[index]))...);
    }
    (std::index_sequence_for<T...>());
  }

 private:
  const void* objects_[sizeof...(T) + 1];
};
// Binds lvalues by reference: they must outlive the compiled function. A parameter `T&` makes one state.
template <class... T>
Bound<T...> bind(T&... objects) {
  return Bound<T...>(objects...);
}

namespace detail {
template <class T>
inline constexpr bool is_bound = false;
template <class... T>
inline constexpr bool is_bound<Bound<T...>> = true;
template <class Given, class... P>
inline constexpr bool arguments_fit = false;
template <class... A, class... P>
requires(sizeof...(A) ==
         sizeof...(P)) inline constexpr bool arguments_fit<TypeList<A...>, P...> = (std::is_convertible_v<A&&, P> &&
                                                                                    ...);
}  // namespace detail

// A compiled function. Copies share what was compiled. Calls from several threads are safe when their state differs.
template <class F, class R, class B, class First, class Parameters>
class Compiled;

template <class F, class R, class... T, class... First, class... P>
class Compiled<F, R, Bound<T...>, detail::TypeList<First...>, detail::TypeList<P...>> {
  static_assert(detail::check_types<First..., P...>() && detail::check_result<R>());

 public:
  Compiled(F f, Bound<T...> bound, const CompileOptions& options, Loc loc)
      : f_(std::move(f)), bound_(bound), function_(detail::make_function(options, loc)) {}
  R operator()(P... argument, Loc loc = Loc::current()) const {
    if constexpr (detail::fits<R, First..., P...>)
      return bound_.apply(
          [&](T&... bound) -> R { return detail::call<R, First..., P...>(function_, f_, loc, bound..., argument...); });
    else
      __builtin_unreachable();
  }
  // Other arguments are refused with a sentence.
  template <class... A>
  requires(!detail::arguments_fit<detail::TypeList<A...>, P..., Loc> &&
           !detail::arguments_fit<detail::TypeList<A...>, P...>) R
  operator()(A&&...) const {
    constexpr bool by_default = sizeof...(A) < sizeof...(P) && std::is_invocable_v<const F&, First..., A...>;
    constexpr bool by_pointer = sizeof...(A) < sizeof...(P) && detail::calls_by_pointer<F>;
    static_assert(!by_default,
                  "weft: default arguments are no part of a function's type, and a compiled function has none: give "
                  "it all arguments");
    static_assert(!by_pointer,
                  "weft: a compiled function pointer has no default arguments: give it all arguments, or compile a "
                  "lambda that calls the function, compile([](const Tensor& x) { return softmax(x); })");
    static_assert(by_default || by_pointer || sizeof...(A) == sizeof...(P) || sizeof...(A) == sizeof...(P) + 1,
                  "weft: a compiled function is called with the arguments of the function that was compiled: there are "
                  "too many or too few here");
    static_assert(
        sizeof...(A) != sizeof...(P) && sizeof...(A) != sizeof...(P) + 1,
        "weft: a compiled function is called with the arguments of the function that was compiled: a type here "
        "does not convert to its parameter's (a parameter T& takes no const object and no temporary one)");
    return detail::refused<R>();
  }
  // What explain(), is_compiled() and warm_up() ask.
  bool inspect(const detail::Inquiry& inquiry, P... argument) const {
    return bound_.apply([&](T&... bound) {
      return detail::inspect<R, First..., P...>(function_, f_, Loc(), inquiry, bound..., argument...);
    });
  }
  const detail::FunctionHandle& function() const { return function_; }  // what was compiled
  const F& plain() const { return f_; }                                 // what compile() was given
  const Bound<T...>& bound() const { return bound_; }

 private:
  [[no_unique_address]] F f_;
  [[no_unique_address]] Bound<T...> bound_;
  detail::FunctionHandle function_;
};

// The same for a generic callable: each call's arguments say what the types are.
template <class F, class... T>
class Compiled<F, void, Bound<T...>, void, void> {
  template <class A>  // what is moved and const is only read
  using Plain = std::conditional_t<std::is_lvalue_reference_v<A> || std::is_const_v<A>, A&, A>;
  template <class... P>
  using Result = std::remove_cvref_t<decltype(std::declval<F&>()(std::declval<T&>()..., std::declval<P>()...))>;

 public:
  // compile(f) makes it.
  Compiled(F f, Bound<T...> bound, const CompileOptions& options, Loc loc)
      : f_(std::move(f)), bound_(bound), loc_(loc), function_(detail::make_function(options, loc)) {}
  // Runs f, compiled for these arguments. Throws Error as CompileOptions says.
  template <class... A>
  requires std::is_invocable_v<F&, T&..., Plain<A>...>
  auto operator()(A&&... argument) const {
    using R = Result<Plain<A>...>;
    static_assert(detail::check_types<T..., Plain<A>...>() && detail::check_result<R>());
    if constexpr (detail::fits<R, T..., Plain<A>...>)
      return bound_.apply([&](T&... bound) -> R {
        return detail::call<R, T&..., Plain<A>...>(function_, f_, loc_, bound..., argument...);
      });
    else
      return detail::refused<R>();
  }
  // Other arguments are refused with a sentence.
  template <class... A>
  requires(!std::is_invocable_v<F&, T&..., Plain<A>...>) auto operator()(A&&...) const {
    constexpr bool fits_named = std::is_invocable_v<F&, T&..., std::remove_reference_t<A>&...>;
    static_assert(!fits_named,
                  "weft: a compiled function with a parameter `auto&` is called with a temporary object: such a "
                  "parameter is state, which is written back after the call. Take it by const auto&, or give the "
                  "object a name");
    static_assert(fits_named, "weft: a compiled function is called with arguments that the function does not take");
    if constexpr (fits_named)
      return detail::refused<Result<std::remove_reference_t<A>&...>>();
    else
      return detail::refused<Tensor>();
  }
  // What explain(), is_compiled() and warm_up() ask.
  template <class... A>
  bool inspect(const detail::Inquiry& inquiry, A&&... argument) const {
    using R = Result<Plain<A>...>;
    static_assert(detail::check_types<T..., Plain<A>...>() && detail::check_result<R>());
    if constexpr (detail::fits<R, T..., Plain<A>...>)
      return bound_.apply([&](T&... bound) {
        return detail::inspect<R, T&..., Plain<A>...>(function_, f_, loc_, inquiry, bound..., argument...);
      });
    else
      return false;
  }
  const detail::FunctionHandle& function() const { return function_; }  // what was compiled
  const F& plain() const { return f_; }                                 // what compile() was given
  const Bound<T...>& bound() const { return bound_; }

 private:
  [[no_unique_address]] F f_;
  [[no_unique_address]] Bound<T...> bound_;
  Loc loc_;
  detail::FunctionHandle function_;
};

namespace detail {
template <class F, class... T>
auto make_compiled(F f, Bound<T...> bound, const CompileOptions& options, Loc loc) {
  if constexpr (HasSignature<F>) {
    using Signature = SignatureOf<F>;
    using Parts = Split<sizeof...(T), TypeList<>, typename Signature::Parameters>;
    return Compiled<F, typename Signature::Result, Bound<T...>, typename Parts::First, typename Parts::Others>(
        std::move(f), bound, options, loc);
  } else {
    return Compiled<F, void, Bound<T...>, void, void>(std::move(f), bound, options, loc);
  }
}
}  // namespace detail
// f, traced at the first call and once more for each kind of arguments; it takes and returns what guards.md lists.
template <class F>
requires detail::Stateless<F>
auto compile(F f, const CompileOptions& options = {}, Loc loc = Loc::current()) {
  if constexpr (detail::Operation<F>)
    return detail::make_compiled(detail::operation_call(f, loc), Bound<>(), options, loc);
  else
    return detail::make_compiled(std::move(f), Bound<>(), options, loc);
}
// A named operation (relu, maximum, where): the name alone is overloaded, by scalar expressions.
template <class R = Tensor>
auto compile(R (*f)(At), const CompileOptions& options = {}, Loc loc = Loc::current()) {
  return detail::make_compiled(detail::operation_call(f, loc), Bound<>(), options, loc);
}
template <class R = Tensor>
auto compile(R (*f)(At, At), const CompileOptions& options = {}, Loc loc = Loc::current()) {
  return detail::make_compiled(detail::operation_call(f, loc), Bound<>(), options, loc);
}
template <class R = Tensor>
auto compile(R (*f)(At, At, At), const CompileOptions& options = {}, Loc loc = Loc::current()) {
  return detail::make_compiled(detail::operation_call(f, loc), Bound<>(), options, loc);
}
// f, whose first arguments are bound objects: compile(f, bind(model, optimizer)). {} has no type: it is options.
template <class F, class B>
requires(detail::Stateless<F>&& detail::is_bound<B>) auto compile(F f, B bound, const CompileOptions& options = {},
                                                                  Loc loc = Loc::current()) {
  return detail::make_compiled(std::move(f), bound, options, loc);
}
// A model: its members are leaves, bound by reference. A non-const model is state, as its operator() may change it.
template <class M>
requires detail::CallableModel<std::remove_const_t<M>>
auto compile(M& model, const CompileOptions& options = {}, Loc loc = Loc::current()) {
  using Signature = detail::SignatureOf<std::remove_const_t<M>>;
  using F = detail::ModelCall<M, typename Signature::Result, typename Signature::Parameters>;
  return detail::make_compiled(F{loc}, Bound<M>(model), options, loc);
}
// Everything else is refused with a sentence.
template <class F, class... Rest>
requires(!detail::Stateless<std::decay_t<F>> && !detail::CallableModel<std::remove_cvref_t<F>>) detail::Refused
    compile(F&&, Rest&&...) {
  // With several call operators it may be a set of lambdas, whose captures are no members of a model.
  if constexpr (detail::HasSignature<std::remove_cvref_t<F>>) (void)detail::check_members<std::remove_cvref_t<F>>();
  static_assert(
      !std::is_class_v<std::remove_cvref_t<F>>,
      "weft: compile() takes callables without captures: what is captured cannot be guarded. Make it a parameter, "
      "or bind it: compile(f, bind(a, b)) passes a and b as the first arguments of every call. A model that is no "
      "aggregate (it has a constructor, say) needs WEFT_MEMBERS; one with several call operators, as Sequential, a "
      "lambda: compile([](Model& m, const Tensor& x) { return m(x); }). A captured helper that captures nothing "
      "itself: make it static constexpr, or a function, which is used without a capture");
  static_assert(
      !std::is_member_function_pointer_v<std::remove_cvref_t<F>>,
      "weft: compile() takes no member function: wrap it, compile([](const Model& m, const Tensor& x) { return "
      "m.forward(x); })");
  static_assert(std::is_class_v<std::remove_cvref_t<F>> || std::is_member_function_pointer_v<std::remove_cvref_t<F>>,
                "weft: compile() takes a lambda without captures, a function, or a model");
  return {};
}
template <class F, class Other, class... Rest>
requires(detail::Stateless<std::decay_t<F>> && !std::is_convertible_v<Other, const CompileOptions&> &&
         !detail::is_bound<std::remove_cvref_t<Other>>) detail::Refused compile(F&&, Other&&, Rest&&...) {
  static_assert(!detail::Stateless<std::decay_t<F>>,
                "weft: compile(f, options) takes CompileOptions after the function, as {.dynamic = true}, or "
                "bind(objects...)");
  return {};
}
// What has no type to deduce. The compiler says the sentence; of a deleted function clang lists all candidates besides.
#ifdef __clang__
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wgcc-compat"
detail::Refused compile(...) __attribute__((diagnose_if(true, "weft: wrap an overloaded name in a lambda", "error")));
#pragma clang diagnostic pop
#else
detail::Refused compile(...) = delete;  // weft: wrap an overloaded name in a lambda
#endif

// For functions that take compiled ones.
namespace detail {
template <class F>
inline constexpr bool is_compiled_function = std::is_same_v<F, Refused>;
template <class... T>
inline constexpr bool is_compiled_function<Compiled<T...>> = true;
template <class F>
concept NotCompiled = !is_compiled_function<std::remove_cvref_t<F>>;
}  // namespace detail

// A size of this tensor is symbolic for the compiled functions that get it, from their first call on, and lies between
// `least` and `greatest`; `least` of 0 serves empty tensors and sizes of 1 too. The mark belongs to the value: a new
// tensor has none. It is read when a function is compiled: what was compiled for the size before goes on to be used.
// Throws Error where the axis does not exist, or its size is not between the two. A compiled function that makes a
// number, besides 0 and 1, of such a size throws with the line. No other thread may use the tensor meanwhile.
void mark_dynamic(const Tensor& x, int axis, std::int64_t least = 2, std::int64_t greatest = INT64_MAX,
                  Loc loc = Loc::current());
// The size is a number for the functions that get the tensor, although it differs from an earlier call's, or the
// function was compiled under {.dynamic = true}: each value is compiled anew.
void mark_static(const Tensor& x, int axis, Loc loc = Loc::current());

}  // namespace weft
