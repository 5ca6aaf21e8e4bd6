// The kernels of a computation that is cut into stages, run one after the other on the host.
#pragma once
#include <cstring>
#include <map>

#include "loop/stages.hpp"
#include "tests/codegen/cpp_support.hpp"

namespace weft::test {

// By the value of a buffer of the kernels.
using StageMemory = std::map<std::int32_t, std::vector<std::byte>>;

inline std::vector<Trial> trials_of(const loop::Stages& stages, const std::string& name) {
  std::vector<Trial> trials;
  for (loop::Kernel kernel : stages.kernels) {
    loop::verify(kernel);
    kernel.name += "_" + name + "_" + std::to_string(trials.size());
    trials.emplace_back(std::move(kernel));
  }
  return trials;
}

// What the stages leave in memory; buffer 0 holds x before.
inline StageMemory run_stages(const loop::Stages& stages, const std::string& name, const std::vector<float>& x) {
  std::vector<Trial> trials = trials_of(stages, name);
  std::shared_ptr<Library> library;
  const std::vector<runtime::KernelFunction> functions = compile_all(trials, host_isa(), library);
  StageMemory memory;
  memory[0].resize(x.size() * sizeof(float));
  std::memcpy(memory[0].data(), x.data(), memory[0].size());
  for (std::size_t i = 0; i < trials.size(); ++i) {
    std::vector<void*> pointers;
    for (const loop::Buffer& buffer : trials[i].kernel.buffers) {
      std::vector<std::byte>& bytes = memory[buffer.value];
      bytes.resize(std::max(bytes.size(), storage_bytes(buffer.dtype, buffer.elements.constant())));
      pointers.push_back(bytes.data());
    }
    functions[i](pointers.data(), nullptr, 0, trials[i].units());
  }
  return memory;
}

}  // namespace weft::test
