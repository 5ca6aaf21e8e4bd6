#include "codegen/kernel_head.hpp"

#include <set>

namespace weft::codegen {

std::string buffer_name(const loop::Kernel& kernel, int buffer) {
  return (kernel.buffers[static_cast<std::size_t>(buffer)].written ? "y" : "x") + std::to_string(buffer);
}

std::vector<std::string> head_comments(const loop::Kernel& kernel, const Expressions& expressions,
                                       const HeadWords& words) {
  std::vector<std::string> lines;
  for (const std::string& comment : kernel.comments) lines.push_back("// " + sanitize(comment));
  std::string axes = kernel.axes.empty() ? "// one element" : "//";
  for (int a = 0; a < static_cast<int>(kernel.axes.size()); ++a) {
    const loop::Axis& axis = kernel.axes[static_cast<std::size_t>(a)];
    axes += (a ? ", i" : " i") + std::to_string(a) + " < " + expressions.scalar(axis.extent);
    if (axis.inner) axes += " inner";
    if (a == kernel.vector_axis) axes += std::string(" ") + words.neighbours;
  }
  lines.push_back(std::move(axes));
  return lines;
}

std::vector<std::string> head_addresses(const loop::Kernel& kernel, const HeadWords& words) {
  std::vector<std::string> lines;
  const std::string arguments = words.arguments;
  for (int b = 0; b < static_cast<int>(kernel.buffers.size()); ++b) {
    const loop::Buffer& buffer = kernel.buffers[static_cast<std::size_t>(b)];
    const std::string type = std::string(buffer.written ? "" : "const ") + memory_type(buffer.dtype) + "*";
    lines.push_back(type + " const " + buffer_name(kernel, b) + " = static_cast<" + type + ">(" + arguments +
                    "buffers[" + std::to_string(b) + "]);");
  }
  std::set<int> symbols;
  const auto visit = [&](Dim dim) {
    dims::any_atom(dim, [&](const DimNode& node) {
      if (node.kind == DimKind::symbol) symbols.insert(node.number);
      return false;
    });
  };
  for (const loop::Axis& axis : kernel.axes) visit(axis.extent);
  for (const loop::Instruction& instruction : kernel.body) visit(instruction.index);
  for (const int s : symbols)
    lines.push_back(std::string("const ") + words.index + " s" + std::to_string(s) + " = " + arguments + "sizes[" +
                    std::to_string(s) + "];");
  return lines;
}

}  // namespace weft::codegen
