// From CUDA source to functions on a device: NVRTC, the disk cache, the driver's loader. In: programs. Out: cubins, and
// loaded code whose functions are found by name. A cubin is cached under a digest of the source without its comments,
// NVRTC's version, the architecture and the flags; compiling needs no GPU.
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

// A cubin for each, from the cache where it has them; `compiled` is set where one was not there. Throws CompileError
// with NVRTC's words, and says where the source was kept.
std::vector<std::string> compile_units(std::span<const std::string> units, const std::string& architecture,
                                       Effort effort = Effort::run, bool* compiled = nullptr);

// Modules on one device, as long as a plan needs them.
class Code final : public Functions {
 public:
  // Compiles and loads. Function i is in unit i % units.size().
  Code(std::span<const std::string> units, std::span<const std::string> functions, Device device);
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;

  Function* function(const std::string& name) const;
  void* entry(const std::string& name) const override { return function(name); }
  const std::string& source_path() const { return source_path_; }
  const char* origin() const { return compiled_ ? "compiled" : "found on disk"; }

 private:
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
