// einsum over random equations, against products of all labels that are summed: eagerly, compiled, with symbolic sizes,
// gradients and vmap. And which products it records: batches stay axes of their own.
#include <algorithm>
#include <random>
#include <string>

#include "tests/loops/support.hpp"
#include "tests/trace/support.hpp"
#include "weft/explain.hpp"
#include "weft/grad.hpp"
#include "weft/ops.hpp"
#include "weft/vmap.hpp"

using namespace weft;
using loops_test::check_close;
using loops_test::noise;

namespace {

using Tensors = std::vector<Tensor>;

struct Equation {
  std::string a, b, output;
  std::string text() const { return a + "," + b + "->" + output; }
};

// Labels are lower-case letters; each has an axis in the order of the alphabet.
Tensor by_all_labels(const Equation& e, const Tensors& x) {
  std::string all;
  for (const char label : e.a + e.b)
    if (all.find(label) == all.npos) all += label;
  std::ranges::sort(all);
  const auto spread = [&](const Tensor& value, const std::string& labels) {
    std::vector<int> axes;
    for (const char label : all)
      if (const std::size_t at = labels.find(label); at != labels.npos) axes.push_back(static_cast<int>(at));
    Tensor result = permute(value, axes);
    for (std::size_t i = 0; i < all.size(); ++i)
      if (labels.find(all[i]) == labels.npos) result = unsqueeze(result, static_cast<int>(i));
    return result;
  };
  Tensor product = spread(x[0], e.a) * spread(x[1], e.b);
  std::string kept;
  std::vector<int> summed, order;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (e.output.find(all[i]) == e.output.npos)
      summed.push_back(static_cast<int>(i));
    else
      kept += all[i];
  if (!summed.empty()) product = sum(product, summed);
  for (const char label : e.output) order.push_back(static_cast<int>(kept.find(label)));
  return permute(product, order);
}

struct Drawn {
  Equation equation;
  std::vector<std::int64_t> a, b;
};
class Draws {
 public:
  explicit Draws(unsigned seed) : engine_(seed) {}
  int below(int count) { return std::uniform_int_distribution<int>(0, count - 1)(engine_); }
  // At most 3 labels of both, 2 of one alone, and 3 that are summed; at most 7, as the examples of vmap are an axis
  // too.
  Drawn draw() {
    for (;;)
      if (Drawn d = any(); label_count(d.equation) < max_rank) return d;
  }

 private:
  static int label_count(const Equation& e) {
    return static_cast<int>(std::ranges::count_if(
        std::string("abcdefghijkl"), [&](char label) { return (e.a + e.b).find(label) != std::string::npos; }));
  }
  Drawn any() {
    Drawn d;
    char next = 'a';
    std::vector<std::int64_t> sizes;
    const auto add = [&](int count, bool in_a, bool in_b, bool in_output) {
      for (int i = 0; i < count; ++i, ++next) {
        sizes.push_back(below(4) == 0 ? 1 : 2 + below(3));
        if (in_a) d.equation.a += next;
        if (in_b) d.equation.b += next;
        if (in_output) d.equation.output += next;
      }
    };
    add(below(4), true, true, true), add(below(3), true, false, true), add(below(3), false, true, true);
    add(1 + below(2), true, true, false), add(below(8) == 0, true, false, false);
    for (std::string* labels : {&d.equation.a, &d.equation.b, &d.equation.output})
      std::ranges::shuffle(*labels, engine_);
    const auto sizes_of = [&](const std::string& labels) {
      std::vector<std::int64_t> of;
      for (const char label : labels)  // an operand may broadcast
        of.push_back(below(12) == 0 ? 1 : sizes[static_cast<std::size_t>(label - 'a')]);
      return of;
    };
    d.a = sizes_of(d.equation.a), d.b = sizes_of(d.equation.b);
    return d;
  }

