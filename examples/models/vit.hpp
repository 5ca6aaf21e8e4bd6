// Vision transformers (Dosovitskiy and others 2020): an image's patches as tokens. Options make it DINOv2's (Oquab and
// others 2023; Darcet and others 2023) and CLIP's vision tower. Parameters have short names; tables give those of
// files.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include <weft/weft.hpp>

namespace models {

using namespace weft;

struct VitConfig {  // ViT-B/16
  std::int64_t image_size = 224, patch = 16, width = 768, layers = 12, heads = 12, hidden = 3072;
  double eps = 1e-6;
  std::int64_t registers = 0;  // tokens that are neither the class nor patches
  bool layer_scale = false;    // what blocks add is multiplied with a parameter
  bool clip = false;           // a norm before the blocks, no bias of patches, and x sigmoid(1.702 x) for gelu
};

struct VitAttention {
  VitAttention(std::int64_t width, std::int64_t count)
      : q_proj(width, width), k_proj(width, width), v_proj(width, width), out_proj(width, width), heads(count) {}
  Tensor operator()(const Tensor& x, bool causal) const {  // [N, L, width]
    const auto split = [&](const Tensor& y) {              // [N, heads, L, depth]
      return transpose(reshape(y, {x.size(0), x.size(1), heads, -1}), 1, 2);
    };
    const Tensor mixed =
        nn::scaled_dot_product_attention(split(q_proj(x)), split(k_proj(x)), split(v_proj(x)), {.is_causal = causal});
    return out_proj(reshape(transpose(mixed, 1, 2), x.shape()));
  }

  nn::Linear q_proj, k_proj, v_proj, out_proj;
  std::int64_t heads;
  WEFT_MEMBERS(q_proj, k_proj, v_proj, out_proj, heads)
};

struct VitMlp {
  VitMlp(std::int64_t width, std::int64_t hidden, bool clip) : fc1(width, hidden), fc2(hidden, width), quick(clip) {}
  Tensor operator()(const Tensor& x) const {
    const Tensor y = fc1(x);
    return fc2(quick ? y * sigmoid(1.702 * y) : gelu(y));
  }

  nn::Linear fc1, fc2;
  bool quick;
  WEFT_MEMBERS(fc1, fc2, quick)
};

struct VitBlock {
  explicit VitBlock(const VitConfig& c)
      : norm1(c.width, {.eps = c.eps}),
        attn(c.width, c.heads),
        norm2(c.width, {.eps = c.eps}),
        mlp(c.width, c.hidden, c.clip) {
    if (c.layer_scale) scale1 = ones({c.width}), scale2 = ones({c.width});
  }
  Tensor operator()(const Tensor& given, bool causal = false) const {
    const auto scaled = [](const Tensor& y, const Param& scale) { return scale.tensor().defined() ? y * scale : y; };
    const Tensor x = given + scaled(attn(norm1(given), causal), scale1);
    return x + scaled(mlp(norm2(x)), scale2);
  }

  nn::LayerNorm norm1;
  VitAttention attn;
  nn::LayerNorm norm2;
  VitMlp mlp;
  Param scale1, scale2;
  WEFT_MEMBERS(norm1, attn, norm2, mlp, scale1, scale2)
};

struct Vit {
  explicit Vit(const VitConfig& c = {})
      : config(c),
        patches(3, c.width, c.patch, {.stride = c.patch, .bias = !c.clip}),
        class_token(normal({1, 1, c.width}, 0, 0.02)),
        positions(normal({1, 1 + c.image_size / c.patch * (c.image_size / c.patch), c.width}, 0, 0.02)),
        norm(c.width, {.eps = c.eps}) {
    if (c.registers) registers = normal({1, c.registers, c.width}, 0, 0.02);
    if (c.clip) {
      first_norm.emplace(c.width, nn::LayerNormOptions{.eps = c.eps});
      class_token = flatten(class_token), positions = squeeze(positions, 0);  // as CLIP's files have them
    }
    for (std::int64_t i = 0; i < c.layers; ++i) blocks.emplace_back(c);
  }

