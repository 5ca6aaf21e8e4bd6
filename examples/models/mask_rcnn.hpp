// The heads of Mask R-CNN (He and others 2017) over a pyramid of features (Lin and others 2017): proposals, classes and
// boxes, masks, and their losses. Every size is given before values are known, so all of it compiles: where fewer boxes
// are found, the rest has the score 0. Boxes are (x1, y1, x2, y2) in pixels. Tables give the names of torchvision's
// files.
#pragma once
#include <cmath>
#include <vector>

#include <weft/weft.hpp>

namespace models {

using namespace weft;

struct MaskRcnnConfig {
  std::int64_t channels = 256, hidden = 1024, classes = 91;    // class 0 is the background
  std::vector<double> anchor_sizes = {32, 64, 128, 256, 512};  // one a level, whose strides are 4, 8, 16, ...
  std::vector<double> anchor_ratios = {0.5, 1, 2};             // heights over widths
};

// Four numbers of each box against those of another: its centre and the logarithms of its sides.
inline Tensor encode_boxes(const Tensor& boxes, const Tensor& from, const std::vector<double>& weights) {
  const auto side = [](const Tensor& b, int axis) { return select(b, -1, axis + 2) - select(b, -1, axis); };
  const auto centre = [](const Tensor& b, int axis) { return (select(b, -1, axis) + select(b, -1, axis + 2)) / 2; };
  const auto move = [&](int i) { return weights[i] * (centre(boxes, i) - centre(from, i)) / side(from, i); };
  const auto grow = [&](int i) { return weights[i + 2] * log(side(boxes, i) / side(from, i)); };
  return stack({move(0), move(1), grow(0), grow(1)}, -1);
}
// The boxes that these numbers mean, cut at the image's borders. Shapes [..., 4] broadcast.
inline Tensor decode_boxes(const Tensor& numbers, const Tensor& from, const std::vector<double>& weights, Dim height,
                           Dim width) {
  const auto at = [](const Tensor& b, int i) { return select(b, -1, i); };
  const auto corner = [&](int i, double sign, Dim size) {
    const Tensor side = at(from, i + 2) - at(from, i);
    const Tensor centre = at(from, i) + side / 2 + at(numbers, i) / weights[i] * side;
    const Tensor grown = exp(minimum(at(numbers, i + 2) / weights[i + 2], std::log(1000.0 / 16))) * side;
    return clamp(centre + sign * grown / 2, 0, size);
  };
  return stack({corner(0, -1, width), corner(1, -1, height), corner(0, 1, width), corner(1, 1, height)}, -1);
}
inline constexpr nn::SmoothL1Options each_distance = {.beta = 1.0 / 9, .reduction = nn::Reduction::none};
inline const std::vector<double> proposal_weights = {1, 1, 1, 1}, detection_weights = {10, 10, 5, 5};

// Whether an object is near each anchor, and where.
struct ProposalHead {
  struct Result {
    Tensor logits, numbers, anchors, levels;  // [N, anchors], [N, anchors, 4], [anchors, 4], [anchors]
  };
  explicit ProposalHead(const MaskRcnnConfig& c)
      : config(c),
        conv(c.channels, c.channels, 3, {.padding = 1}),
        cls_logits(c.channels, static_cast<std::int64_t>(c.anchor_ratios.size()), 1),
        bbox_pred(c.channels, static_cast<std::int64_t>(4 * c.anchor_ratios.size()), 1) {}

