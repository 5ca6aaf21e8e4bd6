"""What PyTorch's cases on the CPU and on a GPU share: each function gives a step that finishes what it starts but for
work that is queued on a device. `compiled` is torch.compile, or what leaves a function as it is."""
import functools

import torch
import torch.nn as nn
import torch.nn.functional as F


def call(function, *inputs):
    """The result of the step before goes back when the next one replaces it."""
    kept = [None]

    def step():
        with torch.no_grad():
            kept[0] = function(*inputs)
    return step


def gradients(function, upstream, *inputs):
    """Forward and backward; `upstream` is the gradient of the result, None where that is a loss."""
    inputs = [value.requires_grad_() if value.is_floating_point() else value for value in inputs]
    kept = [None]

    def step():
        for value in inputs:
            value.grad = None
        kept[0] = function(*inputs)
        kept[0].backward(upstream)
    return step


def gradients_of_several(function, upstreams, *inputs):
    """The same of a function of several results."""
    kept = [None]

    def step():
        results = function(*inputs)
        kept[0] = (results, torch.autograd.grad(results, inputs, upstreams))
    return step


def layer_norm_gradients(compiled, rows, width, **options):
    return gradients(compiled(lambda x, scale, shift: F.layer_norm(x, (width,), scale, shift)),
                     torch.randn(rows, width, **options), torch.randn(rows, width, **options),
                     torch.randn(width, **options), torch.randn(width, **options))


def adamw(compiled, count, elements, device="cpu"):
    parameters = [torch.randn(elements, device=device, requires_grad=True) for _ in range(count)]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    if compiled is as_it_is:
        return torch.optim.AdamW(parameters, lr=1e-3, fused=True).step
    if device == "cpu":
        return compiled(torch.optim.AdamW(parameters, lr=1e-3).step)
    rate = torch.tensor(1e-3, device=device)
    return compiled(torch.optim.AdamW(parameters, lr=rate, foreach=True, capturable=True).step)


def as_it_is(function):
    return function


def compiled_by(variant):
    if variant == "reduce-overhead":
        return functools.partial(torch.compile, mode=variant)
    return torch.compile if variant in ("compile", "whole") else as_it_is


def training(loss_of, optimizer):
    def step():
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        return loss
    return step


def mlp():
    return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))
