"""aoti_load.py FILE START: the first embedding of a fresh process, from what minilm.py aoti has written. A line of JSON as bench/first_embedding.hpp
prints it, but that `seconds` are those of loading and calling alone: importing PyTorch takes seconds, and a program in C++ would not do it."""
import json
import os
import sys
import time

now = lambda: time.clock_gettime(time.CLOCK_MONOTONIC)
in_main = now()
import torch  # noqa: E402
import torch._inductor  # noqa: E402

torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
ready = now()
embed = torch._inductor.aoti_load_package(sys.argv[1])
loaded = now()
vector = embed(torch.arange(1000, 1016)[None], torch.ones(1, 16, dtype=torch.int64))
length = float((vector[0] if isinstance(vector, (list, tuple)) else vector).square().sum())
answered = now()
print(json.dumps({"seconds": answered - ready, "main": in_main - float(sys.argv[2]), "load": loaded - ready, "call": answered - loaded,
                  "length": length}))
