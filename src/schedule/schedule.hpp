// The schedule: a graph cut into steps. In: an optimized graph. Out: kernels in the loop IR and what libraries do,
// in an order that respects every dependence, over numbered buffers whose memory is planned. The stages, in order:
//   choose_layouts  in which order values lie in memory (schedule/layout)
//   group_nodes     which nodes share a kernel (schedule/group)
//   lower           each group as functions of indices (schedule/lower)
//   BodyScheduler   the bodies of loops, by these stages and plan_memory (schedule/bodies)
//   order_steps     what runs when (schedule/order)
//   join_products   which products that read the same are one step (schedule/epilogues)
//   join_epilogues  which kernels are part of the product before them (schedule/epilogues)
// and after it, once the order of steps is final:
//   offload_values  which temporaries wait in the host's memory (schedule/offload)
//   plan_memory     where temporaries live, and what may be overwritten (schedule/memory)
#pragma once
#include "ir/graph.hpp"
#include "schedule/provider.hpp"

namespace weft {

struct ScheduleBuffer {
  // packed: a constant's elements in an order of their own, put there when the plan is made
  // error: the device's word that is not 0 once a check has failed
  // offloaded: a temporary in page-locked memory of the host
  enum class Kind : std::uint8_t {
    argument,
    result,
    temporary,
    constant,
    packed,
    error,
    offloaded
  } kind = Kind::temporary;
  int index = 0;  // argument, result: which one. Several buffers may be one result, one after the other
  DType dtype = DType::f32;
  Dim elements = 0;
  std::vector<Dim> strides;  // temporary: in elements, one for each axis of its value; none: contiguous
  Dim offset = 0;          // temporary: bytes into the arena, or into the result that it lies in; offloaded: the host's
  int in_result = -1;      // temporary: the result in whose memory it lies until that is written; -1: the arena
  std::string what = {};   // temporary, result: the operation that makes it, with its type and the user's line
  bool may_leave = false;  // temporary: recorded inside of offload()
  // The steps between which its value is on the host, and its memory others'; -1: none.
  int leaves_at = -1, returns_at = -1;
  Tensor constant;  // constant, packed: the data node; none where nobody reads it
  // packed: element (i, j, ...) row by row is the constant's element at offset + i * strides[0] + j * strides[1] ...
  std::int64_t packed_offset = 0;
  std::vector<std::int64_t> packed_sizes, packed_strides;
};

struct Step {
  std::string name;
  std::vector<int> buffers;  // the schedule's, as the step names them
  std::shared_ptr<const Payload> payload;
  std::vector<std::string> operations = {};  // what it does: an operation each, with the user's line
  std::vector<std::uint32_t> regions = {};   // Node::region of what it does, each once; none where all are 0
};

// Why a node begins a kernel of its own, or lies in memory as it does.
struct Decision {
  std::uint32_t node;
  Op op;
  Loc loc;
  std::string why;
};

struct Schedule {
  std::vector<ScheduleBuffer> buffers;
  std::vector<Step> steps;
  struct Donation {
    int argument, result;
  };
  std::vector<Donation> donations;
  Dim arena_bytes = 0;
  Dim host_bytes = 0;  // of what is offloaded
  std::vector<Decision> decisions;
  std::string borders;  // whether kernels end at the borders of regions, and what that costs; empty: nobody asked
};

// Where two uses of a region would have other kernels, these end at its borders if that is a tenth less to compile and
// moves at most so much more, in bytes.
inline constexpr double border_share = 0.02;

Schedule make_schedule(const Graph& graph, Device device, const Providers& providers, ScheduleChoices choices = {},
                       std::span<const int> constant_inputs = {});

// Gives temporaries their offsets and finds donations, those of updates first. Only buffers of temporaries are placed.
// On a device a check does not stop the call: it sets the device's error word, and what is written into an argument's
// memory is not written once the word is set. Donations whose writer can't leave it out are taken back.
// `in_results`: a result that takes no argument's memory has memory of its own from the first step on, and temporaries
// may lie in it until it is written.
// On a device: which kernels may read arguments and constants before the kernel in front of them has ended. Nobody
// writes an argument before all have read it; but the step in front of the plan may have. So a kernel that surely runs
// lies in between: whoever follows it knows that all before it have ended (after_earlier_kernels of cuda.inc). What is
// made of `constant_inputs` alone is no such kernel, and reads nothing early: later calls leave it out, and one call
// runs it before all others (runtime/constants.hpp).
void read_early(Schedule& schedule, std::span<const int> constant_inputs = {});
void plan_memory(Schedule& schedule, Device device = {}, std::span<const Update> updates = {}, bool in_results = false);

// An operation for people: "softmax f32[4,16] of layer, model.cpp:12".
std::string operation_text(const Node& node);

std::string to_text(const Schedule& schedule);
std::string decisions_text(const Schedule& schedule);  // a line each

}  // namespace weft
