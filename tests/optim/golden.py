"""Writes golden.inc beside this file: where steps of each optimizer lead, and learning rates of schedules, by PyTorch. Run it with a Python that has PyTorch:  python tests/optim/golden.py
A model is a matrix w [4,3] and a vector b [3] in float64; element i of them (w first) starts at sin(i + 1), and its
gradient in step t = 0 ... 4 is cos(3 t + i) (1 + t / 10). Twelve steps are of a model w [4,3], b [3], s [], c [2,3,2] and
an empty e [0,2], with the same numbers, in which b has no gradient in steps 0, 4 and 5. Lion, LAMB and Shampoo, which
PyTorch has not, are written out here."""
import math
import pathlib

import torch
from torch import optim


torch.set_default_dtype(torch.float64)  # numbers of an optimizer (eta of ASGD) are of it


def start():
    numbers = torch.tensor([math.sin(i + 1) for i in range(15)], dtype=torch.float64)
    return [torch.nn.Parameter(numbers[:12].reshape(4, 3).clone()), torch.nn.Parameter(numbers[12:].clone())]


def gradients(t):
    numbers = torch.tensor([math.cos(3 * t + i) * (1 + t / 10) for i in range(15)], dtype=torch.float64)
    return [numbers[:12].reshape(4, 3), numbers[12:]]


def lead(make):
    """What the parameters are after five steps of the optimizers that make(parameters) gives."""
    parameters = start()
    optimizers = make(parameters)
    for t in range(5):
        for parameter, gradient in zip(parameters, gradients(t)):
            parameter.grad = gradient
        for optimizer in optimizers:
            optimizer.step()
    return [x for p in parameters for x in p.detach().flatten().tolist()]


