#include "runtime/cuda/convolution.hpp"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "base/fail.hpp"
#include "base/log.hpp"
#include "runtime/cuda/answers.hpp"
#include "runtime/cuda/dnn_graph.hpp"
#include "runtime/cuda/dnn_library.hpp"
#include "runtime/cuda/fastest.hpp"
#include "runtime/cuda/per_device.hpp"
#include "runtime/cuda/stored_answer.hpp"
#include "runtime/fields.hpp"

namespace weft::runtime::cuda {

namespace {

// Numbers of cudnn_graph.h and cudnn_ops.h.
constexpr int type_f32 = 0, type_f16 = 2, type_bf16 = 9, row_major = 0, channels_last = 1, cross_correlation = 1;
constexpr int identity = 5, forward_precomputed = 1;  // an activation; the algorithm that may be followed by it
constexpr int math_default = 0, math_tensor_cores = 1, math_f32 = 3, deterministic = 1, most_algorithms = 8;
int type_of(DType dtype) { return dtype == DType::f16 ? type_f16 : dtype == DType::bf16 ? type_bf16 : type_f32; }

constexpr std::size_t most_workspace = std::size_t{1} << 30;

// Not those by transforms of whole images, which are less accurate, and in much memory; nor those that add up in any
// order.
bool is_wanted(Convolved result, int algorithm) {
  switch (result) {
    case Convolved::output: return algorithm >= 0 && algorithm <= 7 && algorithm != 4 && algorithm != 5;
    case Convolved::input: return algorithm == 1 || algorithm == 4 || algorithm == 5;
    case Convolved::weight: return algorithm == 1 || algorithm == 4 || algorithm == 5;
  }
  return false;
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

bool is_of_images(const ConvolutionSizes& s) {
  return s.axes == 2 && storage_bytes(s.dtype, 1) == 2 && !lies_row_by_row(s);
}
// Images of 16-bit floats with their channels last: a graph of one operation, or with what follows it. Of their
// gradients the older functions, which do all others, name slow kernels.
bool is_by_graph(const ConvolutionSizes& s, const ConvolutionEpilogue& epilogue) {
  return is_of_images(s) && (!s.has_bias || epilogue.any());
}

std::int64_t id_of(Convolved value) { return static_cast<std::int64_t>(value); }
constexpr std::int64_t id_of_bias = 3, first_id_of_added = 4;

DnnPointwise function_of(Activation activation) {
  switch (activation) {
    case Activation::none: break;
    case Activation::relu: return DnnPointwise::relu;
    case Activation::silu: return DnnPointwise::silu;
    case Activation::gelu: return DnnPointwise::gelu;
    case Activation::gelu_tanh: return DnnPointwise::gelu_tanh;
  }
  return DnnPointwise::identity;
}

DnnGraph graph_of(const ConvolutionSizes& s, const ConvolutionEpilogue& epilogue) {
  DnnGraph graph;
  using Four = DnnGraph::Four;
  const auto type = [](DType dtype) { return static_cast<DnnType>(type_of(dtype)); };
  const auto sizes_of = [&](Convolved which) {
    const auto sizes = s.shape_of(which);
    return Four{sizes[0], sizes[1], sizes[2], sizes[3]};
  };
  const auto last = [](const Four& four) { return Four{four[1] * four[2] * four[3], 1, four[1] * four[3], four[1]}; };
  const auto value = [&](Convolved which) {
    return graph.memory(id_of(which), type(s.dtype), sizes_of(which), last(sizes_of(which)));
  };
  const auto two = [](const std::array<std::int64_t, 3>& from) { return std::array{from[0], from[1]}; };
  const DnnGraph::Windows windows{two(s.low), two(s.strides), two(s.dilation)};
  if (!epilogue.any()) {
    graph.convolution(s.result, value(Convolved::input), value(Convolved::weight), value(Convolved::output), windows);
    return graph;
  }
  const Four of_result = sizes_of(Convolved::output), of_channels = {1, s.outputs, 1, 1};
  const auto between = [&] { return graph.between(DnnType::f32, of_result, last(of_result)); };
  std::vector<DnnGraph::Value> added;  // the image first: the library has kernels for this order
  std::int64_t id = first_id_of_added;
  if (epilogue.has_image) added.push_back(graph.memory(id++, type(s.dtype), of_result, last(of_result)));
  const auto add_channels = [&](std::int64_t name, DType dtype) {
    added.push_back(graph.memory(name, type(dtype), of_channels, last(of_channels)));
  };
  if (s.has_bias) add_channels(id_of_bias, s.dtype);
  for (const DType dtype : epilogue.channels) add_channels(id++, dtype);
  const bool is_active = epilogue.activation != Activation::none;
  DnnGraph::Value sum = between();
  graph.convolution(s.result, value(Convolved::input), value(Convolved::weight), sum, windows);
  for (std::size_t i = 0; i < added.size(); ++i) {
    const DnnGraph::Value next = i + 1 < added.size() || is_active ? between() : value(Convolved::output);
    graph.pointwise_to(next, DnnPointwise::add, sum, &added[i]);
    sum = next;
  }
  if (is_active) graph.pointwise_to(value(Convolved::output), function_of(epilogue.activation), sum);
  return graph;
}

bool fits(const ConvolutionSizes& s) {
  constexpr std::int64_t most = INT32_MAX;
  if (s.is_empty() || s.batch < 0 || !(lies_row_by_row(s) || (s.axes == 2 && lies_with_channels_last(s)))) return false;
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
  std::shared_ptr<const DnnPlan> plan;  // null: by the older functions
  ConvolutionEpilogue epilogue;
  std::vector<std::int64_t> ids;  // of a plan: of its values, in their order

  Call(DeviceState& on, const ConvolutionSizes& s, const ConvolutionEpilogue& followed_by)
      : device(on), result(s.result), epilogue(followed_by) {
    for (const int each : {0, 1, 2}) ids.push_back(id_of(value_of_operand(result, each)));
    if (s.has_bias) ids.push_back(id_of_bias);
    for (std::size_t i = 0; i < epilogue.channels.size() + epilogue.has_image; ++i)
      ids.push_back(first_id_of_added + static_cast<std::int64_t>(i));
  }
  Call(const Call&) = delete;
  ~Call() {
    if (x) dnn().cudnnDestroyTensorDescriptor(x);
    if (y) dnn().cudnnDestroyTensorDescriptor(y);
    if (bias) dnn().cudnnDestroyTensorDescriptor(bias);
    if (activation) dnn().cudnnDestroyActivationDescriptor(activation);
    if (w) dnn().cudnnDestroyFilterDescriptor(w);
    if (convolution) dnn().cudnnDestroyConvolutionDescriptor(convolution);
  }

  static void describe(DnnTensor*& tensor, int type, const Axes& axes, bool last) {
    int strides[5], step = 1;
    if (last) strides[1] = step, step *= axes.sizes[1];
    for (int i = axes.count - 1; i >= 0; --i)
      if (i != 1 || !last) strides[i] = step, step *= axes.sizes[i];
    check_dnn(dnn().cudnnCreateTensorDescriptor(&tensor), "cudnnCreateTensorDescriptor");
    check_dnn(dnn().cudnnSetTensorNdDescriptor(tensor, type, axes.count, axes.sizes, strides),
              "cudnnSetTensorNdDescriptor");
  }
  void describe(const ConvolutionSizes& s) {
    const int type = type_of(s.dtype);
    const bool last = !lies_row_by_row(s);
    describe(x, type, Axes(s.batch, s.inputs, s.size, s.axes), last);
    describe(y, type, Axes(s.batch, s.outputs, s.positions, s.axes), last);
    if (s.has_bias) {
      describe(bias, type, Axes(1, s.outputs, {1, 1, 1}, s.axes), last);
      check_dnn(dnn().cudnnCreateActivationDescriptor(&activation), "cudnnCreateActivationDescriptor");
      check_dnn(dnn().cudnnSetActivationDescriptor(activation, identity, 0, 0), "cudnnSetActivationDescriptor");
    }
    const Axes kernel(s.outputs, s.inputs / s.groups, s.kernel, s.axes);
    check_dnn(dnn().cudnnCreateFilterDescriptor(&w), "cudnnCreateFilterDescriptor");
    check_dnn(dnn().cudnnSetFilterNdDescriptor(w, type, last ? channels_last : row_major, kernel.count, kernel.sizes),
              "cudnnSetFilterNdDescriptor");
    const Steps padding(s.low, s.axes, 0), strides(s.strides, s.axes, 1), dilation(s.dilation, s.axes, 1);
    check_dnn(dnn().cudnnCreateConvolutionDescriptor(&convolution), "cudnnCreateConvolutionDescriptor");
    check_dnn(dnn().cudnnSetConvolutionNdDescriptor(convolution, padding.count, padding.steps, strides.steps,
                                                    dilation.steps, cross_correlation, type_f32),
              "cudnnSetConvolutionNdDescriptor");
    check_dnn(dnn().cudnnSetConvolutionGroupCount(convolution, static_cast<int>(s.groups)), "group count");
    check_dnn(dnn().cudnnSetConvolutionMathType(convolution, s.dtype != DType::f32 ? math_tensor_cores
                                                             : s.is_tf32           ? math_default
                                                                                   : math_f32),
              "math type");
  }
  struct Algorithm {
    int number;
    std::size_t workspace;
  };
  // Those that may be used, the library's best first.
  std::vector<Algorithm> algorithms(DnnHandle* handle) const {
    std::vector<Algorithm> all;
    const auto add = [&](int number) {
      std::size_t bytes = 0;
      if (workspace_of(handle, number, bytes) == 0 && bytes <= most_workspace) all.push_back({number, bytes});
    };
    if (bias) {  // there is one that adds it
      add(forward_precomputed);
      return all;
    }
    DnnAlgorithm found[most_algorithms] = {};
    int count = 0;
    const int status = result == Convolved::output ? dnn().cudnnGetConvolutionForwardAlgorithm_v7(
                                                         handle, x, w, convolution, y, most_algorithms, &count, found)
                       : result == Convolved::input ? dnn().cudnnGetConvolutionBackwardDataAlgorithm_v7(
                                                          handle, w, y, convolution, x, most_algorithms, &count, found)
                                                    : dnn().cudnnGetConvolutionBackwardFilterAlgorithm_v7(
                                                          handle, x, y, convolution, w, most_algorithms, &count, found);
    for (int i = 0; status == 0 && i < count; ++i) {
      const DnnAlgorithm& it = found[i];
      if (it.status == 0 && it.deterministic == deterministic && is_wanted(result, it.algorithm)) add(it.algorithm);
    }
    return all;
  }
  // Of so many kernels, each of which `take` makes the one that `run` runs.
  template <class Take>
  std::size_t fastest(DnnHandle* handle, const ConvolutionSizes& s, std::size_t count, std::size_t most_bytes,
                      Take take) {
    std::int64_t input = s.batch * s.inputs, output = s.batch * s.outputs, weight = s.outputs * (s.inputs / s.groups);
    for (std::size_t axis = 0; axis < static_cast<std::size_t>(s.axes); ++axis)
      input *= s.size[axis], output *= s.positions[axis], weight *= s.kernel[axis];
    const auto memory = [&](std::size_t bytes) {
      return std::unique_ptr<Storage, decltype(&release)>(allocate(device.device, bytes), release);
    };
    const auto of_values = [&](std::int64_t elements) { return memory(storage_bytes(s.dtype, elements)); };
    const auto on_x = of_values(input), on_y = of_values(output), on_w = of_values(weight);
    const auto space = memory(most_bytes), on_image = of_values(epilogue.has_image ? output : 0);
    const auto on_channels = memory(storage_bytes(DType::f32, s.outputs));
    std::vector<void*> added(epilogue.channels.size(), on_channels->data);
    if (epilogue.has_image) added.insert(added.begin(), on_image->data);
    const bool gives_x = result == Convolved::input, gives_w = result == Convolved::weight;
    const void* const a = gives_x ? on_y->data : on_x->data;
    const void* const b = gives_w ? on_y->data : on_w->data;
    void* const to = gives_x ? on_x->data : gives_w ? on_w->data : on_y->data;
    check_dnn(dnn().cudnnSetStream(handle, device.queue.stream), "cudnnSetStream");
    const Fastest found = find_fastest(device.device, count, [&](std::size_t i) {
      take(i);
      run(handle, {a, b, on_channels->data, to, added}, space->data);
      return true;
    });
    if (logging::enabled(logging::Channel::kernels))
      logging::write(logging::Channel::kernels,
                     concat_text("cuDNN, a convolution of ", info(s.dtype).name, ", ", s.inputs, " to ", s.outputs,
                                 " channels: algorithm ", found.place, ", ", found.seconds * 1e6, " us; the first of ",
                                 count, " ", found.seconds_of_first * 1e6));
    return found.place;
  }
  // What was chosen, to be kept.
  std::string answer() const {
    if (plan) return plan->text();
    FieldWriter write;
    write(algorithm);
    return write.bytes();
  }
  // Reads a stored answer. False where it answers another question, or where this library refuses it.
  bool take(DnnHandle* handle, const ConvolutionSizes& s, std::string_view answer) try {
    if (is_by_graph(s, epilogue)) {
      plan = graph_of(s, epilogue).plan_from({handle, nullptr}, answer);
      workspace = plan ? plan->workspace() : 0;
      return plan && workspace <= most_workspace;
    }
    FieldReader read(answer);
    read(algorithm);
    if (!read.at_end() || !is_wanted(result, algorithm)) return false;
    describe(s);
    return workspace_of(handle, algorithm, workspace) == 0 && workspace <= most_workspace;
  } catch (const Malformed&) {
    return false;
  }
  // False where the library has none that may be used.
  bool find_plan(DnnHandle* handle, const ConvolutionSizes& s, bool measures) {
    constexpr std::size_t most_timed = 8;
    auto plans = graph_of(s, epilogue).plans({handle, nullptr}, true, measures ? most_timed : 1, most_workspace);
    if (plans.empty()) return false;
    const auto take = [&](std::size_t i) {
      plan = plans[i];
      workspace = plan->workspace();
    };
    std::size_t most_bytes = 0;
    for (const auto& one : plans) most_bytes = std::max(most_bytes, one->workspace());
    take(plans.size() == 1 ? 0 : fastest(handle, s, plans.size(), most_bytes, take));
    return true;
  }
  bool find_algorithm(DnnHandle* handle, const ConvolutionSizes& s, bool measures) {
    describe(s);
    const std::vector<Algorithm> usable = algorithms(handle);
    if (usable.empty()) return false;
    const auto take = [&](std::size_t i) { algorithm = usable[i].number, workspace = usable[i].workspace; };
    std::size_t most_bytes = 0;
    for (const Algorithm& one : usable) most_bytes = std::max(most_bytes, one.workspace);
    take(measures && usable.size() > 1 ? fastest(handle, s, usable.size(), most_bytes, take) : 0);
    return true;
  }
  void run(DnnHandle* handle, const Values& values, void* space) const {
    const auto& [a, b, with, to, added] = values;
    if (plan) {
      std::vector<void*> pointers{const_cast<void*>(a), const_cast<void*>(b), to};
      if (ids.size() > pointers.size() + added.size()) pointers.push_back(const_cast<void*>(with));
      pointers.insert(pointers.end(), added.begin(), added.end());
      return plan->run(handle, ids, pointers, space);
    }
    const float one = 1, zero = 0;
    switch (result) {
      case Convolved::output:
        if (bias)
          return check_dnn(
              dnn().cudnnConvolutionBiasActivationForward(handle, &one, x, a, w, b, convolution, algorithm, space,
                                                          workspace, &zero, y, to, bias, with, activation, y, to),
              "cudnnConvolutionBiasActivationForward");
        return check_dnn(dnn().cudnnConvolutionForward(handle, &one, x, a, w, b, convolution, algorithm, space,
                                                       workspace, &zero, y, to),
                         "cudnnConvolutionForward");
      case Convolved::input:
        return check_dnn(dnn().cudnnConvolutionBackwardData(handle, &one, w, b, y, a, convolution, algorithm, space,
                                                            workspace, &zero, x, to),
                         "cudnnConvolutionBackwardData");
      case Convolved::weight:
        return check_dnn(dnn().cudnnConvolutionBackwardFilter(handle, &one, x, a, y, b, convolution, algorithm, space,
                                                              workspace, &zero, w, to),
                         "cudnnConvolutionBackwardFilter");
    }
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
LibraryConvolution::~LibraryConvolution() {
  if (has_run_) wait_before_destroying(call_->device.device);
}
std::size_t LibraryConvolution::workspace() const { return call_->workspace; }

std::shared_ptr<const LibraryConvolution> LibraryConvolution::make(DeviceState& device, const ConvolutionSizes& sizes,
                                                                   bool measures,
                                                                   const ConvolutionEpilogue& epilogue) try {
  FieldWriter question;
  question(measures, sizes);
  if (epilogue.any()) question(epilogue);
  const StoredAnswer stored("cuDNN convolution", dnn().cudnnGetVersion(), device, question.bytes());
  DnnLibrary& library = DnnLibrary::of(device);
  const DnnLibrary::Borrowed handle(library, measures);
  auto call = std::make_unique<Call>(device, sizes, epilogue);
  if (const std::optional<std::string> answer = stored.load(); answer && call->take(handle.get(), sizes, *answer))
    return std::shared_ptr<const LibraryConvolution>(new LibraryConvolution(std::move(call)));
  call = std::make_unique<Call>(device, sizes, epilogue);
  if (!(is_by_graph(sizes, epilogue) ? call->find_plan(handle.get(), sizes, measures)
                                     : call->find_algorithm(handle.get(), sizes, measures)))
    return nullptr;
  stored.store(call->answer());
  return std::shared_ptr<const LibraryConvolution>(new LibraryConvolution(std::move(call)));
} catch (const OutOfMemory&) {
  throw;
} catch (const Error&) {  // sizes that it does not take
  return nullptr;
}

namespace {

// By whether they were timed, their sizes and what follows. Throws Error where the device or the library is not there.
auto& known_convolutions(const DeviceState& device) {
  using Question = std::tuple<bool, ConvolutionSizes, ConvolutionEpilogue>;
  using Known = Answers<Question, std::shared_ptr<const LibraryConvolution>>;
  static constinit PerDevice<Known> all;
  dnn();
  return all.of(device.device);
}
// Which have a kernel together with what follows.
auto& named_convolutions(const DeviceState& device) {
  using Known = Answers<std::pair<ConvolutionSizes, ConvolutionEpilogue>, bool>;
  static constinit PerDevice<Known> all;
  dnn();
  return all.of(device.device);
}

}  // namespace

std::shared_ptr<const LibraryConvolution> LibraryConvolution::find(Device device, const ConvolutionSizes& sizes,
                                                                   bool measures,
                                                                   const ConvolutionEpilogue& epilogue) try {
  if (!fits(sizes)) return nullptr;
  DeviceState& state = use(device);
  return known_convolutions(state).find({measures, sizes, epilogue},
                                        [&] { return make(state, sizes, measures, epilogue); });
} catch (const OutOfMemory&) {
  throw;
} catch (const Error&) {
  return nullptr;  // no device, or no library
}

void LibraryConvolution::find_ahead(Device device, const ConvolutionSizes& sizes, const ConvolutionEpilogue& epilogue) {
  if (!fits(sizes)) return;
  DeviceState& state = use(device);
  known_convolutions(state).find_ahead({false, sizes, epilogue}, [&] { return make(state, sizes, false, epilogue); });
}

bool LibraryConvolution::is_named(Device device, const ConvolutionSizes& sizes,
                                  const ConvolutionEpilogue& epilogue) try {
  if (!fits(sizes) || !is_of_images(sizes) || sizes.result != Convolved::output) return false;
  DeviceState& state = use(device);
  return named_convolutions(state).find({sizes, epilogue}, [&] {
    const DnnLibrary::Borrowed handle(DnnLibrary::of(state));
    return graph_of(sizes, epilogue).has_plan({handle.get(), nullptr}, true);
  });
} catch (const OutOfMemory&) {
  throw;
} catch (const Error&) {
  return false;  // no device, no library, or a graph that it does not take
}

void LibraryConvolution::promise(Device device, const ConvolutionSizes& sizes) noexcept try {
  if (fits(sizes)) known_convolutions(use(device)).promise({false, sizes, {}});
} catch (const std::exception&) {  // no device, or no library: whoever asks hears of it
}

std::optional<bool> LibraryConvolution::is_taken(Device device, const ConvolutionSizes& sizes) try {
  if (!fits(sizes)) return false;
  DeviceState& state = use(device);
  const auto found =
      known_convolutions(state).find_unless_awaited({false, sizes, {}}, [&] { return make(state, sizes, false, {}); });
  return found ? std::optional(*found != nullptr) : std::nullopt;
} catch (const OutOfMemory&) {
  throw;
} catch (const Error&) {
  return false;  // no device, or no library
}

void LibraryConvolution::run(const Values& values, std::span<std::byte> workspace, const Queue* queue) const {
  const Call& c = *call_;
  WEFT_CHECK(workspace.size() >= c.workspace, "a workspace of ", workspace.size(), " bytes");
  DnnLibrary& library = DnnLibrary::of(c.device);
  const std::lock_guard lock(library.mutex);
  DnnHandle* const handle = library.opened();
  check_dnn(dnn().cudnnSetStream(handle, queue->stream), "cudnnSetStream");
  has_run_.store(true, std::memory_order_relaxed);
  c.run(handle, values, workspace.data());
}

std::shared_ptr<const LibraryConvolution> DeviceConvolution::of(std::span<const std::int64_t> numbers) const {
  if (convolution_) return convolution_;
  const ConvolutionSizes sizes = dims_.with(numbers.subspan(values_.begin, values_.count));
  auto found = LibraryConvolution::find(device_, sizes);
  if (!found) refuse_sizes("cuDNN", sizes);
  return found;
}

}  // namespace weft::runtime::cuda
