// Bad input to operations: each error names the operation, the shapes and the user's line; the operands are as before,
// and the next call works. The same inside a compiled function.
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "refused.hpp"
#include "weft/compile.hpp"
#include "weft/indexing.hpp"
#include "weft/nn.hpp"
#include "weft/ops.hpp"
#include "weft/random.hpp"

using namespace weft;
using weft::test::refused;

namespace {

struct Operands {
  Tensor row = from_list<float>({1, 2, 3}), pair = from_list<float>({1, 2});
  Tensor table = from_list<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  Tensor index = from_list<std::int64_t>({0, 1}), flag = from_list<bool>({true, false});
  Tensor none = zeros({0, 3}), number = ones({}), batches = ones({2, 4, 3}), more_batches = ones({3, 3, 4});
  std::vector<Tensor> unequal = {row, pair};
  Generator rng{1};
  Options integers{.dtype = DType::i64};
};

}  // namespace

TEST_CASE("shapes that do not fit") {
  Operands o;
  refused([&] { return o.row + o.pair; }, "[add] shapes do not broadcast: f32[3] x f32[2]");
  refused([&] { return where(o.flag, o.row, 1); }, "[where] shapes do not broadcast: bool[2] x f32[3]");
  refused([&] { return pow(o.table, o.pair); }, "[pow] shapes do not broadcast: f32[2,3] x f32[2]");
  refused([&] { return matmul(o.table, o.table); }, "[matmul] inner sizes differ: f32[2,3] x f32[2,3]");
  refused([&] { return matmul(o.table, o.pair); }, "[matmul] inner sizes differ: f32[2,3] x f32[2]");
  refused([&] { return matmul(o.number, o.table); }, "[matmul] needs at least 1 axis: f32[] x f32[2,3]");
  refused([&] { return matmul(o.batches, o.more_batches); }, "[matmul] batch sizes differ: f32[2,4,3] x f32[3,3,4]");
  refused([&] { return reshape(o.table, {4}); }, "[reshape] element counts differ: f32[2,3] to f32[4]");
  refused([&] { return reshape(o.table, {4, -1}); }, "[reshape] f32[2,3] does not divide into f32[4,-1]");
  refused([&] { return reshape(o.table, {-1, -1}); }, "[reshape] more than one size is -1");
  refused([&] { return reshape(o.none, {0, -1}); }, "[reshape] -1 is ambiguous for f32[0,3]");
  refused([&] { return reshape(o.table, {-2, -3}); }, "[reshape] a size is negative: f32[2,3] to f32[-2,-3]");
  refused([&] { return expand(o.row, {2, 4}); }, "[expand] f32[3] does not expand to f32[2,4]");
  refused([&] { return expand(o.table, {3}); }, "[expand] f32[2,3] does not expand to f32[3]");
  refused([&] { return expand(o.row, {-2, 3}); }, "[expand] a size is negative: f32[3] to f32[-2,3]");
  refused([&] { return expand(o.number, {-2}); }, "[expand] a size is negative: f32[] to f32[-2]");
  refused([&] { return permute(o.table, {0}); }, "[permute] 1 axis for f32[2,3]");
  refused([&] { return permute(o.table, {0, 0}); }, "[permute] not a permutation of the axes of f32[2,3]");
  refused([&] { return concat({o.table, ones({3, 2})}); }, "[concat] parts differ besides axis 0: f32[2,3] x f32[3,2]");
  refused([&] { return concat(std::vector<Tensor>{}); }, "[concat] of no tensors");
  refused([&] { return stack(o.unequal); }, "[stack] shapes differ: f32[3] x f32[2]");
  refused([&] { return zeros({2, -3}); }, "[zeros] a size is negative: -3");
  refused([&] { return arange(-1); }, "[arange] the count is negative: -1");
  refused([&] { return pad(o.row, 0, -1, 0); }, "[pad] negative padding");
  refused([&] { return split(o.row, 0); }, "[split] the size of a part is 0");
  refused([&] { return slice(o.row, 0, 0, 2, 0); }, "[slice] the step is 0");
  refused([&] { return nn::mse_loss(o.row, o.pair); }, "[mse_loss] shapes differ: f32[3] x f32[2]");
  refused([&] { return nn::Linear(4, 2)(o.table); }, "[linear] takes 4 features, the input is f32[2,3]");
  refused([&] { return ones({1, 1, 1, 1, 1, 1, 1, 1, 1}); }, "[shape] more than 8 axes");
  refused([&] { return unsqueeze(ones({1, 1, 1, 1, 1, 1, 1, 1}), 0); }, "[unsqueeze] more than 8 axes");
  refused([&] { return from_list({1.f, 2.f}, {3}); }, "[from_list] 2 elements do not fill f32[3]");
  refused([&] { return from_list({{1.f, 2.f}, {3.f}}); }, "[from_list] shapes differ: f32[2] x f32[1]");
  refused([&] { return from_span(std::vector{1.f}, {3}); }, "[from_span] 1 element does not fill f32[3]");
  CHECK(sum(o.row + 1).item() == 9);
}

