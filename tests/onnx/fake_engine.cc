// A library that looks like ONNX Runtime and OpenVINO as far as Weft asks them, for engines_found_test.cpp. What it
// does wrong the variable WEFT_FAKE_ENGINE says: old, session, run; else it writes zeros.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <unistd.h>

extern "C" {
int fake_models = 0, fake_inputs = 0;  // models made, and inputs of the last run, as ONNX Runtime
std::atomic<int> fake_compiling =
    0;  // where WEFT_FAKE_ENGINE is wait: models being made, which wait until it is 0, or 5 s
}

namespace {

bool is(const char* what) {
  const char* const wanted = std::getenv("WEFT_FAKE_ENGINE");
  return wanted && std::strcmp(wanted, what) == 0;
}

struct Status {
  const char* text;
};
Status no_session{"the model is not to my taste"}, no_run{"the run was stopped"};
struct Value {
  void* data;
  std::size_t bytes;
};

const char* message(const Status* status) { return status->text; }
Status* make(int, const char*, void** made) { return *made = nullptr, nullptr; }
Status* make_session(const void*, const void*, std::size_t, const void*, void** made) {
  *made = nullptr;
  ++fake_models;
  if (is("wait")) {
    ++fake_compiling;
    for (int i = 0; i < 5000 && fake_compiling > 0; ++i) usleep(1000);
    fake_compiling = 0;
  }
  return is("session") ? &no_session : nullptr;
}
Status* run(void*, const void*, const char* const*, const Value* const*, std::size_t input_count, const char* const*,
            std::size_t count, Value** outputs) {
  fake_inputs = static_cast<int>(input_count);
  if (is("run")) return &no_run;
  for (std::size_t i = 0; i < count; ++i) std::memset(outputs[i]->data, 0, outputs[i]->bytes);
  return nullptr;
}
Status* make_options(void** made) { return *made = nullptr, nullptr; }
Status* set_threads(void*, int) { return nullptr; }
Status* make_tensor(const void*, void* data, std::size_t bytes, const std::int64_t*, std::size_t, int, Value** made) {
  return *made = new Value{data, bytes}, nullptr;
}
Status* make_memory(int, int, void** made) { return *made = nullptr, nullptr; }
void release(void*) {}
void release_value(Value* value) { delete value; }

template <class Function>
const void* address(Function* function) {
  return reinterpret_cast<const void*>(function);
}
const void* const* table(std::uint32_t version) {
  static std::vector<const void*> functions;
  if (is("old") && version > 17) return nullptr;
  functions.assign(256, nullptr);
  functions[2] = address(message), functions[3] = address(make), functions[8] = address(make_session);
  functions[9] = address(run), functions[10] = address(make_options), functions[24] = address(set_threads);
  functions[49] = address(make_tensor), functions[69] = address(make_memory), functions[93] = address(release);
  functions[95] = address(release), functions[96] = address(release_value), functions[100] = address(release);
  return functions.data();
}
struct Base {
  const void* const* (*table)(std::uint32_t);
  const char* (*version)();
};

}  // namespace

extern "C" {
const Base* OrtGetApiBase() {
  static const Base base{table, [] { return "1.17.3"; }};
  return &base;
}

struct Shape {
  std::int64_t rank;
  std::int64_t* sizes;
};
int ov_core_create(void** made) { return *made = nullptr, 0; }
int ov_core_read_model_from_memory_buffer(const void*, const char*, std::size_t, const void*, void** made) {
  *made = nullptr;
  return is("session") ? -1 : 0;
}
int ov_core_compile_model(const void*, const void*, const char*, std::size_t, void** made, ...) {
  return *made = nullptr, 0;
}
int ov_model_const_input_by_name(const void*, const char*, void** port) { return *port = nullptr, 0; }
int ov_model_const_output_by_name(const void*, const char*, void** port) { return *port = nullptr, 0; }
int ov_port_get_element_type(const void*, int* type) { return *type = 4, 0; }
void ov_output_const_port_free(void*) {}
void ov_model_free(void*) {}
int ov_compiled_model_create_infer_request(const void*, void** made) { return *made = nullptr, 0; }
void ov_compiled_model_free(void*) {}
int ov_infer_request_set_tensor(void*, const char*, const void*) { return 0; }
int ov_infer_request_infer(void*) { return is("run") ? -2 : 0; }
void ov_infer_request_free(void*) {}
int ov_tensor_create_from_host_ptr(int, Shape, void*, void** made) { return *made = nullptr, 0; }
void ov_tensor_free(void*) {}
const char* ov_get_last_err_msg() { return is("session") ? no_session.text : nullptr; }
const char* ov_get_error_info(int status) { return status == -2 ? "not implemented" : "general error"; }
}