  std::mt19937 engine_;
};

std::size_t count_in(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("products over random labels are sums over all of them, with derivatives, symbolic sizes and vmap") {
  Draws draws(3);
  for (int i = 0; i < 120; ++i) {
    const Drawn d = draws.draw();
    const std::string text = d.equation.text();
    CAPTURE(text);
    const auto seed = static_cast<std::uint64_t>(3 * i);
    const Tensors x{noise(d.a, seed), noise(d.b, seed + 1)};
    const Tensor expected = by_all_labels(d.equation, x);
    check_close(einsum(text.c_str(), x), expected);
    const Tensor given = noise(expected.shape(), seed + 2);
    const auto slopes = [&](const auto& f) { return grad([&](const Tensors& at) { return sum(f(at) * given); }, x); };
    const Tensors wanted = slopes([&](const Tensors&at) { return by_all_labels(d.equation, at); }),
                  found = slopes([&](const Tensors&at) { return einsum(text.c_str(), at); });
    for (std::size_t j = 0; j < 2; ++j) check_close(found[j], wanted[j]);

    const auto by_text = [](const Tensors& at, const std::string& text) { return einsum(text.c_str(), at); };
    for (const bool dynamic : {false, true}) {
      CompileOptions options{.on_compile_error = OnFailure::raise};
      if (dynamic) options.dynamic = true;
      if (i % 20 != 0) options.backend = "aot_eager";  // after all passes, without kernels
      check_close(compile(by_text, options)(x, text), expected);
    }
    // Examples along the last axis of the first operand, and none in the second; or in both.
    const Tensor many = noise({3}, seed) + unsqueeze(x[0], -1);
    Tensors rows, pairs;
    for (int example = 0; example < 3; ++example) {
      const Tensor one = select(many, -1, example);
      rows.push_back(einsum(text.c_str(), {one, x[1]}));
      pairs.push_back(einsum(text.c_str(), {one, x[1] * (example + 1)}));
    }
    const auto product = [&](const Tensor& a, const Tensor& b) { return einsum(text.c_str(), {a, b}); };
    check_close(vmap(product, {.in_axes = {-1, std::nullopt}})(many, x[1]), stack(rows, 0));
    check_close(vmap(product, {.in_axes = {-1, 0}})(many, stack({x[1], x[1] * 2, x[1] * 3}, 0)), stack(pairs, 0));
  }
}

TEST_CASE("labels of both operands are batch axes of one product, in any order and through an ellipsis") {
  struct Case {
    const char* equation;
    Sizes a, b;
    int reshapes = 0;
  };
  const Case cases[] = {
      {"bhqd,bhkd->bhqk", {2, 3, 5, 4}, {2, 3, 6, 4}},
      {"bqhd,bkhd->bhqk", {2, 5, 3, 4}, {2, 6, 3, 4}},
      {"bhqk,bkhd->bqhd", {2, 3, 5, 6}, {2, 6, 3, 4}},
      {"bkhd,bqhd->bhqk", {2, 6, 3, 4}, {2, 5, 3, 4}},
      {"...qd,...kd->...qk", {2, 3, 5, 4}, {2, 3, 6, 4}},
      {"bij,bjk->bik", {2, 3, 5}, {2, 5, 6}},
      {"ij,jk->ki", {3, 5}, {5, 6}},
      {"bhqrd,bkhd->bhqrk", {2, 3, 5, 2, 4}, {2, 6, 3, 4}, 2},  // q and r are the rows
  };
  for (const Case& c : cases) {
    CAPTURE(std::string(c.equation));
    const Tensors x{noise(c.a, 1), noise(c.b, 2)};
    const auto product = compile([](const Tensors& at, const std::string& text) { return einsum(text.c_str(), at); },
                                 {.backend = "aot_eager"});
    const std::string graph = explain(product, x, std::string(c.equation)).graph;
    CAPTURE(graph);
    CHECK(count_in(graph, "= matmul") == 1);
    CHECK(count_in(graph, "= reshape") == static_cast<std::size_t>(c.reshapes));
  }
}
