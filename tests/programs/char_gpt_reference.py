"""char_gpt_reference.py PROGRAM: trains the model of 05_char_gpt in PyTorch (Hugging Face's GPT-2) from the initial
weights that PROGRAM saves, on batches of its own, and prints the held-out loss that tests/programs/check compares."""
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from transformers import GPT2Config, GPT2LMHeadModel

STEPS, BATCH, CONTEXT, WIDTH, LAYERS, LR = 300, 16, 32, 64, 2, 2e-3
path = Path("/usr/share/common-licenses/GPL-3")
with tempfile.TemporaryDirectory() as folder:
    file = folder + "/initial"
    subprocess.run([sys.argv[1], "--text", path, "--steps", "0", "--context", str(CONTEXT), "--width", str(WIDTH), "--layers",
                    str(LAYERS), "--write", "0", "--save", file], check=True)
    weights = {name.removeprefix("model."): value for name, value in load_file(file).items() if name.startswith("model.")}

text = path.read_bytes()
number = {byte: i for i, byte in enumerate(sorted(set(text)))}
tokens = torch.tensor([number[byte] for byte in text])
held = len(tokens) // 10
seen, unseen = tokens[:-held], tokens[-held:]
model = GPT2LMHeadModel(GPT2Config(vocab_size=len(number), n_positions=CONTEXT, n_embd=WIDTH, n_layer=LAYERS, n_head=4,
                                   embd_pdrop=0, attn_pdrop=0, resid_pdrop=0))
missing, extra = model.transformer.load_state_dict(weights, strict=False)
assert not extra and not [name for name in missing if not name.endswith("bias")], (missing, extra)


def loss_of(places, text):
    rows = text[places[:, None] + torch.arange(CONTEXT + 1)]
    return F.cross_entropy(model(rows[:, :-1]).logits.flatten(0, 1), rows[:, 1:].flatten())


optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.1)
for seed in range(3):
    torch.manual_seed(seed)
    model.transformer.load_state_dict(weights, strict=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.1)
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = LR / 10 + (LR - LR / 10) * (1 + math.cos(math.pi * step / STEPS)) / 2
        optimizer.zero_grad()
        loss_of(torch.randint(0, len(seen) - CONTEXT, (BATCH,)), seen).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    with torch.no_grad():
        print("held-out loss: %.4f" % loss_of(torch.arange((held - 1) // CONTEXT) * CONTEXT, unseen).item())
