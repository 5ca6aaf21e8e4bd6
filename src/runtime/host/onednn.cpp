#include "runtime/host/onednn.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <mutex>

#include "base/fail.hpp"
#include "base/fork.hpp"
#include "base/lazy.hpp"
#include "base/options.hpp"
#include "runtime/host/isa.hpp"

namespace weft::runtime::onednn {

namespace {
constexpr int cpu = 1;                                             // a kind of engine
constexpr int cpu_avx2 = 0x7, cpu_avx512 = 0x27, cpu_bf16 = 0xe7;  // bits of the CPU's instructions
}  // namespace

std::shared_ptr<const Library> load(const char* file) {
  const std::lock_guard no_fork(process_mutex(LockOrder::loader));
  void* handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!handle) return nullptr;
  auto found = std::make_shared<Library>();
  bool complete = true;
  const auto read = [&](const char* symbol, auto& function) {
    void* address = dlsym(handle, symbol);
    complete = complete && address;
    std::memcpy(&function, &address, sizeof address);
  };
#define WEFT_READ(symbol) read(#symbol, found->symbol)
  WEFT_READ(dnnl_version);
  WEFT_READ(dnnl_get_effective_cpu_isa);
  WEFT_READ(dnnl_engine_create);
  WEFT_READ(dnnl_stream_create);
  WEFT_READ(dnnl_stream_destroy);
  WEFT_READ(dnnl_memory_desc_init_by_strides);
  WEFT_READ(dnnl_memory_desc_init_by_tag);
  WEFT_READ(dnnl_memory_desc_equal);
  WEFT_READ(dnnl_memory_desc_get_size);
  WEFT_READ(dnnl_matmul_desc_init);
  WEFT_READ(dnnl_dilated_convolution_forward_desc_init);
  WEFT_READ(dnnl_dilated_convolution_backward_data_desc_init);
  WEFT_READ(dnnl_dilated_convolution_backward_weights_desc_init);
  WEFT_READ(dnnl_reorder_primitive_desc_create);
  WEFT_READ(dnnl_primitive_desc_query);
  WEFT_READ(dnnl_primitive_attr_create);
  WEFT_READ(dnnl_primitive_attr_destroy);
  WEFT_READ(dnnl_primitive_attr_set_scratchpad_mode);
  WEFT_READ(dnnl_primitive_desc_create);
  WEFT_READ(dnnl_primitive_desc_destroy);
  WEFT_READ(dnnl_primitive_desc_query_md);
  WEFT_READ(dnnl_primitive_create);
  WEFT_READ(dnnl_primitive_destroy);
  WEFT_READ(dnnl_primitive_execute);
  WEFT_READ(dnnl_memory_create);
  WEFT_READ(dnnl_memory_destroy);
#undef WEFT_READ
  const bool usable = complete && found->dnnl_version()->major == 2 && found->dnnl_version()->minor >= 6 &&
                      found->dnnl_engine_create(&found->engine, cpu, 0) == 0;
  if (!usable) return dlclose(handle), nullptr;
  return found;  // neither it nor the engine is given back: another thread may be inside
}

static std::atomic<bool> asked{false};

const Library* library() {
  static constinit Lazy<const std::shared_ptr<const Library>> instance;
  if (!options().onednn) return nullptr;
  asked.store(true, std::memory_order_relaxed);
  return instance.get([] { return load("libdnnl.so.2"); }).get();
}

std::string name(const Library& library) {
  const Version& version = *library.dnnl_version();
  return concat_text("oneDNN ", version.major, ".", version.minor, ".", version.patch);
}

bool was_asked() { return asked.load(std::memory_order_relaxed); }
std::string identity() {
  const Library* const found = library();
  return found ? concat_text(name(*found), ", instructions ", found->dnnl_get_effective_cpu_isa()) : "none";
}

static bool has(const Library& library, int instructions) {
  return (library.dnnl_get_effective_cpu_isa() & instructions) == instructions;
}

bool is_fast(const Library& library, DType dtype) {
  const int wanted = dtype == DType::f32 ? cpu_avx512 : dtype == DType::bf16 ? cpu_bf16 : ~0;
  return target_instruction_set() == InstructionSet(Isa::avx512) && has(library, wanted);
}

bool convolves_fast(const Library& library, DType dtype) {
  if (dtype == DType::bf16) return is_fast(library, dtype);
  return dtype == DType::f32 && target_instruction_set().runs(Isa::avx2) && has(library, cpu_avx2);
}

}  // namespace weft::runtime::onednn
