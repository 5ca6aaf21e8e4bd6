// Pads, slices and concatenations, fused with operations around them: the same bits as eagerly, forward and backward,
// for one shape and for all.
#include "tests/trace/support.hpp"
#include "weft/grad.hpp"
#include "weft/random.hpp"

using namespace weft;
using namespace trace_test;

namespace {

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.element_count().constant() != b.element_count().constant()) return false;
  return text_of(a) == text_of(b);
}

Tensor shifted(const Tensor& x, int row, int column) {
  const Dim rows = x.size(0) - Dim(2), columns = x.size(1) - Dim(2);
  return slice(slice(x, 0, row, Dim(row) + rows), 1, column, Dim(column) + columns);
}
Tensor stencil(const Tensor& x) {
  return shifted(x, 1, 1) * 0.5 + (shifted(x, 0, 1) + shifted(x, 2, 1) + shifted(x, 1, 0) + shifted(x, 1, 2)) * 0.125;
}
Tensor roll(const Tensor& x, int axis, int by) {
  return concat({slice(x, axis, by, slice_end), slice(x, axis, 0, by)}, axis);
}
// Halves of the last axis exchanged, one with its sign.
Tensor rotated(const Tensor& x) {
  const Dim half = x.size(1) / Dim(2);
  const Tensor first = slice(x, 1, 0, half), second = slice(x, 1, half, half + half);
  return concat({-second, first}, 1);
}

std::vector<Tensor> moves(const Tensor& x) {
  const Tensor padded = pad(pad(x, 0, 1, 2), 1, 2, 1);
  return {
      padded,
      pad(x, 1, 3, 0) * 2,
      pad(x + 1, 0, 0, 3),
      pad(x, 1, 1, 2, 1),
      pad(x, 0, 1, 0, 2) + 1,
      pad(x, 1, 2, 1, 2),
      pad(pad(transpose(x), 1, 1, 2), 0, 2, 1),
      shifted(padded, 0, 2) + shifted(padded, 2, 0),
      roll(x, 0, 3),
      roll(x, 1, 2),
      roll(transpose(x), 1, 2),
      concat({x * 2, x + 1}, 0) * 3,
      concat({x, x + 1, x * 2}, 1) + 1,
      rotated(x) + x,
      flip(pad(x, 1, 2, 3), 1),
      slice(pad(x, 1, 5, 5), 1, 1, slice_end, 3),
      reshape(pad(x, 1, 1, 1), {-1}),
      sum(pad(x, 1, 2, 2), 1),
      sum(concat({x, x * 2}, 0), 0),
      amax(pad(x, 0, 1, 1), 0),
      gather(pad(x, 0, 1, 1), flip(arange(4), 0)),
  };
}
std::vector<Tensor> moves_of_floats(const Tensor& x) {
  const Tensor padded = pad(gelu(x), 1, 1, 1);
  return {
      stencil(x),
      stencil(pad(pad(x, 0, 1, 1), 1, 1, 1)),
      slice(padded, 1, 0, x.size(1)) + slice(padded, 1, 1, x.size(1) + Dim(1)) + slice(padded, 1, 2, slice_end),
      relu(concat({exp(x), x - 1}, 1)),
      softmax(pad(x, 1, 2, 2), 1),
      softmax(concat({x, -x}, 1), 1),
      concat({softmax(x, 1), x * 2, sum(x, 1, true)}, 1) * 2,
  };
}

Tensor squares(const std::vector<Tensor>& values) {
  Tensor total;
  for (const Tensor& value : values) total = total.defined() ? total + sum(value * value) : sum(value * value);
  return total;
}

template <class F>
void check_bits(F f, DType dtype) {
  CompileOptions options{.on_compile_error = OnFailure::raise, .recompile_limit = 100};
  auto fixed = compile(f, options);
  options.dynamic = true;
  auto symbolic = compile(f, options);
  Generator rng(7);
  for (const auto& [rows, columns] : {std::pair{5, 6}, {7, 34}, {40, 16}, {6, 300}}) {
    if (dtype != DType::f32 && columns != 34) continue;
    const Tensor x = cast(round(normal({rows, columns}, 0, 3, rng) * 8) * 0.125, dtype);
    const std::vector<Tensor> eager = f(x), one = fixed(x), any = symbolic(x);
    for (std::size_t i = 0; i < eager.size(); ++i) {
      INFO("result ", i, " of ", rows, " x ", columns, ", ", std::string(info(dtype).name));
      CHECK(same_bits(eager[i], one[i]));
      CHECK(same_bits(eager[i], any[i]));
    }
  }
}

}  // namespace

TEST_CASE("pads and concatenations give the bits of the eager ones") {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i32, DType::i64, DType::u8})
    check_bits([](const Tensor& x) { return moves(x); }, dtype);
  for (const DType dtype : {DType::f32, DType::bf16})
    check_bits([](const Tensor& x) { return moves_of_floats(x); }, dtype);
  check_bits(
      [](const Tensor& x) {
        return std::vector<Tensor>{pad(x, 1, 1, 1), roll(x, 1, 2), concat({x, ~x}, 0) & pad(x, 0, 0, x.size(0))};
      },
      DType::boolean);
}

TEST_CASE("their gradients have the bits of the eager ones") {
  check_bits(
      [](const Tensor& x) { return std::vector<Tensor>{grad([](const Tensor& v) { return squares(moves(v)); }, x)}; },
      DType::f32);
  check_bits(
      [](const Tensor& x) {
        std::vector<Tensor> all;
        for (int i = 0; i < 3; ++i)
          all.push_back(
              grad([&](const Tensor& v) { return squares({moves_of_floats(v)[static_cast<std::size_t>(i)]}); }, x));
        return all;
      },
      DType::f32);
}
