#include "record/host_values.hpp"

#include <cmath>
#include <cstring>

#include "base/fail.hpp"
#include "base/failed_checks.hpp"
#include "base/hash.hpp"
#include "eager/device.hpp"
#include "record/default_device.hpp"
#include "record/evaluate.hpp"
#include "record/loops.hpp"
#include "record/record.hpp"
#include "record/unknown_values.hpp"
#include "record/values.hpp"

namespace weft {

using eager::Value;

namespace {

void require_defined(const Tensor& tensor, const char* operation, Loc loc) {
  if (!tensor.defined()) fail(operation, outermost(loc), "of an undefined tensor");
}

// Who answers for the value where it is one of the trace that is recorded; else null.
Decider* decider_of(const Tensor& tensor) {
  const Trace* const trace = recorder().trace();
  return trace && tensor.defined() && tensor.node()->trace == trace->id ? trace->decider : nullptr;
}

// The value in the host's memory.
Value read(const Tensor& tensor, const char* operation, Loc loc) {
  require_defined(tensor, operation, loc);
  if (const SharedByExamples shared(tensor); shared) return read(shared.value(), operation, loc);
  if (Decider* const decider = decider_of(tensor)) return read(decider->value(tensor, outermost(loc)), operation, loc);
  evaluate(std::span(&tensor, 1), loc, operation);
  Value value = value_of(tensor);
  if (value.type.device.type == Device::Type::cpu) return eager::make_contiguous(value);
  WEFT_CHECK(value.contiguous(), "a strided value on a device");
  Type type = value.type;
  type.device = Device::cpu();
  Value host = eager::make_value(type);
  DeviceInterface& memory = device_interface(value.type.device.type);
  memory.copy(host.data(), type.device, value.data(), value.type.device, storage_bytes(type.dtype, value.sizes.count()),
              value.storage->queue);
  memory.synchronize(value.type.device);
  require_good(*value.storage);
  return host;
}

void require_one(const Tensor& tensor, Loc loc, const char* operation = "item", const char* advice = "") {
  require_defined(tensor, operation, loc);
  if (!type_of(tensor).shape.element_count().same(Dim(1)))
    fail(operation, outermost(loc), "needs one element, the tensor is ", to_string(type_of(tensor)), advice);
}
Value read_one(const Tensor& tensor, DType dtype, Loc loc) {
  require_one(tensor, loc);
  return eager::convert(read(tensor, "item", loc), dtype);
}

// The node of a constant number, which holds the value itself: reading it computes nothing. Null for other tensors.
const Node* number_node(const Tensor& tensor) {
  const Node* node = tensor.node();
  bool known = node && node->op == Op::constant && node->type.shape.rank() == 0 &&
               !node->attributes<Constant>().is_size() &&
               (node->type.dtype == DType::f64 || node->type.dtype == DType::i64);
  return known ? node : nullptr;
}

std::int64_t decide(Decider& decider, const Tensor& tensor, Asked asked, Loc loc) {
  require_one(tensor, loc);
  return decider.decide(tensor, asked, outermost(loc));
}

void require_dtype(const Tensor& tensor, DType wanted, const char* operation, Loc loc) {
  require_defined(tensor, operation, loc);
  if (type_of(tensor).dtype != wanted)
    fail(operation, outermost(loc), "as ", info(wanted).name, ", the tensor is ", to_string(type_of(tensor)),
         ": cast it first");
}

}  // namespace

std::string answer_text(Asked asked, std::int64_t answer) {
  if (asked == Asked::elements) return "read";
  if (asked == Asked::boolean) return answer ? "true" : "false";
  return asked == Asked::natural ? std::to_string(static_cast<std::uint64_t>(answer)) : std::to_string(answer);
}

std::int64_t answer(const Tensor& value, Asked asked, Loc loc) {
  const auto integer_of = [&](double number) {
    const bool natural = asked == Asked::natural;
    const double low = natural ? 0 : -0x1p63, limit = natural ? 0x1p64 : 0x1p63, whole = std::trunc(number);
    if (!(low <= whole && whole < limit)) fail("item", loc, number, " does not fit into the integer that is asked for");
    return natural ? static_cast<std::int64_t>(static_cast<std::uint64_t>(whole)) : static_cast<std::int64_t>(whole);
  };
  const Type& type = type_of(value);
  const Storage* const storage = storage_of(value);
  if (storage && type.device.type == Device::Type::cpu && !layout_of(value)) {  // the usual case, without a copy
    if (type.dtype == DType::boolean) return *static_cast<const bool*>(storage->data);
    if (type.dtype == DType::i64) {
      const std::int64_t number = *static_cast<const std::int64_t*>(storage->data);
      return asked == Asked::boolean ? number != 0 : number;
    }
    if (type.dtype == DType::f32) {
      const float number = *static_cast<const float*>(storage->data);
      return asked == Asked::boolean ? number != 0 : integer_of(static_cast<double>(number));
    }
  }
  if (asked == Asked::integer && !is_floating(type.dtype)) return *read_one(value, DType::i64, loc).as<std::int64_t>();
  const double number = *read_one(value, DType::f64, loc).as<double>();
  return asked == Asked::boolean ? number != 0 : integer_of(number);
}

void refuse_host_data(const char* operation, Loc loc) {
  fail(operation, loc, "data from host memory in a compiled function: pass it as an argument, or use constant()");
}

std::string where_values_are_unknown() {
  const std::uint32_t trace = recorder().trace()->id;
  if (is_example_body(trace)) return "inside vmap, which is recorded once for all examples";
  if (is_loop_id(trace)) return "in the body of a loop, which is recorded once for all rounds";
  if (exporter.operation)
    return concat_text("in a function that ", exporter.operation, " exports (", to_string(exporter.line),
                       "), whose graph is one for all values");
  return "in a function that is compiled with {.fullgraph = true}, which has no decisions";
}

Tensor known_value(const char* operation, const Tensor& value, Loc loc) {
  if (Decider* const decider = decider_of(value)) return decider->value(value, loc);
  if (recorder().trace())
    fail(operation, loc, "the size of the result depends on values, and there are none ", where_values_are_unknown());
  return value;
}

Tensor counted_data(std::span<const std::int64_t> elements, const Shape& shape, Device device, Loc loc) {
  const auto made = [&] {
    Type type{DType::i64, false, {}, shape};
    Value value = eager::make_value(type);
    if (!elements.empty()) std::memcpy(value.data(), elements.data(), elements.size_bytes());
    return to(make_data(std::exchange(value.storage, nullptr), type, loc), device, loc);
  };
  Trace* const trace = recorder().trace();
  if (!trace) return made();
  Tensor outside;
  {
    const OutsideTraces no_trace;
    outside = made();
  }
  return trace->decider->counted_data(outside, loc);
}

Contiguous contiguous(const Tensor& value, Loc loc) {
  require_defined(value, "contiguous", loc);
  if (const SharedByExamples shared(value); shared) return contiguous(shared.value(), loc);
  if (Decider* const decider = decider_of(value)) return contiguous(decider->value(value, outermost(loc)), loc);
  evaluate(std::span(&value, 1), loc);
  Value result = eager::make_contiguous(value_of(value));
  std::int64_t offset = result.layout.offset;
  return {std::exchange(result.storage, nullptr), offset};
}

Tensor::operator bool() const {
  const Loc loc = defined() ? node()->loc : Loc();  // a condition has no line; what it asks is most often written there
  require_one(*this, loc, "bool", ": say any(x) or all(x); element by element & | ~ for && || !");
  return detail::read_item_boolean(*this, loc);
}

namespace detail {

const void* read_data(const Tensor& tensor, DType wanted, Storage** owner, std::int64_t* count, Loc loc) {
  require_dtype(tensor, wanted, "data", loc);
  Value value = read(tensor, "data", loc);
  const void* elements = value.data();
  *count = value.sizes.count();
  *owner = std::exchange(value.storage, nullptr);
  return elements;
}

double read_item(const Tensor& tensor, Loc loc) {
  if (const Node* node = number_node(tensor)) return node->attributes<Constant>().as_number(node->type.dtype);
  return *read_one(tensor, DType::f64, loc).as<double>();
}

bool read_item_boolean(const Tensor& tensor, Loc loc) {
  if (const Node* node = number_node(tensor)) return node->attributes<Constant>().as_number(node->type.dtype) != 0;
  if (const SharedByExamples shared(tensor); shared) return read_item_boolean(shared.value(), loc);
  if (Decider* const decider = decider_of(tensor)) return decide(*decider, tensor, Asked::boolean, loc) != 0;
  return *read_one(tensor, DType::f64, loc).as<double>() != 0;
}

std::int64_t read_item_integer(const Tensor& tensor, std::int64_t low, std::uint64_t high, Loc loc) {
  if (const SharedByExamples shared(tensor); shared) return read_item_integer(shared.value(), low, high, loc);
  const auto refuse = [&](auto value) {
    fail("item", outermost(loc), value, " does not fit into the integer that is asked for, of ", low, " to ", high);
  };
  if (Decider* const decider = number_node(tensor) ? nullptr : decider_of(tensor)) {
    if (high > INT64_MAX && is_floating(type_of(tensor).dtype)) return decide(*decider, tensor, Asked::natural, loc);
    const std::int64_t value = decide(*decider, tensor, Asked::integer, loc);
    if (value < low || (value > 0 && static_cast<std::uint64_t>(value) > high)) refuse(value);
    return value;
  }
  if (tensor.defined() && is_floating(type_of(tensor).dtype)) {
    const double value = read_item(tensor, loc), whole = std::trunc(value);
    if (!(static_cast<double>(low) <= whole && whole < static_cast<double>(high) + 1)) refuse(value);
    return whole < 0 ? static_cast<std::int64_t>(whole) : static_cast<std::int64_t>(static_cast<std::uint64_t>(whole));
  }
  const Node* node = number_node(tensor);
  const std::int64_t value = node && node->type.dtype == DType::i64
                                 ? node->attributes<Constant>().as_integer()
                                 : *read_one(tensor, DType::i64, loc).as<std::int64_t>();
  if (value < low || (value > 0 && static_cast<std::uint64_t>(value) > high)) refuse(value);
  return value;
}

void copy_out(const Tensor& tensor, DType wanted, void* to, std::size_t count, Loc loc) {
  require_dtype(tensor, wanted, "copy_to", loc);
  Value value = read(tensor, "copy_to", loc);
  if (static_cast<std::int64_t>(count) != value.sizes.count())
    fail("copy_to", outermost(loc), "into ", counted(static_cast<std::int64_t>(count), "element", "elements"),
         ", the tensor is ", to_string(value.type));
  if (count) std::memcpy(to, value.data(), storage_bytes(wanted, value.sizes.count()));
}

// In a trace the contents are part of the graph: their digest is what tells two graphs apart.
Tensor copy_in(const void* from, DType dtype, const Shape& shape, std::size_t count, HostData function, Loc loc) {
  Type type{dtype, false, {}, shape};
  const bool traced = function == HostData::constant;
  const char* operation = traced ? "constant" : function == HostData::from_list ? "from_list" : "from_span";
  loc = outermost(loc);
  Trace* trace = recorder().function() ? recorder().trace() : nullptr;  // eagerly a body captures it
  if (trace && !traced && !trace->decider) refuse_host_data(operation, loc);
  for (Dim size : shape)
    if (!size.is_constant() || size.constant() < 0) fail(operation, loc, "the sizes must be known: ", to_string(type));
  check_count(operation, type, loc);
  Value value = eager::make_value(type);
  std::size_t bytes = storage_bytes(dtype, value.sizes.count());
  if (static_cast<std::int64_t>(count) != value.sizes.count())
    fail(operation, loc, counted(static_cast<std::int64_t>(count), "element does", "elements do"), " not fill ",
         to_string(type));
  if (count) std::memcpy(value.data(), from, bytes);
  Tensor tensor = make_data(std::exchange(value.storage, nullptr), type, loc);
  if (trace) {
    Node* node = tensor.node();
    node->trace = trace->id;
    if (traced)
      node->attributes_ = Contents{static_cast<std::int64_t>(digest({static_cast<const char*>(from), bytes}).low)};
    ++trace->recorded;
    if (trace->decider)
      traced ? trace->decider->constant_data(tensor) : trace->decider->host_data(tensor, operation, loc);
  }
  return default_device == Device::cpu() ? tensor : to(tensor, default_device, loc);
}

}  // namespace detail
}  // namespace weft
