#include "runtime/cuda/convolution.hpp"

#include <algorithm>
#include <map>
#include <mutex>

#include "base/fail.hpp"
#include "base/lazy.hpp"
#include "runtime/cuda/dnn_library.hpp"

namespace weft::runtime::cuda {

namespace {

// Numbers of cudnn_graph.h and cudnn_ops.h.
constexpr int type_f32 = 0, type_f16 = 2, type_bf16 = 9, row_major = 0, cross_correlation = 1;
constexpr int identity = 5, forward_precomputed = 1;  // an activation; the algorithm that may be followed by it
constexpr int math_tensor_cores = 1, math_f32 = 3, deterministic = 1, most_algorithms = 8;
int type_of(DType dtype) { return dtype == DType::f16 ? type_f16 : dtype == DType::bf16 ? type_bf16 : type_f32; }

constexpr std::size_t most_workspace = std::size_t{1} << 30;
constexpr std::size_t most_kept = 512;  // convolutions

// By transforms of whole images: less accurate, and in much memory.
bool is_by_fourier(Convolved result, int algorithm) {
  if (result == Convolved::output) return algorithm == 4 || algorithm == 5;
  return result == Convolved::input ? algorithm == 2 || algorithm == 3 : algorithm == 2 || algorithm == 6;
}

// [a, b, sizes...] with two sizes at least, as the library wants it.
struct Axes {
  int count = 0;
  int sizes[5] = {};
  Axes(std::int64_t a, std::int64_t b, const std::array<std::int64_t, 3>& behind, int axes) {
    add(a), add(b);
    if (axes == 1) add(1);
    for (int i = 0; i < axes; ++i) add(behind[static_cast<std::size_t>(i)]);
  }
  void add(std::int64_t size) { sizes[count++] = static_cast<int>(size); }
};
// Of each axis after the channels.
struct Steps {
  int count = 0;
  int steps[3] = {};
  Steps(const std::array<std::int64_t, 3>& from, int axes, int of_one) {
    if (axes == 1) steps[count++] = of_one;
    for (int i = 0; i < axes; ++i) steps[count++] = static_cast<int>(from[static_cast<std::size_t>(i)]);
  }
};

bool fits(const ConvolutionSizes& s) {
  constexpr std::int64_t most = INT32_MAX;
  if (s.is_empty() || s.batch < 0) return false;
  std::int64_t input = s.batch * s.inputs, output = s.batch * s.outputs, weight = s.outputs * (s.inputs / s.groups);
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(s.axes); ++axis) {
    if (s.low[axis] != s.high[axis] || s.low[axis] > most || s.strides[axis] > most || s.dilation[axis] > most)
      return false;
    input *= s.size[axis], output *= s.positions[axis], weight *= s.kernel[axis];
    if (input > most || output > most || weight > most) return false;
  }
  return true;
}

}  // namespace

struct LibraryConvolution::Call {
  DeviceState& device;
  Convolved result;
  DnnTensor *x = nullptr, *y = nullptr, *bias = nullptr;
  DnnActivation* activation = nullptr;  // of one with a bias: none
  DnnFilter* w = nullptr;
  DnnConvolution* convolution = nullptr;
  int algorithm = -1;
  std::size_t workspace = 0;

  Call(DeviceState& on, Convolved computed) : device(on), result(computed) {}
  Call(const Call&) = delete;
  ~Call() {
    if (x) dnn().cudnnDestroyTensorDescriptor(x);
    if (y) dnn().cudnnDestroyTensorDescriptor(y);
    if (bias) dnn().cudnnDestroyTensorDescriptor(bias);
    if (activation) dnn().cudnnDestroyActivationDescriptor(activation);
    if (w) dnn().cudnnDestroyFilterDescriptor(w);
    if (convolution) dnn().cudnnDestroyConvolutionDescriptor(convolution);
  }

