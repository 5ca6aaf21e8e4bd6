// What the tests of packages share: a folder of their own, files' bytes, messages of errors, values as text.
#pragma once
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/hash.hpp"
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

// Where a package's plans lie, and where the table of its parts ends.
struct PlansPart {
  std::size_t offset = 0, size = 0, table_end = 0;
};
inline PlansPart plans_of(std::string_view package) {
  constexpr std::size_t table = 16;
  std::uint64_t numbers[4];  // how many parts there are; of the first one its kind, offset and size
  std::memcpy(numbers, package.data() + table, sizeof numbers);
  return {numbers[2], numbers[3], table + 8 * (1 + 5 * numbers[0])};
}
// The same under right digests, where its plans or its table are others.
inline std::string sealed(std::string package) {
  const auto put = [&](std::size_t at, const Digest& digest) {
    std::memcpy(package.data() + at, &digest.low, 8);
    std::memcpy(package.data() + at + 8, &digest.high, 8);
  };
  const PlansPart plans = plans_of(package);
  const std::string_view all = package;
  if (plans.offset < all.size()) put(16 + 8 * 4, digest(all.substr(plans.offset, plans.size)));
  put(plans.table_end, digest(all.substr(0, plans.table_end)));
  return package;
}

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
