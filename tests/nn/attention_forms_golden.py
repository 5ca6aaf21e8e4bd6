"""attention_forms_golden.py > attention_forms_golden.inc: attention with masks and functions of scores by PyTorch, in
float64: results, and gradients of a loss for inputs and for what a mod captures. Inputs are sines that
attention_forms_test.cpp makes too.
"""
import math

import torch
import torch.nn.functional as F
from torch.nn.attention.bias import causal_lower_right

torch.set_default_dtype(torch.float64)


def wave(shape, seed):
    count = math.prod(shape)
    return (0.6 * torch.sin(torch.arange(count) * 0.7 + seed)).reshape(shape)


def inputs_of(*shapes):
    return [wave(shape, 30 + i).requires_grad_() for i, shape in enumerate(shapes)]


def give(result, inputs):
    gradients = torch.autograd.grad((result * wave(result.shape, 50)).sum(), inputs)
    print("{" + ", ".join("%.12g" % x for value in [result, *gradients] for x in value.detach().flatten().tolist()) + "},")


# Queries [2, 4, 5, 3] with keys [2, 2, 6, 3] and values [2, 2, 6, 2] of grouped heads.
B, H, L, S = 2, 4, 5, 6
SHAPES = ((B, H, L, 3), (B, 2, S, 3), (B, 2, S, 2))
b, h = torch.arange(B)[:, None, None, None], torch.arange(H)[None, :, None, None]
q, k = torch.arange(L)[:, None], torch.arange(S)
minus_infinity = -math.inf


def sdpa(query, key, value, mask=None, **options):
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, enable_gqa=True, **options)


def by_scores(query, key, value, change, sees=None):
    """softmax(change(q k^T * scale)) v, and zeros of a query that sees nothing."""
    key, value = key.repeat_interleave(H // 2, 1), value.repeat_interleave(H // 2, 1)
    scores = change(query @ key.mT / math.sqrt(query.shape[-1]))
    if sees is None:
        return scores.softmax(-1) @ value
    some = sees.any(-1, keepdim=True)
    weights = torch.where(sees, scores, torch.where(some, minus_infinity, 0.0)).softmax(-1)
    return torch.where(some, weights, 0.0) @ value


give(sdpa(*(x := inputs_of(*SHAPES)), mask=(q >= k)), x)                       # 0: causal
give(sdpa(*(x := inputs_of(*SHAPES)), mask=(q >= k) & (q - k < 2)), x)         # 1: a sliding window
give(sdpa(*(x := inputs_of(*SHAPES)), mask=(q // 2 == k // 2)), x)             # 2: documents
blocks = torch.tensor([[1, 0], [1, 1], [0, 1]], dtype=torch.bool)
give(sdpa(*(x := inputs_of(*SHAPES)), mask=blocks[q // 2, k // 3]), x)         # 3: blocks
x = inputs_of(*SHAPES, (H,))                                                   # 4: ALiBi, its slopes with a gradient
give(sdpa(*x[:3], mask=torch.where(q >= k, -x[3][:, None, None] * (q - k).abs(), minus_infinity)), x)
x = inputs_of(*SHAPES, (H, L + S))                                             # 5: a relative bias, its table too
give(sdpa(*x[:3], mask=x[3][:, q - k + S - 1]), x)
x = inputs_of(*SHAPES)                                                         # 6: a soft cap within documents
give(by_scores(*x, lambda s: 0.5 * torch.tanh(s / 0.5), q // 2 == k // 2), x)
x = inputs_of(*SHAPES, (B, L), ())                                             # 7: tables by batch and query; a number
give(by_scores(*x[:3], lambda s: s * x[4] + x[3][:, None, :, None] * k, ((q + b + h) % 3 != 0).expand(B, H, L, S)), x)

# 8: a head of 24 features without positions and 8 of one rotary key that all heads share, values of 16.
x = inputs_of((1, 2, 3, 24), (1, 2, 3, 8), (1, 2, 4, 24), (1, 1, 4, 8), (1, 2, 4, 16))
give(F.scaled_dot_product_attention(torch.cat([x[0], x[1]], -1), torch.cat([x[2], x[3].expand(1, 2, 4, 8)], -1), x[4]), x)

# 9: texts of 3, 1 and 2 queries with 4, 3 and 2 keys, causal and aligned at the last key; grouped heads.
lengths = ((3, 4), (1, 3), (2, 2))
x = inputs_of((6, 4, 3), (9, 2, 3), (9, 2, 2))
parts, first_q, first_k = [], 0, 0
for n, m in lengths:
    query, key, value = (t.transpose(0, 1)[None] for t in (x[0][first_q:first_q + n], x[1][first_k:first_k + m],
                                                           x[2][first_k:first_k + m]))
    mask = torch.ones(n, m, dtype=torch.bool).tril(m - n)
    parts.append(sdpa(query, key, value, mask)[0].transpose(0, 1))
    biased = F.scaled_dot_product_attention(query, key.repeat_interleave(2, 1), value.repeat_interleave(2, 1),
                                            attn_mask=causal_lower_right(n, m))
    assert torch.allclose(biased[0].transpose(0, 1), parts[-1])
    first_q, first_k = first_q + n, first_k + m
give(torch.cat(parts), x)
