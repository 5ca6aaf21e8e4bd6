#include "examples/models/llama.hpp"

#include "examples/models/mixtral.hpp"
#include "tests/models/support.hpp"

namespace models_test {
namespace {

constexpr models::LlamaConfig config{.vocab_size = 19,
                                     .context = 12,
                                     .width = 16,
                                     .hidden = 24,
                                     .layers = 2,
                                     .heads = 4,
                                     .kv_heads = 2,
                                     .rope_scaling = {.factor = 1},
                                     .tied = false};
constexpr models::LlamaConfig scaled = [] {
  models::LlamaConfig c = config;
  c.rope_scaling = {.factor = 8, .context = 16};
  return c;
}();

constexpr models::MixtralConfig mixture(config, 4);

template <class Model>
void check_decoder(const char* family, const Model& model) {
  const auto loss = [](Model& model, const List& in) {
    const Tensor text = in[0], logits = model(slice(text, 1, 0, -1));
    return std::pair{nn::cross_entropy(flatten(logits, 0, 1), flatten(slice(text, 1, 1, Dim::end()))), logits};
  };
  check_model(
      family, model, {integers("tokens", {2, 9}, 19)}, loss,
      {.renames = models::llama_names,
       .others = {
           {integers("tokens", {3, 5}, 19)}, {integers("tokens", {40, 13}, 19)}, {integers("tokens", {4, 10}, 19)}}});
}

TEST_CASE(
    "LLaMA with scaled turns: Hugging Face's losses, logits and gradients, for any number of texts of any length") {
  check_decoder("llama", models::Llama(scaled));
}
TEST_CASE("Mixtral: Hugging Face's losses, logits and gradients, for any number of texts of any length") {
  check_decoder("mixtral", models::Mixtral(mixture));
}

// The prompt at once, then one token after another: logits as of the whole text at once.
template <class Model>
void check_cache(const Model& model) {
  const Tensor text = integers("text", {2, 12}, 19), whole = model(text);
  auto caches = model.make_caches(2);
  auto next = compile([](const Model& m, const Tensor& tokens, typename Model::Caches& caches, const Index& at) {
    return m(tokens, caches, at);
  });
  List logits = {next(model, slice(text, 1, 0, 5), caches, 0)};
  for (std::int64_t at = 5; at < 12; ++at) logits.push_back(next(model, slice(text, 1, at, at + 1), caches, at));
  CHECK(amax(abs(concat(logits, 1) - whole)).item() < 1e-5);
  CHECK(specialization_count(next) == 2);
}
TEST_CASE("LLaMA with a cache") { check_cache(models::Llama(config)); }
TEST_CASE("Mixtral with a cache") { check_cache(models::Mixtral(mixture)); }

TEST_CASE("Mixtral's parameters are all of the dtype that is asked for") {
  models::MixtralConfig half = mixture;
  half.options.dtype = DType::bf16;
  const models::Mixtral model(half);
  tree::for_each(model, [](const char* place, const Param& p) {
    CAPTURE(place);
    CHECK(p->dtype() == DType::bf16);
  });
}

}  // namespace
}  // namespace models_test
