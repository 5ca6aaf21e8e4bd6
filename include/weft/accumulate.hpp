// Gradients accumulated over microbatches: accumulate(n, f, model, batch...).
#pragma once
#include <tuple>

#include "weft/grad.hpp"
#include "weft/loops.hpp"

namespace weft {

enum class Accumulation : std::uint8_t { mean, sum };  // what is given of the microbatches' losses and gradients

// Of accumulate: how many parts a batch is cut into, and what is given of theirs.
struct Microbatches {
  // Throws Error where the count is not positive.
  Microbatches(std::int64_t count, Accumulation reduction = Accumulation::mean, Loc loc = Loc::current());
  std::int64_t count;      // parts of a batch
  Accumulation reduction;  // of losses and of gradients
  Loc loc;                 // of the call
};

namespace detail {

// Gradients so far, and what f has written into the model: its buffers and Scalars. Undefined elsewhere.
template <class M>
struct AccumulateState {
  M gradients, written;
};

// The erased half of accumulate.
class Accumulator {
 public:
  // `writes`: whether f may write into the model.
  Accumulator(const Microbatches& microbatches, bool writes);
  // [size, ...] to [count, size / count, ...].
  void cut(const LeafList& batch) const;
  // Makes the first state of copies of the model.
  void begin(const LeafList& gradients, const LeafList& written) const;
  // Puts the tensors of `from` that f may have written to the places of `to`.
  void move_written(const LeafList& from, const LeafList& to) const;
  void add(const LeafList& sums, const LeafList& gradients) const;
  // Gives gradients their reduction and their dtypes.
  void finish(const LeafList& gradients, const LeafList& model) const;
  // Reduces the loss of what f gave of all parts, which is stacked: the first tensor, [count, ...].
  void reduce_loss(const LeafList& stacked) const;

 private:
  Microbatches microbatches_;
  bool writes_;
};

template <class T>
LeafList& flattened_again(LeafList& leaves, T& value) {
  leaves.clear();
  flatten(value, leaves);
  return leaves;
}

template <class F, class Wrt, class... Batch>
auto accumulate(const Microbatches& microbatches, F& f, Wrt& wrt, const Batch&... batch) {
  using M = std::remove_const_t<Wrt>;
  using Parts = std::tuple<Batch...>;
  const Loc loc = microbatches.loc;
  const Accumulator accumulator(microbatches, !std::is_const_v<Wrt>);
  LeafList leaves, others;
  Parts parts(batch...);
  accumulator.cut(flattened_again(leaves, parts));
  using Value = std::remove_cvref_t<std::invoke_result_t<F&, Wrt&, const Batch&...>>;
  AccumulateState<M> begin{clone<M>(wrt), clone<M>(wrt)};
  accumulator.begin(flattened_again(leaves, begin.gradients), flattened_again(others, begin.written));
  auto [last, value] = weft::scan(
      [&](AccumulateState<M> state, const Parts& own) {
        M bound = clone<M>(wrt);
        accumulator.move_written(flattened_again(leaves, state.written), flattened_again(others, bound));
        const auto loss = [&](Wrt& model) {
          return std::apply([&](const Batch&... each) { return f(model, each...); }, own);
        };
        auto found = differentiate<decltype(loss), Wrt>("accumulate", loss, bound, loc);
        accumulator.add(flattened_again(leaves, state.gradients), flattened_again(others, found.gradients));
        accumulator.move_written(flattened_again(leaves, bound), flattened_again(others, state.written));
        return std::pair<AccumulateState<M>, Value>{std::move(state), std::move(found.value)};
      },
      std::move(begin), std::move(parts), {}, loc);
  accumulator.finish(flattened_again(leaves, last.gradients), flattened_again(others, std::as_const(wrt)));
  if constexpr (!std::is_const_v<Wrt>)
    accumulator.move_written(flattened_again(leaves, last.written), flattened_again(others, wrt));
  accumulator.reduce_loss(flattened_again(leaves, value));
  return ValueAndGrad<Value, M>{std::move(value), std::move(last.gradients)};
}

}  // namespace detail

// The loss and the gradients of a batch that is computed in parts, in a loop, in the memory of one part and of the
// gradients: `batch` are tensors [size, ...], or structs of such, which are cut along axis 0 into `microbatches` parts,
// and f(model, part...) gives the loss of one, a Tensor of one element. Returns [value, gradients]: the mean of the
// losses and of the gradients, or with {count, Accumulation::sum} their sums. f may return more beside the loss, in a
// struct or tuple of tensors whose first one is the loss: value is of that type, and its other tensors are those of all
// parts, stacked along a new axis 0, [count, ...]. For a loss that is a mean over its
// samples that is what value_and_grad gives of the whole batch. Gradients of f16 and bf16 are added up in f32 and
// rounded once. Each part draws numbers of its own (dropout), as in a loop; what f writes into the Buffers and Scalars
// of a model that is not const is what the next part reads, and the model has after the last. Outside a compiled
// function too. The gradient of a sparse nn::Embedding becomes dense. Throws Error where a size is not a multiple of
// the count, where a tensor of the batch has no axis, and where value_and_grad does.
//   auto [loss, gradients] = accumulate(8, loss_of, model, x, y);
//   opt.update(model, gradients);
template <class F, class M, class... Batch>
auto accumulate(Microbatches microbatches, F&& f, M&& model, const Batch&... batch) {
  static_assert(sizeof...(Batch) > 0,
                "weft: accumulate(n, f, model, batch...) needs a batch, which it cuts into n parts");
  static_assert((detail::Flattenable<Batch> && ...),
                "weft: accumulate(n, f, model, batch...): a batch is a tensor, or a struct or container of tensors");
  using Wrt = std::remove_reference_t<decltype(detail::read_unless_lvalue<M>(model))>;
  constexpr bool takes_parts = std::is_invocable_v<F&, Wrt&, const Batch&...>;
  static_assert(takes_parts,
                "weft: accumulate(n, f, model, batch...) calls f(model, part...), which returns the loss, a Tensor, as "
                "in [](const Model& m, const Tensor& x) { ... }");
  if constexpr (takes_parts) {
    using Value = std::remove_cvref_t<std::invoke_result_t<F&, Wrt&, const Batch&...>>;
    static_assert(detail::Flattenable<Value> && !detail::begins_with_number<Value>(),
                  "weft: accumulate(n, f, model, batch...): f returns the loss, a Tensor, or a struct or tuple of "
                  "tensors whose first one is the loss");
    return detail::accumulate<std::remove_reference_t<F>, Wrt, Batch...>(
        microbatches, f, detail::read_unless_lvalue<M>(model), batch...);
  } else {
    return *static_cast<ValueAndGrad<Tensor, std::remove_const_t<Wrt>>*>(nullptr);  // no more than the sentence
  }
}

}  // namespace weft
