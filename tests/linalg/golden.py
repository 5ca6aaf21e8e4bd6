#!/usr/bin/env python3
"""Prints tests/linalg/golden.inc: values and gradients of linear algebra and Fourier transforms in f64. Needs PyTorch."""
import torch

torch.set_default_dtype(torch.float64)


def numbers(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).round(decimals=3)


INPUTS = {
    "square": numbers(4, 4, seed=1) + 2 * torch.eye(4),
    "tall": numbers(5, 3, seed=2),
    "wide": numbers(3, 5, seed=3),
    "batch": numbers(2, 3, 3, seed=4) - 2 * torch.eye(3),
    "one": numbers(1, 1, seed=5) + 2,
    "row": numbers(2, 6, seed=6),
    "prime": numbers(1, 37, seed=7),
}
L, F = torch.linalg, torch.fft


def gram(x):
    return x @ x.mT + torch.eye(x.shape[-2])


def squares(*parts):
    return torch.cat([(p * p).flatten() for p in parts])


def pair(z):
    return torch.stack([z.real, z.imag])


def from_pair(x):
    return torch.complex(x, x.flip(-1))


MATRICES = ["square", "batch", "one"]
RECTANGLES = ["square", "tall", "wide", "batch"]
# Inputs, C++, Python.
ROWS = [
    (MATRICES + ["tall"], "cholesky(gram(x))", lambda x: L.cholesky(gram(x))),
    (["square"], "cholesky(gram(x), true)", lambda x: L.cholesky(gram(x), upper=True)),
    (MATRICES, "solve(x, x * x + 1)", lambda x: L.solve(x, x * x + 1)),
    (MATRICES, "solve(x, x * x + 1, false)", lambda x: L.solve(x, x * x + 1, left=False)),
    (["square"], "solve(x, x[1])", lambda x: L.solve(x, x[1])),
    (["batch"], "solve(x, x[1])", lambda x: L.solve(x, x[1])),
    (["batch"], "solve(x[0], x)", lambda x: L.solve(x[0], x)),
    (MATRICES, "solve_triangular(x, x + 1)", lambda x: L.solve_triangular(x, x + 1, upper=False)),
    (MATRICES, "solve_triangular(x, x + 1, {.upper = true})", lambda x: L.solve_triangular(x, x + 1, upper=True)),
    (MATRICES, "solve_triangular(x, x + 1, {.left = false})", lambda x: L.solve_triangular(x, x + 1, upper=False, left=False)),
    (["square"], "solve_triangular(x, x + 1, {.upper = true, .left = false, .unitriangular = true})",
     lambda x: L.solve_triangular(x, x + 1, upper=True, left=False, unitriangular=True)),
    (["square"], "solve_triangular(x, x + 1, {.unitriangular = true})",
     lambda x: L.solve_triangular(x, x + 1, upper=False, unitriangular=True)),
    (MATRICES, "inv(x)", L.inv),
    (MATRICES, "det(x)", L.det),
    (MATRICES, "slogdet(x).logabsdet", lambda x: L.slogdet(x).logabsdet),
    (MATRICES, "slogdet(x).sign + sum(x)", lambda x: L.slogdet(x).sign + x.sum()),
    (MATRICES, "logdet(gram(x))", lambda x: torch.logdet(gram(x))),
    (MATRICES, "cholesky_solve(x + 1, cholesky(gram(x)))", lambda x: torch.cholesky_solve(x + 1, L.cholesky(gram(x)))),
    (["batch"], "cholesky_solve(x + 1, cholesky(gram(x), true), true)",
     lambda x: torch.cholesky_solve(x + 1, L.cholesky(gram(x), upper=True), upper=True)),
    (["tall", "batch"], "cross(x, flip(x, -1) * 2 + 1)", lambda x: L.cross(x, x.flip(-1) * 2 + 1)),
    (["wide"], "cross(x, x[1] - x, 0)", lambda x: L.cross(x, (x[1] - x).expand_as(x), dim=0)),
    (["tall", "batch"], "kron(x, slice(x, 0, 0, 2) + 1)", lambda x: torch.kron(x, x[:2] + 1)),
    (["square"], "kron(x, x[1])", lambda x: torch.kron(x, x[1])),
    (["tall", "batch"], "cdist(x, flip(x, -1) + 1)", lambda x: torch.cdist(x, x.flip(-1) + 1)),
    (["tall"], "cdist(x, x)", lambda x: torch.cdist(x, x)),
    (["tall"], "cdist(x, x + 1, 1)", lambda x: torch.cdist(x, x + 1, p=1)),
    (["tall"], "cdist(x, x + 1, 3)", lambda x: torch.cdist(x, x + 1, p=3)),
    (MATRICES, "lu(x).l", lambda x: L.lu(x).L),
    (MATRICES, "lu(x).u", lambda x: L.lu(x).U),
    (MATRICES, "lu(x).p * x", lambda x: L.lu(x).P * x),
    (["square", "tall", "batch", "one"], "qr(x).q", lambda x: L.qr(x).Q),
    (["square", "tall", "batch", "one"], "qr(x).r", lambda x: L.qr(x).R),
    (["wide"], "qr(x).q", lambda x: L.qr(x).Q),
    (["wide"], "qr(x).r", lambda x: L.qr(x).R),
    (MATRICES + ["tall"], "eigvalsh(gram(x))", lambda x: L.eigvalsh(gram(x))),
    (["square", "batch"], "eigh(gram(x)).eigenvalues", lambda x: L.eigh(gram(x)).eigenvalues),
    (["square", "batch"], "square(eigh(gram(x)).eigenvectors)", lambda x: L.eigh(gram(x)).eigenvectors ** 2),
    # Of a matrix that is not symmetric the gradient shows that one triangle is read, and that it is symmetric.
    (["square", "batch"], "square(eigh(x).eigenvectors)", lambda x: L.eigh(x).eigenvectors ** 2),
    (["square"], "square(eigh(x, true).eigenvectors)", lambda x: L.eigh(x, UPLO="U").eigenvectors ** 2),
    (["batch"], "eigvalsh(x)", L.eigvalsh),
    (["square"], "eigvalsh(x + transpose(x), true)", lambda x: L.eigvalsh(x + x.mT)),
    (RECTANGLES + ["one"], "svdvals(x)", L.svdvals),
    (RECTANGLES, "square(svd(x, false).u)", lambda x: L.svd(x, full_matrices=False).U ** 2),
    (RECTANGLES, "square(svd(x, false).vh)", lambda x: L.svd(x, full_matrices=False).Vh ** 2),
    (["tall", "wide"], "svd(x).s", lambda x: L.svd(x).S),
    (["square"], "square(svd(x).u)", lambda x: L.svd(x).U ** 2),
    (["tall", "wide", "square"], "pinv(x)", L.pinv),
    (["tall", "wide"], "lstsq(x, matmul(x, transpose(x)) + 1)", lambda x: L.pinv(x) @ (x @ x.mT + 1)),
    (["square", "batch"], "matrix_power(x, 5)", lambda x: L.matrix_power(x, 5)),
    (["square"], "matrix_power(x, -3)", lambda x: L.matrix_power(x, -3)),
    (["square"], "matrix_power(x, 0) + x", lambda x: L.matrix_power(x, 0) + x),
    (["tall", "batch"], "matrix_norm(x)", L.matrix_norm),
    (["tall", "batch"], 'matrix_norm(x, "nuc")', lambda x: L.matrix_norm(x, "nuc")),
    (["tall"], "matrix_norm(x, 1)", lambda x: L.matrix_norm(x, 1)),
    (["tall"], "matrix_norm(x, -1)", lambda x: L.matrix_norm(x, -1)),
    (["batch"], "matrix_norm(x, 2, true)", lambda x: L.matrix_norm(x, 2, keepdim=True)),
    (["tall"], "matrix_norm(x, -2)", lambda x: L.matrix_norm(x, -2)),
    (["tall"], "matrix_norm(x, INFINITY)", lambda x: L.matrix_norm(x, float("inf"))),
    (["wide"], "matrix_norm(x, -INFINITY)", lambda x: L.matrix_norm(x, -float("inf"))),
    (["tall"], "vector_norm(x)", L.vector_norm),
    (["tall"], "vector_norm(x, 3, 0)", lambda x: L.vector_norm(x, 3, dim=0)),
    (["tall"], "vector_norm(x, 1, 1, true)", lambda x: L.vector_norm(x, 1, dim=1, keepdim=True)),
    (["tall"], "vector_norm(x, INFINITY)", lambda x: L.vector_norm(x, float("inf"))),
    (["tall"], "vector_norm(x, 0) + x", lambda x: L.vector_norm(x, 0) + x),
    (["row", "prime"], "pair(fft::fft(x))", lambda x: pair(F.fft(x))),
    (["row", "prime"], "pair(fft::ifft(complex(x)))", lambda x: pair(F.ifft(from_pair(x)))),
    (["row"], "pair(fft::fft(complex(x), {.n = 4, .norm = fft::Norm::ortho}))",
     lambda x: pair(F.fft(from_pair(x), n=4, norm="ortho"))),
    (["row"], "pair(fft::fft(complex(x), {.n = 9, .norm = fft::Norm::forward}))",
     lambda x: pair(F.fft(from_pair(x), n=9, norm="forward"))),
    (["row", "tall"], "pair(fft::ifft(complex(x), {.axis = 0, .norm = fft::Norm::forward}))",
     lambda x: pair(F.ifft(from_pair(x), dim=0, norm="forward"))),
    (["row", "prime", "tall"], "pair(fft::rfft(x))", lambda x: pair(F.rfft(x))),
    (["tall"], "pair(fft::rfft(x, {.n = 7, .axis = 0}))", lambda x: pair(F.rfft(x, n=7, dim=0))),
    (["row", "prime", "tall"], "fft::irfft(complex(x))", lambda x: F.irfft(from_pair(x))),
    (["row", "tall"], "fft::irfft(complex(x), {.n = 7, .norm = fft::Norm::ortho})",
     lambda x: F.irfft(from_pair(x), n=7, norm="ortho")),
    (["row"], "fft::irfft(complex(x), {.n = 4, .norm = fft::Norm::forward})",
     lambda x: F.irfft(from_pair(x), n=4, norm="forward")),
    (["batch"], "pair(fft::fftn(x))", lambda x: pair(F.fftn(x))),
    (["batch"], "pair(fft::ifftn(complex(x), {.axes = {0, 2}}))", lambda x: pair(F.ifftn(from_pair(x), dim=(0, 2)))),
    (["batch"], "pair(fft::fft2(complex(x)))", lambda x: pair(F.fft2(from_pair(x)))),
    (["batch"], "pair(fft::ifft2(complex(x), fft::Norm::ortho))", lambda x: pair(F.ifft2(from_pair(x), norm="ortho"))),
    (["batch"], "pair(fft::rfft2(x))", lambda x: pair(F.rfft2(x))),
    (["batch"], "fft::irfft2(complex(x))", lambda x: F.irfft2(from_pair(x))),
    (["batch"], "fft::irfftn(complex(x), 5)", lambda x: F.irfftn(from_pair(x), s=(2, 3, 5), dim=(0, 1, 2))),
    (["row"], "x * fft::fftfreq(6, 0.5, {DType::f64})", lambda x: x * F.fftfreq(6, 0.5)),
    (["prime"], "x * fft::fftfreq(37, 1, {DType::f64})", lambda x: x * F.fftfreq(37)),
    (["tall"], "x * fft::rfftfreq(5, 2, {DType::f64})", lambda x: x * F.rfftfreq(5, 2)),
    (["tall"], "fft::fftshift(x)", F.fftshift),
    (["tall"], "fft::ifftshift(x, 0)", lambda x: F.ifftshift(x, dim=0)),
]


def braces(tensor):
    return "({" + ", ".join(repr(v) for v in tensor.detach().flatten().tolist()) + "})"


print("// Made by golden.py: values and gradients that PyTorch gives in f64.")
print("// clang-format off")
for name, value in INPUTS.items():
    sizes = ", ".join(str(s) for s in value.shape)
    print(f"WEFT_GOLDEN_INPUT({name}, ({{{sizes}}}), {braces(value)})")
for inputs, text, function in ROWS:
    for name in inputs:
        x = INPUTS[name].clone().requires_grad_()
        y = function(x)
        weights = torch.cos(torch.arange(y.numel(), dtype=torch.float64))
        (y.flatten() * weights).sum().backward()
        print(f"WEFT_GOLDEN({name}, ({text}),\n    {braces(y)},\n    {braces(x.grad)})")
