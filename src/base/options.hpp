// The options that the environment sets: docs/options.md says what each means. Read once, at the first use, but for two
// that are read when the library is loaded: WEFT_LOGS by base/log, and WEFT_TRACE, the folder for a page about the run,
// by observe/page_file.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace weft {

struct ProcessOptions {
  std::string cache_directory;  // empty: the default
  bool cache = true;
  bool stored_plans = true;  // plans are read from the cache and written there, as kernels are
  std::string compiler;      // empty: searched for
  double compile_timeout = 120;
  int kernel_optimization = 3;  // -O of generated kernels; part of their key
  std::string isa;              // empty: the widest that the CPU has
  bool onednn = true;
  int cblas = -1;  // -1: what is measured to be faster
  bool cuda_graphs = true;
  bool cuda_dependent_launch = true;  // a generated kernel may start before the one in front of it has ended
  bool cudnn = true;
  // 0: never; 1: where it is expected or was timed to be faster; 2: wherever it can be; 3: as if cuBLASLt were missing.
  int own_kernels = 1;                 // a product or attention is done by our own kernels for tensor cores
  int product_epilogues = 1;           // what follows a product is done by cuBLASLt with it
  // What follows a convolution is done by cuDNN with it; -1: where libraries are timed (Level::O3).
  int convolution_epilogues = -1;
  bool nvrtc_check = false;
  bool raise_compile_errors = false;
  std::vector<std::string> skip_passes;
  int num_threads = 0;                  // 0: OpenMP's default
  std::uint64_t memory_limit = 0;       // bytes; 0: what the machine has
  std::uint64_t cuda_memory_limit = 0;  // bytes of each device; 0: none
  std::string onnxruntime, openvino;    // libraries of engines; empty: the names that the loader knows
  bool unordered_sums = false;          // libraries may add floats in an order that differs from run to run
};

// Reads the environment now. A value that makes no sense is warned about and ignored.
ProcessOptions read_options();

// The options of this process. Written by tests alone, while no other thread of Weft runs.
ProcessOptions& options();

}  // namespace weft
