// What the tests of published weights share: golden numbers (golden.py), and where the weights are.
#pragma once
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "examples/support/run.hpp"
#include "tests/needs.hpp"
#include "tests/trace/support.hpp"

namespace weights_test {

inline nlohmann::json golden(const std::string& name) {
  std::ifstream in(WEFT_SOURCE_DIR "/tests/weights/" + name);
  REQUIRE(in);
  return nlohmann::json::parse(in);
}

inline std::string folder_of(const std::string& model) { return WEFT_BINARY_DIR "/weights/" + model; }

// What lacks where a model's weights could not be fetched.
inline std::string lack_of(const std::string& model) {
  return std::filesystem::exists(folder_of(model)) ? "" : "the weights are not there";
}

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& contents)
      : path((std::filesystem::temp_directory_path() / ("weft_weights_" + std::to_string(getpid()))).string()) {
    std::ofstream(path, std::ios::binary) << contents;
  }
  ~TemporaryFile() { std::filesystem::remove(path); }
  TemporaryFile(const TemporaryFile&) = delete;
  const std::string path;
};

using trace_test::message_of;

}  // namespace weights_test
