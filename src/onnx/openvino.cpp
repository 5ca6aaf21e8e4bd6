// OpenVINO by its C interface, on the CPU. Nothing links it and none of its headers is needed: the declarations are
// ours, of the few functions that are used. Numbers of element types differ between its versions, so they are asked of
// the model.
#include <cstring>
#include <mutex>

#include "base/fork.hpp"
#include "base/lazy.hpp"
#include "base/options.hpp"
#include "onnx/engine.hpp"
#include "runtime/parallel.hpp"

namespace weft::onnx {
namespace {

struct OvCore;
struct OvModel;
struct OvCompiled;
struct OvRequest;
struct OvTensor;
struct OvPort;
struct OvShape {
  std::int64_t rank;
  std::int64_t* sizes;
};

struct OvLibrary {
  int (*ov_core_create)(OvCore** made);
  int (*ov_core_read_model_from_memory_buffer)(const OvCore*, const char* model, std::size_t bytes,
                                               const OvTensor* weights, OvModel** made);
  // `count` keys and values, of text.
  int (*ov_core_compile_model)(const OvCore*, const OvModel*, const char* device, std::size_t count, OvCompiled** made,
                               ...);
  int (*ov_model_const_input_by_name)(const OvModel*, const char* name, OvPort** port);
  int (*ov_model_const_output_by_name)(const OvModel*, const char* name, OvPort** port);
  int (*ov_port_get_element_type)(const OvPort*, int* type);
  void (*ov_output_const_port_free)(OvPort*);
  void (*ov_model_free)(OvModel*);
  int (*ov_compiled_model_create_infer_request)(const OvCompiled*, OvRequest** made);
  void (*ov_compiled_model_free)(OvCompiled*);
  int (*ov_infer_request_set_tensor)(OvRequest*, const char* name, const OvTensor*);
  int (*ov_infer_request_infer)(OvRequest*);
  void (*ov_infer_request_free)(OvRequest*);
  int (*ov_tensor_create_from_host_ptr)(int type, OvShape shape, void* data, OvTensor** made);
  void (*ov_tensor_free)(OvTensor*);
  const char* (*ov_get_last_err_msg)();
  const char* (*ov_get_error_info)(int status);
  OvCore* core = nullptr;  // stays to the end of the process, as the library does

  void check(int status) const {
    if (status == 0) return;
    const char* const last = ov_get_last_err_msg();  // whose memory it is differs between versions
    fail("", {}, "OpenVINO says: ", last && *last ? last : ov_get_error_info(status));
  }
};

const OvLibrary& library() {
  static constinit Lazy<const OvLibrary> instance;
  return instance.get([] {
    constexpr const char* names[] = {"libopenvino_c.so"};
    const EngineLibrary found("OpenVINO", "WEFT_OPENVINO", options().openvino, names);
    OvLibrary made;
    const auto read = [&](const char* name, auto& function) {
      void* const address = found.symbol(name);
      if (!address) found.refuse("is too old, or no C interface of OpenVINO: it has no ", name);
      std::memcpy(&function, &address, sizeof address);
    };
#define WEFT_READ(name) read(#name, made.name)
    WEFT_READ(ov_core_create);
    WEFT_READ(ov_core_read_model_from_memory_buffer);
    WEFT_READ(ov_core_compile_model);
    WEFT_READ(ov_model_const_input_by_name);
    WEFT_READ(ov_model_const_output_by_name);
    WEFT_READ(ov_port_get_element_type);
    WEFT_READ(ov_output_const_port_free);
    WEFT_READ(ov_model_free);
    WEFT_READ(ov_compiled_model_create_infer_request);
    WEFT_READ(ov_compiled_model_free);
    WEFT_READ(ov_infer_request_set_tensor);
    WEFT_READ(ov_infer_request_infer);
    WEFT_READ(ov_infer_request_free);
    WEFT_READ(ov_tensor_create_from_host_ptr);
    WEFT_READ(ov_tensor_free);
    WEFT_READ(ov_get_last_err_msg);
    WEFT_READ(ov_get_error_info);
#undef WEFT_READ
    made.check(made.ov_core_create(&made.core));
    return made;
  });
}

class OvEngineModel final : public EngineModel {
 public:
  OvEngineModel(const std::string& model, const std::vector<EnginePort>& inputs,
                const std::vector<EnginePort>& outputs) {
    for (const std::vector<EnginePort>* list : {&inputs, &outputs})
      for (const EnginePort& each : *list)
        if (each.dtype == DType::f64 && each.rank > 0)
          fail("", {}, "OpenVINO computes f64 in f32, and ", each.name, " is f64");
    struct Read {
      const OvLibrary& ov;
      OvModel* model = nullptr;
      ~Read() {
        if (model) ov.ov_model_free(model);
      }
    } read{ov_};
    ov_.check(ov_.ov_core_read_model_from_memory_buffer(ov_.core, model.data(), model.size(), nullptr, &read.model));
    for (const EnginePort& each : inputs)
      inputs_.push_back({each.name, element_type_of(read.model, ov_.ov_model_const_input_by_name, each)});
    for (const EnginePort& each : outputs)
      outputs_.push_back({each.name, element_type_of(read.model, ov_.ov_model_const_output_by_name, each)});
    // Without the hint of accuracy a CPU that computes in bf16 does it for f32 too.
    const std::string threads = std::to_string(num_threads());
    ov_.check(ov_.ov_core_compile_model(ov_.core, read.model, "CPU", 6, &compiled_, "PERFORMANCE_HINT", "LATENCY",
                                        "EXECUTION_MODE_HINT", "ACCURACY", "INFERENCE_NUM_THREADS", threads.c_str()));
    process_goes_on();
  }
  ~OvEngineModel() override {
    if (!process_goes_on()) return;
    for (OvRequest* each : idle_) ov_.ov_infer_request_free(each);
    ov_.ov_compiled_model_free(compiled_);
  }

