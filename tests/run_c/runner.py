"""runner LIBRARY PACKAGE VALUES HELD SECRET: the MLP of writer.cpp from Python, by ctypes and nothing else."""
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


library, package_path, values_path, _, secret_path = sys.argv[1:]
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

# A package that holds its weights, in a file of which only this program's own reader makes one; and other weights in it.
Read = c.CFUNCTYPE(c.c_int32, c.c_void_p, c.c_char_p, c.POINTER(c.c_void_p), c.POINTER(c.c_size_t))
Release = c.CFUNCTYPE(None, c.c_void_p, c.c_void_p, c.c_size_t)


class Reader(c.Structure):
    _fields_ = [("context", c.c_void_p), ("read", Read), ("release", Release)]


given = []


@Read
def read(_context, path, data, size):
    plain = bytes((byte - 1) % 256 for byte in open(path, "rb").read())
    given.append(c.create_string_buffer(plain, len(plain)))
    data[0], size[0] = c.addressof(given[-1]), len(plain)
    return 0


@Release
def release(_context, _data, _size):
    given.clear()


held = c.c_void_p()
reader = Reader(None, read, release)
ok(weft.weft_package_open_with(secret_path.encode(), c.byref(reader), c.byref(held)))
ok(weft.weft_package_function(held, b"forward", c.byref(forward)))
ok(weft.weft_package_weights(held, c.byref(count), c.byref(infos)))
assert sorted(info.name for info in infos[:count.value]) == [b"in.bias", b"in.weight", b"out.bias", b"out.weight"]
tensors[-1].shape[1] = 8
arguments = (c.POINTER(Tensor) * 1)(c.pointer(tensors[-1]))
tensors = tensors[-1:]
bits = set()
for _ in range(4):  # later ones read weights that calls before have packed
    ok(call())
    bits.add(c.string_at(result.contents.dl_tensor.data, 48))
    result.contents.deleter(result)
assert len(bits) == 1
ok(call())
pairs = zip(*(struct.unpack("12f", bits) for bits in
              (c.string_at(result.contents.dl_tensor.data, 48), values[offset:offset + 48])))
assert all(abs(a - b) < 1e-6 for a, b in pairs)
result.contents.deleter(result)
bias, shape = (c.c_float * 3)(0, 0, 1000), (c.c_int64 * 1)(3)
new = Tensor(c.cast(bias, c.c_void_p), Device(1, 0), 1, DataType(2, 32, 1), shape, None, 0)
names, news = (c.c_char_p * 1)(b"out.bias"), (c.POINTER(Tensor) * 1)(c.pointer(new))
ok(weft.weft_package_update_constants(held, names, news, c.c_size_t(1)))
for _ in range(3):
    ok(call())
    assert struct.unpack("12f", c.string_at(result.contents.dl_tensor.data, 48)) == (0, 0, 1) * 4
    result.contents.deleter(result)
# Another matrix, and a bias that leaves it to decide: the rows, which differ, are one row.
info = next(info for info in infos[:count.value] if info.name == b"in.weight")
size = info.sizes[0] * info.sizes[1]
matrix, sizes = (c.c_float * size)(), (c.c_int64 * 2)(info.sizes[0], info.sizes[1])
bias[2] = 0
news[0] = c.pointer(new)
ok(weft.weft_package_update_constants(held, names, news, c.c_size_t(1)))
ok(call())
rows_of = lambda: {c.string_at(result.contents.dl_tensor.data + 12 * row, 12) for row in range(rows)}
assert len(rows_of()) == rows
result.contents.deleter(result)
other = Tensor(c.cast(matrix, c.c_void_p), Device(1, 0), 2, DataType(2, 32, 1), sizes, None, 0)
names[0], news[0] = b"in.weight", c.pointer(other)
ok(weft.weft_package_update_constants(held, names, news, c.c_size_t(1)))
for _ in range(3):
    ok(call())
    assert len(rows_of()) == 1
    result.contents.deleter(result)
names[0], news[0] = b"out.bias", c.pointer(new)
shape[0] = 2
assert weft.weft_package_update_constants(held, names, news, c.c_size_t(1)) == 5
assert weft.weft_run_message().endswith(b"out.bias is f32[2], held.weft.secret holds f32[3]")
ok(weft.weft_package_close(held))
ok(weft.weft_function_close(forward))
assert not given
