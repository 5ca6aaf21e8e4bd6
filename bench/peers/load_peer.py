"""load_peer.py cp|cp-sync|cp-new|torch|torch-load FOLDER: files of 500 MB by other means, taking turns (turns.py). cp and cp-sync copy
over the file that is there, cp-new to a name that no file has; cp-sync waits for the disk. torch saves 40 tensors, and waits for the
disk as well. What the disk has not taken yet is written before the next step, and not counted."""
import os
import statistics
import subprocess
import sys
import time

what, folder = sys.argv[1:]
source, target = folder + "/source", folder + "/" + what


def synced(path):
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


if what.startswith("torch"):
    import torch
    torch.manual_seed(0)
    tensors = {str(i): torch.randn(3125, 1000) for i in range(40)}
    if what == "torch-load":
        torch.save(tensors, target)
elif not os.path.exists(source):
    with open(source, "wb") as file:
        for _ in range(500):
            file.write(os.urandom(1_000_000))


def step():
    """Seconds."""
    if what == "cp-new" and os.path.exists(target):
        os.unlink(target)
    start = time.perf_counter()
    if what == "torch-load":
        torch.load(target, mmap=True)
        return time.perf_counter() - start
    if what == "torch":
        torch.save(tensors, target)
    else:
        subprocess.run(["cp", source, target], check=True)
    if what in ("torch", "cp-sync"):
        synced(target)
    seconds = time.perf_counter() - start
    synced(target)
    return seconds


for _ in range(2):
    step()
print("ready", flush=True)
for line in sys.stdin:
    times, start = [], time.perf_counter()
    while time.perf_counter() - start < float(line) or len(times) < 3:
        times.append(step() * 1e3)
    print("%.6g" % statistics.median(times), flush=True)
