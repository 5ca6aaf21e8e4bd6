// The host kernel of a scalar expression: the host compiler's instantiation of its entries over 16 vector lanes, one
// pass over memory. In: whole vectors of contiguous or repeated operands. Out: contiguous results. Each primitive is
// spelled as in every other CPU kernel (the `lanes` column of weft/ops.def), literals have the dtype of the lanes.
#pragma once
#include "weft/detail/expr_symbol.hpp"
#include "weft/detail/lanes.hpp"

namespace weft::detail {

#define WEFT_INLINE __attribute__((always_inline)) static inline
// A product and a sum stay two roundings, as they are on tensors: g++ would contract them by default where there is
// FMA, clang does so only inside one expression.
#if defined(__clang__)
#define WEFT_TWO_ROUNDINGS
#else
#define WEFT_TWO_ROUNDINGS __attribute__((optimize("fp-contract=off")))
#endif

template <ScalarOp Op>
struct LaneOperation;
#define WEFT_POINTWISE(name, arity, dtypes, rounding, cost, lanes, ...)                      \
  template <>                                                                                \
  struct LaneOperation<ScalarOp::name> {                                                     \
    template <class A, class B, class C>                                                     \
    WEFT_INLINE auto run([[maybe_unused]] A a, [[maybe_unused]] B b, [[maybe_unused]] C c) { \
      return lanes;                                                                          \
    }                                                                                        \
  };
#include "weft/ops.def"

template <int... I>
struct Places {};
template <int N, int... I>
struct MakePlaces : MakePlaces<N - 1, N - 1, I...> {};
template <int... I>
struct MakePlaces<0, I...> {
  using type = Places<I...>;
};

// `program` is a static object with entries, entry_count, argument_count, results and result_count. Lane names the ISA
// that the file is compiled for, so that files of one program compiled with different flags never share a kernel.
template <const auto& program, class T, class Lane = lanes::lanes<T>>
struct LaneKernel {
#if defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__AVX512BW__) && defined(__AVX512VL__)
  static constexpr int isa = 2;
#elif defined(__AVX2__) && defined(__FMA__)
  static constexpr int isa = 1;
#else
  static constexpr int isa = 0;
#endif
  static constexpr bool is_boolean(int i) { return program.entries[i].kind == ScalarKind::boolean; }
  static constexpr bool is_leaf(int i) { return program.entries[i].op >= ScalarOp::argument; }
  // Whether operand k of entry i is taken as a bool: as its class says; a bool that is taken as a number is 0 or 1.
  static constexpr bool takes_boolean(int i, int k) {
    ScalarClass dtypes = scalar_classes[static_cast<int>(program.entries[i].op)];
    return dtypes == ScalarClass::bits || (dtypes == ScalarClass::select && (k == 0 || is_boolean(i)));
  }

  template <int I, bool Leaf = is_leaf(I)>
  struct Value {
    using type = std::conditional_t<is_boolean(I), lanes::Mask, Lane>;
  };
  template <int I, int K>
  using Operand = std::conditional_t<takes_boolean(I, K), typename Value<program.entries[I].operands[K]>::type, Lane>;
  template <int I>
  struct Value<I, false> {
    using type = decltype(LaneOperation<program.entries[I].op>::run(Operand<I, 0>(), Operand<I, 1>(), Operand<I, 2>()));
  };
  template <int I>
  struct Slot {
    typename Value<I>::type value;
  };
  template <class Places>
  struct Frame;
  template <int... I>
  struct Frame<Places<I...>> : Slot<I>... {};

  template <int I, class F>
  WEFT_INLINE auto& value(F& frame) {
    using Place = std::conditional_t<std::is_const_v<F>, const Slot<I>, Slot<I>>;
    return static_cast<Place&>(frame).value;
  }
  template <int I, int K>
  WEFT_INLINE Operand<I, K> operand(const auto& frame) {
    constexpr int at = program.entries[I].operands[K];
    if constexpr (K >= scalar_arities[static_cast<int>(program.entries[I].op)])
      return {};
    else if constexpr (is_boolean(at) && !takes_boolean(I, K))
      return select(value<at>(frame), Lane(T(1)), Lane(T(0)));
    else
      return value<at>(frame);
  }
  template <int I>
  WEFT_INLINE typename Value<I>::type compute(const auto& frame, const void* const* data) {
    constexpr ScalarEntry entry = program.entries[I];
    using Element = std::conditional_t<is_boolean(I), bool, T>;
    if constexpr (entry.op == ScalarOp::argument) {
      return lanes::load(static_cast<const Element*>(data[I]));
    } else if constexpr (entry.op == ScalarOp::literal) {
      if constexpr (is_boolean(I))
        return Lane(T(entry.integer)) != Lane(T(0));
      else
        return Lane(entry.literal == DTypeKind::floating ? T(entry.number) : T(entry.integer));
    } else {
      return LaneOperation<entry.op>::run(operand<I, 0>(frame), operand<I, 1>(frame), operand<I, 2>(frame));
    }
  }

  template <int... Entry, int... Argument, int... Result>
  WEFT_INLINE void run_all(void* const* results, const ScalarOperand* operands, std::int64_t vectors, Places<Entry...>,
                           Places<Argument...>, Places<Result...>) {
    const void* data[] = {operands[Argument].data...};
    const std::int64_t steps[] = {operands[Argument].step...};
    for (std::int64_t v = 0; v < vectors; ++v) {
      Frame<Places<Entry...>> frame;
      ((value<Entry>(frame) = compute<Entry>(frame, data)), ...);
      (write<program.results[Result]>(results[Result], v, value<program.results[Result]>(frame)), ...);
      ((data[Argument] =
            static_cast<const std::conditional_t<is_boolean(Argument), bool, T>*>(data[Argument]) + steps[Argument]),
       ...);
    }
  }
  template <int I>
  WEFT_INLINE void write(void* result, std::int64_t vector, auto value) {
    using Element = std::conditional_t<is_boolean(I), bool, T>;
    lanes::store(static_cast<Element*>(result) + vector * lanes::lane_count, value);
  }

  WEFT_TWO_ROUNDINGS static void run(void* const* results, const ScalarOperand* operands, std::int64_t vectors) {
    run_all(results, operands, vectors, typename MakePlaces<program.entry_count>::type(),
            typename MakePlaces<program.argument_count>::type(), typename MakePlaces<program.result_count>::type());
  }
};

#undef WEFT_INLINE
#undef WEFT_TWO_ROUNDINGS

}  // namespace weft::detail
