"""torch_peer.py CASE eager|compile|whole: PyTorch's side of a case on the CPU, taking turns (turns.py).

A training step: `eager` is the usual loop with the fused Adam or AdamW; `compile` has its loss compiled; of mlp-step
`whole` is one compiled function of forward, backward and update. The best of them is the baseline.
"""
import os
import sys

import torch
import torch.nn.functional as F

import cases
import layers
from gpt import Block, Gpt
from llama import Llama
from turns import take_turns

torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
torch.manual_seed(0)


def function(f, *shapes, dtype=torch.float32):
    """Of random tensors of these shapes."""
    return lambda variant: cases.call(cases.compiled_by(variant)(f), *(torch.randn(shape, dtype=dtype) for shape in shapes))


def mlp(batch):
    def make(variant):
        x, y = torch.randn(batch, 784), torch.randint(0, 10, (batch,))
        model = cases.mlp()
        if variant == "whole":
            return whole_step(model, x, y)
        loss_of = cases.compiled_by(variant)(lambda x, y: F.cross_entropy(model(x), y))
        return cases.training(lambda: loss_of(x, y), torch.optim.Adam(model.parameters(), lr=1e-3, fused=True))
    return make


def gru(variant):
    x, y = torch.randn(200, 32, 128), torch.randn(200, 32, 128)
    model = torch.nn.GRU(128, 128)
    loss_of = cases.compiled_by(variant)(lambda: F.mse_loss(model(x)[0], y))
    return cases.training(loss_of, torch.optim.SGD(model.parameters(), lr=1e-3))


def gpt(batch, time, width, layers, heads):
    def make(variant):
        text, labels = torch.randint(0, 65, (batch, time)), torch.randint(0, 65, (batch, time))
        model = Gpt(65, time, width, layers, heads)
        loss_of = cases.compiled_by(variant)(lambda: model(text, labels))
        return cases.training(loss_of, torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True))
    return make


def generate(_):
    """512 tokens, greedily, one after another, with a cache of fixed size."""
    model = Llama()

    def step():
        with torch.no_grad():
            token = torch.zeros(1, 1, dtype=torch.int64)
            for at in range(512):
                token = model(token, at).argmax(-1)
    return step


def cross_entropy(rows, classes):
    labels = torch.randint(0, classes, (rows,))
    return function(lambda x: F.cross_entropy(x, labels), (rows, classes))


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


