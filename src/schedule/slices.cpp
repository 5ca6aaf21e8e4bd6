#include "schedule/slices.hpp"

#include <algorithm>
#include <optional>

#include "loop/analysis.hpp"
#include "loop/device_team.hpp"

namespace weft {
namespace {

std::span<const loop::Kernel> kernels_of(const Step& step) {
  const auto* const has = dynamic_cast<const HasKernels*>(step.payload.get());
  return has ? has->kernels() : std::span<const loop::Kernel>();
}
const UpdatesSlice* update_of(const Step& step) { return dynamic_cast<const UpdatesSlice*>(step.payload.get()); }

using loop::Instruction;
using loop::Kernel;
using loop::Kind;

// Where the elements of an update lie in the result: element i of it at i / part * whole + start * inner + i % part,
// where start is what the position says, at least 0 and at most `most`.
struct Place {
  Dim part, whole, inner, most;
  bool is_one = false;  // the slice is one run: element i is at start * inner + i
  int position = -1;    // a buffer of the schedule, of i64
  Dim at = 0;           // its element
  int result = -1;
  Dim elements = 0;  // of the result
};

// An update that a kernel can write.
struct SliceWrite {
  std::size_t update, writer;  // steps
  std::size_t set, buffer;     // of the writer: which of its kernels, and the kernel's buffer
  Place place;
};

// An expression over the graph's symbols as one over the kernel's slots.
Dim over_slots(Kernel& kernel, Dim dim, bool is_slot) {
  if (dim.is_constant() && !is_slot) return dim;
  std::size_t slot = kernel.parameters.size();
  for (std::size_t i = 0; i < slot && !is_slot; ++i)
    if (kernel.parameters[i].same(dim)) slot = i;
  if (slot == kernel.parameters.size()) kernel.parameters.push_back(dim);
  return dims::symbol(static_cast<int>(slot), 0);
}

// The one axis of a pointwise kernel as runs of `part` elements, so that the lanes go on walking neighbours.
void split_axis(Kernel& kernel, Dim part) {
  if (kernel.axes.size() != 1 || kernel.axes[0].inner || kernel.parameters.size() > 1) return;
  if (kernel.parameters.size() == 1 && kernel.axes[0].extent.is_constant()) return;
  const Dim extent = kernel.axes[0].extent, count = loop::over_symbols(extent, kernel), axis = dims::axis(0, extent);
  if (!count.is_constant() || !part.is_constant() || part.constant() < 1 || count.constant() % part.constant() != 0 ||
      std::ranges::any_of(kernel.body, [&](const Instruction& it) { return !dims::linear_in(it.index, axis).linear; }))
    return;
  const Dim runs = count / part;
  loop::replace_axes(kernel, {{runs}, {part}}, {dims::axis(0, runs) * part + dims::axis(1, part)});
  kernel.vector_axis = 1;
  kernel.parameters.clear();  // the extent alone
}

// What the kernel stores into this buffer goes into the slice. `of_table`: what may differ between kernels of one text
// is a slot.
void store_in_slice(Kernel& kernel, std::size_t buffer, const Place& place, bool of_table) {
  const bool was_small = loop::fits_32_bits(kernel);
  if (!of_table && !place.is_one) split_axis(kernel, place.part);
  const Dim part = over_slots(kernel, place.part, false), most = over_slots(kernel, place.most, false),
            at = over_slots(kernel, place.at, false), whole = over_slots(kernel, place.whole, of_table),
            inner = over_slots(kernel, place.inner, of_table);
  const auto emit = [&](Kind kind, Op op, std::int32_t a, std::int32_t b, Dim index) {
    Instruction it;
    it.kind = kind, it.op = op, it.dtype = DType::i64, it.args[0] = a, it.args[1] = b, it.index = index;
    kernel.body.push_back(it);
    return static_cast<std::int32_t>(kernel.body.size()) - 1;
  };
  const std::size_t before = kernel.body.size();
  const std::int32_t position = emit(Kind::load, Op::data, -1, -1, at);
  kernel.body.back().buffer = static_cast<std::int32_t>(kernel.buffers.size());
  const std::int32_t last = emit(most.is_constant() ? Kind::constant : Kind::index, Op::data, -1, -1, most);
  if (most.is_constant()) {
    kernel.body.back().bits = static_cast<std::uint64_t>(most.constant());
    kernel.body.back().index = 0;
  }
  const std::int32_t least = emit(Kind::apply, Op::minimum, position, last, 0);
  const std::int32_t zero = emit(Kind::constant, Op::data, -1, -1, 0);
  const Dim start = dims::value(emit(Kind::apply, Op::maximum, least, zero, 0), most + Dim(1));
  kernel.buffers.push_back({DType::i64, false, place.position, at + Dim(1)});
  kernel.buffers[buffer].value = place.result;
  kernel.buffers[buffer].elements = place.elements;
  std::vector<bool> keep(before, true);
  for (std::size_t i = 0; i < before; ++i) {
    Instruction it = kernel.body[i];
    if (it.kind != Kind::store || it.buffer != static_cast<std::int32_t>(buffer)) continue;
    it.index = place.is_one && !of_table ? it.index + start * inner
                                         : it.index / part * whole + start * inner + it.index % part;
    kernel.body.push_back(it);
    keep[i] = false;
  }
  keep.resize(kernel.body.size(), true);
  loop::keep_only(kernel, keep);
  constexpr std::int64_t small_index = 1 << 30;
  kernel.small = kernel.small || (was_small && place.elements.is_constant() && place.elements.constant() < small_index);
  kernel.shared = {};
  loop::verify(kernel);
}

// How the stores of a buffer move along the lanes.
std::vector<loop::Access::Kind> accesses(const Kernel& kernel, int result) {
  const loop::Analysis analysis = loop::analyze(kernel);
  std::vector<loop::Access::Kind> all;
  for (const Instruction& it : kernel.body)
    if (it.kind == Kind::store && kernel.buffers[static_cast<std::size_t>(it.buffer)].value == result)
      all.push_back(kernel.vector_axis < 0 ? loop::Access::Kind::uniform
                                           : loop::access(kernel, analysis, it.index).kind);
  return all;
}

class SliceWriter {
 public:
  SliceWriter(Schedule& schedule, Device device, const Providers& providers)
      : schedule_(schedule), device_(device), providers_(providers), uses_(schedule.buffers.size()) {
    for (std::size_t s = 0; s < schedule.steps.size(); ++s) {
      const std::vector<int>& buffers = schedule.steps[s].buffers;
      const std::vector<bool> writes = schedule.steps[s].payload->writes(buffers.size());
      for (std::size_t i = 0; i < buffers.size(); ++i) {
        Use& use = uses_[static_cast<std::size_t>(buffers[i])];
        (writes[i] ? use.writers : use.readers).push_back({s, i});
      }
    }
  }

