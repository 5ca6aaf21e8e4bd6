#include "examples/models/gpt2.hpp"

#include "tests/models/support.hpp"

namespace models_test {
namespace {

constexpr models::Gpt2Config config{
    .vocab_size = 19, .context = 12, .width = 16, .layers = 2, .heads = 4, .dropout = 0};

TEST_CASE("GPT-2: Hugging Face's losses, logits and gradients, for any number of texts of any length") {
  const auto loss = [](models::Gpt2& model, const List& in) {
    const Tensor text = in[0], logits = model(slice(text, 1, 0, -1));
    return std::pair{nn::cross_entropy(flatten(logits, 0, 1), flatten(slice(text, 1, 1, Dim::end()))), logits};
  };
  check_model(
      "gpt2", models::Gpt2(config), {integers("tokens", {2, 9}, 19)}, loss,
      {.renames = models::gpt2_names,
       .others = {
           {integers("tokens", {3, 5}, 19)}, {integers("tokens", {7, 13}, 19)}, {integers("tokens", {4, 10}, 19)}}});
}

TEST_CASE("GPT-2 with a cache: the logits of the whole text, from one compilation for all single tokens") {
  models::Gpt2 model(config);
  nn::eval(model);
  const Tensor text = integers("text", {2, 12}, 19), whole = model(text);
  auto caches = model.make_caches(2);
  auto next = compile([](const models::Gpt2& m, const Tensor& tokens, models::Gpt2::Caches& caches, const Index& at) {
    return m(tokens, caches, at);
  });
  List logits = {next(model, slice(text, 1, 0, 5), caches, 0)};
  for (std::int64_t at = 5; at < 12; ++at) logits.push_back(next(model, slice(text, 1, at, at + 1), caches, at));
  CHECK(amax(abs(concat(logits, 1) - whole)).item() < 1e-5);
  CHECK(specialization_count(next) == 2);
}

}  // namespace
}  // namespace models_test
