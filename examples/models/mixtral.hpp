// Mixtral (Jiang and others 2024): a LLaMA whose MLPs are mixtures of experts. Each token takes the two experts that
// its router prefers. Parameters have the names of Hugging Face's files.
#pragma once
#include <cmath>

#include "examples/models/llama.hpp"
#include "weft/groups.hpp"

namespace models {

struct MixtralConfig : LlamaConfig {  // 8x7B
  // The sizes of a decoder, and how many MLPs each of its blocks has.
  constexpr MixtralConfig(const LlamaConfig& decoder = {.vocab_size = 32000,
                                                        .width = 4096,
                                                        .hidden = 14336,
                                                        .layers = 32,
                                                        .heads = 32,
                                                        .kv_heads = 8,
                                                        .rope_base = 1e6,
                                                        .rope_scaling = {.factor = 1},
                                                        .tied = false},
                          std::int64_t mlps = 8)
      : LlamaConfig(decoder), experts(mlps) {}

  std::int64_t experts;
};

// Choices are sorted by expert, and the experts' products are one product over groups of rows. So no size depends on
// the choices, and all tokens are served.
struct MixtureOfExperts {
  using Config = MixtralConfig;

  explicit MixtureOfExperts(const Config& c)
      : gate(c.width, c.experts, {false, c.options}),
        experts{initial({c.experts, 2 * c.hidden, c.width}, c.width, c.options),
                initial({c.experts, c.width, c.hidden}, c.hidden, c.options)} {}

  // x [..., width] to the same: a sum of two experts' results, weighted with their shares of the router's softmax.
  Tensor operator()(const Tensor& given) const {
    const Tensor x = flatten(given, 0, -2);
    const auto [chances, chosen] = topk(softmax(gate(x), -1), 2);
    const Tensor choices = flatten(chosen), order = argsort(choices);
    const Tensor of_choice = scatter(zeros_like(choices), 0, order, to(arange(choices.size(0)), choices.device()));
    const Tensor ends = cumsum(sum(one_hot(choices, experts.down_proj->size(0), DType::i64), 0), 0);

    const Tensor up = grouped_matmul(gather(x, floor_divide(order, 2)), transpose(experts.gate_up_proj.tensor()), ends);
    const auto halves = chunk(up, 2, -1);
    const Tensor down = grouped_matmul(silu(halves[0]) * halves[1], transpose(experts.down_proj.tensor()), ends);
    const Tensor both = reshape(gather(down, of_choice), {x.size(0), 2, x.size(1)});
    return reshape(sum(both * unsqueeze(chances / sum(chances, -1, true), -1), 1), given.shape());
  }

  struct Experts {
    Param gate_up_proj, down_proj;  // [experts, 2 hidden, width], [experts, width, hidden]
  };
  nn::Linear gate;
  Experts experts;
  WEFT_MEMBERS(gate, experts)

 private:
  static Tensor initial(Sizes sizes, std::int64_t in, const Options& options) {  // as of nn::Linear
    const double bound = 1 / std::sqrt(static_cast<double>(in));
    return uniform(sizes, -bound, bound, default_generator(), options);
  }
};
using Mixtral = LlamaDecoder<MixtureOfExperts>;

}  // namespace models
