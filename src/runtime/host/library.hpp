// A loaded shared object of kernels. Loaded from bytes in memory, never from a path that another process could change
// or that this process has used before (the loader would answer with the old code). Plans hold a shared_ptr: the code
// stays as long as somebody may call it.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "base/hash.hpp"
#include "runtime/host/plain_image.hpp"
#include "runtime/step.hpp"

namespace weft {

class Library final : public runtime::Functions {
 public:
  // Loads the bytes and checks the kernel ABI's version and each unit's stamp against `key`. Throws CompileError.
  static std::shared_ptr<Library> load(std::string_view bytes, const Digest& key, std::size_t units);
  // Of another architecture: it is not loaded, and its functions can't be called.
  static std::shared_ptr<Library> keep(std::string_view bytes, const Digest& key, std::size_t units);
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() override;

  // The address of an extern "C" symbol; null when it has none of that name.
  void* find(const char* symbol) const;
  // The same for a function that must be there: throws InternalError.
  template <class Function>
  Function* function(const char* symbol) const {
    return reinterpret_cast<Function*>(require(symbol));
  }

  void* entry(const std::string& name) const override { return require(name.c_str()); }

  const Digest& key() const { return key_; }
  std::size_t units() const { return units_; }
  std::string_view bytes() const { return bytes_; }  // what it was loaded from
  // Where its source can be read; empty when it could not be kept.
  const std::string& source_path() const { return source_path_; }
  void set_source_path(std::string path) { source_path_ = std::move(path); }
  // How this process came by it: "compiled in 225 ms", "found on disk".
  const std::string& origin() const { return origin_; }
  void set_origin(std::string origin) { origin_ = std::move(origin); }

 private:
  Library() = default;
  void* require(const char* symbol) const;
  void check(std::size_t units) const;
  bool is_loaded() const { return handle_ || image_; }

  void* handle_ = nullptr;             // of the system's loader,
  std::unique_ptr<PlainImage> image_;  // or where that has no path to open
  Digest key_;
  std::size_t units_ = 0;
  std::string_view bytes_;  // in copy_, else mapped: all of the memory whose parts the loader has mapped
  std::string copy_, source_path_, origin_;
};

}  // namespace weft
