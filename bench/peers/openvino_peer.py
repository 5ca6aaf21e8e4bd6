"""openvino_peer.py NAME: the forward pass of a model of models_peer.py in OpenVINO, tuned for latency, on as many threads,
taking turns (turns.py). It reads PyTorch's graph itself."""
import os
import sys

import openvino
import torch

from models_peer import MODELS
from onnx_peer import Forward
from turns import take_turns


def main(name):
    model, outputs, _, inputs = MODELS[name]()
    with torch.no_grad():
        converted = openvino.convert_model(Forward(model.eval(), outputs).eval(), example_input=inputs)
    converted.reshape({i: list(of.shape) for i, of in enumerate(inputs)})
    compiled = openvino.Core().compile_model(converted, "CPU", {
        "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": int(os.environ["OMP_NUM_THREADS"]),
        "INFERENCE_PRECISION_HINT": "f32"})
    request = compiled.create_infer_request()
    given = [of.numpy() for of in inputs]
    return lambda: request.infer(given, share_inputs=True)


if __name__ == "__main__":
    stdout = os.dup(1)
    os.dup2(2, 1)  # the converter talks; what takes turns has standard output to itself
    step = main(sys.argv[1])
    os.dup2(stdout, 1)
    take_turns(step)
