#include "record/elementwise.hpp"

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "base/fail.hpp"
#include "base/fork.hpp"
#include "base/lazy.hpp"
#include "record/composite.hpp"
#include "record/expressions.hpp"
#include "record/ones.hpp"
#include "runtime/host/isa.hpp"
#include "weft/detail/expr_tape.hpp"

namespace weft {
namespace {

using detail::ScalarEntry;
using detail::ScalarKind;
using detail::ScalarOp;

#define WEFT_POINTWISE(name, ...) static_assert(static_cast<int>(Op::name) == static_cast<int>(ScalarOp::name));
#include "weft/ops.def"

// A definition made at run time, with what it points to.
struct OwnedDefinition {
  std::vector<ScalarEntry> entries;
  ElementwiseDefinition definition;
};

// Definitions live as long as the process: nodes point to them.
struct Definitions {
  ProcessMutex& mutex = process_mutex(LockOrder::definitions);
  std::deque<OwnedDefinition> kept;
  std::map<std::pair<const ElementwiseDefinition*, std::uint64_t>, const ElementwiseDefinition*> gradients;

  const ElementwiseDefinition& keep(const ElementwiseDefinition& made) {
    OwnedDefinition& place = kept.emplace_back();
    place.entries.assign(made.entries, made.entries + made.entry_count);
    place.definition = made;
    place.definition.entries = place.entries.data();
    return place.definition;
  }
};
Definitions& definitions() {
  static constinit Lazy<Definitions> instance;
  return instance.get();
}

// The gradient of those results that have one (a bit for each). The others take no part: zeros in their place would
// turn their infinite derivatives into NaN.
const ElementwiseDefinition& gradient_of(const ElementwiseDefinition& definition, std::uint64_t defined,
                                         bool all_defined) {
  if (definition.gradient && all_defined) return *definition.gradient;
  Definitions& all = definitions();
  std::lock_guard lock(all.mutex);
  const ElementwiseDefinition*& found = all.gradients[{&definition, defined}];
  if (!found) {
    ElementwiseDefinition reached = definition;
    reached.result_count = 0;
    for (int i = 0; i < definition.result_count; ++i)
      if (defined >> i & 1) reached.results[reached.result_count++] = definition.results[i];
    constexpr int capacity = 16 * detail::scalar_capacity;
    auto tape = std::make_unique<detail::ScalarTape<capacity>>();
    std::vector<Sym> values(static_cast<std::size_t>(definition.entry_count));
    std::vector<detail::Cotangent> cotangents(values.size());
    fill_gradient(*tape, reached, values.data(), cotangents.data());
    found = &all.keep(tape->definition());
  }
  return *found;
}

At literal(const ScalarEntry& entry, bool as_number, Loc loc) {
  if (entry.literal == DTypeKind::boolean && !as_number) return At(entry.integer != 0, loc);
  return entry.literal != DTypeKind::floating ? At(entry.integer, loc) : At(entry.number, loc);
}

struct Operands {
  std::vector<Tensor> operands;
  Type number;  // of a result that is no bool
};

// One dtype for the operands that are not bool, one shape for all.
Operands promote_operands(const ElementwiseDefinition& definition, const At* list, Loc loc) {
  Operands result;
  std::optional<Promotable> common;
  bool weak = true;
  for (int i = 0; i < definition.argument_count; ++i) {
    const Tensor& operand = result.operands.emplace_back(resolve(list[i], "elementwise"));
    const Type& type = type_of(operand);
    if (type.device.type != Device::Type::cpu) result.number.device = type.device;
    weak = weak && type.weak;
    if (definition.entries[i].kind == ScalarKind::boolean) {
      if (type.dtype != DType::boolean)
        fail("elementwise", loc, "operand ", i, " is used as a condition and must be bool, it is ", to_string(type));
      continue;
    }
    common = common ? promoted(*common, promotable(operand), loc) : promotable(operand);
  }
  if (common && only_holds(common->dtype))
    fail("elementwise", loc, "is not defined on ", info(common->dtype).name, ", cast first");
  result.number.dtype = common ? common->dtype : DType::f32;
  result.number.weak = weak;
  settle_ones(result.operands, 0, loc);
  result.number.shape = broadcast("elementwise", result.operands, loc);
  for (int i = 0; i < definition.argument_count; ++i) {
    bool boolean = definition.entries[i].kind == ScalarKind::boolean;
    Tensor& operand = result.operands[static_cast<std::size_t>(i)];
    operand = coerce(operand, boolean ? DType::boolean : result.number.dtype, weak, result.number.shape,
                     result.number.device, loc);
  }
  return result;
}

// Whether the host has a kernel that applies the whole expression.
bool has_kernel(const ElementwiseDefinition& definition, const Type& type) {
  return definition.typed && (type.dtype == DType::f32 || type.dtype == DType::f64) &&
         type.device.type == Device::Type::cpu;
}

// A call, in a trace and outside: gradients are then added up in the same order. In a body an expression that the host
// has no kernel for is its primitives.
void apply(const ElementwiseDefinition& definition, const Operands& promoted, Loc loc, std::span<Tensor> results) {
  const bool kernel = has_kernel(definition, promoted.number);
  if (in_body() && !kernel) {
    std::vector<Tensor> values = expand_elementwise(definition, promoted.operands, loc);
    std::move(values.begin(), values.end(), results.begin());
    return;
  }
  const Attributes called = Called{{recorder().scope}};
  Signature signature(reinterpret_cast<std::uintptr_t>(&definition));
  signature.add(called);
  for (const Tensor& operand : promoted.operands) signature.add(type_of(operand));
  const auto make = [&] {
    CallBody scope(called);
    std::vector<Tensor> inputs;
    for (const Tensor& operand : promoted.operands) inputs.push_back(scope.input(type_of(operand)));
    return Callee{called, scope.take(expand_elementwise(definition, inputs, loc))};
  };
  const Tensor value =
      record_call(shared_callee(signature, make), promoted.operands, loc, kernel ? &definition : nullptr);
  for (std::size_t i = 0; i < results.size(); ++i) results[i] = Tensor(value.node(), static_cast<unsigned>(i));
}

}  // namespace

const OwnExpressions& own_expressions() {
  static constinit Lazy<const OwnExpressions> table;
  return table.get([] {
    return host_isa() == Isa::avx512 ? avx512::expressions()
           : host_isa() == Isa::avx2 ? avx2::expressions()
                                     : baseline::expressions();
  });
}

std::vector<Tensor> expand_elementwise(const ElementwiseDefinition& definition, std::span<const Tensor> operands,
                                       Loc loc) {
  Type number = type_of(operands[0]);
  number.dtype = DType::boolean;
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (definition.is_number(static_cast<int>(i))) number.dtype = type_of(operands[i]).dtype;
  std::vector<Tensor> values(operands.begin(), operands.end());
  auto is_literal = [&](int i) { return definition.entries[i].op == ScalarOp::literal; };
  auto constant = [&](int i, const Shape& shape) {
    const ScalarEntry& entry = definition.entries[i];
    Type type = number;
    type.shape = shape;
    if (!definition.is_number(i))
      type.dtype = DType::boolean;
    else if (entry.literal == DTypeKind::floating && !is_floating(type.dtype))
      type.dtype = DType::f32;
    return record(Op::constant, {}, literal_in(type.dtype, literal(entry, definition.is_number(i), loc), loc), type,
                  loc);
  };
  for (int i = definition.argument_count; i < definition.entry_count; ++i) {
    const ScalarEntry& entry = definition.entries[i];
    Tensor& result = values.emplace_back();
    if (!is_primitive(entry)) continue;
    const OpInfo& row = info(op_of(entry));
    Tensor held[3];
    std::vector<At> list;
    for (int k = 0; k < row.arity; ++k) {
      int operand = entry.operands[k];
      // A bool that is taken as a number is 0 or 1 of the common dtype; so are two literals to choose from.
      bool as_number =
          row.dtypes != DTypeClass::bits && !(row.dtypes == DTypeClass::select && (k == 0 || !definition.is_number(i)));
      bool chosen = row.dtypes == DTypeClass::select && k == 1 && is_literal(operand) && is_literal(entry.operands[2]);
      if (is_literal(operand) && !(chosen && as_number && is_floating(number.dtype))) {
        list.push_back(literal(definition.entries[operand], as_number, loc));
        continue;
      }
      held[k] = is_literal(operand) ? constant(operand, {}) : values[static_cast<std::size_t>(operand)];
      if (as_number && !definition.is_number(operand) && number.dtype != DType::boolean)
        held[k] = cast(held[k], number.dtype);
      list.emplace_back(held[k], loc);
    }
    result = pointwise(op_of(entry), list);
  }
  std::vector<Tensor> results;
  for (int i = 0; i < definition.result_count; ++i) {
    int entry = definition.results[i];
    results.push_back(is_literal(entry) ? constant(entry, number.shape) : values[static_cast<std::size_t>(entry)]);
  }
  return results;
}

void elementwise_gradients(const Tensor& value, std::span<const Tensor> gradients, std::span<Tensor> results) {
  const Node& node = *value.node();
  const ElementwiseDefinition& definition = *node.definition;
  Operands promoted{{node.inputs().begin(), node.inputs().end()}, node.type};
  std::uint64_t defined = 0;
  bool all_defined = true;
  for (unsigned i = 0; i < node.output_count; ++i) {
    const Type& type = type_of(Tensor(value.node(), i));
    if (type.dtype == DType::boolean) continue;
    all_defined = all_defined && gradients[i].defined();
    if (!gradients[i].defined()) continue;
    defined |= std::uint64_t{1} << i;
    promoted.number.dtype = type.dtype;
    promoted.operands.push_back(gradients[i]);
  }
  const ElementwiseDefinition& gradient = gradient_of(definition, defined, all_defined);
  std::vector<Tensor> numbers(static_cast<std::size_t>(gradient.result_count));
  apply(gradient, promoted, node.loc, numbers);
  std::size_t next = 0;
  for (std::size_t i = 0; i < node.operand_count; ++i)
    if (definition.is_number(static_cast<int>(i))) results[i] = numbers[next++];
}

namespace detail {

void scalar_error(const char* message) { throw_error("elementwise", recorder().loc, message); }

const ElementwiseDefinition& keep_definition(const ElementwiseDefinition& definition) {
  Definitions& all = definitions();
  std::lock_guard lock(all.mutex);
  return all.keep(definition);
}

void apply_elementwise(const ElementwiseDefinition& definition, const At* operands, Tensor* results) {
  LooseComposite call("elementwise", operands[0].loc);
  apply(definition, promote_operands(definition, operands, call.loc()), call.loc(),
        std::span(results, static_cast<std::size_t>(definition.result_count)));
}

void apply_elementwise(const ElementwiseDefinition& (*definition)(), const At* operands, Tensor* results) {
  LooseComposite call("elementwise", operands[0].loc);
  apply_elementwise(definition(), operands, results);
}

}  // namespace detail
}  // namespace weft
