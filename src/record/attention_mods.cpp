#include "record/attention_mods.hpp"

#include <map>
#include <optional>
#include <utility>

#include "base/fail.hpp"
#include "record/loops.hpp"
#include "record/record_body.hpp"

namespace weft {

// ---- functions, erased ----------------------------------------------------------------------------------------------

namespace detail {

PairFunction::PairFunction(const PairFunction& other) noexcept : held_(other.held_) {
  if (held_) __atomic_add_fetch(&held_->references, 1, __ATOMIC_RELAXED);
}
PairFunction& PairFunction::operator=(PairFunction other) noexcept {
  std::swap(held_, other.held_);
  return *this;
}
PairFunction::~PairFunction() {
  if (held_ && __atomic_sub_fetch(&held_->references, 1, __ATOMIC_ACQ_REL) == 0) held_->destroy(held_);
}

}  // namespace detail

// ---- recording ------------------------------------------------------------------------------------------------------

Dim PairSizes::of(PairInput place) const {
  const Dim all[] = {1, batch, heads, queries, keys};
  return all[static_cast<std::size_t>(place)];
}

PairSizes pair_sizes(const Type& query, const Type& key) {
  PairSizes sizes{computed_in(query.dtype), query.device};
  const Shape& shape = query.shape;
  const int rank = shape.rank();
  sizes.queries = shape[rank - 2], sizes.keys = key.shape[rank - 2];
  if (rank > 2) sizes.heads = shape[rank - 3];
  for (int axis = 0; axis + 3 < rank; ++axis) sizes.batch = sizes.batch * shape[axis];
  return sizes;
}

namespace {

constexpr const char* attention = "scaled_dot_product_attention";

// Turns what the functions recorded into a graph over numbers: what depends on no pair is computed outside, and tables
// become vectors.
class NumbersOnly {
 public:
  NumbersOnly(const Graph& body, std::span<const Tensor> outside, const PairSizes& sizes, Loc loc)
      : body_(body), sizes_(sizes), loc_(loc), values_(body.nodes.size()) {
    const Type place{DType::i32, false, {}, {}};
    for (std::size_t i = 0; i < pair_inputs; ++i)
      inputs_.push_back(build_.input(i, i == 0 ? Type{sizes.score, false, {}, {}} : place));
    for (std::size_t i = 0; i < body.nodes.size(); ++i) {
      const Node& node = *body.nodes[i].node();
      Value& value = values_[i];
      if (node.op == Op::input) {
        const auto slot = static_cast<std::size_t>(node.attributes<Parameter>().slot);
        (slot < pair_inputs ? value.number : value.outer) = slot < pair_inputs ? inputs_[slot] : outside[slot];
        continue;
      }
      bool is_of_pair = false;
      for (const Tensor& operand : node.inputs()) is_of_pair |= !of(operand).outer.defined();
      is_of_pair ? of_pair(node, value) : outside_of(node, value);
    }
  }

  RecordedMods take() {
    std::vector<Tensor> outputs;
    for (const Tensor& output : body_.outputs) outputs.push_back(number(output));
    return {attention_mods_text(make_graph(std::move(inputs_), std::move(outputs), {})), std::move(captured_)};
  }

 private:
  // An axis of a part of a table, whose elements lie `stride` apart.
  struct Axis {
    Dim size, stride;
  };
  // A value of the body: computed outside, or a number, or a part of a table that is still to be read at a place.
  struct Value {
    Tensor outer;
    Tensor number;
    Tensor vector, at;  // the table's elements in order, and where the part begins; no `at`: at the first
    std::vector<Axis> part;
  };

  const Value& of(const Tensor& value) const { return values_[body_.number(value)]; }

  void outside_of(const Node& node, Value& value) {
    std::vector<Tensor> operands;
    for (const Tensor& operand : node.inputs()) operands.push_back(of(operand).outer);
    if (node.output_count > 1) refuse(node);
    value.outer = record_node(node, operands);
  }

  void of_pair(const Node& node, Value& value) {
    if (node.op == Op::gather) return read(node, value);
    if (node.op == Op::slice || node.op == Op::reshape) return take_part(node, value);
    if (info(node.op).kind == OpKind::pointwise && !node.definition) {
      std::vector<Tensor> operands;
      for (const Tensor& operand : node.inputs()) operands.push_back(number(operand));
      value.number = build_.make(node.op, operands, node.attributes(), {});
    } else if (node.op == Op::cast || node.op == Op::bitcast) {
      value.number = build_.make(node.op, {number(node.input(0))}, {}, {node.type.dtype, node.type.weak, {}, {}});
    } else if (node.op == Op::stop_gradient) {
      value.number = build_.make(node.op, {number(node.input(0))}, {}, {});
    } else {
      refuse(node);
    }
  }

