// What the tests of packages share: a folder of their own, files' bytes, messages of errors, values as text.
#pragma once
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/message_of.hpp"
#include "weft/package.hpp"
#include "weft/weft.hpp"

namespace package_test {

using namespace weft;

struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("weft-package-" + std::to_string(getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string file(const char* name) const { return path / name; }
};

inline std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
inline void write(const std::string& path, std::string_view bytes) { std::ofstream(path, std::ios::binary) << bytes; }

using weft::test::message_of;

// All that a value holds, to the bit.
template <class T>
std::string bits_of(const T& value) {
  detail::LeafList list;
  detail::flatten(value, list);
  std::string text;
  char number[40];
  for (const detail::Leaf& leaf : list.leaves) {
    if (!detail::holds_tensor(leaf.kind)) {
      if (leaf.address)
        text += std::string(static_cast<const char*>(leaf.address), static_cast<std::size_t>(leaf.size)) + "\n";
      continue;
    }
    if (!leaf.tensor().defined()) continue;
    if (is_floating(leaf.tensor().dtype())) {
      const Tensor flat = cast(leaf.tensor(), DType::f64);
      for (const double x : flat.data<double>()) std::snprintf(number, sizeof number, "%a ", x), text += number;
    } else {
      const Tensor flat = cast(leaf.tensor(), DType::i64);
      for (const std::int64_t x : flat.data<std::int64_t>()) text += std::to_string(x) + " ";
    }
    text += "\n";
  }
  return text;
}

struct Mlp {
  nn::Linear in{6, 16}, out{16, 3};
  Tensor operator()(const Tensor& x) const { return out(relu(in(x))); }
};

}  // namespace package_test
