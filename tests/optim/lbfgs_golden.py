"""Writes lbfgs_golden.inc beside this file: where L-BFGS leads, by PyTorch. Run it with a Python that has PyTorch:
python tests/optim/lbfgs_golden.py
Rosenbrock's function of x = [-1.2, 1, -0.5, 0.8] in float64, and the mean square of x w + b - y, where x is [6,3] with
elements sin(i + 1), y is cos(2 i), w starts at 0 and b too. A row: (problem, line search, history_size, max_iter, steps,
the loss that each step returns, evaluations so far, the parameters)."""
import pathlib

import torch

f64 = torch.float64


def rosenbrock():
    x = torch.tensor([-1.2, 1.0, -0.5, 0.8], dtype=f64, requires_grad=True)
    return [x], lambda: (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def regression():
    x = torch.sin(torch.arange(18, dtype=f64) + 1).reshape(6, 3)
    y = torch.cos(2 * torch.arange(6, dtype=f64))
    w, b = (torch.zeros(n, dtype=f64, requires_grad=True) for n in (3, 1))
    return [w, b], lambda: ((x @ w + b - y) ** 2).mean()


def row(problem, search, history, max_iter, steps, lr):
    parameters, loss = {"rosenbrock": rosenbrock, "regression": regression}[problem]()
    optimizer = torch.optim.LBFGS(parameters, lr=lr, max_iter=max_iter, history_size=history, line_search_fn=search)

    def closure():
        optimizer.zero_grad()
        value = loss()
        value.backward()
        return value

    losses = [float(optimizer.step(closure)) for _ in range(steps)]
    evaluations = optimizer.state[parameters[0]]["func_evals"]
    numbers = [v for p in parameters for v in p.detach().tolist()]
    listed = lambda values: "{" + ", ".join(map(repr, values)) + "}"
    kind = "strong_wolfe" if search else "none"
    return (f'{{"{problem}", LineSearch::{kind}, {history}, {max_iter}, {steps}, {lr!r}, {listed(losses)}, '
            f"{evaluations}, {listed(numbers)}}},\n")


rows = [row("rosenbrock", "strong_wolfe", 100, 20, 2, 1.0), row("rosenbrock", "strong_wolfe", 3, 5, 6, 1.0),
        row("rosenbrock", "strong_wolfe", 100, 20, 1, 40.0), row("rosenbrock", None, 100, 5, 3, 0.02),
        row("regression", "strong_wolfe", 100, 20, 1, 1.0), row("regression", None, 100, 20, 2, 1.0),
        row("regression", None, 2, 4, 3, 0.5)]
text = f"// Written by lbfgs_golden.py with PyTorch {torch.__version__.split('+')[0]}.\n" + "".join(rows)
pathlib.Path(__file__).with_name("lbfgs_golden.inc").write_text(text)
