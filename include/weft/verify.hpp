// verify(f, args...): whether a compiled function gives what the function gives. The first thing to do when a number
// looks wrong. It runs the function plainly, compiled, by the eager executor and by the reference interpreter in
// float64, each on a copy of the state, and holds every result against the plain one.
//   std::cout << verify(step, model, x, y);
#pragma once
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "weft/compile.hpp"

namespace weft {

// What verify() found. A tensor may be from the plain one's as far as this share of its greatest element: 1e-4 of f32,
// 1e-10 of f64, 1e-2 of f16, 5e-2 of bf16. Where one is further away, the reference interpreter says how much of it may
// be rounding: it runs 4 times more, each inexact result of an operation moved at random by up to 3 roundings of its
// dtype (Monte Carlo arithmetic), and 8 times as far as the tensor moved is allowed too. So what is left of larger
// values that cancel, as a loss near its least, is no difference, and a wrong one is. Integers, booleans and numbers of
// C++ must be the same, but for elements that move so too: the place of the greater of two that are nearly equal.
struct Verification {
  // A tensor that is further away, or a number that is not the same.
  struct Difference {
    std::string way;           // "compiled", "eager" or "reference": who gives another value than the plain function
    std::string leaf;          // `the result (loss)`, `argument 0 (w)`: a result, or state that the function changes
    double greatest = 0;       // |found - expected|; NaN where one of them is
    std::int64_t element = 0;  // where, counted in row-major order
    double found = 0;          // there, in this way
    double expected = 0;       // there, by the plain function
  };
  std::vector<Difference> differences;
  double greatest_relative = 0;  // of all tensors and ways: |found - expected| by the greatest |expected| of the tensor
  std::size_t compared = 0;      // tensors and numbers, in every way
  bool same() const { return differences.empty(); }
};
std::string to_string(const Verification& verification);                        // a line a difference, and a last one
std::ostream& operator<<(std::ostream& out, const Verification& verification);  // the same

namespace detail {

// The leaves of a run.
struct VerifiedRun {
  LeafList results, arguments;
};
// How far roundings move the tensors of a run.
class RoundingSpreads {
 public:
  RoundingSpreads();
  ~RoundingSpreads();
  RoundingSpreads(const RoundingSpreads&) = delete;
  // What run(context) makes, with roundings moved, in a few runs; `exact`: the same without. A run that throws an Error
  // counts for nothing: a moved index may have left its range.
  void add(const VerifiedRun& exact, void* context, const VerifiedRun& (*run)(void* context));
  struct State;
  const State& state() const { return *state_; }

 private:
  State* state_;
};
// `spreads`: null where roundings are only allowed their share.
void compare_runs(const char* way, const CallSignature& signature, const VerifiedRun& expected,
                  const VerifiedRun& found, const RoundingSpreads* spreads, Verification& out);
// The default generator's state now; and back to it.
Tensor generator_state();
void set_generator_state(const Tensor& state);
CompileOptions options_of(const Function* function);

template <class A>  // as a generic compiled function takes it: what is moved and const is only read
using VerifiedArgument = std::conditional_t<std::is_lvalue_reference_v<A> || std::is_const_v<A>, A&, A>;

// One run of `f` over copies of the arguments, and the leaves of what it gave and changed, which live as long as this.
template <class R, class... P>
struct VerifiedCall : VerifiedRun {
  template <class F>
  VerifiedCall(const F& f, const std::tuple<Value<P>...>& original) : given_(copied(original)) {
    std::apply(
        [&](Value<P>&... argument) {
          if constexpr (std::is_void_v<R>)
            f(static_cast<P&&>(argument)...);
          else
            result_.push_back(f(static_cast<P&&>(argument)...));
          if constexpr (!std::is_void_v<R>) flatten(result_.front(), results);
          (
              [&] {
                VerifiedRun::arguments.access = access<P>;
                flatten(argument, VerifiedRun::arguments);
                ++VerifiedRun::arguments.argument;
              }(),
              ...);
        },
        given_);
  }