  // table[index], of a table of one axis or of more, or of a part of one.
  void read(const Node& node, Value& value) {
    const Value& table = of(node.input(0));
    const Shape& shape = type_of(node.input(0)).shape;
    if (!node.type.shape.same(without_first(shape))) refuse(node);
    if (of(node.input(1)).outer.defined() && !table.outer.defined() && type_of(node.input(1)).shape.rank() > 0)
      refuse(node);
    const Tensor place = index(node, shape[0]);
    value = table.outer.defined() ? whole(table.outer) : table;
    move(value, value.part[0].stride.same(Dim(1)) ? place : build_.mul(place, size(value.part[0].stride)));
    value.part.erase(value.part.begin());
    finish(value);
  }
  Value whole(const Tensor& table) {
    const Shape& shape = type_of(table).shape;
    Value value;
    value.vector = captured(reshape_to(table, Shape::of(shape.element_count()), loc_));
    Dim stride = 1;
    for (int axis = shape.rank(); axis-- > 0; stride = stride * shape[axis])
      value.part.insert(value.part.begin(), {shape[axis], stride});
    return value;
  }
  void move(Value& value, const Tensor& by) { value.at = value.at.defined() ? build_.add(value.at, by) : by; }
  void finish(Value& value) {
    if (value.part.empty()) value.number = build_.make(Op::gather, {value.vector, value.at});
  }
  // A slice of a part, or the part with other axes of one element.
  void take_part(const Node& node, Value& value) {
    value = of(node.input(0));
    if (!value.vector.defined() || value.part.empty()) refuse(node);
    if (node.op == Op::slice) {
      const auto& slice = node.attributes<Slice>();
      Axis& axis = value.part[slice.axis];
      if (!slice.start.same(Dim(0))) move(value, size(slice.start * axis.stride));
      axis = {node.type.shape[slice.axis], axis.stride * Dim(slice.step)};
      return;
    }
    const auto is_one = [](const Axis& axis) { return axis.size.same(Dim(1)); };
    std::erase_if(value.part, is_one);
    for (int axis = 0; axis < node.type.shape.rank(); ++axis) {
      const auto i = static_cast<std::size_t>(axis);
      if (node.type.shape[axis].same(Dim(1)))
        value.part.insert(value.part.begin() + axis, {1, 0});
      else if (i >= value.part.size() || !value.part[i].size.same(node.type.shape[axis]))
        refuse(node);
    }
    if (value.part.size() != static_cast<std::size_t>(node.type.shape.rank())) refuse(node);
    finish(value);
  }

  // In range. A place of the pair is known to be, and nothing counts it from the end.
  Tensor index(const Node& read, Dim size_of_axis) {
    const Tensor given = read.input(1);
    const Tensor plain = without_from_end(given);
    const Tensor at = number(plain);
    if (const std::optional<PairInput> place = place_of(at)) {
      const Dim extent = sizes_.of(*place);
      if (extent > size_of_axis) {
        constexpr const char* names[] = {"score", "batch", "head", "query", "key"};
        fail(attention, place_of_node(read), "a mod reads a tensor of ", dims::to_string(size_of_axis),
             " elements at each ", names[static_cast<std::size_t>(*place)], ", of which there are ",
             dims::to_string(extent));
      }
      return at;
    }
    if (size_of_axis == Dim(0))
      fail(attention, place_of_node(read), "a mod reads an element of a tensor that has none");
    const Tensor zero = build_.constant(Constant::integer(0), {DType::i64, false, {}, {}});
    const Tensor last = size(size_of_axis - Dim(1));
    return build_.make(Op::minimum, {build_.make(Op::maximum, {number(given), zero}), last});
  }
  // where(x < 0, x + size, x) as x, where x is a place of the pair.
  Tensor without_from_end(const Tensor& given) const {
    const Node& node = *given.node();
    if (node.op != Op::where || of(given).outer.defined()) return given;
    const Tensor x = node.input(2);
    const Node &asked = *node.input(0).node(), &counted = *node.input(1).node();
    const bool counts = asked.op == Op::less && asked.input(0).same(x) && counted.op == Op::add &&
                        counted.input(0).same(x) && !of(x).outer.defined() && place_of(of(x).number);
    return counts ? x : given;
  }
  static std::optional<PairInput> place_of(const Tensor& number) {
    const auto holds = [](const Node& node) { return node.type.dtype == DType::i32 || node.type.dtype == DType::i64; };
    const Node* node = number.node();
    while (node->op == Op::cast && holds(*node)) node = node->input(0).node();
    if (node->op != Op::input || !holds(*node)) return {};
    const std::int64_t slot = node->attributes<Parameter>().slot;
    return slot < static_cast<std::int64_t>(pair_inputs) ? std::optional(static_cast<PairInput>(slot)) : std::nullopt;
  }

