// The functions of one or many graphs that are compiled together for a device. In: kernels of the loop IR, and on a
// device also functions as text. Out: each once: kernels that differ in names and in the values of size slots only are
// one.
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "codegen/cuda_function.hpp"
#include "loop/kernel.hpp"
#include "runtime/step.hpp"

namespace weft::providers {

class Sources {
 public:
  explicit Sources(Device device) : device_(device) {}
  Device device() const { return device_; }

  // The function of a kernel; of several of one text, on a device, the one that takes a table of their buffers. Its
  // units are over the graph's symbols.
  runtime::EntryPoint add(std::span<const loop::Kernel> kernels);
  // A device's function that no kernel of the loop IR describes.
  runtime::EntryPoint add(const codegen::CudaFunction& function);

  const std::vector<loop::Kernel>& kernels() const { return kernels_; }
  // By name: on the host those of the kernels, for people, once generate_texts() has been called.
  const std::map<std::string, std::string>& texts() const { return texts_; }
  void generate_texts();

 private:
  struct Grid {
    Dim blocks;
    int threads;
    std::int64_t shared;
    bool strides = true;
  };
  Device device_;
  std::map<std::string, std::string> names_;  // by the text of the nameless kernel
  std::vector<loop::Kernel> kernels_;
  std::map<std::string, Grid> grids_;
  std::map<std::string, std::string> texts_;
};

}  // namespace weft::providers