  void run() {
    std::vector<std::vector<SliceWrite>> writes(schedule_.steps.size());  // by writer
    for (std::size_t s = 0; s < schedule_.steps.size(); ++s)
      if (const UpdatesSlice* const update = update_of(schedule_.steps[s]))
        if (const std::optional<SliceWrite> write = write_of(s, update->slice()))
          writes[write->writer].push_back(*write);
    std::vector<bool> moved(schedule_.steps.size(), false);
    std::vector<Step> steps;
    for (std::size_t s = 0; s < writes.size(); ++s) {
      if (!writes[s].empty() && rewrite(schedule_.steps[s], writes[s]))
        for (const SliceWrite& write : writes[s]) {
          Step& update = schedule_.steps[write.update];
          add_words(schedule_.steps[s], update);
          update.payload = update_of(update)->without_slice(update.buffers);
          moved[write.update] = true;
          steps.push_back(std::move(update));
        }
      if (!moved[s]) steps.push_back(std::move(schedule_.steps[s]));
    }
    schedule_.steps = std::move(steps);
  }

 private:
  struct Where {
    std::size_t step, place;  // in its buffers
  };
  struct Use {
    std::vector<Where> writers, readers;
  };
  const Use& uses(int buffer) const { return uses_[static_cast<std::size_t>(buffer)]; }
  static bool any_between(const std::vector<Where>& uses, std::size_t first, std::size_t end) {
    return std::ranges::any_of(uses, [&](const Where& it) { return it.step >= first && it.step < end; });
  }