  // The value as a number of the graph. Constants are part of it, what else is computed outside is captured.
  Tensor number(const Tensor& given) {
    const Value& value = of(given);
    if (value.number.defined()) return value.number;
    if (!value.outer.defined() || type_of(value.outer).shape.rank() > 0)
      fail(attention, loc_, "a score_mod or mask_mod computes with numbers: this is ", to_string(type_of(given)),
           " in one; read its elements, as in bias[h][q - k + n]");
    return constant_or_captured(value.outer);
  }
  Tensor constant_or_captured(const Tensor& outer) {
    const Node& node = *outer.node();
    if (node.op != Op::constant || node.attributes<Constant>().is_size()) return captured(outer);
    return build_.make(Op::constant, {}, node.attributes(), {node.type.dtype, node.type.weak, {}, {}});
  }
  Tensor size(Dim dim) {
    return constant_or_captured(coerce(dim_value(dim, loc_), DType::i64, false, {}, sizes_.device, loc_));
  }
  // An input for it: one for a value.
  Tensor captured(const Tensor& outer) {
    const auto [found, added] = input_of_.try_emplace(outer.word());
    if (!added) return found->second;
    Type type = type_of(outer);
    type.device = {};
    if (type.shape.rank() > 0) type.shape = Shape::of(Dim(1));
    captured_.push_back(outer);
    inputs_.push_back(build_.input(inputs_.size(), type));
    return found->second = inputs_.back();
  }

  static Shape without_first(const Shape& shape) {
    Shape rest;
    for (int axis = 1; axis < shape.rank(); ++axis) rest.push_back(shape[axis]);
    return rest;
  }
  Loc place_of_node(const Node& node) const { return node.loc.file ? node.loc : loc_; }
  [[noreturn]] void refuse(const Node& node) const {
    fail(attention, place_of_node(node), info(node.op).name,
         " has no meaning for the numbers that a score_mod or mask_mod gets: it may use functions that work element "
         "by element, and read elements of what it captures, as in bias[h][q - k + n]");
  }

