#!/usr/bin/env python3
"""onnx_import.py MODEL.onnx VALUES.npz: loads the model in ONNX Runtime and runs it once, as bench/onnx_import.cpp does; prints the seconds
of both as JSON."""
import json
import sys
import time

import numpy as np
import onnxruntime

values = np.load(sys.argv[2])
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 2
begin = time.perf_counter()
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
loaded = time.perf_counter()
session.run(None, {port.name: values[f"input_{i}"] for i, port in enumerate(session.get_inputs())})
ran = time.perf_counter()
print(json.dumps({"load": loaded - begin, "run": ran - loaded, "total": ran - begin}))
