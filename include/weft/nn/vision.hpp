// Functions and layers of images: other sizes, samples at any place, boxes.
#pragma once
#include "weft/convolution.hpp"
#include "weft/nn.hpp"

namespace weft::nn {

// ---- other sizes ----------------------------------------------------------------------------------------------------

enum class Interpolation : std::uint8_t { nearest, nearest_exact, linear, bilinear, trilinear, bicubic, area };
// The result's sizes behind the channels, or what they are multiplied with (the product is rounded down): one of the
// two, with a number for each axis or one for all.
struct InterpolateOptions {
  Sizes size = {};
  std::vector<double> scale_factor = {};
  Interpolation mode = Interpolation::nearest;
  bool align_corners = false;  // the centres of the first and last elements stay in place, not their outer edges
};
// x [N,C,sizes...] of 1 to 3 sizes to [N,C,sizes'...], as torch.nn.functional.interpolate without antialias. linear,
// bilinear and trilinear are for 1, 2 and 3 sizes, bicubic (a = -0.75, Keys 1981) for 2; these and area take a floating
// x, compute f16 and bf16 in f32, and round once. nearest_exact takes the element at the centre, nearest that at the
// lower edge; a size that is a whole multiple repeats elements. A scale factor is used as it is for places, as in
// PyTorch without recompute_scale_factor. Sizes may be symbolic; those of area become numbers, and so does a size that
// is multiplied with no sum of few powers of two. Throws Error on other shapes or dtypes, on both or neither of size
// and scale_factor, and on sizes that are not positive.
Tensor interpolate(At x, const InterpolateOptions& options);

// The same as layers.
struct UpsampleOptions {
  std::vector<std::int64_t> size = {};
  std::vector<double> scale_factor = {};
  Interpolation mode = Interpolation::nearest;
  bool align_corners = false;
};
struct Upsample {
  explicit Upsample(UpsampleOptions options) : options(std::move(options)) {}
  Tensor operator()(At x) const;
  UpsampleOptions options;
  WEFT_MEMBERS(options)
};
struct UpsamplingOptions {
  std::vector<std::int64_t> size = {};
  std::vector<double> scale_factor = {};
};
// x [N,C,H,W]; the second one aligns corners.
struct UpsamplingNearest2d : Upsample {
  explicit UpsamplingNearest2d(UpsamplingOptions o)
      : Upsample({std::move(o.size), std::move(o.scale_factor), Interpolation::nearest, false}) {}
};
struct UpsamplingBilinear2d : Upsample {
  explicit UpsamplingBilinear2d(UpsamplingOptions o)
      : Upsample({std::move(o.size), std::move(o.scale_factor), Interpolation::bilinear, true}) {}
};

// ---- channels to places and back ------------------------------------------------------------------------------------

// [..., C r^2, H, W] to [..., C, H r, W r]: channel c r^2 + i r + j becomes the place (i, j) of each r x r block (Shi
// and others 2016), and back. Throw Error where the factor is not positive or does not divide.
Tensor pixel_shuffle(At x, std::int64_t upscale_factor);
Tensor pixel_unshuffle(At x, std::int64_t downscale_factor);
// [N, C, ...]: the channels of `groups` equal parts in turn (Zhang and others 2018). Throws where they do not divide.
Tensor channel_shuffle(At x, std::int64_t groups);
struct PixelShuffle {
  explicit PixelShuffle(std::int64_t upscale_factor) : upscale_factor(upscale_factor) {}
  Tensor operator()(At x) const { return pixel_shuffle(x, upscale_factor); }
  std::int64_t upscale_factor;
  WEFT_MEMBERS(upscale_factor)
};
struct PixelUnshuffle {
  explicit PixelUnshuffle(std::int64_t downscale_factor) : downscale_factor(downscale_factor) {}
  Tensor operator()(At x) const { return pixel_unshuffle(x, downscale_factor); }
  std::int64_t downscale_factor;
  WEFT_MEMBERS(downscale_factor)
};
struct ChannelShuffle {
  explicit ChannelShuffle(std::int64_t groups) : groups(groups) {}
  Tensor operator()(At x) const { return channel_shuffle(x, groups); }
  std::int64_t groups;
  WEFT_MEMBERS(groups)
};

}  // namespace weft::nn
