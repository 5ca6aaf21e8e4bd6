// Every row of the table and some longer expressions, with the kernels that the compiler makes of them for one ISA.
#include "tests/record/expr_kernels.hpp"
#include "weft/expr.hpp"

namespace WEFT_ISA_NAMESPACE {
namespace {

using namespace weft;

template <class F>
constexpr const ElementwiseDefinition* alone(F) {
  return &detail::ScalarFunction<F>::plain;
}
template <class F>
constexpr const ElementwiseDefinition* whole(F) {
  return &detail::ScalarFunction<F>::definition();
}
template <class F>
constexpr const ElementwiseDefinition* gradient(F) {
  return detail::ScalarFunction<F>::definition().gradient;
}

constexpr auto mish = [](auto x) { return x * tanh(log1p(exp(x))); };
constexpr auto mixed = [](auto a, auto b) { return sqrt(abs(a)) / (b - 1) + maximum(a, b * 0.1) - erf(-a); };
constexpr auto conditions = [](auto x, auto y, auto c) {
  return pack(where(((x > 0) & ~(y > 1)) | isnan(x), x, y) * (x > 0), where(c, x == y, y <= 1),
              where(c & (x < 0), 1, 0));
};
constexpr auto moments = [](auto p, auto g, auto m, auto v) {
  Sym mean = m * 0.9 + g * 0.1, square = v * 0.999 + g * g * 0.001;
  return pack(p - 0.001 * mean / (sqrt(square) + 1e-8), mean, square);
};
constexpr auto power = [](auto x) {
  Sym result = 1;
  for (int i = 0; i < 9; ++i) result *= x;
  return result;
};

#define WEFT_ROW_1(name) alone([](auto a) { return name(a); })
#define WEFT_ROW_2(name) alone([](auto a, auto b) { return name(a, b); })
#define WEFT_ROW_3(name) alone([](auto a, auto b, auto c) { return name(a, b, c); })
constexpr CompiledExpression expressions[] = {
#define WEFT_POINTWISE(name, arity, ...) {#name, WEFT_ROW_##arity(name)},
#include "weft/ops.def"
    {"mish", whole(mish)},
    {"gradient of mish", gradient(mish)},
    {"mixed", whole(mixed)},
    {"gradient of mixed", gradient(mixed)},
    {"conditions", whole(conditions)},
    {"gradient of conditions", gradient(conditions)},
    {"moments", whole(moments)},
    {"power", whole(power)},
};

}  // namespace

CompiledExpressions compiled_expressions() { return {expressions, sizeof expressions / sizeof *expressions}; }

}  // namespace WEFT_ISA_NAMESPACE
