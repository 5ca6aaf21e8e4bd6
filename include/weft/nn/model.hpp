// Whole models: naming, counting, freezing, moving and initializing their parameters, the mode of their layers, norms
// and sums of their gradients, averages of their weights.
#pragma once
#include <string>
#include <vector>

#include "weft/ops.hpp"
#include "weft/random.hpp"
#include "weft/tree.hpp"

namespace weft::nn {

template <class P = Param>  // const Param of a const model
struct NamedParameter {
  const char* name;  // blocks.3.attn.weight; lives as long as the process
  P& value;          // the model's own
};

// The defined parameters in the order of their declaration, with their paths. They are the model's own, which must
// outlive the list: `p.value -= 0.1 * gradient` and `p.value.frozen = true` change it.
template <class M>
auto parameters(M& model) {
  (void)weft::detail::check_model<M>();
  using P = std::conditional_t<std::is_const_v<M>, const Param, Param>;
  std::vector<NamedParameter<P>> list;
  auto visit = weft::detail::typed_visit<Param>([&list]<class T>(const weft::detail::Path& path, T& part) {
    if constexpr (std::is_same_v<T, P>)
      if (part.tensor().defined()) list.push_back({path.interned(), part});
    return false;
  });
  weft::detail::walk(visit, {}, model);
  return list;
}

// How many numbers the parameters hold; with `trainable`, those that are not frozen.
template <class M>
std::int64_t num_parameters(const M& model, bool trainable = false, Loc loc = Loc::current()) {
  std::int64_t count = 0;
  tree::for_each(model, [&](const Param& p) {
    if (p.tensor().defined() && (!trainable || !p.frozen))
      count += static_cast<std::int64_t>(p.tensor().element_count(loc));
  });
  return count;
}

namespace detail {
using weft::detail::LeafKind;
using weft::detail::LeafList;
struct SummaryRow {
  const char* path;
  const Tensor* value;
  const char* note;  // frozen, buffer, or nothing
};
std::string summary(const std::vector<SummaryRow>& rows);
[[noreturn]] void refuse_pattern(const char* pattern, const std::vector<std::string>& paths, Loc loc);
// Of the leaves that hold defined floating tensors.
Tensor clip_grad_norm(const LeafList& gradients, At max_norm, double norm_type);
void clip_grad_value(const LeafList& gradients, At clip_value);
void move(const LeafList& leaves, Device device, Loc loc);
void convert(const LeafList& leaves, DType dtype, Loc loc);
void lerp_into(Tensor& average, const Tensor& value, At weight);
template <class M>
LeafList& flattened(M& model, LeafList& leaves) {
  (void)weft::detail::check_model<M>();
  if constexpr (weft::detail::Flattenable<M>) weft::detail::flatten(model, leaves);  // else check_model has failed
  return leaves;
}
}  // namespace detail

// A table to print: the path and type of each defined parameter and buffer, in the order of declaration, which ones are
// frozen, and how many numbers the parameters hold. Computes nothing.
template <class M>
std::string summary(const M& model) {
  (void)weft::detail::check_model<M>();
  std::vector<detail::SummaryRow> rows;
  auto visit = weft::detail::typed_visit<Param, Buffer>([&rows]<class T>(const weft::detail::Path& path, T& part) {
    if constexpr (std::is_same_v<T, const Param>) {
      if (part.tensor().defined()) rows.push_back({path.interned(), &part.tensor(), part.frozen ? "frozen" : ""});
    } else if constexpr (std::is_same_v<T, const Buffer>) {
      if (part.tensor().defined()) rows.push_back({path.interned(), &part.tensor(), "buffer"});
    }
    return false;
  });
  weft::detail::walk(visit, {}, model);
  return detail::summary(rows);
}

// A frozen parameter is not differentiated and not updated.
template <class M>
void freeze(M& model, bool frozen = true) {
  (void)weft::detail::check_model<M>();
  auto visit = weft::detail::typed_visit<Param>([frozen]<class T>(const weft::detail::Path&, T& part) {
    if constexpr (std::is_same_v<T, Param>) part.frozen = frozen || !part.tensor().defined();
    return false;
  });
  weft::detail::walk(visit, {}, model);
}
// The same for the parameters whose path is of the pattern (tree::matches): freeze(model, "encoder.*"). Throws Error
// where there is none.
template <class M>
void freeze(M& model, const char* pattern, bool frozen = true, Loc loc = Loc::current()) {
  bool found = false;
  std::vector<std::string> others;
  tree::for_each(model, [&](const char* path, Param& p) {
    if (!tree::matches(pattern, path)) return others.emplace_back(path), void();
    found = true;
    p.frozen = frozen || !p.tensor().defined();
  });
  if (!found) detail::refuse_pattern(pattern, others, loc);
}

// Says whether a model is in training: sets every part's `bool training`, of layers and of a user's own structs. It is
// a guarded number of a call, so a compiled function is compiled once for each of the two modes.
template <class M>
void train(M& model, bool on = true) {
  (void)weft::detail::check_model<M>();
  auto visit = [on]<class T>(const weft::detail::Path&, T& part) {
    if constexpr (weft::detail::is_any_part<T>) {
      if (part.type->training) *part.type->training(part.address) = on;
    } else if constexpr (weft::detail::HasMode<T>) {
      part.training = on;
    }
    return false;
  };
  weft::detail::walk(visit, {}, model);
}
template <class M>
void eval(M& model) {
  train(model, false);
}

// Draws initial values anew: every part that has initialize(Generator&) gets a generator of its path, so a layer's
// values depend on the seed and its name, not on what else the model holds or in which order it was made.
template <class M>
void initialize(M& model, Generator& generator, Loc loc = Loc::current()) {
  (void)weft::detail::check_model<M>();
  Generator base = generator.fork(loc);
  auto visit = [&]<class T>(const weft::detail::Path& path, T& part) {
    if constexpr (weft::detail::is_any_part<T>) {
      if (!part.type->initialize) return false;
      Generator own = base.named(path.text(), loc);
      part.type->initialize(part.address, own);
      return true;
    } else if constexpr (weft::detail::HasInitialize<T>) {
      Generator own = base.named(path.text(), loc);
      part.initialize(own);
      return true;
    } else {
      return false;
    }
  };
  weft::detail::walk(visit, loc, model);
}

// Moves the tensors of a model (an optimizer's state, a batch) to a device. 0-d values, hyperparameters and counters,
// stay on the host, where they may change from call to call.
template <class M>
requires(!std::is_same_v<M, Tensor>) void to(M& model, Device device, Loc loc = Loc::current()) {
  detail::LeafList leaves;
  detail::move(detail::flattened(model, leaves), device, loc);
}
// Casts the floating tensors, parameters and buffers of a model to a floating dtype; numbers, Scalars and integers
// stay.
template <class M>
requires(!std::is_same_v<M, Tensor>) void to(M& model, DType dtype, Loc loc = Loc::current()) {
  detail::LeafList leaves;
  detail::convert(detail::flattened(model, leaves), dtype, loc);
}

// ---- gradients and averages of whole models ------------------------------------------------------------------------

// Scales all gradients by max_norm / (norm + 1e-6) where that is less than 1, and returns the norm that they had, of
// all their elements as one vector (Pascanu and others 2013): f32 [] (f64 where one is). norm_type is p of the p-norm;
// infinity takes the greatest. `gradients` is what grad returns. Of no gradients the norm is 0. Throws where max_norm
// is a number that is negative or NaN; the value of a Tensor or Scalar is not known when the call is recorded, and is
// not checked.
template <class M>
Tensor clip_grad_norm(M& gradients, At max_norm, double norm_type = 2) {
  detail::LeafList leaves;
  return detail::clip_grad_norm(detail::flattened(gradients, leaves), max_norm, norm_type);
}
// Clamps every gradient to [-clip_value, clip_value]. The bound is checked as max_norm is.
template <class M>
void clip_grad_value(M& gradients, At clip_value) {
  detail::LeafList leaves;
  detail::clip_grad_value(detail::flattened(gradients, leaves), clip_value);
}

// A model of zeros, for sums of gradients and an optimizer's state; what is undefined stays so.
template <class M>
M zeros_like(const M& model, Loc loc = Loc::current()) {
  return tree::map(
      model,
      [loc]<class T>(const T& leaf) {
        if constexpr (std::is_same_v<T, Scalar> || std::is_same_v<T, Index>)
          return T(0);
        else
          return weft::zeros_like(leaf, loc);
      },
      loc);
}
// sum += model, leaf by leaf: gradients of several batches.
template <class M>
void add_into(M& sum, const M& model, Loc loc = Loc::current()) {
  tree::for_each(
      sum, model,
      [loc]<class T>(T& a, const T& b) {
        if constexpr (std::is_same_v<T, Scalar> || std::is_same_v<T, Index>)
          a = a + b;
        else if constexpr (std::is_same_v<T, Tensor>)
          a = At(a, loc) + At(b, loc);
        else
          a.tensor() = At(a, loc) + At(b, loc);
      },
      loc);
}
// average += weight * (model - average) for every parameter and every plain tensor of floats: an exponential moving
// average of a model's weights keeps 1 - weight of itself (Polyak and Juditsky 1992). Buffers, and what is not
// floating, become the model's.
template <class M>
void lerp_into(M& average, const M& model, At weight) {
  tree::for_each(
      average, model,
      [&]<class T>(T& a, const T& b) {
        if constexpr (std::is_same_v<T, Tensor>)
          detail::lerp_into(a, b, weight);
        else if constexpr (std::is_same_v<T, Param>)
          detail::lerp_into(a.tensor(), b.tensor(), weight);
        else
          a = b;
      },
      weight.loc);
}

}  // namespace weft::nn
