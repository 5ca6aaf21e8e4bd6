// Pads and concatenations as formulas: fused with what feeds them and with what reads them.
#include <algorithm>

#include "tests/schedule/support.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace weft::test;

namespace {

std::string text_of(const loop::Kernel& kernel) {
  loop::Kernel plain = kernel;
  plain.name = "k";
  return loop::to_text(plain);
}

// y = 0.5 of an element and 0.125 of each of its neighbours.
Tensor stencil(const Tensor& x) {
  const auto at = [&](int row, int column) {
    const Dim rows = x.size(0) - Dim(2), columns = x.size(1) - Dim(2);
    return slice(slice(x, 0, row, Dim(row) + rows), 1, column, Dim(column) + columns);
  };
  return at(1, 1) * 0.5 + (at(0, 1) + at(2, 1) + at(1, 0) + at(1, 2)) * 0.125;
}

Tensor depthwise(const Tensor& x, const Tensor& weight) {
  const Tensor padded = pad(pad(x, 2, 1, 1), 3, 1, 1);
  Tensor total;
  for (int row = 0; row < 3; ++row)
    for (int column = 0; column < 3; ++column) {
      const Tensor part = slice(slice(padded, 2, row, Dim(row) + x.size(2)), 3, column, Dim(column) + x.size(3));
      const Tensor scaled = part * slice(slice(weight, 1, row, row + 1), 2, column, column + 1);
      total = total.defined() ? total + scaled : scaled;
    }
  return total;
}

}  // namespace

TEST_CASE("a pad is one kernel: tests of the index are the predicate of its load") {
  Traced t;
  Schedule schedule = t.schedule({pad(t.f32(64, 96), 1, 2, 3)});
  REQUIRE(schedule.steps.size() == 1);
  CHECK(text_of(kernel(schedule, 0)) == R"(k(f32 p0[6144], out f32 p1[6464])
  outer i0<64 outer i1<101 vector
  outer0 v0 bool = 0 <= i1 - 2
  outer0 v1 bool = 0 <= -i1 + 97
  outer0 v2 bool = bitwise_and(v0, v1)
  outer0 v3 f32 = p0[96*i0 + i1 - 2] where v2
  outer0 p1[101*i0 + i1] = v3
)");
}

TEST_CASE("a pad that a product reads is one kernel and memory") {
  Traced t;
  const Schedule schedule = t.schedule({matmul(pad(t.f32(8, 14), 1, 1, 1), t.f32(16, 4))});
  REQUIRE(schedule.steps.size() == 2);
  CHECK(schedule.steps[1].name == "matmul");
}

TEST_CASE("a pad that is read through windows is memory: each of its elements is tested once") {
  Traced t;
  const Tensor padded = pad(pad(t.f32(2, 8, 14, 14), 2, 1, 1), 3, 1, 1);
  Windows each;
  each.axis = 2;
  each.size = 3;
  const Tensor windows = record(Op::windows, {padded}, each, {}, Loc());
  CHECK(t.schedule({sum(windows * windows, 2)}).steps.size() == 2);
}

TEST_CASE("rows before and after short rows are walked as one axis, long rows have a test for each") {
  Traced t;
  const loop::Kernel flat = kernel(t.schedule({pad(t.f32(64, 3), 0, 2, 1)}), 0);
  CHECK(flat.axes.size() == 1);
  const loop::Kernel rows = kernel(t.schedule({pad(t.f32(64, 300), 0, 2, 1)}), 0);
  CHECK(rows.axes.size() == 2);
}

TEST_CASE("a test divides nothing but where zeros lie between elements") {
  Traced t;
  const Tensor spread = pad(pad(t.f32(30, 10), 1, 2, 2), 1, 3, 1, 1);
  const loop::Kernel tests = kernel(t.schedule({spread}), 0);
  for (const loop::Instruction& it : tests.body)
    if (it.kind == loop::Kind::test)
      CHECK_FALSE(dims::any_atom(it.index, [](const DimNode& atom) { return atom.kind == DimKind::floor_divide; }));
}

