#!/usr/bin/env python3
"""windows_golden.py > windows_golden.inc: what PyTorch's functions of windows and of sampled images give, in float64: the
results, and the gradients of their sums with waves. Inputs are sines that windows_test.cpp makes too.
"""
import math

import torch
import torch.nn.functional as F

print("// Made by windows_golden.py: values and gradients that PyTorch gives in f64.")
print("// clang-format off")

torch.set_default_dtype(torch.float64)


def wave(shape, seed):
    return (0.6 * torch.sin(torch.arange(math.prod(shape)) * 0.7 + seed)).reshape(shape)


def give(results, inputs):
    loss = sum((value * wave(value.shape, 50 + i)).sum() for i, value in enumerate(results) if value.requires_grad)
    gradients = torch.autograd.grad(loss, inputs)
    numbers = [number for value in (*results, *gradients) for number in value.detach().flatten().double().tolist()]
    print("{" + ", ".join("%.12g" % number for number in numbers) + "},")


def of_wave(function, shape, *numbers, **options):
    x = wave(shape, 30).requires_grad_()
    results = function(x, *numbers, **options)
    give(results if isinstance(results, tuple) else (results,), [x])


of_wave(F.unfold, (2, 3, 5, 6), kernel_size=3)
of_wave(F.unfold, (3, 5, 6), kernel_size=(2, 3), padding=(1, 2), stride=(2, 1), dilation=(2, 1))
of_wave(F.fold, (2, 12, 20), output_size=(5, 6), kernel_size=2)
of_wave(F.fold, (12, 16), output_size=(4, 7), kernel_size=(3, 2), padding=(1, 2), stride=(2, 1), dilation=(1, 3))

of_wave(F.max_pool1d_with_indices, (2, 3, 9), 3)
of_wave(F.max_pool2d_with_indices, (2, 2, 7, 6), (3, 2), stride=(2, 1), padding=1, dilation=(2, 1))
of_wave(F.max_pool2d_with_indices, (2, 7, 6), 3, stride=2, ceil_mode=True)
of_wave(F.max_pool3d_with_indices, (1, 2, 4, 5, 6), 2, stride=(2, 1, 2), padding=(1, 0, 1))
of_wave(F.adaptive_max_pool1d_with_indices, (2, 3, 7), 3)
of_wave(F.adaptive_max_pool2d_with_indices, (2, 2, 7, 6), (3, 2))
of_wave(F.adaptive_max_pool3d_with_indices, (2, 4, 5, 6), (2, 3, 4))


def pooled_and_back(x, count, kernel, pool, back):
    function = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[count - 1]
    values, indices = function(x, kernel, return_indices=True, **pool)
    return (F.max_unpool1d, F.max_unpool2d, F.max_unpool3d)[count - 1](values * values, indices, kernel, **back)


of_wave(pooled_and_back, (2, 3, 9), 1, 3, {}, {})
of_wave(pooled_and_back, (2, 2, 6, 9), 2, (2, 3), {}, {})
of_wave(pooled_and_back, (2, 7, 6), 2, 3, dict(stride=2, padding=1), dict(stride=2, padding=1, output_size=(7, 6)))
of_wave(pooled_and_back, (1, 2, 4, 5, 6), 3, 2, {}, dict(output_size=(4, 5, 6)))

samples = torch.tensor([[[0.1, 0.9], [0.5, 0.3]], [[0.77, 0.2], [0.0, 0.62]]])
of_wave(F.fractional_max_pool2d_with_indices, (2, 2, 9, 8), 2, output_size=(4, 5), _random_samples=samples)
of_wave(F.fractional_max_pool2d_with_indices, (2, 9, 8), (3, 2), output_ratio=(0.5, 0.7), _random_samples=samples[:1])
of_wave(F.fractional_max_pool3d_with_indices, (2, 5, 6, 9), 2, output_size=(3, 1, 4),
        _random_samples=torch.cat((samples, samples[:, :, :1]), 2)[:1])

for mode, padding, align, size, places in (
    ("bilinear", "zeros", False, (2, 2, 3, 4, 5), (2, 3, 2)),
    ("bilinear", "border", True, (1, 2, 3, 2, 4), (3, 2, 2)),
    ("bilinear", "reflection", False, (1, 2, 2, 4, 5), (2, 3, 3)),
    ("nearest", "zeros", True, (2, 2, 3, 4, 2), (2, 2, 2)),
    ("nearest", "reflection", True, (1, 2, 1, 4, 3), (2, 2, 3)),
):
    x = wave(size, 30).requires_grad_()
    grid = (wave((size[0], *places, 3), 31) * 3.5).requires_grad_()
    give((F.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=align),), [x, grid])

for mode in ("bilinear", "bicubic"):
    of_wave(F.interpolate, (2, 2, 9, 7), size=(4, 3), mode=mode, antialias=True)
    of_wave(F.interpolate, (1, 2, 5, 11), size=(8, 4), mode=mode, antialias=True)
    of_wave(F.interpolate, (1, 2, 9, 11), scale_factor=(0.4, 0.6), mode=mode, antialias=True)
    of_wave(F.interpolate, (1, 2, 9, 7), size=(4, 3), mode=mode, antialias=True, align_corners=True)

classes, labels = 5, torch.tensor([[3, 0, -1, 1, 2], [4, 2, 1, 0, 3], [-1, 2, 2, 2, 2], [1, 1, -1, 0, 0]])
for reduction in ("mean", "sum", "none"):
    of_wave(F.multilabel_margin_loss, (4, classes), labels, reduction=reduction)
of_wave(F.multilabel_margin_loss, (classes,), labels[0])


def linear_cross_entropy(rows, names, **options):
    operands = [wave(shape, 30 + i).requires_grad_() for i, shape in enumerate(((*names.shape, 6), (classes, 6), (classes,)))]
    x, weight, bias = operands
    give((F.cross_entropy((x @ weight.T + bias).reshape(-1, classes), names.flatten(), **options),), operands)


names = torch.tensor([3, 0, 4, 1, 2, 2, 1])
linear_cross_entropy(7, names)
linear_cross_entropy(7, names, reduction="sum")
linear_cross_entropy(7, names, ignore_index=2)
linear_cross_entropy(7, names.reshape(7, 1), reduction="none", ignore_index=1)
for p in (0, 1, 2, 3, math.inf):
    of_wave(F.pdist, (6, 3), p=float(p))
