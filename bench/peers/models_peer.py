"""models_peer.py NAME forward|training eager|compile: the models of bench/models.cpp as torchvision, Hugging Face and
PyTorch have them, of the same sizes, in f32 on the CPU, taking turns (turns.py). A training step has its loss compiled,
and the fused AdamW. torch_gpu_peer.py has those of bench/gpu_models.cpp from here."""
import os
import sys

import torch
import torch.nn.functional as F

import cases
from turns import take_turns

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 2)))
torch.manual_seed(0)
VOCABULARY, CLASSES = 4000, 100


def tokens(*shape, below=VOCABULARY):
    return torch.randint(0, below, shape)


def classify(logits, labels):
    return F.cross_entropy(logits.flatten(0, -2), labels.flatten())


def images(model, batch, size, classes=CLASSES):
    labels = tokens(batch, below=classes)
    return model, lambda m, x: m(x), lambda y: classify(y, labels), (torch.randn(batch, 3, size, size),)


def resnet18(batch=4, size=96, classes=CLASSES):
    import torchvision
    return images(torchvision.models.resnet18(num_classes=classes), batch, size, classes)


def efficientnet(batch=4, size=96, classes=CLASSES):
    import torchvision
    model = torchvision.models.efficientnet_b0(num_classes=classes, dropout=0, stochastic_depth_prob=0)
    return images(model, batch, size, classes)


def unet(batch=4, widths=(32, 64, 64), blocks=1, groups=8):
    from diffusers import UNet2DModel
    down, up = (["Attn" * (level == 1) + part for level in range(len(widths))] for part in ("DownBlock2D", "UpBlock2D"))
    model = UNet2DModel(
        sample_size=32, in_channels=3, out_channels=3, block_out_channels=widths, layers_per_block=blocks,
        norm_num_groups=groups, norm_eps=1e-6, attention_head_dim=None, downsample_padding=0, flip_sin_to_cos=False,
        freq_shift=1, down_block_types=down, up_block_types=up[::-1])
    noise = torch.randn(batch, 3, 32, 32)
    return (model, lambda m, x, t: m(x, t).sample, lambda y: F.mse_loss(y.float(), noise),
            (torch.randn(batch, 3, 32, 32), tokens(batch, below=1000)))


def decoder(model, batch=4, time=128, vocabulary=VOCABULARY):
    text, labels = (tokens(batch, time, below=vocabulary) for _ in range(2))
    return model, lambda m, x: m(x, use_cache=False).logits, lambda y: classify(y, labels), (text,)


def gpt2(batch=4, time=128, vocabulary=VOCABULARY, width=256, layers=4, heads=4):
    from transformers import GPT2Config, GPT2LMHeadModel
    return decoder(GPT2LMHeadModel(GPT2Config(vocab_size=vocabulary, n_positions=time, n_embd=width, n_layer=layers, n_head=heads,
                                              embd_pdrop=0, attn_pdrop=0, resid_pdrop=0)), batch, time, vocabulary)


LLAMA = dict(vocab_size=VOCABULARY, hidden_size=256, intermediate_size=688, num_attention_heads=8, num_key_value_heads=2,
             max_position_embeddings=128, rms_norm_eps=1e-5, tie_word_embeddings=False)


def llama(batch=4, time=128, layers=4, **sizes):
    from transformers import LlamaConfig, LlamaForCausalLM
    sizes = LLAMA | sizes
    return decoder(LlamaForCausalLM(LlamaConfig(num_hidden_layers=layers, **sizes)), batch, time, sizes["vocab_size"])


def mixtral(batch=4, time=128, layers=2, experts=4, **sizes):
    from transformers import MixtralConfig, MixtralForCausalLM
    sizes = LLAMA | sizes
    return decoder(MixtralForCausalLM(MixtralConfig(num_hidden_layers=layers, num_local_experts=experts, **sizes)), batch, time,
                   sizes["vocab_size"])


def bert(batch=8, time=64, vocabulary=VOCABULARY, width=256, layers=4, heads=4, context=64):
    from transformers import BertConfig, BertModel
    model = BertModel(BertConfig(vocab_size=vocabulary, hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads,
                                 intermediate_size=4 * width, max_position_embeddings=context, hidden_dropout_prob=0,
                                 attention_probs_dropout_prob=0))
    target = torch.randn(batch, width)
    return (model, lambda m, x, mask: m(x, mask).pooler_output, lambda y: F.mse_loss(y.float(), target),
            (tokens(batch, time, below=vocabulary), torch.ones(batch, time, dtype=torch.int64)))


