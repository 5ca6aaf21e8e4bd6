// Eager kernels of the table's comparisons, predicates, logic and selection.
#include "eager/kernels.hpp"
#include "weft/detail/lanes.hpp"

namespace weft::eager::WEFT_ISA_NAMESPACE {
namespace {
using namespace weft::lanes;
#include "eager/loop.inc"
}  // namespace

// Bools compare as the bytes 0 and 1, and are selected as bytes.
#define WEFT_PUT_comparison(name, arity, expression)                        \
  WEFT_PUT(name, f32, arity, float, float, bool, expression)                \
  WEFT_PUT(name, f64, arity, double, double, bool, expression)              \
  WEFT_PUT(name, i32, arity, int, int, bool, expression)                    \
  WEFT_PUT(name, i64, arity, long, long, bool, expression)                  \
  WEFT_PUT(name, u8, arity, unsigned char, unsigned char, bool, expression) \
  WEFT_PUT(name, boolean, arity, unsigned char, unsigned char, bool, expression)
#define WEFT_PUT_bits(name, arity, expression)                 \
  WEFT_PUT(name, boolean, arity, bool, bool, bool, expression) \
  WEFT_PUT(name, i32, arity, int, int, int, expression)        \
  WEFT_PUT(name, i64, arity, long, long, long, expression)     \
  WEFT_PUT(name, u8, arity, unsigned char, unsigned char, unsigned char, expression)
#define WEFT_PUT_integers(name, arity, expression)         \
  WEFT_PUT(name, i32, arity, int, int, int, expression)    \
  WEFT_PUT(name, i64, arity, long, long, long, expression) \
  WEFT_PUT(name, u8, arity, unsigned char, unsigned char, unsigned char, expression)
#define WEFT_PUT_predicate(name, arity, expression)          \
  WEFT_PUT(name, f32, arity, float, float, bool, expression) \
  WEFT_PUT(name, f64, arity, double, double, bool, expression)
#define WEFT_PUT_select(name, arity, expression)                            \
  WEFT_PUT(name, f32, arity, bool, float, float, expression)                \
  WEFT_PUT(name, f64, arity, bool, double, double, expression)              \
  WEFT_PUT(name, i32, arity, bool, int, int, expression)                    \
  WEFT_PUT(name, i64, arity, bool, long, long, expression)                  \
  WEFT_PUT(name, u8, arity, bool, unsigned char, unsigned char, expression) \
  WEFT_PUT(name, boolean, arity, bool, unsigned char, unsigned char, expression)
#define WEFT_PUT_arithmetic(...)
#define WEFT_PUT_floating(...)

void put_logic(Kernels& kernels) {
#define WEFT_POINTWISE(name, arity, dtypes, rounding, cost, lanes, ...) WEFT_PUT_##dtypes(name, arity, lanes)
#include "weft/ops.def"
}

}  // namespace weft::eager::WEFT_ISA_NAMESPACE
