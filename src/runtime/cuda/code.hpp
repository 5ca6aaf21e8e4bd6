// From CUDA source to functions on a device: NVRTC, the disk cache, the driver's loader. In: programs. Out: images
// (cubins, or PTX where the architecture is compute_90, say), and loaded code whose functions are found by name. An
// image is cached under a digest of the source without its comments, NVRTC's version, the architecture and the flags;
// compiling needs no GPU.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/cuda/device.hpp"
#include "runtime/step.hpp"

namespace weft::runtime::cuda {

// What for: to run the code, or only to see whether it compiles, which takes a fifth of the time where NVRTC is asked
// for no more.
enum class Effort { run, check };

// An image for each, from the cache where it has them; `compiled`: of each, whether it was not there. Throws
// CompileError with NVRTC's words, and says where the source was kept.
std::vector<std::string> compile_units(std::span<const std::string> units, const std::string& architecture,
                                       Effort effort = Effort::run, std::vector<bool>* compiled = nullptr);

// What is loaded, as data. Function i is in image i % images.size().
struct CodeImages {
  std::vector<std::string> images, functions;
  static auto fields(auto& self) { return std::tie(self.images, self.functions); }
};

// Code for a target, of a plan that is not made ready: it is kept, and its functions can't be called.
class KeptCode final : public Functions {
 public:
  explicit KeptCode(CodeImages code) : code_(std::move(code)) {}
  void* entry(const std::string& name) const override;
  const CodeImages& code() const { return code_; }

 private:
  CodeImages code_;
};

// Modules on one device, as long as a plan needs them.
class Code final : public Functions {
 public:
  // Compiles, where `images` does not have what was compiled, and loads. Function i is in unit i % units.size().
  // `compiled`: one of the images was not in the cache.
  Code(std::span<const std::string> units, std::span<const std::string> functions, Device device,
       std::vector<std::string> images = {}, bool compiled = false);
  // Loads, and compiles nothing but PTX, which the driver does.
  Code(const CodeImages& code, Device device);
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;

  Function* function(const std::string& name) const;
  void* entry(const std::string& name) const override { return function(name); }
  const std::string& source_path() const { return source_path_; }
  const char* origin() const { return compiled_ ? "compiled" : "found on disk"; }

 private:
  void load(std::span<const std::string> images, std::span<const std::string> functions, Device device);
  struct LoadedModule {
    Device device;
    Module* module = nullptr;
    explicit LoadedModule(Device on) : device(on) {}
    LoadedModule(const LoadedModule&) = delete;
    LoadedModule& operator=(const LoadedModule&) = delete;
    ~LoadedModule();
  };
  std::deque<LoadedModule> modules_;  // a unit each
  std::map<std::string, Function*> functions_;
  std::string source_path_;
  bool compiled_ = false;  // a unit at least
};

}  // namespace weft::runtime::cuda