def conv2d(channels, size, outputs, kernel, stride, groups=1):
    return function(lambda x, weight: F.conv2d(x, weight, stride=stride, padding=kernel // 2, groups=groups),
                    (8, channels, size, size), (outputs, channels // groups, kernel, kernel))


def updated(update):
    """256 rows of a table of 128 MB, in place."""
    def make(_):
        table, index, rows = torch.zeros(1 << 18, 128), torch.randint(0, 1 << 18, (256,)), torch.randn(256, 128)
        return lambda: update(table, index, rows)
    return make


def trained_rows(optimizer):
    """A step on 256 rows of an embedding of 128 MB whose gradient is sparse."""
    def make(_):
        table = torch.nn.Embedding(1 << 18, 128, sparse=True)
        index, target = torch.randint(0, 1 << 18, (256,)), torch.randn(256, 128)
        return cases.training(lambda: F.mse_loss(table(index), target), optimizer(list(table.parameters())))
    return make


def scatter_amax(variant):
    f = cases.compiled_by(variant)(lambda x, index, rows: x.scatter_reduce(0, index[:, None].expand(rows.shape), rows, "amax"))
    return cases.call(f, torch.randn(1000, 64), torch.randint(0, 1000, (100000,)), torch.randn(100000, 64))


def early_exit(variant):
    """bench/decisions.cpp: an encoder that leaves after 4 of 12 layers."""
    blocks = torch.nn.ModuleList(Block(128, 4, causal=False) for _ in range(12))
    last, head = torch.nn.LayerNorm(128), torch.nn.Linear(128, 10)
    sure = torch.tensor([2.0, 2, 2, 0, 2, 2, 2, 2, 2, 2, 2, 2])

    def classify(x):
        return torch.softmax(head(last(x.mean(1))), -1)

    def forward(x, sure):
        for i, block in enumerate(blocks):
            x = block(x)
            classes = classify(x)
            if classes.amax(-1).amin() > sure[i]:
                return classes
        return classify(x)
    return cases.call(cases.compiled_by(variant)(forward), torch.randn(8, 64, 128), sure)


def branch(variant):
    """bench/decisions.cpp: one of two formulas, a call each way."""
    def forward(x):
        if x.sum() > 0:
            return (x + 1) * 2
        return torch.exp(x) - 1
    f, up, down = cases.compiled_by(variant)(forward), torch.full((16,), 0.5), torch.full((16,), -0.5)

    def step():
        with torch.no_grad():
            for _ in range(500):
                f(up)
                f(down)
    return step


# ---- torch.func: bench/vmap.cpp and bench/second_order.cpp ----------------------------------------------------------------

def loss_and_parameters():
    """The network of mlp-step as a function of its parameters, and a batch."""
    model = cases.mlp()
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def loss_of(parameters, x, y):
        return F.cross_entropy(torch.func.functional_call(model, parameters, (x,)), y)
    return loss_of, parameters, torch.randn(64, 784), torch.randint(0, 10, (64,))


def per_sample(variant):
    loss_of, parameters, x, y = loss_and_parameters()
    one = lambda parameters, x, y: loss_of(parameters, x[None], y[None])
    f = torch.func.vmap(torch.func.grad(one), in_dims=(None, 0, 0))
    return cases.call(cases.compiled_by(variant)(f), parameters, x, y)


def per_sample_norm(variant):
    loss_of, parameters, x, y = loss_and_parameters()

    def norm(parameters, x, y):
        gradients = torch.func.grad(loss_of)(parameters, x[None], y[None])
        return sum(g.square().sum() for g in gradients.values()).sqrt()
    return cases.call(cases.compiled_by(variant)(torch.func.vmap(norm, in_dims=(None, 0, 0))), parameters, x, y)


def ensemble(variant):
    models = [cases.mlp() for _ in range(16)]
    parameters, _ = torch.func.stack_module_state(models)
    parameters = {name: p.detach() for name, p in parameters.items()}
    f = torch.func.vmap(lambda parameters, x: torch.func.functional_call(models[0], parameters, (x,)), in_dims=(0, None))
    return cases.call(cases.compiled_by(variant)(f), parameters, torch.randn(64, 784))


def hvp(variant):
    loss_of, parameters, x, y = loss_and_parameters()
    along = {name: torch.randn_like(p) for name, p in parameters.items()}
    f = lambda parameters, along: torch.func.jvp(torch.func.grad(lambda p: loss_of(p, x, y)), (parameters,), (along,))[1]
    return cases.call(cases.compiled_by(variant)(f), parameters, along)


def hessian(variant):
    def f(x):
        left, right = x[:-1], x[1:]
        return ((right - left**2)**2 * 100 + (1 - left)**2).sum() + torch.tanh(x).sum()**2
    return cases.call(cases.compiled_by(variant)(torch.func.hessian(f)), torch.randn(64))


CASES = {
    "vmap-per-sample": per_sample,
    "vmap-per-sample-norm": per_sample_norm,
    "vmap-ensemble": ensemble,
    "second-order-hvp": hvp,
    "second-order-hessian": hessian,
    "early-exit": early_exit,
    "branch": branch,
    "call": function(lambda x: (x + 1) * 2, 16),
    "pointwise": function(lambda x, y, z: torch.tanh(x * y + z) * torch.sigmoid(x) + torch.exp(-y * y) - F.gelu(z),
                          *[16 << 20] * 3),
    "softmax": function(lambda x: F.softmax(x, -1), (4096, 4096)),
    "mlp-64": mlp(64),
    "mlp-1024": mlp(1024),
    "gru": gru,
    "generate": generate,
    "gpt-d128": gpt(8, 64, 128, 4, 4),
    "gpt-d384": gpt(4, 256, 384, 6, 6),
    "matmul-f32": function(lambda x, weight, bias: F.gelu(F.linear(x, weight, bias)), (1024, 1024), (1024, 1024), 1024),
    "matmul-bf16": function(lambda a, b: a @ b, (1024, 1024), (1024, 1024), dtype=torch.bfloat16),
    "conv-3x3": conv2d(64, 56, 64, 3, 1),
    "conv-7x7-stride2": conv2d(3, 224, 64, 7, 2),
    "conv-1x1": conv2d(256, 56, 64, 1, 1),
    "conv-3x3-stride2": conv2d(128, 56, 128, 3, 2),
    "conv-depthwise": conv2d(144, 56, 144, 3, 1, 144),
    "layernorm": lambda variant: cases.layer_norm_gradients(cases.compiled_by(variant), 4096, 1024),
    "adamw": lambda variant: cases.adamw(cases.compiled_by(variant), 40, 1 << 18),
    "sum": function(torch.sum, 64 << 20),
    "index-add": updated(lambda table, index, rows: table.index_add_(0, index, rows)),
    "index-put": updated(lambda table, index, rows: table.index_put_((index,), rows)),
    "set-rows": updated(lambda table, index, rows: table.__setitem__(index, rows)),
    "sparse-sgd": trained_rows(lambda parameters: torch.optim.SGD(parameters, lr=0.1)),
    "sparse-adam": trained_rows(torch.optim.SparseAdam),
    "scatter-amax": scatter_amax,
    "roll-flat": function(lambda x: torch.roll(x, 37), 1 << 20),
    "roll-windows": function(lambda x: torch.roll(x, (-3, -3), (1, 2)) * 2, (8, 56, 56, 96)),
    "forward-softmax": function(lambda x: F.softmax(x, -1), (4096, 1024)),
    "forward-layernorm": function(lambda x, scale, shift: F.layer_norm(x, (1024,), scale, shift), (4096, 1024), 1024, 1024),
    "forward-cross-entropy": cross_entropy(4096, 1024),
}

if __name__ == "__main__":
    case = CASES.get(sys.argv[1], lambda _: layers.forward_backward(sys.argv[1].removeprefix("layer-")))
    take_turns(case(sys.argv[2]), repeats={"generate": 512, "branch": 1000}.get(sys.argv[1], 1))
