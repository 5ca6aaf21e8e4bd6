#include "random/program.hpp"

#include <algorithm>
#include <random>

#include "ir/table.hpp"
#include "record/record.hpp"
#include "weft/grad.hpp"

namespace weft::testing {
namespace {

using Random = std::mt19937_64;

std::int64_t pick(Random& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
}

bool small(const Program& program, const Shape& shape) {
  std::int64_t count = 1;
  for (Dim dim : shape) {
    if (!dim.is_constant()) return true;  // symbolic sizes were bounded when the program was made
    count *= dim.constant();
  }
  return count <= program.most_elements && shape.rank() <= 5;
}

At as_operand(const Program& program, const std::vector<Tensor>& values, int position) {
  if (position >= 0) return At(values[static_cast<std::size_t>(position) % values.size()]);
  return At(program.literals[static_cast<std::size_t>(-1 - position) % program.literals.size()]);
}

std::int64_t number(const Instruction& step, std::size_t i) { return step.numbers[i % step.numbers.size()]; }
int axis_of(const Instruction& step, const Shape& shape) {
  return static_cast<int>(number(step, 0) % std::max(shape.rank(), 1));
}

// Values on which a primitive is defined: conversions out of range, integer division by zero and the like are other
// tests' subject.
Tensor tamed(const Tensor& x) { return where(isfinite(x), clamp(x, -100, 100), 1); }

Tensor pointwise_step(const Program& program, const Instruction& step, const std::vector<Tensor>& values) {
  const OpInfo& row = info(step.op);
  std::vector<At> operands;
  std::vector<Tensor> kept;
  kept.reserve(5);
  for (int i = 0; i < row.arity; ++i) {
    At x = as_operand(program, values, step.operands[static_cast<std::size_t>(i)]);
    bool condition = row.dtypes == DTypeClass::select && i == 0;
    if (condition) {
      kept.push_back(x.tensor ? (x.tensor->dtype() == DType::boolean ? *x.tensor : *x.tensor > 0)
                              : (values[0] == values[0]));
    } else if (x.tensor && x.tensor->dtype() == DType::boolean && row.dtypes != DTypeClass::bits &&
               row.dtypes != DTypeClass::select && row.dtypes != DTypeClass::comparison) {
      kept.push_back(cast(*x.tensor, DType::i64));
    } else if (row.dtypes == DTypeClass::integers) {
      const bool fits = x.tensor && is_integer(x.tensor->dtype());
      kept.push_back(fits ? *x.tensor : cast(x.tensor ? *x.tensor == *x.tensor : values[0] == values[0], DType::i32));
    } else if (row.dtypes == DTypeClass::bits && x.tensor && is_floating(x.tensor->dtype())) {
      kept.push_back(*x.tensor > 0);
    } else if (row.dtypes == DTypeClass::bits && !x.tensor) {
      kept.push_back(values[0] == values[0]);
    } else if (row.dtypes == DTypeClass::predicate && x.tensor && !is_floating(x.tensor->dtype())) {
      kept.push_back(cast(*x.tensor, DType::f32));
    } else if (x.tensor) {
      kept.push_back(*x.tensor);
    } else {
      operands.push_back(x);
      continue;
    }
    operands.emplace_back(kept.back());
  }
  bool divides = step.op == Op::floor_divide || step.op == Op::remainder || step.op == Op::fmod;
  if (divides && operands[1].tensor) {
    Tensor d = *operands[1].tensor;
    kept.push_back(is_floating(d.dtype()) ? where(abs(d) < 0.125, 1, d) : (d | 1));
    operands[1] = At(kept.back());
  }
  if (step.op == Op::pow && operands[1].tensor) {
    kept.push_back(clamp(*operands[1].tensor, 0, 3));
    operands[1] = At(kept.back());
  }
  if (step.op == Op::polygamma) {
    kept.push_back(where(values[0] == 0, 2, 1));
    operands[0] = At(kept.back());
  }
  // All literals: one becomes a tensor, so that there is something to broadcast to.
  if (std::none_of(operands.begin(), operands.end(), [](const At& x) { return x.tensor; })) operands[0] = At(values[0]);
  return pointwise(step.op, operands);
}

Tensor structural_step(const Instruction& step, const std::vector<Tensor>& values, const Tensor& x) {
  const Shape shape = x.shape();
  int rank = shape.rank(), axis = axis_of(step, shape);
  switch (step.op) {
    case Op::constant:
      return full(Sizes(shape), static_cast<double>(number(step, 1) % 7) / 2,
                  {step.dtype == DType::boolean ? DType::f32 : step.dtype, x.device()});
    case Op::iota:
      return to(arange(number(step, 1) % 9 + 1, {is_floating(step.dtype) ? step.dtype : DType::i64}), x.device());
    case Op::data: {
      float numbers[] = {0.5f, -1.25f, 3.0f};
      return to(constant(std::span<const float>(numbers, 3), {3}), x.device());
    }
    case Op::cast: return cast(is_floating(x.dtype()) && !is_floating(step.dtype) ? tamed(x) : x, step.dtype);
    case Op::bitcast:
      // Whole numbers: the last bit of a rounded one, and the payload of a NaN, are nobody's promise.
      if (is_floating(x.dtype())) return bitcast(round(tamed(x)), x.dtype() == DType::f32 ? DType::i32 : DType::i64);
      if (x.dtype() == DType::i32) return bitcast(x & 0x3fff, DType::f32);
      return {};
    case Op::reshape: {
      if (rank == 0) return reshape(x, {1});
      if (rank >= 2 && axis + 1 < rank) return flatten(x, axis, axis + 1);
      if (number(step, 1) % 3 == 0) return unsqueeze(x, axis);
      for (std::int64_t part : {4, 3, 2}) {
        if (!shape[axis].is_constant() || shape[axis].constant() % part != 0 || rank == max_rank) continue;
        Shape to;
        for (int i = 0; i < rank; ++i) {
          if (i == axis)
            to.push_back(shape[i].constant() / part), to.push_back(part);
          else
            to.push_back(shape[i]);
        }
        return reshape(x, Sizes(to));
      }
      return {};
    }
    case Op::permute: {
      if (rank < 2) return {};
      Tensor swapped = transpose(x, axis, static_cast<int>(number(step, 1) % rank));
      // Two swaps of three axes make a rotation, which is not its own inverse.
      return rank > 2 && number(step, 2) % 2 ? transpose(swapped, (axis + 1) % rank, (axis + 2) % rank) : swapped;
    }
    case Op::expand: {
      // What a reduction left of the first input's shape gets that shape again.
      const Shape whole = values[0].shape();
      const auto fits = [&](int i) { return shape[i].same(whole[i]) || shape[i].same(Dim(1)); };
      if (number(step, 2) % 2 && rank == 2 && !shape.same(whole) && fits(0) && fits(1)) return expand(x, Sizes(whole));
      if (rank >= 4) return {};
      Shape to;
      to.push_back(number(step, 1) % 3 + 1);
      for (Dim dim : shape) to.push_back(dim);
      return expand(x, Sizes(to));
    }
    case Op::slice: {
      if (rank == 0) return {};
      std::int64_t step_size = number(step, 3) % 4 == 0 ? -1 - number(step, 1) % 2 : 1 + number(step, 1) % 3;
      if (step_size < 0) return slice(x, axis, slice_end, slice_end, step_size);
      return slice(x, axis, number(step, 2) % 3, slice_end, step_size);
    }
    case Op::concat: {
      if (rank == 0) return {};
      Tensor parts[] = {x, slice(x, axis, 0, 2), x};
      return concat(std::span<const Tensor>(parts, 2 + static_cast<std::size_t>(number(step, 1) % 2)), axis);
    }
    case Op::pad: return rank ? pad(x, axis, number(step, 1) % 3, number(step, 2) % 2, number(step, 3) % 2) : Tensor();
    case Op::sum:
    case Op::prod:
    case Op::amax:
    case Op::amin: {
      if (rank == 0) return {};
      Tensor from = x.dtype() == DType::boolean ? cast(x, DType::i64) : x;
      bool keep = number(step, 1) % 2;
      Axes axes = number(step, 2) % 4 == 0               ? Axes()
                  : number(step, 2) % 4 == 1 && rank > 1 ? Axes({0, rank - 1})
                                                         : Axes(axis);
      if (step.op == Op::prod)
        from = is_floating(from.dtype())
                   ? tanh(from) * 0.25 + 1
                   : clamp(from, integer_range(from.dtype()).least == 0 ? 0 : -2, 2);  // far from underflow
      return step.op == Op::sum    ? sum(from, axes, keep)
             : step.op == Op::prod ? prod(from, axes, keep)
             : step.op == Op::amax ? amax(from, axes, keep)
                                   : amin(from, axes, keep);
    }
    case Op::cumsum:
    case Op::cumprod:
    case Op::cummax:
    case Op::cummin:
    case Op::logcumsumexp: {
      if (rank == 0) return {};
      if (step.op == Op::cumsum) return cumsum(is_floating(x.dtype()) ? tamed(x) : x, axis);
      if (step.op == Op::logcumsumexp) return is_floating(x.dtype()) ? logcumsumexp(tamed(x), axis) : Tensor();
      if (step.op == Op::cumprod)
        return cumprod(is_floating(x.dtype()) ? tanh(x) * 0.25 + 1
                       : x.dtype() == DType::boolean
                           ? x
                           : clamp(x, integer_range(x.dtype()).least == 0 ? 0 : -2, 2),  // far from underflow
                       axis);
      const auto [values, indices] = step.op == Op::cummax ? cummax(x, axis) : cummin(x, axis);
      return number(step, 1) % 3 ? values : indices;
    }
    case Op::argmax: return rank ? argmax(x, axis, number(step, 1) % 2 != 0) : Tensor();
    case Op::matmul: {
      if (rank < 2 || x.dtype() == DType::boolean || x.dtype() == DType::u8) return {};
      return number(step, 1) % 2 ? matmul(x, transpose(x)) : matmul(transpose(x), x);
    }
    case Op::windows: {
      const Windows windows{number(step, 1) % 3 + 1, number(step, 2) % 3 + 1, number(step, 3) % 2 + 1,
                            static_cast<std::uint8_t>(axis)};
      if (rank == 0 || rank > 4 || shape[axis] <= Dim(windows.dilation * (windows.size - 1))) return {};
      return record(Op::windows, {x}, windows, {}, {});
    }
    case Op::convolution: {  // of rows as channels, or as groups of one, with a part of itself. Padding times what is
                             // not finite is nobody's promise: there is none
      if (rank != 2 || !is_floating(x.dtype()) || !(shape[0] >= Dim(1)) || !(shape[1] >= Dim(2))) return {};
      const bool grouped = number(step, 2) % 2 && shape[0].is_constant();
      Convolution c;
      c.strides.push_back(number(step, 1) % 3 + 1), c.dilation.push_back(number(step, 3) % 2 + 1);
      c.low.push_back(0), c.high.push_back(0);
      if (grouped) c.groups = shape[0].constant();
      const Tensor part = tanh(slice(tamed(x), 1, 0, 2)), weight = unsqueeze(part, grouped ? 1 : 0);
      return squeeze(record(Op::convolution, {unsqueeze(x, 0), weight}, c, {}, {}), 0);
    }
    case Op::gather: {
      if (rank == 0 || shape[0].same(Dim(0))) return {};
      const Tensor& other =
          values[static_cast<std::size_t>(step.operands[1] < 0 ? 0 : step.operands[1]) % values.size()];
      Tensor index = other.dtype() == DType::boolean ? cast(other, DType::i64)
                     : is_floating(other.dtype())    ? cast(floor(tamed(other)), DType::i64)
                                                     : cast(other, DType::i64);
      if (other.rank() + rank - 1 > 4) return {};
      return gather(x, remainder(index, dim_value(shape[0], {})));
    }
    case Op::random_bits: {
      Tensor seed = full({}, static_cast<double>(number(step, 1)), {DType::i64});
      Tensor offset = full({}, static_cast<double>(number(step, 2)), {DType::i64});
      return record(Op::random_bits, {seed, offset}, {}, Type{DType::i64, false, {}, shape}, {});
    }
    case Op::stop_gradient: return stop_gradient(x);
    case Op::variable: return record(Op::variable, {x}, {}, {}, {});
    case Op::all_reduce_start:
    case Op::all_reduce_wait: {
      const Collective group{{intern_text("data")}};
      return record(Op::all_reduce_wait, {record(Op::all_reduce_start, {x}, group, {}, {})}, group, {}, {});
    }
    case Op::broadcast:
    case Op::reduce_to_root: return record(step.op, {x}, RootedCollective{{intern_text("data")}}, {}, {});
    case Op::all_gather:
    case Op::reduce_scatter: return rank ? record(step.op, {x}, Collective{{intern_text("data")}}, {}, {}) : Tensor();
    default: return {};
  }
}

// Makes the new value, or nothing where the instruction does not apply to what it finds.
Tensor apply(const Program& program, const Instruction& step, const std::vector<Tensor>& values) {
  Tensor result;
  if (info(step.op).kind == OpKind::pointwise)
    result = pointwise_step(program, step, values);
  else
    result =
        structural_step(step, values, values[static_cast<std::size_t>(std::max(step.operands[0], 0)) % values.size()]);
  return result;
}

constexpr DType dtypes[] = {DType::f32, DType::f32, DType::f32, DType::f32, DType::f64, DType::i64,    DType::i32,
                            DType::u32, DType::i16, DType::u16, DType::i8,  DType::u8,  DType::boolean};

}  // namespace

bool is_drawn(Op op) {
  switch (info(op).kind) {
    case OpKind::region:
    case OpKind::effect:
    case OpKind::factorization: return false;
    case OpKind::convolution: return op == Op::convolution;
    default: return op != Op::input && !is_scatter(op) && op != Op::update_slice && op != Op::update_rows;
  }
}

namespace {

Op random_op(Random& random) {
  // Half pointwise, the rest shared by everything else that a program can say.
  while (true) {
    auto op = static_cast<Op>(random() % op_count);
    if (is_drawn(op) && (info(op).kind != OpKind::pointwise) == (random() % 2 == 0)) return op;
  }
}

// In some programs every fourth instruction or so begins a chain: a reduction or a scan, its expansion, and a reduction
// of that. Between the chains are other instructions; some values of both are returned although others read them.
class Chains {
 public:
  // Makes the step part of a chain, or leaves it as it is. Returns whether its value is returned.
  bool next(Instruction& step, int position, Random& random) {
    constexpr Op walks[] = {Op::sum, Op::sum, Op::sum, Op::amax, Op::prod, Op::argmax, Op::cumsum, Op::cummax};
    if (left_ == 0 && random() % 4 == 0) left_ = 3;
    if (left_ == 0) return random() % 6 == 0;
    step.op = left_ == 2 ? Op::expand : walks[random() % std::size(walks)];
    if (left_ < 3) step.operands[0] = position - 1;
    step.numbers[left_ == 2 ? 2 : 1] = 1;  // expanded to the first input's shape; axes are kept
    --left_;
    return random() % 2 == 0;
  }