TEST_CASE("the gradient of a strided slice reads neighbours under a mask") {
  Traced t;
  const Tensor x = t.f32(30, 100);
  const Schedule schedule = t.schedule({grad(
      [](const Tensor& v) {
        const Tensor even = slice(v, 1, 0, slice_end, 2), odd = slice(v, 1, 1, slice_end, 2);
        return sum(even * odd * odd);
      },
      x)});
  CHECK(schedule.steps.size() == 1);
  for (const loop::Instruction& it : kernel(schedule, 0).body)
    if (it.kind == loop::Kind::load)
      CHECK_FALSE(dims::any_atom(it.index, [](const DimNode& atom) { return atom.kind == DimKind::floor_divide; }));
}

TEST_CASE("what is tested along a row's own axis is tested after what is tested once for the row") {
  Traced t;
  CHECK(text_of(kernel(t.schedule({pad(pad(t.f32(30, 300), 1, 1, 0), 0, 0, 1)}), 0)) ==
        R"(k(f32 p0[9000], out f32 p1[9331])
  outer i0<31 outer i1<301 vector
  outer0 v0 bool = 0 <= -i0 + 29
  outer0 v1 bool = 0 <= i1 - 1
  outer0 v2 bool = bitwise_and(v0, v1)
  outer0 v3 f32 = p0[300*i0 + i1 - 1] where v2
  outer0 p1[301*i0 + i1] = v3
)");
}

TEST_CASE("stencils: forward, backward and padded, each is one kernel") {
  Traced t;
  const Tensor x = t.f32(64, 96), g = t.f32(62, 94);
  CHECK(t.schedule({stencil(x)}).steps.size() == 1);
  const Schedule backward = t.schedule({grad([&](const Tensor& v) { return sum(stencil(v) * g); }, x)});
  CHECK(backward.steps.size() == 1);
  CHECK(backward.arena_bytes.same(Dim(0)));
  const Tensor padded = pad(pad(x, 0, 1, 1), 1, 1, 1);
  CHECK(t.schedule({stencil(padded)}).steps.size() == 1);
}

TEST_CASE("pads and concatenations between pointwise operations cost no kernel") {
  Traced t;
  const Tensor x = t.f32(64, 96), y = t.f32(32, 96);
  const auto blur = [](const Tensor& p) { return slice(p, 1, 0, 96) + slice(p, 1, 1, 97) + slice(p, 1, 2, 98); };
  CHECK(t.schedule({blur(pad(x * 2 + 1, 1, 1, 1))}).steps.size() == 1);
  CHECK(t.schedule({blur(pad(gelu(x), 1, 1, 1))}).steps.size() == 2);  // erf is not done three times
  CHECK(t.schedule({relu(concat({x * 2, y + 1}, 0))}).steps.size() == 1);
  CHECK(t.schedule({concat({slice(x, 1, 10, slice_end), slice(x, 1, 0, 10)}, 1)}).steps.size() == 1);
  CHECK(t.schedule({sum(concat({x, y}, 0), 0)}).steps.size() == 1);
  CHECK(t.schedule({softmax(pad(x, 1, 3, 3))}).steps.size() == 1);
}

TEST_CASE("a depthwise convolution by slices of a padded image is at most two kernels") {
  Traced t;
  CHECK(t.schedule({depthwise(t.f32(2, 8, 14, 14), t.f32(8, 3, 3))}).steps.size() <= 2);
}

TEST_CASE("a pad or a concatenation never shares a kernel with a reduction that it reads") {
  Traced t;
  const Tensor x = t.f32(4, 1);
  for (const Tensor& y : {pad(amax(x, 0), 0, 2, 1), concat({amax(x, 0), amin(x, 0), sum(x, 0), mean(x, 0)}, 0) * 2})
    CHECK(kernels(t.schedule({y})) >= 2);
}

TEST_CASE("a value that many shifted places read is computed once, in memory") {
  Traced t;
  const Tensor x = t.f32(64, 200);
  Tensor value = x, total;
  for (int i = 0; i < 6; ++i) value = value * 1.5 + x;  // 12 operations
  const auto shifted = [&](int i) { return slice(value, 1, i, 180 + i); };
  total = shifted(0) + shifted(1) + shifted(2);
  CHECK(t.schedule({total}).steps.size() == 1);
  for (int i = 3; i < 7; ++i) total = total + shifted(i);
  CHECK(t.schedule({total}).steps.size() == 2);
}

