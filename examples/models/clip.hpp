// CLIP (Radford and others 2021): images and texts as vectors of one space. Parameters have short names; clip_names
// gives those of Hugging Face's files.
#pragma once
#include <cmath>
#include <vector>

#include "examples/models/vit.hpp"

namespace models {

struct ClipConfig {  // ViT-B/32
  VitConfig image = {.patch = 32, .eps = 1e-5, .clip = true};
  VitConfig text = {.width = 512, .heads = 8, .hidden = 2048, .eps = 1e-5, .clip = true};  // its blocks' sizes
  std::int64_t vocab_size = 49408, context = 77, end_token = 49407, dimension = 512;
};

struct ClipText {
  explicit ClipText(const ClipConfig& c)
      : tokens(normal({c.vocab_size, c.text.width}, 0, 0.02)),
        positions(normal({c.context, c.text.width}, 0, 0.01)),
        norm(c.text.width, {.eps = c.text.eps}),
        end_token(c.end_token) {
    for (std::int64_t i = 0; i < c.text.layers; ++i) blocks.emplace_back(c.text);
  }
  // Integers [N, L], each text with an end token: [N, width] of the first one.
  Tensor operator()(const Tensor& text) const {
    Tensor x = gather(tokens, text) + slice(positions, 0, 0, text.size(1));
    for (const VitBlock& block : blocks) x = block(x, true);
    const Tensor end = reshape(argmax(cast(text == end_token, DType::i32), 1), {text.size(0), 1, 1});
    return squeeze(gather(norm(x), 1, expand(end, {text.size(0), 1, x.size(2)})), 1);
  }

  Param tokens, positions;
  std::vector<VitBlock> blocks;
  nn::LayerNorm norm;
  std::int64_t end_token;
  WEFT_MEMBERS(tokens, positions, blocks, norm, end_token)
};

struct Clip {
  explicit Clip(const ClipConfig& c = {})
      : image(c.image),
        text(c),
        image_projection(c.image.width, c.dimension, {.bias = false}),
        text_projection(c.text.width, c.dimension, {.bias = false}),
        logit_scale(full({}, std::log(1 / 0.07))) {}

  // Vectors of length 1, [N, dimension].
  Tensor encode_image(const Tensor& images) const {
    return nn::normalize(image_projection(select(image(images), 1, 0)), 2, -1);
  }
  Tensor encode_text(const Tensor& tokens) const { return nn::normalize(text_projection(text(tokens)), 2, -1); }
  // Logits [texts, images]: how well each text fits each image.
  Tensor operator()(const Tensor& images, const Tensor& tokens) const {
    return matmul(encode_text(tokens), transpose(encode_image(images))) * exp(logit_scale);
  }
  // Of pairs: each text is to find its image and each image its text.
  static Tensor loss(const Tensor& logits) {
    const Tensor own = to(arange(logits.size(0)), logits.device());
    return (nn::cross_entropy(logits, own) + nn::cross_entropy(transpose(logits), own)) / 2;
  }

  Vit image;
  ClipText text;
  nn::Linear image_projection, text_projection;
  Param logit_scale;
  WEFT_MEMBERS(image, text, image_projection, text_projection, logit_scale)
};

// For io::load of Hugging Face's files.
inline const std::vector<io::Renamed> clip_names = {
    {"image.patches.weight", "vision_model.embeddings.patch_embedding.weight"},
    {"image.class_token", "vision_model.embeddings.class_embedding"},
    {"image.positions", "vision_model.embeddings.position_embedding.weight"},
    {"image.first_norm.*", "vision_model.pre_layrnorm.*"},
    {"image.blocks.*.attn.*", "vision_model.encoder.layers.*.self_attn.*"},
    {"image.blocks.*.norm*.*", "vision_model.encoder.layers.*.layer_norm*.*"},
    {"image.blocks.*", "vision_model.encoder.layers.*"},
    {"image.norm.*", "vision_model.post_layernorm.*"},
    {"text.tokens", "text_model.embeddings.token_embedding.weight"},
    {"text.positions", "text_model.embeddings.position_embedding.weight"},
    {"text.blocks.*.attn.*", "text_model.encoder.layers.*.self_attn.*"},
    {"text.blocks.*.norm*.*", "text_model.encoder.layers.*.layer_norm*.*"},
    {"text.blocks.*", "text_model.encoder.layers.*"},
    {"text.norm.*", "text_model.final_layer_norm.*"},
    {"image_projection.weight", "visual_projection.weight"}};

}  // namespace models
