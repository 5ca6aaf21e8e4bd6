#include "onnx/engine.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "base/fork.hpp"
#include "record/evaluate.hpp"
#include "record/record.hpp"
#include "trace/registry.hpp"
#include "weft/backends.hpp"
#include "weft/onnx.hpp"

namespace weft::onnx {

// ---- libraries ------------------------------------------------------------------------------------------------------

EngineLibrary::EngineLibrary(const char* engine, const char* variable, const std::string& given,
                             std::span<const char* const> names)
    : engine_(engine) {
  const std::lock_guard no_fork(process_mutex(LockOrder::loader));
  if (!given.empty()) {
    handle_ = dlopen(given.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle_)
      fail("", {}, engine, " was not found: ", variable, " is ", given, ", and the loader says: ", dlerror());
    path_ = given;
    return;
  }
  std::string tried;
  for (const char* name : names) {
    if (!handle_) handle_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle_ && path_.empty()) path_ = name;
    tried += (tried.empty() ? "" : ", ") + std::string(name);
  }
  if (!handle_) fail("", {}, engine, " was not found: ", variable, " is not set, and the loader has none of ", tried);
}

void* EngineLibrary::symbol(const char* name) const { return dlsym(handle_, name); }

bool process_goes_on() {
  static std::atomic<bool> ends{false};
  [[maybe_unused]] static const int watched = std::atexit([] { ends.store(true, std::memory_order_relaxed); });
  return !ends.load(std::memory_order_relaxed);
}

namespace {

// ---- what runs a graph ----------------------------------------------------------------------------------------------

// A model of the graph. Of the graph's inputs those with a value here are constants of it.
struct Compiled {
  std::vector<Tensor> constants;
  std::vector<std::size_t> inputs;  // of the graph's, those that the model reads in each call
  std::vector<std::string> checks;
  std::unique_ptr<EngineModel> model;

  bool fits(std::span<const Tensor> given) const {
    for (std::size_t i = 0; i < given.size(); ++i)
      if (constants[i].defined() && !constants[i].same(given[i])) return false;
    return true;
  }

  std::vector<Tensor> run(const GraphView& graph, std::span<const Tensor> given) const {
    const Loc loc;
    const std::vector<std::int64_t> symbols = weft::detail::sizes_of_inputs(graph, given, loc);
    evaluate(given, loc);
    weft::detail::ArgumentMemory memory;
    std::vector<ElementsView> read, written;
    for (const std::size_t i : inputs) read.push_back(view(type_of(given[i]), memory.elements(given[i], loc)));
    std::vector<Tensor> outputs;
    for (const Tensor& output : graph.outputs()) {
      outputs.push_back(weft::detail::new_result(output, symbols, loc));
      written.push_back(view(type_of(outputs.back()), outputs.back().node()->storage->data));
    }
    const std::unique_ptr<bool[]> holds(new bool[checks.size()]());
    for (std::size_t i = 0; i < checks.size(); ++i) written.push_back({DType::boolean, {}, &holds[i], 1});
    try {
      model->run(read, written);
    } catch (const Error&) {
      // An engine may refuse an index before the check of it has its value: then node by node the check says so.
      if (!checks.empty()) graph.run(given, loc);
      throw;
    }
    for (std::size_t i = 0; i < checks.size(); ++i)
      if (!holds[i]) throw_error("", {}, checks[i]);
    return outputs;
  }

 private:
  static ElementsView view(const Type& type, void* data) {
    static char nothing;  // engines refuse a null pointer to no elements
    ElementsView made{
        type.dtype, {}, data ? data : &nothing, storage_bytes(type.dtype, type.shape.element_count().constant())};
    for (Dim size : type.shape) made.sizes.push_back(size.constant());
    return made;
  }
};

// Runs a graph. The parameters of its first call are constants of the model that the engine compiles, which may fold
// them and put them into an order of its own. A call with others runs a model in which they are inputs; when they have
// come again a few times, a model with them as constants takes the place of the first. Each such compilation waits for
// twice as many calls, so that values that change now and then do not compile all the time.
class EngineRun {
 public:
  EngineRun(const Engine& engine, const GraphView& graph, std::span<const Tensor> examples)
      : engine_(engine), graph_(graph) {
    for (const std::vector<Tensor>& list : {graph.inputs(), graph.outputs()})
      for (const Tensor& value : list)
        if (type_of(value).device.type != Device::Type::cpu)
          fail("", {}, "it computes on the CPU, and the function has ", to_string(type_of(value)));
    constant_ = compiled(constants_of(examples));
  }

