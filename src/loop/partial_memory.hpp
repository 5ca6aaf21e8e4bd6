// Memory between the stages of a kernel that is cut (stages.hpp): buffers for it, loads and stores.
#pragma once
#include "loop/stages.hpp"

namespace weft::loop {

// The kernel with one more buffer; its number.
inline std::int32_t add_buffer(Kernel& kernel, DType dtype, bool written, std::size_t partial_memory,
                               const Stages& stages) {
  kernel.buffers.push_back({dtype, written, partial(partial_memory), stages.partials[partial_memory].elements});
  return static_cast<std::int32_t>(kernel.buffers.size()) - 1;
}
inline Instruction load_of(DType dtype, std::int32_t buffer, Dim index) {
  Instruction load;
  load.kind = Kind::load;
  load.dtype = dtype;
  load.buffer = buffer;
  load.index = index;
  return load;
}
// Of value i, into partial memory number p.
inline Instruction store_of(Kernel& kernel, std::size_t i, std::size_t p, Dim index, const Stages& stages) {
  Instruction store;
  store.kind = Kind::store;
  store.dtype = kernel.body[i].dtype;
  store.args[0] = static_cast<std::int32_t>(i);
  store.buffer = add_buffer(kernel, store.dtype, true, p, stages);
  store.index = index;
  return store;
}

}  // namespace weft::loop
