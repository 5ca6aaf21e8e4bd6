"""What the scripts beside this one share: parameters and inputs that the tests make too (support.hpp), and the file of
numbers that a model gives in PyTorch, in float64.

A line of such a file is a word, a name and numbers:
  shape NAME SIZE...              an entry of the state_dict, as a file of weights names it
  losses LOSS...                  before each of four steps of gradient descent
  output SUM PRODUCT SIZE         of a tensor: the sum, the product with values("output"), the sum of absolute values
  gradient NAME SUM PRODUCT SIZE  the same for the gradient of a parameter, with values(NAME)
"""
import math
import sys
from pathlib import Path

import torch

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
RATE = 0.05  # of gradient descent


def raw(name, count):
    """Integers in [0, 65521) that look random: a polynomial of the index, whose coefficients the name gives."""
    seed = sum((i + 1) * ord(letter) for i, letter in enumerate(name)) % 65521
    i = torch.arange(count)
    return (i * i * 7919 + i * (104729 + 2 * seed) + seed * seed) % 65521


def values(name, shape):
    """Numbers in [-1, 1)."""
    return (raw(name, math.prod(shape)) / 65521 * 2 - 1).reshape(shape)


def integers(name, shape, below):
    return (raw(name, math.prod(shape)) % below).reshape(shape)


def initial(name, shape):
    """Parameters whose layers keep the size of what passes them: norms near 1, biases near 0."""
    if len(shape) > 1:
        return values(name, shape) * math.sqrt(3 / (math.prod(shape) / shape[0]))
    return values(name, shape) * 0.1 + (1 if name.endswith("weight") else 0)


def is_filled(name):
    return not name.endswith(("running_mean", "running_var", "num_batches_tracked"))


def parts(name, value):
    value = value.detach().double()
    numbers = value.sum(), (value * values(name, value.shape)).sum(), value.abs().sum()
    return " ".join("%.17g" % number for number in numbers)


def keep_float64():
    """Some of Hugging Face's models compute parts in float32 whatever their dtype is: here they do not."""
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double


def write(path, model, f, skip=(), rate=RATE, in_file=lambda name: name):
    """`f(model)` gives a loss and an output. Entries in `skip` are the same tensors under another name, or unused. A file
    of weights names an entry in_file(name)."""
    state = {in_file(name): value for name, value in model.state_dict().items() if name not in skip}
    with torch.no_grad():
        for name, value in state.items():
            if value.is_floating_point() and is_filled(name):
                value.copy_(initial(name, value.shape))
    lines = [" ".join(map(str, ("shape", name, *value.shape))) for name, value in state.items()]
    parameters = {in_file(name): p for name, p in model.named_parameters() if name not in skip and p.requires_grad}
    losses = []
    for step in range(4):
        loss, output = f(model)
        losses.append(loss.item())
        gradients = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
        if step == 0:
            lines.append("output " + parts("output", output))
            for name, gradient in zip(parameters, gradients):
                if gradient is not None:
                    lines.append(f"gradient {name} " + parts(name, gradient))
        with torch.no_grad():
            for parameter, gradient in zip(parameters.values(), gradients):
                if gradient is not None:
                    parameter -= rate * gradient
    lines.append("losses " + " ".join("%.17g" % loss for loss in losses))
    assert losses[0] > losses[1] > losses[2] > losses[3], losses
    (Path(__file__).parent / path).write_text("\n".join(lines) + "\n")
    print(path, losses, file=sys.stderr)
