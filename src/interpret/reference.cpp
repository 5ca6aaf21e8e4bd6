#include "interpret/reference.hpp"

#include <array>
#include <cmath>
#include <limits>

#include "base/fail.hpp"
#include "base/host_memory.hpp"
#include "base/storage.hpp"
#include "interpret/reference_linalg.hpp"
#include "interpret/reference_number.hpp"
#include "ir/dtype.hpp"

namespace weft {
namespace {

using reference::decode;
using reference::encode;
using reference::Integer;
using reference::Number;
using reference::wrap;
using Indices = std::array<std::int64_t, max_rank>;

// ---- values and multi-indices ---------------------------------------------------------------------------------------

struct Sizes {
  Indices size = {};
  int rank = 0;
  std::int64_t count() const {
    std::int64_t count = 1;
    for (int i = 0; i < rank; ++i) count *= size[i];
    return count;
  }
  std::int64_t position(const Indices& index) const {
    std::int64_t position = 0;
    for (int i = 0; i < rank; ++i) position = position * size[i] + index[i];
    return position;
  }
  // Calls f(index, position) for every element in row-major order.
  template <class Function>
  void each(Function f) const {
    Indices index = {};
    for (std::int64_t i = 0, n = count(); i < n; ++i) {
      f(static_cast<const Indices&>(index), i);
      for (int axis = rank - 1; axis >= 0 && ++index[axis] == size[axis]; --axis) index[axis] = 0;
    }
  }
};

Sizes sizes_of(const Type& type) {
  Sizes sizes;
  sizes.rank = type.shape.rank();
  for (int i = 0; i < sizes.rank; ++i) sizes.size[i] = type.shape[i].constant();
  return sizes;
}

Literal make_literal(const Type& type) {
  Literal literal{type};
  auto count = static_cast<std::size_t>(sizes_of(type).count());
  require_host_memory(count * 8);
  if (is_floating(type.dtype))
    literal.reals.resize(count);
  else
    literal.integers.resize(count);
  return literal;
}
Number get(const Literal& value, std::int64_t i) {
  auto at = static_cast<std::size_t>(i);
  return is_floating(value.type.dtype) ? Number{value.reals[at], 0} : Number{0, value.integers[at]};
}
void set(Literal& value, std::int64_t i, Number x) {
  auto at = static_cast<std::size_t>(i);
  if (is_floating(value.type.dtype))
    value.reals[at] = round_to(value.type.dtype, x.real);
  else
    value.integers[at] = wrap(value.type.dtype, x.integer);
}

using Operands = std::span<const Literal* const>;

// A value that has been computed already, read from its memory.
Literal read(const Node& node, const Type& type) {
  WEFT_CHECK(node.storage && type.device.type == Device::Type::cpu);
  Literal result = make_literal(type);
  Sizes sizes = sizes_of(type);
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

// ---- structural primitives ------------------------------------------------------------------------------------------

Literal interpret_view(Op op, const Attributes& attributes, const Type& type, const Literal& source) {
  Literal result = make_literal(type);
  Sizes from = sizes_of(source.type), to = sizes_of(type);
  int lead = to.rank - from.rank;
  to.each([&](const Indices& index, std::int64_t i) {
    Indices at = {};
    if (op == Op::reshape) return set(result, i, get(source, i));
    if (op == Op::permute)
      for (int axis = 0; axis < to.rank; ++axis)
        at[attributes.as<Permute>().axes[static_cast<std::size_t>(axis)]] = index[axis];
    if (op == Op::expand)
      for (int axis = 0; axis < from.rank; ++axis) at[axis] = from.size[axis] == 1 ? 0 : index[axis + lead];
    if (op == Op::slice) {
      const auto& slice = attributes.as<Slice>();
      at = index;
      at[slice.axis] = slice.start.constant() + index[slice.axis] * slice.step;
    }
    if (op == Op::windows) {
      const auto& windows = attributes.as<Windows>();
      for (int axis = 0; axis < from.rank; ++axis) at[axis] = index[axis + (axis > windows.axis)];
      at[windows.axis] = index[windows.axis + 1] * windows.step + index[windows.axis] * windows.dilation;
    }
    set(result, i, get(source, from.position(at)));
  });
  return result;
}

Literal interpret_concat(const Along& along, const Type& type, Operands parts) {
  Literal result = make_literal(type);
  Sizes to = sizes_of(type);
  int axis = along.axis;
  std::int64_t begin = 0;
  for (const Literal* part : parts) {
    Sizes from = sizes_of(part->type);
    from.each([&](const Indices& index, std::int64_t i) {
      Indices at = index;
      at[axis] += begin;
      set(result, to.position(at), get(*part, i));
    });
    begin += from.size[axis];
  }
  return result;
}

Literal interpret_pad(const Pad& pad, const Type& type, const Literal& source) {
  Literal result = make_literal(type);
  Sizes to = sizes_of(type);
  int axis = pad.axis;
  sizes_of(source.type).each([&](const Indices& index, std::int64_t i) {
    Indices at = index;
    at[axis] = pad.before.constant() + index[axis] * (pad.interior + 1);
    if (at[axis] >= 0 && at[axis] < to.size[axis]) set(result, to.position(at), get(source, i));
  });
  return result;
}

Number combine(Op op, bool floats, Number total, Number x) {
  if (floats) switch (op) {
      case Op::sum: return {total.real + x.real, 0};
      case Op::prod: return {total.real * x.real, 0};
      case Op::amax: return {reference::maximum(total.real, x.real), 0};
      default: return {reference::minimum(total.real, x.real), 0};
    }
  switch (op) {
    case Op::sum: return {0, wrap(DType::i64, total.integer + x.integer)};
    case Op::prod: return {0, wrap(DType::i64, total.integer * x.integer)};
    case Op::amax: return {0, reference::maximum(total.integer, x.integer)};
    default: return {0, reference::minimum(total.integer, x.integer)};
  }
}

Literal interpret_reduce(Op op, const Reduce& reduce, const Type& type, const Literal& source) {
  Sizes from = sizes_of(source.type), to = sizes_of(type);
  bool floats = is_floating(source.type.dtype);
  auto count = static_cast<std::size_t>(to.count());
  std::vector<Number> totals(count, op == Op::prod ? Number{1, 1} : Number{});
  std::vector<std::int64_t> seen(count), best(count);
  from.each([&](const Indices& index, std::int64_t i) {
    Indices at = index;
    for (int axis = 0; axis < from.rank; ++axis)
      if (reduce.axes[axis]) at[axis] = 0;
    auto slot = static_cast<std::size_t>(to.position(at));
    Number x = get(source, i);
    std::int64_t position = seen[slot]++;
    if (op == Op::argmax) {
      Number& top = totals[slot];
      bool greater = floats ? x.real > top.real || (x.real != x.real && top.real == top.real) : x.integer > top.integer;
      if (position == 0 || greater) {
        top = x;
        best[slot] = position;
      }
    } else {
      bool starts = position == 0 && (op == Op::amax || op == Op::amin);
      totals[slot] = starts ? x : combine(op, floats, totals[slot], x);
    }
  });
  Literal result = make_literal(type);
  for (std::size_t i = 0; i < count; ++i)
    set(result, static_cast<std::int64_t>(i), op == Op::argmax ? Number{0, best[i]} : totals[i]);
  return result;
}

Literal interpret_cumulative(Op op, const Along& along, const Type& type, const Literal& source) {
  Literal result = make_literal(type);
  const Sizes sizes = sizes_of(type);
  const bool floats = is_floating(type.dtype);
  const Op joining = op == Op::cumsum ? Op::sum : op == Op::cumprod ? Op::prod : op == Op::cummax ? Op::amax : Op::amin;
  std::vector<Number> totals(static_cast<std::size_t>(sizes.count()));  // before they are rounded
  sizes.each([&](const Indices& index, std::int64_t i) {
    Number& total = totals[static_cast<std::size_t>(i)];
    total = get(source, i);
    if (op == Op::cumsum && index[along.axis] == 0) total.real += 0.0;  // -0 becomes 0
    if (index[along.axis] > 0) {
      Indices at = index;
      --at[along.axis];
      const Number before = totals[static_cast<std::size_t>(sizes.position(at))];
      if (op != Op::logcumsumexp) {
        total = combine(joining, floats, before, total);
      } else if (before.real != total.real) {  // equal infinities are their own sum
        const double greatest = reference::maximum(before.real, total.real);
        total.real = greatest + std::log1p(std::exp(-std::fabs(before.real - total.real)));
      } else {
        total.real += std::log(2.0);
      }
    }
    set(result, i, total);
  });
  return result;
}

Literal interpret_matmul(const Type& type, const Literal& a, const Literal& b) {
  Literal result = make_literal(type);
  Sizes left = sizes_of(a.type), right = sizes_of(b.type), to = sizes_of(type);
  int row = to.rank - 2, column = to.rank - 1;
  to.each([&](const Indices& index, std::int64_t i) {
    Number total;
    Indices p = index, q = index;
    for (std::int64_t k = 0; k < left.size[column]; ++k) {
      p[column] = k;
      q[row] = k;
      Number x = get(a, left.position(p)), y = get(b, right.position(q));
      total.real += x.real * y.real;
      total.integer = wrap(DType::i64, total.integer + x.integer * y.integer);
    }
    set(result, i, total);
  });
  return result;
}

// Each product of an element of the input and one of the weight counts for one element of the convolution, and in its
// gradients for those two.
Literal interpret_convolution(Op op, const Convolution& c, const Type& type, const Literal& a, const Literal& b) {
  const bool forward = op == Op::convolution, to_input = op == Op::convolution_input_gradient;
  Literal result = make_literal(type);
  std::vector<double> totals(result.reals.size());
  const Sizes input = sizes_of(to_input ? type : a.type),
              weight = sizes_of(op == Op::convolution_weight_gradient ? type : b.type),
              output = sizes_of(forward    ? type
                                : to_input ? a.type
                                           : b.type);
  const std::int64_t outputs_a_group = weight.size[0] / c.groups;
  output.each([&](const Indices& out, std::int64_t o) {
    Sizes window = weight;  // of one output channel
    window.size[0] = 1;
    window.each([&](const Indices& place, std::int64_t) {
      Indices in = {}, factor = place;
      in[0] = out[0], factor[0] = out[1];
      in[1] = out[1] / outputs_a_group * weight.size[1] + place[1];
      for (int i = 2; i < input.rank; ++i) {
        const auto axis = static_cast<std::size_t>(i - 2);
        in[i] = out[i] * c.strides[axis] - c.low[axis] + place[i] * c.dilation[axis];
        if (in[i] < 0 || in[i] >= input.size[i]) return;
      }
      const auto x = static_cast<std::size_t>(input.position(in)),
                 w = static_cast<std::size_t>(weight.position(factor)), y = static_cast<std::size_t>(o);
      if (forward)
        totals[y] += a.reals[x] * b.reals[w];
      else if (to_input)
        totals[x] += a.reals[y] * b.reals[w];
      else
        totals[w] += a.reals[x] * b.reals[y];
    });
  });
  for (std::size_t i = 0; i < totals.size(); ++i) set(result, static_cast<std::int64_t>(i), {totals[i], 0});
  return result;
}

std::int64_t checked_row(const Node& node, const Literal& index, std::int64_t i, std::int64_t rows) {
  std::int64_t row = index.integers[static_cast<std::size_t>(i)];
  if (row < 0 || row >= rows)
    fail(info(node.op).name, node.loc, "index ", row, " is out of range for ", counted(rows, "row", "rows"));
  return row;
}

Literal interpret_gather(const Node& node, const Type& type, const Literal& table, const Literal& index) {
  Literal result = make_literal(type);
  std::int64_t rows = sizes_of(table.type).size[0], count = sizes_of(index.type).count();
  std::int64_t width = rows ? sizes_of(table.type).count() / rows : 0;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t row = checked_row(node, index, i, rows);
    for (std::int64_t j = 0; j < width; ++j) set(result, i * width + j, get(table, row * width + j));
  }
  return result;
}

// Insertion, from the definition: an element goes before those that it must precede.
Literal interpret_argsort(const Order& order, const Type& type, const Literal& operand) {
  Literal result = make_literal(type);
  const std::int64_t size = sizes_of(type).size[type.shape.rank() - 1], count = sizes_of(type).count();
  const bool real = is_floating(operand.type.dtype);
  const auto precedes = [&](std::int64_t a, std::int64_t b) {
    if (order.descending) std::swap(a, b);
    const auto i = static_cast<std::size_t>(a), j = static_cast<std::size_t>(b);
    if (!real) return operand.integers[i] < operand.integers[j];
    return operand.reals[i] < operand.reals[j] ||
           (operand.reals[j] != operand.reals[j] && operand.reals[i] == operand.reals[i]);
  };
  for (std::int64_t row = 0; row < count; row += size)
    for (std::int64_t i = 0; i < size; ++i) {
      std::int64_t at = i;
      for (; at > 0; --at) {
        const auto before = result.integers[static_cast<std::size_t>(row + at - 1)];
        if (!precedes(row + i, row + static_cast<std::int64_t>(before))) break;
        result.integers[static_cast<std::size_t>(row + at)] = before;
      }
      result.integers[static_cast<std::size_t>(row + at)] = i;
    }
  return result;
}

Literal interpret_update_slice(const Node& node, const Type& type, Operands operands) {
  const int axis = node.attributes<Along>().axis;
  const Sizes whole = sizes_of(type), part = sizes_of(operands[1]->type);
  const std::int64_t start = operands[2]->integers[0];
  if (start < 0 || start + part.size[axis] > whole.size[axis])
    fail(info(node.op).name, node.loc, "position ", start, " is out of range");
  Literal result = *operands[0];
  result.type = type;
  part.each([&](const Indices& index, std::int64_t i) {
    Indices place = index;
    place[axis] += start;
    set(result, whole.position(place), get(*operands[1], i));
  });
  return result;
}
Literal interpret_scatter(const Node& node, const Type& type, const Literal& index, const Literal& updates) {
  Literal result = make_literal(type);
  std::int64_t rows = sizes_of(type).size[0], count = sizes_of(index.type).count();
  std::int64_t width = count ? sizes_of(updates.type).count() / count : 0;
  const bool adds = node.op == Op::scatter_add, floats = is_floating(type.dtype);
  Number start;
  if (!adds) start = {-std::numeric_limits<double>::infinity(), floats ? 0 : integer_range(type.dtype).least};
  std::vector<Number> totals(static_cast<std::size_t>(sizes_of(type).count()), start);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t row = checked_row(node, index, i, rows);
    for (std::int64_t j = 0; j < width; ++j) {
      Number& total = totals[static_cast<std::size_t>(row * width + j)];
      total = combine(adds ? Op::sum : Op::amax, floats, total, get(updates, i * width + j));
    }
  }
  for (std::size_t i = 0; i < totals.size(); ++i) set(result, static_cast<std::int64_t>(i), totals[i]);
  return result;
}

// Philox4x32-10 (Salmon and others, SC 2011): the words of one counter under one key.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    std::uint64_t left = std::uint64_t{0xD2511F53} * counter[0], right = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(right >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(right),
               static_cast<std::uint32_t>(left >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(left)};
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  return counter;
}

