// Reads text that to_text() functions write: characters, words, numbers, expressions over sizes. What does not fit is
// an error with line and column.
#pragma once
#include <bit>
#include <charconv>
#include <functional>
#include <string>
#include <string_view>

#include "base/dim_expression.hpp"
#include "base/fail.hpp"
#include "weft/dtype.hpp"

namespace weft {

class TextReader {
 public:
  // `operation`: who reads, for the errors.
  TextReader(const char* operation, std::string_view text) : operation_(operation), text_(text) {}

 protected:
  ~TextReader() = default;
  // The atom of a size that a letter and a number name.
  virtual Dim atom(char letter, int number) = 0;
  virtual bool names_atom(char letter) const = 0;

  [[noreturn]] void refuse(const std::string& wanted) const {
    std::size_t line = 1, column = 1;
    for (std::size_t i = 0; i < at_; ++i) text_[i] == '\n' ? (++line, column = 1) : ++column;
    fail(operation_, {}, "line ", line, ", column ", column, ": ", wanted, " is expected");
  }
  bool at_end() const { return at_ == text_.size(); }
  bool is(std::string_view token) const { return text_.substr(at_).starts_with(token); }
  bool accept(std::string_view token) {
    if (!is(token)) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) refuse("'" + std::string(token == "\n" ? "the end of the line" : token) + "'");
  }
  void spaces() {
    while (accept(" ")) {
    }
  }
  template <class Accepts>
  std::string_view take_while(Accepts accepts) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && accepts(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  std::string_view word() {
    return take_while(
        [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || (c >= 'A' && c <= 'Z'); });
  }
  template <class T>
  T number(const char* what) {
    T value{};
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) refuse(what);
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }
  std::int64_t integer() { return number<std::int64_t>("an integer"); }
  double real() {
    if (!accept("0x")) return number<double>("a number");
    std::uint64_t bits = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), bits, 16);
    if (error != std::errc()) refuse("the bits of a number");
    at_ = static_cast<std::size_t>(end - text_.data());
    return std::bit_cast<double>(bits);
  }

  DType dtype() {
    const std::size_t begin = at_;
    const std::string_view name = word();
    for (int i = 0; i < dtype_count; ++i)
      if (name == info(static_cast<DType>(i)).name) return static_cast<DType>(i);
    at_ = begin;
    refuse("a dtype");
  }

  Dim size() {
    if (depth_ == most_depth) refuse("an expression of fewer levels");
    ++depth_;
    const Dim result = sum();
    --depth_;
    return result;
  }

  // Where the reader is.
  std::size_t at_ = 0;
  const char* operation_;
  std::string_view text_;

 private:
  // Bounds of the time that a short text takes: sizes that somebody wrote have a few levels and terms.
  static constexpr int most_depth = 8;  // of quotients in each other
  static constexpr std::size_t most_terms = 256;
  int depth_ = 0;

  void require_few(Dim a, Dim b = 1) const {
    if (dims::terms(a).size() * dims::terms(b).size() > most_terms) refuse("a size of fewer terms");
  }
  Dim sum() {
    if (accept("-2^62")) return Dim(INT64_MIN);
    const bool negative = is("-") && !(at_ + 1 < text_.size() && text_[at_ + 1] >= '0' && text_[at_ + 1] <= '9');
    if (negative) ++at_;
    Dim result = negative ? -term() : term();
    while (is(" + ") || is(" - ")) {
      const bool minus = is(" - ");
      at_ += 3;
      result = minus ? result - term() : result + term();
      require_few(result);
    }
    return result;
  }

  Dim factor() {
    if (accept("2^62")) return Dim(INT64_MAX);
    for (const bool divide : {true, false}) {
      if (!accept(divide ? "floor_divide(" : "modulo(")) continue;
      const Dim left = size();
      expect(", ");
      const Dim right = size();
      expect(")");
      return divide ? left / right : left % right;
    }
    if (accept("((")) {
      const Dim left = size();
      expect(") ");
      const bool divide = accept("/");
      if (!divide) expect("%");
      expect(" (");
      const Dim right = size();
      expect("))");
      return divide ? left / right : left % right;
    }
    if (at_ < text_.size() && names_atom(text_[at_])) {
      const char letter = text_[at_++];
      return atom(letter, number<int>("the number of a symbol"));
    }
    return Dim(integer());
  }
  Dim term() {
    Dim result = factor();
    while (accept("*")) {
      const Dim next = factor();
      require_few(result, next);
      result = result * next;
    }
    return result;
  }
};

}  // namespace weft
