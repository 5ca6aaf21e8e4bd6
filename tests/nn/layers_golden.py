"""layers_golden.py > layers_golden.inc: what PyTorch's layers give, in float64: results, and gradients of a loss for all
floating inputs and then for all parameters. Numbers of inputs and parameters are sines that golden.hpp makes too: input
number i has the seed 30 + i, parameter number i the seed i.
"""
import torch
import torch.nn.functional as F
from torch import nn

torch.set_default_dtype(torch.float64)


def wave(shape, seed):
    count = 1
    for size in shape:
        count *= size
    return (0.6 * torch.sin(torch.arange(count) * 0.7 + seed)).reshape(shape)


def case(name, shapes, function, model=None):
    """function(model, inputs) gives a list of results; model: a module, or a list of parameters' shapes."""
    if isinstance(model, list):
        parameters = [wave(shape, i).requires_grad_() for i, shape in enumerate(model)]
        model = parameters
    elif model is not None:
        parameters = list(model.parameters())
        for i, parameter in enumerate(parameters):
            parameter.data = wave(parameter.shape, i)
    else:
        parameters = []
    inputs = [wave(shape, 30 + i).requires_grad_() for i, shape in enumerate(shapes)]
    results = function(model, inputs)
    total = sum((value * wave(value.shape, 50 + i)).sum() for i, value in enumerate(results))
    gradients = torch.autograd.grad(total, [*inputs, *parameters])
    numbers = torch.cat([value.detach().flatten() for value in [*results, *gradients]]).tolist()
    text = ", ".join(f"{each:.12g}" for each in numbers)
    print(f'{{"{name}", {{{text}}}}},')


def only(function):
    return lambda model, inputs: [function(*inputs)]


def layer(model, inputs):
    return [model(*inputs)]


# ---- normalizations
case("layer_norm 1", [(2, 3, 4)], layer, nn.LayerNorm(4))
case("layer_norm 2", [(2, 3, 4)], layer, nn.LayerNorm([3, 4], eps=1e-3))
case("layer_norm 3", [(2, 5)], layer, nn.LayerNorm(5, elementwise_affine=False))
case("layer_norm 4", [(2, 5)], layer, nn.LayerNorm(5, bias=False))
case("rms_norm 1", [(2, 3, 4)], layer, nn.RMSNorm(4))
case("rms_norm 2", [(2, 3, 4)], layer, nn.RMSNorm([3, 4], eps=1e-3))
case("rms_norm 3", [(3, 4)], layer, nn.RMSNorm(4, elementwise_affine=False))
case("group_norm 1", [(2, 6, 3)], layer, nn.GroupNorm(2, 6))
case("group_norm 2", [(2, 4)], layer, nn.GroupNorm(2, 4, affine=False))
case("group_norm 3", [(3, 4, 2, 2)], layer, nn.GroupNorm(4, 4, eps=1e-3))


def tracked(model, inputs):
    result = [model(inputs[0]), model(inputs[0] * 2 + 1)]
    return [*result, model.running_mean, model.running_var, model.eval()(inputs[0])]


case("batch_norm 1", [(4, 3)], tracked, nn.BatchNorm1d(3))
case("batch_norm 2", [(3, 2, 4)], tracked, nn.BatchNorm1d(2, momentum=None))
case("batch_norm 3", [(2, 3, 2, 2)], tracked, nn.BatchNorm2d(3, affine=False, eps=1e-3, momentum=0.3))
case("batch_norm 4", [(2, 2, 2, 1, 3)], tracked, nn.BatchNorm3d(2))
case("batch_norm 5", [(2, 3, 2, 2)], layer, nn.BatchNorm2d(3, track_running_stats=False).eval())
case("instance_norm 1", [(2, 3, 4)], layer, nn.InstanceNorm1d(3))
case("instance_norm 2", [(2, 3, 2, 3)], tracked, nn.InstanceNorm2d(3, affine=True, track_running_stats=True))
case("instance_norm 3", [(3, 2, 2, 2)], layer, nn.InstanceNorm3d(3, affine=True))

case("local_response_norm 1", [(2, 5, 3)], only(lambda x: F.local_response_norm(x, 2)))
case("local_response_norm 2", [(2, 5)], only(lambda x: F.local_response_norm(x[:, :, None], 3, 0.5, 0.6, 0.9)[:, :, 0]))
case("local_response_norm 3", [(2, 4, 2, 2)], only(lambda x: F.local_response_norm(x, 5, 0.1)))
case("normalize 1", [(3, 4)], only(F.normalize))
case("normalize 2", [(2, 3, 2)], only(lambda x: F.normalize(x, p=3, dim=-1)))
case("normalize 3", [(3, 4)], only(lambda x: F.normalize(x, p=1, dim=0)))
case("cosine_similarity 1", [(3, 4), (3, 4)], only(F.cosine_similarity))
case("cosine_similarity 2", [(2, 3, 4), (3, 4)], only(lambda a, b: F.cosine_similarity(a, b, dim=-1)))
case("cosine_similarity 3", [(4,), (4,)], only(lambda a, b: F.cosine_similarity(a, b, dim=0, eps=2)))
case("pairwise_distance 1", [(3, 4), (3, 4)], only(F.pairwise_distance))
case("pairwise_distance 2", [(3, 4), (4,)], only(lambda a, b: F.pairwise_distance(a, b, p=1, keepdim=True)))
case("pairwise_distance 3", [(2, 3, 4), (2, 3, 4)], only(lambda a, b: F.pairwise_distance(a, b, p=3, eps=1e-3)))

