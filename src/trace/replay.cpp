#include "trace/replay.hpp"

#include <cstring>
#include <optional>

#include "base/fail.hpp"
#include "base/named_sizes.hpp"
#include "base/storage.hpp"
#include "interpret/reference.hpp"
#include "record/evaluate.hpp"
#include "record/run_graph.hpp"
#include "weft/ops.hpp"

namespace weft::detail {
namespace {

// ---- the reference interpreter's values -----------------------------------------------------------------------------

Literal to_literal(const Tensor& value, Loc loc) {
  Literal literal{type_of(value), {}, {}};
  auto count = static_cast<std::size_t>(literal.type.shape.element_count().constant());
  auto read = [&]<class T>(T) {
    std::vector<T> elements(count);
    copy_out(value, dtype_of<T>, elements.data(), count, loc);
    if constexpr (std::is_floating_point_v<T>)
      literal.reals.assign(elements.begin(), elements.end());
    else
      literal.integers.assign(elements.begin(), elements.end());
  };
  switch (literal.type.dtype) {
    case DType::f64: read(double()); break;
    case DType::f32: read(float()); break;
    case DType::i64: read(std::int64_t()); break;
    case DType::i32: read(std::int32_t()); break;
    case DType::u32: read(std::uint32_t()); break;
    case DType::i16: read(std::int16_t()); break;
    case DType::u16: read(std::uint16_t()); break;
    case DType::i8: read(std::int8_t()); break;
    case DType::u8: read(std::uint8_t()); break;
    case DType::boolean: {
      Tensor bytes = weft::cast(value, DType::u8);
      std::vector<std::uint8_t> elements(count);
      copy_out(bytes, DType::u8, elements.data(), count, loc);
      literal.integers.assign(elements.begin(), elements.end());
      break;
    }
    default: {
      Tensor wide = weft::cast(value, DType::f64);
      literal.reals.resize(count);
      copy_out(wide, DType::f64, literal.reals.data(), count, loc);
    }
  }
  return literal;
}

Tensor from_literal(const Literal& literal, Loc loc) {
  auto count = static_cast<std::size_t>(literal.type.shape.element_count().constant());
  bool floating = is_floating(literal.type.dtype);
  Storage* storage = allocate(Device::cpu(), count * 8);
  if (count)
    std::memcpy(storage->data, floating ? static_cast<const void*>(literal.reals.data()) : literal.integers.data(),
                count * 8);
  Type wide = literal.type;
  wide.dtype = floating ? DType::f64 : DType::i64;
  wide.device = Device::cpu();
  Tensor value = make_data(storage, wide, loc);
  if (wide.dtype != literal.type.dtype) value = weft::cast(value, literal.type.dtype);
  value = to(value, literal.type.device, loc);
  value.eval(loc);
  return value;
}

thread_local std::optional<Perturbation> moved_by;

std::vector<Tensor> replay_reference(const Graph& graph, std::span<const Tensor> inputs,
                                     std::span<const std::int64_t> symbols, Loc loc) {
  std::vector<Literal> literals;
  for (const Tensor& input : inputs) literals.push_back(to_literal(input, loc));
  std::vector<Tensor> outputs;
  try {
    for (const Literal& literal : interpret(graph, literals, symbols, moved_by ? &*moved_by : nullptr))
      outputs.push_back(from_literal(literal, loc));
  } catch (const Error& error) {
    rethrow_with_sizes(error, symbols);
  }
  return outputs;
}

}  // namespace

MovedRoundings::MovedRoundings(std::uint64_t seed) {
  constexpr double roundings = 3;
  moved_by = Perturbation{(2 * seed + 1) * 0x9e3779b97f4a7c15ull, roundings};
}
MovedRoundings::~MovedRoundings() { moved_by.reset(); }

std::vector<Tensor> replay(const Graph& graph, std::span<const Tensor> inputs, std::span<const std::int64_t> symbols,
                           Backend backend, Loc loc) {
  return backend == Backend::reference ? replay_reference(graph, inputs, symbols, loc)
                                       : run_eagerly(graph, inputs, symbols, loc);
}

}  // namespace weft::detail
