#include "ir/infer.hpp"

#include "base/fail.hpp"
#include "ir/collective.hpp"
#include "ir/factorization.hpp"

namespace weft {

std::string describe_operands(std::span<const Tensor> operands) {
  std::string text;
  for (const Tensor& operand : operands) {
    if (!text.empty()) text += " x ";
    Type type = type_of(operand);
    type.weak = false;  // an inner matter of promotion
    text += to_string(type);
  }
  return text;
}

namespace {

// A float of 8 bits is cast, moved, chosen and compared, and nothing is computed of it.
bool computes(Op op, const Attributes& attributes) {
  switch (info(op).kind) {
    case OpKind::pointwise: {
      const DTypeClass dtypes = info(op).dtypes;
      return dtypes == DTypeClass::arithmetic || dtypes == DTypeClass::floating;
    }
    case OpKind::reduce:
    case OpKind::cumulative:
    case OpKind::contraction:
    case OpKind::convolution:
    case OpKind::order: return true;
    case OpKind::index:
      return op == Op::scatter_add || op == Op::scatter_amax ||
             (op == Op::update_rows && attributes.as<RowUpdate>().adds);
    case OpKind::collective: return op != Op::broadcast && op != Op::all_gather;
    default: return false;
  }
}
void refuse_what_only_holds(Op op, std::span<const Tensor> operands, const Attributes& attributes, Loc loc) {
  for (const Tensor& operand : operands)
    if (only_holds(type_of(operand).dtype) && computes(op, attributes))
      fail(info(op).name, loc, "is not defined on ", info(type_of(operand).dtype).name,
           ", which holds numbers and computes nothing, cast first: ", describe_operands(operands));
}

bool accepts(DTypeClass dtypes, DType dtype) {
  switch (dtypes) {
    case DTypeClass::arithmetic: return dtype != DType::boolean;
    case DTypeClass::floating:
    case DTypeClass::predicate: return is_floating(dtype);
    case DTypeClass::bits: return !is_floating(dtype);
    case DTypeClass::integers: return is_integer(dtype);
    default: return true;
  }
}

Type infer_pointwise(Op op, std::span<const Tensor> operands, Loc loc) {
  const OpInfo& row = info(op);
  std::size_t first = row.dtypes == DTypeClass::select ? 1 : 0;
  const Type& lead = type_of(operands[first]);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Type& type = type_of(operands[i]);
    bool dtype_fits =
        i < first ? type.dtype == DType::boolean : type.dtype == lead.dtype && accepts(row.dtypes, type.dtype);
    if (!dtype_fits) fail(row.name, loc, "dtypes do not fit: ", describe_operands(operands));
    if (!type.shape.same(lead.shape)) fail(row.name, loc, "shapes differ: ", describe_operands(operands));
    if (type.device != lead.device)
      fail(row.name, loc, "operands live on different devices: ", describe_operands(operands));
  }
  Type result = lead;
  for (const Tensor& operand : operands) result.weak = result.weak && type_of(operand).weak;
  if (row.dtypes == DTypeClass::comparison || row.dtypes == DTypeClass::predicate) {
    result.dtype = DType::boolean;
  }
  return result;
}

Type infer_view(Op op, std::span<const Tensor> operands, const Attributes& attributes, const Type& wanted, Loc loc) {
  const Type& source = type_of(operands[0]);
  Type result = source;
  result.shape = wanted.shape;
  int rank = source.shape.rank();
  if (op == Op::reshape || op == Op::expand)
    for (Dim size : wanted.shape)
      if (size.is_constant() && size.constant() < 0)
        fail(info(op).name, loc, "a size is negative: ", to_string(source), " to ", to_string(result));
  switch (op) {
    case Op::reshape:
      if (!(source.shape.element_count() == wanted.shape.element_count()))
        fail("reshape", loc, "element counts differ: ", to_string(source), " to ", to_string(result));
      break;
    case Op::permute: {
      unsigned seen = 0;
      const AxisList& axes = attributes.as<Permute>().axes;
      if (axes.count != rank) fail("permute", loc, "not a permutation of the axes of ", to_string(source));
      result.shape = Shape();
      for (int i = 0; i < rank; ++i) {
        const std::uint8_t axis = axes[static_cast<std::size_t>(i)];
        if (axis >= rank || (seen >> axis & 1))
          fail("permute", loc, "not a permutation of the axes of ", to_string(source));
        seen |= 1u << axis;
        result.shape.push_back(source.shape[axis]);
      }
      break;
    }
    case Op::expand: {
      int lead = wanted.shape.rank() - rank;
      bool fits = lead >= 0;
      for (int i = 0; fits && i < rank; ++i)
        fits = source.shape[i].same(Dim(1)) || source.shape[i] == wanted.shape[i + lead];  // a 1 guards nothing
      if (!fits) fail("expand", loc, to_string(source), " does not expand to ", to_string(result));
      break;
    }
    case Op::slice: {
      const auto& slice = attributes.as<Slice>();
      const int axis = slice.axis;
      WEFT_CHECK(axis < rank && slice.step != 0);
      result.shape = source.shape;
      result.shape[axis] = wanted.shape[axis];
      break;
    }
    case Op::windows: {
      const auto& windows = attributes.as<Windows>();
      WEFT_CHECK(windows.axis < rank && rank < max_rank && windows.size > 0 && windows.step > 0 &&
                 windows.dilation > 0);
      const Dim span = Dim(windows.dilation) * Dim(windows.size - 1), size = source.shape[windows.axis];
      WEFT_CHECK(!size.is_constant() || size > span, "a window is longer than axis ", int{windows.axis}, " of ",
                 to_string(source));
      result.shape = Shape();
      for (int i = 0; i < rank; ++i) {
        if (i == windows.axis) result.shape.push_back(windows.size);
        result.shape.push_back(i == windows.axis ? (size - span - Dim(1)) / Dim(windows.step) + Dim(1)
                                                 : source.shape[i]);
      }
      break;
    }
    default: WEFT_CHECK(false, info(op).name);
  }
  return result;
}

Type infer_assemble(Op op, std::span<const Tensor> operands, const Attributes& attributes, Loc loc) {
  Type result = type_of(operands[0]);
  result.weak = false;
  if (op == Op::pad) {
    const auto& pad = attributes.as<Pad>();
    WEFT_CHECK(pad.axis < result.shape.rank());
    const Dim size = result.shape[pad.axis];
    result.shape[pad.axis] = size + Dim(pad.interior) * (size - Dim(1)) + pad.before + pad.after;
    return result;
  }
  const int axis = attributes.as<Along>().axis;
  WEFT_CHECK(axis < result.shape.rank());
  Dim total = 0;
  for (const Tensor& operand : operands) {
    const Type& part = type_of(operand);
    bool fits = part.dtype == result.dtype && part.shape.rank() == result.shape.rank() && part.device == result.device;
    for (int i = 0; fits && i < result.shape.rank(); ++i) fits = i == axis || part.shape[i] == result.shape[i];
    if (!fits) fail("concat", loc, "parts differ besides axis ", axis, ": ", describe_operands(operands));
    total = total + part.shape[axis];
  }
  result.shape[axis] = total;
  return result;
}

Type infer_reduce(Op op, std::span<const Tensor> operands, const Attributes& attributes, Loc loc) {
  Type result = type_of(operands[0]);
  bool orders = op == Op::amax || op == Op::amin || op == Op::argmax;
  for (int i = 0; i < result.shape.rank(); ++i) {
    if (!attributes.as<Reduce>().axes[i]) continue;
    if (orders && result.shape[i].same(Dim(0)))
      fail(info(op).name, loc, "over an empty axis: ", to_string(type_of(operands[0])), ", axis ", i);
    result.shape[i] = Dim(1);
  }
  if (op == Op::argmax) result.dtype = DType::i64;
  if (!orders && !is_floating(result.dtype)) result.dtype = DType::i64;
  result.weak = false;
  return result;
}

Type infer_cumulative(Op op, const Tensor& operand, const Along& along, Loc loc) {
  Type result = type_of(operand);
  WEFT_CHECK(along.axis < result.shape.rank());
  const bool real = is_floating(result.dtype);
  if (result.dtype == DType::boolean || (op == Op::logcumsumexp && !real))
    fail(info(op).name, loc, "not for ", info(result.dtype).name);
  if ((op == Op::cumsum || op == Op::cumprod) && !real) result.dtype = DType::i64;
  result.weak = false;
  return result;
}

// A sum of products of 16-bit floats is in their dtype, or, where that is asked for, in the one that it is accumulated
// in.
DType dtype_of_sums(DType operands, const Type& wanted) {
  const bool asked = wanted.shape.rank() > 0 && is_floating(operands) && wanted.dtype == accumulated_in(operands);
  return asked ? wanted.dtype : operands;
}

Type infer_matmul(std::span<const Tensor> operands, const Type& wanted, Loc loc) {
  const Type &a = type_of(operands[0]), &b = type_of(operands[1]);
  int rank = a.shape.rank();
  if (a.dtype == DType::boolean && b.dtype == DType::boolean)
    fail("matmul", loc, "is not defined on bool, cast first: ", describe_operands(operands));
  if (rank < 2 || b.shape.rank() != rank || a.dtype != b.dtype)
    fail("matmul", loc, "operands do not fit: ", describe_operands(operands));
  if (!(a.shape[rank - 1] == b.shape[rank - 2]))
    fail("matmul", loc, "inner sizes differ: ", describe_operands(operands));
  for (int i = 0; i < rank - 2; ++i)
    if (!(a.shape[i] == b.shape[i])) fail("matmul", loc, "batch sizes differ: ", describe_operands(operands));
  if (a.device != b.device) fail("matmul", loc, "operands live on different devices: ", describe_operands(operands));
  Type result = a;
  result.dtype = dtype_of_sums(a.dtype, wanted);
  result.weak = false;
  result.shape[rank - 1] = b.shape[rank - 1];
  return result;
}

// Of operands that fit: [N, O, positions...].
Shape convolution_shape(const Shape& input, const Shape& weight, const Convolution& c) {
  Shape result = Shape::of(input[0], weight[0]);
  for (int i = 2; i < input.rank(); ++i) {
    const auto axis = static_cast<std::size_t>(i - 2);
    const Dim padded = input[i] + Dim(c.low[axis] + c.high[axis]), span = Dim(c.dilation[axis]) * (weight[i] - Dim(1));
    result.push_back((padded - span - Dim(1)) / Dim(c.strides[axis]) + Dim(1));
  }
  return result;
}

Type infer_convolution(Op op, std::span<const Tensor> operands, const Convolution& c, const Type& wanted, Loc loc) {
  const Type &a = type_of(operands[0]), &b = type_of(operands[1]);
  const char* const name = info(op).name;
  if (a.dtype != b.dtype || !is_floating(a.dtype))
    fail(name, loc, "needs two operands of one floating dtype: ", describe_operands(operands));
  if (a.device != b.device) fail(name, loc, "operands live on different devices: ", describe_operands(operands));
  Type result = a;
  result.dtype = dtype_of_sums(a.dtype, wanted);
  result.weak = false;
  if (op != Op::convolution) result.shape = wanted.shape;
  const Shape& input = op == Op::convolution_input_gradient ? result.shape : a.shape;
  const Shape& weight = op == Op::convolution_weight_gradient ? result.shape : b.shape;
  const int rank = input.rank();
  const auto axes = static_cast<std::size_t>(rank - 2);
  if (rank < 3 || rank > 5 || weight.rank() != rank)
    fail(name, loc, "needs an input [N,C,...] and a weight [O,C/groups,...] of 1 to 3 further axes each: ",
         describe_operands(operands));
  WEFT_CHECK(c.strides.count == axes && c.low.count == axes && c.high.count == axes && c.dilation.count == axes);
  for (std::size_t i = 0; i < axes; ++i) {
    if (c.strides[i] < 1) fail(name, loc, "a stride is ", c.strides[i]);
    if (c.dilation[i] < 1) fail(name, loc, "a dilation is ", c.dilation[i]);
    if (c.low[i] < 0 || c.high[i] < 0) fail(name, loc, "negative padding");
  }
  if (c.groups < 1) fail(name, loc, "there are ", c.groups, " groups");
  const Dim groups = c.groups;
  if (!(weight[1] * groups == input[1]))
    fail(name, loc, "the input's channels are not those of the weight, times ", counted(c.groups, "group", "groups"),
         ": ", describe_operands(operands));
  if (c.groups != 1 && !(weight[0] % groups == Dim(0)))
    fail(name, loc, c.groups, " groups do not divide the weight's output channels: ", describe_operands(operands));
  for (int i = 2; i < rank; ++i) {
    const auto axis = static_cast<std::size_t>(i - 2);
    if (weight[i] < Dim(1)) fail(name, loc, "a kernel of no elements: ", describe_operands(operands));
    if (input[i] + Dim(c.low[axis] + c.high[axis]) <= Dim(c.dilation[axis]) * (weight[i] - Dim(1)))
      fail(name, loc, "the kernel is larger than the padded input: ", describe_operands(operands));
  }
  const Shape forward = convolution_shape(input, weight, c);
  if (op == Op::convolution)
    result.shape = forward;
  else if (const Shape& gradient = op == Op::convolution_input_gradient ? a.shape : b.shape; !(gradient == forward))
    fail(name, loc, "the gradient is not of the convolution's shape ", to_string(forward), ": ",
         describe_operands(operands));
  return result;
}

Type infer_update(std::span<const Tensor> operands, const Along& along, Loc loc) {
  const Type &whole = type_of(operands[0]), &update = type_of(operands[1]), &start = type_of(operands[2]);
  bool fits = whole.dtype == update.dtype && whole.shape.rank() == update.shape.rank() && whole.device == update.device;
  for (int i = 0; fits && i < whole.shape.rank(); ++i) fits = i == along.axis || whole.shape[i] == update.shape[i];
  if (!fits || along.axis >= whole.shape.rank())
    fail("update_slice", loc, "the update does not fit along axis ", int{along.axis}, ": ",
         describe_operands(operands));
  if (start.dtype != DType::i64 || start.shape.rank() != 0)
    fail("update_slice", loc, "the position must be one i64: ", describe_operands(operands));
  Type result = whole;
  result.weak = false;
  return result;
}

Type infer_row_update(std::span<const Tensor> operands, const RowUpdate& update, Loc loc) {
  const Type &table = type_of(operands[0]), &rows = type_of(operands[1]), &index = type_of(operands[2]);
  bool fits = table.dtype == rows.dtype && table.shape.rank() == rows.shape.rank() &&
              update.axis < table.shape.rank() && index.shape.rank() == 1;
  for (int i = 0; fits && i < table.shape.rank(); ++i)
    fits = rows.shape[i] == (i == update.axis ? index.shape[0] : table.shape[i]);
  if (!fits)
    fail("update_rows", loc, "the rows do not fit along axis ", int{update.axis}, ": ", describe_operands(operands));
  if (index.dtype != DType::i64) fail("update_rows", loc, "the index must be i64: ", describe_operands(operands));
  if (rows.device != table.device || index.device != table.device)
    fail("update_rows", loc, "operands live on different devices: ", describe_operands(operands));
  Type result = table;
  result.weak = false;
  return result;
}

Type infer_index(Op op, std::span<const Tensor> operands, const Attributes& attributes, const Type& wanted, Loc loc) {
  if (op == Op::update_slice) return infer_update(operands, attributes.as<Along>(), loc);
  if (op == Op::update_rows) return infer_row_update(operands, attributes.as<RowUpdate>(), loc);
  // gather(table, index), scatters(index, updates): rows are axis 0 of the table.
  const Type& index = type_of(op == Op::gather ? operands[1] : operands[0]);
  const Type& rows = type_of(op == Op::gather ? operands[0] : operands[1]);
  if (index.dtype != DType::i64) fail(info(op).name, loc, "the index must be i64: ", describe_operands(operands));
  if (index.device != rows.device)
    fail(info(op).name, loc, "operands live on different devices: ", describe_operands(operands));
  Type result = rows;
  result.weak = false;
  result.shape = Shape();
  if (op == Op::gather) {
    if (rows.shape.rank() < 1) fail("gather", loc, "from a 0-d tensor");
    if (index.shape.rank() + rows.shape.rank() - 1 > max_rank) fail("gather", loc, "more than 8 axes");
    for (Dim dim : index.shape) result.shape.push_back(dim);
    for (int i = 1; i < rows.shape.rank(); ++i) result.shape.push_back(rows.shape[i]);
  } else {
    if (op == Op::scatter_amax && (computed_in(rows.dtype) != rows.dtype || rows.dtype == DType::boolean))
      fail("scatter_amax", loc, "not for ", info(rows.dtype).name);
    int lead = index.shape.rank();
    result.shape.push_back(wanted.shape[0]);
    for (int i = 0; i < lead; ++i)
      if (!(index.shape[i] == rows.shape[i]))
        fail(info(op).name, loc, "index and updates differ: ", describe_operands(operands));
    for (int i = lead; i < rows.shape.rank(); ++i) result.shape.push_back(rows.shape[i]);
  }
  return result;
}

Type infer_order(const Order& order, const Tensor& operand, Loc loc) {
  Type result = type_of(operand);
  if (result.shape.rank() == 0) fail("argsort", loc, "a 0-d tensor has no rows");
  if (computed_in(result.dtype) != result.dtype || result.dtype == DType::boolean)
    fail("argsort", loc, "not for ", info(result.dtype).name);
  if (!order.count.same(Dim(0))) result.shape[result.shape.rank() - 1] = order.count;
  result.dtype = DType::i64;
  result.weak = false;
  return result;
}

// Only axis 0 of a gathered or scattered value changes.
Type infer_collective(Op op, const Tensor& operand, const Attributes& attributes, Loc loc) {
  Type result = type_of(operand);
  const CollectiveOperation what = collective_of(op, attributes, result.dtype);
  if (what.processes < 1 || what.root < 0 || what.root >= what.processes)
    fail(info(op).name, loc, "there is no rank ", what.root, " among ",
         counted(what.processes, "process", "processes"));
  if (op != Op::all_gather && op != Op::reduce_scatter) return result;
  const Dim processes = what.processes;
  if (result.shape.rank() == 0) fail(info(op).name, loc, "a 0-d tensor has no axis 0");
  Dim& size = result.shape[0];
  if (op == Op::reduce_scatter && !(size % processes == Dim(0)))
    fail(info(op).name, loc, "axis 0 of ", to_string(type_of(operand)), " can't be cut into parts for ",
         dims::to_string(processes), " processes");
  size = op == Op::all_gather ? size * processes : size / processes;
  return result;
}

}  // namespace

