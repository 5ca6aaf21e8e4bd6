// The gradient of a value that is read in parts: one concatenation where they lie side by side, and a sum elsewhere.
#include "tests/trace/support.hpp"
#include "weft/explain.hpp"
#include "weft/grad.hpp"

using namespace weft;
using namespace trace_test;

namespace {

using Tensors = std::vector<Tensor>;

Tensor numbers(Sizes sizes, double first) {
  return cast(reshape(arange(sizes.shape().element_count()), sizes), DType::f64) * 0.5 + first;
}
int count(const std::string& text, const std::string& word) {
  int found = 0;
  for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++found;
  return found;
}

// Parts of the last axis of 12 elements that are read, in this order, and operations that the gradient has of them.
struct Parts {
  const char* name;
  std::vector<std::pair<std::int64_t, std::int64_t>> places;  // start and length
  int concatenations, pads;                                   // that the gradient's result needs
};
const Parts all_parts[] = {
    {"thirds", {{0, 4}, {4, 4}, {8, 4}}, 1, 0},
    {"thirds from the last", {{8, 4}, {4, 4}, {0, 4}}, 1, 0},
    {"of several lengths", {{0, 1}, {1, 5}, {6, 6}}, 1, 0},
    {"two in the middle", {{2, 3}, {5, 4}}, 1, 1},
    {"the outer ones first", {{0, 4}, {8, 4}, {4, 4}}, -1, -1},
    {"with a gap", {{0, 4}, {8, 4}}, 0, 2},
    {"that overlap", {{0, 8}, {4, 8}}, 0, 2},
    {"one twice", {{0, 6}, {0, 6}, {6, 6}}, -1, -1},
};

Tensor slope(const int& form, const Tensor& x, const Tensors& factors) {
  const Parts& parts = all_parts[form];
  return grad(
      [&](const Tensor& x) {
        Tensor total;
        for (std::size_t i = 0; i < factors.size(); ++i) {
          const Tensor part = sum(narrow(x, -1, parts.places[i].first, parts.places[i].second) * factors[i]);
          total = i == 0 ? part : total + part;
        }
        return total;
      },
      x);
}
Tensor by_pads(const Parts& parts, const Tensor& x, const Tensors& factors) {
  Tensor total = zeros_like(x);
  for (std::size_t i = 0; i < factors.size(); ++i) {
    const auto [start, length] = parts.places[i];
    const auto rest = 12 - start - length;
    total = total + concat({zeros({2, start}, {DType::f64}), factors[i], zeros({2, rest}, {DType::f64})}, 1);
  }
  return total;
}

}  // namespace

TEST_CASE("the gradient of a value that is read in parts is that of its parts, in every order of reading") {
  const Tensor x = numbers({2, 12}, -3);
  for (int form = 0; form < static_cast<int>(std::size(all_parts)); ++form) {
    const Parts& parts = all_parts[form];
    CAPTURE(std::string(parts.name));
    Tensors factors;
    for (const auto& [start, length] : parts.places)
      factors.push_back(numbers({2, length}, 1 + static_cast<double>(start)));
    const Tensor expected = by_pads(parts, x, factors);
    CHECK(all(slope(form, x, factors) == expected).item<bool>());
    CHECK(all(compile(slope)(form, x, factors) == expected).item<bool>());
  }
}

TEST_CASE("parts that lie side by side are joined, and not padded and added") {
  for (int form = 0; form < static_cast<int>(std::size(all_parts)); ++form) {
    const Parts& parts = all_parts[form];
    if (parts.concatenations < 0) continue;
    CAPTURE(std::string(parts.name));
    Tensors factors;
    for (const auto& [start, length] : parts.places) factors.push_back(numbers({2, length}, 1));
    const std::string graph = explain(compile(slope), form, numbers({2, 12}, -3), factors).optimized;
    CAPTURE(graph);
    CHECK(count(graph, " = concat(") == parts.concatenations);
    CHECK(count(graph, " = pad(") == parts.pads);
  }
}

TEST_CASE("gradients of parts along other axes, of steps, of sizes that vary, and of gradients") {
  const auto loss = [](const Tensor& x) {
    const Tensor upper = narrow(x, 0, 0, 2), lower = narrow(x, 0, 2, 2);
    const Tensor even = slice(x, 0, 0, 4, 2), left = narrow(x, 1, 0, 3), right = narrow(x, 1, 3, 3);
    return sum(square(upper) * 2 + lower * upper) + sum(even * even) + sum(left * square(right));
  };
  const Tensor x = numbers({4, 6}, -2);
  const auto slope = [&](const Tensor& x) { return grad(loss, x); };
  const auto twice = [&](const Tensor& x) { return grad([&](const Tensor& x) { return sum(square(slope(x))); }, x); };
  const auto numeric = [&](const auto& f, std::int64_t i) {
    const Tensor step = reshape(cast(arange(24) == i, DType::f64), {4, 6}) * 1e-4;
    return ((f(x + step) - f(x - step)) / 2e-4).template item<double>();
  };
  const Tensor first = flatten(slope(x)), second = flatten(twice(x));
  for (const std::int64_t i : {0, 2, 8, 15, 23}) {
    CHECK(first[i].item<double>() == doctest::Approx(numeric(loss, i)).epsilon(1e-5));
    CHECK(second[i].item<double>() ==
          doctest::Approx(numeric([&](const Tensor& x) { return sum(square(slope(x))); }, i)).epsilon(1e-5));
  }
  const auto halves = [](const Tensor& x) {
    return grad(
        [](const Tensor& x) {
          const Tensor left = narrow(x, 0, 0, x.size(0) / 2), right = narrow(x, 0, x.size(0) / 2, x.size(0) / 2);
          return sum(left * square(right));
        },
        x);
  };
  const auto f = compile(halves, {.dynamic = true});
  for (const std::int64_t size : {4, 10, 12})
    CHECK(all(f(numbers({size, 3}, 1)) == halves(numbers({size, 3}, 1))).item<bool>());
}
