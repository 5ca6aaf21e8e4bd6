// A model of characters, as 05_char_gpt trains it and 06_generate reads it: GPT-2 over the bytes of a text. What a user
// reads, in messages and of what the model writes, are whole characters of UTF-8.
#pragma once
#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "examples/models/gpt2.hpp"
#include "examples/models/next_token.hpp"
#include "examples/support/run.hpp"

namespace support {

// How many bytes a character of UTF-8 has that begins with this one; 0 where none does.
inline std::size_t length_from(char byte) {
  const auto first = static_cast<unsigned char>(byte);
  return first < 0x80 ? 1 : first < 0xC2 || first > 0xF4 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}
inline bool goes_on(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }
// How many bytes the character has that begins at this place of a text; 1 where no whole one does.
inline std::size_t length_at(const std::string& text, std::size_t at) {
  const std::size_t length = length_from(text[at]);
  for (std::size_t i = 1; i < length; ++i)
    if (at + i == text.size() || !goes_on(text[at + i])) return 1;
  return std::max<std::size_t>(length, 1);
}
// The first characters of a text, whole ones, of at most so many bytes.
inline std::string beginning(const std::string& text, std::int64_t most) {
  std::size_t end = 0;
  while (end < text.size() && end + length_at(text, end) <= static_cast<std::size_t>(most)) end += length_at(text, end);
  return text.substr(0, end);
}

// The bytes that a text has, numbered in their order.
struct Alphabet {
  Tensor numbers = full({256}, -1, {DType::i64});  // of each byte; -1: the text does not have it
  std::int64_t size = 0;
  WEFT_MEMBERS(numbers, size)

  Alphabet() = default;
  explicit Alphabet(const std::string& text) {
    std::vector<std::int64_t> number(256, -1);
    for (const char c : text) number[static_cast<unsigned char>(c)] = 0;
    for (std::int64_t& each : number)
      if (each == 0) each = size++;
    numbers = from_span(number, {256});
  }
  Tensor encode(const std::string& text) const {  // integers [length]
    std::vector<std::int64_t> number(256);
    numbers.copy_to(number);
    std::vector<std::int64_t> found;
    for (std::size_t at = 0, end = 0; at < text.size(); at = end) {
      end += length_at(text, at);
      for (std::size_t i = at; i < end; ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        found.push_back(number[byte]);
        if (found.back() >= 0) continue;
        const bool shows = end - at > 1 || (byte > 32 && byte < 127);
        fail("the model's alphabet does not have the character " +
             (shows ? "'" + text.substr(at, end - at) + "'" : "of code " + std::to_string(byte)));
      }
    }
    return from_span(found, {static_cast<std::int64_t>(found.size())});
  }
  char decode(std::int64_t token) const {
    std::vector<std::int64_t> number(256);
    numbers.copy_to(number);
    for (std::size_t c = 0; c < 256; ++c)
      if (number[c] == token) return static_cast<char>(c);
    return '?';
  }
};

// What a checkpoint says of itself, so that a model of its sizes can be made.
struct CharacterModel {
  std::int64_t context = 64, width = 128, layers = 4, heads = 4;
  Alphabet alphabet;
  WEFT_MEMBERS(context, width, layers, heads, alphabet)

  models::Gpt2 make(Device device) const {
    models::Gpt2 model({.vocab_size = alphabet.size,
                        .context = context,
                        .width = width,
                        .layers = layers,
                        .heads = heads,
                        .dropout = 0});
    nn::to(model, device);
    return model;
  }
};

// Refuses a prompt that the model can't go on from.
inline void check_prompt(const std::string& prompt, const Alphabet& alphabet, std::int64_t context) {
  const auto start = static_cast<std::int64_t>(prompt.size());
  if (prompt.empty()) fail("the prompt must have a character at least");
  if (start > context)
    fail("the prompt has " + std::to_string(start) + " characters, and the model sees " + std::to_string(context));
  alphabet.encode(prompt);
}

// Prints bytes as they come, a whole character at a time, and ? for what is none; half a one at the end is left out.
class Printer {
 public:
  void put(char byte) {
    if (!held_.empty() && !goes_on(byte)) {
      std::putchar('?');
      held_.clear();
    }
    held_ += byte;
    if (length_from(held_[0]) == 0) held_ = '?';
    if (held_.size() == length_from(held_[0])) {
      std::fwrite(held_.data(), 1, held_.size(), stdout);
      held_.clear();
    }
    std::fflush(stdout);
  }

 private:
  std::string held_;  // a character whose end has not come yet
};

// Calls that were timed, of a character each.
struct Timed {
  std::int64_t calls = 0;
  double seconds = 0;
};

// Writes characters as they are drawn, after a prompt, until the context is full or there are `count`: the whole prompt
// at once, then one character a call, with a cache of keys and values. Times the calls but for the first two, which
// compile: that of the prompt, and that of the first single character.
inline Timed generate(const models::Gpt2& model, const Alphabet& alphabet, const std::string& prompt,
                      std::int64_t count, double temperature, std::int64_t top, Generator& generator) {
  const std::int64_t start = static_cast<std::int64_t>(prompt.size()), context = model.config.context;
  check_prompt(prompt, alphabet, context);
  top = std::min(top ? top : alphabet.size, alphabet.size);
  count = std::min(count, context - start + 1);
  auto next = compile([](const models::Gpt2& m, const Tensor& tokens, models::Gpt2::Caches& caches, const Index& at,
                         const Scalar& temperature, std::int64_t top, Generator& generator) {
    return models::next_token(m(tokens, caches, at), temperature, top, generator);
  });
  auto caches = model.make_caches(1);
  const Device device = model.wte.weight->device();
  std::printf("%s", prompt.c_str());
  Tensor token =
      next(model, to(reshape(alphabet.encode(prompt), {1, -1}), device), caches, 0, temperature, top, generator);
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin;
  Timed timed;
  Printer printer;
  for (std::int64_t i = 0; i < count; ++i) {
    if (i > 0) token = next(model, token, caches, start + i - 1, temperature, top, generator);
    printer.put(alphabet.decode(token.item<std::int64_t>()));
    if (i == 1) begin = Clock::now();
    if (i > 1) ++timed.calls;
  }
  if (timed.calls > 0) timed.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  std::putchar('\n');
  return timed;
}

}  // namespace support
