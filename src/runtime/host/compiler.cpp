#include "runtime/host/compiler.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "base/fail.hpp"
#include "base/fork.hpp"
#include "base/lazy.hpp"
#include "base/log.hpp"
#include "base/no_compiler.hpp"
#include "base/options.hpp"
#include "runtime/cache.hpp"
#include "runtime/directory.hpp"
#include "runtime/host/abi.hpp"
#include "runtime/host/process.hpp"

extern char** environ;

namespace weft {

namespace {

constexpr std::size_t largest_library = 1 << 30;
constexpr int lines_shown = 12;

// Ours, without what would change the compiler's output behind our back or send files elsewhere, in a locale whose
// messages are English.
std::vector<std::string> compiler_environment() {
  constexpr std::string_view dropped[] = {"CPATH",
                                          "C_INCLUDE_PATH",
                                          "CPLUS_INCLUDE_PATH",
                                          "LIBRARY_PATH",
                                          "LD_RUN_PATH",
                                          "DEPENDENCIES_OUTPUT",
                                          "SUNPRO_DEPENDENCIES",
                                          "TMPDIR",
                                          "LANG",
                                          "LANGUAGE",
                                          "LC_ALL",
                                          "LC_MESSAGES",
                                          "GCC_EXEC_PREFIX",
                                          "COMPILER_PATH",
                                          "GCC_COMPARE_DEBUG",
                                          "CCC_OVERRIDE_OPTIONS"};
  std::vector<std::string> result = {"LC_ALL=C", "TMPDIR=."};  // "." is the compilation's own folder
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view text = *entry;
    if (std::ranges::find(dropped, text.substr(0, text.find('='))) == std::end(dropped)) result.emplace_back(text);
  }
  return result;
}

bool is_program(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && access(path.c_str(), X_OK) == 0;
}

// Absolute folders of PATH alone: where the program is started from must not decide what it runs.
std::string find_in_path(const std::string& name) {
  const char* variable = std::getenv("PATH");
  std::string_view folders = variable ? variable : "";
  while (!folders.empty()) {
    const std::string_view folder = folders.substr(0, folders.find(':'));
    folders.remove_prefix(std::min(folders.size(), folder.size() + 1));
    const std::string path = std::string(folder) + "/" + name;
    if (folder.starts_with('/') && is_program(path)) return path;
  }
  return {};
}

// Another architecture's: g++ under the name that distributions give it.
std::string find_cross_compiler(Architecture architecture) {
  const std::string prefix = architecture == Architecture::arm64 ? "aarch64-linux-gnu" : "x86_64-linux-gnu";
  if (std::string path = find_in_path(prefix + "-g++"); !path.empty()) return path;
  std::string package = "g++-" + prefix;
  std::ranges::replace(package, '_', '-');
  throw NoCompilerError(concat_text("[compile] no C++ compiler for ", name(architecture), ": ", prefix,
                                    "-g++ is not in PATH (Debian and Ubuntu: apt install ", package, ")")
                            .c_str());
}

std::string find_compiler(Architecture architecture) {
  if (architecture != host_architecture) return find_cross_compiler(architecture);
  const std::string& chosen = options().compiler;
  if (chosen.empty()) {
    for (const char* name : {"c++", "g++", "clang++"}) {
      if (std::string path = find_in_path(name); !path.empty()) return path;
    }
    throw NoCompilerError("[compile] no C++ compiler: none of c++, g++, clang++ is in PATH, and WEFT_CXX is not set");
  }
  const bool is_path = chosen.find('/') != chosen.npos;
  std::string path = is_path ? (is_program(chosen) ? chosen : std::string()) : find_in_path(chosen);
  if (path.empty()) throw NoCompilerError(concat_text("[compile] WEFT_CXX='", chosen, "' is no program").c_str());
  if (path[0] != '/') {  // it is started from another folder
    char resolved[PATH_MAX];
    if (realpath(path.c_str(), resolved)) path = resolved;
  }
  return path;
}

// Changes whenever the compiler's file does.
std::string file_state(const std::string& path) {
  char resolved[PATH_MAX];
  struct stat status {};
  if (!realpath(path.c_str(), resolved) || stat(resolved, &status) != 0) return path;
  return concat_text(path, " -> ", resolved, " inode ", status.st_ino, " size ", status.st_size, " changed ",
                     status.st_mtim.tv_sec, ".", status.st_mtim.tv_nsec, " ", status.st_ctim.tv_sec, ".",
                     status.st_ctim.tv_nsec);
}

std::string first_lines(const std::string& text, int count) {
  std::size_t end = 0;
  while (count-- > 0 && end != text.npos) end = text.find('\n', end + (end ? 1 : 0));
  std::string result = text.substr(0, end);
  while (result.ends_with('\n')) result.pop_back();
  return result;
}

[[noreturn]] void fail_process(const HostCompiler& compiler, const Command& command, const ProcessResult& result) {
  std::string text = concat_text("[compile] ", compiler.path, " ", describe(result, command));
  if (!result.output.empty()) text.append(":\n").append(first_lines(result.output, lines_shown));
  throw CompileError(text.c_str());
}

std::string version_text(const HostCompiler& compiler) {
  Command command;
  command.arguments = {compiler.path, "--version"};
  command.environment = compiler_environment();
  command.deadline = std::min(10.0, options().compile_timeout);
  command.output_limit = 4096;
  const ProcessResult result = run(command);
  if (!result.succeeded()) fail_process(compiler, command, result);
  return result.output;
}

// A shared object for the architecture, all of it, with the stamp of each unit.
std::string reason_to_refuse(const std::string& bytes, const Digest& key, std::size_t units,
                             Architecture architecture) {
  Elf64_Ehdr header;
  if (bytes.size() < sizeof header) return "made an empty output";
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_type != ET_DYN) {
    return "made something that is no shared object";
  }
  const int wanted = elf_machine(architecture);
  if (wanted != EM_NONE && header.e_machine != wanted) return "made code for another processor";
  const std::uint64_t end = header.e_shoff + std::uint64_t{header.e_shnum} * header.e_shentsize;
  if (header.e_shoff > bytes.size() || end > bytes.size()) return "made a truncated output";
  for (std::size_t i = 0; i < units; ++i) {
    if (bytes.find(stamp_bytes(key, i)) == bytes.npos) return "made an output that is not of this source";
  }
  return {};
}

