// The functions that are measured on the CPU and on a GPU: what their peers in bench/peers compute, of the same shapes.
#pragma once
#include "transformer.hpp"

namespace bench {

inline constexpr auto pointwise = [](const Tensor& x, const Tensor& y, const Tensor& z) {
  return tanh(x * y + z) * sigmoid(x) + exp(-y * y) - gelu(z);
};
inline constexpr auto softmax_rows = [](const Tensor& x) { return weft::softmax(x, -1); };
inline constexpr auto sum_all = [](const Tensor& x) { return weft::sum(x); };
inline constexpr auto normalize = [](const Norm& norm, const Tensor& x) { return norm(x); };
inline constexpr auto cross_entropy = [](const Tensor& logits, const Tensor& labels) {
  return weft::nn::cross_entropy(cast(logits, weft::DType::f32), labels);
};

// A layer norm of x, and the gradients of x, scale and shift where `upstream` is that of the result.
struct NormOf {
  Param x;
  Norm norm;
  WEFT_MEMBERS(x, norm)
};
struct NormGradients {
  Tensor result;
  NormOf gradients;
};
inline constexpr auto norm_gradients = [](const NormOf& it, const Tensor& upstream) {
  struct Value {
    Tensor loss, result;
  };
  auto [value, gradients] = weft::value_and_grad(
      [&](const NormOf& it) {
        const Tensor result = it.norm(it.x);
        return Value{sum(cast(result, weft::DType::f32) * cast(upstream, weft::DType::f32)), result};
      },
      it);
  return NormGradients{value.result, gradients};
};

inline constexpr auto cross_entropy_gradients = [](const Tensor& logits, const Tensor& labels) {
  return weft::value_and_grad([&](const Tensor& logits) { return cross_entropy(logits, labels); }, logits);
};

// What AdamW updates where nothing else is measured.
struct Parameters {
  std::vector<Param> values;
  WEFT_MEMBERS(values)
};
inline constexpr auto update = [](Parameters& model, weft::optim::AdamW& optimizer, const Parameters& gradients) {
  optimizer.update(model, gradients);
};

// A whole training step of a GPT; its products in `dtype`, to which every parameter is cast by hand.
inline Tensor train_gpt(Gpt& model, weft::optim::AdamW& optimizer, const Tensor& text, const Tensor& labels,
                        weft::DType dtype) {
  auto [loss, gradients] = weft::value_and_grad(
      [&](const Gpt& given) {
        Gpt cast_to = given;
        for (auto& parameter : weft::nn::parameters(cast_to)) parameter.value = cast(parameter.value, dtype);
        return cross_entropy(cast_to(text), labels);
      },
      model);
  optimizer.update(model, gradients);
  return loss;
}

}  // namespace bench