  Result operator()(const std::vector<Tensor>& features) const {  // of each level [N, channels, H, W]
    std::vector<Tensor> logits, numbers, anchors, levels;
    for (std::size_t i = 0; i < features.size(); ++i) {
      const Tensor x = relu(conv(features[i])), anchor = make_anchors(i, x);
      const auto places = [](const Tensor& y, std::int64_t each) {  // [N, A each, H, W] to [N, H W A, each]
        return flatten(permute(reshape(y, {y.size(0), -1, each, y.size(2), y.size(3)}), {0, 3, 4, 1, 2}), 1, 3);
      };
      logits.push_back(squeeze(places(cls_logits(x), 1), 2)), numbers.push_back(places(bbox_pred(x), 4));
      anchors.push_back(anchor),
          levels.push_back(full({anchor.size(0)}, static_cast<std::int64_t>(i), {DType::i64, x.device()}));
    }
    return {concat(logits, 1), concat(numbers, 1), concat(anchors, 0), concat(levels, 0)};
  }
  // The `count` best boxes of image `n` among the `before` best anchors, of those that overlap in a level the best:
  // boxes [count, 4] and scores [count].
  std::pair<Tensor, Tensor> propose(const Result& found, Dim n, Dim height, Dim width, Dim before, Dim count) const {
    const auto [scores, best] = topk(sigmoid(select(found.logits, 0, n)), before);
    const Tensor boxes = decode_boxes(gather(select(found.numbers, 0, n), best), gather(found.anchors, best),
                                      proposal_weights, height, width);
    const Tensor kept = nn::batched_nms_mask(boxes, scores, gather(found.levels, best), 0.7);
    const auto [last, order] = topk(where(kept, scores, 0), count);
    return {gather(boxes, order), last};
  }
  // Of sampled anchors `places` [N, S], of which `objects` [N, S] are 1 at an object, whose boxes are [N, S, 4].
  Tensor loss(const Result& found, const Tensor& places, const Tensor& objects, const Tensor& boxes) const {
    const Tensor at = expand(unsqueeze(places, 2), {places.size(0), places.size(1), 4});
    const Tensor target = encode_boxes(boxes, gather(found.anchors, places), proposal_weights);
    const Tensor distance = nn::smooth_l1_loss(gather(found.numbers, 1, at), target, each_distance);
    return nn::binary_cross_entropy_with_logits(gather(found.logits, 1, places), objects) +
           sum(where(unsqueeze(objects, 2) > 0, distance, 0)) / places.shape().element_count();
  }

  MaskRcnnConfig config;
  nn::Conv2d conv, cls_logits, bbox_pred;
  WEFT_MEMBERS(config, conv, cls_logits, bbox_pred)
 private:
  Tensor make_anchors(std::size_t level, const Tensor& x) const {
    std::vector<double> halves;  // of width and height
    for (const double ratio : config.anchor_ratios)
      for (const double side : {1 / std::sqrt(ratio), std::sqrt(ratio)})
        halves.push_back(std::nearbyint(config.anchor_sizes[level] * side / 2));
    const std::int64_t stride = std::int64_t{4} << level, count = static_cast<std::int64_t>(halves.size()) / 2;
    const Tensor sides = cast(constant(halves, {count, 2}), x.dtype());
    const Tensor columns = expand(reshape(arange(x.size(3)), {1, -1, 1}), {x.size(2), -1, count});
    const Tensor rows = expand(reshape(arange(x.size(2)), {-1, 1, 1}), {-1, x.size(3), count});
    const Tensor w = select(sides, 1, 0), h = select(sides, 1, 1), a = stride * columns, b = stride * rows;
    return to(reshape(stack({a - w, b - h, a + w, b + h}, 3), {-1, 4}), x.device());
  }
};

// What boxes [K, 5] of (image, x1, y1, x2, y2) show, [K, channels, size, size]: each from the level of its size.
inline Tensor pool_boxes(const std::vector<Tensor>& features, const Tensor& boxes, std::int64_t size) {
  const Tensor side = sqrt(nn::box_area(slice(boxes, 1, 1)));
  const Tensor level = clamp(floor(2 + log2(side / 224) + 1e-6), 0, static_cast<std::int64_t>(features.size()) - 1);
  Tensor result;
  for (std::size_t i = 0; i < features.size(); ++i) {
    const Tensor here =
        nn::roi_align(features[i], boxes, size, {.spatial_scale = 0.25 / (1 << i), .sampling_ratio = 2});
    result = i == 0 ? here : where(reshape(level == static_cast<std::int64_t>(i), {-1, 1, 1, 1}), here, result);
  }
  return result;
}

// The class of what is in a box, and a better box for each class.
struct BoxHead {
  struct Result {
    Tensor logits, numbers;  // [K, classes], [K, classes, 4]
  };
  struct Detections {
    Tensor boxes, classes, scores;  // [count, 4], [count], [count]
  };
  explicit BoxHead(const MaskRcnnConfig& c)
      : fc6(49 * c.channels, c.hidden),
        fc7(c.hidden, c.hidden),
        cls_score(c.hidden, c.classes),
        bbox_pred(c.hidden, 4 * c.classes) {}