// Element i is word i % 4 of counter {i / 4, offset} (64 bits each, low word first) under key seed.
Literal interpret_random_bits(const Type& type, const Literal& seed, const Literal& offset) {
  Literal result = make_literal(type);
  auto low = [](std::uint64_t word) { return static_cast<std::uint32_t>(word); };
  auto high = [](std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32); };
  auto key = static_cast<std::uint64_t>(seed.integers[0]), place = static_cast<std::uint64_t>(offset.integers[0]);
  for (std::int64_t i = 0, n = sizes_of(type).count(); i < n; ++i) {
    auto group = static_cast<std::uint64_t>(i) / 4;
    set(result, i, {0, philox({low(group), high(group), low(place), high(place)}, {low(key), high(key)})[i % 4]});
  }
  return result;
}

// ---- the graph ------------------------------------------------------------------------------------------------------

struct Interpreter {
  const Graph& graph;
  std::span<const Literal> inputs;
  std::span<const std::int64_t> symbols;

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
    return interpret(*node.bodies()[body], arguments, symbols);
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
      case OpKind::identity:
      case OpKind::collective: return one(*operands[0]);
      case OpKind::assemble:
        return one(node.op == Op::pad ? interpret_pad(attributes.as<Pad>(), type, *operands[0])
                                      : interpret_concat(attributes.as<Along>(), type, operands));
      case OpKind::index:
        if (node.op == Op::update_slice) return one(interpret_update_slice(node, type, operands));
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

}  // namespace

