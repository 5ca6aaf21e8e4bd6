// The options that the environment sets. Read once, at the first use, but for two that are read when the library is
// loaded: WEFT_LOGS by base/log, and WEFT_TRACE, the folder for a page about the run, by trace/run_page.
//
//   WEFT_CACHE_DIR        folder of the disk cache; else $XDG_CACHE_HOME/weft, $HOME/.cache/weft (where HOME is there),
//                         /tmp/weft-<uid>. In a folder with other files, which Weft did not make, it is "weft"
//   WEFT_CACHE            0: nothing is read from or written to the disk cache
//   WEFT_CXX              host compiler, a path or a name in PATH; else c++, g++, clang++
//   WEFT_COMPILE_TIMEOUT  seconds after which a compiler is killed (120)
//   WEFT_KERNEL_OPTIMIZATION  0 to 3: the compiler's -O for generated kernels (3)
//   WEFT_ISA              baseline, avx2 or avx512: the widest instructions to use
//   WEFT_CUDA_GRAPHS      0: steps are launched one by one, where a call could be replayed as one CUDA graph
//   WEFT_ONEDNN           0: no product and no convolution is given to oneDNN, where it is installed
//   WEFT_CBLAS            0: no product is given to a CBLAS library, where one is installed that can be used; 1: every
//                         larger one is, not just those in which it was measured to be faster
//   WEFT_CUDNN            0: no convolution is given to cuDNN, where it is installed
//   WEFT_RAISE_COMPILE_ERRORS  1: every compiled function throws where its kernels do not compile, as with
//                         on_compile_error = OnFailure::raise
//   WEFT_NVRTC_CHECK      1: compile for the host only what compiles for a GPU (sm_90) too, where NVRTC is installed
//   WEFT_SKIP_PASSES      passes over graphs to leave out, separated by commas; WEFT_LOGS=passes lists them
//   WEFT_NUM_THREADS      threads of a parallel loop; else OMP_NUM_THREADS, else one a core
//   WEFT_MEMORY_LIMIT     bytes of the host's memory that Weft may hold, beyond which OutOfMemory is thrown; else the
//                         machine's memory or, where that is less, the limit of the process's cgroup
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace weft {

struct ProcessOptions {
  std::string cache_directory;  // empty: the default
  bool cache = true;
  std::string compiler;  // empty: searched for
  double compile_timeout = 120;
  int kernel_optimization = 3;  // -O of generated kernels; part of their key
  std::string isa;              // empty: the widest that the CPU has
  bool onednn = true;
  int cblas = -1;  // -1: what is measured to be faster
  bool cuda_graphs = true;
  bool cudnn = true;
  bool nvrtc_check = false;
  bool raise_compile_errors = false;
  std::vector<std::string> skip_passes;
  int num_threads = 0;             // 0: OpenMP's default
  std::uint64_t memory_limit = 0;  // bytes; 0: what the machine has
};

// Reads the environment now. A value that makes no sense is warned about and ignored.
ProcessOptions read_options();

// The options of this process. Written by tests alone, while no other thread of Weft runs.
ProcessOptions& options();

}  // namespace weft
