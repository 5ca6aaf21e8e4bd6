"""bert_golden.py: writes bert.golden, what Hugging Face's BERT gives."""
import torch
from transformers import BertConfig, BertModel

from golden import integers, keep_float64, values, write

keep_float64()
config = BertConfig(vocab_size=19, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=24,
                    max_position_embeddings=12, hidden_dropout_prob=0, attention_probs_dropout_prob=0, attn_implementation="eager")
tokens, types = integers("tokens", (3, 8), 19), integers("types", (3, 8), 2)
mask = (torch.arange(8) < torch.tensor([[8], [5], [1]])).long()


def f(model):
    result = model(tokens, mask, types)
    x = torch.cat([(result.last_hidden_state * mask[..., None]).flatten(), result.pooler_output.flatten()])
    return (x - values("target", x.shape)).square().mean(), x


write("bert.golden", BertModel(config).double(), f)
