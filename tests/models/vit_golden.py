"""vit_golden.py: writes vit.golden, dinov2.golden and clip.golden, what Hugging Face's models give."""
import torch
import torch.nn.functional as F
from transformers import (CLIPConfig, CLIPModel, Dinov2WithRegistersConfig, Dinov2WithRegistersModel, ViTConfig,
                          ViTForImageClassification)

from golden import integers, keep_float64, values, write

keep_float64()
sizes = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=24, image_size=12, patch_size=4)
images, labels = values("images", (3, 3, 12, 12)), integers("labels", (3,), 7)


def replaced(name, *pairs):
    for before, after in pairs:
        name = name.replace(before, after)
    return name


ATTENTION = [(f"attention.{short}_proj", f"attention.attention.{long}")
             for short, long in (("q", "query"), ("k", "key"), ("v", "value"))] + [("attention.o_proj", "attention.output.dense")]


def classify(model):
    logits = model(images).logits
    return F.cross_entropy(logits, labels), logits


vit = ViTForImageClassification(ViTConfig(num_labels=7, layer_norm_eps=1e-6, hidden_dropout_prob=0, attn_implementation="eager", **sizes))
write("vit.golden", vit.double(), classify, in_file=lambda name: replaced(
    name, ("vit.layers", "vit.encoder.layer"), ("mlp.fc1", "intermediate.dense"), ("mlp.fc2", "output.dense"), *ATTENTION))


def features(model):
    tokens = model(images).last_hidden_state
    return (tokens - values("target", tokens.shape)).square().mean(), tokens


dino = Dinov2WithRegistersModel(Dinov2WithRegistersConfig(num_register_tokens=2, mlp_ratio=2, attn_implementation="eager",
                                                          **{k: v for k, v in sizes.items() if k != "intermediate_size"}))
write("dinov2.golden", dino.double(), features, skip=("embeddings.mask_token",), in_file=lambda name: replaced(name, *ATTENTION))

tokens = integers("tokens", (3, 8), 18)
tokens[:, 5] = 18  # the end


def pairs(model):
    result = model(input_ids=tokens, pixel_values=images, return_loss=True)
    return result.loss, result.logits_per_text


text = dict(hidden_size=12, num_hidden_layers=2, num_attention_heads=2, intermediate_size=20, vocab_size=19,
            max_position_embeddings=10, eos_token_id=18, bos_token_id=17, pad_token_id=0)
clip = CLIPModel(CLIPConfig(text_config=text, vision_config=sizes, projection_dim=10, attn_implementation="eager"))
write("clip.golden", clip.double(), pairs, rate=0.02)
