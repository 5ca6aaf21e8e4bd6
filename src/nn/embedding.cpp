// Tables of vectors, and sums, means and maxima of bags of their rows.
#include "weft/nn/embedding.hpp"

#include <limits>

#include "base/fail.hpp"
#include "base/number_checks.hpp"
#include "record/indexing.hpp"
#include "record/row_gradients.hpp"

namespace weft::nn {
namespace {

Tensor integers(const char* name, const char* what, const At& given, Loc loc) {
  const Tensor index = resolve(given, name);
  if (!is_integer(type_of(index).dtype))
    fail(name, loc, "the ", what, " must be integers: ", to_string(type_of(index)));
  return cast(index, DType::i64);
}
Tensor table_of(const char* name, const At& weight, Loc loc) {
  const Tensor table = resolve(weight, name);
  if (type_of(table).shape.rank() != 2 || !is_floating(type_of(table).dtype))
    fail(name, loc, "takes a floating table [rows, D]: ", to_string(type_of(table)));
  return table;
}
// True where the index is the padding's; undefined where there is none.
Tensor is_padding(const char* name, const Tensor& index, const Tensor& table, std::int64_t padding, Loc loc) {
  if (padding == no_padding) return {};
  const Dim rows = type_of(table).shape[0];
  if (!(Dim(padding) < rows) || Dim(padding) < -rows)
    fail(name, loc, "padding_idx ", padding, " is no row of ", to_string(type_of(table)));
  return index == At(padding < 0 ? rows + Dim(padding) : Dim(padding), loc);
}
// The rows at the indices.
Tensor looked_up(const char* name, const Tensor& table, const Tensor& index, bool sparse, Loc loc) {
  if (!sparse) return gather(table, index);
  check_places(index, table, 0, name, loc);
  return sparse_lookup(table, beside(index, table, loc), loc);
}
std::int64_t checked_padding(const char* name, std::int64_t rows, std::int64_t columns, std::int64_t padding, Loc loc) {
  if (rows < 1 || columns < 1) fail(name, loc, "sizes must be positive: ", rows, " rows of ", columns);
  if (padding != no_padding && (padding >= rows || padding < -rows))
    fail(name, loc, "padding_idx ", padding, " is none of ", rows, " rows");
  return padding != no_padding && padding < 0 ? padding + rows : padding;
}
Tensor initial(const Sizes& sizes, std::int64_t padding, Generator& generator, const Options& options, Loc loc) {
  const Tensor table = normal(sizes, 0, 1, generator, options, loc);
  if (padding == no_padding) return table;
  return where(positions(0, Shape::of(sizes.shape()[0], 1), type_of(table).device, loc) == padding, 0, table);
}
void start(Param& weight, std::int64_t padding, Generator& generator) {
  const Type type = type_of(weight.tensor());
  weight.tensor() = initial(type.shape, padding, generator, {type.dtype, type.device}, {});
}

}  // namespace

Tensor embedding(At given, At weight, std::int64_t padding_idx, bool sparse) {
  LooseComposite call("embedding", given.loc);
  const Tensor index = integers("embedding", "indices", given, call.loc());
  const Tensor table = table_of("embedding", weight, call.loc());
  const Tensor padding = is_padding("embedding", index, table, padding_idx, call.loc());
  const Tensor rows = looked_up("embedding", table, index, sparse, call.loc());
  return padding.defined() ? where(unsqueeze(padding, -1), stop_gradient(rows), rows) : rows;
}

Embedding::Embedding(std::int64_t rows, std::int64_t columns, EmbeddingOptions options, Loc loc)
    : sparse_gradient(options.sparse) {
  LooseComposite call("Embedding", loc);
  padding_idx = checked_padding("Embedding", rows, columns, options.padding_idx, call.loc());
  weight = initial({rows, columns}, padding_idx, default_generator(), options.options, call.loc());
}
Tensor Embedding::operator()(At index) const { return embedding(index, weight, padding_idx, sparse_gradient); }
void Embedding::initialize(Generator& generator) { start(weight, padding_idx, generator); }

// ---- bags -----------------------------------------------------------------------------------------------------------

namespace {
constexpr const char* bag_name = "embedding_bag";

// Which bag each place of a vector of indices is in: the number of offsets up to the place, less one.
// With `ends` the last offset is the end of the last bag, which is that of the indices.
Tensor bag_of_place(const Tensor& offsets, Dim places, bool ends, Loc loc) {
  const Type& type = type_of(offsets);
  const Tensor ascending = all(slice(offsets, 0, 1) >= slice(offsets, 0, 0, -1));
  const Tensor last = select(offsets, 0, -1), end = dim_value(places, loc);
  require(ascending & (select(offsets, 0, 0) == 0) & (ends ? last == end : last <= end), bag_name, loc,
          concat_text("offsets must ascend from 0",
                      ends ? ", and the last must be the number of indices: " : " and not leave the indices: ",
                      to_string(type), " into ", dims::to_string(places), " of them"));
  const Type counted{DType::i64, false, type.device, Shape::of(places + Dim(1))};
  const Tensor begins = record(Op::scatter_add, {offsets, constant_like(1, type, loc)}, {}, counted, loc);
  return slice(cumsum(begins, 0), 0, 0, places) - 1;
}

// rows [bags, n, D], or [n, D] and the bag of each; `counts` says which rows belong to a bag: [bags, n] or [n].
struct Bags {
  Tensor rows, counts, bag;
  Dim count;

