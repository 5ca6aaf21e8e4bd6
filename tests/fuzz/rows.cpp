// Norms, softmaxes, losses, reductions, scans and sorts.
#include "fuzz/function.hpp"

namespace fuzz {

namespace {

using namespace weft;
using Numbers = std::span<const std::int64_t>;
using Inputs = std::span<const Tensor>;

constexpr std::int64_t most = 1 << 19;

// x[rows, columns] and vectors of the columns.
void draw_norm(Draw& draw, Function& f) {
  const DType dtype = draw.floating();
  const std::vector<std::int64_t> sizes = draw.matrix(most);
  f.inputs = {{sizes, dtype}, {sizes, dtype}, {{sizes[1]}, dtype}, {{sizes[1]}, dtype}};
  f.numbers = {draw.below(4)};
  f.gradient = sizes[1] > 1 && !draw.one_in(3);
}
Results norm_of_rows(Numbers n, Inputs x) {
  const Tensor sum = n[0] % 2 ? x[0] + x[1] : x[0];
  const Tensor normal = n[0] < 2 ? nn::layer_norm(sum, x[2], x[3]) : nn::rms_norm(sum, x[2], 1e-5) * x[3];
  return {n[0] % 2 ? std::vector<Tensor>{normal, sum} : std::vector<Tensor>{normal}, {}};
}

void draw_images(Draw& draw, Function& f) {
  const DType dtype = draw.floating();
  const std::int64_t groups = draw.any<std::int64_t>({1, 2, 3, 4}), channels = groups * draw.size(32);
  const std::int64_t batch = draw.size(8), height = draw.between(2, 40), width = draw.between(2, 40);
  f.inputs = {{{batch, channels, height, width}, dtype}, {{channels}, dtype}, {{channels}, dtype}};
  f.numbers = {draw.below(3), groups};
  f.gradient = !draw.one_in(3);
}
Results norm_of_images(Numbers n, Inputs x) {
  if (n[0] == 0) return {{nn::group_norm(x[0], n[1], x[1], x[2])}, {}};
  if (n[0] == 1) return {{nn::instance_norm(x[0], x[1], x[2])}, {}};
  const Tensor center = x[0] - mean(x[0], {0, 2, 3}, true);
  const Tensor scale = rsqrt(mean(square(center), {0, 2, 3}, true) + 1e-5);
  return {{center * scale * reshape(x[1], {1, -1, 1, 1}) + reshape(x[2], {1, -1, 1, 1})}, {}};
}

void draw_softmax(Draw& draw, Function& f) {
  const DType dtype = draw.floating();
  f.inputs = {{draw.matrix(most), dtype}};
  f.numbers = {draw.below(4), draw.below(2)};
  f.gradient = !draw.one_in(3);
}
Results softmaxes(Numbers n, Inputs x) {
  const int axis = static_cast<int>(n[1]);
  switch (n[0]) {
    case 0: return {{softmax(x[0] * 2, axis)}, {}};
    case 1: return {{log_softmax(x[0], axis)}, {}};
    case 2: return {{logsumexp(x[0], axis, true) - x[0]}, {}};
    default: return {{softmax(tanh(x[0] / 4) * 4, axis) * x[0], sum(softmax(x[0], 1 - axis), {axis})}, {}};
  }
}

void draw_loss(Draw& draw, Function& f) {
  const DType dtype = draw.floating();
  const std::vector<std::int64_t> sizes = draw.matrix(most);
  f.inputs = {{sizes, dtype},
              {{sizes[0]}, draw.any({DType::i64, DType::i32}), Input::Kind::index, sizes[1]},
              {sizes, dtype},
              {sizes, dtype, Input::Kind::positive}};
  f.numbers = {draw.below(7)};
  f.gradient = !draw.one_in(4);
}
Results losses(Numbers n, Inputs x) {
  switch (n[0]) {
    case 0: return {{nn::cross_entropy(x[0], x[1])}, {}};
    case 1: return {{nn::cross_entropy(x[0], x[1], {.label_smoothing = 0.1})}, {}};
    case 2: return {{nn::mse_loss(x[0], x[2])}, {}};
    case 3: return {{nn::huber_loss(x[0] * 3, x[2])}, {}};
    case 4: return {{nn::binary_cross_entropy_with_logits(x[0], sigmoid(x[2]))}, {}};
    case 5: return {{nn::kl_div(log_softmax(x[0]), softmax(x[2])), mean(x[0] * x[2], {0})}, {}};
    default: return {{nn::cosine_similarity(x[0], x[3], 1)}, {}};
  }
}

// Both axes of one tensor at once.
void draw_reductions(Draw& draw, Function& f) {
  const DType dtype = draw.floating();
  const std::vector<std::int64_t> sizes = draw.matrix(most);
  f.inputs = {{sizes, dtype}, {{1}, dtype}};
  f.numbers = {sizes[0] == 1 ? draw.any<std::int64_t>({0, 1, 4}) : draw.below(6)};  // one row has no deviations
  f.gradient = f.numbers[0] < 4 && !draw.one_in(3);
}
Results reductions(Numbers n, Inputs x) {
  const Tensor y = n[0] % 2 ? gelu(x[0] * x[1]) : x[0] + x[1];
  switch (n[0]) {
    case 0: return {{sum(y, {0}), mean(y, {1}), mean(square(y))}, {}};
    case 1: return {{sum(y, {1}), y / (1 + sum(abs(y), {0}, true))}, {}};
    case 2: return {{y - mean(y, {0}, true), mean(y * y, {1})}, {}};
    case 3: return {{mean(y), y * softmax(y, 0)}, {}};
    case 4: return {{norm(x[0], {1})}, {amax(x[0], {0}), amin(x[0], {1}), argmax(x[0], 1), argmin(x[0], 0)}};
    default: return {{var(x[0], {0}), var(x[0], {1}, 0)}, {any(x[0] > 2.5, {1}), all(x[0] < 2.5, {0}), amax(x[0])}};
  }
}

void draw_deep_reduction(Draw& draw, Function& f) {
  const DType dtype = draw.floating();
  const std::int64_t first = draw.size(64), second = draw.size(128), third = draw.size(64);
  f.inputs = {{{first, second, third}, dtype}, {{second, third}, dtype}};
  f.numbers = {draw.below(3), draw.below(2)};
  f.gradient = draw.one_in(2);
}
Results deep_reduction(Numbers n, Inputs x) {
  const Tensor y = x[0] * x[1];
  const int axis = static_cast<int>(n[0]);
  Axes others = axis == 0 ? Axes{1, 2} : axis == 1 ? Axes{0, 2} : Axes{0, 1};
  return {{sum(y, {axis}), n[1] ? mean(y, others) : sum(y * y, others, true) * x[0]}, {}};
}

void draw_scan(Draw& draw, Function& f) {
  const DType dtype = draw.floating();
  f.inputs = {{draw.matrix(most / 2), dtype}};
  f.numbers = {draw.below(4), draw.below(2)};
  f.gradient = f.numbers[0] == 0 && draw.one_in(2);
}
Results scans(Numbers n, Inputs x) {
  const int axis = static_cast<int>(n[1]);
  switch (n[0]) {
    case 0: return {{cumsum(x[0] / 8, axis), sum(x[0], {axis})}, {}};
    case 1: {
      const auto [values, indices] = cummax(x[0], axis);
      return {{}, {values, indices}};
    }
    case 2: return {{logcumsumexp(x[0], axis)}, {amax(x[0], {1 - axis})}};
    default: return {{cumsum(softmax(x[0], axis), axis)}, {cummin(x[0], axis).values}};
  }
}

void draw_sort(Draw& draw, Function& f) {
  const bool whole = draw.one_in(3);
  const DType dtype = whole ? draw.integer() : draw.floating();
  const std::vector<std::int64_t> sizes = draw.matrix(most / 2);
  f.inputs = {{sizes, dtype, whole ? Input::Kind::integer : Input::Kind::special}};
  f.numbers = {draw.below(6), draw.below(2), draw.below(2), draw.size(std::min(sizes[0], sizes[1]))};
}
Results sorts(Numbers n, Inputs x) {
  const int axis = static_cast<int>(n[1]);
  const bool descending = n[2] != 0;
  switch (n[0]) {
    case 0: return {{}, {argsort(x[0], axis, descending)}};
    case 1: {
      const auto [values, indices] = sort(x[0], axis, descending);
      return {{}, {values, indices}};
    }
    case 2: {
      const auto [values, indices] = topk(x[0], n[3], axis, descending);
      return {{}, {values, indices}};
    }
    case 3: return {{}, {sort(x[0], 1).values, topk(x[0], n[3], 1).values, sort(x[0], 0).values}};
    case 4: return {{}, {kthvalue(x[0], n[3], axis).values, median(x[0], 1 - axis).values}};
    default: return {{}, {argsort(x[0], 0, descending), argsort(x[0], 1, !descending), amax(x[0], {axis})}};
  }
}

void draw_integers(Draw& draw, Function& f) {
  const DType dtype = draw.integer();
  const std::vector<std::int64_t> sizes = draw.matrix(most);
  f.inputs = {{sizes, dtype, Input::Kind::integer}, {sizes, dtype, Input::Kind::integer}};
  f.numbers = {draw.below(4), draw.below(2)};
}
Results integers(Numbers n, Inputs x) {
  const int axis = static_cast<int>(n[1]);
  switch (n[0]) {
    case 0: return {{}, {sum(x[0], {1}), amax(x[0], {0}), cumsum(x[0], axis)}};
    case 1: return {{}, {(x[0] * x[1] + 3) ^ (x[0] >> 1), sum(x[0] * x[1], {axis}), prod(x[1], {1 - axis})}};
    case 2: return {{}, {floor_divide(x[0], x[1] * x[1] + 1), remainder(x[0], 7), where(x[0] > x[1], x[0], x[1])}};
    default: return {{}, {argmax(x[0], axis), any(x[0] == x[1], {axis}), count_nonzero(x[0], {1 - axis}), x[0] & x[1]}};
  }
}

// Several blocks one after the other, each of which keeps the shape: what fuses with what varies most here.
void draw_chain(Draw& draw, Function& f) {
  const DType dtype = draw.floating();
  const std::vector<std::int64_t> sizes = draw.matrix(dtype == DType::f16 ? 4096 : most / 2);
  f.inputs = {{sizes, dtype}, {{sizes[1]}, dtype}, {{sizes[0], 1}, dtype}};
  const bool has_deviations = sizes[0] > 2 && sizes[1] > 2;
  const std::int64_t steps = draw.between(2, 5);
  for (std::int64_t i = 0; i < steps; ++i)
    f.numbers.push_back(has_deviations ? draw.below(12) : draw.any<std::int64_t>({0, 1, 3, 6, 7, 8, 9, 11}));
  f.gradient = sizes[0] > 1 && sizes[1] > 1 && draw.one_in(2);
}
Tensor step_of_chain(std::int64_t which, const Tensor& y, Inputs x) {
  switch (which) {
    case 0: return gelu(y + x[1]);
    case 1: return silu(y) * x[2];
    case 2: return nn::layer_norm(y, x[1], x[1]);
    case 3: return softmax(y, 1) + y;
    case 4: return y - mean(y, {0}, true);
    case 5: return y * sigmoid(sum(y * x[1], {1}, true) / 16);
    case 6: return roll(y, 1, 1) + y / 2;
    case 7: return transpose(tanh(transpose(y)) + 0.5);
    case 8: return cumsum(y, 1) / 16 + x[2];
    case 9: return concat({slice(y, 0, 1), slice(y, 0, 0, 1)}, 0) * 0.75;
    case 10: return y / (1 + sum(abs(y), {0}, true));
    default: return flip(y, 1) + exp(-square(y));
  }
}
Results chain(Numbers n, Inputs x) {
  Tensor y = x[0];
  std::vector<Tensor> results;
  for (const std::int64_t which : n) {
    y = step_of_chain(which, y, x);
    if (which % 5 == 1) results.push_back(sum(y, {static_cast<int>(which % 2)}));
  }
  results.push_back(y);
  return {results, {}};
}

constexpr Family families[] = {
    {"norm of rows", 10, draw_norm, norm_of_rows},
    {"norm of images", 5, draw_images, norm_of_images},
    {"softmaxes", 8, draw_softmax, softmaxes},
    {"losses", 8, draw_loss, losses},
    {"reductions", 10, draw_reductions, reductions},
    {"deep reduction", 5, draw_deep_reduction, deep_reduction},
    {"scans", 8, draw_scan, scans},
    {"sorts", 8, draw_sort, sorts},
    {"integers", 8, draw_integers, integers},
    {"chain", 25, draw_chain, chain},
};

}  // namespace

std::span<const Family> families_of_rows() { return families; }

}  // namespace fuzz
