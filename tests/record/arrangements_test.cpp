// Functions of weft/shapes.hpp: the elements where PyTorch has them, in every way that there is to run them, and what
// they say to arguments that do not fit.
#include <cmath>

#include "tests/record/refused.hpp"
#include "tests/trace/support.hpp"
#include "weft/grad.hpp"
#include "weft/shapes.hpp"

using namespace weft;
using namespace trace_test;
using test::refused;

TEST_CASE("turned, on diagonals, combined, split and written into") {
  check_every_size(
      [](const Tensor& x, const Tensor& c) {
        return Answers{
            {rot90(x), "3 6 2 5 1 4"},
            {rot90(x, 2), "6 5 4 3 2 1"},
            {rot90(x, -1), "4 1 5 2 6 3"},
            {rot90(x, 5), "3 6 2 5 1 4"},
            {rot90(x, 0), "1 2 3 4 5 6"},
            {rot90(c, 1, {-1, 1}), "4 2 0 5 3 1 10 8 6 11 9 7"},
            {diag_embed(x), "1 0 0 0 2 0 0 0 3 4 0 0 0 5 0 0 0 6"},
            {diag_embed(x[0], -1), "0 0 0 0 1 0 0 0 0 2 0 0 0 0 3 0"},
            {diag_embed(x[0], 1), "0 1 0 0 0 0 2 0 0 0 0 3 0 0 0 0"},
            {diag_embed(x, 1, 0, 2), "0 1 0 0 0 4 0 0 0 0 2 0 0 0 5 0 0 0 0 3 0 0 0 6 0 0 0 0 0 0 0 0"},
            {diag_embed(x, 1, 2, 0), "0 0 0 0 0 0 0 0 1 0 0 0 4 0 0 0 0 2 0 0 0 5 0 0 0 0 3 0 0 0 6 0"},
            {diag_embed(cast(x, DType::i8), 0, 1, 0), "1 4 0 0 0 0 0 0 2 5 0 0 0 0 0 0 3 6"},
            {block_diag({x, x[0], x[1][2]}), "1 2 3 0 0 0 0 4 5 6 0 0 0 0 0 0 0 1 2 3 0 0 0 0 0 0 0 6"},
            {cartesian_prod({x[0], x[1], slice(x[0], 0, 0, 1)}),
             "1 4 1 1 5 1 1 6 1 2 4 1 2 5 1 2 6 1 3 4 1 3 5 1 3 6 1"},
            {cartesian_prod({x[0]}), "1 2 3"},
            {combinations(x[0]), "1 2 1 3 2 3"},
            {combinations(flatten(x), 5), "1 2 3 4 5 1 2 3 4 6 1 2 3 5 6 1 2 4 5 6 1 3 4 5 6 2 3 4 5 6"},
            {combinations(x[0], 2, true), "1 1 1 2 1 3 2 2 2 3 3 3"},
            {combinations(x[0], 3, true), "1 1 1 1 1 2 1 1 3 1 2 2 1 2 3 1 3 3 2 2 2 2 2 3 2 3 3 3 3 3"},
            {combinations(x[0], 4), ""},
            {combinations(x[0], 1), "1 2 3"},
            {tensor_split(x, 2, 1)[0], "1 2 4 5"},
            {tensor_split(x, 2, 1)[1], "3 6"},
            {tensor_split(x, 4, -1)[3], ""},
            {tensor_split(flatten(x), {1, 4})[1], "2 3 4"},
            {tensor_split(flatten(x), {-2, 1})[0], "1 2 3 4"},
            {tensor_split(flatten(x), {-2, 1})[1], ""},
            {tensor_split(flatten(x), {4, 9})[2], ""},
            {tensor_split(flatten(x), {4})[1], "5 6"},
            {broadcast_tensors({x[0], slice(x, 1, 0, 1)})[1], "1 1 1 4 4 4"},
            {broadcast_tensors({x[0], slice(x, 1, 0, 1)})[0], "1 2 3 1 2 3"},
            {select_scatter(x, x[0] * -1, 0, 1), "1 2 3 -1 -2 -3"},
            {select_scatter(x, slice(x[0], 0, 0, 2), 1, -1), "1 2 1 4 5 2"},
            {select_scatter(c, cast(x, DType::i16), 2, 0), "1 1 2 3 3 5 4 7 5 9 6 11"},
            {diagonal_scatter(x, slice(x[1], 0, 1)), "5 2 3 4 6 6"},
            {diagonal_scatter(x, slice(x[1], 0, 1), 1), "1 5 3 4 5 6"},
            {diagonal_scatter(x, slice(x[1], 0, 2), -1), "1 2 3 6 5 6"},
            {diagonal_scatter(c, slice(transpose(x), 1, 0, 2) * -1, 0, 2, 0), "-1 1 -2 3 -3 5 6 -4 8 -5 10 -6"},
            {tril_indices(3, 4), "0 1 1 2 2 2 0 0 1 0 1 2"},
            {tril_indices(3, 4, -1), "1 2 2 0 0 1"},
            {tril_indices(4, 2, 1), "0 0 1 1 2 2 3 3 0 1 0 1 0 1 0 1"},
            {tril_indices(2, 2, 9), "0 0 1 1 0 1 0 1"},
            {tril_indices(2, 2, -2), ""},
            {triu_indices(3, 4), "0 0 0 0 1 1 1 2 2 0 1 2 3 1 2 3 2 3"},
            {triu_indices(4, 3, -1, {DType::i32}), "0 0 0 1 1 1 2 2 3 0 1 2 0 1 2 1 2 2"},
            {triu_indices(3, 2, 1), "0 1"},
            {triu_indices(2, 2, 5), ""},
            {triu_indices(2, 3, -5), "0 0 0 1 1 1 0 1 2 0 1 2"},
            {unravel_index(cast(x, DType::i32), {3, 2, 2})[0], "0 0 0 1 1 1"},
            {unravel_index(cast(x, DType::i32), {3, 2, 2})[1], "0 1 1 0 0 1"},
            {unravel_index(-1, {3, 4})[0], "2"},
            {unravel_index(-1, {3, 4})[1], "3"},
            {grad([](const Tensor& v) { return sum(square(rot90(v) * rot90(v, -1))); }, x), "144 200 192 144 80 24"},
            {grad([](const Tensor& v) { return sum(square(diag_embed(v, -1) + 1)); }, x), "4 6 8 10 12 14"},
            {grad(
                 [](const Tensor& v) {
                   return sum(square(block_diag({v, v[0]})));
                 },
                 x),
             "4 8 12 8 10 12"},
            {grad([](const Tensor& v) { return sum(square(combinations(v[0]))); }, x), "4 8 12 0 0 0"},
            {grad([](const Tensor& v) { return sum(square(select_scatter(v, v[0] * 3, 0, 1))); }, x), "20 40 60 0 0 0"},
            {grad([](const Tensor& v) { return sum(square(diagonal_scatter(v, slice(v[1], 0, 1) * 2))); }, x),
             "0 4 6 8 40 60"}};
      },
      from_list<float>({{1, 2, 3}, {4, 5, 6}}), reshape(arange(12, {DType::f32}), {2, 3, 2}));
}

