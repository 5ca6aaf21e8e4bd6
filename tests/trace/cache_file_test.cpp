// Kernels as one file: made where there is a compiler, used where there is none.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/hash.hpp"
#include "base/options.hpp"
#include "runtime/host/jit.hpp"
#include "tests/needs_compiler.hpp"
#include "trace/support.hpp"
#include "weft/cache.hpp"

using namespace weft;
using namespace weft::test;
using namespace trace_test;

namespace {

Tensor kept(const Tensor& x) { return sin(x * 0.8125) * 3.0625 + sum(x); }

struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("weft-pack-" + std::to_string(getpid()));
  std::string directory = std::exchange(options().cache_directory, (path / "cache").string());
  std::string compiler = options().compiler;
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() {
    options().cache_directory = directory;
    options().compiler = compiler;
    std::filesystem::remove_all(path);
  }
};
std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void write(const std::filesystem::path& path, std::string bytes, bool with_digest) {
  if (with_digest) {
    const Digest own = digest(std::string_view(bytes).substr(0, bytes.size() - 16));
    std::memcpy(bytes.data() + bytes.size() - 16, &own.low, 8);
    std::memcpy(bytes.data() + bytes.size() - 8, &own.high, 8);
  }
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace

TEST_CASE("kernels in a file serve a process that has no compiler and no cache" * needs(a_compiler)) {
  Folder folder;
  const std::string file = folder.path / "model.kernels";
  const Tensor x = vector_of({1, 2, 3});
  Numbers expected;
  {
    auto f = compile(kept);
    expected = numbers_of(f(x));
    CHECK(save_cache(file) >= 1);
  }
  options().cache_directory = folder.path / "another";
  options().compiler = "/nowhere/c++";
  const JitCounts before = jit_counts();
  CHECK(load_cache(file) >= 1);
  auto f = compile(kept);
  CHECK(numbers_of(f(x)) == expected);
  CHECK(explain(f, x).fallback.empty());
  CHECK(jit_counts().compiled == before.compiled);
  CHECK(jit_counts().from_disk > before.from_disk);
}

TEST_CASE("a file that does not fit is refused, with what differs" * needs(a_compiler)) {
  Folder folder;
  const std::filesystem::path file = folder.path / "a", other = folder.path / "b";
  auto f = compile([](const Tensor& x) { return x * 1.1875 + 7; });
  f(vector_of({1}));
  save_cache(file);
  const std::string bytes = read(file);
  const auto refused = [&] { return message_of([&] { load_cache(other); }); };
  CHECK(contains(refused(), "[load_cache] " + other.string() + " can't be read: No such file"));
  std::filesystem::create_directory(other);
  CHECK(contains(refused(), "is no regular file"));
  std::filesystem::remove(other);
  REQUIRE(mkfifo(other.c_str(), 0600) == 0);
  CHECK(contains(refused(), "is no regular file"));
  std::filesystem::remove(other);
  write(other, "hello", false);
  CHECK(contains(refused(), "is no file of save_cache"));
  for (const std::size_t at : {std::size_t{12}, bytes.size() / 2, bytes.size() - 3}) {
    std::string damaged = bytes;
    damaged[at] ^= 1;
    write(other, damaged, false);
    CHECK(contains(refused(), "is damaged"));
  }
  write(other, bytes.substr(0, bytes.size() - 40), true);
  CHECK(contains(refused(), "is damaged"));
  std::string changed = bytes;
  const std::size_t at = changed.find("\"instruction set\":\"") + 19;
  changed[at] = 'z';
  write(other, changed, true);
  CHECK(contains(refused(), "was made for another instruction set: z"));
  changed = bytes;
  const std::size_t field = changed.find("\"instruction set\":\"") + 18, end = changed.find('"', field + 1);
  changed.replace(field, end + 1 - field, std::string(end + 1 - field, '5'));  // a number
  write(other, changed, true);
  CHECK(contains(refused(), "is damaged"));
  CHECK(contains(message_of([&] { save_cache("/nonexistent/folder/a"); }),
                 "[save_cache] /nonexistent/folder/a can't be written"));
  options().cache_directory = folder.path / "gone";
  compile([](const Tensor& x) { return x * 1.4375 + 9; })(vector_of({1}));
  std::filesystem::remove_all(folder.path / "gone");
  std::filesystem::remove(file);
  CHECK(
      contains(message_of([&] { save_cache(file); }), "[save_cache] there is no cache folder to take kernels from: "));
  CHECK_FALSE(std::filesystem::exists(file));
}
