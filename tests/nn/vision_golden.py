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
