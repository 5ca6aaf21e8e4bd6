// Operands of recorded operations: numbers and sizes as constants, promotion of dtypes, broadcasting of shapes.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/fail.hpp"
#include "interpret/reference.hpp"
#include "ir/infer.hpp"
#include "record/autocast.hpp"
#include "record/composite.hpp"
#include "record/ones.hpp"
#include "record/record.hpp"

namespace weft {

Tensor constant_like(double value, const Type& type, Loc loc) {
  return record(Op::constant, {}, Constant::number(type.dtype, value), type, loc);
}

Tensor dim_value(Dim dim, Loc loc) {
  Type type{DType::i64, true, {}, {}};
  Constant number;
  if (dim.is_constant())
    number = Constant::integer(dim.constant());
  else
    number.size = dim;
  DimEnvironment* const sizes = dim.is_constant() ? nullptr : DimEnvironment::current();
  if (sizes && !(sizes->require_less(dim, Dim(Dim::limit)) && sizes->require_less(-dim, Dim(Dim::limit))))
    detail::refuse_size(loc);
  return record(Op::constant, {}, number, type, loc);
}

namespace {

struct Number {
  DType dtype;
  Constant value;
};
Number number_of(const At& literal) {
  switch (literal.kind) {
    case DTypeKind::floating: return {DType::f64, Constant::number(DType::f64, literal.number)};
    case DTypeKind::integer: return {DType::i64, Constant::integer(literal.integer)};
    case DTypeKind::boolean: break;
  }
  return {DType::boolean, Constant::integer(literal.integer)};
}

// The name of the user's call takes the place of "literal".
template <class Text>
[[noreturn]] void refuse_number(const Text& number, DType dtype, Loc loc) {
  const auto [least, greatest] = integer_range(dtype);
  fail("literal", loc, number, " does not fit into ", info(dtype).name, ", which holds ", least, " to ", greatest);
}
Constant literal_in(DType dtype, const Number& literal, Loc loc) {
  if (std::optional<Constant> held = literal.value.literal_in(dtype, literal.dtype)) [[likely]]
    return *held;
  if (is_floating(literal.dtype)) refuse_number(literal.value.as_number(literal.dtype), dtype, loc);
  refuse_number(literal.value.as_integer(), dtype, loc);
}

// Of a size, which is known when the function is called: a guard remembers that it fits.
void check_size_fits(Dim size, DType dtype, Loc loc) {
  if (!is_integer(dtype) || dtype == DType::i64) return;
  const auto [least, greatest] = integer_range(dtype);
  if (size < Dim(least) || size > Dim(greatest)) refuse_number(dims::to_string(size), dtype, loc);
}

}  // namespace

Constant literal_in(DType dtype, const At& literal, Loc loc) { return literal_in(dtype, number_of(literal), loc); }

Tensor resolve(const At& operand, const char* operation) {
  if (operand.tensor) {
    const Tensor value = admitted(*operand.tensor, operation, operand.loc);
    return recorder().autocast == DType::f32 ? value : autocast_operand(value, operation);
  }
  if (operand.symbolic) return dim_value(operand.size, operand.loc);
  const Number number = number_of(operand);
  return record(Op::constant, {}, number.value, Type{number.dtype, true, {}, {}}, operand.loc);
}

namespace {

bool is_number(const Tensor& value) {
  return value.node()->op == Op::constant && !value.node()->attributes<Constant>().is_size();
}

Dim broadcast_size(Dim a, Dim b, bool& fits) {
  if (a.same(b) || b.same(Dim(1))) return a;
  if (a.same(Dim(1))) return b;
  fits = fits && a == b;
  return b.is_constant() ? b : a;
}

}  // namespace

// What has no memory is made where it is needed, a 0-d value of the host goes there, all else stays where it is.
static Tensor on_device(const Tensor& operand, Device device, Loc loc) {
  const Node& node = *operand.node();
  Type type = type_of(operand);
  if (type.device == device) return operand;
  const bool from_host = type.device.type == Device::Type::cpu;
  type.device = device;
  if (node.op == Op::iota || is_number(operand)) return record(node.op, {}, node.attributes(), type, loc);
  return from_host && type.shape.rank() == 0 ? record(Op::transfer, {operand}, {}, type, loc) : operand;
}

Tensor coerce(const Tensor& given, DType dtype, bool weak, const Shape& shape, Device device, Loc loc) {
  Tensor operand = on_device(given, device, loc);
  const Type& type = type_of(operand);
  if (type.dtype == dtype && type.shape.same(shape) && (weak || !type.weak || shape.rank() > 0)) return operand;
  if (is_number(operand) && type.shape.rank() == 0) {
    const Type wanted{dtype, weak, device, shape};
    const Constant number = type.weak
                                ? literal_in(dtype, Number{type.dtype, operand.node()->attributes<Constant>()}, loc)
                                : *fold(Op::cast, wanted, std::span(&operand, 1));
    return record(Op::constant, {}, number, wanted, loc);
  }
  if (type.weak && operand.node()->op == Op::constant)
    check_size_fits(operand.node()->attributes<Constant>().size, dtype, loc);
  Tensor value = operand;
  if (type.dtype != dtype || (type.weak && !weak))
    value = record(Op::cast, {value}, {}, Type{dtype, weak, {}, {}}, loc);
  if (!type.shape.same(shape))
    value = record(Op::expand, {settled_for(value, shape, loc)}, {}, Type{dtype, weak, {}, shape}, loc);
  return value;
}

Shape broadcast(const char* operation, std::span<const Tensor> operands, Loc loc) {
  Shape shape = type_of(operands[0]).shape;
  bool fits = true;
  for (std::size_t i = 1; i < operands.size(); ++i) {
    const Shape& other = type_of(operands[i]).shape;
    Shape merged;
    merged.resize(std::max(shape.rank(), other.rank()));
    for (int axis = 1; axis <= merged.rank(); ++axis) {
      Dim a = axis <= shape.rank() ? shape[shape.rank() - axis] : Dim(1);
      Dim b = axis <= other.rank() ? other[other.rank() - axis] : Dim(1);
      merged[merged.rank() - axis] = broadcast_size(a, b, fits);
    }
    shape = merged;
  }
  if (!fits) fail(operation, loc, "shapes do not broadcast: ", describe_operands(operands));
  return shape;
}

Promotable promotable(const Tensor& value) {
  const Type& type = type_of(value);
  return {type.dtype, type.shape.rank() == 0, type.weak};
}
Promotable promoted(const Promotable& a, const Promotable& b, Loc loc) {
  if (only_holds(a.dtype) != only_holds(b.dtype) || (only_holds(a.dtype) && a.dtype != b.dtype))
    if (!a.weak && !b.weak)
      fail("promotion", loc, info(a.dtype).name, " does not meet ", info(b.dtype).name,
           ": a float of 8 bits is cast first");
  return {promote(a, b), a.scalar && b.scalar, a.weak && b.weak};
}

void unify(const char* operation, std::span<Tensor> operands, DTypeClass dtypes, Loc loc) {
  std::size_t first = dtypes == DTypeClass::select ? 1 : 0;  // where()'s condition keeps its dtype
  Promotable common = promotable(operands[first]);
  for (std::size_t i = first + 1; i < operands.size(); ++i) common = promoted(common, promotable(operands[i]), loc);
  // Two numbers chosen by a tensor are a tensor: of the default dtype.
  if (first == 1 && common.weak && !type_of(operands[0]).weak)
    common = {common.dtype == DType::f64 ? DType::f32 : common.dtype, false, false};
  if (dtypes == DTypeClass::floating && !is_floating(common.dtype))
    common.dtype = common.weak ? DType::f64 : DType::f32;
  if (dtypes == DTypeClass::predicate && !is_floating(common.dtype)) common.dtype = DType::f32;
  if (dtypes == DTypeClass::arithmetic && common.dtype == DType::boolean)
    fail(operation, loc, "is not defined on bool: cast first, or use & | ^ ~");
  if (dtypes == DTypeClass::bits && is_floating(common.dtype))
    fail(operation, loc, "needs bool or integers: ", describe_operands(operands));
  if (dtypes == DTypeClass::integers && !is_integer(common.dtype))
    fail(operation, loc, "needs integers: ", describe_operands(operands));
  settle_ones(operands, 0, loc);
  Shape shape = broadcast(operation, operands, loc);
  Device device = type_of(operands[0]).device;
  for (const Tensor& operand : operands)
    if (type_of(operand).device.type != Device::Type::cpu) device = type_of(operand).device;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    bool condition = i < first;
    if (condition && type_of(operands[i]).dtype != DType::boolean)
      fail(operation, loc, "the condition must be bool, it is ", to_string(type_of(operands[i])));
    operands[i] = coerce(operands[i], condition ? DType::boolean : common.dtype, common.weak, shape, device, loc);
  }
}

