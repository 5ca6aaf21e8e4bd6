// Functions that decide on values: an early exit, k-means until it converges, beam search, Newton's method, a learning
// rate that falls on a plateau, steps that are skipped, experts chosen by a switch. Each is plain C++: 11_decisions.cpp
// and the tests compile it as it is.
#pragma once
#include <vector>

#include "weft/weft.hpp"

namespace deciding {

using namespace weft;

// ---- a transformer that leaves when its head is sure ----------------------------------------------------------------

struct Encoder {
  explicit Encoder(int count) {
    for (int i = 0; i < count; ++i)
      layers.emplace_back(32, 4, nn::TransformerOptions{.dim_feedforward = 64, .dropout = 0, .batch_first = true});
  }
  std::vector<nn::TransformerEncoderLayer> layers;
  nn::Linear head{32, 4};
  WEFT_MEMBERS(layers, head)
};
struct Classified {
  Tensor classes;
  int layers = 0;  // that it took
  WEFT_MEMBERS(classes, layers)
};
inline Classified early_exit(const Encoder& model, const Tensor& given, const Scalar& sure) {
  Tensor x = given;  // [batch, tokens, 32]
  Classified found;
  for (const nn::TransformerEncoderLayer& layer : model.layers) {
    x = layer(x);
    ++found.layers;
    found.classes = softmax(model.head(mean(x, 1)), -1);
    if (amin(amax(found.classes, -1)) > sure) break;
  }
  return found;
}

// ---- k-means --------------------------------------------------------------------------------------------------------

struct Clusters {
  Tensor centres, nearest;
  int rounds = 0;
  WEFT_MEMBERS(centres, nearest, rounds)
};
inline Clusters k_means(const Tensor& points, const Tensor& first) {
  Clusters c{first, argmin(cdist(points, first), 1)};
  for (bool moved = true; moved && c.rounds < 50; ++c.rounds) {
    const Tensor members = one_hot(c.nearest, first.size(0));  // [points, clusters]
    const Tensor counts = maximum(sum(members, 0), 1.);
    c.centres = sum(unsqueeze(members, 2) * unsqueeze(points, 1), 0) / unsqueeze(counts, 1);
    const Tensor nearest = argmin(cdist(points, c.centres), 1);
    moved = any(nearest != c.nearest).item<bool>();
    c.nearest = nearest;
  }
  return c;
}

// ---- beam search: the likeliest texts of tokens of which each depends on the one before
// ------------------------------

struct Beams {
  Tensor texts, scores;
  WEFT_MEMBERS(texts, scores)
};
inline Beams beam_search(const Tensor& likelihoods, const Tensor& start) {
  const std::int64_t width = 3, end = 0;
  const Dim tokens = likelihoods.size(1);
  Beams beams{full({width, 1}, start.item<int>(), {.dtype = DType::i64}), constant({0.f, -1e9f, -1e9f})};
  for (int length = 1; length < 8; ++length) {
    const Tensor last = select(beams.texts, 1, length - 1);
    const Tensor next =
        where(unsqueeze(last == end, 1), log(one_hot(last, tokens)), log(index_select(likelihoods, 0, last)));
    const ValuesAndIndices best = topk(reshape(unsqueeze(beams.scores, 1) + next, {width * tokens}), width);
    const Tensor from = floor_divide(best.indices, tokens), token = remainder(best.indices, tokens);
    beams.texts = concat({index_select(beams.texts, 0, from), unsqueeze(token, 1)}, 1);
    beams.scores = best.values;
    if (all(token == end)) break;
  }
  return beams;
}

// ---- Newton's method ------------------------------------------------------------------------------------------------

inline Tensor square_root(const Tensor& a) {
  Tensor x = a;
  while (abs(x * x - a) > a * 1e-6) x = (x + a / x) / 2;
  return x;
}

// ---- training: a rate that falls when the loss does not, and steps that are skipped

struct Fit {
  Param w{zeros({8})};
  Tensor best = full({}, 1e9), rate = full({}, 0.05), waited = zeros({}), skipped = zeros({});
  WEFT_MEMBERS(w, best, rate, waited, skipped)
};
inline Tensor train(Fit& fit, const Tensor& x, const Tensor& y) {
  auto [loss, gradient] = value_and_grad([&](const Param& w) { return mean(square(sum(x * w, 1) - y)); }, fit.w);
  if (sum(square(gradient)) > 400) {
    fit.skipped = fit.skipped + 1;
    return loss;
  }
  if (loss < fit.best * 0.999) {
    fit.best = loss;
    fit.waited = zeros({});
  } else {
    fit.waited = fit.waited + 1;
    if (fit.waited > 4) {
      fit.rate = fit.rate * 0.5;
      fit.waited = zeros({});
    }
  }
  fit.w = fit.w - gradient * fit.rate;
  return loss;
}

// ---- experts that a switch chooses

inline Tensor experts(const Tensor& gate, const Tensor& x) {
  switch (argmax(sum(x * gate, 1)).item<int>()) {
    case 0: return exp(-square(x));
    case 1: return maximum(x, 0.);
    case 2: return x / (1 + abs(x));
    default: return -x;
  }
}

}  // namespace deciding
