// Where the engines that run ONNX models are on this machine: as the variables of the environment say, else in the
// package of Python, else where the loader finds them.
#pragma once
#include <dlfcn.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/options.hpp"

namespace weft::test {

inline std::string python() {
  const char* const given = std::getenv("WEFT_TEST_PYTHON");
  return given ? given : "python3";
}

// The first file that fits the pattern inside of a package of Python. Empty: none.
inline std::string file_of_package(const char* package, const char* pattern) {
  const std::string command = python() + " -c 'import glob, importlib.util as u; s = u.find_spec(\"" + package +
                              "\"); print(*sorted(glob.glob(s.submodule_search_locations[0] + \"/" + pattern +
                              "\"))[:1], sep=\"\", end=\"\")' 2>/dev/null";
  std::string path;
  if (FILE* const out = popen(command.c_str(), "r")) {
    std::array<char, 512> part;
    while (const std::size_t count = std::fread(part.data(), 1, part.size(), out)) path.append(part.data(), count);
    pclose(out);
  }
  return path;
}

// Lets Weft use the engine; says what is lacking.
inline std::string find_engine(std::string& option, const char* name, const char* package, const char* pattern) {
  if (!option.empty() || dlopen(name, RTLD_NOW | RTLD_LOCAL)) return "";
  option = file_of_package(package, pattern);
  return option.empty() ? std::string("neither the loader has ") + name + ", nor Python a package " + package : "";
}
inline std::string onnxruntime() {
  return find_engine(options().onnxruntime, "libonnxruntime.so.1", "onnxruntime", "capi/libonnxruntime.so*");
}
inline std::string openvino() {
  return find_engine(options().openvino, "libopenvino_c.so", "openvino", "libs/libopenvino_c.so*");
}

}  // namespace weft::test
