"""runner LIBRARY PACKAGE VALUES: the MLP of writer.cpp from Python, by ctypes and nothing else."""
import ctypes as c
import struct
import sys


class Device(c.Structure):
    _fields_ = [("device_type", c.c_int32), ("device_id", c.c_int32)]


class DataType(c.Structure):
    _fields_ = [("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16)]


class Tensor(c.Structure):
    _fields_ = [("data", c.c_void_p), ("device", Device), ("ndim", c.c_int32), ("dtype", DataType),
                ("shape", c.POINTER(c.c_int64)), ("strides", c.POINTER(c.c_int64)), ("byte_offset", c.c_uint64)]


class ManagedTensor(c.Structure):
    pass


ManagedTensor._fields_ = [("dl_tensor", Tensor), ("manager_ctx", c.c_void_p),
                          ("deleter", c.CFUNCTYPE(None, c.POINTER(ManagedTensor)))]


class TensorInfo(c.Structure):
    _fields_ = [("name", c.c_char_p), ("dtype", DataType), ("rank", c.c_int32), ("sizes", c.POINTER(c.c_int64)),
                ("least", c.POINTER(c.c_int64)), ("most", c.POINTER(c.c_int64)), ("is_written", c.c_int32)]


library, package_path, values_path = sys.argv[1:]
weft = c.CDLL(library)
weft.weft_run_message.restype = c.c_char_p
assert weft.weft_run_abi() == 1


def ok(status):
    assert status == 0, (status, weft.weft_run_message())


package, forward = c.c_void_p(), c.c_void_p()
ok(weft.weft_package_open(package_path.encode(), c.byref(package)))
ok(weft.weft_package_function(package, b"forward", c.byref(forward)))

count, infos = c.c_size_t(), c.POINTER(TensorInfo)()
ok(weft.weft_function_arguments(forward, c.c_size_t(0), c.byref(count), c.byref(infos)))
values = open(values_path, "rb").read()
offset, rows, tensors, kept = 0, 4, [], []
for info in infos[:count.value]:
    sizes = [rows if size < 0 else size for size in info.sizes[:info.rank]]
    elements = 1
    for size in sizes:
        elements *= size
    assert (info.dtype.code, info.dtype.bits) == (2, 32), info.name
    data = c.create_string_buffer(values[offset:offset + 4 * elements], 4 * elements)
    offset += 4 * elements
    shape = (c.c_int64 * info.rank)(*sizes)
    kept += [data, shape]
    tensors.append(Tensor(c.cast(data, c.c_void_p), Device(1, 0), info.rank, info.dtype, shape, None, 0))
arguments = (c.POINTER(Tensor) * len(tensors))(*[c.pointer(tensor) for tensor in tensors])
any_kind = c.c_size_t(-1)
result = c.POINTER(ManagedTensor)()


def call():
    return weft.weft_function_call(forward, any_kind, arguments, c.c_size_t(len(tensors)), c.byref(result),
                                   c.c_size_t(1))


ok(call())
made = result.contents.dl_tensor
assert made.shape[:made.ndim] == [rows, 3]
assert c.string_at(made.data, 4 * rows * 3) == values[offset:offset + 4 * rows * 3]
assert abs(sum(struct.unpack("12f", c.string_at(made.data, 48))) - rows) < 1e-5
result.contents.deleter(result)

tensors[-1].shape[1] = 7
arguments[len(tensors) - 1] = c.pointer(tensors[-1])
assert call() == 5 and not result
assert weft.weft_run_message() == (b"[forward of mlp.weft] argument 1: size of dimension 1 is 7, the package holds 8")
ok(weft.weft_function_close(forward))
ok(weft.weft_package_close(package))
assert weft.weft_function_close(forward) == 1
