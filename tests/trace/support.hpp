// What the tests of compile() share: small tensors, their numbers and messages of errors.
#pragma once
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/message_of.hpp"
#include "weft/compile.hpp"
#include "weft/explain.hpp"
#include "weft/ops.hpp"

namespace trace_test {

inline weft::Tensor vector_of(std::initializer_list<float> numbers) { return weft::from_list<float>(numbers); }
inline std::vector<float> numbers_of(const weft::Tensor& tensor) {
  std::vector<float> numbers(static_cast<std::size_t>(tensor.element_count().constant()));
  tensor.copy_to<float>(numbers);
  return numbers;
}
using Numbers = std::vector<float>;

using weft::test::message_of;

// The elements as text, which tells signs of zeros apart and takes NaNs as equal: "1 -0 nan inf".
inline std::string text_of(const weft::Tensor& tensor) {
  std::string text;
  const int digits = weft::is_floating(tensor.dtype()) ? 9 : 17;
  weft::Tensor wide = weft::cast(tensor, weft::DType::f64);
  for (double x : wide.data<double>()) {
    char number[40];
    std::snprintf(number, sizeof number, "%s%.*g", text.empty() ? "" : " ", digits, x);
    text += x == x ? number : text.empty() ? "nan" : " nan";
  }
  return text;
}

inline constexpr weft::Backend backends[] = {weft::Backend::compiled, weft::Backend::eager, weft::Backend::reference};

// A value beside its text, as it should be: what a function under check_every_way returns, many at once, so that one
// compilation serves them all.
struct Answer {
  weft::Tensor value;
  std::string expected;
};
using Answers = std::vector<Answer>;

// What a captureless function computes: plainly, and compiled by each backend.
template <class F, class... T>
auto every_way(F f, const T&... argument) {
  std::vector<decltype(f(argument...))> results;
  results.push_back(f(argument...));
  for (weft::Backend backend : backends) results.push_back(weft::compile(f, {.backend = backend})(argument...));
  return results;
}

inline void check_answers(const std::vector<Answers>& results) {
  for (std::size_t way = 0; way < results.size(); ++way)
    for (std::size_t i = 0; i < results[way].size(); ++i) {
      CAPTURE(way);  // plainly, compiled, eager, reference, of symbolic sizes
      CAPTURE(i);
      CHECK(text_of(results[way][i].value) == results[way][i].expected);
    }
}
template <class F, class... T>
void check_every_way(F f, const T&... argument) {
  check_answers(every_way(f, argument...));
}
// And compiled with symbolic sizes.
template <class F, class... T>
void check_every_size(F f, const T&... argument) {
  std::vector<Answers> results = every_way(f, argument...);
  results.push_back(weft::compile(f, {.dynamic = true})(argument...));
  check_answers(results);
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
inline std::string at_line(int line, const char* file) {
  std::string name = file;
  return ", at " + name.substr(name.rfind('/') + 1) + ":" + std::to_string(line);
}

}  // namespace trace_test

#define AT_LINE(line) trace_test::at_line(line, __FILE__)
