// Layers put together, and those that change shapes alone. A list of layers is a std::vector of them.
#pragma once
#include <tuple>
#include <vector>

#include "weft/nn/linear.hpp"
#include "weft/nn/model.hpp"

namespace weft::nn {

namespace detail {
Tensor same(At x);
}
// Each layer gets what the one before gives: Sequential(Linear(4, 8), ReLU(), Linear(8, 2)). A part is get<0>(model),
// and its parameters are 0.weight and 0.bias, as in PyTorch.
template <class... Layers>
struct Sequential {
  // Takes over the layers that are given.
  explicit Sequential(Layers... given) : layers(std::move(given)...) {}
  // Gives the last layer's result. Not const where a layer changes, as BatchNorm in training does.
  Tensor operator()(At x) { return run(*this, x); }
  Tensor operator()(At x) const { return run(*this, x); }

  std::tuple<Layers...> layers;

 private:
  template <class Self>
  static Tensor run(Self& self, const At& x) {
    return std::apply(
        [&](auto&... layer) {
          Tensor value = detail::same(x);
          ((value = layer(At(value, x.loc))), ...);
          return value;
        },
        self.layers);
  }
};
template <std::size_t i, class... Layers>
auto& get(Sequential<Layers...>& model) {
  return std::get<i>(model.layers);
}
template <std::size_t i, class... Layers>
const auto& get(const Sequential<Layers...>& model) {
  return std::get<i>(model.layers);
}

// Axes start ... end as one; an axis as several, one of which may be -1.
struct Flatten {
  Tensor operator()(At x) const { return weft::flatten(x, start, end); }
  int start = 1;  // the first axis that is merged
  int end = -1;   // the last one. Negative axes count from the last
};
struct Unflatten {  // an axis as several
  // Throws Error where there are no sizes.
  Unflatten() = delete;  // weft: it is made as nn::Unflatten(axis, sizes)
  Unflatten(int axis, Sizes sizes, Loc loc = Loc::current());
  // Throws Error where the sizes' product is not the size of the axis.
  Tensor operator()(At x) const;

  int axis;                         // the axis that is split; a negative one counts from the last
  std::vector<std::int64_t> sizes;  // what it becomes; one of them may be -1, and is inferred
  WEFT_MEMBERS(axis, sizes)
};

// y[..., o] = sum over i, j of a[..., i] weight[o, i, j] b[..., j], + bias[o]. Both start uniform within 1 / sqrt(in1).
Tensor bilinear(At a, At b, const Tensor& weight, const Tensor& bias = {});
struct Bilinear {       // x1 W x2 + b for each output, as in PyTorch
  Bilinear() = delete;  // weft: it is made as nn::Bilinear(in1, in2, out)
  Bilinear(std::int64_t in1, std::int64_t in2, std::int64_t out, LinearOptions options = {}, Loc loc = Loc::current());
  // a [..., in1] and b [..., in2] to [..., out]. Throws Error on other shapes.
  Tensor operator()(At a, At b) const { return bilinear(a, b, weight, bias); }
  // Draws both anew, uniform within 1 / sqrt(in1).
  void initialize(Generator& generator);
  Param weight;  // [out, in1, in2]
  Param bias;    // [out]; undefined and frozen where there is none
  WEFT_MEMBERS(weight, bias)
};

}  // namespace weft::nn

// To those who walk over structs a Sequential is the tuple of its layers.
template <class... Layers>
struct std::tuple_size<weft::nn::Sequential<Layers...>> : std::integral_constant<std::size_t, sizeof...(Layers)> {};
template <std::size_t i, class... Layers>
struct std::tuple_element<i, weft::nn::Sequential<Layers...>> : std::tuple_element<i, std::tuple<Layers...>> {};
