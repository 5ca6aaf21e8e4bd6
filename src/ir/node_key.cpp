#include "ir/node_key.hpp"

#include "ir/table.hpp"

namespace weft {

std::vector<std::uint64_t> key_of(const Node& node, std::span<const Tensor> operands) {
  const Type& type = node.type;
  std::vector<std::uint64_t> words;
  words.reserve(operands.size() + static_cast<std::size_t>(type.shape.rank()) + 6);
  words.push_back(static_cast<std::uint64_t>(node.op) | static_cast<std::uint64_t>(type.dtype) << 8 |
                  static_cast<std::uint64_t>(type.weak) << 16 | static_cast<std::uint64_t>(type.device.type) << 24 |
                  static_cast<std::uint64_t>(type.device.index) << 32 |
                  static_cast<std::uint64_t>(type.shape.rank()) << 40);
  for (const Dim size : type.shape) words.push_back(size.word());
  if (info(node.op).kind != OpKind::leaf) words.push_back(node.recomputation);  // constants take no memory
  node.attributes().each_word([&](std::uint64_t word) { words.push_back(word); });
  for (const Tensor& operand : operands) words.push_back(operand.word());
  return words;
}

}  // namespace weft
