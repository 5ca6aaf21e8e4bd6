#include "schedule/score.hpp"

#include <algorithm>

namespace weft {

Score::Score(const Graph& graph, Device device) : on_host_(device.type == Device::Type::cpu) {
  for (const DimSymbol& symbol : graph.symbols) hints_.push_back(symbol.hint);
}

double Score::number(Dim dim) const {
  if (dim.is_constant()) return static_cast<double>(dim.constant());
  return static_cast<double>(dims::evaluate(dim, [&](const DimNode* atom) {
    const auto number = static_cast<std::size_t>(atom->number);
    return number < hints_.size() ? hints_[number] : atom->lower.constant();
  }));
}

double Score::units(double bytes) const { return std::clamp(bytes / (1 << 15), 1.0, on_host_ ? 8.0 : 512.0); }

}  // namespace weft