  Result operator()(const std::vector<Tensor>& features, const Tensor& boxes) const {
    const Tensor x = relu(fc7(relu(fc6(flatten(pool_boxes(features, boxes, 7), 1)))));
    return {cls_score(x), reshape(bbox_pred(x), {x.size(0), -1, 4})};
  }
  // Classes [K], 0 for none, and the boxes [K, 4] of the objects.
  Tensor loss(const Result& found, const Tensor& boxes, const Tensor& classes, const Tensor& objects) const {
    const Tensor at = expand(reshape(classes, {-1, 1, 1}), {classes.size(0), 1, 4});
    const Tensor target = encode_boxes(objects, slice(boxes, 1, 1), detection_weights);
    const Tensor distance = nn::smooth_l1_loss(squeeze(gather(found.numbers, 1, at), 1), target, each_distance);
    return nn::cross_entropy(found.logits, classes) +
           sum(where(unsqueeze(classes, 1) > 0, distance, 0)) / classes.size(0);
  }
  // The best of all boxes [K, 5] of one image and all classes, of those that overlap in a class the best.
  Detections detect(const Result& found, const Tensor& boxes, Dim height, Dim width, Dim before, Dim count) const {
    const Tensor from = unsqueeze(slice(boxes, 1, 1), 1),
                 every = decode_boxes(found.numbers, from, detection_weights, height, width);
    const Dim objects = found.logits.size(1) - 1;
    const auto [scores, best] = topk(flatten(slice(softmax(found.logits), 1, 1)), before);
    const Tensor chosen = gather(flatten(slice(every, 1, 1), 0, 1), best), classes = best % objects + 1;
    const Tensor kept = nn::batched_nms_mask(chosen, scores, classes, 0.5) & (scores > 0.05);
    const auto [last, order] = topk(where(kept, scores, 0), count);
    return {gather(chosen, order), gather(classes, order), last};
  }

  nn::Linear fc6, fc7, cls_score, bbox_pred;
  WEFT_MEMBERS(fc6, fc7, cls_score, bbox_pred)
};

// Which pixels of a box are the object's, for each class.
struct MaskHead {
  explicit MaskHead(const MaskRcnnConfig& c)
      : conv5_mask(c.channels, c.channels, 2, {.stride = 2}), mask_fcn_logits(c.channels, c.classes, 1) {
    for (int i = 0; i < 4; ++i) convs.emplace_back(c.channels, c.channels, 3, nn::ConvLayerOptions<2>{.padding = 1});
  }
  Tensor operator()(const std::vector<Tensor>& features, const Tensor& boxes, const Tensor& classes) const {
    Tensor x = pool_boxes(features, boxes, 14);
    for (const nn::Conv2d& conv : convs) x = relu(conv(x));
    x = mask_fcn_logits(relu(conv5_mask(x)));
    const Tensor at = expand(reshape(classes, {-1, 1, 1, 1}), {x.size(0), 1, x.size(2), x.size(3)});
    return squeeze(gather(x, 1, at), 1);  // logits [K, 28, 28] of the boxes' classes
  }
  // Masks [M, H, W] of the image's objects, of which box k shows number objects[k].
  Tensor loss(const Tensor& logits, const Tensor& boxes, const Tensor& masks, const Tensor& objects) const {
    const Tensor rows = concat({unsqueeze(cast(objects, boxes.dtype()), 1), slice(boxes, 1, 1)}, 1);
    const Tensor target = nn::roi_align(unsqueeze(masks, 1), rows, 28, {.sampling_ratio = 2});
    return nn::binary_cross_entropy_with_logits(logits, squeeze(target, 1));
  }

  std::vector<nn::Conv2d> convs;
  nn::ConvTranspose2d conv5_mask;
  nn::Conv2d mask_fcn_logits;
  WEFT_MEMBERS(convs, conv5_mask, mask_fcn_logits)
};

struct MaskRcnnHeads {
  explicit MaskRcnnHeads(const MaskRcnnConfig& c = {}) : proposals(c), boxes(c), masks(c) {}
  ProposalHead proposals;
  BoxHead boxes;
  MaskHead masks;
  WEFT_MEMBERS(proposals, boxes, masks)
};

// For io::load of torchvision's maskrcnn_resnet50_fpn.
inline const std::vector<io::Renamed> mask_rcnn_names = {
    {"proposals.conv.*", "rpn.head.conv.0.0.*"},      {"proposals.*", "rpn.head.*"},
    {"boxes.fc*", "roi_heads.box_head.fc*"},          {"boxes.*", "roi_heads.box_predictor.*"},
    {"masks.convs.*.*", "roi_heads.mask_head.*.0.*"}, {"masks.*", "roi_heads.mask_predictor.*"}};

}  // namespace models
