#include "loop/scan_parts.hpp"

#include <cstring>
#include <limits>

#include "loop/partial_memory.hpp"

namespace weft::loop {

namespace {

DType dtype_of_totals(const Instruction& scan) {
  if (!is_floating(scan.dtype)) return DType::i64;
  return scan.op == Op::amax || scan.op == Op::amin ? scan.dtype : DType::f64;
}

// The identity of the operation: joining it changes nothing.
Instruction identity(Op op, DType dtype) {
  Instruction it;
  it.dtype = dtype;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const bool is_real = is_floating(dtype);
  const double real = op == Op::sum ? 0 : op == Op::prod ? 1 : op == Op::amin ? infinity : -infinity;
  const std::int64_t integer = op == Op::sum    ? 0
                               : op == Op::prod ? 1
                               : op == Op::amin ? std::numeric_limits<std::int64_t>::max()
                                                : std::numeric_limits<std::int64_t>::min();
  is_real ? std::memcpy(&it.bits, &real, sizeof real) : std::memcpy(&it.bits, &integer, sizeof integer);
  return it;
}

}  // namespace

CutScan give_memory(const Kernel& kernel, int scan, Dim elements, Stages& stages) {
  const DType dtype = dtype_of_totals(kernel.body[static_cast<std::size_t>(scan)]);
  const std::size_t first = stages.partials.size();
  stages.partials.insert(stages.partials.end(), 2, {dtype, elements});
  return {scan, first, first + 1};
}

std::size_t add_total(Kernel& kernel, const CutScan& scan, const Stages& stages) {
  const Instruction of = kernel.body[static_cast<std::size_t>(scan.instruction)];
  Instruction total;
  total.kind = Kind::reduce;
  total.op = of.op;
  total.dtype = stages.partials[scan.totals].dtype;
  total.args[0] = of.args[0];
  if (of.dtype != total.dtype) {
    Instruction wide;
    wide.kind = Kind::cast;
    wide.dtype = total.dtype;
    wide.args[0] = of.args[0];
    kernel.body.push_back(wide);
    total.args[0] = static_cast<std::int32_t>(kernel.body.size()) - 1;
  }
  kernel.body.push_back(total);
  return kernel.body.size() - 1;
}

Kernel kernel_of_starts(const Kernel& kernel, const std::vector<CutScan>& scans, Dim rows, Dim chunks,
                        const Stages& stages) {
  Kernel result;
  result.name = kernel.name;
  result.comments = kernel.comments;
  result.axes = {{rows}, {chunks, true}};
  result.vector_axis = 1;
  const Dim chunk = dims::axis(1, chunks), place = dims::axis(0, rows) * chunks + chunk;
  const auto emit = [&](const Instruction& it) {
    result.body.push_back(it);
    return static_cast<std::int32_t>(result.body.size()) - 1;
  };
  Instruction has_before;
  has_before.kind = Kind::test;
  has_before.dtype = DType::boolean;
  has_before.index = chunk - Dim(1);
  const std::int32_t test = emit(has_before);
  for (const CutScan& each : scans) {
    const Op op = kernel.body[static_cast<std::size_t>(each.instruction)].op;
    const DType dtype = stages.partials[each.totals].dtype;
    Instruction load = load_of(dtype, add_buffer(result, dtype, false, each.totals, stages), place - Dim(1));
    load.args[0] = test;
    Instruction before;
    before.kind = Kind::apply;
    before.op = Op::where;
    before.dtype = dtype;
    before.args[0] = test;
    before.args[1] = emit(load);
    before.args[2] = emit(identity(op, dtype));
    Instruction scan;
    scan.kind = Kind::scan;
    scan.op = op;
    scan.dtype = dtype;
    scan.args[0] = emit(before);
    const std::int32_t start = emit(scan);
    emit(store_of(result, static_cast<std::size_t>(start), each.starts, place, stages));
  }
  settle(result);
  return result;
}

void begin_with_start(Kernel& kernel, const CutScan& scan, Dim place, const Stages& stages) {
  const std::int32_t at = scan.instruction;
  for (Instruction& it : kernel.body) {
    for (std::int32_t& arg : it.args) arg += arg >= at;
    it.index = dims::substitute(it.index, [&](const DimNode* atom) {
      return atom->kind == DimKind::value && atom->number >= at ? dims::value(atom->number + 1, atom->extent)
                                                                : Dim::from_node(atom);
    });
  }
  const DType dtype = stages.partials[scan.starts].dtype;
  kernel.body[static_cast<std::size_t>(at)].args[1] = at;
  kernel.body.insert(kernel.body.begin() + at,
                     load_of(dtype, add_buffer(kernel, dtype, false, scan.starts, stages), place));
}

}  // namespace weft::loop
