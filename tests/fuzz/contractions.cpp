// Products with what is around them, attention, convolutions and pools.
#include "fuzz/function.hpp"

namespace fuzz {

namespace {

using namespace weft;
using Numbers = std::span<const std::int64_t>;
using Inputs = std::span<const Tensor>;

// Products take the reference most of the time: they are small.
constexpr std::int64_t most_side = 192;

void draw_product(Draw& draw, Function& f) {
  const DType dtype = draw.floating();
  const std::int64_t batch = draw.any<std::int64_t>({1, 1, 2, 5}), rows = draw.size(most_side),
                     inner = draw.size(most_side), columns = draw.size(most_side);
  const bool turned_a = draw.one_in(3), turned_b = draw.one_in(3);
  const auto sizes = [&](std::int64_t first, std::int64_t second, bool turned) {
    return turned ? std::vector{batch, second, first} : std::vector{batch, first, second};
  };
  f.inputs = {{sizes(rows, inner, turned_a), dtype},
              {sizes(inner, columns, turned_b), dtype},
              {{columns}, dtype},
              {{batch, rows, columns}, dtype}};
  f.numbers = {turned_a, turned_b, draw.below(6)};
  f.gradient = draw.one_in(2);
}
Results products(Numbers n, Inputs x) {
  const Tensor a = n[0] ? transpose(x[0]) : x[0], b = n[1] ? transpose(x[1]) : x[1];
  const Tensor y = matmul(a, b) * (1 / 8.0);
  switch (n[2]) {
    case 0: return {{y}, {}};
    case 1: return {{gelu(y + x[2])}, {}};
    case 2: return {{silu(y) * x[3]}, {}};
    case 3: return {{softmax(y + x[2], -1)}, {}};
    case 4: return {{x[3] + tanh(y), sum(y, {-1})}, {}};
    default: return {{matmul(transpose(y), y) / 8, mean(y, {1})}, {}};
  }
}

void draw_mlp(Draw& draw, Function& f) {
  const DType dtype = draw.floating();
  const std::int64_t rows = draw.size(256), in = draw.size(128), hidden = draw.size(192);
  f.inputs = {{{rows, in}, dtype}, {{hidden, in}, dtype}, {{hidden, in}, dtype}, {{in, hidden}, dtype}, {{in}, dtype}};
  f.numbers = {draw.below(3)};
  f.gradient = draw.one_in(2);
}
Results gated_mlp(Numbers n, Inputs x) {
  const Tensor h = nn::rms_norm(x[0], x[4], 1e-5) / 4;
  const Tensor gate = nn::linear(h, x[1]), up = nn::linear(h, x[2]);
  const Tensor inside = n[0] == 0 ? silu(gate) * up : n[0] == 1 ? gelu(gate) + up : nn::glu(concat({up, gate}, -1));
  return {{x[0] + nn::linear(inside / 4, x[3], x[4])}, {}};
}

void draw_attention(Draw& draw, Function& f) {
  const DType dtype = draw.floating();
  const std::int64_t batch = draw.between(1, 3), heads = draw.between(1, 4),
                     depth = draw.any<std::int64_t>({8, 16, 32, 64, 24}), queries = draw.size(160),
                     keys = draw.one_in(2) ? queries : draw.size(160);
  f.inputs = {{{batch, heads, queries, depth}, dtype},
              {{batch, heads, keys, depth}, dtype},
              {{batch, heads, keys, depth}, dtype},
              {{queries, keys}, dtype}};
  f.numbers = {draw.below(queries == keys ? 3 : 2)};
  f.gradient = draw.one_in(2);
}
Results attention(Numbers n, Inputs x) {
  if (n[0] == 2) return {{nn::scaled_dot_product_attention(x[0], x[1], x[2], {.is_causal = true})}, {}};
  if (n[0] == 1) return {{nn::scaled_dot_product_attention(x[0], x[1], x[2], {.attn_mask = x[3]})}, {}};
  return {{nn::scaled_dot_product_attention(x[0], x[1], x[2])}, {}};
}

void draw_convolution(Draw& draw, Function& f) {
  const DType dtype = draw.floating();
  const std::int64_t groups = draw.any<std::int64_t>({1, 1, 1, 2, 3}), in = groups * draw.size(12),
                     out = groups * draw.size(12);
  const std::int64_t kernel = draw.between(1, 4), height = draw.between(5, 30), width = draw.between(5, 30);
  f.inputs = {
      {{draw.between(1, 4), in, height, width}, dtype}, {{out, in / groups, kernel, kernel}, dtype}, {{out}, dtype}};
  f.numbers = {draw.below(3), draw.between(1, 2), draw.between(0, kernel / 2), groups};
  f.gradient = draw.one_in(2);
}
Results convolutions(Numbers n, Inputs x) {
  const Conv2dOptions options{.stride = n[1], .padding = n[2], .groups = n[3]};
  const Tensor y = conv2d(x[0] / 4, x[1], x[2], options);
  if (n[0] == 0) return {{y}, {}};
  if (n[0] == 1) return {{silu(y), mean(y, {2, 3})}, {}};
  return {{gelu(conv2d(reshape(x[0], {x[0].size(0), x[0].size(1), -1, 1}), slice(slice(x[1], 2, 0, 1), 3, 0, 1), x[2],
                       {.groups = n[3]}))},
          {}};
}

void draw_pool(Draw& draw, Function& f) {
  const DType dtype = draw.floating();
  f.inputs = {{{draw.between(1, 4), draw.size(16), draw.between(6, 40), draw.between(6, 40)}, dtype}};
  f.numbers = {draw.below(4), draw.between(2, 4), draw.between(1, 3)};
  f.gradient = f.numbers[0] % 2 == 1 && draw.one_in(2);
}
Results pools(Numbers n, Inputs x) {
  switch (n[0]) {
    case 0: return {{}, {max_pool2d(x[0], n[1], {.stride = n[2]})}};
    case 1: return {{avg_pool2d(tanh(x[0]), n[1], {.stride = n[2]})}, {}};
    case 2: return {{mean(x[0], {2, 3})}, {adaptive_max_pool2d(x[0], n[1])}};
    default:
      return {{nn::interpolate(x[0], {.size = {n[1] * 7, n[2] * 9}, .mode = nn::Interpolation::bilinear}),
               adaptive_avg_pool2d(x[0], n[2])},
              {}};
  }
}

void draw_einsum(Draw& draw, Function& f) {
  const DType dtype = draw.floating();
  const std::int64_t b = draw.size(12), i = draw.size(48), j = draw.size(48), k = draw.size(48);
  f.inputs = {{{b, i, j}, dtype}, {{b, j, k}, dtype}, {{j, k}, dtype}};
  f.numbers = {draw.below(4)};
  f.gradient = draw.one_in(2);
}
Results einsums(Numbers n, Inputs x) {
  switch (n[0]) {
    case 0: return {{einsum("bij,bjk->bik", {x[0], x[1]}) / 4}, {}};
    case 1: return {{einsum("bij,jk->kb", {x[0], x[2]}) / 8}, {}};
    case 2: return {{einsum("bij,bjk->ik", {x[0], x[1]}) / 8}, {}};
    default: return {{einsum("bij,bjk,jk->b", {x[0], x[1], x[2]}) / 64}, {}};
  }
}

constexpr Family families[] = {
    {"products", 12, draw_product, products},
    {"gated MLP", 5, draw_mlp, gated_mlp},
    {"attention", 8, draw_attention, attention},
    {"convolutions", 6, draw_convolution, convolutions},
    {"pools", 6, draw_pool, pools},
    {"einsums", 4, draw_einsum, einsums},
};

}  // namespace

std::span<const Family> families_of_contractions() { return families; }

}  // namespace fuzz
