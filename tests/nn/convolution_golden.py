"""convolution_golden.py > convolution_golden.inc: what PyTorch's convolutions and pooling give, in float64: the result, and
the gradients of its sum with a wave. Inputs and parameters are sines that convolution_test.cpp makes too.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)


def wave(shape, seed):
    return (0.6 * torch.sin(torch.arange(math.prod(shape)) * 0.7 + seed)).reshape(shape)


def give(result, inputs):
    gradients = torch.autograd.grad((result * wave(result.shape, 50)).sum(), inputs)
    values = [number for value in (result, *gradients) for number in value.detach().flatten().tolist()]
    print("{" + ", ".join("%.12g" % number for number in values) + "},")


def layer(made, shape):
    for i, parameter in enumerate(made.parameters()):
        parameter.data = wave(parameter.shape, i)
    x = wave(shape, 30).requires_grad_()
    give(made(x), [x, *made.parameters()])


layer(nn.Conv1d(4, 6, 3), (2, 4, 7))
layer(nn.Conv1d(4, 6, 3, stride=2, padding=2, dilation=2, groups=2, bias=False), (2, 4, 9))
layer(nn.Conv1d(2, 3, 4, padding="same"), (2, 6))
layer(nn.Conv2d(3, 4, (3, 2), stride=(2, 1), padding=(1, 0)), (2, 3, 6, 5))
layer(nn.Conv2d(4, 4, 3, groups=4, padding="same", dilation=(1, 2)), (2, 4, 5, 6))
layer(nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect"), (2, 2, 4, 5))
layer(nn.Conv2d(2, 3, (2, 4), padding="same", padding_mode="circular"), (2, 4, 5))
layer(nn.Conv3d(2, 3, 2), (2, 2, 3, 4, 3))
layer(nn.Conv3d(2, 4, (1, 3, 2), stride=(1, 2, 1), padding=(0, 1, 1), groups=2, bias=False), (1, 2, 2, 5, 3))
layer(nn.Conv3d(1, 2, 3, padding=1, padding_mode="replicate"), (1, 3, 3, 3))
layer(nn.ConvTranspose1d(3, 4, 3), (2, 3, 5))
layer(nn.ConvTranspose1d(4, 6, 3, stride=3, padding=2, output_padding=1, groups=2, bias=False), (2, 4, 4))
layer(nn.ConvTranspose1d(2, 2, 2, stride=1, padding=1, output_padding=2, dilation=3), (2, 2, 4))
layer(nn.ConvTranspose2d(3, 2, 2, stride=2), (2, 3, 3, 4))
layer(nn.ConvTranspose2d(2, 4, (3, 2), stride=(2, 1), padding=(1, 0), output_padding=(1, 0), dilation=(1, 2)), (2, 2, 3, 4))
layer(nn.ConvTranspose2d(4, 4, 3, padding=1, groups=4), (4, 4, 3))
layer(nn.ConvTranspose3d(2, 3, 2), (1, 2, 2, 3, 2))
layer(nn.ConvTranspose3d(2, 2, (1, 2, 3), stride=(1, 2, 2), padding=(0, 0, 1), output_padding=(0, 1, 1)), (1, 2, 2, 2, 3))
layer(nn.ConvTranspose3d(2, 2, 2, groups=2, bias=False), (2, 2, 2, 2))


def pool(function, shape, *arguments, **options):
    x = wave(shape, 30).requires_grad_()
    give(function(x, *arguments, **options), [x])


pool(F.max_pool1d, (2, 3, 9), 3)
pool(F.max_pool1d, (3, 10), 4, stride=3, padding=2, ceil_mode=True)
pool(F.max_pool1d, (2, 3, 9), 3, stride=2, dilation=2)
pool(F.max_pool2d, (2, 3, 7, 8), 3, stride=2, padding=1)
pool(F.max_pool2d, (2, 2, 5, 6), (2, 3), stride=(2, 1), ceil_mode=True)
x = torch.tensor([[[1.0, 1.0, 0.0, 2.0], [1.0, 1.0, 2.0, 2.0], [0.0, 0.0, 2.0, 2.0]]]).requires_grad_()
give(F.max_pool2d(x, 2, stride=1), [x])
pool(F.max_pool3d, (1, 2, 4, 4, 5), 2)
pool(F.max_pool3d, (1, 2, 4, 5, 5), (1, 3, 2), stride=2, padding=(0, 1, 1))
pool(F.max_pool3d, (2, 3, 3, 4), 2, stride=1, ceil_mode=True)
pool(F.avg_pool1d, (2, 3, 9), 3)
pool(F.avg_pool1d, (2, 3, 10), 4, stride=3, padding=2, ceil_mode=True)
pool(F.avg_pool1d, (3, 9), 3, stride=2, padding=1, count_include_pad=False)
pool(F.avg_pool2d, (2, 3, 7, 8), 3, stride=2, padding=1)
pool(F.avg_pool2d, (2, 2, 6, 6), (2, 3), stride=(3, 2), padding=(1, 1), ceil_mode=True, count_include_pad=False)
pool(F.avg_pool2d, (2, 2, 6, 6), 2, divisor_override=3)
pool(F.avg_pool3d, (1, 2, 4, 4, 5), 2)
pool(F.avg_pool3d, (1, 2, 4, 5, 5), (1, 3, 2), stride=2, padding=(0, 1, 1), count_include_pad=False)
pool(F.avg_pool3d, (2, 3, 3, 4), 2, stride=2, ceil_mode=True)
for kind in ("avg", "max"):
    pool(getattr(F, f"adaptive_{kind}_pool1d"), (2, 3, 9), 3)
    pool(getattr(F, f"adaptive_{kind}_pool1d"), (2, 3, 7), 3)
    pool(getattr(F, f"adaptive_{kind}_pool2d"), (2, 2, 6, 5), (1, 3))
    pool(getattr(F, f"adaptive_{kind}_pool2d"), (2, 5, 7), (3, 9))
    pool(getattr(F, f"adaptive_{kind}_pool3d"), (1, 2, 4, 5, 3), (2, 2, 3))
