// Operators with graphs of their own, and recurrent layers, which are scans.
#include <algorithm>
#include <cmath>

#include "onnx/call.hpp"
#include "record/record.hpp"
#include "weft/loops.hpp"

namespace weft::onnx {
namespace {

using Integers = std::vector<std::int64_t>;
using Tensors = std::vector<Tensor>;

Tensors tensors_of(const NodeCall& c, std::vector<Value> values) {
  Tensors made;
  for (Value& each : values) made.push_back(each.tensor(c.device(), c.loc()));
  return made;
}
std::vector<Value> values_of(const Tensors& tensors) { return {tensors.begin(), tensors.end()}; }

void if_of(NodeCall& c) {
  const Value& condition = c.value(0);
  if (condition.host() && condition.host()->integers.size() == 1 && !condition.host()->symbolic()) {
    for (Value& each : c.run(condition.host()->integers[0].constant() ? "then_branch" : "else_branch", {}))
      c.give(std::move(each));
    return;
  }
  const Tensor predicate = reshape(c.tensor(), std::vector<Dim>());
  if (!recorder().trace()) {
    for (Value& each : c.run(predicate.item<bool>() ? "then_branch" : "else_branch", {})) c.give(std::move(each));
    return;
  }
  const auto branch = [&](const char* name) { return [&c, name] { return tensors_of(c, c.run(name, {})); }; };
  try {
    for (const Tensor& each : cond(predicate, branch("then_branch"), branch("else_branch"))) c.give(each);
  } catch (const Error&) {  // branches that give other types: a decision, where the trace can make one
    if (!recorder().trace()->decider) throw;
    for (Value& each : c.run(predicate.item<bool>() ? "then_branch" : "else_branch", {})) c.give(std::move(each));
  }
}

// Whether the condition that the body of a loop gives is true whenever the one that it gets is.
bool always_goes_on(const GraphData& body) {
  if (body.outputs.empty() || body.inputs.size() < 2) return false;
  std::string name = body.outputs[0].name;
  for (std::size_t i = body.nodes.size(); i-- > 0;) {
    const NodeData& node = body.nodes[i];
    if (std::ranges::find(node.outputs, name) == node.outputs.end()) continue;
    if (node.operation == "Identity" || node.operation == "Cast") {
      name = node.inputs.at(0);
      continue;
    }
    const AttributeData* const value = node.operation == "Constant" ? node.find("value") : nullptr;
    return value && value->tensor && value->tensor->type == 9 && value->tensor->count() == 1 &&
           value->tensor->elements()[0];
  }
  for (const TensorData& each : body.initializers)
    if (each.name == name) return each.type == 9 && each.count() == 1 && each.elements()[0];
  return name == body.inputs[1].name;
}
void loop_of(NodeCall& c) {
  const GraphData& body = c.graph("body");
  const std::size_t carried = c.count() - std::min<std::size_t>(c.count(), 2);
  if (body.outputs.size() < carried + 1) c.refuse("its body gives too few outputs");
  const std::size_t stacked = body.outputs.size() - 1 - carried;
  const bool goes_on = always_goes_on(body);
  bool begins = true;  // the condition before the first iteration, where that is known
  const bool asks = c.has(std::size_t{1});
  const KnownElements* const first = asks ? c.value(1).host() : nullptr;
  if (first && first->integers.size() == 1 && !first->symbolic()) begins = first->integers[0].constant() != 0;
  const bool begins_known = !asks || first;
  Tensors state;
  for (std::size_t i = 0; i < carried; ++i) state.push_back(c.tensor(i + 2));

  const KnownElements* const limit = c.has(std::size_t{0}) ? c.value(0).host() : nullptr;
  if (recorder().trace() && goes_on && begins_known && begins && limit && limit->integers.size() == 1 &&
      !limit->symbolic() && limit->integers[0].constant() < std::int64_t{1} << 40) {
    const auto step = [&](Tensors carries, const Tensor& i) {
      std::vector<Value> inputs{i, KnownElements{DType::boolean, {}, {Dim(1)}}};
      for (const Tensor& each : carries) inputs.push_back(each);
      Tensors all = tensors_of(c, c.run("body", std::move(inputs)));
      const auto end = all.begin() + 1 + static_cast<std::ptrdiff_t>(carried);
      return std::pair(Tensors(all.begin() + 1, end), Tensors(end, all.end()));
    };
    const auto [last, rows] = scan(step, state, arange(std::max(limit->integers[0], Dim(0)), {DType::i64, c.device()}));
    for (const Tensor& each : last) c.give(each);
    for (const Tensor& each : rows) c.give(each);
    return;
  }
  if (recorder().trace() && stacked == 0) {
    Tensors all{full({}, 0, {DType::i64, c.device()}),
                asks ? cast(reshape(c.tensor(1), std::vector<Dim>()), DType::boolean)
                     : full({}, 1, {DType::boolean, c.device()})};
    all.insert(all.end(), state.begin(), state.end());
    const Tensor most = c.has(std::size_t{0}) ? reshape(c.tensor(0), std::vector<Dim>()) : Tensor();
    const Tensors last =
        while_loop([&](const Tensors& s) { return most.defined() ? s[1] & (s[0] < most) : s[1] & true; },
                   [&](Tensors s) {
                     Tensors next = tensors_of(c, c.run("body", values_of(s)));
                     next[0] = reshape(next[0], std::vector<Dim>());
                     next.insert(next.begin(), s[0] + 1);
                     return next;
                   },
                   all);
    for (std::size_t i = 2; i < last.size(); ++i) c.give(last[i]);
    return;
  }
  // One iteration after the other; in a compiled function each condition is a decision.
  const std::int64_t most = c.has(std::size_t{0}) ? c.integer_at(0) : std::numeric_limits<std::int64_t>::max();
  bool on = !asks || c.integer_at(1);
  std::vector<Tensors> rows(stacked);
  for (std::int64_t i = 0; i < most && on; ++i) {
    std::vector<Value> inputs{KnownElements{DType::i64, {}, {Dim(i)}}, KnownElements{DType::boolean, {}, {Dim(1)}}};
    for (const Tensor& each : state) inputs.push_back(each);
    std::vector<Value> all = c.run("body", std::move(inputs));
    if (!goes_on) on = all[0].tensor(c.device(), c.loc()).item<bool>();
    const Tensors tensors = tensors_of(c, std::move(all));
    for (std::size_t k = 0; k < carried; ++k) state[k] = tensors[k + 1];
    for (std::size_t k = 0; k < stacked; ++k) rows[k].push_back(tensors[k + 1 + carried]);
  }
  for (const Tensor& each : state) c.give(each);
  for (std::size_t k = 0; k < stacked; ++k) {
    if (rows[k].empty()) {  // of no iterations: no rows, of the sizes that the file says
      const ValueData& port = body.outputs[k + 1 + carried];
      if (!has_dtype(port.type)) c.refuse("gives nothing, of an unknown type");
      std::vector<Dim> sizes{0};
      for (const AxisData& axis : port.axes) sizes.push_back(std::max<std::int64_t>(axis.size, 0));
      c.give(zeros(sizes, {dtype_of_element(port.type), c.device()}));
    } else {
      c.give(stack(rows[k], 0));
    }
  }
}

void scan_of(NodeCall& c) {
  const auto scanned = static_cast<std::size_t>(c.integer("num_scan_inputs", 1));
  if (scanned > c.count()) c.refuse("has fewer inputs than num_scan_inputs says");
  const std::size_t carried = c.count() - scanned;
  if (c.graph("body").outputs.size() < carried) c.refuse("its body gives too few outputs");
  const Integers from = c.integers(std::string_view("scan_input_directions"), Integers(scanned, 0));
  const Integers axes = c.integers(std::string_view("scan_input_axes"), Integers(scanned, 0));
  Tensors state, xs;
  for (std::size_t i = 0; i < carried; ++i) state.push_back(c.tensor(i));
  for (std::size_t i = 0; i < scanned; ++i) {
    Tensor x = c.tensor(carried + i);
    const int axis = c.checked_axis(axes.at(i), x.rank());
    if (axis != 0) x = movedim(x, axis, 0);
    xs.push_back(from.at(i) ? flip(x, 0) : x);
  }
  const auto step = [&](Tensors carries, const Tensors& rows) {
    std::vector<Value> inputs = values_of(carries);
    for (const Tensor& each : rows) inputs.push_back(each);
    Tensors all = tensors_of(c, c.run("body", std::move(inputs)));
    const auto end = all.begin() + static_cast<std::ptrdiff_t>(carried);
    return std::pair(Tensors(all.begin(), end), Tensors(end, all.end()));
  };
  const auto [last, rows] = scan(step, state, xs);
  const Integers to = c.integers(std::string_view("scan_output_directions"), Integers(rows.size(), 0));
  const Integers places = c.integers(std::string_view("scan_output_axes"), Integers(rows.size(), 0));
  for (const Tensor& each : last) c.give(each);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Tensor y = to.at(i) ? flip(rows[i], 0) : rows[i];
    const int axis = c.checked_axis(places.at(i), y.rank());
    c.give(axis == 0 ? y : movedim(y, 0, axis));
  }
}

// ---- recurrent layers -----------------------------------------------------------------------------------------------

struct Activation {
  std::string name;
  double alpha, beta;
  Tensor operator()(const Tensor& x) const {
    if (name == "Sigmoid") return sigmoid(x);
    if (name == "Tanh") return tanh(x);
    if (name == "Relu") return relu(x);
    if (name == "Affine") return x * alpha + beta;
    if (name == "LeakyRelu") return leaky_relu(x, alpha);
    if (name == "ThresholdedRelu") return threshold(x, alpha, 0);
    if (name == "ScaledTanh") return tanh(x * beta) * alpha;
    if (name == "HardSigmoid") return clamp(x * alpha + beta, 0, 1);
    if (name == "Elu") return elu(x, alpha);
    if (name == "Softsign") return softsign(x);
    return softplus(x, 1, 1e4);
  }
};
struct DefaultActivation {
  const char* name;
  double alpha, beta;
};
constexpr DefaultActivation activation_rows[] = {
    {"Sigmoid", 0, 0},      {"Tanh", 0, 0},
    {"Relu", 0, 0},         {"Affine", 1, 0},
    {"LeakyRelu", 0.01, 0}, {"ThresholdedRelu", 1, 0},
    {"ScaledTanh", 1, 1},   {"HardSigmoid", 0.2, 0.5},
    {"Elu", 1, 0},          {"Softsign", 0, 0},
    {"Softplus", 0, 0},
};
std::vector<Activation> activations_of(const NodeCall& c, std::vector<std::string> names, std::size_t directions) {
  const std::size_t each = names.size();
  if (const AttributeData* const given = c.node().find("activations"); given && !given->texts.empty())
    names = given->texts;
  else
    for (std::size_t i = each; i < each * directions; ++i) names.push_back(std::string(names[i - each]));
  if (names.size() != each * directions) c.refuse("wants ", each * directions, " activations, and has ", names.size());
  const std::vector<double> alphas = c.numbers(std::string_view("activation_alpha")),
                            betas = c.numbers(std::string_view("activation_beta"));
  std::vector<Activation> made;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto row =
        std::ranges::find_if(activation_rows, [&](const DefaultActivation& r) { return r.name == names[i]; });
    if (row == std::end(activation_rows)) c.refuse("the activation ", names[i], " is not known");
    made.push_back({names[i], i < alphas.size() ? alphas[i] : row->alpha, i < betas.size() ? betas[i] : row->beta});
  }
  return made;
}

