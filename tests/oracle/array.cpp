#include "oracle/array.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace oracle {

namespace {
struct Format {
  int precision, least_exponent;  // of the value 1.x * 2^e
  double largest;
};
Format format(DType dtype) {
  switch (dtype) {
    case DType::f16: return {11, -14, 65504};
    case DType::bf16: return {8, -126, 0x1.fep127};
    case DType::f32: return {24, -126, std::numeric_limits<float>::max()};
    default: return {53, -1022, std::numeric_limits<double>::max()};
  }
}
}  // namespace

std::int64_t count_of(const Shape& shape) {
  std::int64_t count = 1;
  for (std::int64_t size : shape) count *= size;
  return count;
}
std::int64_t Array::count() const { return count_of(data->shape); }

Array make(DType dtype, Shape shape) {
  static thread_local std::uint64_t serial = 0;
  Array array{std::make_shared<Data>()};
  auto count = static_cast<std::size_t>(count_of(shape));
  array.data->dtype = dtype;
  array.data->shape = std::move(shape);
  array.data->serial = ++serial;
  if (weft::is_floating(dtype))
    array.data->reals.resize(count);
  else
    array.data->integers.resize(count);
  return array;
}
Array number(DType dtype, double value, bool weak) {
  Array array = make(dtype, {});
  array.data->reals[0] = round_to(dtype, value);
  array.data->weak = weak;
  return array;
}
Array integer(DType dtype, std::int64_t value, bool weak) {
  Array array = make(dtype, {});
  array.data->integers[0] = value;
  array.data->weak = weak;
  return array;
}
std::string to_string(const Array& array) {
  std::string text = weft::info(array->dtype).name;
  text += "[";
  for (std::size_t i = 0; i < array->shape.size(); ++i) text += (i ? "," : "") + std::to_string(array->shape[i]);
  return text + "]";
}

double largest(DType dtype) { return format(dtype).largest; }
int precision(DType dtype) { return format(dtype).precision; }
double spacing(DType dtype, double at) {
  const Format f = format(dtype);
  int exponent = f.least_exponent;
  if (at != 0 && std::isfinite(at)) exponent = std::max(std::ilogb(at), f.least_exponent);
  return std::ldexp(1.0, exponent - f.precision + 1);
}

double round_to(DType dtype, Wide value) {
  if (!std::isfinite(value) || value == 0) return static_cast<double>(value);
  if (dtype == DType::f64) return static_cast<double>(value);
  if (dtype == DType::f32) return static_cast<float>(value);
  const Format f = format(dtype);
  const int last = std::max(std::ilogb(value), f.least_exponent) - f.precision + 1;
  const Wide rounded = std::ldexp(std::nearbyint(std::ldexp(value, -last)), last);
  if (std::fabs(rounded) > static_cast<Wide>(f.largest)) return value < 0 ? -INFINITY : INFINITY;
  return static_cast<double>(std::copysign(rounded, value));
}

std::int64_t wrap(DType dtype, Integer value) {
  if (dtype == DType::boolean) return value != 0;
  const Integer count = Integer{1} << info(dtype).bits;
  Integer rest = value % count;
  if (rest < 0) rest += count;
  return static_cast<std::int64_t>(is_signed(dtype) && rest >= count / 2 ? rest - count : rest);
}

Perturbation& perturbation() {
  static thread_local Perturbation state;
  return state;
}
namespace {
std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  return z ^ z >> 31;
}
std::uint64_t next() { return mixed(perturbation().state += 0x9e3779b97f4a7c15ull); }
}  // namespace
Perturbation Perturbation::of_run(std::uint64_t seed, int run) {
  return {mixed(mixed(seed) + static_cast<std::uint64_t>(run)), true, 0};
}
double draw() { return static_cast<double>(static_cast<std::int64_t>(next())) * 0x1p-63; }

double finish(DType dtype, Wide precise, bool several, Wide more) {
  const Perturbation& state = perturbation();
  const double rounded = round_to(dtype, precise);
  if (!state.active || !std::isfinite(precise) || (!several && state.soft == 0)) return rounded;
  if (static_cast<Wide>(rounded) == precise && more == 0) return rounded;
  if (std::isinf(rounded))  // just beyond the largest
    return std::fabs(precise) < static_cast<Wide>(largest(dtype)) * (1 + std::ldexp(Wide{4}, -precision(dtype))) &&
                   next() % 2
               ? std::copysign(largest(dtype), rounded)
               : rounded;
  const Wide reach = 3 * static_cast<Wide>(spacing(dtype, rounded)) + more;
  const bool cancelled = std::fabs(precise) <= reach && next() % 4 == 0;  // terms may cancel exactly
  const double moved = cancelled ? 0 : round_to(dtype, precise + reach * static_cast<Wide>(draw()));
  return moved == 0 ? std::copysign(0.0, next() % 2 ? 1.0 : -1.0) : moved;
}
// Of several kinds, so that no function maps all of them to one.
double undecided(double value) {
  if (!perturbation().active) return value;
  switch (next() % 5) {
    case 0: return NAN;
    case 1: return std::copysign(0.0, next() % 2 ? 1.0 : -1.0);
    case 2: return std::copysign(HUGE_VAL, next() % 2 ? 1.0 : -1.0);
    case 3: return -value;
    default: return value;
  }
}
std::int64_t undecided(DType dtype, std::int64_t value) {
  return perturbation().active && next() % 2 ? wrap(dtype, Integer{value} + 1) : value;
}
double open_zero(double value) { return value == 0 && perturbation().active && next() % 2 ? -value : value; }

}  // namespace oracle
