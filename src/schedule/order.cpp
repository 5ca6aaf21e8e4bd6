#include "schedule/order.hpp"

#include <algorithm>
#include <queue>
#include <utility>

namespace weft {
namespace {

// Steps that share no memory run side by side on a device (runtime/lanes.hpp). Where everything is small, that is worth
// more than the memory, unless the user has asked for less: something is computed again then, and has ranks.
constexpr double least_on_device = 64 << 20;

using Steps = std::vector<std::uint32_t>;

// What steps touch and wait for, by step.
struct StepGraph {
  std::vector<Steps> before, after;  // each edge in both
  std::vector<Steps> touched;        // temporaries, by number
  std::vector<Steps> touching;       // by temporary: steps
  std::vector<double> bytes;         // of temporaries

  void edge(std::uint32_t from, std::uint32_t to) {
    if (from == to || (!before[to].empty() && before[to].back() == from)) return;
    before[to].push_back(from);
    after[from].push_back(to);
  }
};

// The step, or one of the bodies that it runs.
bool is_collective(const Payload& payload) {
  const auto holds_one = [](const Payload::Inner& inner) {
    return std::ranges::any_of(inner.schedule->steps, [](const Step& step) { return is_collective(*step.payload); });
  };
  return payload.is_collective() || std::ranges::any_of(payload.inner(), holds_one);
}

StepGraph make_step_graph(const Schedule& schedule, std::size_t fixed, const Score& score) {
  using Kind = ScheduleBuffer::Kind;
  struct Use {
    int writer = -1, first_writer = -1, last = -1;
    Steps readers;  // since the last writer
  };
  const std::size_t steps = schedule.steps.size();
  StepGraph graph{std::vector<Steps>(steps), std::vector<Steps>(steps), std::vector<Steps>(steps), {}, {}};
  std::vector<Use> uses(schedule.buffers.size());
  std::vector<int> number(schedule.buffers.size(), -1);  // of temporaries
  int effect = -1, collective = -1;                      // the last
  for (std::uint32_t s = 0; s < steps; ++s) {
    const Step& step = schedule.steps[s];
    const std::vector<bool> writes = step.payload->writes(step.buffers.size());
    const bool is_effect = std::find(writes.begin(), writes.end(), true) == writes.end();
    if (is_effect && effect >= 0) graph.edge(static_cast<std::uint32_t>(effect), s);
    if (is_effect) effect = static_cast<int>(s);
    if (is_collective(*step.payload)) {
      if (collective >= 0) graph.edge(static_cast<std::uint32_t>(collective), s);
      collective = static_cast<int>(s);
    }
    if (s > 0 && s < fixed) graph.edge(s - 1, s);
    if (fixed > 0 && s >= fixed) graph.edge(static_cast<std::uint32_t>(fixed) - 1, s);
    for (std::size_t i = 0; i < step.buffers.size(); ++i) {
      const auto b = static_cast<std::size_t>(step.buffers[i]);
      const ScheduleBuffer& buffer = schedule.buffers[b];
      Use& use = uses[b];
      if (use.writer >= 0) graph.edge(static_cast<std::uint32_t>(use.writer), s);
      if (writes[i]) {
        for (const std::uint32_t reader : use.readers) graph.edge(reader, s);
        use.readers.clear();
        use.writer = static_cast<int>(s);
        if (use.first_writer < 0) use.first_writer = use.writer;
      } else {
        use.readers.push_back(s);
      }
      use.last = static_cast<int>(s);
      if (buffer.kind != Kind::temporary) continue;
      if (number[b] < 0) {
        number[b] = static_cast<int>(graph.bytes.size());
        graph.bytes.push_back(score.number(storage_bytes(info(buffer.dtype), buffer.elements)));
        graph.touching.emplace_back();
      }
      const auto temporary = static_cast<std::uint32_t>(number[b]);
      if (!graph.touched[s].empty() &&
          std::find(graph.touched[s].begin(), graph.touched[s].end(), temporary) != graph.touched[s].end())
        continue;
      graph.touched[s].push_back(temporary);
      graph.touching[temporary].push_back(s);
    }
  }
  // A result that can be written where an argument is comes after all steps that read that.
  for (std::uint32_t s = 0; s < steps; ++s) {
    const std::vector<int>& buffers = schedule.steps[s].buffers;
    const auto writes_first = [&](int b) {
      const auto index = static_cast<std::size_t>(b);
      return schedule.buffers[index].kind == Kind::result && uses[index].first_writer == static_cast<int>(s);
    };
    if (std::none_of(buffers.begin(), buffers.end(), writes_first)) continue;
    for (const int b : buffers) {
      const Use& use = uses[static_cast<std::size_t>(b)];
      if (schedule.buffers[static_cast<std::size_t>(b)].kind != Kind::argument || use.last != static_cast<int>(s))
        continue;
      for (const std::uint32_t reader : use.readers) graph.edge(reader, s);
    }
  }
  return graph;
}

// Always the step that is ready and leaves the least memory in use. A temporary is in use from the first step that
// touches it to the last, from either end: so the same walk backwards gives an order that makes values late.
// `ranks`, where there are any: of the steps that take memory the one of the lowest rank, so that what is computed
// again for a derivative waits for it.
Steps least_memory(const StepGraph& graph, bool backwards, std::span<const std::uint32_t> ranks = {}) {
  const std::vector<Steps>&before = backwards ? graph.after : graph.before,
        &after = backwards ? graph.before : graph.after;
  const std::size_t count = before.size();
  std::vector<std::size_t> waits(count), left(graph.bytes.size());
  std::vector<double> grows(count, 0);
  std::vector<bool> done(count, false), in_use(graph.bytes.size(), false);
  std::vector<std::uint64_t> sum_left(graph.bytes.size(), 0);  // of the steps that are left: the one, where one is
  struct Ready {
    double weight, grows;
    std::uint32_t rank, step;
    bool operator<(const Ready& other) const {
      return weight != other.weight ? weight > other.weight : rank > other.rank;
    }
  };
  std::priority_queue<Ready> ready;
  const auto push = [&](std::uint32_t step) {
    if (waits[step] != 0 || done[step]) return;
    if (!ranks.empty())
      ready.push({grows[step] > 0 ? 1.0 : 0.0, grows[step], ranks[step], step});
    else
      ready.push({grows[step], grows[step], backwards ? static_cast<std::uint32_t>(count) - step : step, step});
  };
  const auto last_left = [&](std::uint32_t temporary) {
    if (left[temporary] != 1) return;
    const auto step = static_cast<std::uint32_t>(sum_left[temporary]);
    grows[step] -= graph.bytes[temporary];
    push(step);
  };
  for (std::uint32_t s = 0; s < count; ++s) {
    waits[s] = before[s].size();
    for (const std::uint32_t temporary : graph.touched[s]) grows[s] += graph.bytes[temporary];
  }
  for (std::uint32_t t = 0; t < left.size(); ++t) {
    left[t] = graph.touching[t].size();
    for (const std::uint32_t step : graph.touching[t]) sum_left[t] += step;
    if (left[t] == 1) grows[graph.touching[t][0]] -= graph.bytes[t];
  }
  for (std::uint32_t s = 0; s < count; ++s) push(s);
  Steps order;
  while (!ready.empty()) {
    const Ready next = ready.top();
    ready.pop();
    if (done[next.step] || next.grows != grows[next.step]) continue;  // pushed again since
    done[next.step] = true;
    order.push_back(next.step);
    for (const std::uint32_t t : graph.touched[next.step]) {
      --left[t];
      sum_left[t] -= next.step;
      if (!in_use[t])
        for (const std::uint32_t step : graph.touching[t])
          if (!done[step]) grows[step] -= graph.bytes[t], push(step);
      in_use[t] = true;
      last_left(t);
    }
    for (const std::uint32_t step : after[next.step])
      if (--waits[step] == 0) push(step);
  }
  if (backwards) std::reverse(order.begin(), order.end());
  return order;
}

double peak(const StepGraph& graph, const Steps& order) {
  std::vector<std::size_t> left(graph.bytes.size(), 0);
  double now = 0, most = 0;
  for (const std::uint32_t step : order) {
    for (const std::uint32_t t : graph.touched[step])
      if (left[t] == 0) left[t] = graph.touching[t].size(), now += graph.bytes[t];
    most = std::max(most, now);
    for (const std::uint32_t t : graph.touched[step])
      if (--left[t] == 0) now -= graph.bytes[t];
  }
  return most;
}

// An update that would be written where its state was, if no step after it could fail, is moved after the last that
// can. What it reads lives until then, so it must be no more than what need not be allocated.
void postpone_updates(Steps& order, const Schedule& schedule, const StepGraph& graph, const Score& score) {
  using Kind = ScheduleBuffer::Kind;
  const auto may_fail = [&](std::uint32_t s) { return schedule.steps[s].payload->may_fail(); };
  const auto behind = std::find_if(order.rbegin(), order.rend(), may_fail).base();
  const auto bytes_in_place = [&](const Step& step) {
    double bytes = 0;
    const std::vector<bool> writes = step.payload->writes(step.buffers.size());
    for (std::size_t r = 0; r < step.buffers.size(); ++r) {
      const ScheduleBuffer& result = schedule.buffers[static_cast<std::size_t>(step.buffers[r])];
      const auto takes_memory_of = [&](int a) {
        const ScheduleBuffer& argument = schedule.buffers[static_cast<std::size_t>(a)];
        return argument.kind == Kind::argument && argument.dtype == result.dtype &&
               argument.elements.same(result.elements) && step.payload->in_place(a, step.buffers[r]);
      };
      if (writes[r] && result.kind == Kind::result && std::ranges::any_of(step.buffers, takes_memory_of))
        bytes += score.number(storage_bytes(info(result.dtype), result.elements));
    }
    return bytes;
  };
  std::stable_partition(order.begin(), behind, [&](std::uint32_t s) {
    double held = 0;
    for (const std::uint32_t temporary : graph.touched[s]) held += graph.bytes[temporary];
    return !graph.after[s].empty() || may_fail(s) || held > bytes_in_place(schedule.steps[s]);
  });
}

// Collectives, and what is computed for them alone, as soon as what they wait for is there: on a device they are on
// their way while the steps after them run. A gradient is held as its bucket then, in as much memory. By steps to the
// memory that a collective reads, what is computed for it is few: all of a training step is computed for some.
void hasten_collectives(Steps& order, const Schedule& schedule, const StepGraph& graph) {
  constexpr int most = 3, none = most + 1;
  std::vector<bool> is_sent(schedule.buffers.size(), false);
  const auto is_hastened = [](const Step& step) { return step.payload->is_collective() && !step.payload->is_late(); };
  for (const Step& step : schedule.steps)
    if (is_hastened(step)) is_sent[static_cast<std::size_t>(step.buffers.front())] = true;
  if (std::ranges::find(is_sent, true) == is_sent.end()) return;
  const auto writes_sent = [&](const Step& step) {
    const std::vector<bool> writes = step.payload->writes(step.buffers.size());
    for (std::size_t i = 0; i < writes.size(); ++i)
      if (writes[i] && is_sent[static_cast<std::size_t>(step.buffers[i])]) return true;
    return false;
  };
  std::vector<int> distance(order.size(), none);
  std::vector<std::size_t> waits(order.size());
  for (std::size_t i = order.size(); i-- > 0;) {
    const std::uint32_t s = order[i];
    const Step& step = schedule.steps[s];
    waits[s] = graph.before[s].size();
    if (is_hastened(step) || writes_sent(step)) {
      distance[s] = 0;
    } else if (!step.payload->is_collective() && !graph.after[s].empty()) {
      distance[s] = 1;
      for (const std::uint32_t reader : graph.after[s]) distance[s] = std::max(distance[s], distance[reader] + 1);
      distance[s] = std::min(distance[s], none);
    }
  }
  Steps made;
  std::vector<bool> done(order.size(), false);
  const auto run = [&](std::uint32_t first) {
    Steps ready{first};
    while (!ready.empty()) {
      const std::uint32_t s = ready.back();
      ready.pop_back();
      done[s] = true;
      made.push_back(s);
      for (const std::uint32_t after : graph.after[s])
        if (--waits[after] == 0 && distance[after] <= most) ready.push_back(after);
    }
  };
  for (const std::uint32_t s : order)
    if (!done[s] && waits[s] == 0 && distance[s] <= most) run(s);
  for (const std::uint32_t s : order)
    if (!done[s]) run(s);
  order = std::move(made);
}

// What is written for late collectives alone, gathers of parameters, and these. By step.
std::vector<bool> find_late(const Schedule& schedule) {
  using Kind = ScheduleBuffer::Kind;
  constexpr int most_before = 3;  // steps, one of what the other has written
  std::vector<bool> late(schedule.steps.size());
  for (std::size_t s = 0; s < late.size(); ++s) late[s] = schedule.steps[s].payload->is_late();
  if (std::ranges::find(late, true) == late.end()) return late;
  for (int i = 0; i < most_before; ++i) {
    std::vector<bool> apart(schedule.buffers.size(), true);  // nobody else reads it
    for (std::size_t s = 0; s < late.size(); ++s) {
      const Step& step = schedule.steps[s];
      const std::vector<bool> writes = step.payload->writes(step.buffers.size());
      for (std::size_t b = 0; b < writes.size(); ++b)
        if (!late[s] && !writes[b]) apart[static_cast<std::size_t>(step.buffers[b])] = false;
    }
    std::vector<bool> more = late;
    for (std::size_t s = 0; s < late.size(); ++s) {
      const Step& step = schedule.steps[s];
      const std::vector<bool> writes = step.payload->writes(step.buffers.size());
      bool is_for_late = !step.payload->is_collective() && std::ranges::find(writes, true) != writes.end();
      for (std::size_t b = 0; b < writes.size(); ++b) {
        const auto buffer = static_cast<std::size_t>(step.buffers[b]);
        is_for_late &= !writes[b] || (schedule.buffers[buffer].kind == Kind::temporary && apart[buffer]);
      }
      if (is_for_late) more[s] = true;
    }
    if (more == late) break;
    late = std::move(more);
  }
  return late;
}

// By step: which of the late collectives it is computed from alone, as a weight in another dtype is; of several the
// last, by their number in `place`. -1: of none, or of others too.
std::vector<int> find_derived(const Schedule& schedule, const std::vector<bool>& late,
                              const std::vector<std::size_t>& place) {
  using Kind = ScheduleBuffer::Kind;
  std::vector<int> writer(schedule.buffers.size(), -1), derived(schedule.steps.size(), -1);
  for (std::size_t s = 0; s < derived.size(); ++s) {
    const Step& step = schedule.steps[s];
    const std::vector<bool> writes = step.payload->writes(step.buffers.size());
    if (step.payload->is_late()) {
      for (std::size_t b = 0; b < writes.size(); ++b)
        if (writes[b]) writer[static_cast<std::size_t>(step.buffers[b])] = static_cast<int>(place[s]);
      continue;
    }
    if (late[s]) continue;
    int last = -1;
    bool alone = true;
    for (std::size_t b = 0; b < writes.size(); ++b) {
      const auto buffer = static_cast<std::size_t>(step.buffers[b]);
      const Kind kind = schedule.buffers[buffer].kind;
      if (writes[b] || writer[buffer] >= 0)
        alone &= kind == Kind::temporary;
      else
        alone = false;
      last = std::max(last, writer[buffer]);
    }
    if (alone) derived[s] = last;
  }
  return derived;
}

// Late collectives, gathers of parameters, and what is computed from them alone, just before what reads them; on a
// device one ahead, where the collectives before it are there: it is on its way while what was gathered before is read.
class LatePlacer {
 public:
  LatePlacer(const Steps& order, const Schedule& schedule, const StepGraph& graph)
      : order_(order), graph_(graph), late_(find_late(schedule)), done_(order.size(), false) {
    std::vector<std::size_t> place(order.size(), 0);
    for (const std::uint32_t s : order)
      if (schedule.steps[s].payload->is_late()) place[s] = gathers_.size(), gathers_.push_back(s);
    derived_ = find_derived(schedule, late_, place);
    of_gather_.resize(gathers_.size());
    for (const std::uint32_t s : order)
      if (derived_[s] >= 0) of_gather_[static_cast<std::size_t>(derived_[s])].push_back(s);
    reads_.assign(order.size(), -1);
    for (std::size_t g = 0; g < gathers_.size(); ++g)
      for (const std::uint32_t reader : graph.after[gathers_[g]])
        if (!schedule.steps[reader].payload->is_collective()) reads_[reader] = static_cast<int>(g);
  }

