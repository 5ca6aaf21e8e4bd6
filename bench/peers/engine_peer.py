"""engine_peer.py ENGINE FILE.onnx: a model that Weft has written, in ONNX Runtime or OpenVINO, on as many threads, taking
turns (turns.py)."""
import os
import sys

import numpy as np

from turns import take_turns


def onnxruntime(file, threads):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    port = session.get_inputs()[0]
    given = {port.name: np.random.standard_normal(port.shape).astype(np.float32)}
    return lambda: session.run(None, given)


def openvino(file, threads):
    import openvino
    compiled = openvino.Core().compile_model(file, "CPU", {
        "PERFORMANCE_HINT": "LATENCY", "EXECUTION_MODE_HINT": "ACCURACY", "INFERENCE_NUM_THREADS": threads})
    request = compiled.create_infer_request()
    given = np.random.standard_normal(tuple(compiled.input(0).shape)).astype(np.float32)
    return lambda: request.infer({0: given}, share_inputs=True, share_outputs=True)


if __name__ == "__main__":
    take_turns(globals()[sys.argv[1]](sys.argv[2], int(os.environ["OMP_NUM_THREADS"])))
