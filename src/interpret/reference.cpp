#include "interpret/reference.hpp"

#include <cmath>
#include <cstring>

#include "base/fail.hpp"
#include "base/storage.hpp"
#include "interpret/reference_linalg.hpp"
#include "interpret/reference_structural.hpp"
#include "interpret/reference_value.hpp"
#include "ir/collective.hpp"
#include "ir/dtype.hpp"
#include "ir/host_function.hpp"

namespace weft {

using namespace reference;

namespace {

// A value that has been computed already, read from its memory.
Literal read(const Node& node, const Type& type) {
  WEFT_CHECK(node.storage && type.device.type == Device::Type::cpu);
  Literal result = make_literal(type);
  const auto sizes = sizes_of(type);
  const auto bytes = static_cast<std::int64_t>(storage_bytes(type.dtype, 1));
  sizes.each([&](const Indices& index, std::int64_t i) {
    std::int64_t element = node.layout ? node.layout->offset : i;
    for (int axis = 0; node.layout && axis < sizes.rank; ++axis) element += index[axis] * node.layout->strides[axis];
    std::uint64_t bits = 0;
    std::memcpy(&bits, static_cast<const std::byte*>(node.storage->data) + element * bytes,
                static_cast<std::size_t>(bytes));
    set(result, i, decode(type.dtype, bits));
  });
  return result;
}

struct Interpreter {
  const Graph& graph;
  std::span<const Literal> inputs;
  std::span<const std::int64_t> symbols;
  Perturbation* perturbation;  // of bodies too: a sum in one cancels like any other

  Dim number(Dim dim) const { return dim.is_constant() ? dim : Dim(dims::evaluate(dim, symbols)); }
  Type concrete(Type type) const {
    for (int i = 0; i < type.shape.rank(); ++i) type.shape[i] = number(type.shape[i]);
    return type;
  }

  Literal constant(const Node& node, const Type& type) const {
    Literal result = make_literal(type);
    const auto& held = node.attributes<Constant>();
    Number x{0, held.as_integer()};
    if (is_floating(type.dtype)) x = {held.as_number(type.dtype), 0};
    if (held.is_size()) {
      std::int64_t size = number(held.size).constant();
      x = {static_cast<double>(size), size};
    }
    for (std::int64_t i = 0, n = sizes_of(type).count(); i < n; ++i) set(result, i, x);
    return result;
  }

  Literal iota(const Node& node, const Type& type) const {
    Literal result = make_literal(type);
    sizes_of(type).each([&](const Indices& index, std::int64_t i) {
      std::int64_t x = index[node.attributes<Along>().axis];
      set(result, i, {static_cast<double>(x), x});
    });
    return result;
  }

  Literal pointwise(Op op, const Type& type, Operands operands) const {
    Literal result = make_literal(type);
    DType from = operands.back()->type.dtype;
    for (std::int64_t i = 0, n = sizes_of(type).count(); i < n; ++i) {
      Number x[3];
      for (std::size_t k = 0; k < operands.size(); ++k) x[k] = get(*operands[k], i);
      if (op == Op::cast)
        set(result, i, reference::cast(type.dtype, from, x[0]));
      else if (op == Op::bitcast)
        set(result, i, decode(type.dtype, encode(from, x[0])));
      else
        set(result, i, reference::pointwise(op, from, x));
    }
    return result;
  }

  std::vector<Literal> interpret_body(const Node& node, std::size_t body, Operands operands) const {
    std::vector<Literal> arguments;
    for (const Literal* operand : operands) arguments.push_back(*operand);
    return interpret(*node.bodies()[body], arguments, symbols, perturbation);
  }
  static std::vector<const Literal*> pointers(const std::vector<Literal>& values) {
    std::vector<const Literal*> all;
    for (const Literal& value : values) all.push_back(&value);
    return all;
  }

