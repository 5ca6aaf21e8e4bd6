#include "autograd/forward.hpp"

#include <algorithm>

#include "autograd/tangents.hpp"
#include "autograd/walk.hpp"
#include "base/fail.hpp"
#include "base/trace_clock.hpp"

namespace weft {

std::vector<Tensor> push_forward(std::span<const Tensor> values, std::span<const Tensor> variables,
                                 std::span<const Tensor> tangents, const char* operation, Loc loc) {
  const AutogradTime time;
  const LevelWalk walk(values, variables, operation, loc);
  std::vector<Tensor> found(walk.output_count()), given;  // of the outputs of all entries; of a node's operands
  std::vector<unsigned char> wanted(walk.output_count());
  const auto read = [&](std::uint32_t at, const Tensor& value) {
    if (at != LevelWalk::none) wanted[walk.output(at, value)] = 1;
  };
  for (std::size_t i = 0; i < values.size(); ++i) read(walk.values()[i], values[i]);
  for (const LevelWalk::Entry& entry : walk.entries())
    for (std::size_t i = 0; i < entry.node->operand_count && !walk.is_variable(entry.node); ++i)
      read(walk.operands(entry)[i], entry.node->operands[i]);
  for (std::size_t i = 0; i < variables.size(); ++i)
    if (const std::uint32_t at = walk.variables()[i]; at != LevelWalk::none)
      found[walk.entries()[at].first_output] = tangents[i];
  for (const LevelWalk::Entry& entry : walk.entries()) {
    const Node& node = *entry.node;
    if (walk.is_variable(&node)) continue;
    given.assign(node.operand_count, Tensor());
    for (std::size_t i = 0; i < given.size(); ++i)
      if (const std::uint32_t at = walk.operands(entry)[i]; walk.depends(at, node.operands[i]))
        given[i] = found[walk.output(at, node.operands[i])];
    if (std::ranges::none_of(given, [](const Tensor& tangent) { return tangent.defined(); })) continue;
    const InPlaceOf scope(node, loc);
    const std::span<Tensor> results(found.data() + entry.first_output, node.output_count);
    tangent_rule(node.op)({Tensor(entry.node), given, results, {wanted.data() + entry.first_output, results.size()}});
    for (unsigned i = 0; i < results.size(); ++i) {
      if (!results[i].defined()) continue;
      const Type &type = type_of(results[i]), &expected = type_of(Tensor(entry.node, i));
      WEFT_CHECK(type.dtype == expected.dtype && type.shape.rank() == expected.shape.rank(), "tangent of result ", i,
                 " of ", info(node.op).name, " is ", to_string(type), ", not ", to_string(expected));
      results[i] = RecordingBuilder().reshape(results[i], expected.shape);  // as a gradient
    }
  }
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t at = walk.values()[i];
    results.push_back(walk.depends(at, values[i]) ? found[walk.output(at, values[i])] : Tensor());
  }
  return results;
}

}  // namespace weft