  void run(std::span<const ElementsView> inputs, std::span<const ElementsView> outputs) const override {
    const Request request(*this);
    set(request.request, inputs_, inputs);
    set(request.request, outputs_, outputs);
    ov_.check(ov_.ov_infer_request_infer(request.request));
  }

 private:
  struct Port {
    std::string name;
    int element_type;
  };
  // A call's own request: one that no other call has at the moment.
  struct Request {
    const OvEngineModel& model;
    OvRequest* request = nullptr;
    explicit Request(const OvEngineModel& of) : model(of) {
      {
        const std::lock_guard lock(process_mutex(LockOrder::registry));
        if (!model.idle_.empty()) {
          request = model.idle_.back();
          model.idle_.pop_back();
        }
      }
      if (!request) model.ov_.check(model.ov_.ov_compiled_model_create_infer_request(model.compiled_, &request));
    }
    ~Request() {
      const std::lock_guard lock(process_mutex(LockOrder::registry));
      model.idle_.push_back(request);
    }
  };

  template <class Find>
  int element_type_of(const OvModel* model, Find find, const EnginePort& port) const {
    OvPort* found = nullptr;
    ov_.check(find(model, port.name.c_str(), &found));
    int type = 0;
    const int status = ov_.ov_port_get_element_type(found, &type);
    ov_.ov_output_const_port_free(found);
    ov_.check(status);
    return type;
  }
  void set(OvRequest* request, const std::vector<Port>& ports, std::span<const ElementsView> views) const {
    for (std::size_t i = 0; i < ports.size(); ++i) {
      std::vector<std::int64_t> sizes = views[i].sizes;
      OvTensor* tensor = nullptr;
      ov_.check(ov_.ov_tensor_create_from_host_ptr(
          ports[i].element_type, {static_cast<std::int64_t>(sizes.size()), sizes.data()}, views[i].data, &tensor));
      const int status = ov_.ov_infer_request_set_tensor(request, ports[i].name.c_str(), tensor);
      ov_.ov_tensor_free(tensor);
      ov_.check(status);
    }
  }

  const OvLibrary& ov_ = library();
  std::vector<Port> inputs_, outputs_;
  OvCompiled* compiled_ = nullptr;
  mutable std::vector<OvRequest*> idle_;  // under LockOrder::registry
};

}  // namespace

const Engine openvino{"openvino",
                      [](const std::string& model, const std::vector<EnginePort>& inputs,
                         const std::vector<EnginePort>& outputs) -> std::unique_ptr<EngineModel> {
                        return std::make_unique<OvEngineModel>(model, inputs, outputs);
                      }};

}  // namespace weft::onnx