  // Elements [begin, begin + count) of `from`, or over those of `to`.
  static void copy(const Literal& from, std::int64_t begin, Literal& to, std::int64_t at, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) set(to, at + i, get(from, begin + i));
  }
  std::vector<Literal> interpret_scan(const Node& node, Operands operands) const {
    const auto& scan = node.attributes<Scan>();
    const auto carries = static_cast<std::size_t>(scan.carries), scanned = static_cast<std::size_t>(scan.scanned);
    const std::int64_t length = number(scan.length).constant();
    std::vector<Literal> values, results;
    for (const Literal* operand : operands) values.push_back(*operand);
    for (std::size_t k = carries; k < node.output_count; ++k)
      results.push_back(
          make_literal(concrete(node.more_types().empty() || k == 0 ? node.type : node.more_types()[k - 1])));
    for (std::int64_t i = 0; i < length; ++i) {
      const std::int64_t t = scan.reverse ? length - 1 - i : i;
      for (std::size_t k = carries; k < carries + scanned; ++k) {
        values[k] = make_literal(concrete(type_of(node.bodies()[0]->inputs[k])));
        const std::int64_t count = sizes_of(values[k].type).count();
        copy(*operands[k], t * count, values[k], 0, count);
      }
      const std::vector<Literal> given = interpret_body(node, 0, pointers(values));
      for (std::size_t k = 0; k < carries; ++k) values[k] = given[k];
      for (std::size_t k = carries; k < given.size(); ++k) {
        const std::int64_t count = sizes_of(given[k].type).count();
        copy(given[k], 0, results[k - carries], t * count, count);
      }
    }
    values.resize(carries);
    for (Literal& result : results) values.push_back(std::move(result));
    return values;
  }
  std::vector<Literal> interpret_while(const Node& node, Operands operands) const {
    const auto& loop = node.attributes<While>();
    std::vector<Literal> values;
    for (const Literal* operand : operands) values.push_back(*operand);
    for (std::int64_t i = 0; interpret_body(node, 0, pointers(values))[0].integers[0]; ++i) {
      if (loop.limit > 0 && i == loop.limit) throw_error("", {}, interned_text(loop.passed.id));
      const std::vector<Literal> next = interpret_body(node, 1, pointers(values));
      std::copy(next.begin(), next.end(), values.begin());
    }
    values.resize(static_cast<std::size_t>(loop.carries));
    return values;
  }

  std::vector<Literal> factorization(const Node& node, Operands operands) const {
    std::vector<Literal> results{make_literal(concrete(node.type))};
    for (const Type& type : node.more_types()) results.push_back(make_literal(concrete(type)));
    reference::factorize(node.op, node.attributes(), operands, results);
    for (Literal& result : results)
      if (is_floating(result.type.dtype))
        for (double& x : result.reals) x = round_to(result.type.dtype, x);
    return results;
  }

  std::vector<Literal> host_call(const Node& node, Operands operands) const {
    struct Memory {
      reference::Sizes sizes;
      std::vector<std::byte> bytes;
    };
    const auto memory_of = [](const Type& type) {
      const reference::Sizes sizes = sizes_of(type);
      return Memory{sizes, std::vector<std::byte>(storage_bytes(type.dtype, sizes.count()))};
    };
    const auto listed = [](const Type& type, Memory& memory) {
      return HostValue{
          type.dtype, {memory.sizes.size.data(), static_cast<std::size_t>(memory.sizes.rank)}, memory.bytes.data()};
    };
    std::vector<Literal> results{make_literal(concrete(node.type))};
    for (const Type& type : node.more_types()) results.push_back(make_literal(concrete(type)));
    std::vector<Memory> memory;
    for (const Literal* operand : operands) memory.push_back(memory_of(operand->type));
    for (const Literal& result : results) memory.push_back(memory_of(result.type));
    std::vector<HostValue> given, taken;
    for (std::size_t k = 0; k < memory.size(); ++k) {
      const bool is_operand = k < operands.size();
      const Type& type = is_operand ? operands[k]->type : results[k - operands.size()].type;
      (is_operand ? given : taken).push_back(listed(type, memory[k]));
      if (!is_operand) continue;
      const std::size_t bytes = storage_bytes(type.dtype, 1);
      for (std::int64_t i = 0; i < memory[k].sizes.count(); ++i) {
        const std::uint64_t bits = encode(type.dtype, get(*operands[k], i));
        std::memcpy(memory[k].bytes.data() + static_cast<std::size_t>(i) * bytes, &bits, bytes);
      }
    }
    call_host_function(node.attributes<HostCalled>(), given, taken, node.loc);
    for (std::size_t k = 0; k < results.size(); ++k) {
      const std::size_t bytes = storage_bytes(results[k].type.dtype, 1);
      for (std::int64_t i = 0; i < memory[operands.size() + k].sizes.count(); ++i) {
        std::uint64_t bits = 0;
        std::memcpy(&bits, static_cast<const std::byte*>(taken[k].data) + static_cast<std::size_t>(i) * bytes, bytes);
        set(results[k], i, decode(results[k].type.dtype, bits));
      }
    }
    return results;
  }

