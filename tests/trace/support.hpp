// What the tests of compile() share: small tensors, their numbers and messages of errors.
#pragma once
#include <doctest/doctest.h>

#include <string>
#include <vector>

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

template <class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const weft::Error& error) {
    return error.what();
  }
  return "(nothing thrown)";
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
inline std::string at_line(int line, const char* file) {
  std::string name = file;
  return ", at " + name.substr(name.rfind('/') + 1) + ":" + std::to_string(line);
}

}  // namespace trace_test

#define AT_LINE(line) trace_test::at_line(line, __FILE__)