// The comparison of a symbolic size records a guard.
static bool is_negative_literal(const Tensor& value) {
  const Node& node = *value.node();
  if (node.op != Op::constant || !node.type.weak || is_floating(node.type.dtype)) return false;
  const auto& number = node.attributes<Constant>();
  return number.is_size() ? number.size < Dim(0) : number.as_integer() < 0;
}

// polygamma is NaN for orders outside of 0 to 30. An order that is a number throws instead.
static void check_polygamma_order(const Tensor& order, Loc loc) {
  const Node& node = *order.node();
  if (node.op != Op::constant || !node.type.weak) return;
  const auto& number = node.attributes<Constant>();
  if (number.is_size()) return;
  const double n =
      is_floating(node.type.dtype) ? number.as_number(node.type.dtype) : static_cast<double>(number.as_integer());
  if (!(n >= 0 && n < 31)) fail("polygamma", loc, "the order is ", n, ", which is not in 0 to 30");
}

std::optional<DType> rounds_numbers(std::span<const Tensor> operands) {
  std::optional<DType> narrow;
  for (const Tensor& operand : operands) {
    const Type& type = type_of(operand);
    if (type.weak) continue;
    if (!is_narrow_float(type.dtype) || only_holds(type.dtype) || (narrow && *narrow != type.dtype)) return {};
    narrow = type.dtype;
  }
  const auto is_kept = [&](const Tensor& operand) {
    const Node& node = *operand.node();
    if (!node.type.weak) return true;
    if (node.op != Op::constant || node.attributes<Constant>().is_size()) return false;
    const double number = node.attributes<Constant>().as_number(node.type.dtype);
    return std::isnan(number) || round_to(*narrow, number) == number;
  };
  if (narrow && !std::ranges::all_of(operands, is_kept)) return narrow;
  return {};
}

