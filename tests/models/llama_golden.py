"""llama_golden.py: writes llama.golden and mixtral.golden, what Hugging Face's models give."""
import torch.nn.functional as F
from transformers import LlamaConfig, LlamaForCausalLM, MixtralConfig, MixtralForCausalLM

from golden import integers, keep_float64, write

keep_float64()
sizes = dict(vocab_size=19, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, rope_theta=500000.0, rms_norm_eps=1e-5, max_position_embeddings=32,
             tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, attn_implementation="eager")
tokens = integers("tokens", (2, 9), 19)


def f(model):
    logits = model(tokens[:, :-1]).logits
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()), logits


# Of the two pairs, which turn once in 6.3 and in 4,443 positions, the first is scaled in part and the second wholly.
scaling = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
               original_max_position_embeddings=16)
write("llama.golden", LlamaForCausalLM(LlamaConfig(rope_parameters=dict(rope_theta=500000.0, **scaling),
                                                   **sizes)).double(), f)
write("mixtral.golden", MixtralForCausalLM(MixtralConfig(num_local_experts=4, experts_implementation="eager",
                                               **sizes)).double(), f)
