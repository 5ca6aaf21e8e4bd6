#include "schedule/score.hpp"

#include <algorithm>

namespace weft {

Score::Score(const Graph& graph, Device device) : symbols_(graph.symbols), on_host_(device.type == Device::Type::cpu) {}

double Score::number(Dim dim) const { return static_cast<double>(dims::at_hints(dim, symbols_)); }

double Score::units(double bytes) const { return std::clamp(bytes / (1 << 15), 1.0, on_host_ ? 8.0 : 512.0); }

}  // namespace weft
