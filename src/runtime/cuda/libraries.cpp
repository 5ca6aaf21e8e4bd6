#include "runtime/cuda/libraries.hpp"

#include <dlfcn.h>

#include <cstring>
#include <initializer_list>
#include <mutex>
#include <vector>

#include "base/ending.hpp"
#include "base/fail.hpp"
#include "base/fork.hpp"
#include "base/lazy.hpp"

namespace weft::runtime::cuda {
namespace {

struct Symbol {
  const char* name;
  void** place;
  bool optional = false;  // null where it is not there
};

// A library under the first of its names that the loader finds. Throws with all names that were tried.
class Loader {
 public:
  Loader(const char* what, std::initializer_list<const char*> names) : what_(what) {
    const std::lock_guard no_fork(process_mutex(LockOrder::loader));  // a child could not load anything afterwards
    // The toolkit's own folder is not always on the loader's path.
    for (const char* folder : {"", "/usr/local/cuda/lib64/"})
      for (const char* name : names) {
        const std::string path = std::string(folder) + name;
        if (!handle_) handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (handle_ && found_.empty()) found_ = path;
        tried_ += (tried_.empty() ? "" : ", ") + path;
      }
    if (!handle_) fail("cuda", {}, what, " was not found: looked for ", tried_);
    wait_before_end();
  }
  void read(std::initializer_list<Symbol> symbols) const {
    for (const Symbol& symbol : symbols) {
      void* address = dlsym(handle_, symbol.name);
      if (!address && !symbol.optional) fail("cuda", {}, what_, " (", found_, ") is too old: it has no ", symbol.name);
      std::memcpy(symbol.place, &address, sizeof address);
    }
  }