// One pass over the tensors; the numbers are f32.
static Tensor pointwise_in_f32(Op op, std::span<Tensor> operands, DType narrow, Loc loc) {
  Device device;
  for (const Tensor& operand : operands)
    if (type_of(operand).device.type != Device::Type::cpu) device = type_of(operand).device;
  for (Tensor& operand : operands)
    if (type_of(operand).weak) operand = coerce(operand, DType::f32, false, {}, device, loc);
  Tensor result;
  const auto body = [&](std::span<const Tensor> inputs, std::span<Tensor> results) {
    std::vector<Tensor> wide;
    for (const Tensor& input : inputs) wide.push_back(cast(input, DType::f32));
    const std::vector<At> list(wide.begin(), wide.end());
    results[0] = cast(pointwise(op, list), narrow);
  };
  composite(called(info(op).name), operands, std::span(&result, 1), loc, body);
  return result;
}

Tensor pointwise(Op op, std::span<const At> operands) {
  const OpInfo& row = info(op);
  const char* const outer = called_operation();
  const CalledOperation call(outer ? outer : row.name);
  const Recorder& r = recorder();
  const Loc loc = r.loc.file ? r.loc : operands[0].loc;
  note_call(loc);
  Tensor values[3];
  for (std::size_t i = 0; i < operands.size(); ++i) values[i] = resolve(operands[i], row.name);
  // A number over a tensor is the tensor's reciprocal, as PyTorch has it.
  if (op == Op::div && r.autocast != DType::f32 && !outer && type_of(values[0]).weak)
    values[1] = autocast_as(values[1], "reciprocal");
  std::span<Tensor> list(values, operands.size());
  if (row.rounding != Rounding::exact)
    if (const std::optional<DType> narrow = rounds_numbers(list)) return pointwise_in_f32(op, list, *narrow, loc);
  if (op == Op::polygamma) check_polygamma_order(values[0], loc);
  const Tensor exponent = op == Op::pow ? values[1] : Tensor();
  unify(row.name, list, row.dtypes, loc);
  if (op == Op::pow && !is_floating(type_of(values[0]).dtype) && is_negative_literal(exponent))
    fail(row.name, loc, "integers to a negative power: cast them to a float first");
  return record(op, list, {}, {}, loc);
}

int normalize_axis(const char* operation, int axis, int rank, Loc loc) {
  int normalized = axis < 0 ? axis + rank : axis;
  if (normalized < 0 || normalized >= rank)
    fail(operation, loc, "axis ", axis, " is out of range for ", counted(rank, "axis", "axes"));
  return normalized;
}

}  // namespace weft
