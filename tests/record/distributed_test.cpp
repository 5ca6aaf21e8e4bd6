// Collectives where this process is alone: values themselves. Several processes: tests/distributed/.
#include "weft/distributed.hpp"

#include <doctest/doctest.h>

#include "weft/weft.hpp"

using namespace weft;
using distributed::Reduction;

namespace {

struct Pair {
  Tensor first, second;
};

}  // namespace

TEST_CASE("alone, a collective is the value itself and records nothing") {
  distributed::init();
  distributed::init();
  CHECK(distributed::rank() == 0);
  CHECK(distributed::size() == 1);
  CHECK(distributed::local_rank() == 0);
  const Tensor x = reshape(cast(arange(6), DType::f32), {2, 3});
  for (const Tensor& same :
       {distributed::all_reduce(x), distributed::all_reduce(x, Reduction::mean), distributed::broadcast(x),
        distributed::all_gather(x), distributed::reduce_scatter(x, Reduction::mean)})
    CHECK(same.same(x));
  Pair pair{x, Tensor()};
  const Pair averaged = distributed::average(pair);
  CHECK(averaged.first.same(x));
  CHECK_FALSE(averaged.second.defined());
  distributed::replicate(pair);
  CHECK(pair.first.same(x));
  distributed::barrier();

  const auto plain = compile([](const Tensor& x) { return sum(exp(x)) + mean(x); });
  const auto together = compile([](const Tensor& x) {
    const auto [total] = distributed::average(std::tuple(sum(exp(distributed::all_gather(x)))));
    return distributed::all_reduce(total) + distributed::all_reduce(mean(x), Reduction::mean);
  });
  CHECK(explain(plain, x).kernels.size() == explain(together, x).kernels.size());
  CHECK(plain(x).item() == together(x).item());
}

TEST_CASE("alone, a model is not cut, and gathered is the model itself") {
  nn::Linear layer(3, 2);
  const Tensor weight = layer.weight;
  distributed::fully_shard(layer);
  CHECK(layer.weight.tensor().same(weight));
  CHECK(layer.weight.shard == 0);
  CHECK(distributed::gathered(layer).weight.tensor().same(weight));
  CHECK(distributed::gathered(layer, {.dtype = DType::bf16}).weight->dtype() == DType::bf16);
  nn::Linear other(3, 2);
  distributed::take_parts(other, layer);
  CHECK(other.weight.tensor().same(weight));
  CHECK_THROWS_WITH_AS(distributed::gathered(layer, {.dtype = DType::i32}),
                       doctest::Contains("[gathered] the dtype must be a floating one, it is i32"), Error);
}

TEST_CASE("what can't be reduced is refused, also alone") {
  const Tensor x = arange(6);
  CHECK_THROWS_WITH_AS(distributed::all_reduce(x > 2), doctest::Contains("[all_reduce] there is no sum of bool"),
                       Error);
  CHECK_THROWS_WITH_AS(distributed::all_reduce(x, Reduction::mean),
                       doctest::Contains("a mean of i64 is no i64: cast to a floating dtype"), Error);
  CHECK_THROWS_WITH_AS(distributed::all_gather(sum(x)), doctest::Contains("[all_gather] a tensor of no axes"), Error);
  CHECK_THROWS_WITH_AS(distributed::reduce_scatter(sum(x)), doctest::Contains("[reduce_scatter] a tensor of no axes"),
                       Error);
  const auto waits = compile([](const Tensor& x) {
    distributed::barrier();
    return x + 1;
  });
  CHECK_THROWS_WITH_AS(waits(x), doctest::Contains("[barrier] it waits for the other processes"), Error);
}
