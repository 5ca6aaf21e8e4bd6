#include "runtime/host/library.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "base/fail.hpp"
#include "base/fork.hpp"
#include "runtime/cache.hpp"
#include "runtime/directory.hpp"
#include "runtime/host/abi.hpp"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U  // Linux 6.3
#endif

namespace weft {

// Null where the program has no cache: nothing else of the loader's needs one.
[[gnu::weak]] std::vector<std::string> working_paths();

namespace {

// "/proc/self/fd/7", spelled as it never was before in this process: the loader knows libraries by their path, and
// descriptors' numbers come again. The bits of a counter choose between "/" and "/./".
std::string unique_path(int descriptor) {
  static std::atomic<std::uint32_t> counter{0};
  std::string path = "/proc/self/fd";
  for (std::uint32_t bits = counter.fetch_add(1); bits != 0; bits >>= 1) path += bits & 1 ? "/./" : "/";
  return path + concat_text("/", descriptor);
}

Descriptor sealed_memory(std::string_view bytes) {
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  Descriptor memory(memfd_create("weft-kernels", flags | MFD_EXEC));
  if (!memory && errno == EINVAL) memory = Descriptor(memfd_create("weft-kernels", flags));
  constexpr int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
  if (!memory || !write_all(memory.get(), bytes) || fcntl(memory.get(), F_ADD_SEALS, seals) != 0) return {};
  return memory;
}

// The loader's own lock is not free in a child that is forked while a thread is in the loader.
std::unique_lock<ProcessMutex> lock_loader() { return std::unique_lock(process_mutex(LockOrder::loader)); }

void* open_library(const std::string& path, std::string& reason) {
  const auto lock = lock_loader();
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) reason = dlerror();
  return handle;
}

// For systems that refuse to run code from a memfd, or have no /proc: a file that is there while it is opened.
void* load_from_file(std::string_view bytes, std::string& reason) {
  for (const std::string& parent : working_paths ? working_paths() : scratch_paths()) {
    const std::optional<WorkDirectory> work = WorkDirectory::make(parent, reason);
    if (!work) continue;
    if (!work->write("kernels.so", bytes)) {
      reason = strerror(errno);
      continue;
    }
    if (void* handle = open_library(work->path() + "/kernels.so", reason)) return handle;  // else: mounted noexec
  }
  return nullptr;
}

}  // namespace

std::shared_ptr<Library> Library::load(std::string_view bytes, const Digest& key, std::size_t units) {
  const std::shared_ptr<Library> library(new Library);
  library->key_ = key;
  library->units_ = units;
  std::string reason;
  if (Descriptor memory = sealed_memory(bytes)) {
    library->handle_ = open_library(unique_path(memory.get()), reason);
    void* const all =
        library->handle_ ? mmap(nullptr, bytes.size(), PROT_READ, MAP_PRIVATE, memory.get(), 0) : MAP_FAILED;
    if (all != MAP_FAILED) library->bytes_ = {static_cast<const char*>(all), bytes.size()};
  }  // the mapping keeps the memory: programs may have few descriptors
  if (!library->handle_) library->handle_ = load_from_file(bytes, reason);
  if (!library->handle_) {
    std::string why;
    library->image_ = PlainImage::map(bytes, why);
    if (!library->image_)
      throw CompileError(
          concat_text("[compile] kernels can't be loaded: ", reason, "; nor without the system's loader: ", why)
              .c_str());
  }
  if (library->bytes_.empty()) library->bytes_ = library->copy_ = bytes;
  library->check(units);
  return library;
}

std::shared_ptr<Library> Library::keep(std::string_view bytes, const Digest& key, std::size_t units) {
  const std::shared_ptr<Library> library(new Library);
  library->key_ = key;
  library->units_ = units;
  library->bytes_ = library->copy_ = bytes;
  return library;
}

void Library::check(std::size_t units) const {
  const auto* version = static_cast<const int*>(find(abi_symbol));
  if (!version || *version != kernel_abi) {
    throw CompileError("[compile] the kernels are not of this version's ABI and are refused");
  }
  for (std::size_t i = 0; i < units; ++i) {
    const void* stamp = find(stamp_symbol(i).c_str());
    const std::string expected = stamp_bytes(key_, i);
    if (!stamp || std::memcmp(stamp, expected.data(), expected.size()) != 0) {
      throw CompileError("[compile] the kernels that were loaded are not those that were asked for");
    }
  }
}

Library::~Library() {
  const auto lock = lock_loader();
  if (handle_) dlclose(handle_);
  if (copy_.empty() && !bytes_.empty()) munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

void* Library::find(const char* symbol) const {
  if (image_) return image_->find(symbol);
  const auto lock = lock_loader();
  return dlsym(handle_, symbol);
}

void* Library::require(const char* symbol) const {
  if (!is_loaded()) return const_cast<Library*>(this);  // a plan wants an address; nobody runs it
  void* address = find(symbol);
  WEFT_CHECK(address, "kernel ", symbol, " is not in library ", hex(key_));
  return address;
}

}  // namespace weft
