// Tensors in files: NPY and safetensors. In: bytes of a file, or tensors of weft_run.h. Out: the other one. Nothing of
// Weft but its C header is needed, and how it writes files.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft_run.h"

namespace weft_run {

// Why something can't be done, in one sentence.
struct Failure {
  std::string why;
};

struct Array {
  std::string name;  // in a safetensors file
  weft_data_type dtype{};
  std::vector<std::int64_t> sizes, strides;  // no strides: row-major
  std::vector<unsigned char> bytes;

  weft_tensor tensor();  // refers to this object
};

std::string name_of(weft_data_type dtype);  // f32
// The bytes of row-major elements. Throws Failure, which says `what`, where there are too many.
std::size_t bytes_of(weft_data_type dtype, const std::vector<std::int64_t>& sizes, const std::string& what);

bool is_npy(const std::string& path);
bool is_safetensors(const std::string& path);
// Of *.npy one, without a name; of *.safetensors all. Throws Failure.
std::vector<Array> read_arrays(const std::string& path);
// In row-major order. The file appears at once or not at all. Throws Failure, and weft::Error where it can't be
// written.
void write_npy(const std::string& path, const weft_tensor& tensor);
struct Named {
  std::string name;
  const weft_tensor* tensor;
};
void write_safetensors(const std::string& path, const std::vector<Named>& tensors);

}  // namespace weft_run
