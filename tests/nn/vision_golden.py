"""vision_golden.py > vision_golden.inc: what PyTorch's functions of images give, in float64: the result, and the gradients
of its sum with a wave. Inputs are sines that vision_test.cpp makes too.
"""
import math

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)


def wave(shape, seed):
    return (0.6 * torch.sin(torch.arange(math.prod(shape)) * 0.7 + seed)).reshape(shape)


def give(result, inputs):
    gradients = torch.autograd.grad((result * wave(result.shape, 50)).sum(), inputs)
    values = [number for value in (result, *gradients) for number in value.detach().flatten().tolist()]
    print("{" + ", ".join("%.12g" % number for number in values) + "},")


def of_wave(function, shape, **options):
    x = wave(shape, 30).requires_grad_()
    give(function(x, **options), [x])


def resize(shape, **options):
    of_wave(F.interpolate, shape, **options)


resize((2, 3, 5), size=8)
resize((2, 3, 4), scale_factor=3)
resize((1, 2, 5, 6), size=(3, 9))
resize((1, 2, 5, 3), scale_factor=(1.5, 2.3))
resize((1, 2, 3, 2, 4), size=(2, 4, 5))
resize((2, 3, 5), size=8, mode="nearest-exact")
resize((1, 2, 5, 6), scale_factor=(0.7, 2), mode="nearest-exact")
resize((1, 2, 3, 2, 4), size=(2, 4, 5), mode="nearest-exact")
resize((2, 3, 5), size=8, mode="linear")
resize((2, 3, 5), size=3, mode="linear", align_corners=True)
resize((2, 3, 5), scale_factor=1.7, mode="linear")
resize((2, 2, 4, 5), size=(6, 3), mode="bilinear")
resize((2, 2, 4, 5), scale_factor=2, mode="bilinear")
resize((1, 2, 4, 5), size=(7, 9), mode="bilinear", align_corners=True)
resize((1, 2, 4, 5), size=(1, 5), mode="bilinear", align_corners=True)
resize((1, 2, 2, 3, 4), size=(3, 2, 6), mode="trilinear")
resize((1, 2, 2, 3, 4), scale_factor=(2, 1, 0.6), mode="trilinear")
resize((1, 1, 2, 3, 4), size=(4, 4, 4), mode="trilinear", align_corners=True)
resize((2, 2, 4, 5), size=(6, 3), mode="bicubic")
resize((1, 2, 4, 5), scale_factor=(2, 1.3), mode="bicubic")
resize((1, 2, 4, 5), size=(7, 9), mode="bicubic", align_corners=True)
resize((2, 3, 7), size=3, mode="area")
resize((1, 2, 4, 5), scale_factor=0.5, mode="area")
resize((1, 2, 3, 4, 5), size=(2, 2, 7), mode="area")
of_wave(F.pixel_shuffle, (2, 8, 2, 3), upscale_factor=2)
of_wave(F.pixel_shuffle, (9, 2, 1), upscale_factor=3)
of_wave(F.pixel_shuffle, (1, 2, 4, 3, 2), upscale_factor=2)
of_wave(F.pixel_unshuffle, (2, 3, 4, 6), downscale_factor=2)
of_wave(F.pixel_unshuffle, (1, 6, 3), downscale_factor=3)
of_wave(F.pixel_unshuffle, (1, 2, 1, 4, 2), downscale_factor=2)
for groups, shape in ((2, (2, 6, 3)), (3, (1, 6, 2, 2)), (4, (2, 4, 2, 1, 2))):
    of_wave(F.channel_shuffle, shape, groups=groups)

for mode, padding, align, size, places in (
    ("bilinear", "zeros", False, (2, 3, 4, 5), (3, 4)),
    ("bilinear", "zeros", True, (1, 2, 5, 3), (2, 5)),
    ("bilinear", "border", False, (2, 2, 4, 5), (3, 3)),
    ("bilinear", "border", True, (1, 2, 3, 4), (4, 3)),
    ("bilinear", "reflection", False, (2, 2, 4, 5), (3, 3)),
    ("bilinear", "reflection", True, (1, 2, 1, 4), (4, 3)),
    ("nearest", "zeros", False, (2, 2, 4, 5), (3, 3)),
    ("nearest", "border", True, (1, 2, 3, 4), (4, 3)),
    ("nearest", "reflection", False, (1, 2, 4, 5), (3, 5)),
):
    x = wave(size, 30).requires_grad_()
    grid = (wave((size[0], *places, 2), 31) * 3.5).requires_grad_()
    give(F.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=align), [x, grid])
