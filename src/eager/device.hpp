// Eager execution on a device: each operation, a call too, is a graph of one node that goes through the pipeline once a
// kind (its structure: primitive, dtypes, sizes) and is run from a table afterwards. A primitive that comes with many
// sizes, and a slice at any start, share an executable (eager/sizes.hpp). In: computed values. Out:
// contiguous values on the result's device, in fresh memory, or an update's in that of what it updates, where this is
// the only reference to it. Operands in the host's memory are copied there for the call.
#pragma once
#include "eager/eager.hpp"

namespace weft::eager {

Value execute_on_device(Op op, const Attributes& attributes, const Type& type, std::span<const Value> operands,
                        Loc loc);
// A call, a loop or a factorization, compiled whole at these values of its symbols.
std::vector<Value> execute_call_on_device(const Node& node, std::span<const Type> types,
                                          std::span<const Value> operands, std::span<const std::int64_t> symbols);
// The same elements on the device of `type`.
Value execute_transfer(const Type& type, const Value& operand);

// What the calling thread executes next, in order, as long as nobody frees it. Where a kernel has to be compiled, those
// of nodes that come later are compiled beside it.
std::span<Node* const>& coming_nodes();

// How many operations this process has compiled for devices.
std::int64_t compiled_operations();

// Opens the device. Throws Error that says what is missing, with the user's line.
void require_device(Device device, const char* operation, Loc loc);

}  // namespace weft::eager
