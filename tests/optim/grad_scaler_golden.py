"""Writes grad_scaler_golden.inc beside this file: where steps of SGD and AdamW under a GradScaler lead, by PyTorch. Run it
with a Python that has PyTorch:  python tests/optim/grad_scaler_golden.py
A model is a matrix w [4,3] and a vector b [4]; element i of them (w first) starts at sin(i + 1) / 2. The loss of step t is
the mean of squares of tanh(x w^T + b) - y under autocast to f16, x [5,3] of sin(t + i), y [5,4] of cos(t + i); in steps 2
and 5 it is multiplied by infinity. Rows: for each step the scale, the growth tracker and the parameters after it."""
import math
import pathlib

import torch


def wave(function, offset, shape):
    count = math.prod(shape)
    return torch.tensor([function(offset + i) for i in range(count)], dtype=torch.float32).reshape(shape)


def run(make):
    w = torch.nn.Parameter(wave(math.sin, 1, (4, 3)) / 2)
    b = torch.nn.Parameter(wave(math.sin, 13, (4,)) / 2)
    opt = make([w, b])
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    rows = []
    for t in range(8):
        x, y = wave(math.sin, t, (5, 3)), wave(math.cos, t, (5, 4))
        with torch.autocast("cpu", dtype=torch.float16):
            out = torch.tanh(torch.nn.functional.linear(x, w, b))
            loss = torch.nn.functional.mse_loss(out.float(), y)
        if t in (2, 5):
            loss = loss * math.inf
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        rows.append([scaler.get_scale(), scaler._growth_tracker.item()] + w.detach().flatten().tolist() + b.detach().tolist())
    return rows


text = f"// Written by grad_scaler_golden.py with PyTorch {torch.__version__.split('+')[0]}: a row for each step.\n"
for make in (lambda p: torch.optim.SGD(p, lr=0.5, momentum=0.9), lambda p: torch.optim.AdamW(p, lr=0.05)):
    text += "{\n" + "".join("    {" + ", ".join(f"{x:.9g}" for x in row) + "},\n" for row in run(make)) + "},\n"
(pathlib.Path(__file__).parent / "grad_scaler_golden.inc").write_text(text)
