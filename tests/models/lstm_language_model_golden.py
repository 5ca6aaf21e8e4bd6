"""lstm_language_model_golden.py: writes lstm_language_model.golden, what PyTorch's layers give."""
import torch
import torch.nn.functional as F

from golden import integers, values, write


class LanguageModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = torch.nn.Embedding(19, 10)
        self.rnn = torch.nn.LSTM(10, 12, 2)
        self.decoder = torch.nn.Linear(12, 19)

    def forward(self, tokens, state):
        output, state = self.rnn(self.encoder(tokens), state)
        return self.decoder(output), state


tokens = integers("tokens", (8, 3), 19)
state = values("h", (2, 3, 12)), values("c", (2, 3, 12))


def f(model):
    logits, (h, c) = model(tokens[:-1], state)
    return F.cross_entropy(logits.flatten(0, 1), tokens[1:].flatten()), torch.cat([logits.flatten(), h.flatten(), c.flatten()])


write("lstm_language_model.golden", LanguageModel(), f)
