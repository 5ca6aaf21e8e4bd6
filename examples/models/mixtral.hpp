// Mixtral (Jiang and others 2024): a LLaMA whose MLPs are mixtures of experts. Each token takes the two experts that
// its router prefers. Parameters have the names of Hugging Face's files.
#pragma once
#include <cmath>

#include "examples/models/llama.hpp"

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

// The experts' products are one batched product over blocks of tokens that chose the same expert: choices are sorted by
// expert, and what each expert gets is filled up to whole blocks. So no size depends on the choices, and all tokens are
// served.
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
    const Slots slots = arrange(flatten(chosen));

    const Tensor up = matmul(gather(x, slots.token), transpose(gather(experts.gate_up_proj, slots.expert)));
    const auto halves = chunk(up, 2, -1);
    const Tensor down = matmul(silu(halves[0]) * halves[1], transpose(gather(experts.down_proj, slots.expert)));
    const Tensor both = reshape(gather(flatten(down, 0, 1), slots.of_choice), {x.size(0), 2, x.size(1)});
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
  struct Slots {
    Tensor token;      // [blocks, block]: who is there; token 0 where nobody is, and nobody reads the result
    Tensor expert;     // [blocks]
    Tensor of_choice;  // [choices]: the slot of each
  };

  // `chosen`: the experts of all choices, those of one token beside each other.
  Slots arrange(const Tensor& chosen) const {
    // An expert of the mean number of choices fills about two blocks, each of a multiple of 16 tokens: smaller blocks
    // read its weights more often, larger ones leave more places empty.
    const Dim choices = chosen.size(0), count = experts.down_proj->size(0),
              block = (choices + 32 * count - 1) / (32 * count) * 16, blocks = (choices + block - 1) / block + count;
    const auto numbers = [&](Dim end) { return to(arange(end), chosen.device()); };
    const Tensor order = argsort(chosen), sorted = gather(chosen, order);
    const Tensor wanted = sum(one_hot(chosen, count, DType::i64), 0);
    const Tensor taken = floor_divide(wanted + (block - 1), block) * block, end = cumsum(taken, 0);
    // A choice is as far after its expert's first slot as after the first choice of its expert.
    const Tensor shift = (end - taken) - (cumsum(wanted, 0) - wanted);
    const Tensor slot = numbers(choices) + gather(shift, sorted);
    const Tensor nobody = zeros({blocks * block}, {DType::i64, chosen.device()});
    return {reshape(scatter(nobody, 0, slot, floor_divide(order, 2)), {blocks, block}),
            minimum(searchsorted(end, numbers(blocks) * block, true), count - 1),
            scatter(zeros_like(chosen), 0, order, slot)};
  }
};
using Mixtral = LlamaDecoder<MixtureOfExperts>;

}  // namespace models
