// Scalar expressions: a function of numbers, written once, applied to every element of tensors.
//
//   constexpr auto swish2 = elementwise([](auto x) { return x * sigmoid(2 * x); });
//   Tensor y = swish2(x);
//
// The lambda is called on Syms. Its type gives the graph (inside a trace: the primitives of weft/ops.def, recorded at
// the user's line), the host kernel (outside: one pass over memory, compiled with the program), and the derivative
// (another expression). Operands that are not bool are promoted to one dtype and broadcast to one shape first; literals
// are weak. A lambda that the compiler can't evaluate at compile time works too; its kernel is put together at run
// time. Loops accumulate in a Sym: `Sym sum = 0; for (double c : coefficients) sum = sum * x + c;`. Several results are
// returned as a std::tuple, or as pack(a, b, ...); the call gives a std::tuple of Tensors.
#pragma once
#include <tuple>

#include "weft/detail/expr_lanes.hpp"
#include "weft/detail/expr_tape.hpp"

namespace weft {

// Several results of a scalar expression.
template <std::same_as<Sym>... S>
constexpr std::tuple<S...> pack(S... values) {
  return {values...};
}

namespace detail {

// Records the application: throws Error when the operands do not broadcast, or an operand that must be bool is not.
void apply_elementwise(const ElementwiseDefinition& definition, const At* operands, Tensor* results);
// The same, where the expression may be written down now: its own errors carry the line of the call.
void apply_elementwise(const ElementwiseDefinition& (*definition)(), const At* operands, Tensor* results);
// A copy that lives as long as the process, with kernels that are put together at run time.
const ElementwiseDefinition& keep_definition(const ElementwiseDefinition& definition);

template <class F, int... I>
constexpr bool takes_syms(Places<I...>) {
  return requires(F f, Sym s) { f((static_cast<void>(I), s)...); };
}
// How many values the lambda takes; 0 when it is none of 1 ... 16.
template <class F, int N = 1>
constexpr int scalar_arity() {
  if constexpr (N > max_scalar_arguments)
    return 0;
  else if constexpr (takes_syms<F>(typename MakePlaces<N>::type()))
    return N;
  else
    return scalar_arity<F, N + 1>();
}

template <class R>
inline constexpr bool is_tuple = false;
template <class... S>
inline constexpr bool is_tuple<std::tuple<S...>> = true;

// Calls the lambda and keeps what it did.
template <class F, int... I>
constexpr ScalarTape<scalar_capacity> write_tape(Places<I...>) {
  ScalarTape<scalar_capacity> tape;
  ScalarProgram program{tape.entries, scalar_capacity};
  const std::uint16_t places[] = {(static_cast<void>(I), program.add({}))...};
  auto put = [&](Sym result) { tape.results[tape.result_count++] = result.entry_in(program); };
  auto result = F()(Sym(program, places[I])...);
  if constexpr (is_tuple<decltype(result)>)
    std::apply([&](auto... parts) { (put(parts), ...); }, result);
  else
    put(result);
  tape.argument_count = sizeof...(I);
  tape.entry_count = program.count;
  tape.finish();
  return tape;
}
// Longer ones are left to the library's kernels: the host compiler takes about 20 ms an entry for the two dtypes.
inline constexpr int compiled_entries = 96;

template <const auto& tape>
constexpr ElementwiseDefinition compiled_definition(const ElementwiseDefinition* gradient) {
  ElementwiseDefinition made = tape.definition();
  if constexpr (tape.typed && tape.entry_count <= compiled_entries) {
    made.f32 = LaneKernel<tape, float>::run;
    made.f64 = LaneKernel<tape, double>::run;
    made.isa = LaneKernel<tape, float>::isa;
    made.alike = true;
    for (int i = 0; i < tape.entry_count; ++i) made.alike = made.alike && rounds_alike(tape.entries[i].op);
  }
  made.gradient = gradient;
  return made;
}

template <auto>
struct Constant {};
template <class F, class P>
concept WrittenAtCompileTime = requires {
  typename Constant<(write_tape<F>(P()), 0)>;
};

// What the library needs to know of a lambda.
template <class F>
struct ScalarFunction {
  using Arguments = typename MakePlaces<scalar_arity<F>()>::type;
  static const ElementwiseDefinition& definition() {
    // Builtins, since <atomic> takes g++ 130 ms. Threads that come at once may each keep one: the first wins, and a
    // forked child waits for none.
    static constinit const ElementwiseDefinition* kept = nullptr;
    const ElementwiseDefinition* known = __atomic_load_n(&kept, __ATOMIC_ACQUIRE);
    if (!known) {
      auto tape = write_tape<F>(Arguments());
      const ElementwiseDefinition* fresh = &keep_definition(tape.definition());
      const bool first = __atomic_compare_exchange_n(&kept, &known, fresh, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
      if (first) known = fresh;
    }
    return *known;
  }
};
template <class F>
requires WrittenAtCompileTime < F, typename MakePlaces < scalar_arity<F>()
> ::type > struct ScalarFunction<F> {
  using Arguments = typename MakePlaces<scalar_arity<F>()>::type;
  static constexpr auto long_tape = write_tape<F>(Arguments());
  static constexpr auto tape = shorten<long_tape.entry_count>(long_tape);
  // Without a compiled gradient: one is put together at run time when it is asked for.
  static constexpr ElementwiseDefinition plain = compiled_definition<tape>(nullptr);
  static constexpr auto long_gradient = gradient_tape(tape);
  static constexpr auto gradient = shorten<long_gradient.entry_count>(long_gradient);
  static constexpr ElementwiseDefinition gradient_definition = compiled_definition<gradient>(nullptr);
  static constexpr ElementwiseDefinition kept = compiled_definition<tape>(&gradient_definition);
  static constexpr const ElementwiseDefinition& definition() { return kept; }
};

template <int>
using AtOf = At;
template <int... I>
auto to_tuple(Tensor* values, Places<I...>) {
  return std::tuple<std::remove_reference_t<decltype(values[I])>...>(std::move(values[I])...);
}

template <class F, class Arguments>
struct ElementwiseCall;
template <class F, int... I>
struct ElementwiseCall<F, Places<I...>> {
  // Throws Error when the operands do not broadcast or do not promote.
  auto operator()(AtOf<I>... operands) const {
    const At list[] = {operands...};
    using Written = decltype(F()((static_cast<void>(I), Sym(0))...));
    if constexpr (is_tuple<Written>) {
      static_assert(std::tuple_size_v<Written> <= max_scalar_arguments, "elementwise gives at most 16 results");
      Tensor results[std::tuple_size_v<Written>];
      apply_elementwise(&ScalarFunction<F>::definition, list, results);
      return to_tuple(results, typename MakePlaces<std::tuple_size_v<Written>>::type());
    } else {
      Tensor result;
      apply_elementwise(&ScalarFunction<F>::definition, list, &result);
      return result;
    }
  }
};

}  // namespace detail

// Applies `f` element by element: a lambda without captures, of up to 16 values.
template <class F>
constexpr auto elementwise(F) {
  if constexpr (!std::is_empty_v<F>) {
    static_assert(detail::never<F>, "elementwise takes a lambda without captures: make what it captures an operand");
  } else if constexpr (detail::scalar_arity<F>() == 0) {
    static_assert(detail::never<F>, "elementwise takes a lambda of 1 to 16 values: [](auto x, auto y) { return ...; }");
  } else {
    return detail::ElementwiseCall<F, typename detail::MakePlaces<detail::scalar_arity<F>()>::type>();
  }
}

}  // namespace weft