# ---- embeddings
index = torch.tensor([[0, 3, 1], [4, 0, 3]])
flat = torch.tensor([0, 3, 1, 4, 0, 3, 2])
offsets = torch.tensor([0, 2, 2, 5])
case("embedding 1", [], lambda m, x: [m(index)], nn.Embedding(5, 3))
case("embedding 2", [], lambda m, x: [m(index)], nn.Embedding(5, 3, padding_idx=3))
case("embedding 3", [], lambda m, x: [m(flat)], nn.Embedding(5, 2, padding_idx=-1))
for number, mode in enumerate(["mean", "sum", "max"]):
    case(f"embedding_bag {mode} 1", [], lambda m, x: [m(index)], nn.EmbeddingBag(5, 3, mode=mode))
    case(f"embedding_bag {mode} 2", [], lambda m, x: [m(flat, offsets)], nn.EmbeddingBag(5, 3, mode=mode))
    case(f"embedding_bag {mode} 3", [], lambda m, x: [m(flat, offsets)], nn.EmbeddingBag(5, 3, mode=mode, padding_idx=0))
case("embedding_bag weighted 1", [(2, 3)], lambda m, x: [m(index, per_sample_weights=x[0])], nn.EmbeddingBag(5, 3, mode="sum"))
case("embedding_bag weighted 2", [(7,)], lambda m, x: [m(flat, torch.tensor([0, 2, 2, 5, 7]), x[0])],
     nn.EmbeddingBag(5, 3, mode="sum", include_last_offset=True))

# ---- transformers, bilinear forms, gates
width = dict(dim_feedforward=6, dropout=0.0)
unseen = torch.ones(3, 3, dtype=torch.bool).triu(1)
padding = torch.tensor([[False, False, True], [False, True, True]])
case("encoder_layer 1", [(3, 2, 4)], layer, nn.TransformerEncoderLayer(4, 2, **width))
case("encoder_layer 2", [(2, 3, 4)], lambda m, x: [m(x[0], src_mask=unseen, src_key_padding_mask=padding)],
     nn.TransformerEncoderLayer(4, 2, **width, activation="gelu", norm_first=True, batch_first=True))
case("encoder_layer 3", [(3, 4)], layer, nn.TransformerEncoderLayer(4, 1, **width, bias=False, layer_norm_eps=1e-3))
case("decoder_layer 1", [(3, 2, 4), (5, 2, 4)], layer, nn.TransformerDecoderLayer(4, 2, **width))
case("decoder_layer 2", [(2, 3, 4), (2, 3, 4)], lambda m, x: [m(*x, tgt_mask=unseen, memory_key_padding_mask=padding)],
     nn.TransformerDecoderLayer(4, 2, **width, activation="gelu", norm_first=True, batch_first=True))
case("decoder_layer 3", [(3, 4), (5, 4)], layer, nn.TransformerDecoderLayer(4, 1, **width, bias=False))
encoder_layer = nn.TransformerEncoderLayer(4, 2, **width, batch_first=True)
case("encoder 1", [(2, 3, 4)], layer, nn.TransformerEncoder(encoder_layer, 2, enable_nested_tensor=False))
decoder_layer = nn.TransformerDecoderLayer(4, 2, **width)
case("decoder 1", [(3, 2, 4), (5, 2, 4)], layer, nn.TransformerDecoder(decoder_layer, 2, nn.LayerNorm(4)))
for number, options in enumerate([dict(), dict(batch_first=True, norm_first=True), dict(activation="gelu", bias=False)]):
    model = nn.Transformer(4, 2, 1, 2, **width, **options)
    case(f"transformer {number + 1}", [(5, 5, 4), (5, 5, 4)], lambda m, x: [m(*x, tgt_is_causal=True, tgt_mask=torch.ones(5, 5, dtype=torch.bool).triu(1))], model)
case("bilinear 1", [(3, 4), (3, 2)], layer, nn.Bilinear(4, 2, 3))
case("bilinear 2", [(2, 3, 2), (2, 3, 4)], layer, nn.Bilinear(2, 4, 2, bias=False))
case("bilinear 3", [(4,), (2,)], layer, nn.Bilinear(4, 2, 3))
case("glu 1", [(3, 4)], layer, nn.GLU())
case("glu 2", [(4, 3)], layer, nn.GLU(0))
case("glu 3", [(2, 6, 2)], layer, nn.GLU(1))
case("sequential 1", [(3, 4)], layer, nn.Sequential(nn.Linear(4, 6), nn.PReLU(), nn.Unflatten(1, (2, 3)), nn.Flatten(), nn.Linear(6, 2), nn.Softmax(-1)))
