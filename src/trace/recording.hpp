// What a trace of a resumable function recorded between two reads of values, kept to find the same again in a later
// call. In: the operations of both. Out: whether the compiled segment of the one serves the other.
#pragma once
#include <functional>

#include "trace/specialization.hpp"

namespace weft::detail {

// An operand or a result by number: an input by slot, the generator's state, or an output of an operation by its place.
// What has no number of its own (constants of the host's memory) is compared by what it is.
using ValueCode = std::uint64_t;
inline constexpr ValueCode unnumbered = UINT64_MAX;
inline constexpr ValueCode generator_code = UINT64_MAX - 1;
using CodeOf = std::function<ValueCode(const Tensor&)>;

struct Recording {
  std::vector<const Node*> operations;  // in the order of recording
  std::vector<Tensor> owned;            // the same, once the trace has ended: a handle counts while it is recorded
  std::vector<ValueCode> operands;      // of all of them
  std::vector<ValueCode> asked;         // what is read next; of the last, what results and state are
  std::vector<std::uint64_t> facts;     // what is asked for; of the last, where results and state come from
};
Recording make_recording(std::vector<const Node*> operations, std::span<const Tensor> asked,
                         std::vector<std::uint64_t> facts, const CodeOf& code_of);

// Whether the recordings compute the same. Where numbers may differ (`lifted`, by place, in order; `first`: the place
// of the first operation) they may; where others do and that is all, `differing` are their places, and the answer is
// false.
bool same_recording(const Recording& earlier, const Recording& now, std::span<const std::uint32_t> lifted,
                    std::uint32_t first, std::vector<std::uint32_t>& differing);

// Numbers that a function may compute from what it has read: literals, and memory of the host.
bool is_host_number(const Node& node);

}  // namespace weft::detail