TEST_CASE("shapes and dtypes of results") {
  const Tensor x = ones({2, 3}), one = ones({}), vector = ones({3});
  CHECK(atleast_1d(one).shape() == Sizes({1}));
  CHECK(atleast_2d(one).shape() == Sizes({1, 1}));
  CHECK(atleast_3d(one).shape() == Sizes({1, 1, 1}));
  CHECK(atleast_2d(vector).shape() == Sizes({1, 3}));
  CHECK(atleast_3d(vector).shape() == Sizes({1, 3, 1}));
  CHECK(atleast_3d(x).shape() == Sizes({2, 3, 1}));
  CHECK(atleast_1d(x).shape() == Sizes({2, 3}));
  CHECK(combinations(vector, 4).shape() == Sizes({0, 4}));
  CHECK(combinations(vector, 0).shape() == Sizes({0}));
  CHECK(tril_indices(0, 3).shape() == Sizes({2, 0}));
  CHECK(diag_embed(x, -2, 0, -1).shape() == Sizes({5, 2, 5}));
  CHECK(tensor_split(x, 5, 1).size() == 5);
  CHECK(triu_indices(2, 2, 0, {DType::i32}).dtype() == DType::i32);
  CHECK(select_scatter(cast(x, DType::f16), vector, 0, 0).dtype() == DType::f16);
  CHECK(diagonal_scatter(x, ones({0}), 7).shape() == Sizes({2, 3}));
  CHECK(broadcast_tensors(std::vector<Tensor>()).empty());
}

TEST_CASE("arrangements that are refused") {
  const Tensor x = ones({2, 3}), vector = ones({3});
  refused([&] { rot90(x, 1, {0, 0}); }, "[rot90] both axes are 0");
  refused([&] { rot90(x, 1, 0); }, "turns two axes, it is given 1");
  refused([&] { diag_embed(ones({})); }, "[diag_embed] needs 1 to 7 axes");
  refused([&] { diag_embed(x, 0, 1, -2); }, "both axes are 1");
  refused([&] { block_diag({ones({2, 2, 2})}); }, "[block_diag] needs matrices");
  refused([&] { block_diag(std::vector<Tensor>()); }, "of no tensors");
  refused([&] { cartesian_prod({x}); }, "[cartesian_prod] needs vectors, one is f32[2,3]");
  refused([&] { combinations(x); }, "[combinations] needs a vector");
  refused([&] { combinations(vector, -1); }, "of -1 elements");
  refused([&] { tensor_split(x, 0); }, "the number of parts is 0");
  refused([&] { select_scatter(x, vector, 0, 2); }, "index 2 is out of range for axis 0 of f32[2,3]");
  refused([&] { select_scatter(x, vector, 1, 0); }, "the source is f32[3], not f32[2]");
  refused([&] { select_scatter(cast(x, DType::i32), vector, 0, 0); }, "a floating source would be cut to i32");
  refused([&] { diagonal_scatter(x, vector); }, "the source is f32[3], not f32[2]");
  refused([&] { tril_indices(-1, 2); }, "[tril_indices] of a matrix of -1 x 2");
  refused([&] { unravel_index(12, {3, 4}); }, "[unravel_index] an index is out of range [-12, 12)");
  refused([&] { unravel_index(1.5, {3, 4}); }, "the index must be an integer");
  refused([&] { broadcast_tensors({x, ones({2})}); }, "[broadcast_tensors]");
}
