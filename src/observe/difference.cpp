#include "observe/difference.hpp"

#include <algorithm>
#include <cmath>

#include "weft/ops.hpp"

namespace weft::detail {
namespace {

double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return 1e-10;
    case DType::f16: return 1e-2;
    case DType::bf16: return 5e-2;
    case DType::f8e4m3:
    case DType::f8e5m2: return std::ldexp(1.0, 1 - significand(dtype));  // one step
    default: return is_floating(dtype) ? 1e-4 : 0;
  }
}

std::vector<double> elements_of(const Tensor& tensor) {
  std::vector<double> elements(static_cast<std::size_t>(tensor.element_count().constant()));
  cast(tensor, DType::f64).copy_to<double>(elements);
  return elements;
}

}  // namespace

void RoundingSpread::add(const Tensor& exact, const Tensor& moved) {
  const std::vector<double> a = elements_of(exact), b = elements_of(moved);
  undecided.resize(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    const double distance = std::fabs(a[i] - b[i]);
    if (is_floating(exact.dtype()) && std::isfinite(distance))
      greatest = std::max(greatest, distance);
    else
      undecided[i] = true;
  }
}

std::optional<Distance> distance_of(const Tensor& found, const Tensor& expected, const RoundingSpread* spread) {
  constexpr double spreads = 8;  // that two values of another order may be apart, as random programs are tested with
  const std::vector<double> a = elements_of(found), b = elements_of(expected);
  double scale = 0;
  for (const double value : b)
    if (std::isfinite(value)) scale = std::max(scale, std::fabs(value));
  std::size_t worst = a.size();
  double greatest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    if (spread && i < spread->undecided.size() && spread->undecided[i]) continue;
    const double distance = std::fabs(a[i] - b[i]);
    if (worst < a.size() && !(distance > greatest) && !std::isnan(distance)) continue;
    worst = i;
    greatest = distance;
    if (std::isnan(distance)) break;
  }
  if (worst == a.size()) return {};
  const double relative = std::isfinite(greatest) && scale > 0 ? greatest / scale : 0;
  const double moved = spread ? spreads * spread->greatest : 0;
  return Distance{worst, a[worst], b[worst], relative, greatest <= tolerance_of(found.dtype()) * scale + moved};
}

}  // namespace weft::detail
