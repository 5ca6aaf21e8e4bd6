"""torch_stages.py [MICROBATCHES [ROWS [WIDTH [LAYERS]]]]: bench/stages.cpp by PyTorch: two stages of linear layers, bf16, the second
on the first device or on another, each stage by torch.compile or eager. JSON lines."""

import json
import statistics
import sys
import time

import torch

numbers = [int(each) for each in sys.argv[1:]] + [8, 1024, 4096, 4][len(sys.argv) - 1 :]
microbatches, rows, width, layers = numbers


class Stage(torch.nn.Module):
    def __init__(self, device):
        super().__init__()
        self.layers = torch.nn.ModuleList(
            torch.nn.Linear(width, width, device=device, dtype=torch.bfloat16) for _ in range(layers)
        )

    def forward(self, x):
        for layer in self.layers:
            x = torch.nn.functional.gelu(layer(x), approximate="tanh")
        return x


def synchronize():
    for device in (0, 1):
        torch.cuda.synchronize(device)


def measured(how, what, second):
    torch.manual_seed(1)
    a, b = Stage("cuda:0"), Stage(second)
    batches = [torch.randn(rows, width, device="cuda:0", dtype=torch.bfloat16) for _ in range(microbatches)]
    run_a, run_b = (torch.compile(a), torch.compile(b)) if how == "compile" else (a, b)
    parameters = list(a.parameters()) + list(b.parameters())
    optimizer = torch.optim.SGD(parameters, lr=0.01, fused=True)

    def forward():
        with torch.no_grad():
            return [run_b(run_a(x).to(second, non_blocking=True)).float().mean() for x in batches]

    def step():
        # The backward pass of each microbatch follows its forward pass, which keeps one at a time in memory.
        for x in batches:
            run_b(run_a(x).to(second, non_blocking=True)).float().square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    def step_forward_first():
        losses = [run_b(run_a(x).to(second, non_blocking=True)).float().square().mean() for x in batches]
        sum(losses[1:], losses[0]).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    call = {"forward": forward, "step": step, "step-forward-first": step_forward_first}[what]
    for _ in range(4):
        call()
    synchronize()
    for device in (0, 1):
        torch.cuda.reset_peak_memory_stats(device)
    before = [torch.cuda.memory_allocated(device) for device in (0, 1)]
    found = []
    for _ in range(5):
        synchronize()
        start = time.perf_counter()
        for _ in range(10):
            call()
        synchronize()
        found.append((time.perf_counter() - start) / 10 * 1e3)
    mib = [(torch.cuda.max_memory_allocated(device) - before[device]) >> 20 for device in (0, 1)]
    return {"ms": statistics.median(found), "fastest_ms": min(found), "mib": mib}


for how in ("eager", "compile"):
    for what in ("forward", "step", "step-forward-first"):
        for devices in (1, 2):
            result = measured(how, what, f"cuda:{devices - 1}")
            print(json.dumps({"how": how, "what": what, "devices": devices, **result}), flush=True)
