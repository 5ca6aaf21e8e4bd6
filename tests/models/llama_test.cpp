#include "examples/models/llama.hpp"

#include "examples/models/mixtral.hpp"
#include "examples/models/next_token.hpp"
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
                                     .experts = 4,
                                     .rope_scaling = {.factor = 1},
                                     .tied = false};
constexpr models::LlamaConfig scaled = [] {
  models::LlamaConfig c = config;
  c.rope_scaling = {.factor = 8, .context = 16};
  return c;
}();

template <class Model>
void check_decoder(const char* family, const models::LlamaConfig& of) {
  const auto loss = [](Model& model, const List& in) {
    const Tensor text = in[0], logits = model(slice(text, 1, 0, -1));
    return std::pair{nn::cross_entropy(flatten(logits, 0, 1), flatten(slice(text, 1, 1, Dim::end()))), logits};
  };
  check_model(
      family, Model(of), {integers("tokens", {2, 9}, 19)}, loss,
      {.renames = models::llama_names,
       .others = {
           {integers("tokens", {3, 5}, 19)}, {integers("tokens", {40, 13}, 19)}, {integers("tokens", {4, 10}, 19)}}});
}

TEST_CASE(
    "LLaMA with scaled turns: Hugging Face's losses, logits and gradients, for any number of texts of any length") {
  check_decoder<models::Llama>("llama", scaled);
}
TEST_CASE("Mixtral: Hugging Face's losses, logits and gradients, for any number of texts of any length") {
  check_decoder<models::Mixtral>("mixtral", config);
}

// The prompt at once, then one token after another: logits as of the whole text at once.
template <class Model>
void check_cache() {
  const Model model(config);
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
TEST_CASE("LLaMA with a cache") { check_cache<models::Llama>(); }
TEST_CASE("Mixtral with a cache") { check_cache<models::Mixtral>(); }

TEST_CASE("Mixtral's parameters are all of the dtype that is asked for") {
  models::LlamaConfig half = config;
  half.options.dtype = DType::bf16;
  const models::Mixtral model(half);
  tree::for_each(model, [](const char* place, const Param& p) {
    CAPTURE(place);
    CHECK(p->dtype() == DType::bf16);
  });
}

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

}  // namespace
}  // namespace models_test
