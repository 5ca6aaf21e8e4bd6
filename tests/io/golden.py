"""Writes the files of golden/ beside this file with NumPy, and with PyTorch's or Hugging Face's writer where it is
there. Run it with a Python that has NumPy:  python tests/io/golden.py"""
import pathlib

import numpy

folder = pathlib.Path(__file__).with_name("golden")
numbers = numpy.arange(6, dtype=numpy.float32).reshape(2, 3) - 1.5
numpy.save(folder / "rows.npy", numbers)
numpy.save(folder / "columns.npy", numpy.asfortranarray(numbers))
numpy.save(folder / "big_endian.npy", numbers.astype(">f4"))
numpy.save(folder / "nothing.npy", numpy.zeros((0, 3), dtype=numpy.int64))
numpy.save(folder / "number.npy", numpy.float64(2.5))
numpy.save(folder / "text.npy", numpy.array(["a", "b"]))
numpy.save(folder / "object.npy", numpy.array([{}], dtype=object), allow_pickle=True)
arrays = {
    "a": numbers,
    "b/c": numpy.array([True, False, True]),
    "half": numpy.array([0.5, -2], dtype=numpy.float16),
    "bytes": (numpy.arange(1000) % 7).astype(numpy.uint8),
    "columns": numpy.asfortranarray(numbers.astype(">f8")),
}
numpy.savez(folder / "stored.npz", **arrays)
numpy.savez_compressed(folder / "deflated.npz", **arrays)
