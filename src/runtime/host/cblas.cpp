#include "runtime/host/cblas.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>

#include "base/fork.hpp"
#include "base/lazy.hpp"
#include "base/options.hpp"

namespace weft::runtime::cblas {

namespace {

template <class Function>
bool read(void* handle, const char* symbol, Function*& function) {
  void* address = dlsym(handle, symbol);
  std::memcpy(&function, &address, sizeof address);
  return address != nullptr;
}

bool has(std::string_view text, std::string_view word) { return text.find(word) != std::string_view::npos; }

// Each of these: whether it is that library, and one that can be used.

bool is_openblas(void* handle, Library& library) {
  constexpr int without_threads = 0, on_openmp = 2;
  const char* (*openblas_get_config)();
  int (*openblas_get_parallel)();
  if (!read(handle, "openblas_get_config", openblas_get_config) ||
      !read(handle, "openblas_get_parallel", openblas_get_parallel))
    return false;
  const std::string_view config = openblas_get_config();  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."
  if (has(config, "USE64BITINT")) return false;
  library.name = config.substr(0, config.find(' ', config.find(' ') + 1));
  library.is_measured = true;
  const int parallel = openblas_get_parallel();
  if (parallel == without_threads) return has(config, "USE_LOCKING");  // else two threads must not call it at once
  return parallel == on_openmp && read(handle, "omp_get_max_threads", library.get_threads) &&
         read(handle, "omp_set_num_threads", library.set_threads);
}

bool is_blis(void* handle, Library& library) {
  long (*bli_info_get_enable_threading)();
  long (*bli_info_get_blas_int_type_size)();
  const char* (*bli_info_get_version_str)();
  if (!read(handle, "bli_info_get_enable_threading", bli_info_get_enable_threading) ||
      !read(handle, "bli_info_get_blas_int_type_size", bli_info_get_blas_int_type_size) ||
      !read(handle, "bli_info_get_version_str", bli_info_get_version_str))
    return false;
  library.name = std::string("BLIS ") + bli_info_get_version_str();
  return bli_info_get_enable_threading() == 0 && bli_info_get_blas_int_type_size() == 32;
}

bool is_mkl(void* handle, Library& library) {
  const char* const layer = std::getenv("MKL_INTERFACE_LAYER");  // its integers have 32 bits unless this says otherwise
  library.name = "MKL";
  return read(handle, "MKL_Set_Num_Threads_Local", library.exchange_threads) && !(layer && has(layer, "ILP64"));
}

}  // namespace

std::shared_ptr<const Library> load(const char* file) {
  const std::lock_guard no_fork(process_mutex(LockOrder::loader));
  void* handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!handle) return nullptr;
  for (const auto is_it : {is_openblas, is_blis, is_mkl}) {
    auto found = std::make_shared<Library>();
    if (read(handle, "cblas_sgemm", found->sgemm) && read(handle, "cblas_dgemm", found->dgemm) && is_it(handle, *found))
      return found;  // it is not given back: another thread may be inside
  }
  dlclose(handle);
  return nullptr;
}

static std::atomic<bool> asked{false};

const Library* library() {
  static constinit Lazy<const std::shared_ptr<const Library>> instance;
  if (options().cblas == 0 || !options().isa.empty()) return nullptr;
  asked.store(true, std::memory_order_relaxed);
  return instance
      .get([]() -> std::shared_ptr<const Library> {
        for (const char* file : {"libopenblas.so.0", "libblis.so.4", "libmkl_rt.so.2", "libcblas.so.3"})
          if (std::shared_ptr<const Library> found = load(file)) return found;
        return nullptr;
      })
      .get();
}

bool was_asked() { return asked.load(std::memory_order_relaxed); }
std::string identity() {
  const Library* const found = library();
  return found ? found->name : "none";
}

Call::Call(const Library& library) : library_(library) {
  if (library_.get_threads) before_ = library_.get_threads(), library_.set_threads(1);
  if (library_.exchange_threads) before_ = library_.exchange_threads(1);
}
Call::~Call() {
  if (library_.set_threads) library_.set_threads(before_);
  if (library_.exchange_threads) library_.exchange_threads(before_);
}

}  // namespace weft::runtime::cblas
