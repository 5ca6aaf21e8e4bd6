"""The GPT of bench/transformer.hpp in PyTorch: blocks of norm, attention, norm and MLP; its head is the table of tokens."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def composed_attention(q, k, v, causal):
    """Of products and a softmax, as ours is."""
    scores = q @ k.transpose(-2, -1) * (1 / math.sqrt(q.shape[-1]))
    if causal:
        at = torch.arange(q.shape[-2], device=q.device)
        scores = scores.masked_fill(at[None, :] > at[:, None], -math.inf)
    return torch.softmax(scores, -1) @ v


def fused_attention(q, k, v, causal):
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal)


class Block(nn.Module):
    def __init__(self, width, heads, attention=fused_attention, causal=True):
        super().__init__()
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads, self.attention, self.causal = heads, attention, causal

    def forward(self, x):
        batch, time, width = x.shape
        parts = self.qkv(self.before(x)).split(width, 2)
        q, k, v = (part.view(batch, time, self.heads, width // self.heads).transpose(1, 2) for part in parts)
        mixed = self.attention(q, k, v, self.causal)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, time, width))
        return x + self.down(F.gelu(self.up(self.after(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, vocabulary=50304, context=1024, width=768, layers=12, heads=12, attention=fused_attention):
        super().__init__()
        self.tokens = nn.Parameter(0.02 * torch.randn(vocabulary, width))
        self.places = nn.Parameter(0.02 * torch.randn(context, width))
        self.blocks = nn.ModuleList(Block(width, heads, attention) for _ in range(layers))
        self.last = nn.LayerNorm(width)

    def forward(self, text, labels=None):
        x = F.embedding(text, self.tokens) + self.places[:text.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.last(x), self.tokens)
        return logits if labels is None else F.cross_entropy(logits.float().flatten(0, 1), labels.flatten())