 private:
  static std::tuple<Value<P>...> copied(const std::tuple<Value<P>...>& arguments) {
    return std::apply([](const Value<P>&... argument) { return std::tuple<Value<P>...>(clone(argument)...); },
                      arguments);
  }
  struct Nothing {};
  std::tuple<Value<P>...> given_;
  std::vector<std::conditional_t<std::is_void_v<R>, Nothing, R>> result_;
};

template <class R, class... P, class F, class... A>
Verification verify(const F& f, const FunctionHandle& function, A&... argument) {
  static_assert((cloneable<Value<P>>() && ... && true), "weft: verify() copies the arguments: they must be copyable");
  const std::tuple<Value<P>...> arguments(clone(static_cast<const Value<P>&>(argument))...);
  const CompileOptions own = options_of(function.get());
  const Tensor drawn = generator_state();
  Verification found;
  const VerifiedCall<R, P...> plain(
      [&](P... given) -> R {
        const FunctionModes modes(function.get());
        F callable = f;
        return callable(static_cast<P&&>(given)...);
      },
      arguments);
  const Tensor after = generator_state();
  using Run = std::optional<VerifiedCall<R, P...>>;
  const auto run_by = [&](const FunctionHandle& by, Run& run) {
    run.reset();
    set_generator_state(drawn);
    run.emplace([&](P... given) -> R { return call<R, P...>(by, f, Loc(), given...); }, arguments);
  };
  const CallSignature& signature = SignatureOfCall<R, P...>::value;
  struct Way {
    const char* name;
    Backend backend;
    Run run;  // empty if the results are equal
  } ways[] = {
      {"compiled", Backend::compiled, {}}, {"eager", Backend::eager, {}}, {"reference", Backend::reference, {}}};
  CompileOptions changed = own;
  for (Way& way : ways) {
    changed.backend = way.backend;
    run_by(FunctionHandle(make_function(changed, Loc())), way.run);
    const std::size_t before = found.differences.size();
    compare_runs(way.name, signature, plain, *way.run, nullptr, found);
    if (found.differences.size() == before) way.run.reset();
  }
  if (!found.same()) {
    changed.check = Check::never;  // one trace for all runs
    const FunctionHandle reference(make_function(changed, Loc()));
    Run exact, moved;
    run_by(reference, exact);
    RoundingSpreads spreads;
    auto run = [&]() -> const VerifiedRun& { return run_by(reference, moved), *moved; };
    spreads.add(*exact, &run,
                [](void* context) -> const VerifiedRun& { return (*static_cast<decltype(run)*>(context))(); });
    Verification again;
    for (const Way& way : ways)
      if (way.run) compare_runs(way.name, signature, plain, *way.run, &spreads, again);
    found.differences = std::move(again.differences);
  }
  set_generator_state(after);
  return found;
}

}  // namespace detail

// Holds f, compiled in each way, against the plain function for these arguments. Compiles f anew, and leaves the
// arguments and what f has compiled as they are; the default generator is then as after one call. Throws as a call
// does.
template <class F, class R, class... T, class... First, class... P, class... A>
Verification verify(const Compiled<F, R, Bound<T...>, detail::TypeList<First...>, detail::TypeList<P...>>& f,
                    const A&... argument) {
  return f.bound().apply(
      [&](T&... bound) { return detail::verify<R, First..., P...>(f.plain(), f.function(), bound..., argument...); });
}
// Of a generic callable: the arguments' types are the call's. An lvalue that is not const is state.
template <class F, class... T, class... A>
Verification verify(const Compiled<F, void, Bound<T...>, void, void>& f, A&&... argument) {
  return f.bound().apply([&](T&... bound) {
    using R =
        std::remove_cvref_t<decltype(std::declval<F&>()(bound..., std::declval<detail::VerifiedArgument<A>>()...))>;
    return detail::verify<R, T&..., detail::VerifiedArgument<A>...>(f.plain(), f.function(), bound..., argument...);
  });
}

}  // namespace weft