class Lion(optim.Optimizer):
    def __init__(self, parameters, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(parameters, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            (beta1, beta2), lr = group["betas"], group["lr"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                direction = (beta1 * m + (1 - beta1) * p.grad).sign()
                p.mul_(1 - lr * group["weight_decay"]).sub_(lr * direction)
                m.mul_(beta2).add_((1 - beta2) * p.grad)


class LAMB(optim.Optimizer):
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=1e-2):
        super().__init__(parameters, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                t = state["t"] = state.get("t", 0) + 1
                m = state["m"] = beta1 * state.get("m", 0) + (1 - beta1) * p.grad
                v = state["v"] = beta2 * state.get("v", 0) + (1 - beta2) * p.grad**2
                r = m / (1 - beta1 ** t) / ((v / (1 - beta2 ** t)).sqrt() + group["eps"])
                r = r + group["weight_decay"] * p
                trust = p.norm() / r.norm() if p.norm() > 0 and r.norm() > 0 else 1.0
                p.sub_(group["lr"] * trust * r)


class Shampoo(optim.Optimizer):
    def __init__(self, parameters, lr=1e-1, momentum=0.0, weight_decay=0.0, eps=1e-4, update_freq=1):
        super().__init__(parameters, dict(lr=lr, momentum=momentum, weight_decay=weight_decay, eps=eps, update_freq=update_freq))
        self.t = 0

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state, k = self.state[p], p.dim()
                g = p.grad + group["weight_decay"] * p
                change = g
                for axis in range(k if p.numel() else 0):
                    size = p.shape[axis]
                    rows = g.movedim(axis, 0).reshape(size, -1)
                    total = state[axis] = state.get(axis, group["eps"] * torch.eye(size, dtype=p.dtype)) + rows @ rows.T
                    if self.t % group["update_freq"] == 0:
                        values, vectors = torch.linalg.eigh(total)
                        state["root", axis] = vectors @ torch.diag(values.clamp(min=group["eps"]) ** (-0.5 / k)) @ vectors.T
                    root = state.get(("root", axis), group["eps"] * torch.eye(size, dtype=p.dtype))
                    change = torch.tensordot(root, change, ([1], [axis])).movedim(0, axis)
                if group["momentum"]:
                    change = state["v"] = group["momentum"] * state.get("v", 0) + change
                p.sub_(group["lr"] * change)
        self.t += 1


class AveragesOf(optim.ASGD):
    """In whose last step the averages take the places of the parameters."""
    def step(self):
        super().step()
        for group in self.param_groups:
            for p in group["params"]:
                if p in self.state and self.state[p]["step"] == (9 if p.shape == (3,) else 12):
                    p.data.copy_(self.state[p]["ax"])


def muon(**options):
    """PyTorch's Muon for the matrix, in float64 where PyTorch takes bfloat16, and AdamW for the vector."""
    class Wide(optim.Muon):
        def step(self):
            narrow, torch.bfloat16 = torch.bfloat16, torch.float64
            try:
                super().step()
            finally:
                torch.bfloat16 = narrow
    return lambda p: [Wide([p[0]], **options), optim.AdamW(p[1:])]


def all_of(optimizer, **options):
    return lambda p: [optimizer(p, **options)]


def long_lead(make):
    """The same after twelve steps of the larger model."""
    numbers = torch.tensor([math.sin(i + 1) for i in range(28)], dtype=torch.float64)
    shapes, begin, parameters = [(4, 3), (3,), (), (2, 3, 2), (0, 2)], 0, []
    for shape in shapes:
        count = math.prod(shape)
        parameters.append(torch.nn.Parameter(numbers[begin : begin + count].reshape(shape).clone()))
        begin += count
    optimizers = make(parameters)
    for t in range(12):
        begin = 0
        for number, p in enumerate(parameters):
            values = [math.cos(3 * t + i) * (1 + t / 10) for i in range(begin, begin + p.numel())]
            begin += p.numel()
            absent = number == 1 and t in (0, 4, 5)
            p.grad = None if absent else torch.tensor(values, dtype=torch.float64).reshape(p.shape)
        if any(isinstance(each, optim.Adafactor) for each in optimizers):
            parameters[4].grad = None  # it divides by the number of elements
        for optimizer in optimizers:
            optimizer.step()
    return [x for p in parameters for x in p.detach().flatten().tolist()]


cases = {
    "sgd": [all_of(optim.SGD, lr=0.1), all_of(optim.SGD, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True),
            all_of(optim.SGD, lr=0.05, momentum=0.8, dampening=0.3, weight_decay=0.1)],
    "adam": [all_of(optim.Adam), all_of(optim.Adam, lr=0.1, weight_decay=0.05),
             all_of(optim.Adam, lr=0.02, betas=(0.8, 0.95), eps=1e-3)],
    "adamw": [all_of(optim.AdamW), all_of(optim.AdamW, lr=0.1, weight_decay=0.5),
              lambda p: [optim.AdamW([{"params": [p[0]]}, {"params": [p[1]], "weight_decay": 0, "lr": 0.3}], lr=0.1)]],
    "rmsprop": [all_of(optim.RMSprop), all_of(optim.RMSprop, lr=0.05, alpha=0.9, weight_decay=0.1, momentum=0.8),
                all_of(optim.RMSprop, lr=0.02, eps=1e-3, centered=True)],
    "adagrad": [all_of(optim.Adagrad), all_of(optim.Adagrad, lr=0.1, lr_decay=0.1, weight_decay=0.2),
                all_of(optim.Adagrad, lr=0.05, initial_accumulator_value=0.5, eps=1e-2)],
    "lion": [all_of(Lion), all_of(Lion, lr=0.05, weight_decay=0.3), all_of(Lion, lr=0.01, betas=(0.5, 0.8))],
    "lamb": [all_of(LAMB), all_of(LAMB, lr=0.1, weight_decay=0.0), all_of(LAMB, lr=0.05, betas=(0.5, 0.9), eps=1e-2)],
    "adafactor": [all_of(optim.Adafactor), all_of(optim.Adafactor, lr=0.5, weight_decay=0.1),
                  all_of(optim.Adafactor, lr=0.1, beta2_decay=-0.5, eps=(1e-3, 0.9), d=1.5)],
    "muon": [muon(), muon(lr=0.1, weight_decay=0.0, momentum=0.8, nesterov=False, ns_steps=3),
             muon(lr=0.05, adjust_lr_fn="match_rms_adamw")],
}


decay, up = dict(weight_decay=0.1), dict(maximize=True)
long_cases = {
    "sgd": [all_of(optim.SGD, lr=0.05, momentum=0.8, dampening=0.3, weight_decay=0.1, **up)],
    "adam": [all_of(optim.Adam, lr=0.02, **decay), all_of(optim.Adam, lr=0.02, **decay, **up)],
    "adamw": [lambda p: [optim.AdamW([{"params": [p[0], *p[2:]]}, {"params": [p[1]], "weight_decay": 0, "lr": 0.3}], lr=0.1)]],
    "rmsprop": [all_of(optim.RMSprop, lr=0.02, momentum=0.5, centered=True, **decay, **up)],
    "adagrad": [all_of(optim.Adagrad, lr=0.1, lr_decay=0.1, **decay, **up)],
    "lion": [all_of(Lion, lr=0.01, weight_decay=0.3)],
    "lamb": [all_of(LAMB, lr=0.05)],
    "adafactor": [all_of(optim.Adafactor, lr=0.1, **decay, **up)],
    "muon": [muon(lr=0.05)],
    "nadam": [all_of(optim.NAdam), all_of(optim.NAdam, lr=0.02, betas=(0.8, 0.95), eps=1e-3, momentum_decay=0.1, **decay),
              all_of(optim.NAdam, lr=0.05, decoupled_weight_decay=True, **decay, **up)],
    "radam": [all_of(optim.RAdam), all_of(optim.RAdam, lr=0.02, betas=(0.8, 0.95), eps=1e-3, **decay),
              all_of(optim.RAdam, lr=0.05, decoupled_weight_decay=True, **decay, **up)],
    "adadelta": [all_of(optim.Adadelta), all_of(optim.Adadelta, lr=0.5, rho=0.6, eps=1e-3, **decay, **up)],
    "rprop": [all_of(optim.Rprop), all_of(optim.Rprop, lr=0.1, etas=(0.4, 1.5), step_sizes=(0.05, 0.2), **up)],
    "asgd": [all_of(optim.ASGD), all_of(optim.ASGD, lr=0.1, lambd=0.1, alpha=0.5, t0=3, **decay, **up)],
    "asgd averages": [lambda p: [AveragesOf(p, lr=0.1, lambd=0.1, alpha=0.5, t0=3)]],
    "shampoo": [all_of(Shampoo), all_of(Shampoo, lr=0.05, momentum=0.9, update_freq=4, **decay)],
}


def sparse_lead(make):
    """What a table [16,3] is, which starts at sin(i + 1), after five steps on sparse gradients: in step t row
    k (k - 1) / 2 + t gets those of gradients(t) for k = 0 ... 5; of two that meet the sum."""
    table = torch.nn.Embedding(16, 3, sparse=True, dtype=torch.float64)
    table.weight.data = torch.tensor([math.sin(i + 1) for i in range(48)], dtype=torch.float64).reshape(16, 3)
    optimizer = make(table.parameters())
    for t in range(5):
        optimizer.zero_grad()
        index = torch.tensor([k * (k - 1) // 2 + t for k in range(6)])
        rows = torch.tensor([math.cos(3 * t + i) * (1 + t / 10) for i in range(18)], dtype=torch.float64).reshape(6, 3)
        (table(index) * rows).sum().backward()
        optimizer.step()
    return table.weight.detach().flatten().tolist()


# SparseAdam adds eps before the bias correction, Adam after it: here eps is 0.
sparse_cases = {
    "sparse sgd": [lambda p: optim.SGD(p, lr=0.1)],
    "sparse adam": [lambda p: optim.SparseAdam(list(p), lr=0.1, eps=1e-100),
                    lambda p: optim.SparseAdam(list(p), lr=0.02, betas=(0.8, 0.95), eps=1e-100)],
    "sparse adagrad": [lambda p: optim.Adagrad(p, lr=0.1, lr_decay=0.1)],
}


def rates(make, base, count=12):
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = optim.SGD([parameter], lr=base)
    schedule = make(optimizer)
    found = []
    for step in range(count):
        if step > 0:
            optimizer.step()
            schedule.step()
        found.append(schedule.get_last_lr()[0])
    return found


schedules = {
    "cosine": rates(lambda o: optim.lr_scheduler.CosineAnnealingLR(o, 8, 0.01), 0.5),
    "linear": rates(lambda o: optim.lr_scheduler.LinearLR(o, 0.25, 0.75, 4), 0.5),
    "multi_step": rates(lambda o: optim.lr_scheduler.MultiStepLR(o, [2, 5], 0.5), 0.5),
    "step": rates(lambda o: optim.lr_scheduler.StepLR(o, 3, 0.5), 0.5),
    "exponential": rates(lambda o: optim.lr_scheduler.ExponentialLR(o, 0.9), 0.5),
    "one cycle": rates(lambda o: optim.lr_scheduler.OneCycleLR(o, 0.5, total_steps=12), 0.5),
}
for steps in range(1, 6):  # whose way up ends before step 0, or right after it
    schedules[f"one cycle of {steps}"] = rates(lambda o: optim.lr_scheduler.OneCycleLR(o, 0.5, total_steps=steps), 0.5, steps)
schedules["one cycle down"] = rates(lambda o: optim.lr_scheduler.OneCycleLR(o, 0.5, total_steps=4, pct_start=0.0), 0.5, 4)
schedules["one cycle up"] = rates(lambda o: optim.lr_scheduler.OneCycleLR(o, 0.5, total_steps=4, pct_start=1.0), 0.5, 4)


def row(name, number, values):
    return f'{{"{name}", {number}, {{{", ".join(repr(v) for v in values)}}}}},\n'


text = f"// Written by golden.py with PyTorch {torch.__version__.split('+')[0]}: (name, configuration, numbers).\n"
for name, makes in cases.items():
    for number, make in enumerate(makes):
        text += row(name, number, lead(make))
for name, makes in long_cases.items():
    for number, make in enumerate(makes):
        text += row("long " + name, number, long_lead(make))
for name, makes in sparse_cases.items():
    for number, make in enumerate(makes):
        text += row(name, number, sparse_lead(make))
for name, values in schedules.items():
    text += row(name, 0, values)
pathlib.Path(__file__).with_name("golden.inc").write_text(text)
