#include "runtime/host/jit.hpp"

#include <doctest/doctest.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/no_compiler.hpp"
#include "runtime/cache.hpp"
#include "tests/runtime/support.hpp"

using weft::jit;
using weft::jit_counts;
using weft::KernelSource;
using weft::test::answer;
using weft::test::Folder;
using weft::test::KeepOptions;
using weft::test::mounting;
using weft::test::needs;
using weft::test::source_answering;
using weft::test::unit_answering;

namespace {

struct Bench {
  Folder folder;
  KeepOptions keep;
  Bench() { weft::options().cache_directory = folder.path(); }
};

int run_in_children(int count, int (*body)()) {
  std::vector<pid_t> children;
  for (int i = 0; i < count; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(body());
    children.push_back(child);
  }
  int failures = 0;
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    failures += status != 0;
  }
  return failures;
}

}  // namespace

TEST_CASE("from memory, from disk, compiled") {
  Bench bench;
  const auto start = jit_counts();
  auto first = jit(source_answering(1));
  CHECK(answer(*first) == 1);
  CHECK(jit_counts().compiled == start.compiled + 1);
  CHECK(jit(source_answering(1)) == first);
  CHECK(jit_counts().from_memory == start.from_memory + 1);
  first.reset();
  CHECK(answer(*jit(source_answering(1))) == 1);
  CHECK(jit_counts().from_disk == start.from_disk + 1);
  CHECK(jit_counts().compiled == start.compiled + 1);
  CHECK(jit_counts().compile_seconds > start.compile_seconds);
}

TEST_CASE("a library lives as long as somebody holds it") {
  Bench bench;
  auto held = jit(source_answering(1));
  const auto function = held->function<int()>("answer");
  const std::weak_ptr<weft::Library> watch = held;
  jit(source_answering(2));
  CHECK(function() == 1);
  held.reset();
  CHECK(watch.expired());
}

TEST_CASE("whatever makes the code is in the key") {
  Bench bench;
  const auto compiled = [] { return jit_counts().compiled; };
  const auto start = compiled();
  KernelSource source = source_answering(1);
  const auto one = jit(source);
  source.extra_key = "contracted";
  const auto two = jit(source);
  source.isa = weft::Isa::baseline;
  source.extra_key = {};
  const auto three = weft::host_isa() == weft::Isa::baseline ? nullptr : jit(source);
  CHECK(one != two);
  CHECK(one != three);
  CHECK(compiled() == start + (three ? 3 : 2));
}

TEST_CASE("without a compiler, what any compiler made of the same source is loaded; with one, its own alone") {
  Bench bench;
  const Folder compilers;
  const std::string other = weft::test::fake_compiler(compilers, "c++ \"$@\"");
  const auto start = jit_counts();
  const auto compiled = [&] { return jit_counts().compiled - start.compiled; };
  const auto from_disk = [&] { return jit_counts().from_disk - start.from_disk; };
  const auto no_compiler = [&] { weft::options().compiler = "/no/such/c++"; };
  weft::options().compiler = other;
  CHECK(answer(*jit(source_answering(1))) == 1);
  CHECK(compiled() == 1);
  no_compiler();
  {
    const auto library = jit(source_answering(1));
    CHECK(answer(*library) == 1);
    CHECK(weft::test::read_file(library->source_path()).starts_with(unit_answering(1)));
    CHECK(jit(source_answering(1)) == library);
  }
  CHECK(from_disk() == 1);
  const auto refused = [](const KernelSource& source) {
    try {
      jit(source);
      return false;
    } catch (const weft::NoCompilerError&) {
      return true;
    }
  };
  CHECK(refused(source_answering(2)));
  KernelSource contracted = source_answering(1), plain = source_answering(1);
  contracted.extra_key = "contracted";
  CHECK(refused(contracted));
  if (weft::host_isa() != weft::Isa::baseline) {
    plain.isa = weft::Isa::baseline;
    CHECK(refused(plain));
  }
  weft::options().compiler.clear();
  CHECK(answer(*jit(source_answering(1))) == 1);
  CHECK(compiled() == 2);
  CHECK(from_disk() == 1);
  // Damaged, the one that was used last gives way to the other.
  no_compiler();
  const auto entries = bench.folder.names_with(".weft");
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].substr(0, 16) == entries[1].substr(0, 16));
  weft::test::write_file(bench.folder / entries[0], "damaged");
  CHECK(answer(*jit(source_answering(1))) == 1);
  CHECK(from_disk() == 2);
  weft::test::write_file(bench.folder / entries[1], "damaged");
  CHECK(refused(source_answering(1)));
}

