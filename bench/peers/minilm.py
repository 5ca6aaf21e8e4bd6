"""minilm.py onnx|aoti FILE: writes the embeddings of sentences by a model of the sizes of all-MiniLM-L6-v2, with random weights and any number of
texts of any length: for ONNX Runtime, or compiled ahead of time by PyTorch (AOTInductor)."""
import os
import sys

import torch
from transformers import BertConfig, BertModel


class Embed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = BertModel(BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536),
                               add_pooling_layer=False)

    def forward(self, tokens, mask):
        x = self.model(tokens, mask).last_hidden_state
        seen = mask.unsqueeze(-1).to(x.dtype)
        return torch.nn.functional.normalize((x * seen).sum(1) / seen.sum(1).clamp(min=1e-9), dim=-1)


def main(form, file):
    torch.manual_seed(0)
    model = Embed().eval()
    inputs = torch.randint(0, 30522, (2, 16)), torch.ones(2, 16, dtype=torch.int64)
    sizes = {0: torch.export.Dim("texts", max=512), 1: torch.export.Dim("length", max=512)}
    with torch.no_grad():
        if form == "onnx":
            torch.onnx.export(model, inputs, file, dynamo=True, input_names=["tokens", "mask"], output_names=["vector"],
                              dynamic_shapes=(sizes, sizes), external_data=False)
        else:
            exported = torch.export.export(model, inputs, dynamic_shapes=(sizes, sizes))
            torch._inductor.aoti_compile_and_package(exported, package_path=file)


if __name__ == "__main__":
    os.dup2(2, 1)  # the exporter talks
    main(*sys.argv[1:])
