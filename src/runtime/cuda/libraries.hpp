// The CUDA libraries that Weft calls, found by dlopen at the first use: nothing links them, no header of the toolkit is
// needed, and the same binary runs where they are absent. In: nothing. Out: tables of functions. Each table throws a
// weft::Error that says what was looked for when its library is missing or too old. The declarations are ours, of the
// few functions and numbers that are used.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "weft/error.hpp"

namespace weft::runtime::cuda {

using Pointer = std::uint64_t;  // CUdeviceptr
struct Context;
struct Stream;
struct Module;
struct Function;
struct Event;
struct DriverGraph;    // CUgraph
struct DriverProgram;  // CUgraphExec
struct DriverNode;     // CUgraphNode
struct MemoryPool;

// CUmemLocation, CUmemPoolProps, CUmemAccessDesc.
struct MemoryLocation {
  int type = 0, number = 0;
};
struct MemoryPoolProperties {
  int type = 0, handles = 0;
  MemoryLocation location;
  void* unused = nullptr;
  std::size_t most_bytes = 0;
  std::byte reserved[56] = {};
};
static_assert(sizeof(MemoryPoolProperties) == 88);
struct MemoryAccess {
  MemoryLocation location;
  int flags = 0;
};

// CUlaunchAttribute and CUlaunchConfig.
struct LaunchAttribute {
  int id;
  char unused[4];
  union {
    int is_allowed;
    unsigned cluster[3];
    char value[64];
  };
};
inline constexpr int launch_programmatic_serialization = 6, launch_cluster = 4;
struct LaunchConfiguration {
  unsigned grid[3], block[3], shared_bytes;
  Stream* stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};

// CUDA_KERNEL_NODE_PARAMS_v2.
struct KernelNode {
  Function* function = nullptr;
  unsigned grid[3] = {}, block[3] = {}, shared_bytes = 0;
  void** parameters = nullptr;
  void** extra = nullptr;
  void *kernel = nullptr, *context = nullptr;
};

// CUDA_MEMCPY2D: rows of one pitch to rows of another, in bytes.
struct CopiedRows {
  struct Side {
    std::size_t column = 0, row = 0;
    int memory = 2;  // a device's
    void* host = nullptr;
    Pointer device = 0;
    void* array = nullptr;
    std::size_t pitch = 0;
  };
  Side from, to;
  std::size_t width = 0, height = 0;
};
static_assert(sizeof(CopiedRows) == 128);

// libcuda.so.1: the driver.
struct Driver {
  int (*cuInit)(unsigned flags);
  int (*cuDriverGetVersion)(int* version);
  int (*cuDeviceGetCount)(int* count);
  int (*cuDeviceGet)(int* device, int ordinal);
  int (*cuDeviceGetName)(char* name, int length, int device);
  int (*cuDeviceGetAttribute)(int* value, int attribute, int device);
  int (*cuDevicePrimaryCtxRetain)(Context** context, int device);
  int (*cuCtxSetCurrent)(Context* context);
  int (*cuCtxGetCurrent)(Context** context);
  int (*cuStreamCreate)(Stream** stream, unsigned flags);
  int (*cuStreamSynchronize)(Stream* stream);
  int (*cuStreamBeginCapture_v2)(Stream* stream, int mode);
  int (*cuStreamEndCapture)(Stream* stream, DriverGraph** graph);
  int (*cuEventCreate)(Event** event, unsigned flags);
  int (*cuEventRecord)(Event* event, Stream* stream);
  int (*cuEventDestroy_v2)(Event* event);
  int (*cuEventSynchronize)(Event* event);
  int (*cuEventElapsedTime)(float* milliseconds, Event* first, Event* last);
  int (*cuStreamWaitValue32_v2)(Stream* stream, Pointer address, std::uint32_t value, unsigned flags);
  int (*cuMemHostGetDevicePointer_v2)(Pointer* device, void* host, unsigned flags);
  int (*cuMemFreeHost)(void* host);
  int (*cuStreamWaitEvent)(Stream* stream, Event* event, unsigned flags);
  int (*cuGraphInstantiateWithFlags)(DriverProgram** program, DriverGraph* graph, unsigned long long flags);
  int (*cuGraphLaunch)(DriverProgram* program, Stream* stream);
  int (*cuGraphExecDestroy)(DriverProgram* program);
  int (*cuGraphDestroy)(DriverGraph* graph);
  int (*cuMemHostAlloc)(void** pointer, std::size_t bytes, unsigned flags);
  int (*cuMemsetD32Async)(Pointer to, unsigned value, std::size_t count, Stream* stream);
  int (*cuMemsetD8Async)(Pointer to, unsigned char value, std::size_t bytes, Stream* stream);
  int (*cuMemsetD2D32Async)(Pointer to, std::size_t row_bytes, unsigned value, std::size_t width, std::size_t rows,
                            Stream* stream);
  int (*cuMemAlloc_v2)(Pointer* pointer, std::size_t bytes);
  int (*cuMemPoolCreate)(MemoryPool** pool, const MemoryPoolProperties* properties);
  int (*cuMemPoolSetAttribute)(MemoryPool* pool, int attribute, void* value);
  int (*cuMemPoolGetAttribute)(MemoryPool* pool, int attribute, void* value);
  int (*cuMemPoolSetAccess)(MemoryPool* pool, const MemoryAccess* list, std::size_t count);
  int (*cuMemPoolTrimTo)(MemoryPool* pool, std::size_t bytes);
  int (*cuMemAllocFromPoolAsync)(Pointer* pointer, std::size_t bytes, MemoryPool* pool, Stream* stream);
  int (*cuMemFreeAsync)(Pointer pointer, Stream* stream);
  int (*cuDeviceCanAccessPeer)(int* can, int device, int peer);
  int (*cuPointerGetAttribute)(void* value, int attribute, Pointer pointer);
  int (*cuMemGetInfo_v2)(std::size_t* free, std::size_t* total);
  int (*cuMemcpyHtoDAsync_v2)(Pointer to, const void* from, std::size_t bytes, Stream* stream);
  int (*cuMemcpyDtoHAsync_v2)(void* to, Pointer from, std::size_t bytes, Stream* stream);
  int (*cuMemcpy2DAsync_v2)(const CopiedRows* rows, Stream* stream);
  int (*cuMemcpyDtoDAsync_v2)(Pointer to, Pointer from, std::size_t bytes, Stream* stream);
  int (*cuModuleLoadData)(Module** module, const void* image);
  int (*cuModuleUnload)(Module* module);
  int (*cuModuleGetFunction)(Function** function, Module* module, const char* name);
  int (*cuFuncGetAttribute)(int* value, int attribute, Function* function);
  int (*cuFuncSetAttribute)(Function* function, int attribute, int value);
  int (*cuLaunchKernel)(Function* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream* stream, void** parameters,
                        void** extra);
  // Null where the driver is older than CUDA 12.
  int (*cuLaunchKernelEx)(const LaunchConfiguration* configuration, Function* function, void** parameters,
                          void** extra);
  // Of a matrix for the copy engine; null where the driver is older than CUDA 12.
  int (*cuTensorMapEncodeTiled)(void* map, int type, unsigned axes, void* at, const std::uint64_t* sizes,
                                const std::uint64_t* strides, const std::uint32_t* box, const std::uint32_t* steps,
                                int interleave, int swizzle, int promotion, int fill);
  int (*cuGetErrorString)(int error, const char** text);
  int (*cuGetErrorName)(int error, const char** text);
  int (*cuGraphGetNodes)(DriverGraph* graph, DriverNode** nodes, std::size_t* count);
  // Null where the driver is older than CUDA 12.
  int (*cuStreamGetCaptureInfo_v2)(Stream* stream, int* status, unsigned long long* id, DriverGraph** graph,
                                   DriverNode* const** latest, std::size_t* count);
  int (*cuGraphKernelNodeGetParams_v2)(DriverNode* node, KernelNode* parameters);
  int (*cuGraphExecKernelNodeSetParams_v2)(DriverProgram* program, DriverNode* node, const KernelNode* parameters);
};
const Driver& driver();

inline constexpr int error_out_of_memory = 2;
inline constexpr int attribute_multiprocessors = 16;
inline constexpr int attribute_major = 75, attribute_minor = 76;
inline constexpr int attribute_shared_of_block = 97;  // static and dynamic together, with the function's consent
// Of a function: the most threads of a block, its static shared memory, the dynamic shared memory that it consents to.
inline constexpr int function_most_threads = 0, function_static_shared = 1, function_text_version = 5,
                     function_dynamic_shared = 8;

// Throws Error with the driver's words, OutOfMemory where it says so.
void check(int result, const char* call);

// libnvrtc.so.*: the compiler.
struct Program;
struct Nvrtc {
  int (*nvrtcVersion)(int* major, int* minor);
  int (*nvrtcCreateProgram)(Program** program, const char* source, const char* name, int headers,
                            const char* const* texts, const char* const* names);
  int (*nvrtcDestroyProgram)(Program** program);
  int (*nvrtcCompileProgram)(Program* program, int count, const char* const* options);
  int (*nvrtcGetProgramLogSize)(Program* program, std::size_t* size);
  int (*nvrtcGetProgramLog)(Program* program, char* log);
  int (*nvrtcGetCUBINSize)(Program* program, std::size_t* size);
  int (*nvrtcGetCUBIN)(Program* program, char* cubin);
  int (*nvrtcGetPTXSize)(Program* program, std::size_t* size);
  int (*nvrtcGetPTX)(Program* program, char* text);
  const char* (*nvrtcGetErrorString)(int result);
};
const Nvrtc& nvrtc();
// False, with the reason, where there is none.
bool nvrtc_available(std::string* why = nullptr);

// libcublasLt.so.*: matrix products.
struct BlasHandle;
struct BlasDescription;
struct BlasLayout;
struct BlasPreference;
struct BlasAlgorithm {
  std::uint64_t data[8];
};
struct BlasHeuristic {
  BlasAlgorithm algorithm;
  std::size_t workspace;
  int state;
  float waves;
  int reserved[4];
};
struct BlasLt {
  std::size_t (*cublasLtGetVersion)();
  int (*cublasLtCreate)(BlasHandle** handle);
  int (*cublasLtMatmulDescCreate)(BlasDescription** description, int compute, int scale);
  int (*cublasLtMatmulDescDestroy)(BlasDescription* description);
  int (*cublasLtMatmulDescSetAttribute)(BlasDescription* description, int attribute, const void* value,
                                        std::size_t bytes);
  int (*cublasLtMatrixLayoutCreate)(BlasLayout** layout, int type, std::uint64_t rows, std::uint64_t columns,
                                    std::int64_t leading);
  int (*cublasLtMatrixLayoutDestroy)(BlasLayout* layout);
  int (*cublasLtMatrixLayoutSetAttribute)(BlasLayout* layout, int attribute, const void* value, std::size_t bytes);
  int (*cublasLtMatmulPreferenceCreate)(BlasPreference** preference);
  int (*cublasLtMatmulPreferenceDestroy)(BlasPreference* preference);
  int (*cublasLtMatmulPreferenceSetAttribute)(BlasPreference* preference, int attribute, const void* value,
                                              std::size_t bytes);
  int (*cublasLtMatmulAlgoGetHeuristic)(BlasHandle* handle, BlasDescription* description, BlasLayout* a, BlasLayout* b,
                                        BlasLayout* c, BlasLayout* d, BlasPreference* preference, int count,
                                        BlasHeuristic* results, int* found);
  int (*cublasLtMatmul)(BlasHandle* handle, BlasDescription* description, const void* alpha, const void* a,
                        BlasLayout* a_layout, const void* b, BlasLayout* b_layout, const void* beta, const void* c,
                        BlasLayout* c_layout, void* d, BlasLayout* d_layout, const BlasAlgorithm* algorithm,
                        void* workspace, std::size_t workspace_bytes, Stream* stream);
};
const BlasLt& blas();
// False where there is none.
bool blas_available();
// The library has no kernel for what was asked.
struct NoLibraryKernel final : Error {
  using Error::Error;
};
// Throws OutOfMemory, NoLibraryKernel, or else Error.
void check_blas(int result, const char* call);

// libcudnn.so.9: convolutions, and graphs of operations (attention).
struct DnnHandle;
struct DnnDescriptor;  // of a graph: a tensor, an operation, a plan
struct DnnTensor;
struct DnnFilter;
struct DnnConvolution;
struct DnnActivation;
struct DnnAlgorithm {
  int algorithm, status;
  float milliseconds;
  int unused;
  std::size_t workspace;
  int deterministic, math;
  int reserved[4];
};
struct Dnn {
  using Sizes = const int*;
  using Memory = const void*;
  using Conv = const DnnConvolution*;
  using X = const DnnTensor*;
  using W = const DnnFilter*;
  int (*cudnnCreate)(DnnHandle** handle);
  int (*cudnnSetStream)(DnnHandle* handle, Stream* stream);
  int (*cudnnCreateTensorDescriptor)(DnnTensor** tensor);
  int (*cudnnDestroyTensorDescriptor)(DnnTensor* tensor);
  int (*cudnnSetTensorNdDescriptor)(DnnTensor* tensor, int type, int axes, Sizes sizes, Sizes strides);
  int (*cudnnCreateFilterDescriptor)(DnnFilter** filter);
  int (*cudnnDestroyFilterDescriptor)(DnnFilter* filter);
  int (*cudnnSetFilterNdDescriptor)(DnnFilter* filter, int type, int format, int axes, Sizes sizes);
  int (*cudnnCreateConvolutionDescriptor)(DnnConvolution** convolution);
  int (*cudnnDestroyConvolutionDescriptor)(DnnConvolution* convolution);
  int (*cudnnSetConvolutionNdDescriptor)(DnnConvolution* convolution, int axes, Sizes padding, Sizes strides,
                                         Sizes dilation, int mode, int type);
  int (*cudnnSetConvolutionMathType)(DnnConvolution* convolution, int math);
  int (*cudnnSetConvolutionGroupCount)(DnnConvolution* convolution, int groups);
  int (*cudnnGetConvolutionForwardAlgorithm_v7)(DnnHandle*, X, W, Conv, X, int most, int* found, DnnAlgorithm* results);
  int (*cudnnGetConvolutionBackwardDataAlgorithm_v7)(DnnHandle*, W, X, Conv, X, int most, int* found,
                                                     DnnAlgorithm* results);
  int (*cudnnGetConvolutionBackwardFilterAlgorithm_v7)(DnnHandle*, X, X, Conv, W, int most, int* found,
                                                       DnnAlgorithm* results);
  int (*cudnnGetConvolutionForwardWorkspaceSize)(DnnHandle*, X, W, Conv, X, int algorithm, std::size_t* bytes);
  int (*cudnnGetConvolutionBackwardDataWorkspaceSize)(DnnHandle*, W, X, Conv, X, int algorithm, std::size_t* bytes);
  int (*cudnnGetConvolutionBackwardFilterWorkspaceSize)(DnnHandle*, X, X, Conv, W, int algorithm, std::size_t* bytes);
  int (*cudnnConvolutionForward)(DnnHandle*, Memory alpha, X, Memory x, W, Memory w, Conv, int algorithm,
                                 void* workspace, std::size_t bytes, Memory beta, X, void* y);
  int (*cudnnCreateActivationDescriptor)(DnnActivation** activation);
  int (*cudnnDestroyActivationDescriptor)(DnnActivation* activation);
  int (*cudnnSetActivationDescriptor)(DnnActivation* activation, int function, int passes_nan, double coefficient);
  int (*cudnnConvolutionBiasActivationForward)(DnnHandle*, Memory alpha, X, Memory x, W, Memory w, Conv, int algorithm,
                                               void* workspace, std::size_t bytes, Memory beta, X, Memory z, X,
                                               Memory bias, const DnnActivation*, X, void* y);
  int (*cudnnConvolutionBackwardData)(DnnHandle*, Memory alpha, W, Memory w, X, Memory dy, Conv, int algorithm,
                                      void* workspace, std::size_t bytes, Memory beta, X, void* dx);
  int (*cudnnConvolutionBackwardFilter)(DnnHandle*, Memory alpha, X, Memory x, X, Memory dy, Conv, int algorithm,
                                        void* workspace, std::size_t bytes, Memory beta, W, void* dw);
  std::size_t (*cudnnGetVersion)();
  void (*cudnnGetLastErrorString)(char* text, std::size_t bytes);
  int (*cudnnBackendCreateDescriptor)(int type, DnnDescriptor** descriptor);
  int (*cudnnBackendDestroyDescriptor)(DnnDescriptor* descriptor);
  int (*cudnnBackendSetAttribute)(DnnDescriptor* descriptor, int name, int type, std::int64_t count, Memory values);
  int (*cudnnBackendGetAttribute)(DnnDescriptor* descriptor, int name, int type, std::int64_t most, std::int64_t* count,
                                  void* values);
  int (*cudnnBackendFinalize)(DnnDescriptor* descriptor);
  int (*cudnnBackendExecute)(DnnHandle* handle, DnnDescriptor* plan, DnnDescriptor* values);
};
const Dnn& dnn();
// With the library's words.
void check_dnn(int result, const char* call);

// libcufft.so.*: Fourier transforms.
using FftPlan = int;
struct Fft {
  int (*cufftCreate)(FftPlan* plan);
  int (*cufftDestroy)(FftPlan plan);
  int (*cufftSetAutoAllocation)(FftPlan plan, int allocates);
  int (*cufftMakePlanMany64)(FftPlan plan, int rank, long long* sizes, long long* in_sizes, long long in_stride,
                             long long in_distance, long long* out_sizes, long long out_stride, long long out_distance,
                             int type, long long batch, std::size_t* workspace);
  int (*cufftSetWorkArea)(FftPlan plan, void* workspace);
  int (*cufftSetStream)(FftPlan plan, Stream* stream);
  int (*cufftExecC2C)(FftPlan plan, void* from, void* to, int direction);
  int (*cufftExecZ2Z)(FftPlan plan, void* from, void* to, int direction);
  int (*cufftExecR2C)(FftPlan plan, void* from, void* to);
  int (*cufftExecD2Z)(FftPlan plan, void* from, void* to);
  int (*cufftExecC2R)(FftPlan plan, void* from, void* to);
  int (*cufftExecZ2D)(FftPlan plan, void* from, void* to);
};
const Fft& fft();
// False where there is none.
bool fft_available();
void check_fft(int result, const char* call);

// libcusolver.so.*, and libcublas.so.*, which it uses itself: factorizations. Of a pair the first is for f32, the
// second for f64. A matrix is stored by columns; side, triangle (1: upper), transposed, unit, vectors are 0 or 1.
struct SolverHandle;
struct SolverOptions;
struct JacobiOptions;
struct SolverBlas;  // cublasHandle_t
struct Solver {
  using Matrix = void*;
  using Batch = void* const*;  // of pointers, on the device
  int (*cusolverDnCreate)(SolverHandle** handle);
  int (*cusolverDnSetStream)(SolverHandle* handle, Stream* stream);
  int (*cusolverDnCreateParams)(SolverOptions** options);
  int (*cusolverDnCreateGesvdjInfo)(JacobiOptions** options);
  int (*potrf_bufferSize[2])(SolverHandle*, int triangle, int n, Matrix a, int leading, int* length);
  int (*potrf[2])(SolverHandle*, int triangle, int n, Matrix a, int leading, void* work, int length, int* failed);
  int (*potrfBatched[2])(SolverHandle*, int triangle, int n, Batch a, int leading, int* failed, int batch);
  int (*getrf_bufferSize[2])(SolverHandle*, int rows, int columns, Matrix a, int leading, int* length);
  int (*getrf[2])(SolverHandle*, int rows, int columns, Matrix a, int leading, void* work, int* exchanged, int* failed);
  int (*geqrf_bufferSize[2])(SolverHandle*, int rows, int columns, Matrix a, int leading, int* length);
  int (*geqrf[2])(SolverHandle*, int rows, int columns, Matrix a, int leading, void* scales, void* work, int length,
                  int* failed);
  int (*orgqr_bufferSize[2])(SolverHandle*, int rows, int columns, int reflections, Matrix a, int leading,
                             const void* scales, int* length);
  int (*orgqr[2])(SolverHandle*, int rows, int columns, int reflections, Matrix a, int leading, const void* scales,
                  void* work, int length, int* failed);
  int (*gesvdj_bufferSize[2])(SolverHandle*, int vectors, int thin, int rows, int columns, Matrix a, int leading,
                              const void* values, const void* u, int u_leading, const void* v, int v_leading,
                              int* length, JacobiOptions* options);
  int (*gesvdj[2])(SolverHandle*, int vectors, int thin, int rows, int columns, Matrix a, int leading, void* values,
                   void* u, int u_leading, void* v, int v_leading, void* work, int length, int* failed,
                   JacobiOptions* options);
  int (*gesvdjBatched_bufferSize[2])(SolverHandle*, int vectors, int rows, int columns, Matrix a, int leading,
                                     const void* values, const void* u, int u_leading, const void* v, int v_leading,
                                     int* length, JacobiOptions* options, int batch);
  int (*gesvdjBatched[2])(SolverHandle*, int vectors, int rows, int columns, Matrix a, int leading, void* values,
                          void* u, int u_leading, void* v, int v_leading, void* work, int length, int* failed,
                          JacobiOptions* options, int batch);
  int (*cusolverDnXsyevBatched_bufferSize)(SolverHandle*, SolverOptions*, int vectors, int triangle, std::int64_t n,
                                           int type, const void* a, std::int64_t leading, int values_type,
                                           const void* values, int computed_in, std::size_t* bytes,
                                           std::size_t* host_bytes, std::int64_t batch);
  int (*cusolverDnXsyevBatched)(SolverHandle*, SolverOptions*, int vectors, int triangle, std::int64_t n, int type,
                                void* a, std::int64_t leading, int values_type, void* values, int computed_in,
                                void* work, std::size_t bytes, void* host_work, std::size_t host_bytes, int* failed,
                                std::int64_t batch);
  int (*cublasCreate_v2)(SolverBlas** handle);
  int (*cublasSetStream_v2)(SolverBlas* handle, Stream* stream);
  int (*trsm[2])(SolverBlas*, int side, int triangle, int transposed, int unit, int rows, int columns,
                 const void* factor, const void* a, int a_leading, void* b, int b_leading);
  int (*trsmBatched[2])(SolverBlas*, int side, int triangle, int transposed, int unit, int rows, int columns,
                        const void* factor, Batch a, int a_leading, Batch b, int b_leading, int batch);
  int (*getrfBatched[2])(SolverBlas*, int n, Batch a, int leading, int* exchanged, int* failed, int batch);
};
const Solver& solver();
// False where there is none.
bool solver_available();
void check_solver(int result, const char* call);

// libnccl.so.*: collectives of several devices.
struct NcclCommunicator;
struct NcclId {
  char bytes[128];
};
struct Nccl {
  int (*ncclGetUniqueId)(NcclId* id);
  int (*ncclCommInitRank)(NcclCommunicator** made, int size, NcclId id, int rank);
  int (*ncclAllReduce)(const void* from, void* to, std::size_t count, int type, int operation, NcclCommunicator* group,
                       Stream* stream);
  int (*ncclBroadcast)(const void* from, void* to, std::size_t count, int type, int root, NcclCommunicator* group,
                       Stream* stream);
  int (*ncclReduce)(const void* from, void* to, std::size_t count, int type, int operation, int root,
                    NcclCommunicator* group, Stream* stream);
  int (*ncclAllGather)(const void* from, void* to, std::size_t count, int type, NcclCommunicator* group,
                       Stream* stream);
  int (*ncclReduceScatter)(const void* from, void* to, std::size_t count, int type, int operation,
                           NcclCommunicator* group, Stream* stream);
  const char* (*ncclGetErrorString)(int result);
};
const Nccl& nccl();
void check_nccl(int result, const char* call);

}  // namespace weft::runtime::cuda
