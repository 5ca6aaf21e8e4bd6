"""losses_golden.py > losses_golden.inc: what PyTorch's losses give, in float64: the loss, and its gradients (of its sum with
a wave, where it has several elements) for the floating operands. Operands are sines that losses_test.cpp makes too.
"""
import math

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)


def wave(shape, seed):
    return (0.6 * torch.sin(torch.arange(math.prod(shape)) * 0.7 + seed)).reshape(shape)


def give(loss, operands):
    operands = [operand for operand in operands if operand.requires_grad]
    gradients = torch.autograd.grad((loss * wave(loss.shape, 50)).sum(), operands)
    values = [number for value in (loss, *gradients) for number in value.detach().flatten().tolist()]
    print("{" + ", ".join("%.12g" % number for number in values) + "},")


def pair(function, shape, target=None, **options):
    x, t = wave(shape, 30).requires_grad_(), (wave(shape, 31) if target is None else target).requires_grad_()
    give(function(x, t, **options), [x, t])


def signs(shape):
    return torch.where(torch.arange(math.prod(shape)) % 3 == 0, -1.0, 1.0).reshape(shape)


S = (3, 4)
for reduction in ("mean", "sum", "none"):
    pair(F.l1_loss, S, reduction=reduction)
    pair(F.mse_loss, S, reduction=reduction)
pair(F.smooth_l1_loss, S)
pair(F.smooth_l1_loss, S, beta=0.3, reduction="sum")
pair(F.smooth_l1_loss, S, beta=0.0, reduction="none")
pair(F.huber_loss, S)
pair(F.huber_loss, S, delta=0.3, reduction="sum")
pair(F.huber_loss, S, delta=0.5, reduction="none")


def fixed(function, shape, target, **options):
    x = wave(shape, 30).requires_grad_()
    give(function(x, target, **options), [x])


for reduction in ("mean", "sum", "none"):
    fixed(F.soft_margin_loss, S, signs(S), reduction=reduction)

weight, chances = wave(S, 8) + 1, wave(S, 9) * 0.8 + 0.5
probabilities = (wave(S, 30) * 0.8 + 0.5)
for options in (dict(), dict(weight=weight), dict(reduction="none")):
    x, t = probabilities.clone().requires_grad_(), chances.clone()
    give(F.binary_cross_entropy(x, t, **options), [x])
edge = torch.tensor([0.0, 1.0, 0.0, 1.0]).requires_grad_()
give(F.binary_cross_entropy(edge, torch.tensor([0.0, 1.0, 1.0, 0.0]), reduction="sum"), [edge])
for options in (dict(), dict(weight=weight, pos_weight=wave((4,), 3) + 1), dict(reduction="sum")):
    x, t = (wave(S, 30) * 40).requires_grad_(), chances.clone()
    give(F.binary_cross_entropy_with_logits(x, t, **options), [x])

logs = torch.log_softmax(wave(S, 31), -1)
fixed(F.kl_div, S, torch.softmax(wave(S, 31), -1).index_fill(0, torch.tensor([1]), 0.0), reduction="batchmean")
fixed(F.kl_div, S, logs, log_target=True, reduction="sum")
fixed(F.kl_div, S, torch.softmax(wave(S, 31), -1), reduction="mean")

CLASSES, ROWS = 5, 4
labels = torch.tensor([1, 4, 0, 2])
class_weight = wave((CLASSES,), 5) + 1
for options, target in (
        (dict(), labels), (dict(weight=class_weight), labels), (dict(ignore_index=-100), torch.tensor([1, -100, 0, 3])),
        (dict(ignore_index=7, weight=class_weight, label_smoothing=0.2), torch.tensor([1, 7, 0, 3])),
        (dict(label_smoothing=0.1, reduction="none", ignore_index=7), torch.tensor([1, 7, 0, 3])),
        (dict(reduction="sum"), labels)):
    fixed(F.cross_entropy, (ROWS, CLASSES), target, **options)
