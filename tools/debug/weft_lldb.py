"""Shows Weft's values in lldb:   (lldb) command script import tools/debug/weft_lldb.py

The same texts as weft_gdb.py's, made by the program itself (weft_debug_tensor), which lldb calls.
"""
EXPRESSION = 1 << 62  # of a Dim's word: then it is an expression over symbols, else the integer itself


def ask(function, value):
    address = value.GetLoadAddress()
    call = f"((const char* (*)(const void*)){function})((const void*){address})"
    made = value.GetFrame().EvaluateExpression(call)
    return made.GetSummary().strip('"') if made.IsValid() and made.GetSummary() else None


def member(value, name):
    return value.GetChildMemberWithName(name)


def dim_text(dim, _=None):
    word = member(dim, "word_").GetValueAsUnsigned()
    if word >> 62 == EXPRESSION >> 62:
        return ask("weft_debug_dim", dim) or f"an expression at {word ^ EXPRESSION:#x}"
    return str(word - (1 << 64) if word >> 63 else word)


def tensor_text(tensor, _=None):
    word = member(tensor, "word_").GetValueAsUnsigned()
    if word == 0:
        return "undefined"
    return ask("weft_debug_tensor", tensor) or f"a tensor at {word & (1 << 48) - 1:#x}"


def shape_text(shape, _=None):
    sizes = member(shape, "dims_")
    return "[" + ",".join(dim_text(sizes.GetChildAtIndex(i)) for i in range(member(shape, "rank_").GetValueAsUnsigned())) + "]"


def sizes_text(sizes, _=None):
    return shape_text(member(sizes, "shape_"))


def value_text(value, _=None):
    return tensor_text(member(value, "value_"))


def param_text(param, _=None):
    return value_text(param) + (" (frozen)" if member(param, "frozen").GetValueAsUnsigned() else "")


TEXTS = {"Tensor": tensor_text, "Dim": dim_text, "Shape": shape_text, "Sizes": sizes_text, "Scalar": value_text,
         "Index": value_text, "Buffer": value_text, "Param": param_text}


def __lldb_init_module(debugger, _):
    for name, text in TEXTS.items():
        debugger.HandleCommand(f"type summary add -F weft_lldb.{text.__name__} weft::{name}")