  std::optional<SliceWrite> write_of(std::size_t s, const runtime::SliceUpdate& slice) const {
    const Step& step = schedule_.steps[s];
    const int value = step.buffers[0], update = step.buffers[1], position = step.buffers[2], result = step.buffers[3];
    const ScheduleBuffer& given = schedule_.buffers[static_cast<std::size_t>(update)];
    const Use& use = uses(update);
    if (given.kind != ScheduleBuffer::Kind::temporary || !given.strides.empty() || given.may_leave ||
        !slice.offsets[0].same(Dim(0)) || !slice.offsets[1].same(Dim(0)) || use.writers.size() != 1 ||
        use.readers.size() != 1)
      return {};
    const auto [writer, place] = use.writers.front();
    if (writer >= s) return {};
    // The result begins where the kernel runs: nobody else has the memory that it may take from then on.
    if (any_between(uses(value).readers, writer, s) || any_between(uses(value).writers, writer, s) ||
        any_between(uses(position).writers, writer, s) || any_between(uses(result).readers, 0, s) ||
        any_between(uses(result).writers, 0, s))
      return {};
    // Before what may stop the call nothing is written into an argument's memory.
    for (std::size_t other = writer + 1; other < s; ++other)
      if (schedule_.steps[other].payload->may_fail()) return {};
    const std::span<const Kernel> kernels = kernels_of(schedule_.steps[writer]);
    if (kernels.empty()) return {};
    const std::size_t buffers = kernels[0].buffers.size();
    SliceWrite write{s, writer, place / buffers, place % buffers, {}};
    const Dim whole = slice.size * slice.inner;
    write.place = {slice.length * slice.inner, whole,    slice.inner,      slice.size - slice.length,
                   slice.outer.same(Dim(1)),   position, slice.offsets[2], result,
                   slice.outer * whole};
    return write;
  }

  // The step's kernels with stores into these slices, if they can have them.
  bool rewrite(Step& step, const std::vector<SliceWrite>& writes) {
    const std::shared_ptr<const Payload> before = step.payload;  // which has these
    const std::span<const Kernel> given = kernels_of(step);
    std::vector<Kernel> kernels(given.begin(), given.end());
    const bool of_table = kernels.size() > 1;
    if (std::ranges::any_of(kernels, [](const Kernel& it) { return it.narrow_axis() >= 0; })) return false;
    if (of_table) {
      // Kernels of one text stay so: where one has no update, what it stores is all of its slices, at position 0.
      const SliceWrite& first = writes.front();
      const Place& like = first.place;
      std::vector<const Place*> places(kernels.size(), nullptr);
      for (const SliceWrite& write : writes) {
        const Place& its = write.place;
        if (write.buffer != first.buffer || !its.part.is_constant() || !its.most.is_constant() ||
            !its.at.is_constant() || !its.part.same(like.part) || !its.most.same(like.most) || !its.at.same(like.at))
          return false;
        places[write.set] = &its;
      }
      for (std::size_t k = 0; k < kernels.size(); ++k) {
        const loop::Buffer own = kernels[k].buffers[first.buffer];
        const Place all{like.part, like.part, 0, like.most, false, like.position, like.at, own.value, own.elements};
        if (!places[k] && !(own.elements.is_constant() && (own.elements % like.part).same(Dim(0)))) return false;
        store_in_slice(kernels[k], first.buffer, places[k] ? *places[k] : all, of_table);
      }
      if (providers_.most_sets(kernels[0], device_) < kernels.size()) return false;
    } else {
      for (const SliceWrite& write : writes) {
        const int was = given[0].buffers[write.buffer].value;
        const auto found = std::ranges::find(kernels[0].buffers, was, &loop::Buffer::value);
        store_in_slice(kernels[0], static_cast<std::size_t>(found - kernels[0].buffers.begin()), write.place, of_table);
      }
    }
    for (const SliceWrite& write : writes)
      if (accesses(given[write.set], given[write.set].buffers[write.buffer].value) !=
          accesses(kernels[write.set], write.place.result))
        return false;
    step.buffers.clear();
    for (Kernel& kernel : kernels) {
      kernel.shared = std::make_shared<const std::string>(loop::shared_text(kernel));
      for (const loop::Buffer& buffer : kernel.buffers) step.buffers.push_back(buffer.value);
    }
    step.payload = providers_.generated(std::move(kernels));
    return true;
  }

  static void add_words(Step& step, const Step& update) {
    step.operations.insert(step.operations.end(), update.operations.begin(), update.operations.end());
    for (const std::uint32_t region : update.regions)
      if (std::ranges::find(step.regions, region) == step.regions.end()) step.regions.push_back(region);
  }

  Schedule& schedule_;
  const Device device_;
  const Providers& providers_;
  std::vector<Use> uses_;  // by buffer
};

}  // namespace

void write_slices(Schedule& schedule, Device device, const Providers& providers) {
  SliceWriter(schedule, device, providers).run();
}

}  // namespace weft
