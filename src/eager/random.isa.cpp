// Eager kernels for random bits, by the convention of weft/detail/lanes_random.inc.
#include "eager/kernels.hpp"
#include "weft/detail/lanes.hpp"

namespace weft::eager::WEFT_ISA_NAMESPACE {
namespace {
using namespace weft::lanes;

template <class T>
void draw(void* result, std::int64_t seed, std::int64_t offset, std::int64_t first, std::int64_t vectors) {
  auto* out = static_cast<T*>(result);
  for (std::int64_t i = 0; i < vectors * lane_count; i += lane_count)
    store(out + i, convert<T>(random_bits(seed, offset, static_cast<long>(first + i))));
}

}  // namespace

void put_random(Kernels& kernels) {
  kernels.random_bits[static_cast<int>(DType::i32)] = draw<int>;
  kernels.random_bits[static_cast<int>(DType::i64)] = draw<long>;
}

}  // namespace weft::eager::WEFT_ISA_NAMESPACE
