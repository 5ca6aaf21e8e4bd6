// The U-Net of denoising diffusion (Ho and others 2020), and the diffusion: what is added to images in training, and a
// step of sampling. Parameters have the names of Hugging Face's files (UNet2DModel).
#pragma once
#include <cmath>
#include <optional>
#include <vector>

#include <weft/weft.hpp>

namespace models {

using namespace weft;

struct UNetConfig {  // the one of CIFAR-10, 36 million parameters
  std::int64_t channels = 3;
  std::vector<std::int64_t> widths = {128, 256, 256, 256};  // of levels, each of half the size of the one before
  std::int64_t blocks = 2;                                  // of a level on the way down; one more on the way up
  std::int64_t attention_level = 1;                         // whose blocks are followed by attention
  std::int64_t groups = 32;                                 // of norms
  double eps = 1e-6;
};

// Two convolutions, between which the step of the diffusion is added to each channel.
struct UNetBlock {
  UNetBlock(std::int64_t in, std::int64_t out, const UNetConfig& c)
      : norm1(c.groups, in, {.eps = c.eps}),
        conv1(in, out, 3, {.padding = 1}),
        time_emb_proj(4 * c.widths[0], out),
        norm2(c.groups, out, {.eps = c.eps}),
        conv2(out, out, 3, {.padding = 1}) {
    if (in != out) conv_shortcut.emplace(in, out, 1);
  }
  Tensor operator()(const Tensor& x, const Tensor& time) const {  // [N, in, H, W] and [N, 4 widths[0]]
    const Tensor shift = time_emb_proj(silu(time));
    const Tensor y = conv1(silu(norm1(x))) + reshape(shift, {shift.size(0), shift.size(1), 1, 1});
    return (conv_shortcut ? (*conv_shortcut)(x) : x) + conv2(silu(norm2(y)));
  }

  nn::GroupNorm norm1;
  nn::Conv2d conv1;
  nn::Linear time_emb_proj;
  nn::GroupNorm norm2;
  nn::Conv2d conv2;
  std::optional<nn::Conv2d> conv_shortcut;
  WEFT_MEMBERS(norm1, conv1, time_emb_proj, norm2, conv2, conv_shortcut)
};

// Every pixel sees every pixel.
struct UNetAttention {
  UNetAttention(std::int64_t width, const UNetConfig& c)
      : group_norm(c.groups, width, {.eps = c.eps}),
        to_q(width, width),
        to_k(width, width),
        to_v(width, width),
        to_out(width, width) {}
  Tensor operator()(const Tensor& x) const {
    const Tensor pixels = transpose(flatten(group_norm(x), 2), 1, 2);  // [N, H W, width]
    const Tensor mixed = nn::scaled_dot_product_attention(to_q(pixels), to_k(pixels), to_v(pixels));
    return x + reshape(transpose(to_out(mixed), 1, 2), x.shape());
  }

  nn::GroupNorm group_norm;
  nn::Linear to_q, to_k, to_v, to_out;
  WEFT_MEMBERS(group_norm, to_q, to_k, to_v, to_out)
};

struct UNetResize {
  explicit UNetResize(std::int64_t width, std::int64_t stride)
      : conv(width, width, 3, {.stride = stride, .padding = stride == 1}) {}
  Tensor half(const Tensor& x) const { return conv(pad(x, {0, 1, 0, 1})); }
  Tensor twice(const Tensor& x) const { return conv(nn::interpolate(x, {.scale_factor = {2}})); }

  nn::Conv2d conv;
  WEFT_MEMBERS(conv)
};

struct UNetLevel {
  std::vector<UNetBlock> resnets;
  std::vector<UNetAttention> attentions;  // none, or one a block; in the middle one between the two
  std::vector<UNetResize> downsamplers, upsamplers;
  Tensor block(std::size_t i, const Tensor& x, const Tensor& time) const {
    const Tensor y = resnets[i](x, time);
    return i < attentions.size() ? attentions[i](y) : y;
  }
  WEFT_MEMBERS(resnets, attentions, downsamplers, upsamplers)
};

struct UNet {
  struct TimeEmbedding {
    nn::Linear linear_1, linear_2;
    WEFT_MEMBERS(linear_1, linear_2)
  };

  explicit UNet(const UNetConfig& c = {})
      : config(c),
        conv_in(c.channels, c.widths[0], 3, {.padding = 1}),
        time_embedding{nn::Linear(c.widths[0], 4 * c.widths[0]), nn::Linear(4 * c.widths[0], 4 * c.widths[0])},
        conv_norm_out(c.groups, c.widths[0], {.eps = c.eps}),
        conv_out(c.widths[0], c.channels, 3, {.padding = 1}) {
    const std::int64_t levels = static_cast<std::int64_t>(c.widths.size());
    std::vector<std::int64_t> skips = {c.widths[0]};  // channels of what the way up sees again
    std::int64_t width = c.widths[0];
    const auto add = [&](UNetLevel& to, std::int64_t in, std::int64_t level) {
      to.resnets.emplace_back(in, width = c.widths[level], c);
      if (level == c.attention_level) to.attentions.emplace_back(width, c);
    };
    for (std::int64_t level = 0; level < levels; ++level) {
      UNetLevel& down = down_blocks.emplace_back();
      for (std::int64_t i = 0; i < c.blocks; ++i) add(down, width, level), skips.push_back(width);
      if (level + 1 < levels) down.downsamplers.emplace_back(width, 2), skips.push_back(width);
    }
    for (int i = 0; i < 2; ++i) mid_block.resnets.emplace_back(width, width, c);
    mid_block.attentions.emplace_back(width, c);
    for (std::int64_t level = levels - 1; level >= 0; --level) {
      UNetLevel& up = up_blocks.emplace_back();
      for (std::int64_t i = 0; i <= c.blocks; ++i, skips.pop_back()) add(up, width + skips.back(), level);
      if (level > 0) up.upsamplers.emplace_back(width, 1);
    }
  }

