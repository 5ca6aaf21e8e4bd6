"""The layers of bench/layers.cpp in PyTorch: a function of x, of the same sizes."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def of(sizes, layer, call=None):
    return sizes, layer, call or (lambda x: layer(x))


labels = lambda count, classes: torch.randint(0, classes, (count,))


def loss(sizes, function, *more):
    return sizes, None, lambda x: function(x, *more)


def make(name):
    """Sizes of x, a module or None, and what is called."""
    image, rows = (16, 64, 56, 56), (1024, 1000)
    target = lambda: torch.sigmoid(torch.randn(rows))
    attention = lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True)

    def embedding(module, index, sizes):
        return sizes, module, lambda x: module(index) * x

    def of_itself(module, call):
        return (8, 128, 256), module, lambda x: call(module, x)

    transformer = dict(dim_feedforward=1024, dropout=0.0, batch_first=True)
    second = torch.randn(1024, 512)
    return {
        "linear": lambda: of((1024, 512), nn.Linear(512, 512)),
        "conv1d": lambda: of((16, 64, 256), nn.Conv1d(64, 64, 3, padding=1)),
        "conv2d": lambda: of((8, 64, 56, 56), nn.Conv2d(64, 64, 3, padding=1)),
        "conv3d": lambda: of((2, 16, 16, 32, 32), nn.Conv3d(16, 16, 3, padding=1)),
        "conv-transpose2d": lambda: of((8, 64, 28, 28), nn.ConvTranspose2d(64, 32, 2, stride=2)),
        "max-pool2d": lambda: of(image, nn.MaxPool2d(3, stride=2, padding=1)),
        "avg-pool2d": lambda: of(image, nn.AvgPool2d(2)),
        "adaptive-avg-pool2d": lambda: of(image, nn.AdaptiveAvgPool2d(7)),
        "batch-norm2d": lambda: of(image, nn.BatchNorm2d(64)),
        "group-norm": lambda: of(image, nn.GroupNorm(8, 64)),
        "instance-norm2d": lambda: of(image, nn.InstanceNorm2d(64)),
        "layer-norm": lambda: of((2048, 512), nn.LayerNorm(512)),
        "rms-norm": lambda: of((2048, 512), nn.RMSNorm(512)),
        "dropout": lambda: of((2048, 512), nn.Dropout()),
        "gelu": lambda: loss((2048, 1024), F.gelu),
        "silu": lambda: loss((2048, 1024), F.silu),
        "softmax": lambda: loss((2048, 1024), lambda x: F.softmax(x, -1)),
        "embedding": lambda: embedding(nn.Embedding(10000, 256), labels(64 * 128, 10000), (64 * 128, 256)),
        "embedding-bag": lambda: embedding(nn.EmbeddingBag(10000, 256), labels(1024 * 16, 10000).reshape(1024, 16), (1024, 256)),
        "attention": lambda: loss((8, 8, 128, 64), attention),
        "multihead-attention": lambda: of_itself(nn.MultiheadAttention(256, 8, batch_first=True),
                                                 lambda m, x: m(x, x, x, need_weights=False)[0]),
        "transformer-encoder-layer": lambda: of_itself(nn.TransformerEncoderLayer(256, 8, **transformer), lambda m, x: m(x)),
        "transformer-decoder-layer": lambda: of_itself(nn.TransformerDecoderLayer(256, 8, **transformer), lambda m, x: m(x, x)),
        **{name: lambda kind=kind: ((50, 32, 128), kind, lambda x: kind(x)[0])
           for name, kind in (("rnn", nn.RNN(128, 128)), ("lstm", nn.LSTM(128, 128)), ("gru", nn.GRU(128, 128)))},
        "cross-entropy": lambda: loss(rows, F.cross_entropy, labels(1024, 1000)),
        "cross-entropy-smoothed": lambda: loss(rows, lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1), labels(1024, 1000)),
        "bce-with-logits": lambda: loss(rows, F.binary_cross_entropy_with_logits, target()),
        "smooth-l1": lambda: loss(rows, F.smooth_l1_loss, target()),
        "kl-div": lambda: loss(rows, F.kl_div, target()),
        "cosine-embedding": lambda: loss((1024, 512), F.cosine_embedding_loss, second, torch.ones(1024)),
        "triplet": lambda: loss((1024, 512), lambda x: F.triplet_margin_loss(x, second, second + 0.1)),
        "ctc": lambda: loss((100, 16, 32), lambda x: F.ctc_loss(
            F.log_softmax(x, -1), 1 + labels(16 * 20, 31).reshape(16, 20), torch.full((16,), 100), torch.full((16,), 20))),
    }[name]()


def forward_backward(name):
    sizes, module, call = make(name)
    x = torch.randn(sizes, requires_grad=True)
    upstream = torch.randn_like(call(x))
    parameters = list(module.parameters()) if module else []

    def step():
        for value in (x, *parameters):
            value.grad = None
        call(x).backward(upstream)
    return step
