"""Makes the virtual environment of the peers: PyTorch and JAX for the CPU, pinned.

PyTorch's builds without CUDA are on its own index alone. Where only PyPI can be reached its CUDA build is taken, which
does not load without CUDA's libraries: those that the machine lacks are added, and nothing runs on a GPU.
"""
import ctypes
import subprocess
import sys
import venv
from pathlib import Path

TORCH = "torch==2.11.0"
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
NEEDS = ["jax==0.10.2", "jaxlib==0.10.2", "numpy==2.4.6", "filelock==4.2.11", "typing-extensions==4.16.0", "sympy==1.14.0",
         "networkx==3.6.1", "jinja2==3.1.6", "fsspec==2026.9.0", "setuptools==81.0.0"]
CUDA = {
    "libcudart.so.13": "nvidia-cuda-runtime==13.0.96",
    "libcupti.so.13": "nvidia-cuda-cupti==13.0.85",
    "libcublas.so.13": "nvidia-cublas==13.1.0.3",
    "libcufft.so.12": "nvidia-cufft==12.0.0.61",
    "libcufile.so.0": "nvidia-cufile==1.15.1.6",
    "libcurand.so.10": "nvidia-curand==10.4.0.35",
    "libcusolver.so.12": "nvidia-cusolver==12.0.4.66",
    "libcusparse.so.12": "nvidia-cusparse==12.6.3.3",
    "libnvJitLink.so.13": "nvidia-nvjitlink==13.0.88",
    "libnvrtc.so.13": "nvidia-cuda-nvrtc==13.0.88",
    "libcudnn.so.9": "nvidia-cudnn-cu13==9.19.0.56",
    "libcusparseLt.so.0": "nvidia-cusparselt-cu13==0.8.0",
    "libnccl.so.2": "nvidia-nccl-cu13==2.28.9",
    "libnvshmem_host.so.3": "nvidia-nvshmem-cu13==3.4.5",
}


def lacks(library):
    try:
        ctypes.CDLL(library)
    except OSError:
        return True
    return False


def with_gpu():
    """This python, where its PyTorch works on a GPU; else None."""
    try:
        import torch
        return Path(sys.executable) if torch.cuda.is_available() else None
    except (ImportError, OSError):
        return None


def make(folder):
    """The environment's python; made where it is not there or was made by another version of this file."""
    python, stamp = Path(folder) / "bin/python", Path(folder) / "made_by"
    recipe = Path(__file__).read_text()
    if stamp.exists() and stamp.read_text() == recipe:
        return python
    print("making the peers' environment in", folder, file=sys.stderr, flush=True)
    venv.create(folder, clear=True, with_pip=True)

    def pip(*arguments, check=True):
        command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
        return subprocess.run(command, check=check, stdout=sys.stderr).returncode == 0

    pip(*NEEDS)
    if not pip("--no-deps", "--retries=0", "--timeout=10", "--index-url", TORCH_INDEX, TORCH, check=False):
        pip("--no-deps", TORCH, *(package for library, package in CUDA.items() if lacks(library)))
    subprocess.run([python, "-c", "import torch, jax; jax.numpy.zeros(1); torch.zeros(1)"], check=True, stdout=sys.stderr)
    stamp.write_text(recipe)
    return python
