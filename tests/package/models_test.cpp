// Models of examples/models in packages: decoders with caches and recurrent state, which calls change, and
// convolutions.
#include "examples/models/llama.hpp"
#include "examples/models/lstm_language_model.hpp"
#include "examples/models/resnet.hpp"
#include "package/there.hpp"
#include "tests/needs_compiler.hpp"

using namespace package_test;
using weft::test::a_compiler;
using weft::test::needs;

namespace {

Tensor decode(const models::Llama& model, const Tensor& tokens, models::Llama::Caches& caches, Index& position) {
  const Tensor logits = model(tokens, caches, position);
  position += 3;
  return logits;
}
Tensor recur(const models::LstmLanguageModel& model, const Tensor& tokens, models::LstmLanguageModel::State& state) {
  return model(tokens, state);
}
using SmallResNet = models::ResNet<models::BasicBlock>;
Tensor train_convolutions(SmallResNet& model, const Tensor& images) { return mean(square(model(images))); }

void hold_models(const Way& way) {
  seed(3);
  const models::Llama llama(
      {.vocab_size = 23, .context = 12, .width = 16, .hidden = 32, .layers = 2, .heads = 4, .kv_heads = 2});
  models::Llama::Caches caches = llama.make_caches(2);
  Index position = 0;
  hold(way, "llama", decode, {}, llama, reshape(randint({6}, 0, 23), {2, 3}), caches, position);
  models::LstmLanguageModel lstm({.vocab_size = 23, .width = 8, .hidden = 8, .layers = 2, .dropout = 0.25});
  models::LstmLanguageModel::State state = lstm.make_state(3);
  hold(way, "lstm", recur, {.dynamic = true}, lstm, reshape(randint({12}, 0, 23), {4, 3}), state);
  SmallResNet resnet({1, 1, 1, 1}, 5, 8);
  hold(way, "resnet", train_convolutions, {}, resnet, normal({2, 3, 32, 32}));
}

}  // namespace

TEST_CASE("models that were packaged run in a new process, to the same bits" * needs(a_compiler)) {
  here_and_there(hold_models, "(there) models");
}
TEST_CASE("(there) models") { there(hold_models); }
