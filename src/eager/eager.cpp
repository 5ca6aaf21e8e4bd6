// The eager executor's dispatch, and the primitives that move elements without computing: constants, views, assembling.
#include "eager/eager.hpp"

#include <cstring>
#include <numeric>

#include "base/fail.hpp"
#include "eager/device.hpp"
#include "ir/collective.hpp"
#include "runtime/processes/process_group.hpp"

namespace weft::eager {

Value make_value(const Type& type) {
  Sizes sizes = sizes_of(type);
  return Value(type, allocate(type.device, storage_bytes(type.dtype, sizes.count())), contiguous_layout(sizes));
}

Value make_contiguous(const Value& value) {
  if (value.contiguous()) return value;
  Value result = make_value(value.type);
  copy_elements(value.sizes, value.element_bytes(), result.storage->data, result.layout, value.storage->data,
                value.layout);
  return result;
}

Value make_writable(const Value& value) {
  if (value.layout.offset == 0 && value.contiguous() && unique(value.storage)) return value;
  Value result = make_value(value.type);
  copy_elements(value.sizes, value.element_bytes(), result.storage->data, result.layout, value.storage->data,
                value.layout);
  return result;
}

namespace {

// One element of memory, however large the shape.
Value execute_constant(const Constant& number, const Type& type) {
  bool size = number.is_size();
  std::int64_t integer = size ? number.size.constant() : number.as_integer();
  double real = size ? static_cast<double>(integer) : number.as_number(DType::f64);
  Type one = type;
  one.shape = {};
  if (is_narrow_float(type.dtype)) one.dtype = DType::f64;
  Value result = make_value(one);
  const auto put = [&]<class T>(T* to) {
    if constexpr (std::is_arithmetic_v<T>)
      *to = std::is_floating_point_v<T> ? static_cast<T>(real) : static_cast<T>(integer);
  };
  switch (one.dtype) {
#define WEFT_DTYPE(name, text, bits, packing, kind, computed, accumulated, exponent, type) \
  case DType::name:                                                                        \
    put(result.as<type>());                                                                \
    break;
#include "weft/dtypes.def"
#undef WEFT_DTYPE
  }
  result = convert(result, type.dtype);
  result.type = type;
  result.sizes = sizes_of(type);
  std::fill_n(result.layout.strides, max_rank, 0);
  return result;
}

// The numbers along one axis; the others repeat them.
Value execute_iota(const Along& along, const Type& type) {
  int axis = along.axis;
  Type line = type;
  line.shape = Shape::of(type.shape[axis]);
  Type counted = line;
  counted.dtype = DType::i64;
  Value numbers = make_value(counted);
  std::iota(numbers.as<std::int64_t>(), numbers.as<std::int64_t>() + numbers.sizes.count(), std::int64_t{0});
  Value result = convert(numbers, type.dtype);
  result.type = type;
  result.sizes = sizes_of(type);
  std::fill_n(result.layout.strides, max_rank, 0);
  result.layout.strides[axis] = 1;
  return result;
}

// Of several processes, which all come to this point. Of one it is the value itself.
Value execute_collective(Op op, const Attributes& attributes, const Type& type, const Value& operand) {
  const CollectiveOperation what = collective_of(op, attributes, type.dtype);
  if (what.processes == 1) {
    Value same = operand;
    same.type = type;
    return same;
  }
  const Value own = make_contiguous(operand), result = make_value(type);
  runtime::group_of(what.processes).run(what, own.sizes.count(), own.data(), result.data());
  return result;
}

Value execute_view(Op op, const Attributes& attributes, const Type& type, const Value& operand) {
  Value result = operand;
  result.type = type;
  result.sizes = sizes_of(type);
  std::int64_t* strides = result.layout.strides;
  switch (op) {
    case Op::reshape: {
      std::optional<Layout> layout = reshape_layout(operand.sizes, operand.layout, result.sizes);
      if (!layout) {
        result = make_contiguous(operand);
        result.type = type;
        result.sizes = sizes_of(type);
        layout = contiguous_layout(result.sizes);
      }
      result.layout = *layout;
      break;
    }
    case Op::permute: {
      const AxisList& axes = attributes.as<Permute>().axes;
      for (std::size_t i = 0; i < axes.count; ++i) strides[i] = operand.layout.strides[axes[i]];
      break;
    }
    case Op::expand: {
      int lead = result.sizes.rank - operand.sizes.rank;
      for (int i = 0; i < result.sizes.rank; ++i) {
        bool repeats = i < lead || operand.sizes.size[i - lead] == 1;
        strides[i] = repeats ? 0 : operand.layout.strides[i - lead];
      }
      break;
    }
    case Op::windows: {
      const auto& windows = attributes.as<Windows>();
      for (int i = result.sizes.rank - 1; i > windows.axis; --i) strides[i] = operand.layout.strides[i - 1];
      strides[windows.axis] *= windows.dilation;
      strides[windows.axis + 1] *= windows.step;
      break;
    }
    default: {  // slice
      const auto& slice = attributes.as<Slice>();
      const std::size_t axis = slice.axis;
      if (result.sizes.size[axis] > 0) result.layout.offset += slice.start.constant() * strides[axis];
      if (result.sizes.size[axis] > 1) strides[axis] *= slice.step;
    }
  }
  return result;
}

// Copies `part` to where `place` begins along `axis`, every `step`-th element.
void put_part(Value& result, const Value& part, int axis, std::int64_t place, std::int64_t step) {
  Layout target = result.layout;
  if (part.sizes.count() == 0) return;
  target.offset += place * target.strides[axis];
  if (part.sizes.size[axis] > 1) target.strides[axis] *= step;
  copy_elements(part.sizes, part.element_bytes(), result.storage->data, target, part.storage->data, part.layout);
}

Value execute_concat(const Along& along, const Type& type, std::span<const Value> parts) {
  Value result = make_value(type);
  std::int64_t place = 0;
  for (const Value& part : parts) {
    put_part(result, part, along.axis, place, 1);
    place += part.sizes.size[along.axis];
  }
  return result;
}

}  // namespace

// The position was checked when the operation was recorded.
Value execute_update_slice(const Along& along, const Type& type, std::span<const Value> operands) {
  const Value start = make_contiguous(operands[2]);
  const std::int64_t at = *start.as<std::int64_t>(), length = operands[1].sizes.size[along.axis];
  WEFT_CHECK(0 <= at && at + length <= operands[0].sizes.size[along.axis], "an update at ", at);
  Value result = make_writable(operands[0]);
  result.type = type;
  put_part(result, operands[1], along.axis, at, 1);
  return result;
}

namespace {

Value execute_pad(const Pad& pad, const Type& type, const Value& operand) {
  Value result = make_value(type);
  std::memset(result.data(), 0, storage_bytes(type.dtype, result.sizes.count()));
  put_part(result, operand, pad.axis, pad.before.constant(), pad.interior + 1);
  return result;
}

Value execute_cast(Op op, const Type& type, const Value& operand) {
  if (operand.type.dtype == type.dtype || (op == Op::bitcast && type.dtype != DType::boolean)) {
    Value result = operand;
    result.type = type;
    return result;
  }
  return execute_pointwise(Op::cast, type, std::span(&operand, 1));  // any byte but 0 becomes true
}

// The message was completed with its line when the check was recorded.
Value execute_check(const Message& message, const Type& type, const Value& condition) {
  if (!*condition.as<bool>()) throw_error("", {}, interned_text(message.text.id));
  Value token = make_value(type);
  *token.as<bool>() = true;
  return token;
}

}  // namespace

Value execute(Op op, const Attributes& attributes, const Type& type, std::span<const Value> operands, Loc loc) {
  if (op == Op::transfer) return execute_transfer(type, operands[0]);
  if (type.device.type != Device::Type::cpu) return execute_on_device(op, attributes, type, operands, loc);
  switch (info(op).kind) {
    case OpKind::pointwise: return execute_pointwise(op, type, operands);
    case OpKind::cast: return execute_cast(op, type, operands[0]);
    case OpKind::view: return execute_view(op, attributes, type, operands[0]);
    case OpKind::reduce: return execute_reduction(op, attributes.as<Reduce>(), type, operands[0]);
    case OpKind::cumulative: return execute_cumulative(op, attributes.as<Along>(), type, operands[0]);
    case OpKind::contraction: return execute_matmul(type, operands[0], operands[1]);
    case OpKind::convolution: return execute_convolution(op, attributes, type, operands, loc);
    case OpKind::random: return execute_random_bits(type, operands[0], operands[1]);
    case OpKind::effect: return execute_check(attributes.as<Message>(), type, operands[0]);
    case OpKind::assemble:
      return op == Op::pad ? execute_pad(attributes.as<Pad>(), type, operands[0])
                           : execute_concat(attributes.as<Along>(), type, operands);
    case OpKind::index:
      if (op == Op::update_slice) return execute_update_slice(attributes.as<Along>(), type, operands);
      if (op == Op::update_rows) return execute_update_rows(attributes.as<RowUpdate>(), type, operands, loc);
      return op == Op::gather ? execute_gather(type, operands[0], operands[1], loc)
                              : execute_scatter(op, type, operands[0], operands[1], loc);
    case OpKind::order: return execute_argsort(attributes.as<Order>(), type, operands[0]);
    case OpKind::collective: return execute_collective(op, attributes, type, operands[0]);
    case OpKind::identity: {
      Value result = operands[0];
      result.type = type;
      return result;
    }
    case OpKind::leaf:
      if (op == Op::constant) return execute_constant(attributes.as<Constant>(), type);
      if (op == Op::iota) return execute_iota(attributes.as<Along>(), type);
      break;
    case OpKind::factorization:  // of several results
    case OpKind::region: break;
  }
  WEFT_CHECK(false, info(op).name, " has no eager kernel");
}

}  // namespace weft::eager
