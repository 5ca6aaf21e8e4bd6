// What folds many elements into one, indices, losses, and differentiation.
#include <algorithm>
#include <cmath>
#include <map>

#include "oracle/indices.hpp"

namespace oracle {

// ---- reductions -----------------------------------------------------------------------------------------------------

namespace {
struct Reduced {
  Shape kept, squeezed;
  std::vector<std::int64_t> target;  // of each element of x
  std::int64_t terms = 1;
};
Reduced reduced(const char* name, const Array& x, const Shape& axes) {
  std::vector<bool> folded(x->shape.size(), axes.empty());
  for (std::int64_t given : axes) {
    const auto axis = static_cast<std::size_t>(axis_of(name, given, x.rank()));
    if (folded[axis]) throw Refused(name);
    folded[axis] = true;
  }
  Reduced result;
  for (std::size_t i = 0; i < folded.size(); ++i) {
    result.kept.push_back(folded[i] ? 1 : x->shape[i]);
    if (folded[i])
      result.terms *= x->shape[i];
    else
      result.squeezed.push_back(x->shape[i]);
  }
  Shape strides = strides_of(result.kept);
  for (std::size_t i = 0; i < folded.size(); ++i)
    if (folded[i]) strides[i] = 0;
  result.target.resize(static_cast<std::size_t>(x.count()));
  each(x->shape, [&](std::size_t i, const Shape& at) { result.target[i] = position(at, strides); });
  return result;
}
Array in_f32(const Array& x, const char* name, const std::function<Array(const Array&)>& compute) {
  if (!x.floating()) throw Refused(name);
  if (x->dtype == DType::f32 || x->dtype == DType::f64) return compute(x);
  return cast(compute(cast(x, DType::f32)), x->dtype);
}
Array fold(const std::string& name, const Array& x, const Reduced& way);
// The gradient of a product by an element is the product of the others: itself a product, where there are few, else the
// product of all divided by the element. 16-bit floats become f32 first, and are rounded once.
Array prod_gradient(const Array& given, const Array& g, const Reduced& way) {
  constexpr std::int64_t few = 1 << 17;
  const Array x = given->dtype == DType::f64 ? given : cast(given, DType::f32);
  const auto scaled = [&](const Array& others) {
    return cast(binary("mul", expand(cast(g, x->dtype), x->shape), others), given->dtype);
  };
  const std::int64_t others = std::max<std::int64_t>(way.terms - 1, 0);
  if (x.count() * others <= few) {
    std::vector<std::vector<std::int64_t>> terms(static_cast<std::size_t>(count_of(way.kept)));
    for (std::size_t i = 0; i < way.target.size(); ++i)
      terms[static_cast<std::size_t>(way.target[i])].push_back(static_cast<std::int64_t>(i));
    auto source = std::make_shared<std::vector<std::int64_t>>();
    for (std::size_t i = 0; i < way.target.size(); ++i)
      for (std::int64_t term : terms[static_cast<std::size_t>(way.target[i])])
        if (term != static_cast<std::int64_t>(i)) source->push_back(term);
    const Array rows = take(x, {x.count(), others}, source);
    return scaled(reshape(fold("prod", rows, reduced("prod", rows, {1})), x->shape));
  }
  const Array y = fold("prod", x, way);
  for (const Array* array : {&x, &y})
    for (double value : (*array)->reals)
      if (value == 0 || !std::isfinite(value)) throw Undecided("the derivative of a product of many with zeros");
  return scaled(binary("div", expand(y, x->shape), x));
}
// sum, prod, amax, amin, with kept axes.
Array fold(const std::string& name, const Array& x, const Reduced& way) {
  Array y = make(x.floating() || name[0] == 'a' ? x->dtype : DType::i64, way.kept);
  const auto outputs = static_cast<std::size_t>(y.count());
  std::vector<std::vector<std::size_t>> terms(outputs);
  for (std::size_t i = 0; i < way.target.size(); ++i) terms[static_cast<std::size_t>(way.target[i])].push_back(i);
  for (std::size_t o = 0; o < outputs; ++o) {
    if (!x.floating()) {
      Integer value = name == "prod" ? 1 : name == "sum" ? 0 : x->integers[terms[o][0]];
      for (std::size_t i : terms[o]) {
        const Integer term = x->integers[i];
        value = name == "sum"    ? value + term
                : name == "prod" ? Integer{wrap(DType::i64, value * term)}
                : name == "amax" ? std::max(value, term)
                                 : std::min(value, term);
      }
      y.data->integers[o] = wrap(y->dtype, value);
    } else if (name == "sum") {
      Sum sum;
      for (std::size_t i : terms[o]) sum.add(static_cast<Wide>(x->reals[i]));
      y.data->reals[o] = terms[o].empty() ? 0 : sum.round(x->dtype);
    } else if (name == "prod") {
      Wide value = 1, above = 0, below = 0;
      bool odd = false;
      for (std::size_t i : terms[o]) {
        const Wide term = static_cast<Wide>(x->reals[i]);
        value *= term;
        if (!std::isfinite(term) || term == 0)
          odd = true;
        else
          (std::fabs(term) > 1 ? above : below) += std::log2(std::fabs(term));
      }
      const Wide limit = x->dtype == DType::f64 ? 1020 : 124;
      if (above > limit || below < -limit) {
        y.data->reals[o] = undecided(round_to(x->dtype, value));
      } else if (odd || terms[o].size() <= 1) {
        y.data->reals[o] = open_zero(finish(x->dtype, value, false));
      } else {
        const DType inner = x->dtype == DType::f64 ? DType::f64 : DType::f32;
        y.data->reals[o] = finish(x->dtype, value, true,
                                  std::ldexp(std::fabs(value) * static_cast<Wide>(terms[o].size()), -precision(inner)));
      }
    } else {
      double value = x->reals[terms[o][0]];
      bool negative = false, positive = false;
      for (std::size_t i : terms[o]) {
        const double term = x->reals[i];
        if (term == 0) (std::signbit(term) ? negative : positive) = true;
        if (value == value && (term != term || (name == "amax" ? term > value : term < value))) value = term;
      }
      y.data->reals[o] = negative && positive ? open_zero(value) : value;
    }
  }
  if (!y.floating()) return y;
  y.data->operands = {x};
  if (name == "sum")
    y.data->rules = {[to = x->shape](const Array&, const Array& g) { return expand(g, to); }};
  else if (name == "prod")
    y.data->rules = {[x, way](const Array&, const Array& g) { return prod_gradient(x, g, way); }};
  else
    y.data->rules = {[x, way](const Array& y, const Array& g) {
      const Array ties = cast(binary("equal", x, expand(y, x->shape)), x->dtype);
      return binary("mul", ties, expand(binary("div", g, fold("sum", ties, way)), x->shape));
    }};
  return y;
}
}  // namespace

Array reduce(const std::string& name, const Array& x, const Shape& axes, bool keepdim) {
  const auto shaped = [&](const Array& y, const Reduced& way) { return keepdim ? y : reshape(y, way.squeezed); };
  if (name == "any" || name == "all") {
    const Array flags = x->dtype == DType::boolean ? x : binary("not_equal", x, integer(DType::i64, 0, true));
    const Reduced way = reduced(name.c_str(), x, axes);
    Array y = make(DType::boolean, way.kept);
    for (std::int64_t& value : y.data->integers) value = name == "all";
    for (std::size_t i = 0; i < way.target.size(); ++i) {
      std::int64_t& value = y.data->integers[static_cast<std::size_t>(way.target[i])];
      value = name == "all" ? value && flags->integers[i] : value || flags->integers[i];
    }
    return shaped(y, way);
  }
  if (name == "mean")
    return in_f32(x, "mean", [&](const Array& value) {
      const Reduced way = reduced("mean", value, axes);
      return shaped(binary("div", fold("sum", value, way), integer(DType::i64, way.terms, true)), way);
    });
  if (name == "norm")
    return in_f32(x, "norm", [&](const Array& value) {
      Soft soft;
      const Array squares = reduce("sum", binary("mul", value, value), axes, keepdim);
      const Array none = binary("equal", squares, lit(0));
      return where(none, lit(0), unary("sqrt", where(none, lit(1), squares)));
    });
  const Reduced way = reduced(name.c_str(), x, axes);
  if (name[0] == 'a' && way.terms == 0) throw Refused(name);
  if (name[0] == 'a' && x->dtype == DType::boolean)
    return cast(shaped(fold(name, cast(x, DType::u8), way), way), DType::boolean);
  return shaped(fold(name, x->dtype == DType::boolean ? cast(x, DType::i64) : x, way), way);
}

namespace {
// The value, of whose zeros the signs are not promised, and nothing of the elements that are open, if there are any.
Array with_open_zeros(const Array& x, const std::vector<bool>& open) {
  Array y = make(x->dtype, x->shape);
  y.data->reals = x->reals;
  y.data->weak = x->weak;
  for (std::size_t i = 0; i < y->reals.size(); ++i)
    y.data->reals[i] = open[i] ? undecided(x->reals[i]) : open_zero(x->reals[i]);
  y.data->operands = {x};
  y.data->rules = {[](const Array&, const Array& g) { return g; }};
  return y;
}
// Of the gradient of a cumulative product the signs of zeros are open, and all of it beside an element of the row that
// is not finite: a sum of products whose common factors may stand before it or in each of them, inf * (1 - 3) or inf -
// inf.
Array with_open_gradient(const Array& x, std::size_t axis) {
  const std::int64_t size = x.rank() == 0 ? 1 : x->shape[axis], step = x.rank() == 0 ? 1 : strides_of(x->shape)[axis];
  std::vector<bool> open(x->reals.size());
  for (std::size_t i = 0; i < open.size(); ++i) {
    const auto place = static_cast<std::int64_t>(i), first = place - place / step % size * step;
    for (std::int64_t k = 0; k < size; ++k)
      open[i] = open[i] || !std::isfinite(x->reals[static_cast<std::size_t>(first + k * step)]);
  }
  Array y = make(x->dtype, x->shape);
  y.data->reals = x->reals;
  y.data->weak = x->weak;
  y.data->operands = {x};
  y.data->rules = {[open](const Array&, const Array& g) { return with_open_zeros(g, open); }};
  return y;
}
}  // namespace

// By the definition: each element is the reduction of those up to it.
Array cumulative(const std::string& name, const Array& value, std::int64_t given) {
  const std::int64_t axis = axis_of(name.c_str(), given, std::max<std::int64_t>(value.rank(), 1));
  const Array x =
      name == "prod" && value.floating() ? with_open_gradient(value, static_cast<std::size_t>(axis)) : value;
  if (x.rank() == 0) return reduce(name, x, {}, false);
  std::vector<Array> parts;
  for (std::int64_t i = 1; i <= x->shape[static_cast<std::size_t>(axis)]; ++i)
    parts.push_back(reduce(name, slice(x, axis, 0, i, 1), {axis}, true));
  if (!parts.empty()) return concat(parts, axis);
  return x.floating() ? x : cast(x, DType::i64);
}

Array argmax(const Array& x, std::int64_t given, bool keepdim, bool least) {
  const char* name = "argmax";
  const auto axis = static_cast<std::size_t>(axis_of(name, given, x.rank()));
  if (x->shape[axis] == 0) throw Refused(name);
  Shape shape = x->shape;
  shape[axis] = 1;
  Array y = make(DType::i64, shape);
  const Shape strides = strides_of(x->shape);
  each(shape, [&](std::size_t o, const Shape& at) {
    const std::int64_t start = position(at, strides);
    std::int64_t best = 0;
    for (std::int64_t i = 1; i < x->shape[axis]; ++i) {
      const auto here = static_cast<std::size_t>(start + i * strides[axis]),
                 there = static_cast<std::size_t>(start + best * strides[axis]);
      const auto better = [&](auto p, auto q) { return q == q && (p != p || (least ? p < q : p > q)); };
      if (x.floating() ? better(x->reals[here], x->reals[there]) : better(x->integers[here], x->integers[there]))
        best = i;
    }
    y.data->integers[o] = best;
  });
  return keepdim ? y : squeeze(y, static_cast<std::int64_t>(axis));
}

namespace {
// The greatest element, 0 where there is none.
Array top_of(const Array& x, std::int64_t axis) {
  const auto rank = static_cast<std::int64_t>(x->shape.size()), normal = axis < 0 ? axis + rank : axis;
  const bool empty = normal >= 0 && normal < rank && x->shape[static_cast<std::size_t>(normal)] == 0;
  return stop_gradient(reduce(empty ? "sum" : "amax", x, {axis}, true));
}
}  // namespace
namespace {
Array log_softmax_of(const Array& given, std::int64_t axis) {
  Soft soft;
  return in_wide(given, [&](const Array& x) {
    const Array shifted = binary("sub", x, top_of(x, axis));
    return binary("sub", shifted, unary("log", reduce("sum", unary("exp", shifted), {axis}, true)));
  });
}
// The value with a derivative of its own, over the result as it was rounded.
Array with_rule(const Array& value, const Array& given, const Rule& rule) {
  Array y = make(value->dtype, value->shape);
  y.data->reals = value->reals;
  y.data->weak = value->weak;
  if (!given.floating()) return y;
  y.data->operands = {given};
  y.data->rules = {[rule](const Array& result, const Array& g) {
    Soft soft;
    return in_wide(result, [&](const Array& wide) { return rule(wide, cast(g, wide->dtype)); });
  }};
  return y;
}
}  // namespace
// The mean is of scaled elements, whose sum does not overflow; the gradient of f32 and f64 is one rule.
Array var(const Array& given, const Shape& axes, double correction, bool keepdim) {
  if (!given.floating()) throw Refused("var");
  Soft soft;
  const Reduced way = reduced("var", given, axes);
  const Array freedom = lit(std::max(static_cast<double>(way.terms) - correction, 0.0));
  const auto centered = [axes, terms = way.terms](const Array& x) {
    const double scale = x->dtype == DType::f64 ? 0x1p-64 : 0x1p-32;
    const Array total = reduce("sum", binary("mul", x, lit(scale)), axes, true);
    return binary("sub", x, binary("div", total, lit(static_cast<double>(terms) * scale)));
  };
  const Array value = in_wide(given, [&](const Array& x) {
    const Array distance = centered(x);
    return binary("div", reduce("sum", binary("mul", distance, distance), axes, keepdim), freedom);
  });
  if (given->dtype != DType::f32 && given->dtype != DType::f64) return value;
  return with_rule(value, given, [=](const Array&, const Array& g) {
    return binary("mul", centered(given), binary("div", binary("mul", reshape(g, way.kept), lit(2)), freedom));
  });
}

Array softmax(const Array& given, std::int64_t axis) {
  Soft soft;
  const Array value = in_wide(given, [&](const Array& x) {
    const Array e = unary("exp", binary("sub", x, top_of(x, axis)));
    return binary("div", e, reduce("sum", e, {axis}, true));
  });
  return with_rule(value, given, [axis](const Array& y, const Array& g) {
    const Array weighted = binary("mul", y, g);
    return binary("sub", weighted, binary("mul", y, reduce("sum", weighted, {axis}, true)));
  });
}
Array log_softmax(const Array& given, std::int64_t axis) {
  return with_rule(log_softmax_of(given, axis), given, [axis](const Array& y, const Array& g) {
    return binary("sub", g, binary("mul", unary("exp", y), reduce("sum", g, {axis}, true)));
  });
}
Array logsumexp(const Array& given, std::int64_t axis, bool keepdim) {
  Soft soft;
  return in_wide(given, [&](const Array& x) {
    const Array top = top_of(x, axis);
    const Array finite = where(unary("isfinite", top), top, integer(DType::i64, 0, true));
    const Array result =
        binary("add", unary("log", reduce("sum", unary("exp", binary("sub", x, finite)), {axis}, true)), finite);
    return keepdim ? result : squeeze(result, axis);
  });
}

// ---- products, indices, losses --------------------------------------------------------------------------------------

namespace {
// [batch..., m, k] x [batch..., k, n]
Array product(const Array& a, const Array& b) {
  const std::size_t rank = a->shape.size();
  const std::int64_t m = a->shape[rank - 2], k = a->shape[rank - 1], n = b->shape[rank - 1];
  Shape shape = a->shape;
  shape[rank - 1] = n;
  Array y = make(a->dtype, shape);
  const std::int64_t batches = m * n > 0 ? y.count() / (m * n) : 0;
  for (std::int64_t batch = 0; batch < batches; ++batch)
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        Sum sum;
        Integer whole = 0;
        for (std::int64_t l = 0; l < k; ++l) {
          const auto p = static_cast<std::size_t>((batch * m + i) * k + l),
                     q = static_cast<std::size_t>((batch * k + l) * n + j);
          if (a.floating())
            sum.add(static_cast<Wide>(a->reals[p]) * static_cast<Wide>(b->reals[q]));
          else
            whole = wrap(DType::i64, whole + Integer{a->integers[p]} * b->integers[q]);
        }
        const auto at = static_cast<std::size_t>((batch * m + i) * n + j);
        if (a.floating()) {
          ++sum.terms;  // the products round too
          y.data->reals[at] = sum.round(a->dtype);
        } else {
          y.data->integers[at] = wrap(a->dtype, whole);
        }
      }
  if (a.floating()) {
    y.data->operands = {a, b};
    y.data->rules = {[b](const Array&, const Array& g) { return product(g, transpose(b, -2, -1)); },
                     [a](const Array&, const Array& g) { return product(transpose(a, -2, -1), g); }};
  }
  return y;
}
}  // namespace

