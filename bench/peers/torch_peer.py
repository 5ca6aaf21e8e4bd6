"""torch_peer.py CASE eager|compile|whole: PyTorch's side of a case on the CPU, taking turns (turns.py).

mlp-step: `eager` is the usual training loop with the fused Adam; `compile` has its loss compiled; `whole` is one compiled
function of forward, backward and update. The best of them is the baseline.
"""
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

from turns import take_turns

torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
torch.manual_seed(0)


def call(variant):
    f = lambda x: (x + 1) * 2
    return bind(f, variant, torch.randn(16))


def pointwise(variant):
    f = lambda x, y, z: torch.tanh(x * y + z) * torch.sigmoid(x) + torch.exp(-y * y) - F.gelu(z)
    return bind(f, variant, *(torch.randn(16 << 20) for _ in range(3)))


def softmax(variant):
    return bind(lambda x: F.softmax(x, -1), variant, torch.randn(4096, 4096))


def bind(f, variant, *inputs):
    f = torch.compile(f) if variant == "compile" else f
    kept = [None]

    def step():
        with torch.no_grad():
            kept[0] = f(*inputs)
    return step


def mlp(batch, variant):
    x, y = torch.randn(batch, 784), torch.randint(0, 10, (batch,))
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))
    if variant == "whole":
        return whole_step(model, x, y)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    loss_of = lambda x, y: F.cross_entropy(model(x), y)
    if variant == "compile":
        loss_of = torch.compile(loss_of)

    def step():
        optimizer.zero_grad()
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        return loss
    return step


def whole_step(model, x, y):
    parameters = {name: p.detach().clone() for name, p in model.named_parameters()}
    first = {name: torch.zeros_like(p) for name, p in parameters.items()}
    second = {name: torch.zeros_like(p) for name, p in parameters.items()}
    steps = torch.zeros(())

    def loss_of(parameters, x, y):
        return F.cross_entropy(torch.func.functional_call(model, parameters, (x,)), y)

    @torch.compile
    def update(parameters, first, second, steps, x, y):
        gradients, loss = torch.func.grad_and_value(loss_of)(parameters, x, y)
        steps += 1
        size, scale = 1e-3 / (1 - 0.9**steps), (1 - 0.999**steps).sqrt()
        for name, g in gradients.items():
            first[name].mul_(0.9).add_(g, alpha=0.1)
            second[name].mul_(0.999).add_(g * g, alpha=0.001)
            parameters[name].sub_(size * first[name] / (second[name].sqrt() / scale + 1e-8))
        return loss

    def step():
        with torch.no_grad():
            return update(parameters, first, second, steps, x, y)
    return step


CASES = {
    "call": call,
    "pointwise": pointwise,
    "softmax": softmax,
    "mlp-64": lambda variant: mlp(64, variant),
    "mlp-1024": lambda variant: mlp(1024, variant),
}

if __name__ == "__main__":
    take_turns(CASES[sys.argv[1]](sys.argv[2]))
