// Functions here, and their packages in another process, which has no compiler and nothing cached.
#pragma once
#include <cstdlib>

#include "package/support.hpp"
#include "runtime/host/jit.hpp"

namespace package_test {

// What runs here and there.
struct Way {
  std::string folder;
  bool there;
  int calls = 2;
};

// Here: packages f for these arguments, calls it and writes down what it gives. There: loads it, and holds what it
// gives against that.
template <class R, class... P>
void hold(const Way& way, const std::string& name, R (*f)(P...), const CompileOptions& options,
          std::type_identity_t<P>... argument) {
  CAPTURE(name);
  const std::string file = way.folder + "/" + name + ".weft", results = way.folder + "/" + name + ".results";
  const auto bits = [&](const auto& call) {
    seed(11);
    std::string text;
    for (int i = 0; i < way.calls; ++i) {
      if constexpr (std::is_void_v<R>)
        call(argument...);
      else
        text += bits_of(call(argument...));
      ((text += bits_of(argument)), ...);
    }
    return text;
  };
  if (way.there) {
    const auto packaged = load_package(file).function<R(P...)>("the function");
    const bool same = bits(packaged) == read(results);
    CHECK(same);
  } else {
    const auto compiled = compile(f, options);
    package(file, "the function", compiled, argument...);
    write(results, bits(compiled));
  }
}

// Runs `all` here, and the test case of this name, which calls there(all), in another process.
inline void here_and_there(void (*all)(const Way&), const char* test_case) {
  const Folder folder;
  all({folder.path, false});
  const std::string program = std::filesystem::read_symlink("/proc/self/exe"), log = folder.file("log");
  const std::string command = "WEFT_PACKAGES='" + folder.path.string() + "' WEFT_CXX=/nowhere WEFT_CACHE_DIR='" +
                              folder.file("empty") + "' '" + program + "' --no-intro --test-case='" + test_case +
                              "' > '" + log + "' 2>&1";
  const int status = std::system(command.c_str());
  INFO(read(log));
  CHECK(status == 0);
  CHECK(read(log).find(" 1 passed | 0 failed") != std::string::npos);
}
inline void there(void (*all)(const Way&)) {
  const char* const folder = std::getenv("WEFT_PACKAGES");
  if (!folder) return;
  all({folder, true});
  CHECK(jit_counts().compiled == 0);
  CHECK(jit_counts().from_disk == 0);
}

}  // namespace package_test