Array matmul(Array a, Array b) {
  if (a.rank() == 0 || b.rank() == 0) throw Refused("matmul");
  const DType dtype = promote(make(a->dtype, {1}), make(b->dtype, {1}));
  a = cast(a, dtype);
  b = cast(b, dtype);
  const bool row = a.rank() == 1, column = b.rank() == 1;
  if (row) a = unsqueeze(a, 0);
  if (column) b = unsqueeze(b, 1);
  if (a->shape.back() != b->shape[b->shape.size() - 2]) throw Refused("matmul");
  if (dtype == DType::boolean) throw Refused("matmul");
  Shape p = a->shape, q = b->shape;
  p.insert(p.begin(), static_cast<std::size_t>(std::max(0, b.rank() - a.rank())), 1);
  q.insert(q.begin(), static_cast<std::size_t>(std::max(0, a.rank() - b.rank())), 1);
  for (std::size_t i = 0; i + 2 < p.size(); ++i) {
    if (p[i] != q[i] && p[i] != 1 && q[i] != 1) throw Refused("matmul");
    p[i] = q[i] = p[i] == 1 ? q[i] : p[i];
  }
  Array y = product(expand(a, p), expand(b, q));
  if (column) y = squeeze(y, -1);
  if (row) y = squeeze(y, column ? -1 : -2);
  return y;
}

