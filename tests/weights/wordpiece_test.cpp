// The tokenizer against Hugging Face's, on a vocabulary of its own and texts with odd Unicode.
#include "examples/support/wordpiece.hpp"

#include "tests/weights/support.hpp"

using namespace weft;
using namespace weights_test;

TEST_CASE("260 texts, odd ones among them, become Hugging Face's tokens") {
  const nlohmann::json expected = golden("minilm.json");
  std::string lines;
  for (const std::string token : expected.at("vocabulary")) lines += token + "\n";
  const TemporaryFile file(lines);
  const support::WordPiece vocabulary(file.path, static_cast<std::int64_t>(expected.at("vocabulary").size()));
  for (const nlohmann::json& one : expected.at("texts")) {
    CAPTURE(one.at("text").dump());
    CHECK(vocabulary.encode(one.at("text").get<std::string>(), 256) ==
          one.at("small").get<std::vector<std::int64_t>>());
  }
  CHECK(expected.at("texts").size() >= 250);
}

TEST_CASE("texts that are cut, and texts that are not UTF-8") {
  const TemporaryFile file("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\n##b\n");
  const support::WordPiece vocabulary(file.path, 7);
  CHECK(vocabulary.encode(std::string("a bb x"), 10) == std::vector<std::int64_t>{2, 4, 5, 6, 1, 3});
  CHECK(vocabulary.encode(std::string("a a a a"), 4) == std::vector<std::int64_t>{2, 4, 4, 3});
  CHECK(vocabulary.encode(std::string("a\xff\xfe b\xc3"), 10) == std::vector<std::int64_t>{2, 4, 5, 3});
  const auto [tokens, mask] = vocabulary.encode(std::vector<std::string>{"a", "a b a"}, 10);
  CHECK(tokens.shape() == Sizes{2, 5});
  CHECK(sum(mask).item<int>() == 8);
}

TEST_CASE("files that are no vocabulary, or not the whole one of the model") {
  const auto refusal = [](const std::string& text, std::int64_t size) {
    const TemporaryFile file(text);
    const std::string said = message_of([&] { support::WordPiece{file.path, size}; });
    return said.substr(std::min(said.size(), file.path.size()));
  };
  CHECK(refusal("hello\nworld\n", 2) == " is no vocabulary of BERT: it has no [PAD]");
  const std::string whole = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nsea\n##side\n";
  CHECK(refusal(whole, 6) == "");
  CHECK(refusal(whole.substr(0, whole.size() - 7), 6) ==
        " is damaged: it has 5 whole lines that differ, and the model has 6 tokens");
  CHECK(refusal(whole.substr(0, whole.size() - 3), 6) ==  // within the last line
        " is damaged: it has 5 whole lines that differ, and the model has 6 tokens");
  CHECK(refusal(whole, 7) == " is damaged: it has 6 whole lines that differ, and the model has 7 tokens");
  CHECK(message_of([] {
          support::WordPiece("/nonexistent/vocab.txt", 1);
        }).starts_with("[read_text] /nonexistent/vocab.txt can't be opened: No such file or directory"));
}
