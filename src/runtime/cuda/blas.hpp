// Matrix products on a device through cuBLASLt: f32 without tf32, f64. In: strided operands, transposed ones where they
// lie. Out: c = a b for each batch, queued on the device's stream. The heuristic's choice is asked for once a shape.
#pragma once
#include "base/contraction.hpp"
#include "runtime/cuda/device.hpp"
#include "runtime/matmul.hpp"

namespace weft::runtime::cuda {

// False, with nothing queued, for strides that the library does not take (no axis of stride 1, overlapping rows) and
// for products over nothing.
bool library_product(DeviceState& device, const Matmul& product, const void* a, const void* b, void* c);

// Whether it will be true, as far as that is known before sizes are: a product for which it is not needs a kernel.
bool library_takes(const Contraction& product);

}  // namespace weft::runtime::cuda
