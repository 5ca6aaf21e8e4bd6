// ONNX Runtime by its C interface: a table of functions, of which a place is never given to another one. Nothing links
// it and none of its headers is needed: the declarations are ours, of the few functions and numbers that are used.
#include "base/lazy.hpp"
#include "base/options.hpp"
#include "onnx/engine.hpp"
#include "runtime/parallel.hpp"

namespace weft::onnx {
namespace {

struct OrtStatus;
struct OrtEnvironment;
struct OrtSession;
struct OrtSessionOptions;
struct OrtRunOptions;
struct OrtMemory;
struct OrtValue;
constexpr int log_crashes = 4;               // OrtLoggingLevel: what fails is told to the caller
constexpr int arena_allocator = 1;           // OrtAllocatorType
constexpr int default_memory = 0;            // OrtMemType
constexpr std::uint32_t least_version = 23;  // 1.23, the first that has operator set 23; its table has all that is used

struct OrtBase {
  const void* const* (*table)(std::uint32_t version);  // null where the library is older
  const char* (*version)();
};

struct OrtFunctions {
  const char* (*message)(const OrtStatus*);
  OrtStatus* (*create_environment)(int level, const char* name, OrtEnvironment** made);
  OrtStatus* (*create_session)(const OrtEnvironment*, const void* model, std::size_t bytes, const OrtSessionOptions*,
                               OrtSession** made);
  OrtStatus* (*run)(OrtSession*, const OrtRunOptions*, const char* const* input_names, const OrtValue* const* inputs,
                    std::size_t input_count, const char* const* output_names, std::size_t output_count,
                    OrtValue** outputs);
  OrtStatus* (*create_options)(OrtSessionOptions** made);
  OrtStatus* (*set_threads)(OrtSessionOptions*, int threads);
  OrtStatus* (*create_tensor)(const OrtMemory*, void* data, std::size_t bytes, const std::int64_t* sizes,
                              std::size_t rank, int element_type, OrtValue** made);
  OrtStatus* (*create_memory)(int allocator, int kind, OrtMemory** made);
  void (*release_status)(OrtStatus*);
  void (*release_session)(OrtSession*);
  void (*release_value)(OrtValue*);
  void (*release_options)(OrtSessionOptions*);

  explicit OrtFunctions(const void* const* table) {
    const auto read = [table](std::size_t place, auto& function) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(const_cast<void*>(table[place]));
    };
    read(2, message), read(3, create_environment), read(8, create_session), read(9, run), read(10, create_options);
    read(24, set_threads), read(49, create_tensor), read(69, create_memory), read(93, release_status);
    read(95, release_session), read(96, release_value), read(100, release_options);
  }
  void check(OrtStatus* status) const {
    if (!status) return;
    const std::string text = message(status);
    release_status(status);
    fail("", {}, "ONNX Runtime says: ", text);
  }
};

struct OrtLibrary {
  OrtFunctions functions;
  OrtEnvironment* environment = nullptr;  // stays to the end of the process, as the library does
  OrtMemory* memory = nullptr;
};

const OrtLibrary& library() {
  static constinit Lazy<const OrtLibrary> instance;
  return instance.get([] {
    constexpr const char* names[] = {"libonnxruntime.so.1", "libonnxruntime.so"};
    const EngineLibrary found("ONNX Runtime", "WEFT_ONNXRUNTIME", options().onnxruntime, names);
    const auto get_base = reinterpret_cast<const OrtBase* (*)()>(found.symbol("OrtGetApiBase"));
    if (!get_base) found.refuse("has no OrtGetApiBase");
    const OrtBase& base = *get_base();
    const void* const* const table = base.table(least_version);
    if (!table)
      found.refuse("is version ", base.version(), ", which is too old: 1.", least_version,
                   " is needed, for operator set 23");
    OrtLibrary made{OrtFunctions(table)};
    made.functions.check(made.functions.create_environment(log_crashes, "weft", &made.environment));
    made.functions.check(made.functions.create_memory(arena_allocator, default_memory, &made.memory));
    return made;
  });
}

class OrtModel final : public EngineModel {
 public:
  OrtModel(const std::string& model, const std::vector<EnginePort>& inputs, const std::vector<EnginePort>& outputs)
      : inputs_(inputs), outputs_(outputs) {
    for (const EnginePort& each : inputs_) input_names_.push_back(each.name.c_str());
    for (const EnginePort& each : outputs_) output_names_.push_back(each.name.c_str());
    const OrtFunctions& ort = library_.functions;
    OrtSessionOptions* options = nullptr;
    ort.check(ort.create_options(&options));
    OrtStatus* status = ort.set_threads(options, num_threads());
    if (!status) status = ort.create_session(library_.environment, model.data(), model.size(), options, &session_);
    ort.release_options(options);
    ort.check(status);
    process_goes_on();
  }
  ~OrtModel() override {
    if (process_goes_on()) library_.functions.release_session(session_);
  }

  void run(std::span<const ElementsView> inputs, std::span<const ElementsView> outputs) const override {
    const Values read(library_, inputs), written(library_, outputs);
    const OrtFunctions& ort = library_.functions;
    std::vector<OrtValue*> results = written.list;
    ort.check(ort.run(session_, nullptr, input_names_.data(), read.list.data(), read.list.size(), output_names_.data(),
                      results.size(), results.data()));
  }

 private:
  // Tensors over memory of ours.
  struct Values {
    const OrtLibrary& library;
    std::vector<OrtValue*> list;
    Values(const OrtLibrary& library, std::span<const ElementsView> views) : library(library), list(views.size()) {
      try {
        for (std::size_t i = 0; i < views.size(); ++i)
          library.functions.check(library.functions.create_tensor(library.memory, views[i].data, views[i].bytes,
                                                                  views[i].sizes.data(), views[i].sizes.size(),
                                                                  element_type(views[i].dtype), &list[i]));
      } catch (...) {
        release();
        throw;
      }
    }
    ~Values() { release(); }
    void release() {
      for (OrtValue* each : list)
        if (each) library.functions.release_value(each);
    }
  };

  const OrtLibrary& library_ = library();
  const std::vector<EnginePort> inputs_, outputs_;
  std::vector<const char*> input_names_, output_names_;
  OrtSession* session_ = nullptr;
};

}  // namespace

const Engine onnxruntime{"onnxruntime",
                         [](const std::string& model, const std::vector<EnginePort>& inputs,
                            const std::vector<EnginePort>& outputs) -> std::unique_ptr<EngineModel> {
                           return std::make_unique<OrtModel>(model, inputs, outputs);
                         }};

}  // namespace weft::onnx
