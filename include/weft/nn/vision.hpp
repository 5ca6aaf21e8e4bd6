// Functions and layers of images: other sizes, samples at any place, boxes.
#pragma once
#include "weft/convolution.hpp"
#include "weft/ops.hpp"

namespace weft::nn {

// ---- other sizes ----------------------------------------------------------------------------------------------------

// How interpolate reads between elements, as in PyTorch.
enum class Interpolation : std::uint8_t { nearest, nearest_exact, linear, bilinear, trilinear, bicubic, area };
// The sizes of the axes after the channels, or what they are multiplied with (the product is rounded down): one of the
// two, with a number for each axis or one for all.
struct InterpolateOptions {
  Sizes size = {};
  std::vector<double> scale_factor = {};
  Interpolation mode = Interpolation::nearest;
  bool align_corners = false;  // the centres of the first and last elements stay in place, not their outer edges
  bool antialias = false;      // of bilinear and bicubic: a smaller result is an average over what it covers
};
// x [N,C,sizes...] of 1 to 3 sizes to [N,C,sizes'...], as torch.nn.functional.interpolate. linear,
// bilinear and trilinear are for 1, 2 and 3 sizes, bicubic (a = -0.75, Keys 1981) for 2; these and area take a floating
// x, compute f16 and bf16 in f32, and round once. nearest_exact takes the element at the centre, nearest that at the
// lower edge; a size that is a whole multiple repeats elements. A scale factor is used as it is for places, as in
// PyTorch without recompute_scale_factor. Sizes may be symbolic; those of area become numbers, and so does a size that
// is multiplied with no sum of few powers of two. Under antialias the weights are those of Pillow (cubic: a = -0.5),
// and an axis is a product with a matrix: an element that is not finite spoils its row. Throws Error on other shapes or
// dtypes, on both or neither of size and scale_factor, and on sizes that are not positive.
Tensor interpolate(At x, const InterpolateOptions& options);

// The same as layers.
struct UpsampleOptions {
  std::vector<std::int64_t> size = {};
  std::vector<double> scale_factor = {};
  Interpolation mode = Interpolation::nearest;
  bool align_corners = false;  // as of InterpolateOptions
};
struct Upsample {  // interpolate as a layer
  explicit Upsample(UpsampleOptions given) : options(std::move(given)) {}
  Tensor operator()(At x) const;
  UpsampleOptions options;
  WEFT_MEMBERS(options)
};
struct UpsamplingOptions {  // of UpsamplingNearest2d and UpsamplingBilinear2d
  std::vector<std::int64_t> size = {};
  std::vector<double> scale_factor = {};
};
// Modes nearest; and bilinear, which aligns corners.
struct UpsamplingNearest2d {
  explicit UpsamplingNearest2d(UpsamplingOptions given) : options(std::move(given)) {}
  Tensor operator()(At x) const { return Upsample({options.size, options.scale_factor})(x); }
  UpsamplingOptions options;
  WEFT_MEMBERS(options)
};
struct UpsamplingBilinear2d {  // bilinear interpolate as a layer
  explicit UpsamplingBilinear2d(UpsamplingOptions given) : options(std::move(given)) {}
  Tensor operator()(At x) const {
    return Upsample({options.size, options.scale_factor, Interpolation::bilinear, true})(x);
  }
  UpsamplingOptions options;
  WEFT_MEMBERS(options)
};

// ---- windows to columns and back ------------------------------------------------------------------------------------

struct UnfoldOptions {      // of unfold and fold
  PerAxis<2> dilation = 1;  // the distance between neighbours in a window; positive
  PerAxis<2> padding = 0;   // zeros at both ends of each axis
  PerAxis<2> stride = 1;    // how far windows are apart; positive
};
// Windows of x [N,C,H,W] or [C,H,W] as columns, [N, C kernel[0] kernel[1], windows], as torch.nn.functional.unfold
// (im2col). Channels become a number; N and the sizes may be symbolic. Throws Error on other shapes, and where no
// window fits.
Tensor unfold(At x, PerAxis<2> kernel, UnfoldOptions options = {});
// The other way round, for x [N, C kernel[0] kernel[1], windows] or without N: [N,C,output_size...], where what lies in
// several windows is added up: the derivative of unfold, as a function. Throws Error where the columns are not those of
// windows over output_size.
Tensor fold(At x, Sizes output_size, PerAxis<2> kernel, UnfoldOptions options = {});
struct Unfold {       // unfold as a layer
  Unfold() = delete;  // weft: it is made as nn::Unfold(kernel)
  explicit Unfold(PerAxis<2> size, UnfoldOptions how = {}) : kernel(size), options(how) {}
  // A size for each axis.
  template <std::integral T, std::size_t length>
  explicit Unfold(const T (&each)[length], UnfoldOptions how = {}) : Unfold(weft::detail::per_axis<2>(each), how) {}
  Tensor operator()(At x) const { return unfold(x, kernel, options); }
  PerAxis<2> kernel;
  UnfoldOptions options;
  WEFT_MEMBERS(kernel, options)
};
struct Fold {       // fold as a layer
  Fold() = delete;  // weft: it is made as nn::Fold(output_size, kernel)
  explicit Fold(PerAxis<2> result, PerAxis<2> size, UnfoldOptions how = {})
      : output_size(result), kernel(size), options(how) {}
  Tensor operator()(At x) const { return fold(x, {output_size[0], output_size[1]}, kernel, options); }
  PerAxis<2> output_size;  // [H, W] of the result
  PerAxis<2> kernel;
  UnfoldOptions options;
  WEFT_MEMBERS(output_size, kernel, options)
};

// ---- channels to places and back ------------------------------------------------------------------------------------

// [..., C r^2, H, W] to [..., C, H r, W r]: channel c r^2 + i r + j becomes the place (i, j) of each r x r block (Shi
// and others 2016), and back. Throw Error where the factor is not positive or does not divide.
Tensor pixel_shuffle(At x, std::int64_t upscale_factor);
Tensor pixel_unshuffle(At x, std::int64_t downscale_factor);
// [N, C, ...]: the channels of `groups` equal parts in turn (Zhang and others 2018). Throws where they do not divide.
Tensor channel_shuffle(At x, std::int64_t groups);
struct PixelShuffle {       // pixel_shuffle as a layer
  PixelShuffle() = delete;  // weft: it is made as nn::PixelShuffle(upscale_factor)
  explicit PixelShuffle(std::int64_t given) : upscale_factor(given) {}
  Tensor operator()(At x) const { return pixel_shuffle(x, upscale_factor); }
  std::int64_t upscale_factor;
  WEFT_MEMBERS(upscale_factor)
};
struct PixelUnshuffle {       // pixel_unshuffle as a layer
  PixelUnshuffle() = delete;  // weft: it is made as nn::PixelUnshuffle(downscale_factor)
  explicit PixelUnshuffle(std::int64_t given) : downscale_factor(given) {}
  Tensor operator()(At x) const { return pixel_unshuffle(x, downscale_factor); }
  std::int64_t downscale_factor;
  WEFT_MEMBERS(downscale_factor)
};
struct ChannelShuffle {       // channel_shuffle as a layer
  ChannelShuffle() = delete;  // weft: it is made as nn::ChannelShuffle(groups)
  explicit ChannelShuffle(std::int64_t given) : groups(given) {}
  Tensor operator()(At x) const { return channel_shuffle(x, groups); }
  std::int64_t groups;  // equal parts of the channels, which are taken from in turn
  WEFT_MEMBERS(groups)
};

// ---- samples at any place -------------------------------------------------------------------------------------------

enum class SampleMode : std::uint8_t { bilinear, nearest };  // how grid_sample reads between pixels
// What is outside of the image: zeros; its border; its mirror image.
enum class SamplePadding : std::uint8_t { zeros, border, reflection };
struct GridSampleOptions {  // of grid_sample
  SampleMode mode = SampleMode::bilinear;
  SamplePadding padding_mode = SamplePadding::zeros;  // what is outside of the image
  bool align_corners = false;  // -1 and 1 are the centres of the first and last elements, not their outer edges
};
// x [N,C,H,W] at the places (x, y) of grid [N,H',W',2], where -1 and 1 are the borders: [N,C,H',W'], as
// torch.nn.functional.grid_sample (Jaderberg and others 2015); or x [N,C,D,H,W] at the places (x, y, z) of
// [N,D',H',W',3], of which bilinear is trilinear. Both are of one floating dtype; f16 and bf16
// are computed in f32 and rounded once. Sizes may be symbolic. Throws Error on other shapes and dtypes, and on an image
// of no elements.
Tensor grid_sample(At x, At grid, GridSampleOptions options = {});
// The places of a result of `size` [N,C,H,W] under theta [N,2,3]: [N,H,W,2] for grid_sample; or of [N,C,D,H,W] under
// [N,3,4]: [N,D,H,W,3]. Throws Error on other shapes, and where theta is not floating.
Tensor affine_grid(At theta, Sizes size, bool align_corners = false);

struct RoiAlignOptions {             // of roi_align
  double spatial_scale = 1;          // from coordinates of boxes to those of x
  std::int64_t sampling_ratio = -1;  // samples along each axis of a bin; it must be given, and be positive
  bool aligned = false;              // boxes are moved by half an element, and may be smaller than one
};
// The mean of samples in each of output_size bins of each box: x [N,C,H,W] with boxes [K,5] of (index in N, x1, y1, x2,
// y2) to [K,C,output_size...], as torchvision.ops.roi_align (He and others 2017). No gradient passes to the boxes. Both
// are floating; f16 and bf16 are computed in f32 and rounded once. Throws Error on other shapes and dtypes, on numbers
// that are not positive, and, or stops the call, on an index that is not in [0, N).
Tensor roi_align(At x, At boxes, PerAxis<2> output_size, RoiAlignOptions options);

// ---- boxes (x1, y1, x2, y2), as in torchvision.ops ------------------------------------------------------------------
// Numbers of 16 bits or less become f32 or i32. All throw Error on a last axis that is not 4.

// The area of each box: [..., 4] to [...]. Throws Error on another last axis.
Tensor box_area(At boxes);
// Intersection over union of each pair: [N,4] with [M,4] to [N,M]. Throws Error on another last axis.
Tensor box_iou(At boxes1, At boxes2);
// Boxes [N,4], from the greatest of scores [N] to the least, without those that overlap an earlier one by more than the
// threshold (box_iou): nms_mask says of each box whether it stays, bool [N], also in a compiled function and for
// symbolic N; nms gives the indices of those, i64, from the greatest score to the least. In a compiled function nms is
// chosen by the host, between two compiled pieces (docs/guards.md, "Values on the host"); in the body of a loop it
// throws Error. Of equal scores the first box comes first. No gradient passes.
Tensor nms_mask(At boxes, At scores, double iou_threshold);
Tensor nms(At boxes, At scores, double iou_threshold);
// The same, where only boxes of one group, idxs [N] of integers, count as overlapping.
Tensor batched_nms_mask(At boxes, At scores, At idxs, double iou_threshold);
Tensor batched_nms(At boxes, At scores, At idxs, double iou_threshold);

}  // namespace weft::nn
