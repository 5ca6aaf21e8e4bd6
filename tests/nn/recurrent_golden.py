"""recurrent_golden.py > recurrent_golden.inc: what PyTorch's RNN, LSTM and GRU give, of whole samples and of packed ones,
and their cells, in float64: results, and gradients of a loss for inputs, states and all parameters. Numbers of inputs and parameters are sines that recurrent_test.cpp makes too.
"""
import torch

torch.set_default_dtype(torch.float64)


def wave(shape, seed):
    count = 1
    for size in shape:
        count *= size
    return (0.6 * torch.sin(torch.arange(count) * 0.7 + seed)).reshape(shape)


def loss(values):
    return sum((value * wave(value.shape, 50 + i)).sum() for i, value in enumerate(values))


CASES = [  # layer, its options, batch (0: none), lengths of a packed sequence
    ("RNN", dict(), 2),
    ("RNN", dict(nonlinearity="relu", num_layers=2, batch_first=True), 3),
    ("RNN", dict(bidirectional=True, bias=False), 0),
    ("LSTM", dict(), 2),
    ("LSTM", dict(num_layers=2, bidirectional=True), 2),
    ("LSTM", dict(batch_first=True, bias=False), 3),
    ("GRU", dict(), 2),
    ("GRU", dict(num_layers=2, bidirectional=True, batch_first=True), 2),
    ("GRU", dict(num_layers=3), 0),
    ("RNN", dict(), 3, [2, 4, 1]),
    ("LSTM", dict(num_layers=2, bidirectional=True), 3, [3, 1, 4]),
    ("GRU", dict(bidirectional=True, batch_first=True), 2, [2, 3]),
]
CELLS = [("RNNCell", dict(), 2), ("RNNCell", dict(nonlinearity="relu", bias=False), 0), ("LSTMCell", dict(), 3),
         ("LSTMCell", dict(bias=False), 0), ("GRUCell", dict(), 2), ("GRUCell", dict(), 0)]
STEPS, INPUT, HIDDEN = 4, 3, 2

for name, options, batch, *lengths in CASES:
    layer = getattr(torch.nn, name)(INPUT, HIDDEN, **options)
    layers, directions = options.get("num_layers", 1), 2 if options.get("bidirectional") else 1
    for i, parameter in enumerate(layer.parameters()):
        parameter.data = wave(parameter.shape, i)
    shape = (STEPS, INPUT) if batch == 0 else (batch, STEPS, INPUT) if options.get("batch_first") else (STEPS, batch, INPUT)
    inputs = [wave(shape, 30).requires_grad_()]
    states = (layers * directions, HIDDEN) if batch == 0 else (layers * directions, batch, HIDDEN)
    for i in range(2 if name == "LSTM" else 1):
        inputs.append(wave(states, 40 + i).requires_grad_())
    x, first = inputs[0], options.get("batch_first", False)
    if lengths:
        x = torch.nn.utils.rnn.pack_padded_sequence(x, lengths[0], first, enforce_sorted=False)
    output, last = layer(x, tuple(inputs[1:]) if name == "LSTM" else inputs[1])
    if lengths:
        output, _ = torch.nn.utils.rnn.pad_packed_sequence(output, first, total_length=STEPS)
    values = [output, *last] if name == "LSTM" else [output, last]
    gradients = torch.autograd.grad(loss(values), [*inputs, *layer.parameters()])
    numbers = torch.cat([value.detach().flatten() for value in [*values, *gradients]]).tolist()
    text = ", ".join(repr(each) for each in numbers)
    print(f"// {name} {options}, batch {batch}{', lengths ' + str(lengths[0]) if lengths else ''}\n{{{text}}},")

for name, options, batch in CELLS:
    cell = getattr(torch.nn, name)(INPUT, HIDDEN, **options)
    for i, parameter in enumerate(cell.parameters()):
        parameter.data = wave(parameter.shape, i)
    sizes = [] if batch == 0 else [batch]
    inputs = [wave((*sizes, INPUT), 30).requires_grad_()]
    for i in range(2 if name == "LSTMCell" else 1):
        inputs.append(wave((*sizes, HIDDEN), 40 + i).requires_grad_())
    values = cell(inputs[0], tuple(inputs[1:])) if name == "LSTMCell" else [cell(*inputs)]
    gradients = torch.autograd.grad(loss(values), [*inputs, *cell.parameters()])
    numbers = torch.cat([value.detach().flatten() for value in [*values, *gradients]]).tolist()
    print(f"// {name} {options}, batch {batch}\n{{{', '.join(repr(each) for each in numbers)}}},")
