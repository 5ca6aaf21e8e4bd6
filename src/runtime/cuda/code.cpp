#include "runtime/cuda/code.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <thread>

#include "base/ending.hpp"
#include "base/fail.hpp"
#include "base/fork.hpp"
#include "base/log.hpp"
#include "runtime/cache.hpp"
#include "runtime/cache_file.hpp"
#include "weft/version.hpp"

namespace weft::runtime::cuda {
namespace {

std::pair<int, int> nvrtc_version() {
  std::pair<int, int> found;
  nvrtc().nvrtcVersion(&found.first, &found.second);
  return found;
}

// Contraction as on the host: off. Everything else that would change results is off by default.
std::vector<std::string> options_for(const std::string& architecture, Effort effort) {
  std::vector<std::string> flags = {"--gpu-architecture=" + architecture, "--fmad=false", "--std=c++17"};
  if (nvrtc_version() >= std::pair(12, 9)) {
    flags.emplace_back("--minimal");  // without textures and the runtime's functions
    if (effort == Effort::check) flags.emplace_back("--Ofast-compile=max");
  }
  return flags;
}

class ProgramHolder {
 public:
  explicit ProgramHolder(const std::string& source) {
    const int result = nvrtc().nvrtcCreateProgram(&program, source.c_str(), "weft.cu", 0, nullptr, nullptr);
    if (result != 0)
      throw CompileError(concat_text("[cuda] nvrtcCreateProgram: ", nvrtc().nvrtcGetErrorString(result)).c_str());
  }
  ProgramHolder(const ProgramHolder&) = delete;
  ~ProgramHolder() { nvrtc().nvrtcDestroyProgram(&program); }
  Program* program = nullptr;
};

// Comments name lines of the user's program, which do not change the code.
std::string without_comments(std::string_view source) {
  std::string text;
  while (!source.empty()) {
    const std::string_view line = source.substr(0, source.find('\n'));
    source.remove_prefix(std::min(line.size() + 1, source.size()));
    if (!line.starts_with("//")) (text += line) += '\n';
  }
  return text;
}

Digest key_of(std::string_view source, const std::string& architecture, Effort effort) {
  const auto [major, minor] = nvrtc_version();
  Hasher hasher;
  hasher.add("cuda").add(version()).add(static_cast<std::uint64_t>(major)).add(static_cast<std::uint64_t>(minor));
  for (const std::string& option : options_for(architecture, effort)) hasher.add(option);
  return hasher.add(source).digest();
}

std::string keep_source(const std::string& source, const std::string& architecture, Effort effort) {
  return disk_cache()->keep_text(key_of(source, architecture, effort), ".cu", source);
}

bool is_text(const std::string& architecture) { return architecture.starts_with("compute_"); }

std::string compile(const std::string& source, const std::string& architecture, Effort effort) {
  const Nvrtc& call = nvrtc();
  ProgramHolder holder(source);
  std::vector<const char*> arguments;
  const std::vector<std::string> options = options_for(architecture, effort);
  for (const std::string& option : options) arguments.push_back(option.c_str());
  const int result = call.nvrtcCompileProgram(holder.program, static_cast<int>(arguments.size()), arguments.data());
  if (result != 0) {
    std::size_t size = 0;
    call.nvrtcGetProgramLogSize(holder.program, &size);
    std::string log(size, '\0');
    if (size) call.nvrtcGetProgramLog(holder.program, log.data());
    const std::string path = keep_source(source, architecture, effort);
    throw CompileError(concat_text("[cuda] NVRTC: ", call.nvrtcGetErrorString(result), "\n", log.c_str(),
                                   "\n  source: ", path.empty() ? "could not be kept" : path)
                           .c_str());
  }
  const bool text = is_text(architecture);
  std::size_t size = 0;
  if ((text ? call.nvrtcGetPTXSize : call.nvrtcGetCUBINSize)(holder.program, &size) != 0 || size == 0)
    throw CompileError(concat_text("[cuda] NVRTC made no code for ", architecture).c_str());
  std::string image(size, '\0');
  if ((text ? call.nvrtcGetPTX : call.nvrtcGetCUBIN)(holder.program, image.data()) != 0)
    throw CompileError(concat_text("[cuda] NVRTC gave no code for ", architecture).c_str());
  return image;
}

std::string cached_or_compiled(const std::string& source, const std::string& architecture, Effort effort,
                               char& compiled) {
  const Digest key = key_of(without_comments(source), architecture, effort);
  if (std::optional<CacheEntry> entry = find_entry(key)) return std::move(entry->payload);
  compiled = 1;
  const auto start = std::chrono::steady_clock::now();
  std::string cubin = compile(source, architecture, effort);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (logging::enabled(logging::Channel::cache))
    logging::write(logging::Channel::cache, concat_text("compiled ", hex(key), " for ", architecture, ", ",
                                                        cubin.size(), " bytes, ", seconds * 1e3, " ms"));
  const nlohmann::json metadata = {{"kind", "cuda"},
                                   {"weft", version()},
                                   {"flags", options_for(architecture, effort)},
                                   {"compile_seconds", seconds}};
  disk_cache()->store(key, metadata.dump(2), cubin);
  return cubin;
}

}  // namespace

std::vector<std::string> compile_units(std::span<const std::string> units, const std::string& architecture,
                                       Effort effort, std::vector<bool>* compiled) {
  const NotEnding working;  // for the helpers, too
  // No fork may happen inside of NVRTC: its locks would never be free in the child. Other threads wait, which costs
  // little: the units of one call use all cores.
  const std::lock_guard lock(process_mutex(LockOrder::device_compiler));
  std::vector<std::string> cubins(units.size());
  std::vector<std::exception_ptr> errors(units.size());
  std::atomic<std::size_t> next{0};
  std::vector<char> made(units.size());  // by several threads at once, unlike bits of one vector<bool>
  const auto work = [&] {
    for (std::size_t i = next++; i < units.size(); i = next++) {
      try {
        cubins[i] = cached_or_compiled(units[i], architecture, effort, made[i]);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  };
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::jthread> helpers;
  try {
    for (std::size_t i = 1; i < std::min(units.size(), cores); ++i) helpers.emplace_back(work);
  } catch (const std::system_error&) {  // no more threads can be had: those that there are do it all
  }
  work();
  helpers.clear();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  if (compiled) compiled->assign(made.begin(), made.end());
  return cubins;
}

Code::LoadedModule::~LoadedModule() {
  if (!module) return;
  try {  // nothing of it may still be queued
    const NotEnding working;
    wait(device);
    driver().cuModuleUnload(module);
  } catch (const std::exception&) {  // the device is lost, and its modules with it
  }
}

Code::Code(std::span<const std::string> units, std::span<const std::string> functions, Device device,
           std::vector<std::string> images, bool compiled)
    : compiled_(compiled) {
  const std::string architecture(use(device).target->name);
  if (images.empty()) {
    std::vector<bool> each;
    images = compile_units(units, architecture, Effort::run, &each);
    compiled_ = std::ranges::find(each, true) != each.end();
  }
  load(images, functions, device);
  std::string text;
  for (const std::string& unit : units) text += unit;
  source_path_ = keep_source(text, architecture, Effort::run);
}

Code::Code(const CodeImages& code, Device device) {
  use(device);
  load(code.images, code.functions, device);
}

void Code::load(std::span<const std::string> images, std::span<const std::string> functions, Device device) {
  const NotEnding working;
  for (const std::string& image : images)  // a text ends with a zero
    check(driver().cuModuleLoadData(&modules_.emplace_back(device).module, image.c_str()), "cuModuleLoadData");
  WEFT_CHECK(functions.empty() || !modules_.empty(), "functions without an image");
  for (std::size_t i = 0; i < functions.size(); ++i) {
    Module* const module = modules_[i % modules_.size()].module;
    check(driver().cuModuleGetFunction(&functions_[functions[i]], module, functions[i].c_str()), "cuModuleGetFunction");
  }
}

void* KeptCode::entry(const std::string& name) const {
  throw_internal(Loc::current(), concat_text("function ", name, " is kept for a target, and not loaded"));
}

Function* Code::function(const std::string& name) const {
  const auto found = functions_.find(name);
  WEFT_CHECK(found != functions_.end(), "function ", name, " was not loaded");
  return found->second;
}

}  // namespace weft::runtime::cuda
