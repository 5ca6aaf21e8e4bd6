"""torch_gpu_peer.py NAME CASE VARIANT [tiny]: PyTorch's side of a case on a GPU, taking turns (turns.py), with as many calls
between two synchronizations as take about 20 ms. `tiny` runs a small one on the CPU, to see that it works.

Variants: `eager`; `cudnn`, eager with cuDNN's attention; `compile` in its default mode, and `reduce-overhead`; `flex`, its
flex_attention, compiled; `graph`, a whole step captured by hand in a CUDA graph; `sdpa`, attention in one; `copy`, a copy
that moves as many bytes as the case must, and `read`, which reads as many.
"""
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import cases
import models_peer
from decoder import Decoder
from gpt import Block, Gpt
from turns import repeated, take_turns

tiny = sys.argv[-1] == "tiny"
device = "cpu" if tiny else "cuda"
bf16 = torch.bfloat16
torch.manual_seed(0)
torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False


def sized(full):
    return min(full, 32) if tiny else full


def random(*shape, dtype=torch.float32):
    return torch.randn([sized(size) for size in shape], device=device, dtype=dtype)


def random_labels(*shape, classes):
    return torch.randint(0, sized(classes), [sized(size) for size in shape], device=device)


def function(f, *shapes, dtype=torch.float32):
    return lambda variant: cases.call(cases.compiled_by(variant)(f), *(random(*shape, dtype=dtype) for shape in shapes))


