// scan, while_loop and cond as steps. In: a node, and the schedules of its bodies, whose memory is planned for one
// iteration (schedule/bodies). Out: a step that runs these; their functions are compiled with those of the graph
// around.
#include <algorithm>

#include "base/fail.hpp"
#include "providers/provider.hpp"
#include "providers/sources.hpp"
#include "runtime/loop.hpp"
#include "schedule/launches.hpp"

namespace weft::providers {

namespace {

Dim bytes_of(const Type& type) { return storage_bytes(info(type.dtype), type.shape.element_count()); }

runtime::LoopKind kind_of(Op op) {
  return op == Op::scan         ? runtime::LoopKind::scan
         : op == Op::while_loop ? runtime::LoopKind::while_loop
                                : runtime::LoopKind::cond;
}

// What a step of the node does with the bodies that it runs; which carries are updated in place follows from their
// schedules.
runtime::LoopDescription description_of(const Candidate& candidate) {
  const Node& node = candidate.node;
  runtime::LoopDescription loop;
  loop.length = 1;
  if (node.op == Op::scan) {
    const auto& scan = node.attributes<Scan>();
    loop.carries = static_cast<std::size_t>(scan.carries);
    loop.scanned = static_cast<std::size_t>(scan.scanned);
    loop.length = scan.length;
    loop.reverse = scan.reverse;
  }
  if (node.op == Op::while_loop) {
    const auto& while_loop = node.attributes<While>();
    loop.carries = static_cast<std::size_t>(while_loop.carries);
    loop.limit = while_loop.limit;
    loop.passed = interned_text(while_loop.passed.id);
    const Graph& condition = *node.bodies()[0];
    const auto place =
        std::ranges::find(condition.inputs, condition.outputs[0].word(), &Tensor::word) - condition.inputs.begin();
    if (place < while_loop.carries) loop.asked = place;
  }
  // What the body that goes on sees of each operand and result.
  const Graph& body = *node.bodies().back();
  const std::size_t first = node.op == Op::cond ? 1 : 0;
  for (std::size_t i = 0; i < candidate.operands.size(); ++i) {
    const PlacedValue& operand = candidate.operands[i];
    const Type& seen = i < first ? operand.type : type_of(body.inputs[i - first]);
    loop.operands.push_back({storage_bytes(info(operand.type.dtype), operand.offset), bytes_of(seen)});
  }
  for (std::size_t i = 0; i < candidate.results.size(); ++i)
    loop.results.push_back({0, bytes_of(type_of(body.outputs[i]))});
  return loop;
}

// In the order in which a loop has them, a while_loop's condition first. The carries of the last one go on.
std::vector<BodyGraph> bodies_of(const Node& node, const runtime::LoopDescription& loop) {
  std::vector<BodyGraph> bodies;
  for (const auto& graph : node.bodies()) {
    BodyGraph& body = bodies.emplace_back(BodyGraph{*graph, {}});
    if (const DimEnvironment* sizes = DimEnvironment::current()) body.graph.symbols = sizes->symbols;
  }
  if (node.op != Op::cond)
    for (int k = 0; k < static_cast<int>(loop.carries); ++k) bodies.back().updates.push_back({k, k});
  return bodies;
}

// The arguments and results of a body.
struct BodyValues {
  std::size_t arguments, results;
};

class LoopPayload final : public Payload {
 public:
  LoopPayload(Op op, Device device, runtime::LoopDescription loop, std::vector<int> buffers,
              std::vector<BodyValues> values, BodySchedules schedules)
      : op_(op),
        device_(device),
        loop_(std::move(loop)),
        buffers_(std::move(buffers)),
        values_(std::move(values)),
        schedules_(std::move(schedules)) {
    const std::vector<Schedule::Donation>& donations = schedules_->back().donations;
    for (std::size_t k = 0; k < loop_.carries; ++k)
      loop_.in_place.push_back(std::ranges::any_of(donations, [&](const Schedule::Donation& donation) {
        return donation.argument == static_cast<int>(k) && donation.result == donation.argument;
      }));
  }

