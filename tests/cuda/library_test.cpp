// Functions that sort, index, rearrange and contract, and the narrow integers, on a CUDA device: what the host gives,
// eagerly and compiled. On a machine without a GPU everything says that it was left out.
#include <doctest/doctest.h>

#include <limits>

#include "tests/cuda/support.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

template <class F>
void check_there(F function, const Tensor& x) {
  const std::vector<Tensor> expected = function(x);
  const Tensor there = to(x, Device::cuda());
  for (const std::vector<Tensor>& found : {function(there), compile(function)(there)}) {
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      CAPTURE(i);
      CHECK(found[i].device() == Device::cuda());
      const Tensor here = to(found[i], Device::cpu());
      REQUIRE(here.shape() == expected[i].shape());
      CHECK(here.dtype() == expected[i].dtype());
      const Tensor same = (here == expected[i]) | ((here != here) & (expected[i] != expected[i]));
      const Tensor apart = cast(where(same, zeros_like(here), here - expected[i]), DType::f64);
      CHECK(amax(abs(apart)).item() <= 1e-4);
    }
  }
}

}  // namespace

TEST_CASE("cuda: orders of rows, long and short, with NaN and equal elements") {
  if (no_device()) return;
  const auto orders = [](const Tensor& x) {
    return std::vector<Tensor>{
        argsort(x),          argsort(x, 0, true), sort(x, 1, true).values,         topk(x, 3).values,
        median(x, 1).values, quantile(x, 0.3, 1), argsort(cast(x * 2, DType::i32))};
  };
  check_there(orders, sample({3, 1000}, 1));
  check_there(orders, round(sample({7, 256}, 2) * 2));
  check_there(orders, where(sample({4, 300}, 3) > 1.5, std::numeric_limits<double>::quiet_NaN(), sample({4, 300}, 4)));
}

TEST_CASE("cuda: read and added at positions, rearranged, contracted over labels") {
  if (no_device()) return;
  check_there(
      [](const Tensor& x) {
        const Tensor at = argmax(x, 1, true);
        return std::vector<Tensor>{gather(x, 1, at),
                                   scatter_add(x, 1, at, x),
                                   index_select(x, 0, argmin(x, 0)),
                                   masked_fill(x, x > 0, -1),
                                   histc(x, 5, -2, 2),
                                   roll(x, 3, 1),
                                   tril(x) + triu(x, 1),
                                   diagonal(x, 1),
                                   tile(x, {2, 1}),
                                   pad(x, {2, 1, 1, 0}, Pads::reflect),
                                   pad(x, {1, 1}, Pads::constant, 2),
                                   unfold(x, 1, 3, 2),
                                   einsum("ij,kj->ik", {x, x}),
                                   einsum("ij->j", {x}),
                                   weft::std(x, 1)};
      },
      sample({9, 9}, 5));
}

TEST_CASE("cuda: integers of 8, 16 and 32 bits wrap as on the host") {
  if (no_device()) return;
  for (DType dtype : {DType::i8, DType::i16, DType::u16, DType::u32, DType::u8}) {
    const Tensor x = cast(arange(600) * 97, dtype), there = to(x, Device::cuda());
    const auto arithmetic = [](const Tensor& x) { return (x * x + 3) ^ (x >> 1); };
    const Tensor expected = arithmetic(x);
    for (const Tensor& found : {arithmetic(there), compile(arithmetic)(there)})
      CHECK(all(to(found, Device::cpu()) == expected).item<bool>());
  }
}
