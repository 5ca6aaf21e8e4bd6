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
  const support::WordPiece vocabulary(file.path);
  for (const nlohmann::json& one : expected.at("texts")) {
    CAPTURE(one.at("text").dump());
    CHECK(vocabulary.encode(one.at("text").get<std::string>(), 256) ==
          one.at("small").get<std::vector<std::int64_t>>());
  }
  CHECK(expected.at("texts").size() >= 250);
}

TEST_CASE("texts that are cut, not UTF-8, and files that are no vocabulary") {
  const TemporaryFile file("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\n##b\n");
  const support::WordPiece vocabulary(file.path);
  CHECK(vocabulary.encode(std::string("a bb x"), 10) == std::vector<std::int64_t>{2, 4, 5, 6, 1, 3});
  CHECK(vocabulary.encode(std::string("a a a a"), 4) == std::vector<std::int64_t>{2, 4, 4, 3});
  CHECK(vocabulary.encode(std::string("a\xff\xfe b\xc3"), 10) == std::vector<std::int64_t>{2, 4, 5, 3});
  const auto [tokens, mask] = vocabulary.encode(std::vector<std::string>{"a", "a b a"}, 10);
  CHECK(tokens.shape() == Sizes{2, 5});
  CHECK(sum(mask).item<int>() == 8);
  const TemporaryFile other("hello\nworld\n");
  CHECK(message_of([&] { support::WordPiece{other.path}; }).find("is no vocabulary of BERT: it has no [PAD]") !=
        std::string::npos);
  CHECK(message_of([] { support::WordPiece("/nonexistent/vocab.txt"); }) == "/nonexistent/vocab.txt can't be read");
}