  // Noisy images [N, channels, H, W], whose sizes halve without a rest at every level, and their steps of the
  // diffusion, integers [N]: the noise in them.
  Tensor operator()(const Tensor& images, const Tensor& steps) const {
    const Tensor time = embed(steps);
    std::vector<Tensor> skips = {conv_in(images)};
    for (const UNetLevel& level : down_blocks) {
      for (std::size_t i = 0; i < level.resnets.size(); ++i) skips.push_back(level.block(i, skips.back(), time));
      for (const UNetResize& down : level.downsamplers) skips.push_back(down.half(skips.back()));
    }
    Tensor x = mid_block.resnets[1](mid_block.block(0, skips.back(), time), time);
    for (const UNetLevel& level : up_blocks) {
      for (std::size_t i = 0; i < level.resnets.size(); ++i, skips.pop_back())
        x = level.block(i, concat({x, skips.back()}, 1), time);
      for (const UNetResize& up : level.upsamplers) x = up.twice(x);
    }
    return conv_out(silu(conv_norm_out(x)));
  }

  UNetConfig config;
  nn::Conv2d conv_in;
  TimeEmbedding time_embedding;
  std::vector<UNetLevel> down_blocks;
  UNetLevel mid_block;
  std::vector<UNetLevel> up_blocks;
  nn::GroupNorm conv_norm_out;
  nn::Conv2d conv_out;
  WEFT_MEMBERS(config, conv_in, time_embedding, down_blocks, mid_block, up_blocks, conv_norm_out, conv_out)

 private:
  // Sines and cosines of the step at frequencies from 1 to 1 / 10000, as in a transformer; then two layers.
  Tensor embed(const Tensor& steps) const {
    const std::int64_t half = config.widths[0] / 2;
    const DType dtype = conv_in.weight->dtype() == DType::f64 ? DType::f64 : DType::f32;
    const Tensor exponent = to(linspace(0, -std::log(10000.0), half, {dtype}), steps.device());
    const Tensor angle = unsqueeze(cast(steps, dtype), 1) * exp(exponent);
    const Tensor waves = cast(concat({sin(angle), cos(angle)}, 1), conv_in.weight->dtype());
    return time_embedding.linear_2(silu(time_embedding.linear_1(waves)));
  }
};

// Noise is added in so many steps: after step t an image is sqrt(kept[t]) image + sqrt(1 - kept[t]) noise.
struct Diffusion {
  explicit Diffusion(std::int64_t steps = 1000, double first = 1e-4, double last = 0.02, DType dtype = DType::f32)
      : kept(cast(cumprod(1 - linspace(first, last, steps, {DType::f64}), 0), dtype)) {}

  // Images [N, C, H, W], integers [N] and the noise, of the images' shape.
  Tensor add_noise(const Tensor& images, const Tensor& steps, const Tensor& noise) const {
    const Tensor keep = reshape(cast(gather(kept, steps), images.dtype()), {-1, 1, 1, 1});
    return sqrt(keep) * images + sqrt(1 - keep) * noise;
  }
  // The mean of squares between the noise and what the model finds.
  template <class Model>
  Tensor loss(const Model& model, const Tensor& images, const Tensor& steps, const Tensor& noise) const {
    return nn::mse_loss(model(add_noise(images, steps, noise), steps), noise);
  }
  // Images after step t to those before it; `fresh` is noise of their shape. The first images are noise, t the last
  // step.
  template <class Model>
  Tensor denoise(const Model& model, const Tensor& images, const Index& t, const Tensor& fresh) const {
    const Tensor step = to(t.tensor(), images.device()), found = model(images, expand(step, {images.size(0)}));
    const Tensor now = gather(kept, step), before = where(step > 0, gather(kept, maximum(step - 1, 0)), 1);
    const Tensor beta = 1 - now / before;
    const Tensor mean = (images - beta / sqrt(1 - now) * found) / sqrt(now / before);
    return mean + sqrt(beta * (1 - before) / (1 - now)) * fresh;
  }

  Buffer kept;  // [steps]
  WEFT_MEMBERS(kept)
};

// For io::load of Hugging Face's files.
inline const std::vector<io::Renamed> unet_names = {{"*.to_out.*", "*.to_out.0.*"}};

}  // namespace models
