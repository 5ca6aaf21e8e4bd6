"""autocast_golden.py > autocast_golden.inc: which dtype the layers of PyTorch give under autocast to bf16. A row:
{name, on the CPU of f32, on the CPU of bf16, on CUDA of f32, on CUDA of bf16}; the first word is what the layer is
given, parameters are f32. Where PyTorch refuses the call the entry is empty. The columns of CUDA need no device: the
tensors are fake ones.
"""
import warnings

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

warnings.simplefilter("ignore")
torch.backends.cudnn.enabled = False  # its recurrent layers need a device; those without it have the same rule
NAMES = {torch.float32: "f32", torch.bfloat16: "bf16"}
LAYERS = {}


def case(name, layer, *inputs, of=lambda result: result):
    LAYERS[name] = (layer, inputs, of)


def first(result):
    return result[0]


def second(result):
    return result[1]


r = torch.rand
for axes, shape in (1, (2, 2, 8)), (2, (2, 2, 8, 8)), (3, (2, 2, 8, 8, 8)):
    x = r(shape)
    for name, arguments in {"Conv": (2, 3, 3), "ConvTranspose": (2, 3, 3), "AvgPool": (2,), "MaxPool": (2,), "AdaptiveAvgPool": (2,),
                            "AdaptiveMaxPool": (2,), "BatchNorm": (2,), "InstanceNorm": (2,), "ReflectionPad": (1,),
                            "ReplicationPad": (1,), "ZeroPad": (1,), "CircularPad": (1,), "ConstantPad": (1, 0.5),
                            "Dropout": ()}.items():
        case(f"{name}{axes}d", getattr(nn, f"{name}{axes}d")(*arguments), x)
    case(f"MaxUnpool{axes}d", getattr(nn, f"MaxUnpool{axes}d")(2), *getattr(nn, f"MaxPool{axes}d")(2, return_indices=True)(x))
case("FractionalMaxPool2d", nn.FractionalMaxPool2d(2, output_size=3), r(2, 2, 8, 8))
case("FractionalMaxPool3d", nn.FractionalMaxPool3d(2, output_size=3), r(2, 2, 8, 8, 8))
for name in ("ReLU ReLU6 SELU SiLU Mish Tanh Sigmoid Hardsigmoid Hardswish LogSigmoid Softsign Tanhshrink Identity GELU ELU CELU "
             "LeakyReLU Softshrink Hardshrink GLU Softplus Hardtanh RReLU PReLU Dropout AlphaDropout FeatureAlphaDropout").split():
    case(name, getattr(nn, name)(), r(2, 4))
for name in "Softmax", "LogSoftmax", "Softmin":
    case(name, getattr(nn, name)(-1), r(2, 4))
case("Threshold", nn.Threshold(0.1, 0.0), r(2, 4))
case("Flatten", nn.Flatten(), r(2, 4, 3))
case("Unflatten", nn.Unflatten(1, (2, 2)), r(2, 4))
case("Linear", nn.Linear(4, 3), r(2, 4))
case("Bilinear", nn.Bilinear(4, 4, 3), r(2, 4), r(2, 4))
case("Embedding", nn.Embedding(5, 4), torch.tensor([1, 2]))
case("EmbeddingBag", nn.EmbeddingBag(5, 4), torch.tensor([[1, 2]]))
case("LayerNorm", nn.LayerNorm(4), r(2, 4))
case("RMSNorm", nn.RMSNorm(4), r(2, 4))
case("GroupNorm", nn.GroupNorm(2, 4), r(2, 4, 3))
case("LocalResponseNorm", nn.LocalResponseNorm(2), r(2, 4, 3))

x = r(3, 2, 4)
for name in "RNN", "LSTM", "GRU":
    case(name, getattr(nn, name)(4, 4), x, of=first)
case("RNNCell", nn.RNNCell(4, 4), r(2, 4))
case("RNNCell of relu", nn.RNNCell(4, 4, nonlinearity="relu"), r(2, 4))
case("LSTMCell", nn.LSTMCell(4, 4), r(2, 4), of=first)
case("LSTMCell's cells", nn.LSTMCell(4, 4), r(2, 4), of=second)
case("GRUCell", nn.GRUCell(4, 4), r(2, 4))
case("MultiheadAttention", nn.MultiheadAttention(4, 2), x, x, x, of=first)
case("MultiheadAttention's weights", nn.MultiheadAttention(4, 2), x, x, x, of=second)
encoder_layer, decoder_layer = nn.TransformerEncoderLayer(4, 2, 8), nn.TransformerDecoderLayer(4, 2, 8)
case("TransformerEncoderLayer", encoder_layer, x)
case("TransformerEncoderLayer with norm_first", nn.TransformerEncoderLayer(4, 2, 8, norm_first=True), x)
case("TransformerDecoderLayer", decoder_layer, x, x)
case("TransformerDecoderLayer with norm_first", nn.TransformerDecoderLayer(4, 2, 8, norm_first=True), x, x)
case("TransformerEncoder", nn.TransformerEncoder(encoder_layer, 2, enable_nested_tensor=False), x)
case("TransformerDecoder", nn.TransformerDecoder(decoder_layer, 2), x, x)
case("Transformer", nn.Transformer(4, 2, 1, 1, 8), x, x)

