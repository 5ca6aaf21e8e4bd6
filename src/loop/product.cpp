#include "loop/product.hpp"

#include <algorithm>

#include "loop/analysis.hpp"

namespace weft::loop {

namespace {

// One inner axis, and one reduction, whose terms nobody stores.
bool has_form(const Kernel& kernel) {
  const auto inner = std::count_if(kernel.axes.begin(), kernel.axes.end(), [](const Axis& axis) { return axis.inner; });
  const auto carried =
      std::count_if(kernel.axes.begin(), kernel.axes.end(), [](const Axis& axis) { return axis.carried; });
  const auto folds = std::count_if(kernel.body.begin(), kernel.body.end(), [](const Instruction& it) {
    return it.kind == Kind::reduce || it.kind == Kind::scan;
  });
  return inner == 1 && carried == 0 && folds == 1 &&
         std::none_of(kernel.body.begin(), kernel.body.end(),
                      [](const Instruction& it) { return it.kind == Kind::store && it.level == Level::inner; });
}

// A product of integers that were widened, cast back to their dtype, is computed in that dtype: it wraps to the same.
void narrow(Kernel& kernel, std::int32_t product) {
  const auto at = [&](std::int32_t i) -> Instruction& { return kernel.body[static_cast<std::size_t>(i)]; };
  const auto source = [&](int side) {
    const Instruction& operand = at(at(product).args[side]);
    return operand.kind == Kind::cast ? at(operand.args[0]).dtype : operand.dtype;
  };
  const DType dtype = source(0);
  if (dtype == at(product).dtype || is_floating(dtype) || dtype == DType::boolean || computed_in(dtype) != dtype ||
      source(1) != dtype)
    return;
  for (const Instruction& it : kernel.body)
    for (const std::int32_t arg : it.args)
      if (arg == product && (it.kind != Kind::cast || it.dtype != dtype)) return;
  at(product).dtype = dtype;
  for (const int side : {0, 1}) at(product).args[side] = at(at(product).args[side]).args[0];
}

}  // namespace

void find_product(Kernel& kernel) {
  if (!has_form(kernel)) return;
  const auto sum = std::find_if(kernel.body.begin(), kernel.body.end(),
                                [](const Instruction& it) { return it.kind == Kind::reduce; });
  const Instruction& terms = kernel.body[static_cast<std::size_t>(sum->args[0])];
  if (sum->op != Op::sum || is_floating(sum->dtype) || sum->is(ReductionKind::join) || terms.kind != Kind::apply ||
      terms.op != Op::mul)
    return;
  const Analysis analysis = analyze(kernel);
  const auto depends = [&](int side, int axis) {
    return (analysis.facts[static_cast<std::size_t>(terms.args[side])].axes >> axis & 1) != 0;
  };
  // The last axis on which one side alone depends is that of the lanes; the other side has rows of its own.
  int columns = -1, right = 1;
  bool has_rows = false;
  for (int axis = static_cast<int>(kernel.axes.size()) - 1; axis >= 0; --axis) {
    if (kernel.axes[static_cast<std::size_t>(axis)].inner || depends(0, axis) == depends(1, axis)) continue;
    if (columns < 0) {
      columns = axis;
      right = depends(1, axis);
    }
    has_rows |= depends(1 - right, axis);
  }
  if (!has_rows) return;
  kernel.vector_axis = columns;
  sum->reduction = ReductionKind::product;
  sum->args[1] = terms.args[right];
  sum->args[0] = terms.args[1 - right];
  narrow(kernel, static_cast<std::int32_t>(sum - kernel.body.begin()));
  std::vector<bool> stores;
  for (const Instruction& it : kernel.body) stores.push_back(it.kind == Kind::store);
  keep_only(kernel, stores);
  settle(kernel);
}

}  // namespace weft::loop
