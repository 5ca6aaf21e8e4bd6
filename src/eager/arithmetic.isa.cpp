// Eager kernels of the table's arithmetic primitives.
#include "eager/kernels.hpp"
#include "weft/detail/lanes.hpp"

namespace weft::eager::WEFT_ISA_NAMESPACE {
namespace {
using namespace weft::lanes;
#include "eager/loop.inc"
}  // namespace

#define WEFT_PUT_arithmetic(name, arity, expression)             \
  WEFT_PUT(name, f32, arity, float, float, float, expression)    \
  WEFT_PUT(name, f64, arity, double, double, double, expression) \
  WEFT_PUT(name, i32, arity, int, int, int, expression)          \
  WEFT_PUT(name, i64, arity, long, long, long, expression)       \
  WEFT_PUT(name, u8, arity, unsigned char, unsigned char, unsigned char, expression)
#define WEFT_PUT_floating(...)
#define WEFT_PUT_comparison(...)
#define WEFT_PUT_bits(...)
#define WEFT_PUT_integers(...)
#define WEFT_PUT_predicate(...)
#define WEFT_PUT_select(...)

void put_arithmetic(Kernels& kernels) {
#define WEFT_POINTWISE(name, arity, dtypes, rounding, cost, lanes, ...) WEFT_PUT_##dtypes(name, arity, lanes)
#include "weft/ops.def"
}

}  // namespace weft::eager::WEFT_ISA_NAMESPACE
