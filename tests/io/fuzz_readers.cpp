#include "io/fuzz_readers.hpp"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <functional>

#include "base/host_memory.hpp"
#include "io/fuzz.hpp"
#include "io/safetensors.hpp"
#include "io/support.hpp"
#include "weft/data.hpp"
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

namespace {

// What a reader of data makes of mutations of these files: tensors, whose elements are read.
void fuzz_data(const char* what, const std::vector<std::string>& files, int count,
               const std::function<Tensor(const char*)>& read, std::string (*repaired)(std::string) = nullptr) {
  MemoryFile file;
  const std::uint64_t held = host_memory_held();
  const FuzzCounts counts = fuzz(files, count, 3, [&](const std::string& text) {
    return accepted([&] {
      (void)numbers(read(file.with(repaired ? repaired(text) : text)));
      return true;
    });
  });
  MESSAGE(std::string(what) << ": " << counts.accepted << " accepted, " << counts.refused << " refused");
  CHECK(counts.accepted > count / 50);
  CHECK(counts.refused > count / 4);
  CHECK(host_memory_held() < held + (std::uint64_t{64} << 20));
}

}  // namespace

namespace {

// A PNG file whose chunks have the checksums of what they hold, so that a mutation gets past them.
std::string with_checksums(std::string png) {
  const auto byte = [&](std::size_t at) { return static_cast<std::size_t>(static_cast<unsigned char>(png[at])); };
  for (std::size_t at = 8; at + 12 <= png.size();) {
    const std::size_t size = byte(at) << 24 | byte(at + 1) << 16 | byte(at + 2) << 8 | byte(at + 3);
    if (size > png.size() - at - 12) break;
    const uLong sum = crc32(0, reinterpret_cast<const Bytef*>(png.data()) + at + 4, static_cast<uInt>(size + 4));
    for (std::size_t i = 0; i < 4; ++i) png[at + 8 + size + i] = static_cast<char>(sum >> (24 - 8 * i));
    at += size + 12;
  }
  return png;
}

}  // namespace

void fuzz_png(int count) {
  std::vector<std::string> files;
  for (const char* name : {"gray.png", "rgba.png", "rgb16.png", "palette.png", "interlaced.png", "bits.png"})
    files.push_back(bytes_of(std::string(WEFT_SOURCE_DIR "/tests/data/golden/") + name));
  fuzz_data(
      "PNG", files, count, [](const char* path) { return data::read_image(path); }, with_checksums);
}
void fuzz_jpeg(int count) {
  std::vector<std::string> files;
  for (const int channels : {1, 3}) {
    const Tensor image = cast(reshape(arange(channels * 24 * 20) * 7, {channels, 24, 20}), DType::u8);
    const Tensor bytes = data::encode_jpeg(image, 60);
    const View<const std::uint8_t> view = bytes.data<std::uint8_t>();
    files.emplace_back(view.begin(), view.end());
  }
  fuzz_data("JPEG", files, count, [](const char* path) { return data::read_image(path); });
}
void fuzz_table(int count) {
  const std::vector<std::string> files = {"a,b,c\n1,2.5,\"x, y\"\n-3,4e2,\"say \"\"no\"\"\"\n5,,z\n",
                                          "a\tb\n1\t2\n3\t4\n"};
  fuzz_data("tables", files, count, [](const char* path) {
    const data::Table table = data::read_table(path);
    for (const std::string& name : table.names()) (void)table.text(name.c_str());
    return table.column(table.names()[0].c_str());
  });
}

}  // namespace weft::test
