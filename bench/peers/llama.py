"""The LLaMA of bench/generate.cpp in PyTorch: RMS norms, rotary positions, grouped heads, SwiGLU, a cache of fixed size."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def rotary(width, context, base=10000.0):
    """cos and sin of [context, width / 2]."""
    angles = torch.outer(torch.arange(context), base ** (-torch.arange(0, width, 2) / width))
    return angles.cos(), angles.sin()


def rotate(x, cos, sin):
    """Pairs of neighbours of x [batch, time, heads, width] by the angles [time, width / 2]."""
    even, odd = x[..., 0::2], x[..., 1::2]
    cos, sin = cos[:, None, :], sin[:, None, :]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)


class Block(nn.Module):
    def __init__(self, width, hidden, heads, groups, context):
        super().__init__()
        self.heads, self.groups, self.depth = heads, groups, width // heads
        self.before, self.after = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        self.q, self.out = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(width, groups * self.depth, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)
        self.register_buffer("keys", torch.zeros(1, groups, context, self.depth))
        self.register_buffer("values", torch.zeros(1, groups, context, self.depth))

    def forward(self, x, at, cos, sin):
        """x [1, 1, width], the token at position `at`; reads the part of the cache that is filled."""
        y = self.before(x)
        q = rotate(self.q(y).view(1, 1, self.heads, self.depth), cos, sin).transpose(1, 2)
        self.keys[:, :, at] = rotate(self.k(y).view(1, 1, self.groups, self.depth), cos, sin)[:, 0]
        self.values[:, :, at] = self.v(y).view(1, self.groups, self.depth)
        mixed = F.scaled_dot_product_attention(q, self.keys[:, :, :at + 1], self.values[:, :, :at + 1], enable_gqa=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(1, 1, -1))
        y = self.after(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, vocabulary=32000, context=512, width=288, hidden=768, layers=6, heads=6, groups=6):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, hidden, heads, groups, context) for _ in range(layers))
        self.last = nn.RMSNorm(width, eps=1e-5)
        self.cos, self.sin = rotary(width // heads, context)

    def forward(self, token, at):
        """Logits [1, 1, vocabulary] of what follows `token` [1, 1] at position `at`."""
        x = self.tokens(token)
        for block in self.blocks:
            x = block(x, at, self.cos[at:at + 1], self.sin[at:at + 1])
        return F.linear(self.last(x), self.tokens.weight)
