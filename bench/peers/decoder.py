"""Llama 3.2 1B in PyTorch, one token at a time with a cache of fixed size, in a form that torch.compile captures in one graph:
the position is a tensor, the cache is a buffer that is written in place, and a mask hides what is not filled yet."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def rotate(x, cos, sin):
    """Pairs of halves of x [batch, heads, 1, depth]."""
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Block(nn.Module):
    def __init__(self, batch, context, width, hidden, heads, groups):
        super().__init__()
        self.heads, self.groups, self.depth = heads, groups, width // heads
        self.before, self.after = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        self.qkv = nn.Linear(width, width + 2 * groups * self.depth, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)
        self.register_buffer("keys", torch.zeros(batch, groups, context, self.depth))
        self.register_buffer("values", torch.zeros(batch, groups, context, self.depth))

    def forward(self, x, at, mask, cos, sin):
        part = lambda y: y.view(len(x), 1, -1, self.depth).transpose(1, 2)
        q, k, v = map(part, self.qkv(self.before(x)).split(
            [self.heads * self.depth, self.groups * self.depth, self.groups * self.depth], -1))
        self.keys.index_copy_(2, at, rotate(k, cos, sin))
        self.values.index_copy_(2, at, v)
        mixed = F.scaled_dot_product_attention(rotate(q, cos, sin), self.keys, self.values, attn_mask=mask, enable_gqa=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(len(x), 1, -1))
        y = self.after(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    def __init__(self, batch, vocabulary=128256, context=1024, width=2048, hidden=8192, layers=16, heads=32, groups=8):
        super().__init__()
        self.context = context
        self.tokens = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(batch, context, width, hidden, heads, groups) for _ in range(layers))
        self.last = nn.RMSNorm(width, eps=1e-5)
        depth = width // heads
        angles = torch.outer(torch.arange(context), 500000.0 ** (-torch.arange(0, depth, 2) / depth))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, token, at):
        """Logits [batch, 1, vocabulary] of what follows `token` [batch, 1] at position `at` [1]."""
        x = self.tokens(token)
        mask = torch.arange(self.context, device=token.device)[None, :] <= at
        cos, sin = self.cos[at], self.sin[at]
        for block in self.blocks:
            x = block(x, at, mask, cos, sin)
        return F.linear(self.last(x), self.tokens.weight)
