// A folder for the files of one test, removed at its end.
#pragma once
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "runtime/directory.hpp"
#include "weft/ops.hpp"

namespace weft::test {

class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / unique_name("weft-io-")) {
    std::filesystem::create_directory(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  std::string file(const char* name) const { return (path_ / name).string(); }
  // How many files there are: nothing may be left over.
  std::size_t count() const {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) count += !entry.path().empty();
    return count;
  }

 private:
  std::filesystem::path path_;
};

inline std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}
// A safetensors file of this header and these bytes after it.
inline std::string safetensors(const std::string& header, std::size_t bytes) {
  std::string text;
  for (int i = 0; i < 8; ++i) text += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return text + header + std::string(bytes, '\1');
}
inline std::vector<double> numbers(const Tensor& tensor) {
  Tensor reals = cast(tensor, DType::f64);
  View<const double> view = reals.data<double>();
  return {view.begin(), view.end()};
}

}  // namespace weft::test
