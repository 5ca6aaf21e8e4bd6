// Compilers that fail in every way, through the one entry point. Each case ends with the real compiler working.
#include "runtime/host/compiler.hpp"

#include <doctest/doctest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/cache.hpp"
#include "tests/runtime/support.hpp"

using weft::jit;
using weft::test::answer;
using weft::test::compile_error;
using weft::test::Folder;
using weft::test::KeepOptions;
using weft::test::KeepVariable;
using weft::test::mounting;
using weft::test::needs;
using weft::test::source_answering;

namespace {

// A cache of its own, and a compiler to be chosen.
struct Bench {
  Folder folder;
  KeepOptions keep;
  Bench() {
    weft::options().cache_directory = folder / "cache";
    weft::options().compiler.clear();
  }
  std::string error_with(const std::string& body, const weft::KernelSource& source = source_answering(1)) {
    weft::options().compiler = weft::test::fake_compiler(folder, body);
    return compile_error([&] { jit(source); });
  }
  std::vector<std::string> entries() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder / "cache")) {
      if (entry.path().extension() == ".weft") names.push_back(entry.path().filename());
    }
    return names;
  }
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

}  // namespace

TEST_CASE("no compiler") {
  Bench bench;
  std::string error;
  {
    const KeepVariable path("PATH", "/no/such/folder:relative:");
    error = compile_error([] { jit(source_answering(1)); });
    CHECK(has(error, "no C++ compiler: none of c++, g++, clang++ is in PATH"));
  }
  CHECK(has(error, "source: " + bench.folder.path()));
  {
    const KeepVariable path("PATH", nullptr);
    CHECK(has(compile_error([] { jit(source_answering(1)); }), "no C++ compiler"));
  }
  weft::options().compiler = "/no/such/c++";
  CHECK(has(compile_error([] { jit(source_answering(1)); }), "WEFT_CXX='/no/such/c++' is no program"));
  weft::options().compiler = "g++ -O3";  // a name, not a command line
  CHECK(has(compile_error([] { jit(source_answering(1)); }), "WEFT_CXX='g++ -O3' is no program"));
  weft::options().compiler.clear();
  CHECK(answer(*jit(source_answering(1))) == 1);
}

TEST_CASE("a failing compiler is reported with its words and the source") {
  Bench bench;
  const std::string error = bench.error_with("echo 'unit0.cpp:1: error: these words'; seq 100; exit 3");
  CHECK(has(error, "exited with status 3"));
  CHECK(has(error, "these words"));
  CHECK(has(error, "\n11\n"));        // its first lines,
  CHECK_FALSE(has(error, "\n50\n"));  // not all
  const std::string path = error.substr(error.find("source: ") + 8);
  CHECK(weft::test::read_file(path) == weft::test::unit_answering(1));
  weft::options().compiler.clear();
  CHECK(answer(*jit(source_answering(1))) == 1);
}

TEST_CASE("the real compiler's words on a unit that is no C++") {
  Bench bench;
  const std::string error = compile_error([] {
    jit({.units = {weft::test::unit_answering(1), "int f() { return nonsense; }"}});
  });
  CHECK(has(error, "unit1.cpp:1:18: error: 'nonsense' was not declared"));
}

TEST_CASE("a compiler that crashes, is killed or hangs") {
  Bench bench;
  CHECK(has(bench.error_with("kill -SEGV $$"), "was killed by signal 11"));
  CHECK(has(bench.error_with("kill -KILL $$"), "was killed by signal 9"));
  weft::options().compile_timeout = 0.2;
  const auto start = std::chrono::steady_clock::now();
  CHECK(has(bench.error_with("sleep 100"), "did not end within 0.2 s and was killed"));
  weft::test::write_file(bench.folder / "silent", "#!/bin/sh\nsleep 100\n", 0700);
  weft::options().compiler = bench.folder / "silent";  // does not even answer --version
  CHECK(has(compile_error([] { jit(source_answering(1)); }), "did not end within 0.2 s"));
  CHECK(weft::test::seconds_since(start) < 5);
  weft::options().compiler.clear();
  weft::options().compile_timeout = 100;
  CHECK(answer(*jit(source_answering(1))) == 1);
}

TEST_CASE("a compiler that can't be executed") {
  Bench bench;
  weft::test::write_file(bench.folder / "odd", "no program at all", 0700);
  weft::options().compiler = bench.folder / "odd";
  CHECK(has(compile_error([] { jit(source_answering(1)); }), "could not be started: Exec format error"));
}