// What the three layers share: `gates` of each, a step from the sums of a time step's inputs, and the state.
struct Recurrence {
  std::int64_t gates;
  std::vector<std::string> activations;
  bool cells;  // LSTM: a second state
};
template <class Step>
void recurrent(NodeCall& c, const Recurrence& kind, Step step) {
  Tensor x = c.tensor(0);
  const bool batch_first = c.integer("layout", 0);
  if (batch_first) x = transpose(x, 0, 1);
  const Tensor w = c.tensor(1), r = c.tensor(2), b = c.optional(3), lengths = c.optional(4);
  const auto directions = static_cast<std::size_t>(static_cast<std::int64_t>(w.size(0)));
  const Dim hidden = r.size(2), batch = x.size(1);
  const std::string direction = c.text("direction", "forward");
  const auto activations = activations_of(c, kind.activations, directions);
  const auto initial = [&](std::size_t input, std::size_t at) {
    if (!c.has(input)) return zeros({batch, hidden}, {x.dtype(), x.device()});
    const Tensor all = batch_first ? transpose(c.tensor(input), 0, 1) : c.tensor(input);
    return select(all, 0, static_cast<std::int64_t>(at));
  };
  const Tensor times = arange(x.size(0), {DType::i64, x.device()});
  Tensors all, last_h, last_c;
  for (std::size_t at = 0; at < directions; ++at) {
    const bool reverse = direction == "reverse" || at == 1;
    const auto part = [&](const Tensor& of) { return select(of, 0, static_cast<std::int64_t>(at)); };
    // Each sequence the other way round: its own steps alone.
    const auto turned = [&](const Tensor& of) {
      if (!reverse) return of;
      if (!lengths.defined()) return flip(of, 0);
      const Tensor rows = reshape(times, {-1, 1}), count = cast(reshape(lengths, {1, -1}), DType::i64);
      return gather(of, 0, expand(unsqueeze(where(rows < count, count - 1 - rows, rows), 2), of.shape()));
    };
    Tensor inputs = matmul(turned(x), transpose(part(w)));
    Tensor own_bias;
    if (b.defined()) {
      const Tensor both = part(b);
      const Dim count = Dim(kind.gates) * hidden;
      inputs = inputs + slice(both, 0, 0, count);
      own_bias = slice(both, 0, count);
    }
    const Tensor weights = part(r), peepholes = c.has(std::size_t{7}) ? part(c.tensor(7)) : Tensor();
    Tensors state{initial(5, at)};
    if (kind.cells) state.push_back(initial(6, at));
    const std::span<const Activation> own(activations.data() + at * kind.activations.size(), kind.activations.size());
    const auto body = [&](Tensors before, const Tensors& row) {
      Tensors after = step(c, row[0], before, weights, own_bias, peepholes, own);
      Tensor y = after[0];
      if (lengths.defined()) {
        const Tensor runs = unsqueeze(row[1] < cast(lengths, DType::i64), 1);
        for (std::size_t i = 0; i < after.size(); ++i) after[i] = where(runs, after[i], before[i]);
        y = where(runs, y, zeros_like(y));
      }
      return std::pair(after, y);
    };
    const auto [last, ys] = scan(body, state, Tensors{inputs, times});
    all.push_back(turned(ys));
    last_h.push_back(last[0]);
    if (kind.cells) last_c.push_back(last[1]);
  }
  // [steps, directions, batch, hidden], or the batch first.
  const Tensor y = stack(all, 1);
  c.give(batch_first ? permute(y, {2, 0, 1, 3}) : y);
  const auto stacked = [&](const Tensors& each) { return stack(each, batch_first ? 1 : 0); };
  c.give(stacked(last_h));
  if (kind.cells) c.give(stacked(last_c));
}
Tensor gate(const Tensor& sums, int i, int count) {
  const Dim size = sums.size(-1) / Dim(count);
  return slice(sums, -1, size * Dim(i), size * Dim(i + 1));
}
Tensor clipped(const NodeCall& c, const Tensor& x) {
  const double most = c.number("clip", 0);
  return most > 0 ? clamp(x, -most, most) : x;
}
using Own = std::span<const Activation>;
void rnn(NodeCall& c) {
  recurrent(c, {1, {"Tanh"}, false},
            [](const NodeCall& call, const Tensor& in, const Tensors& s, const Tensor& r, const Tensor& b,
               const Tensor&, Own f) {
              Tensor sums = in + matmul(s[0], transpose(r));
              if (b.defined()) sums = sums + b;
              return Tensors{f[0](clipped(call, sums))};
            });
}
void gru(NodeCall& c) {
  const bool after = c.integer("linear_before_reset", 0);
  recurrent(c, {3, {"Sigmoid", "Tanh"}, false},
            [after](const NodeCall& call, const Tensor& in, const Tensors& s, const Tensor& r, const Tensor& b,
                    const Tensor&, Own f) {
              const Tensor& h = s[0];
              const Tensor rt = transpose(r);
              const Dim size = h.size(-1);
              Tensor own = matmul(h, slice(rt, 1, 0, size * Dim(2)));
              if (b.defined()) own = own + slice(b, 0, 0, size * Dim(2));
              const Tensor z = f[0](clipped(call, gate(in, 0, 3) + gate(own, 0, 2)));
              const Tensor reset = f[0](clipped(call, gate(in, 1, 3) + gate(own, 1, 2)));
              const Tensor rh = slice(rt, 1, size * Dim(2));
              Tensor from = matmul(after ? h : reset * h, rh);
              if (b.defined()) from = from + slice(b, 0, size * Dim(2));
              if (after) from = reset * from;
              const Tensor made = f[1](clipped(call, gate(in, 2, 3) + from));
              return Tensors{(1 - z) * made + z * h};
            });
}
void lstm(NodeCall& c) {
  const bool coupled = c.integer("input_forget", 0);
  recurrent(c, {4, {"Sigmoid", "Tanh", "Tanh"}, true},
            [coupled](const NodeCall& call, const Tensor& in, const Tensors& s, const Tensor& r, const Tensor& b,
                      const Tensor& p, Own f) {
              Tensor sums = in + matmul(s[0], transpose(r));
              if (b.defined()) sums = sums + b;
              const Dim size = s[1].size(-1);
              const auto peep = [&](int i, const Tensor& of, const Tensor& cell) {
                return p.defined() ? of + slice(p, 0, size * Dim(i), size * Dim(i + 1)) * cell : of;
              };
              const Tensor i = f[0](clipped(call, peep(0, gate(sums, 0, 4), s[1])));
              const Tensor forget = coupled ? 1 - i : f[0](clipped(call, peep(2, gate(sums, 2, 4), s[1])));
              const Tensor cell = forget * s[1] + i * f[1](clipped(call, gate(sums, 3, 4)));
              const Tensor o = f[0](clipped(call, peep(1, gate(sums, 1, 4), cell)));
              return Tensors{o * f[2](cell), cell};
            });
}

constexpr OperatorRow rows[] = {
    {"GRU", 7, latest, gru},   {"If", 1, latest, if_of, 1, 0, not_folded},
    {"LSTM", 7, latest, lstm}, {"Loop", 1, latest, loop_of, 1, 0, not_folded},
    {"RNN", 7, latest, rnn},   {"Scan", 9, latest, scan_of, 0, 0, not_folded},
};

}  // namespace

std::span<const OperatorRow> control_operators() { return rows; }

}  // namespace weft::onnx
