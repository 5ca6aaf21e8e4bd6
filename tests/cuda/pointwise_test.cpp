// Pointwise kernels whose elements lie across in memory, or between words.
#include <doctest/doctest.h>

#include "tests/cuda/support.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

// To the last bit.
template <class F>
void same(F f, const Tensor& x) {
  const Tensor found = to(compile(f)(to(x, Device::cuda())), Device::cpu()), wanted = f(x);
  CHECK(sum(cast(found != wanted, DType::i64)).item() == 0);
}

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("cuda: transposes of whole tiles, and of others") {
  const auto turned = [](const Tensor& x) { return transpose(x, 0, 1) + 1; };
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::i32})
    for (const Sizes& sizes : {Sizes{2048, 4096}, Sizes{2048, 4032}, Sizes{300, 1000}})
      same(turned, cast(sample(sizes, 1) * 100, dtype).eval());
  const auto inner = [](const Tensor& x) { return transpose(slice(x, 1, 1, 4097, 1), 0, 1) * 2; };
  same(inner, cast(sample({2048, 4097}, 1), DType::bf16).eval());
  const auto many = [](const Tensor& x) { return transpose(x, 1, 2) + transpose(slice(x, 0, 0, 4, 1), 1, 2); };
  same(many, cast(sample({4, 1024, 1024}, 1), DType::bf16).eval());
}

TEST_CASE("cuda: rows that begin at no word") {
  const auto inner = [](const Tensor& x) { return slice(x, 1, 1, 4096, 1) + 1; };
  const auto halves = [](const Tensor& x) { return slice(x, 1, 0, 2049, 1) * slice(x, 1, 2047, 4096, 1); };
  const auto narrow = [](const Tensor& x) { return slice(x, 1, 1, 38, 1) + 1; };
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64, DType::i8}) {
    const Tensor x = cast(sample({300, 4096}, 1) * 10, dtype).eval();
    same(inner, x);
    same(halves, x);
    same(narrow, x);
  }
}

TEST_CASE("cuda: positions that are compared with numbers of all sizes") {
  const auto one_hots = [](const Tensor& x) { return one_hot(x, 1000, DType::f32) * 3; };
  same(one_hots, floor_divide(arange(0, 3000, 1), 3).eval());
  const auto equal = [](const Tensor& x) { return x == to(arange(0, 4096, 1), x.device()); };
  same(equal, reshape(from_list<std::int64_t>({0, 7, 8, 4095, 4096, -1, 1L << 32, (1L << 32) + 5, -(1L << 40)}), {9, 1})
                  .eval());
}

TEST_SUITE_END();
