// ONNX Runtime by its C interface, as the peer of programs in C++: the shared library of the Python package, which
// comes without a header. The interface is a table of functions that only grows at its end, so a function is its place
// there (OrtApi of onnxruntime_c_api.h).
#pragma once
#include <dlfcn.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace bench {

// A model of two integer inputs [texts, length], tokens and mask, and one output of floats.
class OnnxRuntime {
 public:
  OnnxRuntime(const char* library, const char* model, int threads) {
    void* const handle = dlopen(library, RTLD_NOW);
    if (!handle) throw std::runtime_error(dlerror());
    struct Base {
      const void* const* (*api)(std::uint32_t version);
    };
    const auto base = reinterpret_cast<const Base* (*)()>(dlsym(handle, "OrtGetApiBase"));
    if (!base) throw std::runtime_error("the library is not ONNX Runtime");
    api_ = base()->api(1);
    constexpr int warnings = 2, all = 99;  // a level of logging, and of optimization
    void *environment = nullptr, *options = nullptr;
    call<create_environment>(warnings, "bench", &environment);
    call<create_options>(&options);
    call<set_optimization>(options, all);
    call<set_threads>(options, threads);
    call<create_session>(environment, model, options, &session_);
    call<create_memory_info>(0, 0, &memory_);
  }
  // Many threads call it at once.
  std::vector<float> operator()(const std::vector<std::int64_t>& tokens, const std::vector<std::int64_t>& mask,
                                std::size_t texts, std::size_t length) const {
    constexpr int of_int64 = 7;
    const std::int64_t sizes[] = {static_cast<std::int64_t>(texts), static_cast<std::int64_t>(length)};
    void *inputs[2] = {}, *output = nullptr, *info = nullptr;
    for (int i = 0; i < 2; ++i) {
      const auto& values = i == 0 ? tokens : mask;
      call<create_tensor>(memory_, const_cast<std::int64_t*>(values.data()), values.size() * sizeof(std::int64_t),
                          &sizes[0], std::size_t{2}, of_int64, &inputs[i]);
    }
    const char *names[] = {"tokens", "mask"}, *result = "vector";
    call<run>(session_, nullptr, &names[0], &inputs[0], std::size_t{2}, &result, std::size_t{1}, &output);
    float* data = nullptr;
    std::size_t count = 0;
    call<tensor_data>(output, &data);
    call<type_and_shape>(output, &info);
    call<element_count>(info, &count);
    std::vector<float> found(data, data + count);
    release<info_of_tensor>(info);
    for (void* each : {inputs[0], inputs[1], output}) release<value>(each);
    return found;
  }

 private:
  // Places in the table.
  enum : int {
    error_message = 2,
    create_environment = 3,
    create_session = 7,
    run = 9,
    create_options = 10,
    set_optimization = 23,
    set_threads = 24,
    create_tensor = 49,
    tensor_data = 51,
    element_count = 64,
    type_and_shape = 65,
    create_memory_info = 69,
    value = 96,
    info_of_tensor = 99
  };
  template <int place, class... Arguments>
  void call(Arguments... arguments) const {
    if (void* const status = reinterpret_cast<void* (*)(Arguments...)>(const_cast<void*>(api_[place]))(arguments...))
      throw std::runtime_error(
          reinterpret_cast<const char* (*)(void*)>(const_cast<void*>(api_[error_message]))(status));
  }
  template <int place>
  void release(void* object) const {
    reinterpret_cast<void (*)(void*)>(const_cast<void*>(api_[place]))(object);
  }

  const void* const* api_ = nullptr;
  void *session_ = nullptr, *memory_ = nullptr;
};

}  // namespace bench
