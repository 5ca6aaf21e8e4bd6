// The tokenizer of BERT's uncased models: text is split into words, and each word into the longest pieces that the
// vocabulary has (Schuster and Nakajima 2012; Devlin and others 2018). What Unicode says of a character is utf8proc's.
#pragma once
#include <utf8proc.h>

#include <algorithm>
#include <unordered_map>

#include "examples/support/run.hpp"

namespace support {

class WordPiece {
 public:
  // A file with a token a line, numbered from 0: as many as the model has embeddings.
  WordPiece(const std::string& path, std::int64_t size) {
    const std::string file = data::read_text(path);
    for (std::size_t begin = 0, end; (end = file.find('\n', begin)) != std::string::npos; begin = end + 1)
      numbers_.emplace(file.substr(begin, end - begin), numbers_.size());
    for (const char* token : {"[PAD]", "[UNK]", "[CLS]", "[SEP]"})
      if (!numbers_.count(token)) fail(path + " is no vocabulary of BERT: it has no " + token);
    if (std::int64_t(numbers_.size()) != size || !file.ends_with('\n'))
      fail(path + " is damaged: it has " + std::to_string(numbers_.size()) +
           " whole lines that differ, and the model has " + std::to_string(size) + " tokens");
  }

  // [CLS] text [SEP], at most `longest` numbers.
  std::vector<std::int64_t> encode(const std::string& text, std::size_t longest) const {
    std::vector<std::int64_t> all{number("[CLS]")};
    for (const std::string& word : words(text)) append_pieces(word, all);
    if (all.size() + 1 > longest) all.resize(longest - 1);
    all.push_back(number("[SEP]"));
    return all;
  }

  // Several texts, padded to the longest: tokens and mask, integers [texts, length].
  std::pair<Tensor, Tensor> encode(const std::vector<std::string>& texts, std::size_t longest) const {
    std::vector<std::vector<std::int64_t>> rows;
    std::size_t length = 0;
    for (const std::string& text : texts) length = std::max(length, rows.emplace_back(encode(text, longest)).size());
    std::vector<std::int64_t> tokens, mask;
    for (std::vector<std::int64_t>& row : rows) {
      mask.insert(mask.end(), row.size(), 1);
      mask.resize(mask.size() + length - row.size(), 0);
      row.resize(length, number("[PAD]"));
      tokens.insert(tokens.end(), row.begin(), row.end());
    }
    const Sizes sizes{rows.size(), length};
    return {from_span(tokens, sizes), from_span(mask, sizes)};
  }

 private:
  static constexpr std::size_t longest_word = 100;  // characters; a longer one is unknown

  std::int64_t number(const std::string& token) const {
    const auto found = numbers_.find(token);
    return static_cast<std::int64_t>(found == numbers_.end() ? numbers_.at("[UNK]") : found->second);
  }

  static bool is_control(utf8proc_int32_t c) {
    const utf8proc_category_t category = utf8proc_category(c);
    return c != '\t' && c != '\n' && c != '\r' &&
           (category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CN ||
            category == UTF8PROC_CATEGORY_CO);
  }
  static bool is_space(utf8proc_int32_t c) {
    return c == '\t' || c == '\n' || c == '\r' || c == 0x2028 || c == 0x2029 ||
           utf8proc_category(c) == UTF8PROC_CATEGORY_ZS;
  }
  static bool is_punctuation(utf8proc_int32_t c) {
    const utf8proc_category_t category = utf8proc_category(c);
    const bool ascii = (33 <= c && c <= 47) || (58 <= c && c <= 64) || (91 <= c && c <= 96) || (123 <= c && c <= 126);
    return ascii || (UTF8PROC_CATEGORY_PC <= category && category <= UTF8PROC_CATEGORY_PO);
  }
  static bool is_ideograph(utf8proc_int32_t c) {
    static constexpr utf8proc_int32_t blocks[][2] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF},
                                                     {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF},
                                                     {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
    for (const auto& [first, last] : blocks)
      if (first <= c && c <= last) return true;
    return false;
  }

  // In lower case and without accents; a punctuation mark and an ideograph is a word of its own.
  static std::vector<std::string> words(const std::string& text) {
    std::vector<std::string> all(1);
    const auto append = [&](utf8proc_int32_t c) {
      utf8proc_uint8_t bytes[4];
      const auto count = static_cast<std::size_t>(utf8proc_encode_char(utf8proc_tolower(c), bytes));
      all.back().append(reinterpret_cast<const char*>(bytes), count);
    };
    const auto end_word = [&] {
      if (!all.back().empty()) all.emplace_back();
    };
    const auto* next = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
    auto left = static_cast<utf8proc_ssize_t>(text.size());
    while (left > 0) {
      utf8proc_int32_t c = 0;
      const utf8proc_ssize_t read = utf8proc_iterate(next, left, &c);
      if (read < 0) c = 0xFFFD;  // not UTF-8
      next += read < 0 ? 1 : read, left -= read < 0 ? 1 : read;
      if (c == 0 || c == 0xFFFD || is_control(c)) continue;
      if (is_space(c)) {
        end_word();
        continue;
      }
      const bool alone = is_ideograph(c);
      if (alone) end_word();
      utf8proc_int32_t parts[32];
      int boundary = 0;
      const utf8proc_ssize_t count = utf8proc_decompose_char(c, parts, 32, UTF8PROC_DECOMPOSE, &boundary);
      for (utf8proc_ssize_t i = 0; i < count; ++i) {
        if (utf8proc_category(parts[i]) == UTF8PROC_CATEGORY_MN) continue;
        if (is_punctuation(parts[i])) end_word();
        append(parts[i]);
        if (is_punctuation(parts[i])) end_word();
      }
      if (alone) end_word();
    }
    if (all.back().empty()) all.pop_back();
    return all;
  }

  void append_pieces(const std::string& word, std::vector<std::int64_t>& to) const {
    const auto is_first = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
    const auto characters = static_cast<std::size_t>(std::count_if(word.begin(), word.end(), is_first));
    std::vector<std::int64_t> pieces;
    for (std::size_t begin = 0, end = 0; characters <= longest_word && begin < word.size(); begin = end) {
      auto found = numbers_.end();
      for (end = word.size(); end > begin; --end) {
        found = numbers_.find((begin > 0 ? "##" : "") + word.substr(begin, end - begin));
        if (found != numbers_.end()) break;
      }
      if (end == begin) {
        pieces.clear();
        break;
      }
      pieces.push_back(static_cast<std::int64_t>(found->second));
    }
    if (pieces.empty()) pieces.push_back(number("[UNK]"));
    to.insert(to.end(), pieces.begin(), pieces.end());
  }

  std::unordered_map<std::string, std::size_t> numbers_;
};

}  // namespace support
