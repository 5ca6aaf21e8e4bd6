// Moving tensors between devices. In: a tensor and a device. Out: the same value there; inside a trace a node of the
// graph, outside one the copy itself, so that a device that can't be used is an error where it was asked for.
#include "eager/device.hpp"
#include "base/fail.hpp"
#include "record/evaluate.hpp"
#include "record/record.hpp"

namespace weft {

Tensor to(const Tensor& tensor, Device device, Loc loc) {
  LooseComposite call("to", loc);
  if (!tensor.defined()) fail("to", call.loc(), "of an undefined tensor");
  Type type = type_of(tensor);
  if (type.device == device) return tensor;
  type.device = device;
  if (!recorder().trace()) eager::require_device(device, "to", call.loc());
  Tensor moved = record(Op::transfer, {tensor}, {}, type, call.loc());
  if (!recorder().trace()) evaluate(std::span(&moved, 1), call.loc());
  return moved;
}

}  // namespace weft
