#include "fuzz/function.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fuzz {

std::int64_t Draw::size(std::int64_t most) {
  most = std::max<std::int64_t>(most, 1);
  int powers = 0;
  while ((std::int64_t{2} << powers) <= most) ++powers;
  const std::int64_t power = std::int64_t{1} << below(powers + 1);
  const std::int64_t drawn = one_in(4) ? between(1, most) : power + any<std::int64_t>({-1, 0, 0, 0, 1, 3});
  return std::clamp<std::int64_t>(drawn, 1, most);
}

std::vector<std::int64_t> Draw::matrix(std::int64_t most) {
  const std::int64_t first = size(most / 2), second = size(std::min<std::int64_t>(most / first, 40000));
  return one_in(2) ? std::vector{first, second} : std::vector{second, first};
}

Function make_function(std::uint64_t seed) {
  Draw draw(seed);
  std::vector<const Family*> all;
  for (const std::span<const Family> some : {families_of_rows(), families_of_contractions(), families_of_positions()})
    for (const Family& family : some) all.insert(all.end(), static_cast<std::size_t>(family.weight), &family);
  Function function;
  function.seed = seed;
  function.family = all[static_cast<std::size_t>(draw.below(static_cast<std::int64_t>(all.size())))];
  function.family->draw(draw, function);
  return function;
}

std::string to_text(const Function& function) {
  std::string text = std::string(function.family->name) + (function.gradient ? " with gradients" : "") + " {";
  for (const std::int64_t number : function.numbers) text += " " + std::to_string(number);
  text += " }";
  for (const Input& input : function.inputs) {
    text += std::string(" ") + weft::info(input.dtype).name + "[";
    for (std::size_t i = 0; i < input.sizes.size(); ++i) text += (i ? "," : "") + std::to_string(input.sizes[i]);
    text += "]";
  }
  return text;
}

namespace {

double draw_value(const Input& input, std::mt19937_64& random) {
  std::normal_distribution<double> normal(0, 1);
  const auto below = [&](std::int64_t n) {
    return static_cast<double>(random() % static_cast<std::uint64_t>(std::max<std::int64_t>(n, 1)));
  };
  switch (input.kind) {
    case Input::Kind::normal: return normal(random);
    case Input::Kind::positive: return 0.5 + below(1500) / 1000;
    case Input::Kind::integer: {
      const bool is_signed = input.dtype == DType::i8 || input.dtype == DType::i16 || input.dtype == DType::i32 ||
                             input.dtype == DType::i64;
      return below(41) - (is_signed ? 20 : 0);
    }
    case Input::Kind::index: return below(input.below);
    case Input::Kind::boolean: return below(2);
    case Input::Kind::special: {
      constexpr double infinity = std::numeric_limits<double>::infinity();
      constexpr double values[] = {std::numeric_limits<double>::quiet_NaN(), infinity, -infinity, 0.0, -0.0, 1, 1, 1};
      return random() % 16 == 0 ? values[random() % 8] : std::round(normal(random) * 8) / 8;
    }
  }
  return 0;
}

}  // namespace

std::vector<Tensor> inputs_of(const Function& function, std::uint64_t set) {
  std::mt19937_64 random(function.seed * 2654435761u + set);
  std::vector<Tensor> all;
  for (const Input& input : function.inputs) {
    std::int64_t count = 1;
    weft::Shape shape;
    for (const std::int64_t size : input.sizes) {
      count *= size;
      shape.push_back(size);
    }
    std::vector<double> values(static_cast<std::size_t>(count));
    for (double& value : values) value = draw_value(input, random);
    all.push_back(weft::cast(weft::from_span(std::span<const double>(values), shape), input.dtype));
  }
  return all;
}

}  // namespace fuzz
