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
    "cube": numbers(2, 3, 6, seed=8),
    "long_row": numbers(2, 23, seed=9),
}
L, F, W = torch.linalg, torch.fft, torch.signal.windows


def gram(x):
    return x @ x.mT + torch.eye(x.shape[-2])


def squares(*parts):
    return torch.cat([(p * p).flatten() for p in parts])


def pair(z):
    return torch.stack([z.real, z.imag])


def from_pair(x):
    return torch.complex(x, x.flip(-1))


def cond(x, order):
    """That of PyTorch has no gradient in norms by the inverse."""
    return L.matrix_norm(x, order) * L.matrix_norm(L.inv(x), order)


def lu_solve(x, b, **options):
    return L.lu_solve(*L.lu_factor(x), b, **options)


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
    (MATRICES, "matrix_exp(x)", L.matrix_exp),
    (["square", "batch"], "matrix_exp(x * 7)", lambda x: L.matrix_exp(x * 7)),
    (["batch"], "matrix_exp(concat({slice(x, 0, 0, 1) * 0.01, slice(x, 0, 1, 2) * 20}))",
     lambda x: L.matrix_exp(torch.cat([x[:1] * 0.01, x[1:] * 20]))),
    (MATRICES, "lu_factor(x).lu", lambda x: L.lu_factor(x).LU),
    (MATRICES, "solve_by(lu_factor(x), x * x + 1)", lambda x: lu_solve(x, x * x + 1)),
    (["square", "batch"], "solve_by(lu_factor(x), x * x + 1, {.left = false})", lambda x: lu_solve(x, x * x + 1, left=False)),
    (["square", "batch"], "solve_by(lu_factor(x), x * x + 1, {.adjoint = true})",
     lambda x: lu_solve(x, x * x + 1, adjoint=True)),
    (["batch"], "solve_by(lu_factor(x[0]), x, {.left = false, .adjoint = true})",
     lambda x: lu_solve(x[0], x, left=False, adjoint=True)),
    (RECTANGLES + ["one"], "cond(x)", L.cond),
    (["tall", "batch"], "cond(x, -2)", lambda x: L.cond(x, -2)),
    (["square", "batch"], "cond(x, 1)", lambda x: cond(x, 1)),
    (["square"], "cond(x, -INFINITY)", lambda x: cond(x, -float("inf"))),
    (["square", "batch"], 'cond(x, "fro")', lambda x: cond(x, "fro")),
    (["square"], 'cond(x, "nuc")', lambda x: cond(x, "nuc")),
    (["cube"], "tensorinv(reshape(x, {2, 3, 6}))", L.tensorinv),
    (["square"], "tensorinv(reshape(x, {4, 2, 2}), 1)", lambda x: L.tensorinv(x.reshape(4, 2, 2), ind=1)),
    (["cube"], "tensorsolve(reshape(x, {2, 3, 6}), select(x, -1, 0) + 1)", lambda x: L.tensorsolve(x, x[..., 0] + 1)),
    (["cube"], "tensorsolve(reshape(x, {3, 6, 2}), reshape(slice(flatten(x), 0, 0, 6), {6}), {0, 2})",
     lambda x: L.tensorsolve(x.reshape(3, 6, 2), x.flatten()[:6], dims=(0, 2))),
    (["tall", "batch"], "vander(x)", L.vander),
    (["tall"], "vander(x * (x > 0), 4)", lambda x: L.vander(x * (x > 0), N=4)),
    (["tall"], "vander(x, 1) * x[0][0]", lambda x: torch.ones(5, 3, 1) * x[0, 0]),
    (["tall", "batch"], "householder_product(x, select(x, -2, 1))", lambda x: L.householder_product(x, x.select(-2, 1))),
    (["tall"], "householder_product(x, slice(x[2] * 0, 0, 0, 2) + x[0][1])",
     lambda x: L.householder_product(x, x[2, :2] * 0 + x[0, 1])),
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
    (["row", "prime"], "fft::hfft(complex(x))", lambda x: F.hfft(from_pair(x))),
    (["row", "tall"], "fft::hfft(complex(x), {.n = 7, .norm = fft::Norm::forward})",
     lambda x: F.hfft(from_pair(x), n=7, norm="forward")),
    (["row", "prime", "tall"], "pair(fft::ihfft(x))", lambda x: pair(F.ihfft(x))),
    (["tall"], "pair(fft::ihfft(x, {.n = 7, .axis = 0, .norm = fft::Norm::ortho}))",
     lambda x: pair(F.ihfft(x, n=7, dim=0, norm="ortho"))),
    (["tall"], "pair(fft::polar(abs(x), flip(x, -1) * 3))", lambda x: pair(torch.polar(x.abs(), x.flip(-1) * 3))),
    (["long_row"], "pair(stft(x, 8))", lambda x: pair(torch.stft(x, 8, return_complex=True))),
    (["long_row"], "pair(stft(x[0], 7, {.hop_length = 3, .window = x[1][0] + windows::hann(7, false, {DType::f64}), "
                   ".pad_mode = Pads::replicate, .normalized = true, .onesided = false}))",
     lambda x: pair(torch.stft(x[0], 7, hop_length=3, window=x[1, 0] + torch.hann_window(7), pad_mode="replicate",
                               normalized=True, onesided=False, return_complex=True))),
    (["long_row"], "pair(stft(x, 9, {.hop_length = 11, .win_length = 4, .window = slice(x[0], 0, 0, 4), .center = false}))",
     lambda x: pair(torch.stft(x, 9, hop_length=11, win_length=4, window=x[0, :4], center=False, return_complex=True))),
    (["long_row"], "pair(stft(x, 8, {.hop_length = 1, .win_length = 5, .pad_mode = Pads::constant}))",
     lambda x: pair(torch.stft(x, 8, hop_length=1, win_length=5, window=torch.ones(5), pad_mode="constant",
                               return_complex=True))),
    (["tall"], "istft(complex(x), 8)", lambda x: torch.istft(from_pair(x), 8)),
    (["cube"], "istft(complex(x), 5, {.hop_length = 2, .window = windows::hamming(5, false, {DType::f64}) + x[0][0][0], "
               ".center = false, .normalized = true, .onesided = true})",
     lambda x: torch.istft(from_pair(x), 5, hop_length=2, window=torch.hamming_window(5) + x[0, 0, 0], center=False,
                           normalized=True)),
    (["wide"], "istft(complex(x), 3, {.hop_length = 1, .onesided = false, .length = 9})",
     lambda x: torch.istft(from_pair(x), 3, hop_length=1, window=torch.ones(3), onesided=False, length=9)),
    (["cube"], "istft(complex(x), 4, {.length = 3})", lambda x: torch.istft(from_pair(x), 4, length=3)),
    (["row"], "x * windows::hann(6, true, {DType::f64})", lambda x: x * W.hann(6)),
    (["row"], "x * windows::hamming(6, false, {DType::f64})", lambda x: x * W.hamming(6, sym=False)),
    (["row"], "x * windows::blackman(6, false, {DType::f64})", lambda x: x * W.blackman(6, sym=False)),
    (["prime"], "x * windows::nuttall(37, true, {DType::f64})", lambda x: x * W.nuttall(37)),
    (["row"], "x * windows::bartlett(6, true, {DType::f64})", lambda x: x * W.bartlett(6)),
    (["prime"], "x * windows::bartlett(37, false, {DType::f64})", lambda x: x * W.bartlett(37, sym=False)),
    (["row"], "x * windows::cosine(6, true, {DType::f64})", lambda x: x * W.cosine(6)),
    (["row"], "x * windows::cosine(6, false, {DType::f64})", lambda x: x * W.cosine(6, sym=False)),
    (["row"], "x * windows::gaussian(6, 1.5, true, {DType::f64})", lambda x: x * W.gaussian(6, std=1.5)),
    (["row"], "x * windows::gaussian(6, 1, false, {DType::f64})", lambda x: x * W.gaussian(6, sym=False)),
    (["row"], "x * windows::exponential(6, 2, false, {DType::f64})", lambda x: x * W.exponential(6, tau=2, sym=False)),
    (["prime"], "x * windows::kaiser(37, 12, true, {DType::f64})", lambda x: x * W.kaiser(37)),
    (["prime"], "x * windows::kaiser(37, 0, true, {DType::f64})", lambda x: x * W.kaiser(37, beta=0.0)),
    (["row"], "x * windows::kaiser(6, 150, false, {DType::f64})", lambda x: x * W.kaiser(6, beta=150.0, sym=False)),
    (["one"], "x * windows::hann(1, true, {DType::f64}) + sum(windows::kaiser(0))", lambda x: x),
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
