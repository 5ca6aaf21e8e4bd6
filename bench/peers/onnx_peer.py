"""onnx_peer.py NAME: the forward pass of a model of models_peer.py in ONNX Runtime, on as many threads, taking turns
(turns.py). PyTorch writes the model's graph."""
import os
import sys
import tempfile
from pathlib import Path

import onnxruntime
import torch

from models_peer import MODELS
from turns import take_turns


class Forward(torch.nn.Module):
    def __init__(self, model, outputs):
        super().__init__()
        self.model, self.outputs = model, outputs

    def forward(self, *inputs):
        return self.outputs(self.model, *inputs)


def session(model, inputs):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = int(os.environ["OMP_NUM_THREADS"]), 1
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        with torch.no_grad():
            torch.onnx.export(model, inputs, file, dynamo=True, verbose=False)
        return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def main(name):
    model, outputs, _, inputs = MODELS[name]()
    found = session(Forward(model.eval(), outputs).eval(), inputs)
    given = {value.name: of.numpy() for value, of in zip(found.get_inputs(), inputs)}
    return lambda: found.run(None, given)


if __name__ == "__main__":
    stdout = os.dup(1)
    os.dup2(2, 1)  # the exporter talks; what takes turns has standard output to itself
    step = main(sys.argv[1])
    os.dup2(stdout, 1)
    take_turns(step)