  std::vector<Literal> run(const Node& node, Operands operands) const {
    Type type = concrete(node.type);
    const Attributes attributes = node.attributes().with_sizes([this](Dim dim) { return number(dim); });
    auto one = [](Literal value) {
      std::vector<Literal> values;
      values.push_back(std::move(value));
      return values;
    };
    switch (info(node.op).kind) {
      case OpKind::pointwise:
      case OpKind::cast: return one(pointwise(node.op, type, operands));
      case OpKind::view: return one(interpret_view(node.op, attributes, type, *operands[0]));
      case OpKind::reduce: return one(interpret_reduce(node.op, attributes.as<Reduce>(), type, *operands[0]));
      case OpKind::cumulative: return one(interpret_cumulative(node.op, attributes.as<Along>(), type, *operands[0]));
      case OpKind::contraction: return one(interpret_matmul(type, *operands[0], *operands[1]));
      case OpKind::convolution:
        return one(interpret_convolution(node.op, attributes.as<Convolution>(), type, *operands[0], *operands[1]));
      case OpKind::random: return one(interpret_random_bits(type, *operands[0], *operands[1]));
      case OpKind::collective:
        if (collective_of(node.op, attributes, type.dtype).processes > 1)
          fail(info(node.op).name, node.loc, "the reference interpreter does not know the values of other processes");
        return one(*operands[0]);
      case OpKind::identity: return one(*operands[0]);
      case OpKind::assemble:
        return one(node.op == Op::pad ? interpret_pad(attributes.as<Pad>(), type, *operands[0])
                                      : interpret_concat(attributes.as<Along>(), type, operands));
      case OpKind::index:
        if (node.op == Op::update_slice) return one(interpret_update_slice(node, type, operands));
        if (node.op == Op::update_rows) return one(interpret_update_rows(node, type, operands));
        return one(node.op == Op::gather ? interpret_gather(node, type, *operands[0], *operands[1])
                                         : interpret_scatter(node, type, *operands[0], *operands[1]));
      case OpKind::order: return one(interpret_argsort(attributes.as<Order>(), type, *operands[0]));
      case OpKind::factorization: return factorization(node, operands);
      case OpKind::leaf:
        if (node.op == Op::constant) return one(constant(node, type));
        if (node.op == Op::iota) return one(iota(node, type));
        if (node.op == Op::data) return one(read(node, type));
        {
          const auto slot = static_cast<std::size_t>(attributes.as<Parameter>().slot);
          WEFT_CHECK(slot < inputs.size(), "input ", slot);
          return one(inputs[slot]);
        }
      case OpKind::effect:
        if (node.op == Op::host_call) return host_call(node, operands);
        if (!operands[0]->integers[0]) throw_error("", {}, interned_text(attributes.as<Message>().text.id));
        return one(Literal{type, {}, {1}});
      case OpKind::region: {
        if (node.op == Op::scan) return interpret_scan(node, operands);
        if (node.op == Op::while_loop) return interpret_while(node, operands);
        if (node.op == Op::cond) return interpret_body(node, operands[0]->integers[0] ? 0 : 1, operands.subspan(1));
        WEFT_CHECK(node.bodies().size() == 1, info(node.op).name, " has no body to interpret");
        return interpret_body(node, 0, operands);
      }
    }
    return {};
  }
};

double spacing(DType dtype) {
  return dtype == DType::f64 ? 0x1p-52 : dtype == DType::f32 ? 0x1p-23 : dtype == DType::f16 ? 0x1p-10 : 0x1p-7;
}

bool is_exact(const Node& node) {
  switch (info(node.op).kind) {
    case OpKind::pointwise: return info(node.op).rounding == Rounding::exact;
    case OpKind::cast: return node.op == Op::bitcast;
    case OpKind::reduce: return node.op != Op::sum && node.op != Op::prod;
    case OpKind::cumulative: return node.op == Op::cummax || node.op == Op::cummin;
    case OpKind::contraction:
    case OpKind::convolution:
    case OpKind::factorization: return false;
    case OpKind::index:
      return node.op != Op::scatter_add && !(node.op == Op::update_rows && node.attributes<RowUpdate>().adds);
    default: return true;
  }
}

Literal magnitudes(const Literal& value) {
  Literal result = value;
  for (double& x : result.reals) x = std::fabs(x);
  return result;
}

void perturb(const Node& node, std::span<const Literal* const> operands, Literal& value, Perturbation& by) {
  if (!is_floating(value.type.dtype) || is_exact(node)) return;
  // The roundings inside a sum are relative to its terms, not to what is left of them.
  std::vector<double> scale = magnitudes(value).reals;
  double roundings = by.roundings;
  if (node.op == Op::sum)
    scale = interpret_reduce(Op::sum, node.attributes<Reduce>(), value.type, magnitudes(*operands[0])).reals;
  if (node.op == Op::matmul)
    scale = interpret_matmul(value.type, magnitudes(*operands[0]), magnitudes(*operands[1])).reals;
  if (info(node.op).kind == OpKind::convolution)
    scale = interpret_convolution(node.op, node.attributes<Convolution>(), value.type, magnitudes(*operands[0]),
                                  magnitudes(*operands[1]))
                .reals;
  if (node.op == Op::cumsum)
    scale = interpret_cumulative(Op::cumsum, node.attributes<Along>(), value.type, magnitudes(*operands[0])).reals;
  if (node.op == Op::logcumsumexp)
    for (double& each : scale) each += 1;  // a relative error of the sum
  // Sums of terms that cancel beside their zeros. What is narrower than f64 is computed in f64.
  if ((node.op == Op::lgamma || node.op == Op::digamma || node.op == Op::polygamma) && value.type.dtype == DType::f64)
    for (double& each : scale) each += 1;
  if (node.op == Op::cumprod)
    roundings *= static_cast<double>(sizes_of(value.type).size[node.attributes<Along>().axis]);
  if (node.op == Op::prod && !operands[0]->reals.empty()) roundings *= static_cast<double>(operands[0]->reals.size());
  for (std::size_t i = 0; i < value.reals.size(); ++i) {
    by.state ^= by.state << 13, by.state ^= by.state >> 7, by.state ^= by.state << 17;
    // All the way, up or down, so that ties part in one run of two; or anywhere between, so that last bits change.
    double unit = by.state >> 63 ? 1 : -1;
    if (by.state >> 62 & 1) unit *= static_cast<double>(by.state >> 8 & 0xffff) / 0x10000;
    value.reals[i] =
        round_to(value.type.dtype, value.reals[i] + unit * roundings * spacing(value.type.dtype) * scale[i]);
  }
}

}  // namespace