Type infer(Op op, std::span<const Tensor> operands, const Attributes& attributes, const Type& wanted, Loc loc) {
  const OpInfo& row = info(op);
  WEFT_CHECK(op == Op::call || &attributes.type() == row.attributes, row.name, " has attributes of another primitive");
  WEFT_CHECK(row.arity < 0 || static_cast<std::size_t>(row.arity) == operands.size(), row.name);
  refuse_what_only_holds(op, operands, attributes, loc);
  switch (row.kind) {
    case OpKind::pointwise: return infer_pointwise(op, operands, loc);
    case OpKind::view: return infer_view(op, operands, attributes, wanted, loc);
    case OpKind::assemble: return infer_assemble(op, operands, attributes, loc);
    case OpKind::reduce: return infer_reduce(op, operands, attributes, loc);
    case OpKind::cumulative: return infer_cumulative(op, operands[0], attributes.as<Along>(), loc);
    case OpKind::contraction: return infer_matmul(operands, wanted, loc);
    case OpKind::convolution: return infer_convolution(op, operands, attributes.as<Convolution>(), wanted, loc);
    case OpKind::index: return infer_index(op, operands, attributes, wanted, loc);
    case OpKind::order: return infer_order(attributes.as<Order>(), operands[0], loc);
    case OpKind::factorization: return infer_factorization(op, operands, attributes, loc)[0];
    case OpKind::collective: return infer_collective(op, operands[0], attributes, loc);
    case OpKind::identity: {
      Type result = type_of(operands[0]);
      if (op == Op::transfer) result.device = wanted.device;
      return result;
    }
    case OpKind::cast: {
      Type result = type_of(operands[0]);
      if (op == Op::bitcast && info(result.dtype).bits != info(wanted.dtype).bits)
        fail("bitcast", loc, "widths differ: ", to_string(result), " to ", info(wanted.dtype).name);
      result.dtype = wanted.dtype;
      result.weak = wanted.weak;
      return result;
    }
    case OpKind::effect: {
      if (op == Op::host_call) return wanted;
      Type token;
      token.dtype = DType::boolean;
      token.device = operands.empty() ? Device{} : type_of(operands[0]).device;
      return token;
    }
    case OpKind::leaf:
    case OpKind::random:
    case OpKind::region: return wanted;
  }
  return wanted;
}

}  // namespace weft