TEST_CASE("without a compiler, an entry whose name is right and whose source is another's is not loaded") {
  Bench bench;
  CHECK(answer(*jit(source_answering(1))) == 1);
  const auto entries = bench.folder.names_with(".weft");
  REQUIRE(entries.size() == 1);
  const weft::Digest key{std::stoull(entries[0].substr(16, 16), nullptr, 16),
                         std::stoull(entries[0].substr(0, 16), nullptr, 16)};
  weft::Cache cache({bench.folder.path()});
  const std::string payload = cache.load(key)->payload;
  weft::options().compiler = "/no/such/c++";
  for (const char* metadata : {"", "{}", "[]", "{\"source\": 1}", "{\"source\": \"00\", \"units\": 1}"}) {
    CAPTURE(metadata);
    REQUIRE(cache.store(key, metadata, payload));
    CHECK_THROWS_AS(jit(source_answering(1)), weft::NoCompilerError);
  }
}

TEST_CASE("without a compiler, the number of cores of who compiled does not matter") {
  Bench bench;
  const std::vector<std::string> units = {unit_answering(1), unit_answering(2, "second")};
  const weft::Digest code = weft::digest("both");
  jit({.units = units, .code = code});
  weft::options().compiler = "/no/such/c++";
  const auto library = jit({.units = {units[0] + units[1]}, .code = code});
  CHECK(answer(*library) == 1);
  CHECK(library->function<int()>("second")() == 2);
}

TEST_CASE("kernels are divided into a unit a core, into fewer when they are few, into more when units would be large") {
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  CHECK(weft::unit_count(0) == 1);
  CHECK(weft::unit_count(3) == 1);
  CHECK(weft::unit_count(8) == std::min<std::size_t>(4, cores));
  CHECK(weft::unit_count(100000) >= 4000);
  CHECK(weft::unit_count(100000) % cores == 0);
}