TEST_CASE("dtypes that do not fit") {
  Operands o;
  refused([&] { return o.row & o.row; }, "[bitwise_and] needs bool or integers: f32[3] x f32[3]");
  refused([&] { return o.row & 1; }, "[bitwise_and] needs bool or integers: f32[3] x i64[], at");
  refused([&] { return ~o.row; }, "[bitwise_not] needs bool or integers: f32[3]");
  refused([&] { return o.flag - o.flag; }, "[sub] is not defined on bool: cast first, or use & | ^ ~");
  refused([&] { return where(o.row, o.row, o.row); }, "[where] the condition must be bool, it is f32[3]");
  refused([&] { return mean(o.index); }, "[mean] needs a floating dtype, it is i64[2]");
  refused([&] { return gather(o.table, o.pair); }, "[gather] the index must be an integer, it is f32[2]");
  refused([&] { return one_hot(o.pair, 4); }, "[one_hot] the index must be an integer, it is f32[2]");
  refused([&] { return bitcast(o.row, DType::f64); }, "[bitcast] widths differ: f32[3] to f64");
  refused([&] { return matmul(o.flag, o.flag); }, "[matmul] is not defined on bool, cast first: bool[1,2] x bool[2,1]");
  refused([&] { return nn::cross_entropy(o.table, o.pair); }, "integer labels [...]: f32[2,3] x f32[2]");
  refused([&] { return nn::cross_entropy(o.index, o.index); }, "takes floating logits [..., classes]");
  refused([&] { return nn::cross_entropy(o.table, arange(3)); }, "integer labels [...]: f32[2,3] x i64[3], at ");
  refused([&] { return nn::cross_entropy(o.batches, ones({2, 3}, o.integers)); }, "on axis 1, as PyTorch has them");
  refused([&] { return uniform({2}, 0, 1, o.rng, o.integers); }, "needs a floating dtype, it is i64");
  refused([&] { return o.index.data<float>(); }, "[data] as f32, the tensor is i64[2]");
  refused([&] { o.index += 0.5; }, "[in-place] a result of f32[2] can't be kept in i64[2]");
  refused([&] { o.row += o.table; }, "[in-place] the result f32[2,3] does not fit into f32[3]");
  CHECK(o.index.data<std::int64_t>()[1] == 1);
  CHECK(sum(o.row).item() == 6);
}

TEST_CASE("axes and indices that are not there") {
  Operands o;
  refused([&] { return sum(o.table, 2); }, "[sum] axis 2 is out of range for 2 axes");
  refused([&] { return sum(o.table, {0, -2}); }, "[sum] axis 0 is named twice");
  refused([&] { return softmax(o.row, 1); }, "[softmax] axis 1 is out of range for 1 axis");
  refused([&] { return argmax(o.number, 1); }, "[argmax] axis 1 is out of range for 1 axis");
  refused([&] { return sum(o.number, {0, -1}); }, "[sum] axis 0 is named twice");
  refused([&] { return o.table[o.index + 1]; },
          "[index] an index is out of range [-2, 2) of axis 0 of f32[2,3]: 2, element 1 of i64[2]");
  refused([&] { return transpose(o.row); }, "[transpose] axis -2 is out of range for 1 axis");
  refused([&] { return concat({o.row, o.row}, 1); }, "[concat] axis 1 is out of range for 1 axis");
  refused([&] { return o.row.size(1); }, "[size] axis 1 is out of range for 1 axis");
  refused([&] { return select(o.table, 0, 2); }, "[select] index 2 is out of range for axis 0 of f32[2,3]");
  refused([&] { return select(o.table, 1, -4); }, "is out of range for axis 1 of f32[2,3]");
  refused([&] { return gather(o.table, o.index + 1); },
          "[gather] an index is out of range [0, 2) of axis 0 of f32[2,3]: 2, element 1 of i64[2]");
  refused([&] { return gather(o.table, from_list<std::int64_t>({-1})); }, "[gather] an index is out of range [0, 2)");
  refused([&] { return one_hot(from_list<std::int64_t>({3}), 3); },
          "[one_hot] an index is out of range [0, 3): 3, element 0 of i64[1]");
  refused([&] { return nn::cross_entropy(o.table, o.index + 2); },
          "[cross_entropy] an index is out of range [0, 3) of axis 1 of f32[2,3]: 3, element 1 of i64[2]");
  const Tensor column = reshape(o.index + 2, {2, 1}), part = ones({2, 2});
  refused([&] { return gather(o.table, 1, column); },
          "[gather] an index is out of range [0, 3) of axis 1 of f32[2,3]: 3, element [1,0] of i64[2,1]");
  const Subscript places[] = {{}, Index(-4)};
  refused([&] { return index(o.table, places); }, "[index] an index is out of range [-3, 3) of axis 1 of f32[2,3]: -4");
  refused([&] { return nn::embedding(o.index - 1, o.table); },
          "[embedding] an index is out of range [0, 2) of axis 0 of f32[2,3]: -1, element 0 of i64[2]");
  refused([&] { return update_slice(o.table, part, 1, 2); },
          "[update_slice] the position is out of range [0, 1]: 2, for a part of 2 of axis 1 of f32[2,3]");
  refused([&] { return gather(o.none, from_list<std::int64_t>({0})); }, "[gather] an index is out of range [0, 0)");
  refused([&] { return gather(o.number, o.index); }, "[gather] from a 0-d tensor");
  CHECK(select(select(o.table, 0, -1), 0, -1).item() == 6);
  CHECK(sum(gather(o.table, o.index)).item() == 21);
}

