// ResNet (He and others 2015), with the strides of PyTorch's: ResNet-18 of basic blocks, ResNet-50 of bottlenecks.
// Parameters have the names of torchvision's files.
#pragma once
#include <array>
#include <optional>
#include <vector>

#include <weft/weft.hpp>

namespace models {

using namespace weft;

inline nn::Conv2d conv_without_bias(std::int64_t in, std::int64_t out, std::int64_t size, std::int64_t stride = 1) {
  nn::Conv2d conv(in, out, size, {.stride = stride, .padding = size / 2, .bias = false});
  conv.weight = nn::kaiming_normal(conv.weight->shape());
  return conv;
}

// On the way around a block whose result has another size.
using Shortcut = std::optional<nn::Sequential<nn::Conv2d, nn::BatchNorm2d>>;
inline Shortcut make_shortcut(std::int64_t in, std::int64_t out, std::int64_t stride) {
  if (in == out && stride == 1) return {};
  return nn::Sequential(conv_without_bias(in, out, 1, stride), nn::BatchNorm2d(out));
}

struct BasicBlock {
  static constexpr std::int64_t expansion = 1;  // channels of the result, in widths
  BasicBlock(std::int64_t in, std::int64_t width, std::int64_t stride)
      : conv1(conv_without_bias(in, width, 3, stride)),
        bn1(width),
        conv2(conv_without_bias(width, width, 3)),
        bn2(width),
        downsample(make_shortcut(in, width, stride)) {}
  Tensor operator()(const Tensor& x) {
    const Tensor y = bn2(conv2(relu(bn1(conv1(x)))));
    return relu(y + (downsample ? (*downsample)(x) : x));
  }

  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Conv2d conv2;
  nn::BatchNorm2d bn2;
  Shortcut downsample;
  WEFT_MEMBERS(conv1, bn1, conv2, bn2, downsample)
};

struct Bottleneck {
  static constexpr std::int64_t expansion = 4;
  Bottleneck(std::int64_t in, std::int64_t width, std::int64_t stride)
      : conv1(conv_without_bias(in, width, 1)),
        bn1(width),
        conv2(conv_without_bias(width, width, 3, stride)),
        bn2(width),
        conv3(conv_without_bias(width, 4 * width, 1)),
        bn3(4 * width),
        downsample(make_shortcut(in, 4 * width, stride)) {}
  Tensor operator()(const Tensor& x) {
    const Tensor y = bn3(conv3(relu(bn2(conv2(relu(bn1(conv1(x))))))));
    return relu(y + (downsample ? (*downsample)(x) : x));
  }

  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Conv2d conv2;
  nn::BatchNorm2d bn2;
  nn::Conv2d conv3;
  nn::BatchNorm2d bn3;
  Shortcut downsample;
  WEFT_MEMBERS(conv1, bn1, conv2, bn2, conv3, bn3, downsample)
};

template <class Block>
struct ResNet {
  using Stage = std::vector<Block>;
  // Blocks of each stage, the classes, and the channels of the first stage.
  explicit ResNet(std::array<int, 4> blocks, std::int64_t classes = 1000, std::int64_t width = 64)
      : conv1(conv_without_bias(3, width, 7, 2)), bn1(width), fc(8 * width * Block::expansion, classes) {
    std::int64_t in = width;
    Stage* const stages[] = {&layer1, &layer2, &layer3, &layer4};
    for (int i = 0; i < 4; ++i)
      for (int block = 0; block < blocks[i]; ++block) {
        stages[i]->emplace_back(in, width << i, i > 0 && block == 0 ? 2 : 1);
        in = (width << i) * Block::expansion;
      }
  }

  // Images [N, 3, H, W] to logits [N, classes].
  Tensor operator()(const Tensor& images) {
    const auto stages = features(images);
    return fc(flatten(nn::adaptive_avg_pool2d(stages[3], 1), 1));
  }
  // What the four stages give, [N, C, H / 4, W / 4] to [N, 8 C, H / 32, W / 32].
  std::array<Tensor, 4> features(const Tensor& images) {
    Tensor x = nn::max_pool2d(relu(bn1(conv1(images))), 3, {.stride = 2, .padding = 1});
    std::array<Tensor, 4> result;
    Stage* const stages[] = {&layer1, &layer2, &layer3, &layer4};
    for (int i = 0; i < 4; ++i) {
      for (Block& block : *stages[i]) x = block(x);
      result[i] = x;
    }
    return result;
  }

  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  Stage layer1, layer2, layer3, layer4;
  nn::Linear fc;
  WEFT_MEMBERS(conv1, bn1, layer1, layer2, layer3, layer4, fc)
};

inline ResNet<BasicBlock> resnet18(std::int64_t classes = 1000) { return ResNet<BasicBlock>({2, 2, 2, 2}, classes); }
inline ResNet<Bottleneck> resnet50(std::int64_t classes = 1000) { return ResNet<Bottleneck>({3, 4, 6, 3}, classes); }

}  // namespace models