  std::string details() const override {
    if (op_ == Op::cond) return {};
    std::string in_place;
    for (std::size_t k = 0; k < loop_.carries; ++k)
      if (loop_.in_place[k]) in_place += " " + std::to_string(k);
    return (op_ == Op::scan ? (loop_.reverse ? ", backwards over " : " over ") + dims::to_string(loop_.length) : "") +
           (in_place.empty() ? "" : ", carries in place:" + in_place);
  }
  loop::Cost cost() const override {
    loop::Cost all;
    for (const Inner& inner : this->inner())
      for (const Step& step : inner.schedule->steps) {
        const loop::Cost cost = step.payload->cost();
        all.bytes = all.bytes + cost.bytes * inner.times;
        all.operations = all.operations + cost.operations * inner.times;
      }
    return all;
  }
  bool may_fail() const override {
    return loop_.limit > 0 || any_step([](const Payload& payload) { return payload.may_fail(); });
  }
  bool is_check() const override {
    return any_step([](const Payload& payload) { return payload.is_check(); });
  }
  std::vector<bool> writes(std::size_t buffers) const override {
    std::vector<bool> all(buffers, false);
    // The results and, where a body checks on a device, the error word.
    for (std::size_t i = loop_.operands.size(); i < buffers; ++i) all[i] = true;
    return all;
  }
  // The last carry where the first one was, if nothing else of the loop reads that.
  bool in_place(int argument, int result) const override {
    for (std::size_t k = 0; k < loop_.carries; ++k)
      if (buffers_[loop_.operands.size() + k] == result)
        return buffers_[k] == argument && loop_.operands[k].offset.same(Dim(0)) &&
               std::count(buffers_.begin(), buffers_.end(), argument) == 1;
    return false;
  }
  std::vector<Inner> inner() const override {
    std::vector<Inner> all;
    for (const Schedule& schedule : *schedules_) all.push_back({&schedule, loop_.length});
    return all;
  }
  runtime::EntryPoint emit(Sources& sources) const override {
    runtime::EntryPoint entry;
    for (const Schedule& schedule : *schedules_)
      for (const Step& step : schedule.steps) entry.inner.push_back(step.payload->emit(sources));
    return entry;
  }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation& preparation) const override {
    return runtime::make_loop(kind_of(op_), loop_, plans(preparation.entry, preparation.functions),
                              preparation.numbers);
  }
  std::string stored_as() const override { return runtime::StoredLoop::name; }
  void write(runtime::FieldWriter& to, const runtime::EntryPoint& entry) const override {
    const loop::Cost all = cost();
    runtime::StoredLoop::write(to, kind_of(op_), loop_, {all.bytes, all.operations}, plans(entry, nullptr));
  }

 private:
  std::vector<runtime::Plan> plans(const runtime::EntryPoint& entry,
                                   const std::shared_ptr<const runtime::Functions>& functions) const {
    std::vector<runtime::Plan> all;
    std::span<const runtime::EntryPoint> entries = entry.inner;
    for (std::size_t i = 0; i < schedules_->size(); ++i) {
      const Schedule& schedule = (*schedules_)[i];
      const std::size_t steps = schedule.steps.size();
      all.push_back(make_plan(schedule, entries.first(steps), device_, values_[i].arguments, values_[i].results,
                              /*symbols=*/0, functions));
      entries = entries.subspan(steps);
    }
    return all;
  }
  template <class Holds>
  bool any_step(Holds holds) const {
    for (const Schedule& schedule : *schedules_)
      for (const Step& step : schedule.steps)
        if (holds(*step.payload)) return true;
    return false;
  }

  Op op_;
  Device device_;
  runtime::LoopDescription loop_;
  std::vector<int> buffers_;  // operands, then results
  std::vector<BodyValues> values_;
  BodySchedules schedules_;
};

class LoopProvider final : public Provider {
 public:
  bool takes(const Node& node, Device) const override { return is_loop(node.op); }
  bool reads(const Shape& shape, std::span<const Dim> strides) const override { return is_row_major(shape, strides); }
  std::optional<Offer> offer(const Candidate& candidate) const override {
    const Node& node = candidate.node;
    runtime::LoopDescription loop = description_of(candidate);
    std::vector<BodyValues> values;
    for (const auto& body : node.bodies()) values.push_back({body->inputs.size(), body->outputs.size()});
    Offer offer{.rank = 1, .payload = nullptr, .bodies = bodies_of(node, loop)};  // nobody else offers loops
    offer.with_schedules = [op = node.op, device = candidate.device, loop = std::move(loop),
                            buffers = candidate.buffers(), values = std::move(values)](BodySchedules schedules) {
      return std::make_shared<LoopPayload>(op, device, loop, buffers, values, std::move(schedules));
    };
    return offer;
  }
};

}  // namespace

const Provider& loop() {
  static constinit const LoopProvider provider;
  return provider;
}

}  // namespace weft::providers
