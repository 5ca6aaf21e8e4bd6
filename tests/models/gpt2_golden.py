"""gpt2_golden.py: writes gpt2.golden, what Hugging Face's GPT-2 gives."""
from transformers import GPT2Config, GPT2LMHeadModel

import torch.nn.functional as F
from golden import integers, write

config = GPT2Config(vocab_size=19, n_positions=12, n_embd=16, n_layer=2, n_head=4, resid_pdrop=0, embd_pdrop=0,
                    attn_pdrop=0, attn_implementation="eager")
tokens = integers("tokens", (2, 9), 19)


def f(model):
    logits = model(tokens[:, :-1]).logits
    loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    return loss, logits


write("gpt2.golden", GPT2LMHeadModel(config).double(), f, skip=("lm_head.weight",))