TEST_CASE("orders of polygamma, where they are numbers") {
  Operands o;
  refused([&] { return polygamma(-1, o.row); }, "[polygamma] the order is -1, which is not in 0 to 30");
  refused([&] { return polygamma(-0.5, o.row); }, "[polygamma] the order is -0.5, which is not in 0 to 30");
  refused([&] { return polygamma(31, o.row); }, "[polygamma] the order is 31, which is not in 0 to 30");
}

TEST_CASE("empty and undefined tensors") {
  Operands o;
  refused([&] { return amax(o.none); }, "[amax] over an empty axis: f32[0,3], axis 0");
  refused([&] { return argmax(o.none, 0); }, "[argmax] over an empty axis: f32[0,3], axis 0");
  refused([&] { return o.none.item(); }, "[item] needs one element, the tensor is f32[0,3]");
  refused([&] { return Tensor() + o.row; }, "[add] an operand is an undefined tensor");
  refused([&] { return sum(Tensor()); }, "an operand is an undefined tensor");
  refused([&] { return Tensor().item(); }, "of an undefined tensor");
  refused([&] { return Tensor().size(0); }, "of an undefined tensor");
  CHECK(sum(o.none).item() == 0);
  CHECK(std::isnan(mean(o.none).item()));
  CHECK((o.none * 2 + o.row).shape().same(Shape::of(0, 3)));
  CHECK(matmul(o.none, ones({3, 4})).shape().same(Shape::of(0, 4)));
  CHECK(sum(matmul(ones({2, 0}), ones({0, 3}))).item() == 0);
  CHECK(gather(o.table, zeros({0}, {DType::i64})).shape().same(Shape::of(0, 3)));
  CHECK(concat({o.none, o.table}).shape().same(Shape::of(2, 3)));
}

TEST_CASE("more elements than there can be, and more than there is memory for") {
  Operands o;
  constexpr std::int64_t large = std::int64_t{1} << 32;
  const Sizes square = {large, large};
  refused([&] { return ones(square); }, "[ones] more elements than there can be: f32[4294967296,4294967296]");
  refused([&] { return zeros({std::int64_t{1} << 58}, {DType::f64}); }, "[zeros] more elements than there can be: ");
  refused([&] { return uniform({2, -1}); }, "[uniform] a size is negative: i32[2,-1]");
  refused([&] { return expand(o.number, square); }, "[expand] more elements than there can be: ");
  refused([&] { return matmul(ones({large, 1}), ones({1, large})); }, "[matmul] more elements than there can be: ");
  refused([&] { return zeros({std::int64_t{1} << 62, 2}); }, "[zeros] more elements than there can be: f32[2^62,2]");
  CHECK_THROWS_AS((ones({std::int64_t{1} << 45}) + 1).eval(), OutOfMemory);
  CHECK(sum(o.row * 2).item() == 12);
}

TEST_CASE("inside a compiled function: the same words, with the line inside") {
  Operands o;
  auto add = compile([](const Tensor& a, const Tensor& b) { return a + b; });
  const std::uint32_t line = __LINE__ - 1;
  refused([&] { return add(o.row, o.pair); }, "[add] shapes do not broadcast: f32[3] x f32[2]", {__FILE__, line});
  auto bits = compile([](const Tensor& a) { return ~a; });
  refused([&] { return bits(o.row); }, "[bitwise_not] needs bool or integers: f32[3]", {__FILE__, line + 3});
  auto rows = compile([](const Tensor& table, const Tensor& index) { return gather(table, index) * 2; });
  refused([&] { return rows(o.table, o.index + 1); },
          "[gather] an index is out of range [0, 2) of axis 0 of f32[2,3]: one of i64[2]", {__FILE__, line + 5});
  auto largest = compile([](const Tensor& a) { return amax(a, 0); });
  refused([&] { return largest(o.none); }, "[amax] over an empty axis: f32[0,3], axis 0", {__FILE__, line + 8});
  refused([&] { return largest(Tensor()); }, "undefined tensor", {__FILE__, line + 8});
  CHECK(sum(add(o.row, o.row)).item() == 12);
  CHECK(sum(cast(bits(o.index), DType::f32)).item() == -3);
  CHECK(sum(rows(o.table, o.index)).item() == 42);
  CHECK(sum(largest(o.table)).item() == 15);
}
