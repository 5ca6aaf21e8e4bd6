#include "examples/models/next_token.hpp"

#include <doctest/doctest.h>

#include <limits>

namespace models_test {
namespace {

using namespace weft;

TEST_CASE("next_token draws from the likeliest, and takes the likeliest where it is cold") {
  Generator generator(1);
  const Tensor logits = reshape(from_list<float>({0, 9, 0, 0, 3, 1, 2, 4}), {2, 1, 4});
  const Tensor cold = models::next_token(logits, 0, 4, generator);
  CHECK((cold.size(0) == Dim(2) && cold.size(1) == Dim(1)));
  CHECK(cold[0].item<std::int64_t>() == 1);
  CHECK(cold[1].item<std::int64_t>() == 3);
  bool seen[4] = {};
  for (int i = 0; i < 200; ++i) seen[models::next_token(logits, 1, 2, generator)[1].item<std::int64_t>()] = true;
  CHECK((seen[0] && seen[3] && !seen[1] && !seen[2]));
}

TEST_CASE("next_token at temperature 0 takes the likeliest of near ties, the first of equal ones, in every dtype") {
  Generator generator(1);
  const auto take = compile([](const Tensor& logits, const Scalar& temperature, Generator& generator) {
    return models::next_token(logits, temperature, 4, generator);
  });
  const auto cold = [&](const Tensor& logits) {
    for (int i = 0; i < 40; ++i) {
      const Tensor token = take(logits, 0, generator);
      CHECK((token.size(0) == Dim(1) && token.size(1) == Dim(1)));
      CHECK(token.item<std::int64_t>() == argmax(logits).item<std::int64_t>());
      CHECK(models::next_token(logits, 0, 4, generator).item<std::int64_t>() == token.item<std::int64_t>());
    }
  };
  cold(reshape(from_list<float>({5, 5.00002f, 0, 0}), {1, 1, 4}));
  cold(reshape(from_list<float>({0, 7, 3, 7}), {1, 1, 4}));
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    CAPTURE(static_cast<int>(dtype));
    cold(cast(reshape(from_list<float>({9, 8, 0, 0}), {1, 1, 4}), dtype));
    cold(cast(reshape(from_list<float>({-60000, 60000, 0, 0}), {1, 1, 4}), dtype));
  }
}

TEST_CASE("next_token where it is nearly cold, or a token can't be") {
  Generator generator(1);
  const Tensor logits = cast(reshape(from_list<float>({9, 8, 0, 0}), {1, 1, 4}), DType::f16);
  for (const double temperature : {1e-3, 1e-6, 1e-38, 1e-300})
    CHECK(models::next_token(logits, temperature, 4, generator).item<std::int64_t>() == 0);
  constexpr float never = -std::numeric_limits<float>::infinity();
  const Tensor masked = reshape(from_list<float>({never, 0, never, never}), {1, 1, 4});
  for (const double temperature : {0.0, 1e-6, 1.0})
    CHECK(models::next_token(masked, temperature, 4, generator).item<std::int64_t>() == 1);
}

}  // namespace
}  // namespace models_test
