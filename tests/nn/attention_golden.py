"""attention_golden.py > attention_golden.inc: what PyTorch's attention gives, in float64: results, and gradients of a loss
for inputs, floating masks and parameters; then tables of positions by loops over their definitions. Inputs and parameters
are sines that attention_test.cpp makes too.
"""
import math

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)


def wave(shape, seed):
    count = math.prod(shape)
    return (0.6 * torch.sin(torch.arange(count) * 0.7 + seed)).reshape(shape)


def show(values):
    print("{" + ", ".join("%.12g" % number for value in values for number in value.detach().flatten().tolist()) + "},")


def give(results, inputs):
    loss = sum((value * wave(value.shape, 50 + i)).sum() for i, value in enumerate(results))
    show(list(results) + list(torch.autograd.grad(loss, inputs)))


def some_masked(shape, every):
    """False at every so-manieth pair, and in the whole first row."""
    mask = torch.arange(math.prod(shape)).reshape(shape) % every != 0
    mask[..., 0, :] = False
    return mask


DOT_PRODUCTS = [  # shapes of query, key, value, and options
    ((2, 3, 4, 5), (2, 3, 6, 5), (2, 3, 6, 2), {}),
    ((2, 3, 5, 4), (2, 3, 5, 4), (2, 3, 5, 4), dict(is_causal=True)),
    ((2, 2, 4, 3), (2, 2, 5, 3), (2, 2, 5, 3), dict(attn_mask=some_masked((4, 5), 3))),
    ((2, 2, 4, 3), (2, 2, 5, 3), (2, 2, 5, 3), dict(attn_mask=wave((2, 1, 4, 5), 33).requires_grad_(), scale=0.3)),
    ((2, 4, 3, 2), (2, 2, 5, 2), (2, 2, 5, 2), dict(enable_gqa=True)),
    ((2, 6, 4, 2), (2, 3, 4, 2), (2, 3, 4, 2), dict(enable_gqa=True, is_causal=True)),
    ((3, 1, 4, 2), (2, 5, 2), (1, 2, 5, 3), {}),
    ((4, 2), (3, 2), (3, 2), {}),
]
for q, k, v, options in DOT_PRODUCTS:
    inputs = [wave(shape, 30 + i).requires_grad_() for i, shape in enumerate((q, k, v))]
    result = F.scaled_dot_product_attention(*inputs, **options)
    mask = options.get("attn_mask")
    give([result], inputs + ([mask] if mask is not None and mask.requires_grad else []))

L, S, N, E, H = 3, 4, 2, 6, 2
MULTIHEAD = [  # options, shapes of query, key, value (None: all the query), masks
    (dict(), (L, N, E), (S, N, E), dict(attn_mask=some_masked((L, S), 5).logical_not().index_fill(0, torch.tensor(0), False))),
    (dict(batch_first=True, kdim=5, vdim=3, bias=False), (N, L, E), (N, S, 0), {}),
    (dict(batch_first=True), (N, L, E), None,
     dict(key_padding_mask=torch.tensor([[False, True, False], [False, False, True]]), attn_mask=wave((N * H, L, L), 7))),
    (dict(), (L, E), None, dict(attn_mask=torch.ones(L, L).triu(1).bool(), is_causal=True)),
]
for options, query, key, masks in MULTIHEAD:
    layer = torch.nn.MultiheadAttention(E, H, **options)
    for i, parameter in enumerate(layer.parameters()):
        parameter.data = wave(parameter.shape, i)
    inputs = [wave(query, 30).requires_grad_()]
    if key is not None:
        for i, width in enumerate((options.get("kdim", E), options.get("vdim", E))):
            inputs.append(wave((*key[:-1], width), 31 + i).requires_grad_())
    results = layer(*(inputs if len(inputs) == 3 else inputs * 3), average_attn_weights=False, **masks)
    give(results, inputs + list(layer.parameters()))


def rotated(x, offset, base, interleaved):
    result = x.clone()
    dim = x.shape[-1]
    for p in range(x.shape[-2]):
        for i in range(dim // 2):
            a, b = (2 * i, 2 * i + 1) if interleaved else (i, i + dim // 2)
            angle = (offset + p) * base ** (-2 * i / dim)
            u, v = x[..., p, a], x[..., p, b]
            result[..., p, a] = u * math.cos(angle) - v * math.sin(angle)
            result[..., p, b] = u * math.sin(angle) + v * math.cos(angle)
    return result


for offset, base, interleaved in ((0, 10000.0, False), (3, 100.0, True), (7, 10000.0, True)):
    x = wave((2, 3, 6), 30).requires_grad_()
    give([rotated(x, offset, base, interleaved)], [x])

table = torch.zeros(5, 4)
for p in range(5):
    for i in range(2):
        table[p, 2 * i], table[p, 2 * i + 1] = math.sin(p / 10000 ** (i / 2)), math.cos(p / 10000 ** (i / 2))
show([table])


def slopes(heads):
    if math.log2(heads).is_integer():
        return [2 ** (-8 * (i + 1) / heads) for i in range(heads)]
    closest = 2 ** math.floor(math.log2(heads))
    return slopes(closest) + slopes(2 * closest)[0::2][:heads - closest]


for heads, queries, keys in ((4, 3, 3), (6, 2, 4), (1, 1, 5)):
    show([torch.tensor([[[-slope * abs(p - (q + keys - queries)) for p in range(keys)] for q in range(queries)]
                        for slope in slopes(heads)])])


def bucket(distance, bidirectional, buckets, greatest):
    first = 0
    if bidirectional:
        buckets //= 2
        first = buckets if distance > 0 else 0
        distance = abs(distance)
    else:
        distance = -min(distance, 0)
    exact = buckets // 2
    if distance < exact:
        return first + distance
    far = exact + int(math.log(distance / exact) / math.log(greatest / exact) * (buckets - exact))
    return first + min(far, buckets - 1)


for bidirectional, buckets, greatest, offset in ((True, 8, 20, 0), (False, 8, 20, 2), (True, 32, 128, 40)):
    weight = wave((buckets, 2), 1).requires_grad_()
    at = torch.tensor([[bucket(p - (q + offset), bidirectional, buckets, greatest) for p in range(50)] for q in range(3)])
    give([weight[at].permute(2, 0, 1)], [weight])
