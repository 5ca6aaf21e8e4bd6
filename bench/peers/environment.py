"""Makes the virtual environment of the peers: PyTorch with its models and Hugging Face's, JAX, ONNX Runtime and OpenVINO, for the CPU,
pinned.

PyTorch's builds without CUDA are on its own index alone. Where only PyPI can be reached its CUDA build is taken, with the
libraries of CUDA that it does not load without (2.6 GB); nothing of it runs on a GPU.
"""
import subprocess
import sys
import venv
from pathlib import Path

TORCH = "torch==2.15.0"
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
NEEDS = ["jax==0.10.2", "jaxlib==0.10.2", "numpy==2.4.6", "filelock==4.2.11", "typing-extensions==4.16.0", "sympy==1.14.0",
         "networkx==3.6.1", "jinja2==3.1.6", "fsspec==2026.9.0", "setuptools==81.0.0",
         "transformers==5.23.0", "diffusers==0.42.1", "pillow", "onnx==1.23.2", "onnxruntime==1.32.0", "onnxscript==0.7.2",
         "openvino==2026.4.1"]
VISION = "torchvision==0.29.2"


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
    if not pip("--no-deps", "--retries=0", "--timeout=10", "--index-url", TORCH_INDEX, TORCH, VISION, check=False):
        pip(TORCH, VISION)
    subprocess.run([python, "-c", "import torch, jax; jax.numpy.zeros(1); torch.zeros(1)"], check=True, stdout=sys.stderr)
    stamp.write_text(recipe)
    return python