 private:
  const char* what_;
  void* handle_ = nullptr;
  std::string found_, tried_;
};

template <class Table>
bool is_found(const Table& (*table)(), std::string* why = nullptr) {
  try {
    table();
    return true;
  } catch (const Error& error) {
    if (why) *why = error.what();
    return false;
  }
}

}  // namespace

#define WEFT_SYMBOL(name) \
  Symbol { #name, reinterpret_cast < void**>(&table.name) }
#define WEFT_OPTIONAL_SYMBOL(name) \
  Symbol { #name, reinterpret_cast < void**>(&table.name), true }

const Driver& driver() {
  static constinit Lazy<const Driver> instance;
  return instance.get([] {
    Loader library("the NVIDIA driver", {"libcuda.so.1"});
    Driver table;
    library.read({WEFT_SYMBOL(cuInit),
                  WEFT_SYMBOL(cuDriverGetVersion),
                  WEFT_SYMBOL(cuDeviceGetCount),
                  WEFT_SYMBOL(cuDeviceGet),
                  WEFT_SYMBOL(cuDeviceGetName),
                  WEFT_SYMBOL(cuDeviceGetAttribute),
                  WEFT_SYMBOL(cuDevicePrimaryCtxRetain),
                  WEFT_SYMBOL(cuCtxSetCurrent),
                  WEFT_SYMBOL(cuCtxGetCurrent),
                  WEFT_SYMBOL(cuStreamCreate),
                  WEFT_SYMBOL(cuStreamSynchronize),
                  WEFT_SYMBOL(cuStreamBeginCapture_v2),
                  WEFT_SYMBOL(cuStreamEndCapture),
                  WEFT_SYMBOL(cuEventCreate),
                  WEFT_SYMBOL(cuEventRecord),
                  WEFT_SYMBOL(cuEventDestroy_v2),
                  WEFT_SYMBOL(cuEventSynchronize),
                  WEFT_SYMBOL(cuEventElapsedTime),
                  WEFT_SYMBOL(cuStreamWaitValue32_v2),
                  WEFT_SYMBOL(cuMemHostGetDevicePointer_v2),
                  WEFT_SYMBOL(cuMemFreeHost),
                  WEFT_SYMBOL(cuStreamWaitEvent),
                  WEFT_SYMBOL(cuGraphInstantiateWithFlags),
                  WEFT_SYMBOL(cuGraphLaunch),
                  WEFT_SYMBOL(cuGraphExecDestroy),
                  WEFT_SYMBOL(cuGraphDestroy),
                  WEFT_SYMBOL(cuMemHostAlloc),
                  WEFT_SYMBOL(cuMemsetD32Async),
                  WEFT_SYMBOL(cuMemsetD8Async),
                  WEFT_SYMBOL(cuMemsetD2D32Async),
                  WEFT_SYMBOL(cuMemAlloc_v2),
                  WEFT_SYMBOL(cuMemPoolCreate),
                  WEFT_SYMBOL(cuMemPoolSetAttribute),
                  WEFT_SYMBOL(cuMemPoolGetAttribute),
                  WEFT_SYMBOL(cuMemPoolSetAccess),
                  WEFT_SYMBOL(cuMemPoolTrimTo),
                  WEFT_SYMBOL(cuMemAllocFromPoolAsync),
                  WEFT_SYMBOL(cuMemFreeAsync),
                  WEFT_SYMBOL(cuDeviceCanAccessPeer),
                  WEFT_SYMBOL(cuPointerGetAttribute),
                  WEFT_SYMBOL(cuMemGetInfo_v2),
                  WEFT_SYMBOL(cuMemcpyHtoDAsync_v2),
                  WEFT_SYMBOL(cuMemcpyDtoHAsync_v2),
                  WEFT_SYMBOL(cuMemcpy2DAsync_v2),
                  WEFT_SYMBOL(cuMemcpyDtoDAsync_v2),
                  WEFT_SYMBOL(cuModuleLoadData),
                  WEFT_SYMBOL(cuModuleUnload),
                  WEFT_SYMBOL(cuModuleGetFunction),
                  WEFT_SYMBOL(cuFuncGetAttribute),
                  WEFT_SYMBOL(cuFuncSetAttribute),
                  WEFT_SYMBOL(cuLaunchKernel),
                  WEFT_OPTIONAL_SYMBOL(cuLaunchKernelEx),
                  WEFT_OPTIONAL_SYMBOL(cuTensorMapEncodeTiled),
                  WEFT_SYMBOL(cuGetErrorString),
                  WEFT_SYMBOL(cuGetErrorName),
                  WEFT_SYMBOL(cuGraphGetNodes),
                  WEFT_OPTIONAL_SYMBOL(cuStreamGetCaptureInfo_v2),
                  WEFT_OPTIONAL_SYMBOL(cuGraphKernelNodeGetParams_v2),
                  WEFT_OPTIONAL_SYMBOL(cuGraphExecKernelNodeSetParams_v2)});
    const int result = table.cuInit(0);
    wait_before_end();  // it asks to be told of the end
    if (result != 0) {
      const char* text = nullptr;
      table.cuGetErrorString(result, &text);
      fail("cuda", {}, "the NVIDIA driver finds no device to use: ", text ? text : "unknown error", " (", result, ")");
    }
    return table;
  });
}

void check(int result, const char* call) {
  if (result == 0) [[likely]]
    return;
  const char *name = nullptr, *text = nullptr;
  driver().cuGetErrorName(result, &name);
  driver().cuGetErrorString(result, &text);
  const std::string message =
      concat_text("[cuda] ", call, ": ", text ? text : "unknown error", " (", name ? name : "", " ", result, ")");
  if (result == error_out_of_memory) throw OutOfMemory(message.c_str());
  throw Error(message.c_str());
}

const Nvrtc& nvrtc() {
  static constinit Lazy<const Nvrtc> instance;
  return instance.get([] {
    Loader library("NVRTC, the CUDA compiler,", {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"});
    Nvrtc table;
    library.read({WEFT_SYMBOL(nvrtcVersion), WEFT_SYMBOL(nvrtcCreateProgram), WEFT_SYMBOL(nvrtcDestroyProgram),
                  WEFT_SYMBOL(nvrtcCompileProgram), WEFT_SYMBOL(nvrtcGetProgramLogSize),
                  WEFT_SYMBOL(nvrtcGetProgramLog), WEFT_SYMBOL(nvrtcGetCUBINSize), WEFT_SYMBOL(nvrtcGetCUBIN),
                  WEFT_SYMBOL(nvrtcGetPTXSize), WEFT_SYMBOL(nvrtcGetPTX), WEFT_SYMBOL(nvrtcGetErrorString)});
    return table;
  });
}

bool nvrtc_available(std::string* why) { return is_found(nvrtc, why); }

const BlasLt& blas() {
  static constinit Lazy<const BlasLt> instance;
  return instance.get([] {
    Loader library("cuBLASLt", {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"});
    BlasLt table;
    library.read({WEFT_SYMBOL(cublasLtGetVersion), WEFT_SYMBOL(cublasLtCreate), WEFT_SYMBOL(cublasLtMatmulDescCreate),
                  WEFT_SYMBOL(cublasLtMatmulDescDestroy), WEFT_SYMBOL(cublasLtMatmulDescSetAttribute),
                  WEFT_SYMBOL(cublasLtMatrixLayoutCreate), WEFT_SYMBOL(cublasLtMatrixLayoutDestroy),
                  WEFT_SYMBOL(cublasLtMatrixLayoutSetAttribute), WEFT_SYMBOL(cublasLtMatmulPreferenceCreate),
                  WEFT_SYMBOL(cublasLtMatmulPreferenceDestroy), WEFT_SYMBOL(cublasLtMatmulPreferenceSetAttribute),
                  WEFT_SYMBOL(cublasLtMatmulAlgoGetHeuristic), WEFT_SYMBOL(cublasLtMatmul)});
    return table;
  });
}

bool blas_available() {
  static constinit Lazy<const bool> found;
  return found.get([] { return is_found(blas); });
}

void check_blas(int result, const char* call) {
  constexpr int no_memory = 3, invalid_value = 7, wrong_architecture = 8, not_supported = 15;  // cublasStatus_t
  if (result == no_memory) throw OutOfMemory(concat_text("[cuda] ", call, ": cuBLAS found no memory").c_str());
  const bool has_none = result == invalid_value || result == wrong_architecture || result == not_supported;
  if (has_none) throw NoLibraryKernel(concat_text("[cuda] ", call, ": cuBLAS's status ", result).c_str());
  if (result != 0) fail("cuda", {}, call, ": cuBLAS's status ", result);
}

const Dnn& dnn() {
  static constinit Lazy<const Dnn> instance;
  return instance.get([] {
    Loader library("cuDNN 9", {"libcudnn.so.9"});
    Dnn table;
    library.read({WEFT_SYMBOL(cudnnCreate),
                  WEFT_SYMBOL(cudnnSetStream),
                  WEFT_SYMBOL(cudnnCreateTensorDescriptor),
                  WEFT_SYMBOL(cudnnDestroyTensorDescriptor),
                  WEFT_SYMBOL(cudnnSetTensorNdDescriptor),
                  WEFT_SYMBOL(cudnnCreateFilterDescriptor),
                  WEFT_SYMBOL(cudnnDestroyFilterDescriptor),
                  WEFT_SYMBOL(cudnnSetFilterNdDescriptor),
                  WEFT_SYMBOL(cudnnCreateConvolutionDescriptor),
                  WEFT_SYMBOL(cudnnDestroyConvolutionDescriptor),
                  WEFT_SYMBOL(cudnnSetConvolutionNdDescriptor),
                  WEFT_SYMBOL(cudnnSetConvolutionMathType),
                  WEFT_SYMBOL(cudnnSetConvolutionGroupCount),
                  WEFT_SYMBOL(cudnnGetConvolutionForwardAlgorithm_v7),
                  WEFT_SYMBOL(cudnnGetConvolutionBackwardDataAlgorithm_v7),
                  WEFT_SYMBOL(cudnnGetConvolutionBackwardFilterAlgorithm_v7),
                  WEFT_SYMBOL(cudnnGetConvolutionForwardWorkspaceSize),
                  WEFT_SYMBOL(cudnnGetConvolutionBackwardDataWorkspaceSize),
                  WEFT_SYMBOL(cudnnGetConvolutionBackwardFilterWorkspaceSize),
                  WEFT_SYMBOL(cudnnConvolutionForward),
                  WEFT_SYMBOL(cudnnCreateActivationDescriptor),
                  WEFT_SYMBOL(cudnnDestroyActivationDescriptor),
                  WEFT_SYMBOL(cudnnSetActivationDescriptor),
                  WEFT_SYMBOL(cudnnConvolutionBiasActivationForward),
                  WEFT_SYMBOL(cudnnConvolutionBackwardData),
                  WEFT_SYMBOL(cudnnConvolutionBackwardFilter),
                  WEFT_SYMBOL(cudnnGetVersion),
                  WEFT_SYMBOL(cudnnGetLastErrorString),
                  WEFT_SYMBOL(cudnnBackendCreateDescriptor),
                  WEFT_SYMBOL(cudnnBackendDestroyDescriptor),
                  WEFT_SYMBOL(cudnnBackendSetAttribute),
                  WEFT_SYMBOL(cudnnBackendGetAttribute),
                  WEFT_SYMBOL(cudnnBackendFinalize),
                  WEFT_SYMBOL(cudnnBackendExecute)});
    return table;
  });
}

void check_dnn(int result, const char* call) {
  if (result == 0) return;
  char text[512] = {};
  dnn().cudnnGetLastErrorString(text, sizeof text);
  fail("cuda", {}, call, ": cuDNN's status ", result, *text ? ": " : "", text);
}

const Fft& fft() {
  static constinit Lazy<const Fft> instance;
  return instance.get([] {
    Loader library("cuFFT", {"libcufft.so.12", "libcufft.so.11", "libcufft.so"});
    Fft table;
    library.read({WEFT_SYMBOL(cufftCreate), WEFT_SYMBOL(cufftDestroy), WEFT_SYMBOL(cufftSetAutoAllocation),
                  WEFT_SYMBOL(cufftMakePlanMany64), WEFT_SYMBOL(cufftSetWorkArea), WEFT_SYMBOL(cufftSetStream),
                  WEFT_SYMBOL(cufftExecC2C), WEFT_SYMBOL(cufftExecZ2Z), WEFT_SYMBOL(cufftExecR2C),
                  WEFT_SYMBOL(cufftExecD2Z), WEFT_SYMBOL(cufftExecC2R), WEFT_SYMBOL(cufftExecZ2D)});
    return table;
  });
}

bool fft_available() { return is_found(fft); }

void check_fft(int result, const char* call) {
  constexpr int no_memory = 2;
  if (result == no_memory) throw OutOfMemory(concat_text("[cuda] ", call, ": cuFFT found no memory").c_str());
  if (result != 0) fail("cuda", {}, call, ": cuFFT's status ", result);
}

#define WEFT_PAIR(library, name, suffix)                                                \
  Symbol{#library "S" #name suffix, reinterpret_cast<void**>(&table.name[0])}, Symbol { \
#library "D" #name suffix, reinterpret_cast < void**>(&table.name[1])               \
  }

const Solver& solver() {
  static constinit Lazy<const Solver> instance;
  return instance.get([] {
    Loader blas("cuBLAS", {"libcublas.so.13", "libcublas.so.12", "libcublas.so"});
    Loader library("cuSOLVER", {"libcusolver.so.12", "libcusolver.so.11", "libcusolver.so"});
    Solver table;
    library.read({WEFT_SYMBOL(cusolverDnCreate), WEFT_SYMBOL(cusolverDnSetStream), WEFT_SYMBOL(cusolverDnCreateParams),
                  WEFT_SYMBOL(cusolverDnCreateGesvdjInfo), WEFT_PAIR(cusolverDn, potrf_bufferSize, ""),
                  WEFT_PAIR(cusolverDn, potrf, ""), WEFT_PAIR(cusolverDn, potrfBatched, ""),
                  WEFT_PAIR(cusolverDn, getrf_bufferSize, ""), WEFT_PAIR(cusolverDn, getrf, ""),
                  WEFT_PAIR(cusolverDn, geqrf_bufferSize, ""), WEFT_PAIR(cusolverDn, geqrf, ""),
                  WEFT_PAIR(cusolverDn, orgqr_bufferSize, ""), WEFT_PAIR(cusolverDn, orgqr, ""),
                  WEFT_PAIR(cusolverDn, gesvdj_bufferSize, ""), WEFT_PAIR(cusolverDn, gesvdj, ""),
                  WEFT_PAIR(cusolverDn, gesvdjBatched_bufferSize, ""), WEFT_PAIR(cusolverDn, gesvdjBatched, ""),
                  WEFT_SYMBOL(cusolverDnXsyevBatched_bufferSize), WEFT_SYMBOL(cusolverDnXsyevBatched)});
    blas.read({WEFT_SYMBOL(cublasCreate_v2), WEFT_SYMBOL(cublasSetStream_v2), WEFT_PAIR(cublas, trsm, "_v2"),
               WEFT_PAIR(cublas, trsmBatched, ""), WEFT_PAIR(cublas, getrfBatched, "")});
    return table;
  });
}

bool solver_available() { return is_found(solver); }

void check_solver(int result, const char* call) {
  constexpr int no_memory = 2;
  if (result == no_memory) throw OutOfMemory(concat_text("[cuda] ", call, ": cuSOLVER found no memory").c_str());
  if (result != 0) fail("cuda", {}, call, ": cuSOLVER's status ", result);
}

const Nccl& nccl() {
  static constinit Lazy<const Nccl> instance;
  return instance.get([] {
    Loader library("NCCL", {"libnccl.so.2", "libnccl.so"});
    Nccl table;
    library.read({WEFT_SYMBOL(ncclGetUniqueId), WEFT_SYMBOL(ncclCommInitRank), WEFT_SYMBOL(ncclAllReduce),
                  WEFT_SYMBOL(ncclBroadcast), WEFT_SYMBOL(ncclReduce), WEFT_SYMBOL(ncclAllGather),
                  WEFT_SYMBOL(ncclReduceScatter), WEFT_SYMBOL(ncclGetErrorString)});
    return table;
  });
}

void check_nccl(int result, const char* call) {
  if (result != 0) fail("cuda", {}, call, ": NCCL's status ", result, ": ", nccl().ncclGetErrorString(result));
}

#undef WEFT_PAIR
#undef WEFT_OPTIONAL_SYMBOL
#undef WEFT_SYMBOL

}  // namespace weft::runtime::cuda
