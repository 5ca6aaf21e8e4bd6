// EfficientNet (Tan and Le 2019): inverted bottlenecks of depthwise convolutions, whose channels are weighted by what
// the whole image shows. Tables give the names of torchvision's files.
#pragma once
#include <algorithm>
#include <optional>
#include <vector>

#include <weft/weft.hpp>

namespace models {

using namespace weft;

struct EfficientNetConfig {
  struct Stage {
    std::int64_t expansion, kernel, stride, channels, blocks;
    WEFT_MEMBERS(expansion, kernel, stride, channels, blocks)
  };
  // EfficientNet-B0
  std::int64_t stem = 32;
  std::vector<Stage> stages = {{1, 3, 1, 16, 1},  {6, 3, 2, 24, 2},  {6, 5, 2, 40, 2}, {6, 3, 2, 80, 3},
                               {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4}, {6, 3, 1, 320, 1}};
  std::int64_t head = 1280, classes = 1000;
  double dropout = 0.2;
  double skip = 0.2;  // in training the last block is left out of a sample with this probability, earlier ones less
};

// A convolution without a bias, and its norm.
using ConvNorm = nn::Sequential<nn::Conv2d, nn::BatchNorm2d>;
inline ConvNorm conv_norm(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride = 1,
                          std::int64_t groups = 1) {
  nn::Conv2d conv(in, out, kernel, {.stride = stride, .padding = kernel / 2, .groups = groups, .bias = false});
  conv.weight = nn::kaiming_normal(conv.weight->shape());
  return ConvNorm(std::move(conv), nn::BatchNorm2d(out));
}

// Weights of channels in (0, 1), from their means over the image (Hu and others 2017).
struct SqueezeExcitation {
  SqueezeExcitation(std::int64_t channels, std::int64_t squeezed)
      : fc1(channels, squeezed, 1), fc2(squeezed, channels, 1) {}
  Tensor operator()(const Tensor& x) const { return x * sigmoid(fc2(silu(fc1(nn::adaptive_avg_pool2d(x, 1))))); }

  nn::Conv2d fc1, fc2;
  WEFT_MEMBERS(fc1, fc2)
};

struct InvertedBottleneck {
  InvertedBottleneck(std::int64_t in, const EfficientNetConfig::Stage& s, std::int64_t stride, double skip)
      : depthwise(conv_norm(in * s.expansion, in * s.expansion, s.kernel, stride, in * s.expansion)),
        excitation(in * s.expansion, std::max<std::int64_t>(1, in / 4)),
        project(conv_norm(in * s.expansion, s.channels, 1)),
        drop(skip),
        residual(stride == 1 && in == s.channels) {
    if (s.expansion != 1) expand = conv_norm(in, in * s.expansion, 1);
  }
  Tensor operator()(const Tensor& x) {
    const Tensor wide = expand ? silu((*expand)(x)) : x;
    const Tensor y = project(excitation(silu(depthwise(wide))));
    if (!residual) return y;
    return x + y * drop(ones({x.size(0), 1, 1, 1}, {x.dtype(), x.device()}));  // 0 where a sample leaves it out
  }

  std::optional<ConvNorm> expand;
  ConvNorm depthwise;
  SqueezeExcitation excitation;
  ConvNorm project;
  nn::Dropout drop;
  bool residual;
  WEFT_MEMBERS(expand, depthwise, excitation, project, drop, residual)
};

struct EfficientNet {
  explicit EfficientNet(const EfficientNetConfig& c = {})
      : stem(conv_norm(3, c.stem, 3, 2)),
        head(conv_norm(c.stages.back().channels, c.head, 1)),
        drop(c.dropout),
        classifier(c.head, c.classes) {
    features.emplace_back();
    std::int64_t in = c.stem, count = 0, index = 0;
    for (const auto& s : c.stages) count += s.blocks;
    for (const auto& s : c.stages) {
      auto& blocks = features.emplace_back();
      for (std::int64_t i = 0; i < s.blocks; ++i, in = s.channels)
        blocks.emplace_back(in, s, i == 0 ? s.stride : 1, c.skip * static_cast<double>(index++) / count);
    }
  }

  // Images [N, 3, H, W] to logits [N, classes].
  Tensor operator()(const Tensor& images) {
    Tensor x = silu(stem(images));
    for (auto& blocks : features)
      for (InvertedBottleneck& block : blocks) x = block(x);
    x = nn::adaptive_avg_pool2d(silu(head(x)), 1);
    return classifier(drop(flatten(x, 1)));
  }

  ConvNorm stem;
  std::vector<std::vector<InvertedBottleneck>> features;  // of each stage, from 1: 0 is the stem
  ConvNorm head;
  nn::Dropout drop;
  nn::Linear classifier;
  WEFT_MEMBERS(stem, features, head, drop, classifier)
};

// For io::load of torchvision's EfficientNet-B0, whose first stage has no expansion.
inline const std::vector<io::Renamed> efficientnet_names = {{"stem.*", "features.0.*"},
                                                            {"features.1.*.depthwise.*", "features.1.*.block.0.*"},
                                                            {"features.1.*.excitation.*", "features.1.*.block.1.*"},
                                                            {"features.1.*.project.*", "features.1.*.block.2.*"},
                                                            {"features.*.*.expand.*", "features.*.*.block.0.*"},
                                                            {"features.*.*.depthwise.*", "features.*.*.block.1.*"},
                                                            {"features.*.*.excitation.*", "features.*.*.block.2.*"},
                                                            {"features.*.*.project.*", "features.*.*.block.3.*"},
                                                            {"head.*", "features.8.*"},
                                                            {"classifier.*", "classifier.1.*"}};

}  // namespace models