namespace {

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
    case OpKind::index: return node.op != Op::scatter_add;
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
  Interpreter interpreter{graph, inputs, symbols};
  std::size_t count = graph.nodes.size();
  // A value is dropped after its last user, so that long graphs don't hold all of theirs.
  std::vector<std::size_t> last_use(count, 0);
  for (std::size_t i = 0; i < count; ++i)
    for (const Tensor& operand : graph.nodes[i].node()->inputs()) last_use[operand.node()->index] = i;
  for (const Tensor& output : graph.outputs) last_use[output.node()->index] = count;

  std::vector<std::vector<Literal>> values(count);
  std::vector<const Literal*> operands;
  for (std::size_t i = 0; i < count; ++i) {
    const Node& node = *graph.nodes[i].node();
    operands.clear();
    for (const Tensor& operand : node.inputs()) operands.push_back(&values[operand.node()->index][operand.output()]);
    values[i] = interpreter.run(node, operands);
    if (perturbation && values[i].size() == 1) perturb(node, operands, values[i].front(), *perturbation);
    for (const Tensor& operand : node.inputs())
      if (last_use[operand.node()->index] == i) values[operand.node()->index].clear();
  }
  std::vector<Literal> results;
  for (const Tensor& output : graph.outputs) results.push_back(values[output.node()->index][output.output()]);
  return results;
}

}  // namespace weft