std::string compile_in(const WorkDirectory& work, const HostCompiler& compiler, const std::vector<std::string>& units,
                       InstructionSet isa, const Digest& key, int optimization) {
  Command base;
  base.directory = work.descriptor();
  base.environment = compiler_environment();
  base.deadline = options().compile_timeout;

  const std::vector<std::string> flags = compile_flags(isa, optimization);
  const auto command_of = [&](std::vector<std::string> arguments) {
    Command command = base;
    command.arguments = {compiler.path};
    command.arguments.insert(command.arguments.end(), flags.begin(), flags.end());
    command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
    return command;
  };
  std::vector<Command> commands;
  std::vector<std::string> linked;
  for (std::size_t i = 0; i < units.size(); ++i) {
    const std::string unit = concat_text("unit", i);
    if (!work.write(unit + ".cpp", units[i] + unit_stamp(key, i))) {
      throw CompileError(concat_text("[compile] the source can't be written: ", strerror(errno)).c_str());
    }
    commands.push_back(command_of({"-c", unit + ".cpp", "-o", unit + ".o"}));
    linked.push_back(unit + ".o");
  }
  if (units.size() == 1) {  // one command for both steps is 8 ms faster
    linked = {"unit0.cpp"};
  } else {
    const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    const std::vector<ProcessResult> results = run_all(commands, cores);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!results[i].succeeded()) fail_process(compiler, commands[i], results[i]);
    }
  }
  std::vector<std::string> arguments = linked;
  const std::vector<std::string> link = link_flags();
  arguments.insert(arguments.end(), link.begin(), link.end());
  const Command last = command_of(arguments);
  const ProcessResult result = run(last);
  if (!result.succeeded()) fail_process(compiler, last, result);

  std::optional<std::string> bytes = work.read("kernels.so", largest_library);
  const std::string refusal = bytes ? reason_to_refuse(*bytes, key, units.size(), isa.architecture) : "made no output";
  if (!refusal.empty()) {
    throw CompileError(concat_text("[compile] ", compiler.path, " ended without an error but ", refusal).c_str());
  }
  return std::move(*bytes);
}

