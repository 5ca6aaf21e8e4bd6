"""torch_memory.py eager|composed|fused: the most bytes that PyTorch holds in an eager training step of the character GPT of width
384 (bench/gpt_step.cpp) on the CPU, beside parameters and moments: the storages of all tensors that an operation of the step
gives, from when they are made until nobody holds them, seen by a TorchDispatchMode. `eager` is the usual loop: attention by
scaled_dot_product_attention, gradients set to None, AdamW over lists of tensors; `composed` has attention of products and a softmax,
as bench/transformer.hpp; `fused` the fused AdamW.
"""
import sys
import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import gpt


class Live(TorchDispatchMode):
    """Counts bytes of storages beside those that are held already."""

    def __init__(self, held):
        super().__init__()
        self.now = self.most = 0
        self.sizes = {tensor.untyped_storage()._cdata: None for tensor in held}

    def note(self, tensor):
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key in self.sizes:
            return
        self.sizes[key] = size
        self.now += size
        self.most = max(self.most, self.now)
        weakref.finalize(storage, self.gone, key)

    def gone(self, key):
        self.now -= self.sizes.pop(key)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self.note(leaf)
        return result


def main(variant):
    torch.manual_seed(0)
    attention = gpt.composed_attention if variant == "composed" else gpt.fused_attention
    model = gpt.Gpt(65, 256, 384, 6, 6, attention)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=variant == "fused")
    text, labels = torch.randint(65, (4, 256)), torch.randint(65, (4, 256))

    def step():
        optimizer.zero_grad()
        loss = model(text, labels)
        loss.backward()
        optimizer.step()

    for _ in range(2):
        step()
    optimizer.zero_grad()
    state = [value for each in optimizer.state.values() for value in each.values() if isinstance(value, torch.Tensor)]
    with Live([*model.parameters(), *state, text, labels]) as live:
        step()
    print(live.most)


main(sys.argv[1])