 private:
  int left_ = 0;  // instructions of the chain
};

// Whether an instruction fits what the program has so far: decided by replaying it on types alone, inside a trace.
struct Rehearsal {
  Trace trace;
  std::vector<Tensor> values;
  Rehearsal() { trace.id = new_trace_id(); }
};

}  // namespace

namespace {

Program draw_program(std::uint64_t seed, int instructions, bool large) {
  Random random(seed);
  Program program;
  program.seed = seed;
  program.gradient = random() % 5 < 2;
  program.state = random() % 5 < 2;
  std::int64_t rows = pick(random, 1, 9), columns = pick(random, 1, 20);
  if (large) {
    constexpr std::int64_t sizes[] = {1, 2, 3, 7, 33, 64, 65, 129, 257, 1000, 70000};
    program.most_elements = 400'000'000;
    rows = sizes[random() % std::size(sizes)], columns = sizes[random() % std::size(sizes)];
  }
  program.inputs.push_back({DType::f32, {rows, columns}});
  int count = static_cast<int>(pick(random, 1, 3));
  for (int i = 0; i < count; ++i) {
    ProgramInput input{dtypes[random() % std::size(dtypes)], {}};
    switch (random() % 5) {
      case 0: input.sizes = {columns}; break;
      case 1: input.sizes = {rows, 1}; break;
      case 2: input.sizes = {}; break;
      case 3: input.sizes = {pick(random, 0, 3), rows, columns}; break;
      default: input.sizes = {rows, columns};
    }
    program.inputs.push_back(std::move(input));
  }
  for (int i = 0; i < 4; ++i) program.literals.push_back(static_cast<double>(pick(random, -12, 12)) / 4);

  Rehearsal rehearsal;
  TraceScope scope(rehearsal.trace);
  for (const ProgramInput& input : program.inputs) {
    Shape shape;
    for (std::int64_t size : input.sizes) shape.push_back(size);
    rehearsal.values.push_back(record(Op::input, {}, Parameter{}, Type{input.dtype, false, {}, shape}, {}));
  }
  const bool has_chains = seed % 3 == 0;
  Chains chains;
  for (int attempts = 0; static_cast<int>(program.instructions.size()) < instructions && attempts < instructions * 20;
       ++attempts) {
    Instruction step{random_op(random), {}, {}, dtypes[random() % std::size(dtypes)]};
    for (int i = 0; i < 3; ++i) {
      // Recent values more often than old ones, so that chains form.
      auto have = static_cast<std::int64_t>(rehearsal.values.size());
      std::int64_t position = random() % 3
                                  ? std::max<std::int64_t>(have - 1 - static_cast<std::int64_t>(random() % 4), 0)
                                  : pick(random, 0, have - 1);
      step.operands.push_back(i > 0 && random() % 4 == 0 ? -1 - static_cast<int>(random() % 4)
                                                         : static_cast<int>(position));
    }
    for (int i = 0; i < 4; ++i) step.numbers.push_back(pick(random, 0, 11));
    const auto position = static_cast<int>(rehearsal.values.size());
    const bool is_returned = has_chains && chains.next(step, position, random);
    try {
      Tensor value = apply(program, step, rehearsal.values);
      if (!value.defined() || !small(program, value.shape())) continue;
      rehearsal.values.push_back(value);
      if (is_returned) program.returned.push_back(position);
      program.instructions.push_back(std::move(step));
    } catch (const Error&) {
      // Shapes that do not broadcast, dtypes without the operation, reductions over nothing: not a program.
    }
  }
  return program;
}

}  // namespace

Program make_program(std::uint64_t seed, int instructions) { return draw_program(seed, instructions, false); }
Program make_large_program(std::uint64_t seed, int instructions) { return draw_program(seed, instructions, true); }

namespace {

// All values in order: inputs, then one an instruction. An instruction that no longer applies gives its operand.
std::vector<Tensor> run(const Program& program, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> values = inputs;
  for (const Instruction& step : program.instructions) {
    Tensor value;
    try {
      value = apply(program, step, values);
    } catch (const Error&) {
    }
    values.push_back(value.defined() && small(program, value.shape())
                         ? value
                         : values[static_cast<std::size_t>(std::max(step.operands[0], 0)) % values.size()]);
  }
  return values;
}

// What nobody reads, and what is returned besides.
std::vector<Tensor> results_of(const Program& program, const std::vector<Tensor>& values) {
  std::vector<bool> read(values.size(), false);
  for (std::size_t i = 0; i < program.instructions.size(); ++i)
    for (int position : program.instructions[i].operands)
      if (position >= 0) read[static_cast<std::size_t>(position) % (program.inputs.size() + i)] = true;
  std::vector<Tensor> results;
  for (std::size_t i = program.inputs.size(); i < values.size(); ++i)
    if (!read[i] || std::binary_search(program.returned.begin(), program.returned.end(), static_cast<int>(i)))
      results.push_back(values[i]);
  if (results.empty()) results.push_back(values.back());
  return results;
}

Tensor loss_of(const std::vector<Tensor>& results) {
  Tensor loss;
  for (const Tensor& result : results) {
    if (!is_floating(result.dtype()) || result.element_count().same(Dim(0))) continue;
    Tensor part = mean(cast(tanh(result), DType::f32));
    loss = loss.defined() ? loss + part : part;
  }
  return loss;
}

}  // namespace

std::vector<Tensor> replay(const Program& program, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> results = results_of(program, run(program, inputs));
  if (program.gradient) {
    auto f = [&](const Tensor& x) {
      std::vector<Tensor> places = inputs;
      places[0] = x;
      // The place always counts a little, so that a program whose results do not depend on it still has a gradient.
      Tensor base = mean(x) * 0.125, loss = loss_of(results_of(program, run(program, places)));
      return loss.defined() ? loss + base : base;
    };
    if (!inputs[0].element_count().same(Dim(0))) {
      auto [loss, gradient] = value_and_grad(f, inputs[0]);
      results.push_back(loss);
      results.push_back(gradient);
    }
  }
  if (program.state) results.push_back(inputs[0] * 0.5 + where(isfinite(inputs[0]), 0.25, 0));
  return results;
}

Program without(const Program& program, std::size_t position) {
  Program shorter = program;
  int removed = static_cast<int>(program.inputs.size() + position);
  int stand_in = std::max(program.instructions[position].operands[0], 0) % removed;
  shorter.instructions.erase(shorter.instructions.begin() + static_cast<std::ptrdiff_t>(position));
  for (std::size_t i = position; i < shorter.instructions.size(); ++i)
    for (int& reads : shorter.instructions[i].operands) {
      if (reads == removed)
        reads = stand_in;
      else if (reads > removed)
        --reads;
    }
  std::erase(shorter.returned, removed);
  for (int& returned : shorter.returned) returned -= returned > removed;
  return shorter;
}

std::string to_text(const Program& program) {
  std::string text = "program of seed " + std::to_string(program.seed) + (program.gradient ? ", gradient" : "") +
                     (program.state ? ", state" : "") + "\n";
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    text += "  v" + std::to_string(i) + " = input " + info(program.inputs[i].dtype).name + "[";
    for (std::size_t d = 0; d < program.inputs[i].sizes.size(); ++d)
      text += (d ? "," : "") + std::to_string(program.inputs[i].sizes[d]);
    text += "]\n";
  }
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& step = program.instructions[i];
    text += "  v" + std::to_string(program.inputs.size() + i) + " = " + info(step.op).name + "(";
    for (std::size_t k = 0; k < step.operands.size(); ++k)
      text += (k ? ", " : "") +
              (step.operands[k] >= 0
                   ? "v" + std::to_string(step.operands[k])
                   : std::to_string(program.literals[static_cast<std::size_t>(-1 - step.operands[k]) % 4]));
    text += ";";
    for (std::int64_t n : step.numbers) text += " " + std::to_string(n);
    text += std::string(" ") + info(step.dtype).name + ")\n";
  }
  if (!program.returned.empty()) text += "  also returned:";
  for (const int position : program.returned) text += " v" + std::to_string(position);
  if (!program.returned.empty()) text += "\n";
  return text;
}

}  // namespace weft::testing