Array gather(const Array& x, const Array& index) {
  if (index.floating() || index->dtype == DType::boolean || x.rank() == 0) throw Refused("gather");
  for (std::int64_t row : index->integers)
    if (row < 0 || row >= x->shape[0]) throw Refused("gather");
  Shape shape = index->shape, inner(x->shape.begin() + 1, x->shape.end());
  shape.insert(shape.end(), inner.begin(), inner.end());
  if (shape.size() > 8) throw Refused("gather");
  const std::int64_t width = count_of(inner);
  auto source = std::make_shared<std::vector<std::int64_t>>();
  for (std::int64_t row : index->integers)
    for (std::int64_t i = 0; i < width; ++i) source->push_back(row * width + i);
  return take(x, shape, source);
}
Array one_hot(const Array& index, std::int64_t classes, DType dtype) {
  if (index.floating() || classes < 1 || index.rank() == 8) throw Refused("one_hot");
  Shape shape = index->shape;
  shape.push_back(classes);
  Array y = make(DType::boolean, shape);
  for (std::size_t i = 0; i < index->integers.size(); ++i) {
    if (index->integers[i] < 0 || index->integers[i] >= classes) throw Refused("one_hot");
    y.data->integers[i * static_cast<std::size_t>(classes) + static_cast<std::size_t>(index->integers[i])] = 1;
  }
  return cast(y, dtype);
}
Array mse_loss(const Array& prediction, const Array& target) {
  if (prediction->shape != target->shape) throw Refused("mse_loss");
  Soft soft;
  const bool integers = !prediction.floating() && !target.floating();
  const auto wide = [&](const Array& x) { return integers ? cast(x, DType::f32) : x; };
  const Array difference = binary("sub", wide(prediction), wide(target));
  return reduce("mean", binary("mul", difference, difference), {}, false);
}
Array cross_entropy(const Array& logits, const Array& labels) {
  if (logits.rank() == 0 || !logits.floating() || labels.floating() || labels->dtype == DType::boolean)
    throw Refused("cross_entropy");
  if (labels->shape != Shape(logits->shape.begin(), logits->shape.end() - 1)) throw Refused("cross_entropy");
  Soft soft;
  const std::int64_t classes = logits->shape.back();
  const Array chosen = one_hot(labels, classes, logits->dtype);
  const Array picked =
      reduce("sum", where(binary("equal", chosen, lit(1)), log_softmax_of(logits, -1), lit(0)), {-1}, false);
  return unary("neg", reduce("mean", picked, {}, false));
}

