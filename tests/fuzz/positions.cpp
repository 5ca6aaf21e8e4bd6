// Reading and writing at positions, rearrangements, elementwise arithmetic, steps of optimizers.
#include "fuzz/function.hpp"

namespace fuzz {

namespace {

using namespace weft;
using Numbers = std::span<const std::int64_t>;
using Inputs = std::span<const Tensor>;

constexpr std::int64_t most = 1 << 19;

void draw_rows(Draw& draw, Function& f) {
  const DType dtype = draw.floating();
  const std::vector<std::int64_t> sizes = draw.matrix(most / 2);
  const std::int64_t count = draw.size(std::max<std::int64_t>(1, std::min<std::int64_t>(4096, most / sizes[1])));
  f.inputs = {{sizes, dtype},
              {{count}, draw.any({DType::i64, DType::i32}), Input::Kind::index, sizes[0]},
              {{count, sizes[1]}, dtype},
              {{sizes[1]}, dtype}};
  f.numbers = {draw.below(6)};
  f.gradient = f.numbers[0] < 4 && draw.one_in(2);
}
Results rows(Numbers n, Inputs x) {
  switch (n[0]) {
    case 0: return {{nn::embedding(x[1], x[0]) * x[3]}, {}};
    case 1: return {{index_add(x[0], 0, x[1], x[2] / 4)}, {}};
    case 2: return {{nn::layer_norm(gather(x[0], x[1]) + x[2], x[3], x[3])}, {}};
    case 3: return {{sum(index_select(x[0], 0, x[1]) * x[2], {1})}, {}};
    case 4:
      return {{}, {scatter_reduce(x[0], 0, expand(unsqueeze(x[1], 1), x[2].shape()), x[2], ScatterReduction::amax)}};
    default: return {{}, {set_rows(x[0], x[1], x[2]), bincount(x[1], x[0].size(0)), index_select(x[0], 0, x[1])}};
  }
}

void draw_rearranged(Draw& draw, Function& f) {
  const DType dtype = draw.one_in(3) ? draw.integer() : draw.floating();
  const std::int64_t a = draw.size(64), b = draw.size(128), c = draw.size(64);
  f.inputs = {{{a, b, c}, dtype, is_floating(dtype) ? Input::Kind::normal : Input::Kind::integer}};
  f.numbers = {draw.below(8)};
}
Results rearranged(Numbers n, Inputs x) {
  const Tensor& y = x[0];
  switch (n[0]) {
    case 0: return {{}, {permute(y, {2, 0, 1}) + 1, transpose(y)}};
    case 1: return {{}, {concat({y, flip(y, 1)}, 1), stack({y, y}, 0)}};
    case 2: return {{}, {pad(y, {2, 1, 1, 0}), roll(y, 3, 1)}};
    case 3: return {{}, {reshape(transpose(y, 0, 1), {y.size(1), -1})}};
    case 4: return {{}, {slice(y, 1, 0, slice_end, 2), repeat_interleave(y, 2, 2)}};
    case 5: return {{}, {tile(y, {1, 2, 1}), squeeze(narrow(y, 1, 0, 1), 1)}};
    case 6: return {{}, {permute(concat({permute(y, {1, 2, 0}), permute(y, {1, 2, 0})}, 0), {2, 1, 0})}};
    default: return {{}, {tril(y), triu(y, 1), where(y > 0, y, 0)}};
  }
}

void draw_elementwise(Draw& draw, Function& f) {
  const DType dtype = draw.floating();
  const std::vector<std::int64_t> sizes = draw.matrix(most);
  f.inputs = {{sizes, dtype},
              {{sizes[0], 1}, dtype},
              {{1, sizes[1]}, dtype, Input::Kind::positive},
              {sizes, DType::boolean, Input::Kind::boolean}};
  f.numbers = {draw.below(6)};
  f.gradient = draw.one_in(2);
}
Results elementwise(Numbers n, Inputs x) {
  switch (n[0]) {
    case 0: return {{where(x[3], x[0] * x[1], tanh(x[0]) / x[2])}, {}};
    case 1: return {{exp(-square(x[0])) * log(x[2]) + x[1]}, {}};
    case 2: return {{masked_fill(x[0], x[3], 0.5) * sigmoid(x[1] + x[2])}, {}};
    case 3: return {{lerp(x[0], x[1], 0.3) + rsqrt(x[2]), clamp(x[1], -0.5, 0.5)}, {}};
    case 4: return {{sin(x[0]) * cos(x[1]) + pow(x[2], 1.5)}, {}};
    default: return {{softplus(x[0] + x[1]) * erf(x[2]), atan2(x[1], x[2])}, {}};
  }
}

// AdamW by hand.
void draw_step(Draw& draw, Function& f) {
  const DType dtype = draw.any({DType::f32, DType::f32, DType::f64, DType::bf16});
  const std::vector<std::int64_t> sizes = draw.matrix(most);
  f.inputs = {{sizes, dtype}, {sizes, dtype}, {sizes, dtype}, {sizes, dtype, Input::Kind::positive}};
  f.numbers = {draw.below(2)};
}
Results step(Numbers n, Inputs x) {
  const Tensor scale = n[0] ? 1 / (norm(x[1]) + 1) : full({}, 1.0, {x[1].dtype(), x[1].device()});
  const Tensor g = x[1] * scale, m = x[2] * 0.9 + g * 0.1, v = x[3] * 0.99 + square(g) * 0.01;
  return {{x[0] * 0.99 - m / (sqrt(v) + 1e-3) * 0.1, m, v}, {}};
}

void draw_positions(Draw& draw, Function& f) {
  const DType dtype = draw.floating();
  const std::int64_t batch = draw.size(16), length = draw.size(256), depth = 2 * draw.size(32);
  f.inputs = {{{batch, length, depth}, dtype}, {{batch, length}, DType::i64, Input::Kind::index, depth}};
  f.numbers = {draw.below(3)};
  f.gradient = draw.one_in(2);
}
Results positions(Numbers n, Inputs x) {
  if (n[0] == 0) {  // rotary embedding
    const Dim half = x[0].size(2) / 2;
    const Tensor angle = unsqueeze(arange(x[0].size(1), {DType::f64, x[0].device()}), 1) /
                         (1 + arange(half, {DType::f64, x[0].device()}));
    const Tensor c = cast(cos(angle), x[0].dtype()), s = cast(sin(angle), x[0].dtype());
    const Tensor a = narrow(x[0], 2, 0, half), b = narrow(x[0], 2, half, half);
    return {{concat({a * c - b * s, a * s + b * c}, 2)}, {}};
  }
  const Tensor index = unsqueeze(x[1], 2);
  if (n[0] == 1) return {{squeeze(gather(log_softmax(x[0]), 2, index), 2)}, {}};
  return {{scatter_add(x[0], 2, index, ones_like(narrow(x[0], 2, 0, 1))) * 0.5}, {}};
}

constexpr Family families[] = {
    {"rows", 10, draw_rows, rows},
    {"rearranged", 8, draw_rearranged, rearranged},
    {"elementwise", 6, draw_elementwise, elementwise},
    {"optimizer step", 4, draw_step, step},
    {"positions", 6, draw_positions, positions},
};

}  // namespace

std::span<const Family> families_of_positions() { return families; }

}  // namespace fuzz