for size, align in (((2, 1, 3, 4), False), ((2, 1, 4, 1), True), ((1, 2, 2, 3, 4), False), ((2, 1, 3, 2, 2), True)):
    of_wave(F.affine_grid, (size[0], len(size) - 2, len(size) - 1), size=size, align_corners=align)


def bilinear(image, y, x):
    """The [C] of image [C, H, W] between its elements."""
    height, width = image.shape[1:]
    if y < -1 or y > height or x < -1 or x > width:
        return torch.zeros(image.shape[0])
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    top, left = int(y), int(x)
    down, right = y - top, x - left
    below, beside = min(top + 1, height - 1), min(left + 1, width - 1)
    upper = image[:, top, left] * (1 - right) + image[:, top, beside] * right
    lower = image[:, below, left] * (1 - right) + image[:, below, beside] * right
    return upper * (1 - down) + lower * down


def roi_align(x, boxes, size, scale, samples, aligned):
    result = []
    for index, *box in boxes:
        x1, y1, x2, y2 = (edge * scale - (0.5 if aligned else 0) for edge in box)
        high, wide = y2 - y1, x2 - x1
        if not aligned:
            high, wide = max(high, 1), max(wide, 1)
        bins = []
        for i in range(size[0]):
            for j in range(size[1]):
                total = 0
                for k in range(samples):
                    for l in range(samples):
                        y = y1 + (i + (k + 0.5) / samples) * high / size[0]
                        total = total + bilinear(x[int(index)], y, x1 + (j + (l + 0.5) / samples) * wide / size[1])
                bins.append(total / samples**2)
        result.append(torch.stack(bins, 1).reshape(-1, *size))
    return torch.stack(result)


rois = [[0, 1, 0.5, 6.25, 5], [1, -3, -2.5, 4, 3.1], [1, 5, 4, 11, 9.5], [0, 2.2, 2.1, 2.4, 2.6]]
for size, scale, samples, aligned in (((2, 3), 1, 2, False), ((3, 2), 0.5, 1, True), ((2, 2), 0.8, 3, True)):
    x = wave((2, 3, 5, 6), 30).requires_grad_()
    give(roi_align(x, rois, size, scale, samples, aligned), [x])


def area(box):
    return (box[2] - box[0]) * (box[3] - box[1])


def iou(a, b):
    wide = torch.clamp(torch.minimum(a[2], b[2]) - torch.maximum(a[0], b[0]), min=0)
    high = torch.clamp(torch.minimum(a[3], b[3]) - torch.maximum(a[1], b[1]), min=0)
    return wide * high / (area(a) + area(b) - wide * high)


def boxes(count, seed, extent):
    corner = wave((count, 2), seed)
    return torch.cat((corner, corner + extent + 0.3 * wave((count, 2), seed + 1).abs()), 1).requires_grad_()


for first, second in ((3, 4), (1, 6), (5, 2)):
    a, b = boxes(first, 30, 0.4), boxes(second, 40, 0.5)
    give(torch.stack([area(box) for box in a]), [a])
    give(torch.stack([torch.stack([iou(x, y) for y in b]) for x in a]), [a, b])


def nms(found, scores, groups, threshold):
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    kept = []
    for i in order:
        if all(groups[i] != groups[j] or iou(found[j], found[i]) <= threshold for j in kept):
            kept.append(i)
    print("{" + ", ".join(map(str, kept)) + "},")


for count, seed, threshold in ((12, 3, 0.3), (20, 4, 0.1), (9, 5, 0.2)):
    found, scores = boxes(count, seed, 0.4).detach(), (wave((count,), seed + 2) * 4).round().tolist()
    nms(found, scores, [0] * count, threshold)
    nms(found, scores, [i % 2 for i in range(count)], threshold)