bool is_out_of_room(std::string_view message) {
  return message.find("No space left on device") != message.npos || message.find("quota") != message.npos;
}

}  // namespace

HostCompiler host_compiler(Architecture architecture) {
  static constinit Lazy<std::map<std::string, std::string>> versions;  // by the state of the file
  auto& known = versions.get();
  HostCompiler compiler;
  compiler.path = find_compiler(architecture);
  const std::string state = file_state(compiler.path);
  std::unique_lock lock(process_mutex(LockOrder::compiler));
  auto found = known.find(state);
  if (found == known.end()) {
    lock.unlock();  // a fork would wait for the compiler; threads that ask at once may all run it
    const std::string version = version_text(compiler);
    lock.lock();
    found = known.emplace(state, version).first;
  }
  compiler.version = found->second;
  compiler.identity = state + "\n" + compiler.version;
  return compiler;
}

std::string host_compiler_file(Architecture architecture) {
  try {
    return file_state(find_compiler(architecture));
  } catch (const NoCompilerError&) {
    return {};
  }
}

std::vector<std::string> compile_flags(InstructionSet isa, int optimization) {
  std::vector<std::string> flags = {
      "-std=c++20", "-O" + std::to_string(optimization < 0 ? options().kernel_optimization : optimization)};
  if (isa.architecture == Architecture::x86_64) flags.emplace_back("-mprefer-vector-width=512");
  constexpr const char* others[] = {
      // Numerics are the program's, not the compiler's: no -ffast-math or part of it (with -shared it would also turn
      // on flush-to-zero for the whole process), no contraction that the source does not spell out.
      "-fno-math-errno",
      "-fno-trapping-math",
      "-ffp-contract=off",
      "-fno-exceptions",
      "-fno-rtti",
      "-fno-stack-protector",
      "-fPIC",
      "-fvisibility=hidden",
      "-g0",
      "-w",
  };
  flags.insert(flags.end(), std::begin(others), std::end(others));
  if (const std::string_view march = march_flag(isa); !march.empty()) flags.emplace_back(march);
#if defined(WEFT_KERNEL_SANITIZE)  // kernels are watched where Weft is; the process has the sanitizers' libraries
  if (isa.architecture == host_architecture)
    flags.insert(flags.end(), {WEFT_KERNEL_SANITIZE, "-fno-sanitize-recover=all"});
#endif
  return flags;
}

std::vector<std::string> link_flags() {
  return {
      "-shared",
      "-nostdlib",  // a kernel's few calls (memcpy, libm) are found in the process
      "-Wl,--build-id=none",
      "-Wl,--hash-style=gnu",
      "-Wl,-z,noseparate-code",  // 2 mappings a library instead of 5, and a third of the size
      "-Wl,-z,norelro",
      "-Wl,-s",
      "-o",
      "kernels.so",
      "-lgcc",  // operations that the CPU lacks
  };
}

std::string unit_stamp(const Digest& key, std::size_t index) {
  const std::string begin = "extern \"C\" __attribute__((visibility(\"default\"), used)) const ";
  std::string text = "\n" + begin + "unsigned char " + stamp_symbol(index) + "[16] = {";
  for (const unsigned char byte : stamp_bytes(key, index)) text += concat_text(static_cast<int>(byte), ",");
  text += "};\n";
  if (index == 0) text += begin + concat_text("int ", abi_symbol, " = ", kernel_abi, ";\n");
  return text;
}

std::string compile_units(const HostCompiler& compiler, const std::vector<std::string>& units, InstructionSet isa,
                          const Digest& key, int optimization) {
  std::string reasons = "[compile] there is no place for working files";
  for (const std::string& parent : working_paths()) {
    std::string reason;
    if (const std::optional<WorkDirectory> work = WorkDirectory::make(parent, reason)) {
      try {
        return compile_in(*work, compiler, units, isa, key, optimization);
      } catch (const CompileError& error) {
        if (!is_out_of_room(error.what())) throw;
        reason = error.what();
      }
    }
    reasons.append("\n  ").append(parent).append(": ").append(reason);
  }
  throw CompileError(reasons.c_str());
}

}  // namespace weft
