#include "io/fuzz_readers.hpp"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <functional>

#include "base/host_memory.hpp"
#include "io/fuzz.hpp"
#include "io/safetensors.hpp"
#include "io/support.hpp"
#include "weft/io.hpp"

namespace weft::test {
namespace {

// A file in memory that has a path.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(memfd_create("weft", 0)), path_("/proc/self/fd/" + std::to_string(descriptor_)) {}
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  const char* with(const std::string& text) {
    CHECK(ftruncate(descriptor_, 0) == 0);
    CHECK(pwrite(descriptor_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
    return path_.c_str();
  }

 private:
  int descriptor_;
  std::string path_;
};

// Reads each tensor that a file is said to hold.
bool read_all_of(const std::vector<io::NamedTensor>& tensors) {
  for (const io::NamedTensor& each : tensors) (void)numbers(each.value);
  return true;
}
template <class Read>
bool accepted(Read read) {
  try {
    return read();
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

void fuzz_safetensors(int count) {
  const Folder folder;
  const std::string path = folder.file("x");
  struct Model {
    Tensor a = ones({2, 3}), b = arange(4), c = ones({2, 0}), d = from_list<bool>({true});
    Scalar e = 0.5;
    std::int64_t f = 7;
    std::vector<double> g = {1, 2.5};
    std::string text = "text";
  } model;
  io::save(path.c_str(), model);
  const std::vector<std::string> files = {bytes_of(path),
                                          safetensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                                                      R"("b":{"dtype":"U8","shape":[],"data_offsets":[8,9]}})",
                                                      9)};
  MemoryFile file;
  const std::uint64_t held = host_memory_held();
  const FuzzCounts counts = fuzz(files, count, 1, [&](const std::string& text) {
    const char* where = file.with(text);
    const bool whole = accepted([&] { return read_all_of(io::load_tensors(where)); });
    Model place;
    accepted([&] {
      io::load(where, place, {.strict = false, .convert = true});
      return true;
    });
    return whole;
  });
  MESSAGE("safetensors: " << counts.accepted << " accepted, " << counts.refused << " refused");
  CHECK(counts.accepted > count / 100);
  CHECK(counts.refused > count / 4);
  CHECK(host_memory_held() < held + (std::uint64_t{64} << 20));
}

namespace {

// What NumPy's readers make of mutations of these files of golden/.
void fuzz_numpy(const char* what, std::initializer_list<const char*> names, int count,
                const std::function<void(const char*)>& read) {
  std::vector<std::string> files;
  for (const char* name : names) files.push_back(bytes_of(std::string(WEFT_SOURCE_DIR "/tests/io/golden/") + name));
  MemoryFile file;
  const std::uint64_t held = host_memory_held();
  const FuzzCounts counts = fuzz(files, count, 2, [&](const std::string& text) {
    return accepted([&] {
      read(file.with(text));
      return true;
    });
  });
  MESSAGE(std::string(what) << ": " << counts.accepted << " accepted, " << counts.refused << " refused");
  CHECK(counts.accepted > count / 200);
  CHECK(counts.refused > count / 4);
  CHECK(host_memory_held() < held + (std::uint64_t{64} << 20));
}

}  // namespace

void fuzz_npy(int count) {
  fuzz_numpy("NPY", {"rows.npy", "columns.npy", "big_endian.npy", "nothing.npy", "number.npy"}, count,
             [](const char* path) { (void)numbers(io::load_npy(path)); });
}
void fuzz_npz(int count) {
  fuzz_numpy("NPZ", {"stored.npz", "deflated.npz"}, count, [](const char* path) { read_all_of(io::load_npz(path)); });
}

}  // namespace weft::test