  Steps run() {
    if (gathers_.empty()) return order_;
    for (const std::uint32_t s : order_) {
      if (late_[s] || derived_[s] >= 0) continue;
      int read = reads_[s];
      for (const std::uint32_t before : graph_.before[s])
        if (!done_[before]) read = std::max(read, derived_[before]);
      if (read >= 0) {
        for (const std::uint32_t each : of_gather_[static_cast<std::size_t>(read)]) add(each);
        wanted_ = std::max(wanted_, std::min(static_cast<std::size_t>(read) + 2, gathers_.size()));
      }
      begin();
      add(s);
      begin();
    }
    for (const std::uint32_t s : order_) add(s);
    return std::move(made_);
  }

 private:
  // What comes before it and has been left out so far, and it.
  void add(std::uint32_t last) {
    Steps open{last};
    while (!open.empty()) {
      const std::uint32_t s = open.back();
      const std::size_t count = open.size();
      if (!done_[s])
        for (const std::uint32_t before : graph_.before[s])
          if (!done_[before]) open.push_back(before);
      if (open.size() > count) continue;
      open.pop_back();
      if (!done_[s]) made_.push_back(s);
      done_[s] = true;
    }
  }
  // The gathers that may, where nothing comes before them but what was left out for them.
  void begin() {
    for (; begun_ < wanted_ && (done_[gathers_[begun_]] || is_ready(gathers_[begun_])); ++begun_) add(gathers_[begun_]);
  }
  bool is_ready(std::uint32_t gather) const {
    Steps open{gather};
    for (std::size_t i = 0; i < open.size(); ++i)
      for (const std::uint32_t before : graph_.before[open[i]]) {
        if (done_[before]) continue;
        if (!late_[before]) return false;
        if (std::ranges::find(open, before) == open.end()) open.push_back(before);
      }
    return true;
  }