TEST_CASE("a compiler that ends without an error but with a wrong output is refused, and nothing is cached") {
  Bench bench;
  CHECK(answer(*jit(source_answering(5))) == 5);
  CHECK(bench.entries().size() == 1);
  // A library of another source that Weft made: the right ABI, the wrong code.
  const std::string old =
      weft::compile_units(weft::host_compiler(), {weft::test::unit_answering(5)}, weft::host_isa(), {1, 1});
  weft::test::write_file(bench.folder / "old.so", old);

  const std::string refused = "ended without an error but made ";
  CHECK(has(bench.error_with("exit 0"), refused + "no output"));
  CHECK(has(bench.error_with(": > $out"), refused + "an empty output"));
  CHECK(has(bench.error_with("mkdir $out"), refused + "no output"));
  CHECK(has(bench.error_with("mkfifo $out"), refused + "no output"));
  CHECK(has(bench.error_with("seq 1000 > $out"), refused + "something that is no shared object"));
  CHECK(has(bench.error_with("cp /bin/true $out"), refused + "an output that is not of this source"));
  CHECK(has(bench.error_with("cp " + (bench.folder / "old.so") + " $out"),
            refused + "an output that is not of this source"));
  CHECK(has(bench.error_with("echo 'int x;' > x.cpp; c++ -shared x.cpp -o $out"),
            "an output that is not of this source"));
  CHECK(has(bench.error_with("c++ \"$@\" && head -c -1 $out > part && mv part $out"), refused + "a truncated output"));
  CHECK(has(bench.error_with("sed -i 's/weft_kernel_abi = .*;/weft_kernel_abi = 999;/' unit0.cpp; c++ \"$@\""), "ABI"));
  CHECK(has(bench.error_with("sed -i 's/weft_kernel_abi/another/' unit0.cpp; c++ \"$@\""), "ABI"));
  CHECK(bench.entries().size() == 1);
  CHECK(bench.error_with("c++ \"$@\"").empty());  // the fake itself is able to succeed
  CHECK(bench.entries().size() == 2);
}

TEST_CASE("an old object among new ones is refused") {
  Bench bench;
  const weft::KernelSource source{
      .units = {weft::test::unit_answering(1, "one"), weft::test::unit_answering(2, "two")}};
  weft::test::write_file(bench.folder / "old.cpp", weft::test::unit_answering(3, "two"));
  const std::string body =
      "[ $out = unit1.o ] && exec c++ -fPIC -c " + (bench.folder / "old.cpp") + " -o $out; exec c++ \"$@\"";
  CHECK(has(bench.error_with(body, source), "an output that is not of this source"));
  CHECK(has(bench.error_with("[ $out = unit1.o ] && exit 0; exec c++ \"$@\"", source), "unit1.o"));
}

TEST_CASE("a compiler that changes makes new keys") {
  Bench bench;
  const auto compiled = [] { return weft::jit_counts().compiled; };
  const auto start = compiled();
  CHECK(bench.error_with("c++ \"$@\"").empty());
  CHECK(compiled() == start + 1);
  CHECK(bench.error_with("c++ \"$@\" # another").empty());
  CHECK(compiled() == start + 2);
  weft::options().compiler.clear();
  CHECK(answer(*jit(source_answering(1))) == 1);
  CHECK(compiled() == start + 3);
}

TEST_CASE("the environment can't change what is compiled, nor where") {
  Bench bench;
  const std::string trap = bench.folder / "trap";
  const KeepVariable include("CPLUS_INCLUDE_PATH", trap.c_str()), prefix("GCC_EXEC_PREFIX", trap.c_str());
  const KeepVariable dependencies("DEPENDENCIES_OUTPUT", trap.c_str());
  const KeepVariable temporary("TMPDIR", (bench.folder / "not there").c_str()), locale("LC_ALL", "xx_XX.UTF-8");
  CHECK(answer(*jit(source_answering(1))) == 1);
  CHECK_FALSE(std::filesystem::exists(trap));
}

TEST_CASE("the same source gives the same bytes") {
  const std::vector<std::string> units = {weft::test::unit_answering(1, "one"), weft::test::unit_answering(2, "two")};
  const auto make = [&] { return weft::compile_units(weft::host_compiler(), units, weft::host_isa(), {1, 2}); };
  CHECK(make() == make());
}

TEST_CASE("working files are gone afterwards, whatever happened") {
  Bench bench;
  const KeepVariable temporary("TMPDIR", bench.folder.path().c_str());
  const std::size_t before = weft::test::open_descriptors();
  CHECK(answer(*jit(source_answering(1))) == 1);
  bench.error_with("touch a b c; exit 1");
  weft::options().compile_timeout = 0.2;
  bench.error_with("touch a b c; sleep 100");
  const auto names = bench.folder.names_with("weft-");
  REQUIRE(names.size() == 1);
  CHECK(weft::test::is_empty(bench.folder / names[0]));
  CHECK(weft::test::open_descriptors() <= before + 1);  // the cache's folder
}

TEST_CASE("a full disk for temporary files is passed over" * needs(mounting)) {
  Bench bench;
  const Folder small;
  REQUIRE(mount("weft-test", small.path().c_str(), "tmpfs", 0, "size=16k") == 0);
  {
    const KeepVariable temporary("TMPDIR", small.path().c_str());
    CHECK(answer(*jit(source_answering(1))) == 1);
  }
  umount2(small.path().c_str(), MNT_DETACH);
  const std::string full = bench.error_with("echo 'as: unit0.o: No space left on device'; exit 1");
  CHECK(has(full, "No space left on device"));
}

TEST_CASE("without descriptors: a typed error, and the next call works") {
  Bench bench;
  const pid_t child = fork();
  if (child == 0) {
    rlimit limit{3, 3};
    getrlimit(RLIMIT_NOFILE, &limit);
    const rlimit none{3, limit.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    const weft::test::CaptureLog quiet;
    const std::string error = compile_error([] { jit(source_answering(1)); });
    setrlimit(RLIMIT_NOFILE, &limit);
    _exit(has(error, "Too many open files") && answer(*jit(source_answering(1))) == 1 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
}