def copy(bytes_moved):
    source = random(bytes_moved // 8)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def matmul(dtype, form, size=4096):
    return function(lambda a, b, bias: F.gelu(torch.addmm(bias, a, b), approximate=form), (size, size), (size, size), (size,),
                    dtype=dtype)


def product(m, k, n):
    return function(lambda a, b: a @ b, (m, k), (k, n), dtype=bf16)


def product_f32(tf32, size=4096):
    def make(variant):
        def call(a, b):
            torch.backends.cuda.matmul.allow_tf32 = tf32
            return a @ b
        return function(call, (size, size), (size, size))(variant)
    return make


def product_f8(size=4096):
    """By torch._scaled_mm, with one scale a matrix."""
    def make(variant):
        a, b = (random(size, size).to(torch.float8_e4m3fn) for _ in range(2))
        scale = torch.full((), 0.5, device=device)
        if tiny:
            return lambda: (a.float() @ b.t().float()) * scale * scale
        return lambda: torch._scaled_mm(a, b.t(), scale, scale, out_dtype=bf16)
    return make


def cached_attention(texts, keys, depth):
    """A token of each text over keys in a row, without pages: 32 heads of queries, 8 of keys, in a CUDA graph."""
    def make(variant):
        q = random(texts, 32, 1, depth, dtype=bf16)
        k, v = (random(texts, 8, keys, depth, dtype=bf16) for _ in range(2))

        def call():
            with torch.no_grad():
                return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        return call if tiny else captured(call)
    return make


def experts(count=64, rows=24576, features=2048, outputs=1408):
    """Rows that lie by expert, times the weights of each: in one launch, or with `loop` by as many products, whose sizes the host knows."""
    def make(variant):
        x, weights = random(rows, features, dtype=bf16), random(count, outputs, features, dtype=bf16)
        sizes = torch.bincount(random_labels(rows, classes=count), minlength=sized(count))
        ends = sizes.cumsum(0).to(torch.int32)
        if variant == "eager" and not tiny:
            return lambda: torch._grouped_mm(x, weights.transpose(1, 2), offs=ends)
        parts = sizes.tolist()
        y = x.new_empty(sized(rows), sized(outputs))

        def loop():
            for a, b, c in zip(x.split(parts), weights, y.split(parts)):
                torch.mm(a, b.t(), out=c)
        return loop
    return make


def conv2d(dtype, channels, size, outputs, kernel, stride):
    return function(lambda x, weight: F.conv2d(x, weight, stride=stride, padding=kernel // 2),
                    (32, channels, size, size), (outputs, channels, kernel, kernel), dtype=dtype)


def sum_all(count=64 << 20):
    return lambda variant: copy(4 * count) if variant == "copy" else function(torch.sum, (count,))(variant)


def layernorm(rows=16384, width=4096):
    return lambda variant: cases.layer_norm_gradients(cases.compiled_by(variant), rows, width, device=device, dtype=bf16)


def rmsnorm(rows=16384, width=4096):
    """x + residual and its norm, and the gradients of x, residual and weight."""
    def make(variant):
        def both(x, residual, weight):
            h = x + residual
            return h, F.rms_norm(h, (sized(width),), weight, 1e-6)
        given = [random(rows, width, dtype=bf16).requires_grad_(), random(rows, width, dtype=bf16).requires_grad_(),
                 random(width, dtype=bf16).requires_grad_()]
        return cases.gradients_of_several(cases.compiled_by(variant)(both), [random(rows, width, dtype=bf16) for _ in range(2)],
                                          *given)
    return make


def swiglu(rows=16384, width=8192):
    """silu(gate) * up, and the gradients of both."""
    return lambda variant: cases.gradients(cases.compiled_by(variant)(lambda gate, up: F.silu(gate) * up),
                                           random(rows, width, dtype=bf16), random(rows, width, dtype=bf16),
                                           random(rows, width, dtype=bf16))


def cross_entropy_gradients(rows=8192, classes=50304):
    def make(variant):
        labels = random_labels(rows, classes=classes)
        loss_of = cases.compiled_by(variant)(lambda x: F.cross_entropy(x.float(), labels))
        return cases.gradients(loss_of, None, random(rows, classes, dtype=bf16))
    return make


def adamw(count=100, elements=1 << 20):
    def make(variant):
        if variant == "copy":
            return copy(28 * count * elements)
        return cases.adamw(cases.compiled_by(variant), count, elements, device=device)
    return make


def mlp(batch):
    def make(variant):
        x, y = random(batch, 784), random_labels(batch, classes=10)
        model = cases.mlp().to(device)
        optimizer = torch.optim.Adam(model.parameters(), lr=torch.tensor(1e-3, device=device), capturable=True, fused=True)
        loss_of = cases.compiled_by(variant)(lambda: F.cross_entropy(model(x), y))
        if variant != "graph":
            return cases.training(loss_of, optimizer)

        def step():
            optimizer.zero_grad(set_to_none=False)
            loss_of().backward()
            optimizer.step()
        return captured(step)
    return make


def captured(step):
    """In a CUDA graph, after some steps on a stream of their own, as capturing asks for."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def attention(time, depth, backward=False, dropout=0.0, batch=4, heads=16):
    """Causal."""
    def make(variant):
        q, k, v = (random(batch, heads, time, depth, dtype=bf16).requires_grad_(backward) for _ in range(3))
        given = torch.randn_like(q)

        def call():
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION if variant == "cudnn" else SDPBackend.FLASH_ATTENTION):
                mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
            return torch.autograd.grad(mixed, (q, k, v), given) if backward else mixed
        return call
    return make


def attention_by(mod, time=4096, depth=64, backward=False):
    """Causal, batch 4, 16 heads: `soft-cap` has scores of at most 30, `documents` are of 512 tokens."""
    def make(variant):
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
        q, k, v = (random(4, 16, time, depth, dtype=bf16).requires_grad_(backward) for _ in range(3))
        given, tokens = torch.randn_like(q), q.shape[2]
        document = torch.arange(tokens, device=device) // (8 if tiny else 512)

        def mask(b, h, i, j):
            return (i >= j) & (document[i] == document[j]) if mod == "documents" else i >= j
        blocks = create_block_mask(mask, None, None, tokens, tokens, device=device)
        score = (lambda score, b, h, i, j: 30 * torch.tanh(score / 30)) if mod == "soft-cap" else None
        attend = torch.compile(flex_attention) if variant == "flex" else flex_attention

        def call():
            mixed = attend(q, k, v, score_mod=score, block_mask=blocks)
            return torch.autograd.grad(mixed, (q, k, v), given) if backward else mixed
        return call
    return make


def read(bytes_read):
    source = random(bytes_read // 4)
    return lambda: source.sum()


def decode(batch):
    """The token after 1,023 others of Llama 3.2 1B with a cache of 1,024. `read` reads the weights, and the cache too."""
    def make(variant):
        sizes = dict(vocabulary=32, context=32, width=32, hidden=64, layers=2, heads=4, groups=2) if tiny else {}
        model = Decoder(batch, **sizes).to(device, bf16).eval()
        if variant == "read":
            return read(2 * (sum(p.numel() for p in model.parameters()) + sum(b.numel() for b in model.buffers())))
        next_token = cases.compiled_by(variant)(lambda token, at: model(token, at).argmax(-1))
        token, at = random_labels(batch, 1, classes=4000), torch.tensor([model.context - 1], device=device)
        return cases.call(next_token, token, at)
    return make


def resnet50(batch, training):
    """Channels last; training has f32 parameters under autocast, and momentum."""
    def make(variant):
        import torchvision
        model = (torchvision.models.resnet18 if tiny else torchvision.models.resnet50)()
        model = model.to(device, memory_format=torch.channels_last)
        size, count = (32, 2) if tiny else (224, batch)
        x = torch.randn(count, 3, size, size, device=device).to(memory_format=torch.channels_last)
        compiled = cases.compiled_by(variant)
        if not training:
            return cases.call(compiled(model.to(bf16).eval()), x.to(bf16))
        y = torch.randint(0, 1000, (count,), device=device)
        model.train()

        def loss_of():
            with torch.autocast(device, bf16):
                return F.cross_entropy(model(x), y)
        return cases.training(compiled(loss_of), torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, fused=True))
    return make


def whole_model(name, mode):
    return lambda variant: models_peer.step(name + "-small" * tiny, mode, variant, device)


def gpt2_infer(**sizes):
    def make(variant):
        model = Gpt(**sizes).to(device, bf16).eval()
        return cases.call(cases.compiled_by(variant)(model), random_labels(1, 64, classes=len(model.tokens)))
    return make


def gpt2_train(batch=16, time=1024, **sizes):
    """The parameters are f32 and are cast by hand, as ours are; attention is the one function for it."""
    def make(variant):
        model = Gpt(**sizes).to(device)
        text, labels = (random_labels(batch, time, classes=len(model.tokens)) for _ in range(2))

        def loss_of():
            low = {name: parameter.to(bf16) for name, parameter in model.named_parameters()}
            return torch.func.functional_call(model, low, (text, labels))
        return cases.training(cases.compiled_by(variant)(loss_of), torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True))
    return make


def encoder(batch, layers=12):
    def make(variant):
        model = torch.nn.Sequential(*(Block(768, 12, causal=False) for _ in range(layers))).to(device, bf16).eval()
        return cases.call(cases.compiled_by(variant)(model), random(batch, 128, 768, dtype=bf16))
    return make


def forward_cross_entropy(rows=16384, classes=4096):
    labels = random_labels(rows, classes=classes)
    return function(lambda x: F.cross_entropy(x, labels), (rows, classes))


def early_exit(variant):
    """bench/decisions.hpp: an encoder that leaves after 4 of 12 layers."""
    blocks = torch.nn.ModuleList(Block(128, 4, causal=False) for _ in range(12)).to(device)
    last, head = torch.nn.LayerNorm(128).to(device), torch.nn.Linear(128, 10).to(device)
    sure = torch.tensor([2.0, 2, 2, 0, 2, 2, 2, 2, 2, 2, 2, 2], device=device)

    def forward(x, sure):
        for i, block in enumerate(blocks):
            x = block(x)
            classes = torch.softmax(head(last(x.mean(1))), -1)
            if classes.amax(-1).amin() > sure[i]:
                return classes
        return classes
    return cases.call(cases.compiled_by(variant)(forward), random(8, 64, 128), sure)


def newton(variant):
    """Square roots by Newton's method, 5 to 50 rounds each."""
    def forward(a):
        x = a
        while (torch.abs(x * x - a) > a * 1e-6).item():
            x = (x + a / x) / 2
        return x
    f = cases.compiled_by(variant)(forward)
    numbers = [torch.tensor(a, device=device) for a in (2.0, 1e3, 1e6, 1e12, 1e24, 30.0, 1e9, 1e-3)]

    def step():
        with torch.no_grad():
            for a in numbers:
                f(a)
    return step


def branch(variant):
    """bench/decisions.hpp: one of two formulas, a call each way."""
    def forward(x):
        if x.sum() > 0:
            return (x + 1) * 2
        return torch.exp(x) - 1
    f, up, down = (cases.compiled_by(variant)(forward), torch.full((16,), 0.5, device=device),
                   torch.full((16,), -0.5, device=device))

    def step():
        with torch.no_grad():
            f(up)
            f(down)
    return step


CASES = {
    "gpu-decisions": {"early-exit": early_exit, "newton": newton, "branch": branch},
    "gpu-pointwise": {"f32-64M": function(
        lambda x, y, z: torch.tanh(x * y + z) * torch.sigmoid(x) + torch.exp(-y * y) - F.gelu(z), *[(64 << 20,)] * 3)},
    "gpu-elements": {
        "scale-shift-f32": function(lambda x, row, column: x * row + column, (8192, 8192), (1, 8192), (8192, 1)),
        "scale-shift-bf16": function(lambda x, row, column: x * row + column, (8192, 8192), (1, 8192), (8192, 1), dtype=bf16),
        "add-bf16": function(lambda x, y: x * 2 + y, (1 << 26,), (1 << 26,), dtype=bf16),
        "f32-to-bf16": function(lambda x: x.to(bf16), (1 << 26,)),
        "where": function(lambda x, y: torch.where(x < 0.25, y, x * 2), (1 << 26,), (1 << 26,)),
        "every-other-column": function(lambda x: x[:, ::2] + 1, (8192, 8192)),
        "all-but-a-column": function(lambda x: x[:, 1:] + 1, (8192, 8192)),
        "join-columns": function(lambda x, y: torch.cat([x, y], 1), (8192, 4096), (8192, 4096)),
        "join-rows": function(lambda x, y: torch.cat([x, y], 0), (4096, 8192), (4096, 8192)),
        "swap-heads-bf16": function(lambda x: x.transpose(1, 2).contiguous() * 2, (16, 1024, 16, 64), dtype=bf16)},
    "gpu-softmax": {"f32-16384x8192": function(lambda x: F.softmax(x, -1), (16384, 8192)),
                    "bf16-16384x8192": function(lambda x: F.softmax(x, -1), (16384, 8192), dtype=bf16),
                    "f32-1024x131072": function(lambda x: F.softmax(x, -1), (1024, 131072))},
    "gpu-long-rows": {
        "argmax-bf16-1x128256": function(lambda x: torch.argmax(x, -1), (1, 128256), dtype=bf16),
        "argmax-f32-16x128256": function(lambda x: torch.argmax(x, -1), (16, 128256)),
        "logsumexp-f32-1x128256": function(lambda x: torch.logsumexp(x, -1), (1, 128256)),
        "softmax-bf16-1x128256": function(lambda x: F.softmax(x, -1), (1, 128256), dtype=bf16),
        "argmax-f32-1x10M": function(lambda x: torch.argmax(x, -1), (1, 10_000_000)),
        "sum-f32-132x1M": function(lambda x: torch.sum(x, -1), (132, 1 << 20))},
    "gpu-transpose": {"f32-8192x8192": function(lambda x: (x.t() + 1).contiguous(), (8192, 8192)),
                      "bf16-8192x8192": function(lambda x: (x.t() + 1).contiguous(), (8192, 8192), dtype=bf16)},
    "gpu-matmul": {"bf16-4096-bias-gelu-tanh": matmul(bf16, "tanh"),
                   "bf16-4096-bias-gelu": matmul(bf16, "none"),
                   "f16-4096-bias-gelu-tanh": matmul(torch.float16, "tanh"),
                   "bf16-8192": product(8192, 8192, 8192), "bf16-8x2048x3072": product(8, 2048, 3072),
                   "bf16-64-experts": experts(),
                   "f32-4096": product_f32(False), "tf32-4096": product_f32(True), "f8-4096": product_f8()},
    "gpu-paged-attention": {"B16-T1000-D64": cached_attention(16, 1000, 64),
                            "B16-T4000-D128": cached_attention(16, 4000, 128),
                            "B64-T2000-D64": cached_attention(64, 2000, 64), "B1-T8000-D64": cached_attention(1, 8000, 64)},
    "gpu-conv2d": {"f32-3x3": conv2d(torch.float32, 64, 56, 64, 3, 1),
                   "f32-7x7-stride2": conv2d(torch.float32, 3, 224, 64, 7, 2),
                   "f32-1x1": conv2d(torch.float32, 256, 56, 64, 1, 1),
                   "bf16-3x3": conv2d(bf16, 64, 56, 64, 3, 1)},
    "gpu-layernorm": {"bf16-16384x4096": layernorm()},
    "gpu-rmsnorm": {"bf16-16384x4096": rmsnorm()},
    "gpu-swiglu": {"bf16-16384x8192": swiglu()},
    "gpu-cross-entropy": {"bf16-8192x50304": cross_entropy_gradients()},
    "gpu-adamw": {"f32-100x1M": adamw()},
    "gpu-sum": {"f32-64M": sum_all()},
    "gpu-mlp-step": {"b64": mlp(64), "b1024": mlp(1024)},
    "gpu-attention": {f"T{time}-D{depth}{'-gradients' * backward}": attention(time, depth, backward)
                      for time in (1024, 4096, 16384) for depth in (64, 128) for backward in (False, True)} |
                     {f"{name}-dropout{'-gradients' * backward}": attention(time, depth, backward, 0.1, batch, heads)
                      for name, time, depth, batch, heads in (("B16-H12-T1024-D64", 1024, 64, 16, 12),
                                                              ("T4096-D64", 4096, 64, 4, 16),
                                                              ("T4096-D128", 4096, 128, 4, 16))
                      for backward in (False, True)} |
                     {f"T4096-D64-{mod}{'-gradients' * backward}": attention_by(mod, backward=backward)
                      for mod in ("soft-cap", "documents") for backward in (False, True)},
    "gpu-decode": {f"1B-bf16-cache1024-B{batch}": decode(batch) for batch in (1, 16)},
    "gpu-resnet50": {"bf16-infer-B32": resnet50(32, False), "bf16-train-B64": resnet50(64, True)},
    "gpu-models": {f"{name}-{mode}": whole_model(name, mode)
                   for name in models_peer.GPU for mode in ("forward", "training")},
    "gpu-gpt2-infer": {"bf16-B1-T64": gpt2_infer()},
    "gpu-encoder": {"bf16-B1-T128": encoder(1), "bf16-B64-T128": encoder(64)},
    "gpu-gpt2-train": {"bf16-B16-T1024": gpt2_train()},
    "gpu-eager": {"softmax": function(lambda x: F.softmax(x, -1), (16384, 4096)),
                  "layernorm": function(lambda x, scale, shift: F.layer_norm(x, (4096,), scale, shift),
                                        (16384, 4096), (4096,), (4096,)),
                  "cross-entropy": lambda variant: forward_cross_entropy()(variant)},
}


if __name__ == "__main__":
    name, case, variant = sys.argv[1:4]
    take_turns(*repeated(CASES[name][case](variant), (lambda: None) if tiny else torch.cuda.synchronize))
