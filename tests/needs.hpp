// What a test case needs that some machines lack:
//   TEST_CASE("..." * needs(a_device))     // also of a suite: TEST_SUITE_BEGIN("cuda" * needs(a_device));
// Where it is lacking, doctest counts the case as skipped, the executable says why, and ctest shows a test all of whose
// cases are skipped as skipped (main.cpp).
#pragma once
#include <doctest/doctest.h>
#include <unistd.h>

#include <map>
#include <string>

namespace weft::test {

using Lack = std::string();  // says what is lacking; empty: nothing. Asked before the first case is run

// By the description of the cases that need it, which is a text of its own for each.
inline std::map<std::string, Lack*>& all_needs() {
  static std::map<std::string, Lack*> all;
  return all;
}

class Needs {
 public:
  explicit Needs(Lack* lack) {
    for (const auto& [mark, known] : all_needs())
      if (known == lack) mark_ = mark.c_str();
    if (!mark_) mark_ = all_needs().emplace("need " + std::to_string(all_needs().size()), lack).first->first.c_str();
  }
  template <class CaseOrSuite>
  void fill(CaseOrSuite& state) const {
    state.m_description = mark_;
  }

 private:
  const char* mark_ = nullptr;
};
inline Needs needs(Lack* lack) { return Needs(lack); }

template <Lack*... lacks>
std::string all_of() {
  std::string first;
  ((first = lacks()).empty() && ...);
  return first;
}

// To change owners and to mount.
inline std::string root() { return geteuid() == 0 ? "" : "this user is not root"; }

}  // namespace weft::test
