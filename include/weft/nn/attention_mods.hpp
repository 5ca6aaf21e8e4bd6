// What scaled_dot_product_attention does to a score before it is a weight, as functions of numbers: a score_mod gives
// the score of a query and a key another value, a mask_mod says whether the query sees the key.
//
//   nn::scaled_dot_product_attention(q, k, v, {
//       .score_mod = [](auto score, auto b, auto h, auto q, auto k) { return 30 * tanh(score / 30); },
//       .mask_mod = [&](auto b, auto h, auto q, auto k) { return (q >= k) & (document[q] == document[k]); }});
//
// A function is called once a call of attention, with tensors of no axes: the score in f32 (f64 of f64 operands), and
// the places of the batch, the head, the query and the key, i32. It gives a number by the functions of tensors that
// work element by element, and may read elements of tensors that it captures, which get gradients: bias[h][q - k + n].
// A place that is out of range, but for the places themselves, reads the nearest element; one below 0 counts from the
// end. Names and meanings are those of PyTorch's flex_attention.
#pragma once
#include <concepts>
#include <type_traits>

#include "weft/tensor.hpp"

namespace weft {

namespace detail {

// A function of tensors, erased; copies share it.
class PairFunction {
 public:
  struct Held {
    Tensor (*call)(const Held* self, const Tensor* operands);
    void (*destroy)(Held* self);
    int references = 1;
  };
  PairFunction() = default;
  explicit PairFunction(Held* held) : held_(held) {}
  PairFunction(const PairFunction& other) noexcept;
  PairFunction& operator=(PairFunction other) noexcept;
  ~PairFunction();
  bool defined() const { return held_ != nullptr; }
  Tensor operator()(const Tensor* operands) const { return held_->call(held_, operands); }

 private:
  Held* held_ = nullptr;
};

template <class F>
struct HeldFunction : PairFunction::Held {
  F f;
  HeldFunction(F f_, Tensor (*call_)(const Held*, const Tensor*))
      : Held{call_, [](Held* self) { delete static_cast<HeldFunction*>(self); }}, f(static_cast<F&&>(f_)) {}
  static const F& of(const Held* self) { return static_cast<const HeldFunction*>(self)->f; }
};

}  // namespace detail

namespace nn {

// A score's new value, from (score, batch, head, query, key). Made from any function object of five Tensors that gives
// one; nothing where it is default-made.
class ScoreMod {
 public:
  ScoreMod() = default;  // scores stay as they are
  template <class F>
  requires(!std::same_as<F, ScoreMod>) ScoreMod(F f) {  // of a function object, as above
    using T = Tensor;
    constexpr bool fits = std::is_invocable_v<const F&, T, T, T, T, T>;
    static_assert(fits,
                  "weft: a score_mod is a function of the score and of the places of batch, head, query and key: "
                  "[](auto score, auto b, auto h, auto q, auto k) { return score + k; }");
    if constexpr (fits) {
      constexpr bool gives = std::same_as<std::invoke_result_t<const F&, T, T, T, T, T>, T>;
      static_assert(gives, "weft: a score_mod returns the score's new value, a Tensor");
      if constexpr (gives)
        function_ = weft::detail::PairFunction(new weft::detail::HeldFunction<F>(
            static_cast<F&&>(f), [](const weft::detail::PairFunction::Held* self, const T* x) -> T {
              return weft::detail::HeldFunction<F>::of(self)(x[0], x[1], x[2], x[3], x[4]);
            }));
    }
  }
  bool defined() const { return function_.defined(); }                      // whether it is a function
  const weft::detail::PairFunction& function() const { return function_; }  // weft's own
  // The new value: so that one function may use another. It must be defined.
  Tensor operator()(const Tensor& score, const Tensor& b, const Tensor& h, const Tensor& q, const Tensor& k) const;

 private:
  weft::detail::PairFunction function_;
};

// Whether a query sees a key, from (batch, head, query, key). Made from any function object of four Tensors that gives
// a bool one; nothing where it is default-made. Two of them together: a & b, a | b; all others: ~a.
class MaskMod {
 public:
  MaskMod() = default;  // every query sees every key
  template <class F>
  requires(!std::same_as<F, MaskMod>) MaskMod(F f) {  // of a function object, as above
    using T = Tensor;
    constexpr bool fits = std::is_invocable_v<const F&, T, T, T, T>;
    static_assert(fits,
                  "weft: a mask_mod is a function of the places of batch, head, query and key: "
                  "[](auto b, auto h, auto q, auto k) { return q >= k; }");
    if constexpr (fits) {
      constexpr bool gives = std::same_as<std::invoke_result_t<const F&, T, T, T, T>, T>;
      static_assert(gives, "weft: a mask_mod returns a bool Tensor: write & for &&, | for || and ~ for !");
      if constexpr (gives)
        function_ = weft::detail::PairFunction(new weft::detail::HeldFunction<F>(
            static_cast<F&&>(f), [](const weft::detail::PairFunction::Held* self, const T* x) -> T {
              return weft::detail::HeldFunction<F>::of(self)(x[0], x[1], x[2], x[3]);
            }));
    }
  }
  bool defined() const { return function_.defined(); }                      // whether it is a function
  const weft::detail::PairFunction& function() const { return function_; }  // weft's own
  // Whether it sees it: so that one function may use another. It must be defined.
  Tensor operator()(const Tensor& b, const Tensor& h, const Tensor& q, const Tensor& k) const;

  friend MaskMod operator&(const MaskMod& a, const MaskMod& b) { return both(a, b); }    // what both let see
  friend MaskMod operator|(const MaskMod& a, const MaskMod& b) { return either(a, b); }  // what one of them lets see
  friend MaskMod operator~(const MaskMod& a) { return opposite(a); }                     // what it hides

 private:
  static MaskMod both(const MaskMod& a, const MaskMod& b);
  static MaskMod either(const MaskMod& a, const MaskMod& b);
  static MaskMod opposite(const MaskMod& a);

  weft::detail::PairFunction function_;
};

// Query i sees keys 0 ... i.
MaskMod causal();
// Keys less than `size` places away, to both sides; causal() & sliding_window(size): the last `size` keys. Throws Error
// where the size is not positive.
MaskMod sliding_window(std::int64_t size, Loc loc = Loc::current());
// Keys of the query's own document: places p of which ids[p] is the same. `ids`: integers [L], or [B, L] of a batch.
// Throws Error on others.
MaskMod document_mask(At ids);
// cap * tanh(score / cap): scores between -cap and cap (Gemma Team 2024). Throws Error where the cap is not positive.
ScoreMod soft_cap(double cap, Loc loc = Loc::current());
// score - slopes[h] * |q - k| (Press and others 2022). `slopes`: floating [H], those of alibi_slopes(H), say. Throws
// Error on others.
ScoreMod alibi(At slopes);
// f32 [heads]: from 1/2 to 1/256 in equal ratios, those of other counts than powers of two as in the source (Press and
// others 2022).
Tensor alibi_slopes(std::int64_t heads, Device device = {}, Loc loc = Loc::current());

}  // namespace nn
}  // namespace weft
