#include "interpret/reference_structural.hpp"

#include <array>
#include <cmath>
#include <limits>

#include "base/fail.hpp"
#include "interpret/reference_value.hpp"

namespace weft::reference {

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

namespace {
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
}  // namespace

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

namespace {
std::int64_t checked_row(const Node& node, const Literal& index, std::int64_t i, std::int64_t rows) {
  std::int64_t row = index.integers[static_cast<std::size_t>(i)];
  if (row < 0 || row >= rows)
    fail(info(node.op).name, node.loc, "index ", row, " is out of range for ", counted(rows, "row", "rows"));
  return row;
}
}  // namespace

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
  const auto sizes = sizes_of(operand.type);
  const std::int64_t size = sizes.size[type.shape.rank() - 1], kept = sizes_of(type).size[type.shape.rank() - 1];
  const std::int64_t first = order.count.same(Dim(0)) ? 0 : order.first.constant();
  const bool real = is_floating(operand.type.dtype);
  const auto precedes = [&](std::int64_t a, std::int64_t b) {
    if (order.descending) std::swap(a, b);
    const auto i = static_cast<std::size_t>(a), j = static_cast<std::size_t>(b);
    if (!real) return operand.integers[i] < operand.integers[j];
    return operand.reals[i] < operand.reals[j] ||
           (operand.reals[j] != operand.reals[j] && operand.reals[i] == operand.reals[i]);
  };
  std::vector<std::int64_t> places(static_cast<std::size_t>(size));
  for (std::int64_t row = 0, to = 0; size > 0 && row < sizes.count(); row += size) {
    for (std::int64_t i = 0; i < size; ++i) {
      std::int64_t at = i;
      for (; at > 0 && precedes(row + i, row + places[static_cast<std::size_t>(at - 1)]); --at)
        places[static_cast<std::size_t>(at)] = places[static_cast<std::size_t>(at - 1)];
      places[static_cast<std::size_t>(at)] = i;
    }
    for (std::int64_t i = 0; i < kept; ++i)
      result.integers[static_cast<std::size_t>(to++)] = places[static_cast<std::size_t>(first + i)];
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
Literal interpret_update_rows(const Node& node, const Type& type, Operands operands) {
  const RowUpdate& update = node.attributes<RowUpdate>();
  const Literal &table = *operands[0], &updates = *operands[1], &index = *operands[2];
  const Sizes whole = sizes_of(type), part = sizes_of(updates.type);
  std::vector<Number> totals(static_cast<std::size_t>(whole.count()));
  for (std::size_t i = 0; i < totals.size(); ++i) totals[i] = get(table, static_cast<std::int64_t>(i));
  const Op joined = type.dtype == DType::boolean ? Op::amax : Op::sum;
  part.each([&](const Indices& at, std::int64_t i) {
    Indices place = at;
    place[update.axis] = checked_row(node, index, at[update.axis], whole.size[update.axis]);
    Number& total = totals[static_cast<std::size_t>(whole.position(place))];
    total = update.adds ? combine(joined, is_floating(type.dtype), total, get(updates, i)) : get(updates, i);
  });
  Literal result = make_literal(type);
  for (std::size_t i = 0; i < totals.size(); ++i) set(result, static_cast<std::int64_t>(i), totals[i]);
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

namespace {
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
}  // namespace

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

}  // namespace weft::reference
