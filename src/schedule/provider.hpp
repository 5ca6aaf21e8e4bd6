// What the schedule asks of those who can do a step. In: an operation with its operands as they lie in memory, or a
// kernel of the loop IR. Out: an offer, whose payload is the step from here on: the schedule, the memory plan, explain
// and the launch plan see nothing else of it. src/providers holds who is there.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.hpp"
#include "loop/kernel.hpp"
#include "runtime/step.hpp"

namespace weft {

namespace providers {
class Sources;
}

struct Schedule;
struct Step;

// What a schedule may do.
struct ScheduleChoices {
  bool fuses = true;    // else a kernel is one node
  bool regions = true;  // groups that are alike are lowered once; a kernel may end at the border of a region's use
  bool elides_roundings = false;  // what a kernel computes of bf16 and f16 on the way stays f32
  bool measures = false;          // who does an operation is decided by time measured, where that can be done
  bool uses_tf32 = false;         // products and convolutions of f32 on a device
};

class Payload : public runtime::Preparable {
 public:
  // For people: what follows the step's name and buffers in the schedule's text.
  std::string text() const {
    const std::string library = by();
    return details() + (library.empty() ? "" : " by " + library);
  }
  // The same without the library that does it.
  virtual std::string details() const = 0;
  // The library that does it ("oneDNN 2.6.3"); empty for a generated kernel and for a routine of Weft's own.
  virtual std::string by() const { return {}; }
  // Bytes moved and operations done, over the graph's symbols.
  virtual loop::Cost cost() const = 0;
  // Whether it may stop the call. Then nothing is written into an argument's memory before.
  virtual bool may_fail() const { return false; }
  // Whether it checks something: on a device it then sets the error word, its last buffer.
  virtual bool is_check() const { return false; }
  // Whether the other processes of a group do it too: such steps stay in the order of their nodes.
  virtual bool is_collective() const { return false; }
  // Of a collective: whether it is done when its result is about to be read, and not as soon as it can be.
  virtual bool is_late() const { return false; }
  // By buffer of the step: whether it writes it. The last alone, unless it says otherwise, as one of several results
  // does.
  virtual std::vector<bool> writes(std::size_t buffers) const {
    std::vector<bool> all(buffers, false);
    if (buffers > 0) all.back() = true;
    return all;
  }
  // Whether the result may be written into the argument's memory: two of the step's buffers.
  virtual bool in_place(int /*argument*/, int /*result*/) const { return false; }
  // The same step, which writes nothing where the word in this buffer, its last, is not 0. Null where it can't.
  virtual std::shared_ptr<const Payload> predicated(int /*word*/) const { return nullptr; }
  // The same step, which may read buffers of these (by number in the schedule) before the step in front of it has
  // ended. Null where it gains nothing by that.
  virtual std::shared_ptr<const Payload> reading_early(const std::vector<bool>& /*steady*/) const { return nullptr; }
  // Whether a library takes long to make what its step needs; and makes it, to be kept where the step will look: by
  // threads, several steps at once, from the end of the schedule on. What another thread makes already it leaves to
  // that one. What fails here fails again for the step.
  virtual bool makes_ahead() const { return false; }
  virtual void make_ahead() const {}
  // The bodies that it runs, and how often each runs, about; the functions of their steps are EntryPoint::inner.
  struct Inner {
    const Schedule* schedule;
    Dim times;
  };
  virtual std::vector<Inner> inner() const { return {}; }
  virtual bool runs_others() const { return !inner().empty(); }
  // Whether its functions are kernels that were generated; and the kernel, null for the others and for one that was
  // read from disk.
  virtual bool generated() const { return false; }
  virtual const loop::Kernel* kernel() const { return nullptr; }
  // Adds the functions that it calls to those which are compiled for a device; which one the step begins with.
  virtual runtime::EntryPoint emit(providers::Sources& /*sources*/) const { return {}; }
};

// A value in memory: element (i, j, ...) is at offset + i * strides[0] + j * strides[1] ... of the schedule's buffer.
struct PlacedValue {
  Type type;
  int buffer = -1;
  Dim offset = 0;
  std::vector<Dim> strides;
  // Of an operand of a product: a buffer of i64, one for each item of the batch axis, which is axis 0. Item i is then
  // at offset + chosen[i] * strides[0], one of so many matrices. -1: items lie one after the other.
  int chosen = -1;
  Dim matrices = 0;
  // Of an operand: made of inputs that are the same in many calls, and of nothing else (runtime/constants.hpp).
  bool is_constant = false;
};

struct Candidate {
  const Node& node;
  Device device;
  std::vector<PlacedValue> operands;
  std::vector<PlacedValue> results = {};  // all that the node has; none of a check
  ScheduleChoices choices = {};
  const PlacedValue& result() const { return results.front(); }
  std::vector<int> buffers() const {
    std::vector<int> all;
    for (const PlacedValue& operand : operands) all.push_back(operand.buffer);
    for (const PlacedValue& operand : operands)
      if (operand.chosen >= 0) all.push_back(operand.chosen);
    for (const PlacedValue& result : results) all.push_back(result.buffer);
    return all;
  }
};

// A graph that a step runs, such as the body of a loop.
struct BodyGraph {
  Graph graph;
  std::vector<Update> updates;  // what the next run reads in the place of an input
};
// One for each body.
using BodySchedules = std::shared_ptr<const std::vector<Schedule>>;

struct Offer {
  // Of the offers for one candidate the least is taken: operations or bytes over a rate that ranks providers. It is no
  // time.
  Dim rank = 0;
  // Null for a step that runs bodies, which are scheduled once the offer is taken (schedule/bodies).
  std::shared_ptr<Payload> payload;
  std::vector<BodyGraph> bodies = {};
  std::function<std::shared_ptr<Payload>(BodySchedules)> with_schedules = {};
};

// A step that does what two did, and its buffers.
struct Followed {
  std::shared_ptr<Payload> payload;
  std::vector<int> buffers;
};

class Providers {
 public:
  // Whether somebody takes the operation there, before it is known how its operands lie.
  virtual bool takes(const Node& node, Device device) const = 0;
  // Adds what asks a library about this operation, where `takes` and `best` will have to and it takes long. Other
  // threads may do so ahead, with nothing of the node.
  using Questions = std::vector<std::function<void()>>;
  virtual void add_questions(const Node& /*node*/, Device /*device*/, Questions& /*to*/) const {}
  // Whether somebody does attention whole there. Where nobody does, none that is written by hand is looked for.
  virtual bool attends(Device /*device*/) const { return false; }
  // Whether it is done well on an operand of which element (i, j, ...) is at offset + i * strides[0] + j * strides[1]
  // ... Else the operand is put in order first.
  virtual bool reads(const Node& node, Device device, const Shape& shape, Dim offset,
                     std::span<const Dim> strides) const = 0;
  // Whether it reads an operand of one batch axis as matrices that are chosen from a table (PlacedValue::chosen).
  virtual bool reads_chosen(const Node& /*node*/, Device /*device*/) const { return false; }
  // Whether it writes its results in any order of axes of which the last stays last, and where `reads` takes an operand
  // as a part of larger memory.
  virtual bool writes_in_any_order(const Node& node, Device device) const = 0;
  // Whether a convolution is done several times as fast where its images, weights and result lie with the channels last
  // (schedule/channels_last). It is then done so, or all of them lie in order.
  virtual bool gains_with_channels_last(const Node& /*node*/, Device /*device*/) const { return false; }
  // A large product is done several times as fast where its sizes are multiples of this (the pass align_products).
  virtual std::int64_t size_multiple(const Node& /*node*/, Device /*device*/) const { return 1; }
  // The offer of the least rank, or of the least time where the candidate's choices say so. Throws InternalError where
  // nobody offers.
  virtual Offer best(const Candidate& candidate) const = 0;
  // A fused group is done by a generated kernel; several of one text may be one launch, of at most so many.
  virtual std::shared_ptr<Payload> generated(std::vector<loop::Kernel> kernels) const = 0;
  // Two products of the same left operand as one step, of the buffers of both. Null where nobody does both at once.
  virtual std::shared_ptr<Payload> joined(const Step& /*first*/, const Step& /*second*/) const { return nullptr; }
  // A step whose results the follower, a generated kernel, reads, and that kernel as one step; `keeps`: others read a
  // result too. Nothing where nobody does both at once, or that is not faster.
  virtual std::optional<Followed> followed(const Step& /*product*/, const Step& /*follower*/, bool /*keeps*/,
                                           Device /*device*/) const {
    return {};
  }
  virtual std::size_t most_sets(const loop::Kernel& kernel, Device device) const = 0;

 protected:
  ~Providers() = default;
};

}  // namespace weft
