// Schedules as text, for explain() and the logs.
#include <sstream>

#include "base/dim_expression.hpp"
#include "base/fail.hpp"
#include "schedule/schedule.hpp"

namespace weft {

static std::string strides_text(const std::vector<Dim>& strides) {
  std::string text;
  for (Dim stride : strides) text += (text.empty() ? ", strides " : " ") + dims::to_string(stride);
  return text;
}

std::string operation_text(const Node& node) {
  std::string text = concat_text(info(node.op).name, " ", to_string(node.type));
  if (node.scope) text += " of " + interned_text(node.scope);
  if (const std::string where = to_string(node.loc); !where.empty()) text += ", " + where;
  return text;
}

std::string decisions_text(const Schedule& schedule) {
  std::string text;
  for (const Decision& decision : schedule.decisions) {
    const std::string where = to_string(decision.loc);
    text += "%" + std::to_string(decision.node) + " " + info(decision.op).name + (where.empty() ? "" : " at " + where) +
            " " + decision.why + "\n";
  }
  return text;
}

std::string to_text(const Schedule& schedule) {
  static constexpr const char* kinds[] = {"argument", "result", "temporary", "constant",
                                          "packed",   "error",  "offloaded"};
  std::string text;
  for (std::size_t b = 0; b < schedule.buffers.size(); ++b) {
    const ScheduleBuffer& buffer = schedule.buffers[b];
    text += "buffer " + std::to_string(b) + ": " + kinds[static_cast<int>(buffer.kind)];
    const bool has_offset =
        buffer.kind == ScheduleBuffer::Kind::temporary || buffer.kind == ScheduleBuffer::Kind::offloaded;
    text += has_offset ? " at " + dims::to_string(buffer.offset) : " " + std::to_string(buffer.index);
    if (buffer.in_result >= 0) text += " of result " + std::to_string(buffer.in_result);
    text += std::string(", ") + info(buffer.dtype).name + " x " + dims::to_string(buffer.elements);
    text += strides_text(buffer.strides) + "\n";
  }
  for (const Step& step : schedule.steps) {
    if (step.payload->kernel()) {
      text += step.payload->text();
      continue;
    }
    text += step.name;
    for (int buffer : step.buffers) text += " " + std::to_string(buffer);
    text += step.payload->text() + "\n";
    for (const Payload::Inner& inner : step.payload->inner()) {
      text += "  a body, run " + dims::to_string(inner.times) + " times:\n";
      std::istringstream lines(to_text(*inner.schedule));
      for (std::string line; std::getline(lines, line);) text += "  " + line + "\n";
    }
  }
  for (const Schedule::Donation& donation : schedule.donations)
    text += "result " + std::to_string(donation.result) + " may take the memory of argument " +
            std::to_string(donation.argument) + "\n";
  return text;
}

}  // namespace weft