  const Steps& order_;
  const StepGraph& graph_;
  const std::vector<bool> late_;
  Steps gathers_, made_;
  std::vector<int> derived_, reads_;  // by step: of a gather, the last that it is computed from alone, or reads
  std::vector<Steps> of_gather_;
  std::vector<bool> done_;
  std::size_t wanted_ = 0, begun_ = 0;  // gathers: that may begin, and that have
};

// A collective that sends much more than the one after it, as that of a table of words does: of the steps between the
// one before it and it, those that it waits for come first. The rest runs while it is on its way.
void hasten_large(Steps& order, const Schedule& schedule, const StepGraph& graph, const Score& score) {
  constexpr double much = 2;
  const auto bytes_sent = [&](std::size_t place) {
    const Step& step = schedule.steps[order[place]];
    const ScheduleBuffer& sent = schedule.buffers[static_cast<std::size_t>(step.buffers.front())];
    return score.number(storage_bytes(info(sent.dtype), sent.elements));
  };
  std::vector<std::size_t> places;  // of collectives that are hastened
  for (std::size_t i = 0; i < order.size(); ++i)
    if (const Payload& payload = *schedule.steps[order[i]].payload; payload.is_collective() && !payload.is_late())
      places.push_back(i);
  for (std::size_t c = 0; c + 1 < places.size(); ++c) {
    const std::size_t begin = c == 0 ? 0 : places[c - 1] + 1, end = places[c] + 1;
    if (bytes_sent(places[c]) <= much * bytes_sent(places[c + 1])) continue;
    std::vector<bool> needed(order.size());
    needed[order[places[c]]] = true;
    for (std::size_t at = end; at-- > begin;)
      if (needed[order[at]])
        for (const std::uint32_t before : graph.before[order[at]]) needed[before] = true;
    std::stable_partition(order.begin() + static_cast<std::ptrdiff_t>(begin),
                          order.begin() + static_cast<std::ptrdiff_t>(end),
                          [&](std::uint32_t step) { return needed[step]; });
  }
}

// Updates, and what is done for nobody's collective, come in the order of the collectives that they wait for: those of
// the last are not in the way of the others.
void postpone_last(Steps& order, const Schedule& schedule, const StepGraph& graph) {
  std::vector<std::uint32_t> latest(order.size(), 0);  // by step: of the collectives before it
  std::size_t tail = 0;
  std::uint32_t collectives = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::uint32_t s = order[i];
    for (const std::uint32_t before : graph.before[s]) latest[s] = std::max(latest[s], latest[before]);
    if (is_collective(*schedule.steps[s].payload)) latest[s] = ++collectives, tail = i + 1;
  }
  std::stable_sort(order.begin() + static_cast<std::ptrdiff_t>(tail), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return latest[a] < latest[b]; });
}

}  // namespace