#if defined(__SANITIZE_ADDRESS__)
TEST_CASE("in a sanitized build kernels are watched too") {
  Bench bench;
  const std::string unit =
      "extern \"C\" __attribute__((visibility(\"default\"))) int at(const int* p, long i) { return p[i]; }\n";
  const auto library = jit({.units = {unit}});
  const auto at = library->function<int(const int*, long)>("at");
  const std::vector<int> values(4, 7);
  CHECK(at(values.data(), 3) == 7);
  const pid_t child = fork();
  if (child == 0) {
    close(STDERR_FILENO);
    volatile const int read_beyond = at(values.data(), 4);
    static_cast<void>(read_beyond);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(status != 0);
}
#endif

TEST_CASE("several units are one library; one that comes twice counts once") {
  Bench bench;
  const std::string one = unit_answering(1, "one"), two = unit_answering(2, "two"), three = unit_answering(3, "three");
  const auto library = jit({.units = {one, two, one, three, two}});
  CHECK(library->function<int()>("one")() == 1);
  CHECK(library->function<int()>("two")() == 2);
  CHECK(library->function<int()>("three")() == 3);
  CHECK(jit({.units = {one, two, three}}) == library);
  CHECK(jit({.units = {one, three, two}}) != library);
}

TEST_CASE("the source can be read, also when it came from disk and its text was removed") {
  Bench bench;
  const KernelSource source{.units = {unit_answering(1, "one"), unit_answering(2, "two")}};
  std::string path;
  {
    const auto library = jit(source);
    path = library->source_path();
    CHECK(path.starts_with(bench.folder.path()));
    CHECK(weft::test::read_file(path) == weft::source_text(source));
  }
  unlink(path.c_str());
  CHECK(jit(source)->source_path() == path);
  CHECK(weft::test::read_file(path) == weft::source_text(source));
}

TEST_CASE("without a cache it works, compiles each time, and the source is still kept") {
  Bench bench;
  weft::options().cache = false;
  const weft::test::KeepVariable temporary("TMPDIR", bench.folder.path().c_str());
  const auto start = jit_counts().compiled;
  for (int i = 0; i < 2; ++i) {
    const auto library = jit(source_answering(1));
    CHECK(answer(*library) == 1);
    CHECK(weft::test::read_file(library->source_path()) == unit_answering(1));
  }
  CHECK(jit_counts().compiled == start + 2);
}

TEST_CASE("a damaged entry is compiled anew, and replaced") {
  Bench bench;
  CHECK(answer(*jit(source_answering(1))) == 1);
  const auto entries = bench.folder.names_with(".weft");
  REQUIRE(entries.size() == 1);
  const std::string good = weft::test::read_file(bench.folder / entries[0]);
  const auto compiled = [] { return jit_counts().compiled; };
  for (std::size_t position : {std::size_t{0}, good.size() / 2, good.size() - 1}) {
    std::string bad = good;
    bad[position] ^= 1;
    weft::test::write_file(bench.folder / entries[0], bad);
    const auto start = compiled();
    CHECK(answer(*jit(source_answering(1))) == 1);
    CHECK(compiled() == start + 1);
    CHECK(answer(*jit(source_answering(1))) == 1);
    CHECK(compiled() == start + 1);
  }
}

TEST_CASE("an entry whose digests are right but whose code is another's is compiled anew") {
  Bench bench;
  const weft::Digest first = jit(source_answering(1))->key();
  const weft::Digest second = jit(source_answering(2))->key();
  const auto cache = weft::disk_cache();
  const auto entry = cache->load(second);
  REQUIRE(entry);
  REQUIRE(cache->store(first, entry->metadata, entry->payload));
  CHECK(answer(*jit(source_answering(1))) == 1);
}

TEST_CASE("threads that ask at once compile once") {
  Bench bench;
  const auto start = jit_counts().compiled;
  std::vector<std::shared_ptr<weft::Library>> found(8);
  std::vector<std::thread> threads;
  for (auto& each : found) threads.emplace_back([&each] { each = jit(source_answering(1)); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& each : found) CHECK(each == found[0]);
  CHECK(answer(*found[0]) == 1);
  CHECK(jit_counts().compiled == start + 1);
}

TEST_CASE("threads that ask at once for what can't be compiled all hear why") {
  Bench bench;
  std::vector<std::string> errors(4);
  std::vector<std::thread> threads;
  for (auto& each : errors) {
    threads.emplace_back([&each] { each = weft::test::compile_error([] { jit({.units = {"nonsense"}}); }); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& error : errors) CHECK(error.find("nonsense") != std::string::npos);
}

TEST_CASE("processes that ask at once are all answered, and one entry is left") {
  Bench bench;
  CHECK(run_in_children(4, [] { return answer(*jit(source_answering(1))) == 1 ? 0 : 1; }) == 0);
  CHECK(bench.folder.names_with(".weft").size() == 1);
  CHECK(bench.folder.names().size() == 2);  // and its source
  const auto start = jit_counts();
  CHECK(answer(*jit(source_answering(1))) == 1);
  CHECK(jit_counts().from_disk == start.from_disk + 1);
}

TEST_CASE("killed while it compiles: the next start is right") {
  Bench bench;
  const weft::test::KeepVariable temporary("TMPDIR", bench.folder.path().c_str());
  for (int i = 0; i < 8; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(answer(*jit(source_answering(i))));
    usleep(static_cast<useconds_t>(10000 * i));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    CHECK(answer(*jit(source_answering(i))) == i);
  }
}

TEST_CASE("a cache on a disk that is full, read-only or refuses to run code" * needs(mounting)) {
  const char* const sizes[] = {"size=8k", "size=16k", "", ""};
  const unsigned long flags[] = {0, 0, MS_NOEXEC, MS_RDONLY};
  for (int i = 0; i < 4; ++i) {
    CAPTURE(i);
    Bench bench;
    REQUIRE(mount("weft-test", bench.folder.path().c_str(), "tmpfs", flags[i], sizes[i]) == 0);
    weft::options().cache_directory = bench.folder / "cache";
    {
      weft::test::CaptureLog capture;
      for (int round = 0; round < 2; ++round) CHECK(answer(*jit(source_answering(1))) == 1);
      CHECK(capture.lines.size() <= 1);
    }
    umount2(bench.folder.path().c_str(), MNT_DETACH);
  }
}

TEST_CASE("names and texts that are hostile stay text") {
  Bench bench;
  KernelSource source = source_answering(3);
  source.extra_key = std::string(
      "\"; rm -rf $HOME; `id` \n*/ #include \"/etc/passwd\" \0 ??"
      "/",
      54);
  CHECK(answer(*jit(source)) == 3);
}