  static void describe(DnnTensor*& tensor, int type, const Axes& axes) {
    int strides[5], step = 1;
    for (int i = axes.count - 1; i >= 0; --i) strides[i] = step, step *= axes.sizes[i];
    check_dnn(dnn().cudnnCreateTensorDescriptor(&tensor), "cudnnCreateTensorDescriptor");
    check_dnn(dnn().cudnnSetTensorNdDescriptor(tensor, type, axes.count, axes.sizes, strides),
              "cudnnSetTensorNdDescriptor");
  }
  void describe(const ConvolutionSizes& s) {
    const int type = type_of(s.dtype);
    describe(x, type, Axes(s.batch, s.inputs, s.size, s.axes));
    describe(y, type, Axes(s.batch, s.outputs, s.positions, s.axes));
    if (s.has_bias) {
      describe(bias, type, Axes(1, s.outputs, {1, 1, 1}, s.axes));
      check_dnn(dnn().cudnnCreateActivationDescriptor(&activation), "cudnnCreateActivationDescriptor");
      check_dnn(dnn().cudnnSetActivationDescriptor(activation, identity, 0, 0), "cudnnSetActivationDescriptor");
    }
    const Axes kernel(s.outputs, s.inputs / s.groups, s.kernel, s.axes);
    check_dnn(dnn().cudnnCreateFilterDescriptor(&w), "cudnnCreateFilterDescriptor");
    check_dnn(dnn().cudnnSetFilterNdDescriptor(w, type, row_major, kernel.count, kernel.sizes),
              "cudnnSetFilterNdDescriptor");
    const Steps padding(s.low, s.axes, 0), strides(s.strides, s.axes, 1), dilation(s.dilation, s.axes, 1);
    check_dnn(dnn().cudnnCreateConvolutionDescriptor(&convolution), "cudnnCreateConvolutionDescriptor");
    check_dnn(dnn().cudnnSetConvolutionNdDescriptor(convolution, padding.count, padding.steps, strides.steps,
                                                    dilation.steps, cross_correlation, type_f32),
              "cudnnSetConvolutionNdDescriptor");
    check_dnn(dnn().cudnnSetConvolutionGroupCount(convolution, static_cast<int>(s.groups)), "group count");
    check_dnn(dnn().cudnnSetConvolutionMathType(convolution, s.dtype == DType::f32 ? math_f32 : math_tensor_cores),
              "math type");
  }
  // The library's first choice of those that may be used. False where there is none.
  bool choose(DnnHandle* handle) {
    if (bias) {  // there is one that adds it
      algorithm = forward_precomputed;
      return workspace_of(handle, algorithm, workspace) == 0 && workspace <= most_workspace;
    }
    DnnAlgorithm found[most_algorithms] = {};
    int count = 0;
    const int status = result == Convolved::output ? dnn().cudnnGetConvolutionForwardAlgorithm_v7(
                                                         handle, x, w, convolution, y, most_algorithms, &count, found)
                       : result == Convolved::input ? dnn().cudnnGetConvolutionBackwardDataAlgorithm_v7(
                                                          handle, w, y, convolution, x, most_algorithms, &count, found)
                                                    : dnn().cudnnGetConvolutionBackwardFilterAlgorithm_v7(
                                                          handle, x, y, convolution, w, most_algorithms, &count, found);
    if (status != 0) return false;
    for (int i = 0; i < count; ++i) {
      const DnnAlgorithm& it = found[i];
      if (it.status != 0 || it.deterministic != deterministic || is_by_fourier(result, it.algorithm)) continue;
      std::size_t bytes = 0;
      if (workspace_of(handle, it.algorithm, bytes) != 0 || bytes > most_workspace) continue;
      algorithm = it.algorithm;
      workspace = bytes;
      return true;
    }
    return false;
  }
  int workspace_of(DnnHandle* handle, int of, std::size_t& bytes) const {
    if (result == Convolved::output)
      return dnn().cudnnGetConvolutionForwardWorkspaceSize(handle, x, w, convolution, y, of, &bytes);
    if (result == Convolved::input)
      return dnn().cudnnGetConvolutionBackwardDataWorkspaceSize(handle, w, y, convolution, x, of, &bytes);
    return dnn().cudnnGetConvolutionBackwardFilterWorkspaceSize(handle, x, y, convolution, w, of, &bytes);
  }
};