std::vector<Literal> interpret(const Graph& graph, std::span<const Literal> inputs,
                               std::span<const std::int64_t> symbols, Perturbation* perturbation) {
  Interpreter interpreter{graph, inputs, symbols, perturbation};
  std::size_t count = graph.nodes.size();
  // A value is dropped after its last user, so that long graphs don't hold all of theirs.
  std::vector<std::size_t> last_use(count, 0);
  for (std::size_t i = 0; i < count; ++i)
    for (const Tensor& operand : graph.nodes[i].node()->inputs()) last_use[graph.number(operand)] = i;
  for (const Tensor& output : graph.outputs) last_use[graph.number(output)] = count;

  std::vector<std::vector<Literal>> values(count);
  std::vector<const Literal*> operands;
  for (std::size_t i = 0; i < count; ++i) {
    const Node& node = *graph.nodes[i].node();
    operands.clear();
    for (const Tensor& operand : node.inputs()) operands.push_back(&values[graph.number(operand)][operand.output()]);
    values[i] = interpreter.run(node, operands);
    if (perturbation && values[i].size() == 1) perturb(node, operands, values[i].front(), *perturbation);
    for (const Tensor& operand : node.inputs())
      if (last_use[graph.number(operand)] == i) values[graph.number(operand)].clear();
  }
  std::vector<Literal> results;
  for (const Tensor& output : graph.outputs) results.push_back(values[graph.number(output)][output.output()]);
  return results;
}

}  // namespace weft