  Tensor sums(const Tensor& of) const {  // of [..., X]: [bags, X]
    if (!bag.defined()) return sum(of, 1);
    const Type type = type_of(of);
    return record(Op::scatter_add, {bag, of}, {}, Type{type.dtype, false, type.device, Shape::of(count, type.shape[1])},
                  {});
  }
  Tensor greatest() const {  // one of no rows has -inf
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const Tensor own = where(unsqueeze(counts, -1), rows, -infinity);
    if (!bag.defined()) return amax(own, 1);
    const Type type = type_of(own);
    const Tensor least = full({count, type.shape[1]}, -infinity, {type.dtype, type.device});
    return scatter_reduce(least, 0, expand(unsqueeze(bag, -1), type.shape), own, ScatterReduction::amax);
  }
};
}  // namespace

Tensor embedding_bag(At given, At weight, const BagOptions& options) {
  LooseComposite call(bag_name, given.loc);
  const Loc loc = call.loc();
  check_choice(bag_name, "BagMode", options.mode, BagMode::max, loc);
  const Tensor index = integers(bag_name, "indices", given, loc), table = table_of(bag_name, weight, loc);
  const Type type = type_of(index), row = type_of(table);
  const bool cut = type.shape.rank() == 1;
  if ((!cut && type.shape.rank() != 2) || cut != options.offsets.defined())
    fail(bag_name, loc, "takes indices [bags, n], or a vector of indices and offsets: ", to_string(type),
         options.offsets.defined() ? " and offsets " + to_string(type_of(options.offsets)) : "");
  const DType wide = computed_in(row.dtype);  // sums and counts are not rounded to 16 bits on the way
  Bags bags{cast(looked_up(bag_name, table, index, options.sparse, loc), wide), {}, {}, type.shape[0]};
  if (options.per_sample_weights.defined()) {
    const Tensor factors = resolve(At(options.per_sample_weights, loc), bag_name);
    if (options.mode != BagMode::sum || !(type_of(factors).shape == type.shape) || type_of(factors).dtype != row.dtype)
      fail(bag_name, loc,
           "per_sample_weights are of the shape of the indices and the dtype of the table, with mode sum: ",
           to_string(type_of(factors)), " beside ", to_string(type), " and ", to_string(row));
    bags.rows = bags.rows * unsqueeze(factors, -1);
  }
  if (cut) {
    const Tensor offsets = integers(bag_name, "offsets", At(options.offsets, loc), loc);
    const Dim given_offsets = type_of(offsets).shape.rank() == 1 ? type_of(offsets).shape[0] : Dim(0);
    bags.count = options.include_last_offset ? given_offsets - Dim(1) : given_offsets;
    if (!(bags.count > Dim(0))) fail(bag_name, loc, "needs a vector of offsets: ", to_string(type_of(offsets)));
    bags.bag = bag_of_place(offsets, type.shape[0], options.include_last_offset, loc);
  }
  const Tensor padding = is_padding(bag_name, index, table, options.padding_idx, loc);
  bags.counts = padding.defined() ? ~padding : expand(full({}, true, {DType::boolean, type.device}), type.shape);
  if (type.shape[type.shape.rank() - 1] == Dim(0))
    return zeros({bags.count, row.shape[1]}, {row.dtype, row.device}, loc);
  if (padding.defined() && options.mode != BagMode::max) bags.rows = where(unsqueeze(padding, -1), 0, bags.rows);
  if (options.mode == BagMode::sum) return cast(bags.sums(bags.rows), row.dtype);
  const Tensor number = bags.sums(cast(unsqueeze(bags.counts, -1), wide));  // [bags, 1]
  if (options.mode == BagMode::max) return cast(where(number > 0, bags.greatest(), 0), row.dtype);
  return cast(bags.sums(bags.rows) / maximum(number, 1), row.dtype);
}

EmbeddingBag::EmbeddingBag(std::int64_t rows, std::int64_t columns, EmbeddingBagOptions options, Loc loc)
    : mode(options.mode), include_last_offset(options.include_last_offset), sparse_gradient(options.sparse) {
  LooseComposite call("EmbeddingBag", loc);
  padding_idx = checked_padding("EmbeddingBag", rows, columns, options.padding_idx, call.loc());
  weight = initial({rows, columns}, padding_idx, default_generator(), options.options, call.loc());
}
Tensor EmbeddingBag::operator()(At index, const Tensor& offsets, const Tensor& per_sample_weights) const {
  return embedding_bag(index, weight,
                       {offsets, mode, per_sample_weights, include_last_offset, padding_idx, sparse_gradient});
}
void EmbeddingBag::initialize(Generator& generator) { start(weight, padding_idx, generator); }

}  // namespace weft::nn