shares = torch.softmax(wave((ROWS, CLASSES), 6), -1)
fixed(F.cross_entropy, (ROWS, CLASSES), shares)
fixed(F.cross_entropy, (ROWS, CLASSES), shares, weight=class_weight, label_smoothing=0.3)
fixed(F.cross_entropy, (2, CLASSES, 3), torch.tensor([[0, 1, 4], [2, 2, 3]]), weight=class_weight)
fixed(F.nll_loss, (ROWS, CLASSES), labels)
fixed(F.nll_loss, (ROWS, CLASSES), torch.tensor([1, -5, 0, 3]), weight=class_weight, ignore_index=-5)
fixed(F.nll_loss, (2, CLASSES, 3), torch.tensor([[0, 1, 4], [2, 2, 3]]), reduction="none")
fixed(F.multi_margin_loss, (ROWS, CLASSES), labels)
fixed(F.multi_margin_loss, (ROWS, CLASSES), labels, p=2, margin=0.6, weight=class_weight)
fixed(F.multi_margin_loss, (ROWS, CLASSES), labels, margin=0.4, reduction="none")
marks = (torch.arange(12) % 3 == 0).double().reshape(S)
fixed(F.multilabel_soft_margin_loss, S, marks)
fixed(F.multilabel_soft_margin_loss, S, marks, weight=wave((4,), 3) + 1, reduction="sum")
fixed(F.multilabel_soft_margin_loss, S, marks, reduction="none")


def several(function, shapes, *more, **options):
    operands = [wave(shape, 30 + i).requires_grad_() for i, shape in enumerate(shapes)]
    give(function(*operands, *more, **options), operands)


several(F.margin_ranking_loss, (S, S), signs(S))
several(F.margin_ranking_loss, (S, S), signs(S), margin=0.4, reduction="sum")
several(F.margin_ranking_loss, (S, S), signs(S), margin=0.4, reduction="none")
fixed(F.hinge_embedding_loss, S, signs(S))
fixed(F.hinge_embedding_loss, S, signs(S), margin=0.2, reduction="sum")
fixed(F.hinge_embedding_loss, S, signs(S), reduction="none")
several(F.cosine_embedding_loss, (S, S), signs((3,)))
several(F.cosine_embedding_loss, (S, S), signs((3,)), margin=0.3, reduction="sum")
several(F.cosine_embedding_loss, (S, S), signs((3,)), margin=-0.2, reduction="none")
several(F.triplet_margin_loss, (S, S, S))
several(F.triplet_margin_loss, (S, S, S), margin=2.0, p=1.0, swap=True, reduction="sum")
several(F.triplet_margin_loss, (S, S, S), p=3.0, reduction="none")
counts = (torch.arange(12) % 4).double().reshape(S)
fixed(F.poisson_nll_loss, S, counts)
fixed(F.poisson_nll_loss, S, counts, full=True, reduction="sum")
x = (wave(S, 30) + 0.9).requires_grad_()
give(F.poisson_nll_loss(x, counts, log_input=False, reduction="none"), [x])
for options in (dict(), dict(full=True, reduction="sum"), dict(reduction="none", eps=0.5)):
    x, t, v = wave(S, 30).requires_grad_(), wave(S, 31).requires_grad_(), (wave(S, 32) + 0.8).requires_grad_()
    give(F.gaussian_nll_loss(x, t, v, **options), [x, t, v])

TIME, BATCH, LABELS = 7, 4, 3
texts = torch.tensor([[1, 2, 3], [2, 2, 1], [3, 0, 0], [4, 4, 4]])
steps, lengths = torch.tensor([7, 6, 3, 7]), torch.tensor([3, 3, 1, 0])
for options in (dict(), dict(reduction="sum"), dict(reduction="none")):
    x = wave((TIME, BATCH, CLASSES), 30).requires_grad_()
    give(F.ctc_loss(torch.log_softmax(x, -1), texts, steps, lengths, **options), [x])
short = torch.tensor([7, 3, 3, 7])  # 2 2 1 needs four steps
x = wave((TIME, BATCH, CLASSES), 30).requires_grad_()
give(F.ctc_loss(torch.log_softmax(x, -1), texts, short, lengths, zero_infinity=True), [x])
x = wave((TIME, BATCH, CLASSES), 30).requires_grad_()
give(F.ctc_loss(torch.log_softmax(x, -1), torch.tensor([[0, 1, 2], [1, 1, 0], [3, 0, 0], [2, 2, 2]]), steps, lengths, blank=4),
     [x])