def vit(batch=8, size=96, width=192, layers=6, heads=3, classes=CLASSES):
    from transformers import ViTConfig, ViTForImageClassification
    model = ViTForImageClassification(ViTConfig(
        image_size=size, patch_size=16, hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads,
        intermediate_size=4 * width, num_labels=classes, hidden_dropout_prob=0, attention_probs_dropout_prob=0))
    model, _, loss, inputs = images(model, batch, size, classes)
    return model, lambda m, x: m(x).logits, loss, inputs


def whisper(batch=4, frames=200, time=32, vocabulary=VOCABULARY, width=192, layers=2, heads=4, context=32):
    from transformers import WhisperConfig, WhisperForConditionalGeneration
    model = WhisperForConditionalGeneration(WhisperConfig(
        vocab_size=vocabulary, d_model=width, encoder_layers=layers, decoder_layers=layers, encoder_attention_heads=heads,
        decoder_attention_heads=heads, encoder_ffn_dim=4 * width, decoder_ffn_dim=4 * width, num_mel_bins=80,
        max_source_positions=frames // 2, max_target_positions=context, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        decoder_start_token_id=1, dropout=0))
    text, labels = (tokens(batch, time, below=vocabulary) for _ in range(2))
    return (model, lambda m, x, t: m(input_features=x, decoder_input_ids=t, use_cache=False).logits,
            lambda y: classify(y, labels), (torch.randn(batch, 80, frames), text))


def clip(batch=4, size=64, **sizes):
    """Texts end with the token that has the greatest number."""
    from transformers import CLIPConfig, CLIPModel
    model = CLIPModel(CLIPConfig(vision_config=sizes.get("vision", {}) | {"image_size": size, "patch_size": 32},
                                 text_config=sizes.get("text", {}), projection_dim=512))
    text, own = tokens(batch, 77, below=49000), torch.arange(batch)
    text[:, -1] = 49407
    return (model, lambda m, x, t: m(input_ids=t, pixel_values=x).logits_per_text,
            lambda y: (F.cross_entropy(y, own) + F.cross_entropy(y.t(), own)) / 2, (torch.randn(batch, 3, size, size), text))


class LanguageModel(torch.nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.encoder = torch.nn.Embedding(vocabulary, width)
        self.rnn = torch.nn.LSTM(width, width, 2)
        self.decoder = torch.nn.Linear(width, vocabulary)

    def forward(self, x, state):
        return self.decoder(self.rnn(self.encoder(x), (state, state))[0])


def lstm(vocabulary=VOCABULARY, width=200):
    text, labels = (tokens(35, 20, below=vocabulary) for _ in range(2))
    return (LanguageModel(vocabulary, width), lambda m, x, state: m(x, state), lambda y: classify(y, labels),
            (text, torch.zeros(2, 20, width)))


class Heads(torch.nn.Module):
    def __init__(self, channels, hidden, classes, side):
        super().__init__()
        from torchvision.models.detection.faster_rcnn import FastRCNNPredictor, TwoMLPHead
        from torchvision.models.detection.mask_rcnn import MaskRCNNHeads, MaskRCNNPredictor
        from torchvision.models.detection.rpn import RPNHead
        from torchvision.ops import MultiScaleRoIAlign
        self.rpn, self.box_head, self.box_predictor = (
            RPNHead(channels, 3), TwoMLPHead(49 * channels, hidden), FastRCNNPredictor(hidden, classes))
        self.mask_head = MaskRCNNHeads(channels, (channels,) * 4, 1)
        self.mask_predictor = MaskRCNNPredictor(channels, channels, classes)
        pools = [MultiScaleRoIAlign(["0", "1"], size, 2) for size in (7, 14)]
        self.pools = [lambda features, *rest, pool=pool: pool(  # which has no bf16
            {key: one.float() for key, one in features.items()}, *rest).to(features["0"].dtype) for pool in pools]
        self.side = side

    def forward(self, a, b, boxes, classes):
        features, boxes, sizes = {"0": a, "1": b}, [boxes[0::2].float(), boxes[1::2].float()], [(self.side, self.side)] * 2
        parts = [part for both in self.rpn([a, b]) for part in both]
        parts += self.box_predictor(self.box_head(self.pools[0](features, boxes, sizes)))
        masks = self.mask_predictor(self.mask_head(self.pools[1](features, boxes, sizes)))
        parts.append(masks[torch.arange(len(classes)), classes])
        return torch.cat([part.flatten() for part in parts])


def mask_rcnn(channels=64, hidden=256, classes=20, side=256, count=32, apart=1):
    i = torch.arange(float(count))[:, None]
    x, y = (i * 6 / apart).floor(), (i * 5 / apart).floor()
    features = [torch.randn(2, channels, side // stride, side // stride) for stride in (4, 8)]
    return (Heads(channels, hidden, classes, side), lambda m, *inputs: m(*inputs), lambda y: y.square().mean(),
            (*features, torch.cat([x, y, x + 32, y + 64], 1), tokens(count, below=classes)))


def full_images(make, batch):
    import torchvision
    return getattr(torchvision.models, make)(), lambda m, x: m(x), None, (torch.randn(batch, 3, 224, 224),)


def bert_base(batch):
    from transformers import BertConfig, BertModel
    return (BertModel(BertConfig()), lambda m, x, mask: m(x, mask).pooler_output, None,
            (tokens(batch, 128, below=30522), torch.ones(batch, 128, dtype=torch.int64)))


def minilm():
    """The embedding of each text: the mean over its tokens, of length 1."""
    from transformers import BertConfig, BertModel
    config = BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)

    def embed(m, x, mask):
        seen = mask.unsqueeze(-1).to(torch.float32)
        return torch.nn.functional.normalize((m(x, mask).last_hidden_state * seen).sum(1) / seen.sum(1).clamp(min=1e-9), dim=-1)
    return (BertModel(config, add_pooling_layer=False), embed, None,
            (tokens(32, 64, below=30522), torch.ones(32, 64, dtype=torch.int64)))


def gpt2_small():
    from transformers import GPT2Config, GPT2LMHeadModel
    return GPT2LMHeadModel(GPT2Config()), lambda m, x: m(x, use_cache=False).logits, None, (tokens(1, 64, below=50257),)


# Of full size, forward alone.
FULL = {"resnet50-b1": lambda: full_images("resnet50", 1), "resnet50-b8": lambda: full_images("resnet50", 8),
        "efficientnet-b0-b1": lambda: full_images("efficientnet_b0", 1), "bert-base-b1": lambda: bert_base(1),
        "bert-base-b8": lambda: bert_base(8), "minilm-b32": minilm, "gpt2-b1": gpt2_small}

MODELS = {"resnet18": resnet18, "efficientnet-b0": efficientnet, "unet": unet, "gpt2": gpt2, "llama": llama,
          "mixtral": mixtral, "bert": bert, "vit": vit, "whisper": whisper, "lstm": lstm, "mask-rcnn": mask_rcnn} | FULL


# Those of bench/gpu_models.cpp.
GPU = {"resnet18": lambda: resnet18(64, 224, 1000), "efficientnet-b0": lambda: efficientnet(64, 224, 1000),
       "unet": lambda: unet(64, (128, 256, 256, 256), 2, 32), "gpt2": lambda: gpt2(8, 1024, 50257, 768, 12, 12),
       "llama": lambda: llama(1, 512, 16, vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_attention_heads=32,
                              num_key_value_heads=8, max_position_embeddings=2048, tie_word_embeddings=True),
       "bert": lambda: bert(32, 128, 30522, 768, 12, 12, 512), "vit": lambda: vit(32, 224, 768, 12, 12, 1000),
       "whisper": lambda: whisper(8, 3000, 128, 51865, 512, 6, 8, 448), "lstm": lambda: lstm(33278, 650),
       "mixtral": lambda: mixtral(2, 512, 8, 8, vocab_size=32000, hidden_size=1024, intermediate_size=3584,
                                  num_attention_heads=16, num_key_value_heads=4, max_position_embeddings=1024),
       "mask-rcnn": lambda: mask_rcnn(256, 1024, 91, 800, 256, 2), "clip": lambda: clip(64, 224)}
SMALL = MODELS | {"clip": lambda: clip(vision={"num_hidden_layers": 2}, text={"num_hidden_layers": 2})}


def step(name, mode, variant, device="cpu"):
    """Of a model of this file in f32; of one on a device, or of a small one NAME-small, in bf16 or, in training, under
    autocast."""
    low = name not in MODELS or device != "cpu"
    with torch.device(device):
        model, outputs, loss, inputs = (SMALL[name.removesuffix("-small")] if name.endswith("-small") else
                                        GPU[name] if low else MODELS[name])()
    compiled = cases.compiled_by(variant)
    if mode == "forward":
        model.eval()
        if low:
            model.to(torch.bfloat16)
            inputs = [x.to(torch.bfloat16) if x.is_floating_point() else x for x in inputs]
        return cases.call(compiled(lambda *inputs: outputs(model, *inputs)), *inputs)
    model.train()

    def loss_of(*inputs):
        with torch.autocast(device, torch.bfloat16, enabled=low):
            return loss(outputs(model, *inputs))
    loss_of = compiled(loss_of)
    return cases.training(lambda: loss_of(*inputs), torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True))


if __name__ == "__main__":
    take_turns(step(*sys.argv[1:4]))