image = r(1, 4, 4, 4)
case("Upsample", nn.Upsample(scale_factor=2), image)
case("Upsample, linear", nn.Upsample(scale_factor=2, mode="linear"), r(1, 2, 4))
case("Upsample, bilinear", nn.Upsample(scale_factor=2, mode="bilinear"), image)
case("Upsample, bicubic", nn.Upsample(scale_factor=2, mode="bicubic"), image)
case("Upsample, trilinear", nn.Upsample(scale_factor=2, mode="trilinear"), r(1, 2, 4, 4, 4))
case("UpsamplingNearest2d", nn.UpsamplingNearest2d(scale_factor=2), image)
case("UpsamplingBilinear2d", nn.UpsamplingBilinear2d(scale_factor=2), image)
case("Unfold", nn.Unfold(2), image)
case("Fold", nn.Fold((4, 4), 2), r(1, 8, 9))
for name in "PixelShuffle", "PixelUnshuffle", "ChannelShuffle":
    case(name, getattr(nn, name)(2), image)

a, b, labels = r(2, 4), r(2, 4), torch.tensor([0, 1])
for name in ("CosineSimilarity PairwiseDistance L1Loss MSELoss SmoothL1Loss HuberLoss BCELoss BCEWithLogitsLoss KLDivLoss "
             "PoissonNLLLoss SoftMarginLoss HingeEmbeddingLoss MultiLabelSoftMarginLoss").split():
    case(name, getattr(nn, name)(), a, b)
for name in "CrossEntropyLoss", "NLLLoss", "MultiMarginLoss":
    case(name, getattr(nn, name)(), a, labels)
case("MultiLabelMarginLoss", nn.MultiLabelMarginLoss(), a, torch.tensor([[0, 1, -1, -1], [1, -1, -1, -1]]))
case("GaussianNLLLoss", nn.GaussianNLLLoss(), a, b, 1.0)
case("MarginRankingLoss", nn.MarginRankingLoss(), r(4), r(4), torch.ones(4))
case("CosineEmbeddingLoss", nn.CosineEmbeddingLoss(), a, b, torch.ones(2))
case("TripletMarginLoss", nn.TripletMarginLoss(), a, b, b)
case("CTCLoss", nn.CTCLoss(), r(5, 1, 4).log_softmax(-1), torch.tensor([[1, 2]]), torch.tensor([5]), torch.tensor([2]))


def given(dtype, device):
    """A function from an input to one of this dtype, where it is floating, on this device."""

    def convert(value):
        if not isinstance(value, torch.Tensor):
            return value
        return value.to(dtype if value.is_floating_point() else value.dtype) if device == "cpu" else torch.empty(
            value.shape, dtype=dtype if value.is_floating_point() else value.dtype, device=device)

    return convert


def on_cpu(layer, inputs, dtype):
    with torch.autocast("cpu", torch.bfloat16):
        return layer(*map(given(dtype, "cpu"), inputs))


def on_cuda(layer, inputs, dtype):
    with FakeTensorMode(allow_non_fake_inputs=True):
        state = dict([*layer.named_parameters(), *layer.named_buffers()])
        state = {name: torch.empty(value.shape, dtype=value.dtype, device="cuda") for name, value in state.items()}
        inputs = tuple(map(given(dtype, "cuda"), inputs))
        torch.set_autocast_enabled("cuda", True)
        try:
            return torch.func.functional_call(layer, state, inputs)
        finally:
            torch.set_autocast_enabled("cuda", False)
            torch.clear_autocast_cache()


torch.set_autocast_dtype("cuda", torch.bfloat16)
for name, (layer, inputs, of) in LAYERS.items():
    row = []
    for run in on_cpu, on_cuda:
        for dtype in torch.float32, torch.bfloat16:
            try:
                row.append(NAMES[of(run(layer, inputs, dtype)).dtype])
            except RuntimeError:  # it is refused, or wants a device
                row.append("")
    print(f'{{"{name}", ' + ", ".join(f'"{each}"' for each in row) + "},")
