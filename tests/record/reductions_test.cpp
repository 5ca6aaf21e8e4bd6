// Reductions of what has no axes, and of nothing: the numbers that PyTorch gives, in every way that there is to run
// them.
#include <cmath>

#include "tests/trace/support.hpp"
#include "weft/grad.hpp"
#include "weft/linalg.hpp"
#include "weft/ops.hpp"

using namespace weft;
using namespace trace_test;

TEST_CASE("a 0-d tensor is a row of one where an axis is named, and what is left has no axes") {
  check_every_way(
      [](const Tensor& x) {
        Answers answers;
        for (const int axis : {0, -1})
          for (const bool keepdim : {false, true}) {
            for (const Tensor& value :
                 {sum(x, axis, keepdim), mean(x, axis, keepdim), prod(x, axis, keepdim), amax(x, axis, keepdim),
                  amin(x, axis, keepdim), norm(x, axis, keepdim), nansum(x, axis, keepdim), nanmean(x, axis, keepdim),
                  logsumexp(x, axis, keepdim), kthvalue(x, 1, axis, keepdim).values, median(x, axis, keepdim).values,
                  quantile(x, 0.25, axis, keepdim), linalg::vector_norm(x, 2, axis, keepdim),
                  linalg::vector_norm(x, INFINITY, axis, keepdim), cumsum(x, axis), sort(x, axis).values,
                  topk(x, 1, axis).values})
              answers.push_back({value, "5"});
            for (const Tensor& value :
                 {argmax(x, axis, keepdim), argmin(x, axis, keepdim), kthvalue(x, 1, axis, keepdim).indices,
                  median(x, axis, keepdim).indices, argsort(x, axis), topk(x, 1, axis).indices, log_softmax(x, axis),
                  var(x, axis, 0, keepdim), weft::std(x, axis, 0, keepdim)})
              answers.push_back({value, "0"});
            for (const Tensor& value :
                 {any(x, axis, keepdim), all(x, axis, keepdim), count_nonzero(x, axis, keepdim), softmax(x, axis)})
              answers.push_back({value, "1"});
            answers.push_back({var(x, axis, 1, keepdim), "nan"});
          }
        for (Answer& answer : answers) answer.value = answer.value * (1 + answer.value.rank());
        return answers;
      },
      full({}, 5));
  for (const Tensor& slope : {grad([](const Tensor& v) { return sum(v * 3, 0); }, full({}, 5)),
                              grad([](const Tensor& v) { return logsumexp(v * 3, -1); }, full({}, 5))}) {
    CHECK(slope.rank() == 0);
    CHECK(slope.item() == 3);
  }
}

TEST_CASE("logsumexp of nothing is the logarithm of 0") {
  check_every_way(
      [](const Tensor& x) {
        return Answers{{logsumexp(x, 1), "-inf -inf -inf"},
                       {logsumexp(x, -1, true), "-inf -inf -inf"},
                       {logsumexp(cast(x, DType::bf16), 1), "-inf -inf -inf"},
                       {logsumexp(x, 0), ""},
                       {grad([](const Tensor& v) { return sum(logsumexp(v, 1)); }, x), ""}};
      },
      ones({3, 0}));
}

TEST_CASE("one place of an order is that of the whole order, among equal elements and NaN") {
  Generator generator(3);
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::i8, DType::i64})
    for (const std::int64_t size : {2, 3, 40, 5000})
      for (const double spread : {1.0, 1e6}) {
        Tensor x = normal({size}, 0, spread, generator);
        if (is_floating(dtype))
          x = where(abs(x) > 2 * spread, std::nan(""), x);
        else
          x = minimum(maximum(x, -100), 100);
        x = cast(x, dtype).eval();
        const Tensor order = argsort(x, 0);
        const auto places = order.data<std::int64_t>();
        for (const std::int64_t place : {std::int64_t{1}, size / 2 + 1, size}) {
          INFO(static_cast<int>(dtype), " ", size, " ", place);
          CHECK(kthvalue(x, place, 0).indices.item<std::int64_t>() == places[static_cast<std::size_t>(place - 1)]);
        }
      }
}