LibraryConvolution::LibraryConvolution(std::unique_ptr<Call> call) : call_(std::move(call)) {}
LibraryConvolution::~LibraryConvolution() = default;
std::size_t LibraryConvolution::workspace() const { return call_->workspace; }

std::shared_ptr<const LibraryConvolution> LibraryConvolution::find(Device device, const ConvolutionSizes& sizes) try {
  if (!fits(sizes)) return nullptr;
  using Known = std::map<ConvolutionSizes, std::shared_ptr<const LibraryConvolution>>;  // under the library's mutex
  static constinit Lazy<std::array<Known, 64>> of_devices;
  DeviceState& state = use(device);
  DnnLibrary& library = DnnLibrary::of(state);
  const std::lock_guard lock(library.mutex);
  Known& all = of_devices.get()[state.device.index];
  if (const auto known = all.find(sizes); known != all.end()) return known->second;
  DnnHandle* const handle = library.opened();
  auto call = std::make_unique<Call>(state, sizes.result);
  std::shared_ptr<const LibraryConvolution> made;
  try {
    call->describe(sizes);
    if (call->choose(handle)) made.reset(new LibraryConvolution(std::move(call)));
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error&) {  // sizes that it does not take
  }
  if (all.size() >= most_kept) all.clear();
  return all.try_emplace(sizes, std::move(made)).first->second;
} catch (const OutOfMemory&) {
  throw;
} catch (const Error&) {
  return nullptr;  // no device, or no library
}

void LibraryConvolution::run(const void* a, const void* b, const void* bias, void* result,
                             std::span<std::byte> workspace, const Queue* queue) const {
  const Call& c = *call_;
  WEFT_CHECK(workspace.size() >= c.workspace, "a workspace of ", workspace.size(), " bytes");
  const float one = 1, zero = 0;
  DnnLibrary& library = DnnLibrary::of(c.device);
  const std::lock_guard lock(library.mutex);
  DnnHandle* const handle = library.opened();
  check_dnn(dnn().cudnnSetStream(handle, queue->stream), "cudnnSetStream");
  void* const space = workspace.data();
  switch (c.result) {
    case Convolved::output:
      if (c.bias)
        return check_dnn(dnn().cudnnConvolutionBiasActivationForward(handle, &one, c.x, a, c.w, b, c.convolution,
                                                                     c.algorithm, space, c.workspace, &zero, c.y,
                                                                     result, c.bias, bias, c.activation, c.y, result),
                         "cudnnConvolutionBiasActivationForward");
      return check_dnn(dnn().cudnnConvolutionForward(handle, &one, c.x, a, c.w, b, c.convolution, c.algorithm, space,
                                                     c.workspace, &zero, c.y, result),
                       "cudnnConvolutionForward");
    case Convolved::input:
      return check_dnn(dnn().cudnnConvolutionBackwardData(handle, &one, c.w, b, c.y, a, c.convolution, c.algorithm,
                                                          space, c.workspace, &zero, c.x, result),
                       "cudnnConvolutionBackwardData");
    case Convolved::weight:
      return check_dnn(dnn().cudnnConvolutionBackwardFilter(handle, &one, c.x, a, c.y, b, c.convolution, c.algorithm,
                                                            space, c.workspace, &zero, c.w, result),
                       "cudnnConvolutionBackwardFilter");
  }
}

std::shared_ptr<const LibraryConvolution> DeviceConvolution::of(std::span<const std::int64_t> numbers) const {
  if (convolution_) return convolution_;
  const ConvolutionSizes sizes = dims_.with(numbers.subspan(values_.begin, values_.count));
  auto found = LibraryConvolution::find(device_, sizes);
  if (!found) refuse_sizes("cuDNN", sizes);
  return found;
}

}  // namespace weft::runtime::cuda