  std::vector<Tensor> operator()(std::span<const Tensor> inputs) { return model_for(inputs)->run(graph_, inputs); }

 private:
  std::vector<Tensor> constants_of(std::span<const Tensor> inputs) const {
    std::vector<Tensor> constants(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (graph_.is_constant(i)) constants[i] = inputs[i];
    return constants;
  }

  std::shared_ptr<const Compiled> compiled(std::vector<Tensor> constants) const {
    const ModelPorts ports = ports_of(graph_, constants, {});
    WrittenModel written = write_model(weft::detail::graph_of(graph_), ports, {.operation = "", .for_engine = true});
    auto made = std::make_shared<Compiled>();
    made->checks = std::move(written.checks);
    for (std::size_t i = 0; i < constants.size(); ++i) {
      if (!written.reads[i])
        constants[i] = {};
      else if (!constants[i].defined())
        made->inputs.push_back(i);
    }
    made->constants = std::move(constants);
    const auto names = [](const std::vector<ValueData>& from) {
      std::vector<EnginePort> list;
      for (const ValueData& each : from) list.push_back({each.name, dtype_of_element(each.type), each.axes.size()});
      return list;
    };
    made->model = engine_.compile(serialize_model(written.model), names(written.model.graph.inputs),
                                  names(written.model.graph.outputs));
    return made;
  }

  // Nobody waits for a compilation but calls that only its model serves.
  std::shared_ptr<const Compiled> model_for(std::span<const Tensor> inputs) {
    bool promotes = false;
    {
      const std::lock_guard lock(mutex());
      if (constant_->fits(inputs)) return constant_;
      std::vector<std::uint64_t> values;  // a comparison alone: a word that was another value's costs a compilation
      for (std::size_t i = 0; i < inputs.size(); ++i)
        if (constant_->constants[i].defined()) values.push_back(inputs[i].word());
      calls_ = values == last_ ? calls_ + 1 : 1;
      last_ = std::move(values);
      promotes = calls_ >= wanted_calls_ && !promoting_;
      promoting_ |= promotes;  // in a child of a fork meanwhile for good: there the general model serves
      if (promotes) wanted_calls_ *= 2;
    }
    if (promotes)
      if (auto made = promoted(inputs)) return made;
    return general();
  }

  // A model of these parameters in the place of `constant_`; null where the engine does not make one.
  std::shared_ptr<const Compiled> promoted(std::span<const Tensor> inputs) {
    std::shared_ptr<const Compiled> made, before;
    try {
      made = compiled(constants_of(inputs));
    } catch (const std::exception&) {  // the general model serves the call, and says what is wrong where it can't
    }
    const std::lock_guard lock(mutex());
    promoting_ = false;
    if (made) before = std::exchange(constant_, made);
    return made;
  }

  // The model of which no parameter is a constant, made by the first call that needs it; the others wait.
  std::shared_ptr<const Compiled> general() {
    const std::lock_guard making(making_general_);
    if (!general_) general_ = compiled(std::vector<Tensor>(graph_.inputs().size()));
    return general_;
  }

  static ProcessMutex& mutex() { return process_mutex(LockOrder::registry); }

  const Engine& engine_;
  const GraphView graph_;
  // Under mutex().
  std::shared_ptr<const Compiled> constant_;
  std::vector<std::uint64_t> last_;  // the parameters of the last call that did not fit
  std::int64_t calls_ = 0, wanted_calls_ = 2;
  bool promoting_ = false;
  RecursiveMutex making_general_;
  std::shared_ptr<const Compiled> general_;  // under making_general_
};

template <const Engine& engine>
BackendExecutable run_by(const GraphView& graph, std::span<const Tensor> examples) {
  auto made = std::make_shared<EngineRun>(engine, graph, examples);
  return [made = std::move(made)](std::span<const Tensor> inputs) { return (*made)(inputs); };
}

}  // namespace

bool detail::register_engines() {
  static const bool done = [] {
    register_backend(onnxruntime.name, run_by<onnxruntime>);
    register_backend(openvino.name, run_by<openvino>);
    return true;
  }();
  return done;
}

}  // namespace weft::onnx
