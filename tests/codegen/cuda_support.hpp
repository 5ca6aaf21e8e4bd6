// Trials of kernels (cpp_support.hpp) through the CUDA generator.
#pragma once
#include <span>

#include "tests/codegen/cpp_support.hpp"
#include "tests/needs_nvrtc.hpp"

namespace weft::test {

// The kernels of all trials as CUDA programs, each text once.
std::vector<std::string> cuda_programs(const std::vector<Trial>& trials);

// Compiles functions for a target, the kernels of trials for each of device_generations: a failure of NVRTC is
// a failure of the test case. Needs no GPU.
void check_functions_compile(std::span<const std::string> functions, const char* target);
void check_cuda_compiles(const std::vector<Trial>& trials);

// Runs each trial on the test device and compares with plain loops.
void check_on_device(std::vector<Trial>& trials);

}  // namespace weft::test
