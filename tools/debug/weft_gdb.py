"""Shows Weft's values in gdb:   (gdb) source tools/debug/weft_gdb.py

    x = f32[2,3] {1, 2, 3, 4, 5, 6} at model.cpp:12
    y = f32[2,3] = relu (not computed) at model.cpp:13
    n = 3,   shape = [2,3]

A tensor's text is made by the program itself (weft_debug_tensor), which gdb calls: of a core file it shows the address.
Nothing is computed, and no memory of a GPU is read.
"""
import gdb
import gdb.printing

EXPRESSION = 1 << 62  # of a Dim's word: then it is an expression over symbols, else the integer itself


def ask(function, value):
    """The text that the program makes of the object at this value's address."""
    if value.address is None:
        return None
    try:
        return gdb.parse_and_eval(f"((const char* (*)(const void*)){function})((const void*){int(value.address)})").string()
    except gdb.error:
        return None  # no running process


def dim_text(dim):
    word = int(dim["word_"])
    if word >> 62 == EXPRESSION >> 62:
        return ask("weft_debug_dim", dim) or f"an expression at {word ^ EXPRESSION:#x}"
    return str(word - (1 << 64) if word >> 63 else word)


def tensor_text(tensor):
    word = int(tensor["word_"])
    if word == 0:
        return "undefined"
    return ask("weft_debug_tensor", tensor) or f"a tensor at {word & (1 << 48) - 1:#x}"


def shape_text(shape):
    return "[" + ",".join(dim_text(shape["dims_"][i]) for i in range(int(shape["rank_"]))) + "]"


TEXTS = {
    "Tensor": tensor_text,
    "Dim": dim_text,
    "Shape": shape_text,
    "Sizes": lambda sizes: shape_text(sizes["shape_"]),
    "Scalar": lambda scalar: tensor_text(scalar["value_"]),
    "Index": lambda index: tensor_text(index["value_"]),
    "Buffer": lambda buffer: tensor_text(buffer["value_"]),
    "Param": lambda param: tensor_text(param["value_"]) + (" (frozen)" if param["frozen"] else ""),
}


class Printer:
    def __init__(self, text, value):
        self.text, self.value = text, value

    def to_string(self):
        return self.text(self.value)


def printers():
    found = gdb.printing.RegexpCollectionPrettyPrinter("weft")
    for name, text in TEXTS.items():
        found.add_printer(name, f"^weft::{name}$", lambda value, text=text: Printer(text, value))
    return found


gdb.printing.register_pretty_printer(gdb.current_objfile(), printers(), replace=True)
