// all-MiniLM-L6-v2 with its published weights: the tokens of Hugging Face, the embeddings of PyTorch.
#include <cmath>

#include "examples/models/bert.hpp"
#include "examples/support/wordpiece.hpp"
#include "tests/weights/support.hpp"

using namespace weft;
using namespace weights_test;

static std::string weights() { return lack_of("minilm"); }

TEST_CASE("tokens of 260 texts and embeddings of sentences, one compilation for a single text, one for several" *
          test::needs(weights)) {
  const std::string folder = folder_of("minilm");
  const nlohmann::json expected = golden("minilm.json");
  const support::WordPiece vocabulary(folder + "/vocab.txt", models::BertConfig().vocab_size);
  for (const nlohmann::json& one : expected.at("texts")) {
    CAPTURE(one.at("text").dump());
    CHECK(vocabulary.encode(one.at("text").get<std::string>(), 256) ==
          one.at("published").get<std::vector<std::int64_t>>());
  }

  models::Bert model({.width = 384, .hidden = 1536, .layers = 6});
  io::load(folder + "/model.safetensors", model, {.allow_extra = true, .renames = models::bert_names});
  nn::eval(model);
  const auto embed = compile([](const models::Bert& model, const Tensor& tokens,
                                const Tensor& mask) { return models::sentence_embedding(model(tokens, mask), mask); },
                             {.dynamic = true});
  const nlohmann::json& sentences = expected.at("sentences");
  std::vector<std::string> all;
  for (const nlohmann::json& one : sentences) all.push_back(one.at("text"));
  std::size_t compared = 0;
  for (const std::size_t batch : {all.size(), std::size_t{3}, std::size_t{2}, std::size_t{1}}) {
    for (std::size_t first = 0; first + batch <= all.size(); first += batch) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
      const auto [tokens, mask] =
          vocabulary.encode(std::vector(begin, begin + static_cast<std::ptrdiff_t>(batch)), std::size_t{256});
      const Tensor found = embed(model, tokens, mask);
      const auto values = found.data<float>();
      for (std::size_t i = 0; i < batch; ++i)
        for (std::size_t k = 0; k < 384; ++k, ++compared) {
          const double wanted = sentences[first + i].at("embedding")[k];
          CHECK(std::abs(static_cast<double>(values[i * 384 + k]) - wanted) < 1e-5);
        }
    }
    CHECK(specialization_count(embed) == (batch == 1 ? 2 : 1));  // a size of 1 is a number
  }
  CHECK(compared == 30 * 384);
}

TEST_CASE("weights for another model: every name is listed, and nothing is changed" * test::needs(weights)) {
  const std::string folder = folder_of("minilm");
  models::Bert wider({.width = 400, .hidden = 1536, .layers = 7, .heads = 10});
  const Tensor before = wider.pooler.weight;
  const std::string text = message_of(
      [&] { io::load(folder + "/model.safetensors", wider, {.allow_extra = true, .renames = models::bert_names}); });
  std::vector<std::string> missing;
  const auto wants = [&](const std::string& name) {
    if (text.find(name) == std::string::npos) missing.push_back(name);
  };
  for (const char* half : {"query", "key", "value"})
    for (const char* part : {"weight", "bias"}) {
      wants(std::string("layers.6.attention.") + half + "." + part);  // only in the struct
      for (int layer = 0; layer < 6; ++layer)                         // of another shape
        wants("layers." + std::to_string(layer) + ".attention." + half + "." + part + " is f32[400");
    }
  wants("pooler.weight is f32[400,400], the file has F32[384,384]");
  CHECK(missing == std::vector<std::string>{});
  CHECK(all(wider.pooler.weight == before).item<bool>());
}