void order_steps(Schedule& schedule, std::size_t fixed, std::span<const std::uint32_t> ranks, const Score& score,
                 Device device) {
  const StepGraph graph = make_step_graph(schedule, fixed, score);
  Steps best(schedule.steps.size());
  for (std::uint32_t s = 0; s < best.size(); ++s) best[s] = s;
  const Steps given = best;
  double least = peak(graph, best);
  if (device.type == Device::Type::cpu || least >= least_on_device || !ranks.empty())
    for (const int way : {0, 1, 2, 3}) {
      if (way >= 2 && ranks.empty()) continue;
      // The given order has what is computed again late (group.cpp); in it, what frees memory may come earlier.
      Steps order = way == 2   ? least_memory(graph, false, ranks)
                    : way == 3 ? least_memory(graph, false, given)
                               : least_memory(graph, way == 1);
      const double most = peak(graph, order);
      if (most >= least) continue;
      least = most;
      best = std::move(order);
    }
  if (device.type != Device::Type::cpu) {
    hasten_collectives(best, schedule, graph);
    hasten_large(best, schedule, graph, score);
    best = LatePlacer(best, schedule, graph).run();
    postpone_last(best, schedule, graph);
  }
  postpone_updates(best, schedule, graph, score);
  std::vector<Step> steps;
  for (const std::uint32_t s : best) steps.push_back(std::move(schedule.steps[s]));
  schedule.steps = std::move(steps);
}

}  // namespace weft