TEST_CASE("a concatenation is assembled where it needs memory anyway, or has many parts; the log says why") {
  Traced t;
  const Tensor x = t.f32(64, 96), y = t.f32(64, 96);
  const Schedule in_place = t.schedule({concat({softmax(x), y * 2}, 1)});
  CHECK(in_place.arena_bytes.same(Dim(0)));
  CHECK(decisions_text(in_place).find(" concat has it: no copy") != std::string::npos);
  // An expensive part is computed for its own elements alone.
  CHECK(t.schedule({relu(concat({tanh(x), y}, 0))}).steps.size() == 2);
  const Schedule many = t.schedule({relu(concat({x, y, x, y, x}, 0))});
  CHECK(many.steps.size() == 6);
  CHECK(decisions_text(many).find("part 5 is no kernel's own result") != std::string::npos);
}

TEST_CASE("of parts that are never read nothing is left") {
  Traced t;
  const Tensor x = t.f32(64, 96), y = t.f32(64, 96);
  const loop::Kernel part = kernel(t.schedule({slice(concat({x, y}, 0), 0, 64, 100)}), 0);
  CHECK(part.buffers.size() == 2);
  CHECK(std::none_of(part.body.begin(), part.body.end(),
                     [](const loop::Instruction& it) { return it.kind == loop::Kind::test; }));
  const loop::Kernel zeros = kernel(t.schedule({slice(pad(x, 0, 100, 0), 0, 10, 90)}), 0);
  CHECK(zeros.buffers.size() == 1);
}

TEST_CASE("pads and concatenations of all forms read what the reference reads, and nothing out of range") {
  Traced t;
  const Tensor x = t.f32(3, 4, 5), y = t.f32(3, 2, 5), row = t.f32(1, 5), none = t.f32(3, 0, 5);
  const auto values = {
      pad(x, 0, 2, 1),
      pad(x, 1, 0, 3),
      pad(x, 2, 4, 0),
      pad(x, 2, 1, 2, 1),
      pad(x, 1, 0, 0, 2),
      pad(pad(x, 2, 1, 1), 1, 2, 0, 1),
      pad(row, 0, 2, 2, 3),
      pad(none, 1, 1, 2),
      pad(reshape(pad(x, 0, 1, 1), {10, 10}), 1, 1, 1),
      slice(pad(x, 2, 3, 3), 2, 1, 10, 3),
      flip(pad(x, 1, 1, 2), 1),
      permute(pad(x, 1, 1, 2), {2, 0, 1}),
      concat({x, y}, 1),
      concat({y, x, y}, 1),
      concat({x, none, y}, 1),
      concat({reshape(x, {60}), reshape(y, {30})}, 0),
      slice(concat({x, y, x}, 1), 1, 3, 9, 2),
      flip(concat({x, y}, 1), 1),
      pad(concat({x, y}, 1), 1, 1, 1),
      concat({pad(x, 1, 1, 1), y}, 1),
      reshape(concat({x, x}, 2), {6, 20}),
      concat({slice(x, 2, 3, slice_end), slice(x, 2, 0, 3)}, 2),
      expand(pad(row, 0, 1, 1), {2, 3, 5}),
  };
  int number = 0;
  for (const Tensor& value : values) {
    CAPTURE(number++);
    CHECK(moved(t.schedule({value})) == moved_in_reference(t.graph({value})));
  }
}

// Gradients of q, k and v, say: their joined copy, of which the gradient of a bias is the sum.
TEST_CASE("parts that are joined for a product are added up from their copy") {
  Traced t;
  const Tensor q = t.f32(2, 3, 8, 4), k = t.f32(2, 3, 8, 4);
  const auto part = [](const Tensor& x, int before) { return pad(unsqueeze(x, 0), 0, before, 1 - before); };
  const Tensor joined = reshape(permute(part(q, 0) + part(k, 1), {1, 3, 0, 2, 4}), {16, 24});
  const Schedule schedule = t.schedule({matmul(joined, t.f32(24, 4)), sum(joined, {0})});
  REQUIRE(kernels(schedule) == 2);
  const loop::Kernel& added = kernel(schedule, 1);
  CHECK(std::ranges::count(added.body, loop::Kind::load, &loop::Instruction::kind) == 1);
}