  // Images [N, 3, image_size, image_size] to tokens [N, 1 + registers + patches, width]: the first is the class's, the
  // last are the patches', row by row.
  Tensor operator()(const Tensor& images) const {
    for (const int axis : {2, 3})
      if (images.size(axis) != config.image_size)
        throw Error(("Vit takes images of " + std::to_string(config.image_size) + " pixels, not of " +
                     std::to_string(std::int64_t(images.size(axis))))
                        .c_str());
    const Tensor first = expand(class_token, {images.size(0), 1, config.width});
    Tensor x = concat({first, transpose(flatten(patches(images), 2), 1, 2)}, 1) + positions;
    if (config.registers) {
      const Tensor more = expand(registers, {images.size(0), config.registers, config.width});
      x = concat({slice(x, 1, 0, 1), more, slice(x, 1, 1, Dim::end())}, 1);
    }
    if (first_norm) x = (*first_norm)(x);
    for (const VitBlock& block : blocks) x = block(x);
    return norm(x);
  }

  VitConfig config;
  nn::Conv2d patches;
  Param class_token, positions, registers;
  std::optional<nn::LayerNorm> first_norm;
  std::vector<VitBlock> blocks;
  nn::LayerNorm norm;
  WEFT_MEMBERS(config, patches, class_token, positions, registers, first_norm, blocks, norm)
};

// A linear layer on the class's token.
struct VitClassifier {
  explicit VitClassifier(const VitConfig& c = {}, std::int64_t classes = 1000) : vit(c), classifier(c.width, classes) {}
  Tensor operator()(const Tensor& images) const { return classifier(select(vit(images), 1, 0)); }  // [N, classes]

  Vit vit;
  nn::Linear classifier;
  WEFT_MEMBERS(vit, classifier)
};

// For io::load of Hugging Face's files: of Vit as its DINOv2, with or without registers, and of VitClassifier.
inline const std::vector<io::Renamed> dinov2_names = {
    {"patches.*", "embeddings.patch_embeddings.projection.*"},
    {"class_token", "embeddings.cls_token"},
    {"positions", "embeddings.position_embeddings"},
    {"registers", "embeddings.register_tokens"},
    {"blocks.*.attn.q_proj.*", "encoder.layer.*.attention.attention.query.*"},
    {"blocks.*.attn.k_proj.*", "encoder.layer.*.attention.attention.key.*"},
    {"blocks.*.attn.v_proj.*", "encoder.layer.*.attention.attention.value.*"},
    {"blocks.*.attn.out_proj.*", "encoder.layer.*.attention.output.dense.*"},
    {"blocks.*.scale*", "encoder.layer.*.layer_scale*.lambda1"},
    {"blocks.*", "encoder.layer.*"},
    {"norm.*", "layernorm.*"}};
inline const std::vector<io::Renamed> vit_names = {
    {"vit.patches.*", "vit.embeddings.patch_embeddings.projection.*"},
    {"vit.class_token", "vit.embeddings.cls_token"},
    {"vit.positions", "vit.embeddings.position_embeddings"},
    {"vit.blocks.*.attn.q_proj.*", "vit.encoder.layer.*.attention.attention.query.*"},
    {"vit.blocks.*.attn.k_proj.*", "vit.encoder.layer.*.attention.attention.key.*"},
    {"vit.blocks.*.attn.v_proj.*", "vit.encoder.layer.*.attention.attention.value.*"},
    {"vit.blocks.*.attn.out_proj.*", "vit.encoder.layer.*.attention.output.dense.*"},
    {"vit.blocks.*.norm1.*", "vit.encoder.layer.*.layernorm_before.*"},
    {"vit.blocks.*.norm2.*", "vit.encoder.layer.*.layernorm_after.*"},
    {"vit.blocks.*.mlp.fc1.*", "vit.encoder.layer.*.intermediate.dense.*"},
    {"vit.blocks.*.mlp.fc2.*", "vit.encoder.layer.*.output.dense.*"},
    {"vit.norm.*", "vit.layernorm.*"}};

}  // namespace models
