// What the tests of the runtime share: folders that go away, options that come back, captured log lines, kernels, and
// programs that pretend to be compilers.
#pragma once
#include <sys/mount.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/fail.hpp"
#include "base/log.hpp"
#include "base/options.hpp"
#include "runtime/directory.hpp"
#include "runtime/host/jit.hpp"
#include "tests/needs.hpp"

namespace weft::test {

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_file(const std::string& path, const std::string& bytes, int mode = 0600) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  chmod(path.c_str(), static_cast<mode_t>(mode));
}

// A private folder of its own for a test.
class Folder {
 public:
  Folder() : path_("/tmp/" + unique_name("weft-test-")) { mkdir(path_.c_str(), 0700); }
  Folder(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  // Without hidden ones: Weft's mark is one.
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      if (std::string name = entry.path().filename(); name[0] != '.') result.push_back(std::move(name));
    return result;
  }
  std::vector<std::string> names_with(const std::string& part) const {
    std::vector<std::string> result = names();
    std::erase_if(result, [&](const std::string& name) { return name.find(part) == name.npos; });
    return result;
  }

 private:
  std::string path_;
};

// What lacks where no file system can be mounted.
inline std::string mounting() {
  const Folder folder;
  if (mount("weft-test", folder.path().c_str(), "tmpfs", 0, "") != 0) return "no file system can be mounted here";
  umount2(folder.path().c_str(), MNT_DETACH);
  return {};
}
// Files of /proc and /sys below a folder.
struct Root : Folder {
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(*this / path).parent_path());
    write_file(*this / path, text);
  }
};

// No file but Weft's mark.
inline bool is_empty(const std::string& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().filename() != ".weft-directory") return false;
  return true;
}

// Puts the options back, so that a test may write into options().
class KeepOptions {
 public:
  KeepOptions() : before_(options()) {}
  KeepOptions(const KeepOptions&) = delete;
  ~KeepOptions() { options() = before_; }

 private:
  ProcessOptions before_;
};

// Sets an environment variable for a while; null removes it.
class KeepVariable {
 public:
  KeepVariable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before, was_set_ = true;
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  KeepVariable(const KeepVariable&) = delete;
  ~KeepVariable() { was_set_ ? setenv(name_, before_.c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::string before_;
  bool was_set_ = false;
};

// Lines that are logged while it lives.
class CaptureLog {
 public:
  CaptureLog() { logging::set_sink(&CaptureLog::take, this); }
  CaptureLog(const CaptureLog&) = delete;
  ~CaptureLog() { logging::set_sink(nullptr, nullptr); }
  std::vector<std::string> lines;
  int count(const std::string& part) const {
    int result = 0;
    for (const std::string& line : lines) result += line.find(part) != line.npos;
    return result;
  }

 private:
  static void take(void* context, std::string_view line) {
    static_cast<CaptureLog*>(context)->lines.emplace_back(line);
  }
};

// One kernel: `int answer()` returns the number. Different numbers are different libraries.
inline std::string unit_answering(int number, const std::string& name = "answer") {
  return concat_text("extern \"C\" __attribute__((visibility(\"default\"))) int ", name, "() { return ", number,
                     "; }\n");
}
inline KernelSource source_answering(int number) { return {.units = {unit_answering(number)}}; }
inline int answer(const Library& library) { return library.function<int()>("answer")(); }

// A shell script that answers --version and then does `body`, in which $out is the name after -o.
inline std::string fake_compiler(const Folder& folder, const std::string& body, const std::string& name = "fake-c++") {
  write_file(folder / name,
             "#!/bin/sh\nif [ \"$1\" = --version ]; then echo fake 1.0; exit 0; fi\nprevious=\nfor each in \"$@\"; do\n"
             "  [ \"$previous\" = -o ] && out=$each\n  previous=$each\ndone\n" +
                 body + "\n",
             0700);
  return folder / name;
}

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

inline std::size_t open_descriptors() {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

// The text of the CompileError that a call throws; empty when it throws none.
template <class Function>
std::string compile_error(Function function) {
  try {
    function();
  } catch (const CompileError& error) {
    return error.what();
  }
  return {};
}

}  // namespace weft::test
