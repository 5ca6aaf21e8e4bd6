// Eager kernels of the table's functions of floats.
#include "eager/kernels.hpp"
#include "weft/detail/lanes.hpp"

namespace weft::eager::WEFT_ISA_NAMESPACE {
namespace {
using namespace weft::lanes;
#include "eager/loop.inc"
}  // namespace

#define WEFT_PUT_floating(name, arity, expression)            \
  WEFT_PUT(name, f32, arity, float, float, float, expression) \
  WEFT_PUT(name, f64, arity, double, double, double, expression)
#define WEFT_PUT_arithmetic(...)
#define WEFT_PUT_comparison(...)
#define WEFT_PUT_bits(...)
#define WEFT_PUT_integers(...)
#define WEFT_PUT_predicate(...)
#define WEFT_PUT_select(...)

void put_functions(Kernels& kernels) {
#define WEFT_POINTWISE(name, arity, dtypes, rounding, cost, lanes, ...) WEFT_PUT_##dtypes(name, arity, lanes)
#include "weft/ops.def"
}

}  // namespace weft::eager::WEFT_ISA_NAMESPACE
