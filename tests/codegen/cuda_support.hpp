// Trials of kernels (cpp_support.hpp) through the CUDA generator.
#pragma once
#include "tests/codegen/cpp_support.hpp"
#include "tests/needs.hpp"

namespace weft::test {

// The kernels of all trials as CUDA programs, each text once.
std::vector<std::string> cuda_programs(const std::vector<Trial>& trials);

// Compiles them for sm_90: a failure of NVRTC is a failure of the test case. Needs no GPU.
void check_cuda_compiles(const std::vector<Trial>& trials);

// What lacks where CUDA sources can't be compiled.
std::string nvrtc();

// Runs each trial on the test device and compares with plain loops.
void check_on_device(std::vector<Trial>& trials);

}  // namespace weft::test
