// Losses of labels: cross entropies, margins of classes, connectionist temporal classification.
#include <cmath>

#include "base/fail.hpp"
#include "base/number_checks.hpp"
#include "nn/losses.hpp"
#include "record/autocast.hpp"
#include "record/composite.hpp"
#include "record/elementwise.hpp"
#include "record/expressions.hpp"
#include "record/indexing.hpp"
#include "weft/loops.hpp"

namespace weft::nn {

Tensor cross_entropy(At logits, At labels) {
  Operation call("cross_entropy", logits.loc);
  Tensor z = resolve(logits, "cross_entropy"), label = resolve(labels, "cross_entropy");
  const Type zt = type_of(z), lt = type_of(label);
  int rank = zt.shape.rank();
  if (is_floating(lt.dtype) && same_shape(z, label)) return cross_entropy(z, label, CrossEntropyOptions());
  bool fits = rank >= 1 && lt.shape.rank() == rank - 1;
  for (int i = 0; fits && i < rank - 1; ++i) fits = zt.shape[i] == lt.shape[i];
  if (!fits || !is_floating(zt.dtype) || !is_integer(lt.dtype))
    fail("cross_entropy", call.loc(), "takes floating logits [..., classes] and integer labels [...]: ", to_string(zt),
         " x ", to_string(lt), rank > 2 ? " (classes on axis 1, as PyTorch has them, are {.axis = 1})" : "");
  if (zt.device != lt.device)
    fail("cross_entropy", call.loc(), "logits and labels live on different devices, move one by to(): ", to_string(zt),
         " x ", to_string(lt));
  label = cast(label, DType::i64);
  Dim classes = zt.shape[rank - 1];
  check_places(label, z, rank - 1, "cross_entropy", call.loc());
  ReducedCall along{called("cross_entropy")};
  along.axes.insert(rank - 1);
  const auto record = [&](const Tensor& z, const Tensor& label) {
    // A select, not a product with zeros: logits may be -inf.
    Tensor shifted = z - stop_gradient(amax(z, -1, true));
    Tensor chosen = sum(where(unsqueeze(label, -1) == arange(classes), shifted, 0), -1);
    return mean(log(sum(exp(shifted), -1)) - chosen);
  };
  return composite(along, call.loc(), record, std::move(z), std::move(label));
}

namespace {

bool is_labels(const Tensor& rows, const Tensor& labels) {
  const Type z = type_of(rows), l = type_of(labels);
  bool fits = z.shape.rank() >= 1 && l.shape.rank() == z.shape.rank() - 1 && is_integer(l.dtype);
  for (int i = 0; fits && i < l.shape.rank(); ++i) fits = z.shape[i] == l.shape[i];
  return fits;
}

// Of log-probabilities whose classes are the last axis.
struct Labels {
  Tensor valid;   // undefined: all are
  Tensor chosen;  // bool [..., classes]: the label's place
  Tensor weight;  // [...]: of the label; undefined: 1
};
Labels read_labels(const char* name, const Tensor& rows, const Tensor& given, const Tensor& weight,
                   std::optional<std::int64_t> ignore_index, Loc loc) {
  const Type type = type_of(rows);
  const Dim classes = type.shape[type.shape.rank() - 1];
  Labels labels;
  Tensor label = cast(given, DType::i64);
  if (ignore_index) {
    labels.valid = label != *ignore_index;
    label = where(labels.valid, label, 0);
  }
  check_range(label, classes, name, loc, rows);
  const Tensor places = positions(type.shape.rank() - 1, type.shape, type.device, loc);
  labels.chosen = unsqueeze(label, -1) == places;
  if (weight.defined()) labels.weight = sum(where(labels.chosen, cast(weight, type.dtype), 0), -1);
  return labels;
}

void check_weight(const char* name, const Tensor& weight, const Tensor& rows, Loc loc) {
  if (!weight.defined()) return;
  const Shape &own = type_of(weight).shape, &shape = type_of(rows).shape;
  if (own.rank() != 1 || !(own[0] == shape[shape.rank() - 1]))
    fail(name, loc, "takes weights of ", dims::to_string(shape[shape.rank() - 1]), " classes, they are ",
         to_string(type_of(weight)));
}

// losses [...] of rows that count; their mean is over the weights of their labels.
Tensor reduced_by_labels(const Tensor& losses, const Labels& labels, Reduction reduction) {
  const DType dtype = type_of(losses).dtype;
  const Tensor counted = labels.valid.defined() ? where(labels.valid, losses, 0) : losses;
  if (reduction != Reduction::mean || (!labels.valid.defined() && !labels.weight.defined()))
    return reduced(counted, reduction);
  Tensor count = labels.weight.defined() ? labels.weight : cast(labels.valid, dtype);
  if (labels.weight.defined() && labels.valid.defined()) count = where(labels.valid, count, 0);
  return sum(counted) / sum(count);
}

// The classes last.
Tensor classes_last(const char* name, const Tensor& rows, int axis, Loc loc) {
  const int rank = type_of(rows).shape.rank();
  if (rank < 1) fail(name, loc, "takes classes along an axis: ", to_string(type_of(rows)));
  const int normal = normalize_axis(name, axis, rank, loc);
  return normal == rank - 1 ? rows : movedim(rows, normal, -1);
}

Tensor nll(const char* name, const Tensor& log_probs, const Tensor& given, const CrossEntropyOptions& options,
           Loc loc) {
  if (!is_labels(log_probs, given))
    fail(name, loc, "takes floating rows of classes and integer labels: ", to_string(type_of(log_probs)), " x ",
         to_string(type_of(given)));
  const Labels labels = read_labels(name, log_probs, given, options.weight, options.ignore_index, loc);
  const auto weighted = [](const Tensor& losses, const Tensor& weight) {
    return weight.defined() ? losses * weight : losses;
  };
  const Tensor losses = weighted(-sum(where(labels.chosen, log_probs, 0), -1), labels.weight);
  const Tensor of_labels = reduced_by_labels(losses, labels, options.reduction);
  if (options.label_smoothing == 0) return of_labels;
  const Tensor all = options.weight.defined() ? log_probs * cast(options.weight, type_of(log_probs).dtype) : log_probs;
  const Tensor of_all = reduced_by_labels(-mean(all, -1), labels, options.reduction);
  return of_labels * (1 - options.label_smoothing) + of_all * options.label_smoothing;
}

}  // namespace

Tensor cross_entropy(At logits, At labels, const CrossEntropyOptions& options) {
  constexpr const char* name = "cross_entropy";
  LooseComposite call(name, logits.loc);
  const Tensor given = resolve(logits, name), label = resolve(labels, name);
  check_numbers(name, Bounds::share, {{"label_smoothing", options.label_smoothing}}, call.loc());
  const Tensor rows = classes_last(name, given, options.axis, call.loc());
  if (!is_floating(type_of(rows).dtype)) fail(name, call.loc(), "takes floating logits: ", to_string(type_of(rows)));
  check_weight(name, options.weight, rows, call.loc());
  const DType own = type_of(rows).dtype;
  const Tensor log_probs = log_softmax(cast(rows, computed_in(own)), -1);
  if (!is_floating(type_of(label).dtype)) return cast(nll(name, log_probs, label, options, call.loc()), own);
  if (options.ignore_index) fail(name, call.loc(), "takes no ignore_index beside probabilities");
  const Tensor wanted = classes_last(name, label, options.axis, call.loc());
  if (!same_shape(rows, wanted))
    fail(name, call.loc(), "takes probabilities of the logits' shape: ", to_string(type_of(given)), " x ",
         to_string(type_of(label)));
  const Shape shape = type_of(rows).shape;
  Tensor shares = cast(wanted, type_of(log_probs).dtype);
  if (options.label_smoothing > 0)
    shares = shares * (1 - options.label_smoothing) +
             options.label_smoothing / cast(dim_value(shape[shape.rank() - 1], call.loc()), type_of(shares).dtype);
  if (options.weight.defined()) shares = shares * cast(options.weight, type_of(shares).dtype);
  return cast(reduced(-sum(shares * log_probs, -1), options.reduction), own);
}

// ---- linear cross entropy -------------------------------------------------------------------------------------------

namespace {

// The rows in chunks, [chunks, chunk, ...]; `filling` fills the last chunk up.
Tensor in_chunks(const Tensor& rows, std::int64_t chunk, At filling = 0) {
  Shape shape = type_of(rows).shape;
  const Dim count = shape[0], chunks = (count + Dim(chunk - 1)) / Dim(chunk);
  Shape parts = Shape::of(chunks, chunk);
  Shape widths;
  for (int i = 1; i < shape.rank(); ++i) parts.push_back(shape[i]), widths.push_back(0), widths.push_back(0);
  widths.push_back(0), widths.push_back(chunks * Dim(chunk) - count);
  return reshape_to(pad(rows, widths, Pads::constant, filling), parts, {});
}
Tensor from_chunks(const Tensor& parts, Dim count) {
  const Shape shape = type_of(parts).shape;
  Shape rows = Shape::of(shape[0] * shape[1]);
  for (int i = 2; i < shape.rank(); ++i) rows.push_back(shape[i]);
  return slice(reshape_to(parts, rows, {}), 0, 0, count);
}

Tensor logits_of(const Tensor& rows, const Tensor& weight, const Tensor& bias) {
  const Tensor product = matmul(rows, transpose(weight));
  return cast(product, computed_in(type_of(product).dtype)) + bias;
}
Tensor is_label(const Tensor& logits, const Tensor& label) {
  return unsqueeze(label, -1) == positions(1, type_of(logits).shape, type_of(logits).device, {});
}

using TensorPair = std::pair<Tensor, Tensor>;

// Operands: rows [N, n], weight [classes, n], bias [classes] in the dtype that is computed in, labels [N]; the loss of
// each row. Of a chunk, with p the softmax of its logits: the gradient of the logits is g (p - label).
void differentiate_linear(const CallValues& p, std::span<Tensor> gradients) {
  const std::int64_t chunk = static_cast<std::int64_t>(p.called.as<LossCall>().bound);
  const Tensor &rows = p.operands[0], &weight = p.operands[1], &bias = p.operands[2];
  struct Sums {
    Tensor weight, bias;
    WEFT_MEMBERS(weight, bias)
  };
  struct Slice {
    Tensor rows, labels, gradient;
    WEFT_MEMBERS(rows, labels, gradient)
  };
  Type sum_type = type_of(weight);
  sum_type.dtype = type_of(bias).dtype;
  const Sums zero{constant_like(0, sum_type, {}), constant_like(0, type_of(bias), {})};
  const Slice parts{in_chunks(rows, chunk), in_chunks(p.operands[3], chunk, -1), in_chunks(p.gradients[0], chunk)};
  const auto [sums, slopes] = scan(
      [&](const Sums& sums, const Slice& own) {
        const Tensor logits = logits_of(own.rows, weight, bias);
        const Tensor excess = softmax(logits, -1) - cast(is_label(logits, own.labels), type_of(logits).dtype);
        const Tensor slope = unsqueeze(own.gradient, -1) * excess, narrow = cast(slope, type_of(rows).dtype);
        const Tensor of_weight = cast(matmul(transpose(narrow), own.rows), sum_type.dtype);
        return std::pair{Sums{sums.weight + of_weight, sums.bias + sum(slope, 0)}, matmul(narrow, weight)};
      },
      zero, parts);
  gradients[0] = from_chunks(slopes, type_of(rows).shape[0]);
  gradients[1] = cast(sums.weight, type_of(weight).dtype);
  gradients[2] = sums.bias;
}

}  // namespace

Tensor linear_cross_entropy(At given, At matrix, At labels, const LinearCrossEntropyOptions& options) {
  constexpr const char* name = "linear_cross_entropy";
  LooseComposite call(name, given.loc);
  Tensor x = resolve(given, name), weight = resolve(matrix, name), label = resolve(labels, name);
  const Type type = type_of(x), wt = type_of(weight), lt = type_of(label);
  const int rank = type.shape.rank();
  bool fits = rank >= 1 && wt.shape.rank() == 2 && wt.shape[1] == type.shape[rank - 1] && is_floating(type.dtype) &&
              is_floating(wt.dtype) && is_integer(lt.dtype) && lt.shape.rank() == rank - 1;
  for (int i = 0; fits && i < rank - 1; ++i) fits = lt.shape[i] == type.shape[i];
  if (!fits)
    fail(name, call.loc(), "takes input [..., n], weight [classes, n] and integer labels [...]: ", to_string(type),
         " x ", to_string(wt), " x ", to_string(lt));
  if (options.chunk < 1) fail(name, call.loc(), "chunk must be positive, it is ", options.chunk);
  check_extent(name, "chunk", options.chunk, call.loc());
  const DType dtype = promote({type.dtype, false, type.weak}, {wt.dtype, false, wt.weak}), wide = computed_in(dtype);
  const Dim classes = wt.shape[0], count = lt.shape.element_count();
  Tensor bias = constant_like(0, Type{wide, false, wt.device, Shape::of(classes)}, call.loc());
  if (options.bias.defined()) {
    bias = resolve(At(options.bias, call.loc()), name);
    if (type_of(bias).shape.rank() != 1 || !(type_of(bias).shape[0] == classes))
      fail(name, call.loc(), "takes a bias of ", dims::to_string(classes), " classes, it is ",
           to_string(type_of(bias)));
    bias = cast(bias, wide);
  }
  x = reshape_to(cast(x, dtype), Shape::of(count, type.shape[rank - 1]), call.loc());
  label = reshape_to(cast(label, DType::i64), Shape::of(count), call.loc());
  Labels rows;
  if (options.ignore_index) {
    rows.valid = label != *options.ignore_index;
    label = where(rows.valid, label, 0);
  }
  check_range(label, classes, name, call.loc(), weight);
  const std::int64_t chunk = options.chunk;
  const LossCall numbers{called(name), 0, static_cast<double>(chunk), false};
  const auto body = [&](const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& label) {
    const Tensor none = constant_like(0, Type{wide, false, type.device, {}}, {});
    const auto [state, losses] = scan(
        [&](const Tensor& state, const TensorPair& own) {
          const Tensor logits = logits_of(own.first, weight, bias);
          const Tensor chosen = sum(where(is_label(logits, own.second), logits, 0), -1);
          return std::pair{state, logsumexp(logits, -1) - chosen};
        },
        none, TensorPair{in_chunks(x, chunk), in_chunks(label, chunk, -1)});
    return from_chunks(losses, count);
  };
  const Tensor losses =
      composite_with(differentiate_linear, numbers, call.loc(), body, x, cast(weight, dtype), bias, label);
  const Tensor result = reduced_by_labels(losses, rows, options.reduction);
  return cast(options.reduction == Reduction::none ? reshape_to(result, lt.shape, call.loc()) : result,
              autocast_loss_dtype(name, dtype));
}

Tensor nll_loss(At log_probs, At labels, const NllOptions& options) {
  constexpr const char* name = "nll_loss";
  LooseComposite call(name, log_probs.loc);
  const Tensor rows = classes_last(name, resolve(log_probs, name), options.axis, call.loc());
  check_weight(name, options.weight, rows, call.loc());
  if (!is_floating(type_of(rows).dtype))
    fail(name, call.loc(), "takes floating log-probabilities: ", to_string(type_of(rows)));
  const DType own = type_of(rows).dtype;
  const CrossEntropyOptions same{
      .weight = options.weight, .ignore_index = options.ignore_index, .reduction = options.reduction};
  return cast(nll(name, cast(rows, computed_in(own)), resolve(labels, name), same, call.loc()), own);
}

Tensor multilabel_margin_loss(At given, At labels, Reduction reduction) {
  constexpr const char* name = "multilabel_margin_loss";
  LooseComposite call(name, given.loc);
  const Tensor input = resolve(given, name), label = cast(resolve(labels, name), DType::i64);
  const Type type = type_of(input);
  const int rank = type.shape.rank();
  if (rank < 1 || rank > 2 || !is_floating(type.dtype) || !is_integer(type_of(resolve(labels, name)).dtype) ||
      !same_shape(input, label))
    fail(name, call.loc(), "takes floating scores [N, C] or [C] and integer labels of their shape: ", to_string(type),
         " x ", to_string(type_of(resolve(labels, name))));
  const Dim classes = type.shape[rank - 1];
  const Tensor counts = cumsum(cast(label < 0, DType::i64), -1) == 0;  // before the first negative one
  const Tensor own = where(counts, label, 0);
  check_places(own, input, rank - 1, name, call.loc());
  const Tensor x = cast(input, computed_in(type.dtype));
  // [..., labels, classes].
  const Tensor is_own = (unsqueeze(own, -1) == arange(classes, {DType::i64, type.device})) & unsqueeze(counts, -1);
  const Tensor score = sum(where(is_own, unsqueeze(x, -2), 0), -1, true);
  const Tensor others = unsqueeze(counts, -1) & ~any(is_own, -2, true);
  const Tensor missing = relu(1 - score + unsqueeze(x, -2));
  const Tensor losses =
      sum(where(others, missing, 0), {-2, -1}) / cast(dim_value(classes, call.loc()), type_of(x).dtype);
  return cast(reduced(losses, reduction), type.dtype);
}

Tensor multi_margin_loss(At input, At labels, const MultiMarginOptions& options) {
  constexpr const char* name = "multi_margin_loss";
  LooseComposite call(name, input.loc);
  const Tensor given = resolve(input, name), label = resolve(labels, name);
  check_numbers(name, Bounds::finite, {{"margin", options.margin}}, call.loc());
  if (options.p != 1 && options.p != 2) fail(name, call.loc(), "p must be 1 or 2, it is ", options.p);
  if (!is_floating(type_of(given).dtype) || !is_labels(given, label))
    fail(name, call.loc(), "takes floating rows of classes and integer labels: ", to_string(type_of(given)), " x ",
         to_string(type_of(label)));
  check_weight(name, options.weight, given, call.loc());
  const DType own = type_of(given).dtype;
  const Tensor x = cast(given, computed_in(own));
  const Labels at = read_labels(name, x, label, options.weight, {}, call.loc());
  const Tensor chosen = sum(where(at.chosen, x, 0), -1, true);
  Tensor margins = relu(options.margin - chosen + x);
  if (options.p == 2) margins = square(margins);
  if (at.weight.defined()) margins = margins * unsqueeze(at.weight, -1);
  const Tensor losses = mean(where(at.chosen, 0, margins), -1);
  return cast(reduced(losses, options.reduction), own);
}

// ---- connectionist temporal classification --------------------------------------------------------------------------

namespace {

// log(exp(a) + exp(b) + exp(c)), of which any may be -inf, with a derivative that is a number then too.
Tensor log_of_sum(const Tensor& a, const Tensor& b, const Tensor& c) {
  const OwnExpressions& expressions = own_expressions();
  const Tensor values[] = {stop_gradient(a), stop_gradient(b), stop_gradient(c)};
  const At operands[] = {values[0], values[1], values[2]};
  Tensor top, result;
  weft::detail::apply_elementwise(*expressions.finite_greatest, operands, &top);
  const At with_top[] = {a, b, c, top};
  weft::detail::apply_elementwise(*expressions.log_of_sum, with_top, &result);
  return result;
}

// The elements so many places earlier along the last axis, -inf where there are none.
Tensor shifted(const Tensor& x, std::int64_t places) {
  Type none = type_of(x);
  const int last = none.shape.rank() - 1;
  const Dim size = none.shape[last];
  none.shape[last] = places;
  return narrow(concat({constant_like(-INFINITY, none, {}), x}, -1), -1, 0, size);
}

}  // namespace

Tensor ctc_loss(At log_probs, At targets, At input_lengths, At target_lengths, CtcOptions options) {
  constexpr const char* name = "ctc_loss";
  LooseComposite call(name, log_probs.loc);
  const Tensor given = resolve(log_probs, name);
  const auto beside = [&](const At& operand) {
    return to(cast(resolve(operand, name), DType::i64), type_of(given).device);
  };
  const Tensor labels = beside(targets), steps = beside(input_lengths), lengths = beside(target_lengths);
  const Type type = type_of(given);
  const auto is_of_batch = [&](const Tensor& each, int rank) {
    const Shape& shape = type_of(each).shape;
    return shape.rank() == rank && shape[0] == type.shape[1];
  };
  if (type.shape.rank() != 3 || !is_floating(type.dtype) || !is_of_batch(labels, 2) || !is_of_batch(steps, 1) ||
      !is_of_batch(lengths, 1))
    fail(name, call.loc(), "takes log-probabilities [T, N, C], targets [N, S] and lengths [N]: ", to_string(type),
         " x ", to_string(type_of(labels)), " x ", to_string(type_of(steps)), " x ", to_string(type_of(lengths)));
  const Dim time = type.shape[0], batch = type.shape[1], classes = type.shape[2], most = type_of(labels).shape[1];
  if (options.blank < 0 || !(Dim(options.blank) < classes))
    fail(name, call.loc(), "the blank is label ", options.blank, " of ", dims::to_string(classes));
  check_range(steps, time + Dim(1), name, call.loc(), given);
  check_range(lengths, most + Dim(1), name, call.loc(), given);
  const Device device = type.device;
  const auto along = [&](const Shape& shape) { return positions(1, shape, device, call.loc()); };
  const Tensor counts = along(Shape::of(batch, most)) < unsqueeze(lengths, 1);
  const Tensor label = where(counts, labels, options.blank);
  check_range(label, classes, name, call.loc(), given);
  // blank, label, blank, label, ..., blank
  const Dim places = most * Dim(2) + Dim(1);
  const Tensor blanks = full({batch, most, 1}, static_cast<double>(options.blank), {DType::i64, device});
  const Tensor text = pad(reshape(concat({blanks, unsqueeze(label, 2)}, 2), {batch, most * Dim(2)}), {0, 1},
                          Pads::constant, options.blank);
  const Tensor x = cast(given, computed_in(type.dtype));
  const Tensor emitted = gather(x, 2, expand(unsqueeze(text, 0), {time, batch, places}));
  // A label may follow the one before without a blank between them where they differ.
  const Tensor before = narrow(pad(text, {2, 0}, Pads::constant, options.blank), 1, 0, places);
  const Tensor place = along(Shape::of(batch, places));
  const Tensor skips = (text != options.blank) & (text != before) & (place >= 2);
  const Tensor start = where(place < 2, select(emitted, 0, 0), -INFINITY);
  struct Step {
    Tensor emitted, time;
  };
  const Tensor clock = arange(time);
  const Step rest{narrow(emitted, 0, 1, time - Dim(1)), to(narrow(clock, 0, 1, time - Dim(1)), device)};
  const Tensor last = scan(
      [&](const Tensor& paths, const Step& step) -> Tensor {
        const Tensor two = where(skips, shifted(paths, 2), -INFINITY);
        const Tensor next = log_of_sum(paths, shifted(paths, 1), two) + step.emitted;
        return where(unsqueeze(steps > step.time, 1), next, paths);
      },
      start, rest);
  // The text ends with its last label or with the blank after it.
  const Tensor end = unsqueeze(lengths * 2, 1);
  const auto at = [&](const Tensor& which) { return amax(where(which, last, -INFINITY), -1); };
  const Tensor minus = full({}, -INFINITY, {type_of(last).dtype, device});
  Tensor losses = -log_of_sum(at(place == end), at(place == end - 1), minus);
  losses = where(steps > 0, losses, where(lengths > 0, INFINITY, 0.0));
  if (options.zero_infinity) losses = where(isinf(losses), 0, losses);
  if (options.reduction == Reduction::mean) losses = losses / cast(maximum(lengths, 1), type_of(losses).dtype);
  return cast(reduced(losses, options.reduction), type.dtype);
}

}  // namespace weft::nn