// ---- differentiation ------------------------------------------------------------------------------------------------

std::vector<Array> gradients(const Array& loss, const std::vector<Array>& places) {
  if (!loss.floating() || loss.count() != 1) throw Refused("grad");
  Soft soft;
  std::map<std::uint64_t, const Array*> order;  // what depends on a place, by serial number
  std::map<const Data*, bool> reaches;
  const std::function<bool(const Array&)> visit = [&](const Array& array) -> bool {
    if (const auto found = reaches.find(array.data.get()); found != reaches.end()) return found->second;
    bool any = false;
    for (const Array& place : places) any |= place.data == array.data;
    for (const Array& operand : array->operands) any |= visit(operand);
    if (any) order[array->serial] = &array;
    return reaches[array.data.get()] = any;
  };
  if (!visit(loss)) throw Undecided("whether a slope of 0 everywhere depends on its place");
  std::map<const Data*, Array> sums;
  Array one = make(loss->dtype, loss->shape);
  one.data->reals[0] = 1;
  sums[loss.data.get()] = one;
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    const Array& array = *at->second;
    const auto found = sums.find(array.data.get());
    if (found == sums.end()) continue;
    const Array gradient = found->second;
    for (std::size_t i = 0; i < array->operands.size(); ++i) {
      const Array& operand = array->operands[i];
      if (!reaches[operand.data.get()]) continue;
      const Array part = array->rules[i](array, gradient);
      if (!part.data) continue;
      const auto [sum, fresh] = sums.emplace(operand.data.get(), part);
      if (!fresh) sum->second = binary("add", sum->second, part);
    }
  }
  std::vector<Array> result;
  for (const Array& place : places) {
    const auto found = sums.find(place.data.get());
    result.push_back(found == sums.end() ? make(place->dtype, place->shape) : found->second);
  }
  return result;
}

}  // namespace oracle
