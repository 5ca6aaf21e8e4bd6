#include "schedule/score.hpp"

namespace weft {

Score::Score(const Graph& graph, Device device) : launch_(device.type == Device::Type::cpu ? 1 << 13 : 1 << 20) {
  for (const DimSymbol& symbol : graph.symbols) hints_.push_back(symbol.hint);
}

double Score::number(Dim dim) const {
  if (dim.is_constant()) return static_cast<double>(dim.constant());
  return static_cast<double>(dims::evaluate(dim, [&](const DimNode* atom) {
    const auto number = static_cast<std::size_t>(atom->number);
    return number < hints_.size() ? hints_[number] : atom->lower.constant();
  }));
}

}  // namespace weft