  const Graph& body_;
  const PairSizes& sizes_;
  const Loc loc_;
  const Builder build_{{}, 0, 0};
  std::vector<Value> values_;  // by node of the body
  std::vector<Tensor> inputs_, captured_;
  std::map<std::uint64_t, Tensor> input_of_;  // by the captured value's handle
};

Tensor checked(const char* name, const Tensor& given, bool is_mask, Loc loc) {
  if (!given.defined()) fail(attention, loc, "the ", name, " gives an undefined tensor");
  const Tensor value = resolve(At(given, loc), attention);
  const Type& type = type_of(value);
  if (type.shape.rank() != 0 || (is_mask ? type.dtype != DType::boolean : type.dtype == DType::boolean))
    fail(attention, loc, "the ", name, " must give ", is_mask ? "a bool" : "a number", " of no axes, it gives ",
         to_string(type));
  return value;
}

}  // namespace

RecordedMods record_mods(const detail::PairFunction& score, const detail::PairFunction& mask, const PairSizes& sizes,
                         Loc loc) {
  LoopBody scope({loc, attention, recorder().scope}, loc);
  std::vector<Tensor> inputs{scope.input({sizes.score, false, sizes.device, {}})}, outputs;
  while (inputs.size() < pair_inputs) inputs.push_back(scope.input({DType::i32, false, sizes.device, {}}));
  if (score.defined()) outputs.push_back(cast(checked("score_mod", score(inputs.data()), false, loc), sizes.score));
  if (mask.defined()) outputs.push_back(checked("mask_mod", mask(inputs.data() + 1), true, loc));
  scope.close();
  if (!scope.generators().empty()) fail(attention, loc, "a score_mod or mask_mod draws random numbers");
  std::vector<Tensor> outside(pair_inputs);
  scope.append_captured(outside, inputs);
  const std::shared_ptr<const Graph> body = scope.take(std::move(inputs), std::move(outputs));
  for (const Tensor& effect : body->effects)
    if (effect.node()->op != Op::check)
      fail(attention, loc, "a score_mod or mask_mod prints, or calls the host: it computes a number");
  // Checks of indices are left out: what is read is in range, by NumbersOnly.
  const Graph values = with_calls_inlined(make_graph(body->inputs, body->outputs, {}),
                                          [](const Node& node) { return node.op == Op::call; });
  return NumbersOnly(values, outside, sizes, loc).take();
}

// ---- all pairs ------------------------------------------------------------------------------------------------------

namespace {

// Of a pair's place, for all scores of this shape: i32, of sizes that broadcast to it.
Tensor places(PairInput of, const Type& scores) {
  const Shape& shape = scores.shape;
  const int rank = shape.rank();
  const auto along = [&](int axis) {
    Shape own;
    for (int i = axis; i < rank; ++i) own.push_back(i == axis ? shape[axis] : Dim(1));
    return cast(reshape_to(positions(0, Shape::of(shape[axis]), scores.device, {}), own, {}), DType::i32);
  };
  const int axis = rank - 6 + static_cast<int>(of) + 1;
  if (of != PairInput::batch && axis >= 0) return along(axis);
  Tensor batch;
  for (int i = 0; of == PairInput::batch && i + 3 < rank; ++i)
    batch = batch.defined() ? batch * dim_value(shape[i], {}) + along(i) : along(i);
  if (batch.defined()) return cast(batch, DType::i32);
  return constant_like(0, {DType::i32, false, scores.device, {}}, {});
}

}  // namespace

PairValues apply_mods(InternedText text, const Tensor& scores, std::span<const Tensor> captured, Tensor sees) {
  const AttentionMods mods = attention_mods(text);
  const std::vector<Tensor>& nodes = mods.graph.nodes;
  std::vector<Tensor> values(nodes.size());
  std::vector<bool> is_masked(nodes.size());
  const auto of = [&](const Tensor& value) -> const Tensor& { return values[mods.graph.number(value)]; };
  const auto compute = [&](const Node& node) -> Tensor {
    switch (node.op) {
      case Op::input: {
        const auto slot = static_cast<std::size_t>(node.attributes<Parameter>().slot);
        if (slot == 0) return scores;
        return slot < pair_inputs ? places(static_cast<PairInput>(slot), type_of(scores))
                                  : captured[slot - pair_inputs];
      }
      case Op::constant: return record(Op::constant, {}, node.attributes(), node.type, {});
      case Op::cast:
      case Op::bitcast: return record(node.op, {of(node.input(0))}, {}, {node.type.dtype, node.type.weak, {}, {}}, {});
      case Op::gather: return record(Op::gather, {of(node.input(0)), of(node.input(1))}, {}, {}, {});
      case Op::stop_gradient: return record(Op::stop_gradient, {of(node.input(0))}, {}, {}, {});
      default: break;
    }
    std::vector<At> operands;
    for (const Tensor& operand : node.inputs()) operands.emplace_back(of(operand), Loc{});
    return pointwise(node.op, operands);
  };
  // What `output` reads. Where `sees` is defined, floats that come in are 0 at pairs that are hidden.
  const auto run = [&](const Tensor& output) {
    std::vector<bool> wanted(nodes.size());
    wanted[mods.graph.number(output)] = true;
    for (std::size_t i = nodes.size(); i-- > 0;)
      if (wanted[i])
        for (const Tensor& operand : nodes[i].node()->inputs()) wanted[mods.graph.number(operand)] = true;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (!wanted[i]) continue;
      const Node& node = *nodes[i].node();
      const bool masks = sees.defined() && is_floating(node.type.dtype) && node.type.shape.rank() == 0 &&
                         (node.op == Op::input || node.op == Op::gather);
      is_masked[i] = masks;
      for (const Tensor& operand : node.inputs()) is_masked[i] = is_masked[i] || is_masked[mods.graph.number(operand)];
      if (!values[i].defined() || (is_masked[i] && !masks)) values[i] = compute(node);
      if (masks) values[i] = where(sees, values[i], 0);
    }
    return of(output);
  };
  if (mods.sees.defined()) {
    const Tensor others = std::exchange(sees, Tensor()), own = run(mods.sees);
    sees = others.defined() ? others & own : own;
  }
  return {mods.score.defined() ? expand(run(mods.score), type_of(scores).shape) : scores, sees};
}

}  // namespace weft
