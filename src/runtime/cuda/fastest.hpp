// Which of several kernels of a library takes the least time. In: what puts one of them on the device's stream. Out:
// the fastest, by the least of several rounds in turn.
#pragma once
#include <cstddef>
#include <functional>

#include "weft/dtype.hpp"

namespace weft::runtime::cuda {

struct Fastest {
  std::size_t place = 0;
  double seconds = 0, seconds_of_first = 0;
};

// `run` puts the kernel of this place on the stream, or says that it can't. The first is kept unless another one is
// clearly faster.
Fastest find_fastest(Device device, std::size_t count, const std::function<bool(std::size_t)>& run);

}  // namespace weft::runtime::cuda
