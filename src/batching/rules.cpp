// Batching rules: one a primitive. Axis 0 is that of the examples, and the axes of one example follow.
#include "base/fail.hpp"
#include "batching/batch.hpp"
#include "record/indexing.hpp"

namespace weft {
namespace {

constexpr RecordingBuilder build;

using Results = std::vector<Batched>;

Results made(Tensor value) { return {{std::move(value), true}}; }
// The same primitive over all examples, with these attributes.
Results over_all(const BatchedNode& b, const Attributes& attributes) {
  std::vector<Tensor> operands;
  for (std::size_t i = 0; i < b.operands.size(); ++i) operands.push_back(b.all(i));
  Results results;
  for (Tensor& result : results_of(build.make(b.node.op, operands, attributes, b.batcher.type(b.node.type))))
    results.push_back({std::move(result), true});
  return results;
}
Results over_all(const BatchedNode& b) { return over_all(b, b.node.attributes()); }

std::uint8_t after(std::uint8_t axis) { return static_cast<std::uint8_t>(axis + 1); }
// An attribute with an axis, counted from the axis of the examples on.
template <class T>
Results one_axis_on(const BatchedNode& b) {
  T attributes = b.node.attributes<T>();
  attributes.axis = after(attributes.axis);
  return over_all(b, attributes);
}

#define WEFT_POINTWISE(name, ...) constexpr BatchingRule batch_##name = over_all;
#define WEFT_STRUCTURAL(...)
#include "weft/ops.def"

// ---- leaves, which have no operands ---------------------------------------------------------------------------------

Results no_operand(const BatchedNode& b) {
  WEFT_CHECK(false, info(b.node.op).name, " has no operand that could differ");
  return {};
}
constexpr BatchingRule batch_constant = no_operand, batch_input = no_operand, batch_data = no_operand,
                       batch_iota = no_operand;

// ---- what treats elements, rows of the last axis and matrices of the last two alike ---------------------------------

constexpr BatchingRule batch_cast = over_all, batch_bitcast = over_all, batch_stop_gradient = over_all,
                       batch_transfer = over_all, batch_all_reduce_start = over_all, batch_all_reduce_wait = over_all,
                       batch_broadcast = over_all, batch_reduce_to_root = over_all, batch_argsort = over_all,
                       batch_cholesky = over_all, batch_triangular_solve = over_all, batch_lu = over_all,
                       batch_ldl = over_all, batch_qr = over_all, batch_eigh = over_all, batch_svd = over_all,
                       batch_eig = over_all, batch_fourier = over_all, batch_real_fourier = over_all,
                       batch_inverse_real_fourier = over_all;

// The value itself: nothing asks for the gradient of this place any more.
Results batch_variable(const BatchedNode& b) { return {b.operands[0]}; }

// ---- axes -----------------------------------------------------------------------------------------------------------

Results batch_reshape(const BatchedNode& b) {
  return made(build.reshape(b.value(0), b.batcher.shape(b.node.type.shape)));
}
Results batch_permute(const BatchedNode& b) {
  Permute moved;
  moved.axes.push_back(0);
  for (const std::uint8_t axis : b.node.attributes<Permute>().axes) moved.axes.push_back(after(axis));
  return over_all(b, moved);
}
// New axes come after that of the examples.
Results batch_expand(const BatchedNode& b) {
  const Shape &from = type_of(b.node.input(0)).shape, &to = b.node.type.shape;
  Shape ones = Shape::of(b.size());
  for (int i = from.rank(); i < to.rank(); ++i) ones.push_back(1);
  for (const Dim size : from) ones.push_back(size);
  return made(build.expand(build.reshape(b.value(0), ones), b.batcher.shape(to)));
}
constexpr BatchingRule batch_slice = one_axis_on<Slice>, batch_windows = one_axis_on<Windows>,
                       batch_pad = one_axis_on<Pad>, batch_concat = one_axis_on<Along>,
                       batch_cumsum = one_axis_on<Along>, batch_cumprod = one_axis_on<Along>,
                       batch_cummax = one_axis_on<Along>, batch_cummin = one_axis_on<Along>,
                       batch_logcumsumexp = one_axis_on<Along>;

Results reduced(const BatchedNode& b) {
  return over_all(b, Reduce{{static_cast<std::uint8_t>(b.node.attributes<Reduce>().axes.bits << 1)}});
}
constexpr BatchingRule batch_sum = reduced, batch_prod = reduced, batch_amax = reduced, batch_amin = reduced,
                       batch_argmax = reduced;

// The value with axis `from` as axis `to`.
Tensor moved(const Tensor& value, int from, int to) {
  if (from == to) return value;
  AxisList axes;
  const int rank = type_of(value).shape.rank();
  for (int i = 0, next = 0; i < rank; ++i) {
    if (next == from) ++next;
    axes.push_back(static_cast<std::uint8_t>(i == to ? from : next++));
  }
  return build.permute(value, axes);
}
// Processes have parts of axis 0 of an example, axis 1 here.
Results batch_gathered(const BatchedNode& b) {
  const Tensor parts_first = moved(b.value(0), 1, 0);
  return made(moved(build.make(b.node.op, {parts_first}, b.node.attributes()), 0, 1));
}
constexpr BatchingRule batch_all_gather = batch_gathered, batch_reduce_scatter = batch_gathered;

// ---- products -------------------------------------------------------------------------------------------------------

// Axes i and i + 1 as one; and the first of two sizes as axis i, the second after it.
Tensor merged(const Tensor& value, int axis) {
  const Shape& from = type_of(value).shape;
  Shape shape;
  for (int i = 0; i < from.rank(); ++i)
    if (i != axis + 1) shape.push_back(i == axis ? from[i] * from[i + 1] : from[i]);
  return build.reshape(value, shape);
}
Tensor split(const Tensor& value, int axis, Dim first, Dim second) {
  const Shape& from = type_of(value).shape;
  Shape shape;
  for (int i = 0; i < from.rank(); ++i) {
    shape.push_back(i == axis ? first : from[i]);
    if (i == axis) shape.push_back(second);
  }
  return build.reshape(value, shape);
}
Tensor with_last_two_swapped(const Tensor& value) {
  const int rank = type_of(value).shape.rank();
  return moved(value, rank - 1, rank - 2);
}

// Sums of one product: no matrices, but elements, which join the kernel of what reads them. A sum starts from 0.
Results outer_product(const BatchedNode& b) {
  const Type type = b.batcher.type(b.node.type);
  const Tensor product = build.mul(build.expand(b.value(0), type.shape), build.expand(b.value(1), type.shape));
  return made(build.add(product, constant_like(0, type, b.node.loc)));
}

// A matrix in which examples do not differ stays one: the rows (of the second operand, the columns) of all examples are
// those of one product. Columns stay columns: an example's rows lie in those of the product, whole.
Results batch_matmul(const BatchedNode& b) {
  const int lead = b.node.type.shape.rank() - 2;
  if (b.differs(0) && b.differs(1)) {
    const bool is_outer = type_of(b.node.input(1)).shape[lead].same(Dim(1));
    return is_outer && type_of(b.node.input(0)).dtype == b.node.type.dtype ? outer_product(b) : over_all(b);
  }
  const bool is_first = b.differs(0);
  const Tensor rows = moved(is_first ? b.value(0) : with_last_two_swapped(b.value(1)), 0, lead);
  const Dim count = type_of(rows).shape[lead + 1];
  const Tensor all = merged(rows, lead), first = is_first ? all : b.value(0),
               second = is_first ? b.value(1) : with_last_two_swapped(all);
  const int axis = is_first ? lead : lead + 1;
  const Tensor product = build.make(Op::matmul, {first, second}, {}, b.node.type);
  return made(moved(split(product, axis, b.size(), count), axis, 0));
}

// [size, N, C, ...] as [N, size * C, ...], and back.
Tensor beside_channels(const Tensor& value) { return merged(moved(value, 0, 1), 1); }
Tensor from_channels(const Tensor& value, Dim size, Dim channels) {
  return moved(split(value, 1, size, channels), 1, 0);
}
bool is_counted(const BatchedNode& b) { return b.size().is_constant() && b.size().constant() > 0; }
Attributes in_groups(const BatchedNode& b) {
  Convolution convolution = b.node.attributes<Convolution>();
  convolution.groups *= b.size().constant();
  return convolution;
}
// Of (input or gradient) with a weight: more images of one weight, or groups of a weight for each example.
Results convolved(const BatchedNode& b) {
  Type wanted = b.node.type;
  if (!b.differs(1)) {
    const Dim images = wanted.shape[0];
    wanted.shape[0] = images * b.size();
    const Tensor result = build.make(b.node.op, {merged(b.value(0), 0), b.value(1)}, b.node.attributes(), wanted);
    return made(split(result, 0, b.size(), images));
  }
  if (!is_counted(b)) return batch_by_rows(b);
  const Dim channels = wanted.shape[1];
  wanted.shape[1] = channels * b.size();
  const Tensor result = build.make(b.node.op, {beside_channels(b.all(0)), merged(b.value(1), 0)}, in_groups(b), wanted);
  return made(from_channels(result, b.size(), channels));
}
constexpr BatchingRule batch_convolution = convolved, batch_convolution_input_gradient = convolved;
Results batch_convolution_weight_gradient(const BatchedNode& b) {
  if (!is_counted(b)) return batch_by_rows(b);
  Type wanted = b.node.type;
  const Dim channels = wanted.shape[0];
  wanted.shape[0] = channels * b.size();
  const Tensor result =
      build.make(b.node.op, {beside_channels(b.all(0)), beside_channels(b.all(1))}, in_groups(b), wanted);
  return made(split(result, 0, b.size(), channels));
}

// ---- rows at positions: those of all examples are the rows of one table ---------------------------------------------

// Positions [size, ...] in tables of so many rows, as positions in the table of all.
Tensor in_one_table(const Tensor& index, Dim rows, Loc loc) {
  const Type& type = type_of(index);
  const Tensor scale = coerce(dim_value(rows, loc), DType::i64, false, type.shape, type.device, loc);
  return build.add(index, build.mul(positions(0, type.shape, type.device, loc), scale));
}

// Operand i, positions, for all examples: 0 for those that are not active.
Tensor positions_of(const BatchedNode& b, std::size_t i) {
  const Tensor index = b.all(i), &active = b.batcher.active();
  if (!active.defined()) return index;
  const Type& type = type_of(index);
  return build.make(Op::where, {b.batcher.spread(active, type.shape), index, constant_like(0, type, b.node.loc)});
}

Results batch_gather(const BatchedNode& b) {
  const Dim rows = type_of(b.node.input(0)).shape[0];
  const bool is_active = b.batcher.active().defined();
  if (is_active && rows.same(Dim(0))) return made(constant_like(0, b.batcher.type(b.node.type), b.node.loc));
  if (!b.differs(0)) return made(build.make(Op::gather, {b.value(0), is_active ? positions_of(b, 1) : b.value(1)}));
  const Tensor index = in_one_table(positions_of(b, 1), rows, b.node.loc);
  return made(build.make(Op::gather, {merged(b.value(0), 0), index}));
}
Results scattered(const BatchedNode& b) {
  Type wanted = b.node.type;
  const Dim rows = wanted.shape[0];
  wanted.shape[0] = rows * b.size();
  const Tensor result = build.make(b.node.op, {in_one_table(positions_of(b, 0), rows, b.node.loc), b.all(1)},
                                   b.node.attributes(), wanted);
  return made(split(result, 0, b.size(), rows));
}
constexpr BatchingRule batch_scatter_add = scattered, batch_scatter_amax = scattered;

// Rows [size, ...] along the axis of one example, at `index` [size, count].
Results rows_updated(const BatchedNode& b, const Tensor& index, RowUpdate update) {
  const Dim rows = b.node.type.shape[update.axis];
  const auto table_of = [&](std::size_t operand) { return merged(moved(b.all(operand), update.axis + 1, 1), 0); };
  const Tensor places = merged(in_one_table(index, rows, b.node.loc), 0);
  const Tensor result = build.make(Op::update_rows, {table_of(0), table_of(1), places}, RowUpdate{0, update.adds}, {});
  return made(moved(split(result, 0, b.size(), rows), 1, update.axis + 1));
}
Results batch_update_rows(const BatchedNode& b) {
  RowUpdate update = b.node.attributes<RowUpdate>();
  if (b.differs(2) || b.batcher.active().defined()) return rows_updated(b, positions_of(b, 2), update);
  update.axis = after(update.axis);
  return made(build.make(Op::update_rows, {b.all(0), b.all(1), b.value(2)}, update));
}
Results batch_update_slice(const BatchedNode& b) {
  const Along along = b.node.attributes<Along>();
  if (!b.differs(2))
    return made(build.make(Op::update_slice, {b.all(0), b.all(1), b.value(2)}, Along{after(along.axis)}));
  const Shape places = Shape::of(b.size(), type_of(b.node.input(1)).shape[along.axis]);
  const Tensor start = build.expand(build.reshape(positions_of(b, 2), Shape::of(b.size(), 1)), places);
  const Tensor index = build.add(start, positions(1, places, type_of(start).device, b.node.loc));
  return rows_updated(b, index, {along.axis, false});
}

// ---- random numbers and effects -------------------------------------------------------------------------------------

// `different`: element i of example e is element e * count + i of one draw of all.
Results batch_random_bits(const BatchedNode& b) {
  if (b.differs(0) || b.differs(1)) return batch_by_rows(b);
  if (b.batcher.randomness() == Randomness::refuse)
    fail("vmap", b.node.loc,
         "the function draws random numbers: say whether examples draw different or the same ones, by {.randomness = "
         "Randomness::different} or {.randomness = Randomness::same}");
  return made(build.make(Op::random_bits, {b.value(0), b.value(1)}, {}, b.batcher.type(b.node.type)));
}

// Of all examples that are active.
Results batch_check(const BatchedNode& b) {
  Tensor holds = b.all(0);
  const Tensor& active = b.batcher.active();
  if (active.defined()) holds = holds | ~build.reshape(active, type_of(holds).shape);
  const Tensor token = build.make(Op::check, {weft::all(holds)}, b.node.attributes());
  check_now(token, b.node.loc);
  return {{token, false}};
}

Results batch_host_call(const BatchedNode& b) {
  const char* const function = b.node.attributes<HostCalled>().gives ? "host_call" : "print";
  fail(function, b.node.loc, function,
       " is called once for all examples of a vmap, and these differ in its operands: return the values, and call it "
       "outside");
}

}  // namespace

BatchingRule batching_rule(Op op) {
  static constexpr BatchingRule table[] = {
#define WEFT_POINTWISE(name, ...) batch_##name,
#define WEFT_STRUCTURAL(name, ...) batch_##name,
#include "weft/ops.def"
  };
  return table[static_cast<int>(op)];
}

}  // namespace weft
