"""models_peer.py NAME forward|training eager|compile: the models of bench/models.cpp as torchvision, Hugging Face and
PyTorch have them, of the same sizes, in f32 on the CPU, taking turns (turns.py). A training step has its loss compiled,
and the fused AdamW."""
import os
import sys

import torch
import torch.nn.functional as F

import cases
from turns import take_turns

torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
torch.manual_seed(0)
VOCABULARY, CLASSES = 4000, 100


def tokens(*shape, below=VOCABULARY):
    return torch.randint(0, below, shape)


def classify(logits, labels):
    return F.cross_entropy(logits.flatten(0, -2), labels.flatten())


def images(model, batch, size):
    labels = tokens(batch, below=CLASSES)
    return model, lambda m, x: m(x), lambda y: classify(y, labels), (torch.randn(batch, 3, size, size),)


def resnet18():
    import torchvision
    return images(torchvision.models.resnet18(num_classes=CLASSES), 4, 96)


def efficientnet():
    import torchvision
    model = torchvision.models.efficientnet_b0(num_classes=CLASSES, dropout=0, stochastic_depth_prob=0)
    return images(model, 4, 96)


def unet():
    from diffusers import UNet2DModel
    model = UNet2DModel(
        sample_size=32, in_channels=3, out_channels=3, block_out_channels=(32, 64, 64), layers_per_block=1, norm_num_groups=8,
        norm_eps=1e-6, attention_head_dim=None, downsample_padding=0, flip_sin_to_cos=False, freq_shift=1,
        down_block_types=("DownBlock2D", "AttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "AttnUpBlock2D", "UpBlock2D"))
    noise = torch.randn(4, 3, 32, 32)
    return (model, lambda m, x, t: m(x, t).sample, lambda y: F.mse_loss(y, noise),
            (torch.randn(4, 3, 32, 32), tokens(4, below=1000)))


def decoder(model):
    labels = tokens(4, 128)
    return model, lambda m, x: m(x, use_cache=False).logits, lambda y: classify(y, labels), (tokens(4, 128),)


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    return decoder(GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, n_positions=128, n_embd=256, n_layer=4, n_head=4,
                                              embd_pdrop=0, attn_pdrop=0, resid_pdrop=0)))


LLAMA = dict(vocab_size=VOCABULARY, hidden_size=256, intermediate_size=688, num_attention_heads=8, num_key_value_heads=2,
             max_position_embeddings=128, rms_norm_eps=1e-5, tie_word_embeddings=False)


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM
    return decoder(LlamaForCausalLM(LlamaConfig(num_hidden_layers=4, **LLAMA)))


def mixtral():
    from transformers import MixtralConfig, MixtralForCausalLM
    return decoder(MixtralForCausalLM(MixtralConfig(num_hidden_layers=2, num_local_experts=4, **LLAMA)))


def bert():
    from transformers import BertConfig, BertModel
    model = BertModel(BertConfig(vocab_size=VOCABULARY, hidden_size=256, num_hidden_layers=4, num_attention_heads=4,
                                 intermediate_size=1024, max_position_embeddings=64, hidden_dropout_prob=0,
                                 attention_probs_dropout_prob=0))
    target = torch.randn(8, 256)
    return (model, lambda m, x, mask: m(x, mask).pooler_output, lambda y: F.mse_loss(y, target),
            (tokens(8, 64), torch.ones(8, 64, dtype=torch.int64)))


def vit():
    from transformers import ViTConfig, ViTForImageClassification
    model = ViTForImageClassification(ViTConfig(
        image_size=96, patch_size=16, hidden_size=192, num_hidden_layers=6, num_attention_heads=3, intermediate_size=768,
        num_labels=CLASSES, hidden_dropout_prob=0, attention_probs_dropout_prob=0))
    model, _, loss, inputs = images(model, 8, 96)
    return model, lambda m, x: m(x).logits, loss, inputs


def whisper():
    from transformers import WhisperConfig, WhisperForConditionalGeneration
    model = WhisperForConditionalGeneration(WhisperConfig(
        vocab_size=VOCABULARY, d_model=192, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=768, decoder_ffn_dim=768, num_mel_bins=80, max_source_positions=100,
        max_target_positions=32, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, dropout=0))
    labels = tokens(4, 32)
    return (model, lambda m, x, t: m(input_features=x, decoder_input_ids=t, use_cache=False).logits,
            lambda y: classify(y, labels), (torch.randn(4, 80, 200), tokens(4, 32)))


class LanguageModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = torch.nn.Embedding(VOCABULARY, 200)
        self.rnn = torch.nn.LSTM(200, 200, 2)
        self.decoder = torch.nn.Linear(200, VOCABULARY)

    def forward(self, x, state):
        return self.decoder(self.rnn(self.encoder(x), (state, state))[0])


def lstm():
    labels = tokens(35, 20)
    return (LanguageModel(), lambda m, x, state: m(x, state), lambda y: classify(y, labels),
            (tokens(35, 20), torch.zeros(2, 20, 200)))


class Heads(torch.nn.Module):
    def __init__(self):
        super().__init__()
        from torchvision.models.detection.faster_rcnn import FastRCNNPredictor, TwoMLPHead
        from torchvision.models.detection.mask_rcnn import MaskRCNNHeads, MaskRCNNPredictor
        from torchvision.models.detection.rpn import RPNHead
        from torchvision.ops import MultiScaleRoIAlign
        self.rpn, self.box_head, self.box_predictor = RPNHead(64, 3), TwoMLPHead(49 * 64, 256), FastRCNNPredictor(256, 20)
        self.mask_head, self.mask_predictor = MaskRCNNHeads(64, (64,) * 4, 1), MaskRCNNPredictor(64, 64, 20)
        self.pools = [MultiScaleRoIAlign(["0", "1"], size, 2) for size in (7, 14)]

    def forward(self, a, b, boxes, classes):
        features, boxes, sizes = {"0": a, "1": b}, [boxes[0::2], boxes[1::2]], [(256, 256)] * 2
        parts = [part for both in self.rpn([a, b]) for part in both]
        parts += self.box_predictor(self.box_head(self.pools[0](features, boxes, sizes)))
        masks = self.mask_predictor(self.mask_head(self.pools[1](features, boxes, sizes)))
        parts.append(masks[torch.arange(len(classes)), classes])
        return torch.cat([part.flatten() for part in parts])


def mask_rcnn():
    i = torch.arange(32.0)[:, None]
    boxes = torch.cat([i * 6, i * 5, i * 6 + 32, i * 5 + 64], 1)
    return (Heads(), lambda m, *inputs: m(*inputs), lambda y: y.square().mean(),
            (torch.randn(2, 64, 64, 64), torch.randn(2, 64, 32, 32), boxes, tokens(32, below=20)))


def full_images(make, batch):
    import torchvision
    return getattr(torchvision.models, make)(), lambda m, x: m(x), None, (torch.randn(batch, 3, 224, 224),)


def bert_base(batch):
    from transformers import BertConfig, BertModel
    return (BertModel(BertConfig()), lambda m, x, mask: m(x, mask).pooler_output, None,
            (tokens(batch, 128, below=30522), torch.ones(batch, 128, dtype=torch.int64)))


def gpt2_small():
    from transformers import GPT2Config, GPT2LMHeadModel
    return GPT2LMHeadModel(GPT2Config()), lambda m, x: m(x, use_cache=False).logits, None, (tokens(1, 64, below=50257),)


# Of full size, forward alone.
FULL = {"resnet50-b1": lambda: full_images("resnet50", 1), "resnet50-b8": lambda: full_images("resnet50", 8),
        "efficientnet-b0-b1": lambda: full_images("efficientnet_b0", 1), "bert-base-b1": lambda: bert_base(1),
        "bert-base-b8": lambda: bert_base(8), "gpt2-b1": gpt2_small}

MODELS = {"resnet18": resnet18, "efficientnet-b0": efficientnet, "unet": unet, "gpt2": gpt2, "llama": llama,
          "mixtral": mixtral, "bert": bert, "vit": vit, "whisper": whisper, "lstm": lstm, "mask-rcnn": mask_rcnn} | FULL


def main(name, mode, variant):
    model, outputs, loss, inputs = MODELS[name]()
    compiled = cases.compiled_by(variant)
    if mode == "forward":
        model.eval()
        return cases.call(compiled(lambda *inputs: outputs(model, *inputs)), *inputs)
    model.train()
    loss_of = compiled(lambda *inputs: loss(outputs(model, *inputs)))
    return cases.training(lambda: loss_of(*inputs), torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True))


if __name__ == "__main__":
    take_turns(main(*sys.argv[1:4]))
